/* config.json of Transformers: whatever is accepted must be countable, or refused with a reason. */
#include <stdlib.h>

#include "fovea/transformer.h"
#include "fuzz.h"

/* More layers only cost time. */
enum { LAYERS = 32 };

static void count(fv_ctx *ctx, const fv_transformer_config *cfg)
{
    fv_params *plan = NULL;
    fv_transformer *t = NULL;
    if (cfg->encoder_layers > LAYERS || cfg->decoder_layers > LAYERS) return;
    if (fv_params_create_plan(ctx, &plan) == FV_OK &&
        fv_transformer_create(plan, cfg, &t) == FV_OK && fv_params_elements(plan) < 1)
        abort();
    fv_transformer_destroy(&t);
    fv_params_destroy(&plan);
}

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_transformer_config cfg;
    fv_scope_begin(ctx);
    if (fv_transformer_config_load(ctx, "config.json", &cfg) == FV_OK) count(ctx, &cfg);
    fv_scope_end(ctx);
    fv_ctx_take_error(ctx); /* settings that cannot be, or do not fit the memory */
    fuzz_check(ctx);
    return 0;
}
