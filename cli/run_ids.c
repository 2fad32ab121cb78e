/* fovea run MODEL --ids F.npy --logits OUT.npy: one pass over given tokens, for exact comparisons
 * with other libraries. */
#include <math.h>
#include <stdlib.h>

#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "input.h"
#include "model.h"
#include "output.h"
#include "run.h"

/* Numbers with a fraction, and those that are not numbers, are no ids. */
static fv_status check_whole(fv_ctx *ctx, const char *path, fv_tensor *ids)
{
    fv_status status = fv_ctx_error(ctx);
    const size_t count = (size_t)fv_tensor_count(ids), bytes = count * sizeof(double);
    double *values = malloc(bytes ? bytes : 1);
    if (!values) status = fv_ctx_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    if (status == FV_OK) status = fv_tensor_read(ctx, fv_cast(ctx, ids, FV_F64), values, bytes);
    for (size_t i = 0; i < count && status == FV_OK; i++)
        if (!(values[i] == floor(values[i]) && fabs(values[i]) < 9e15))
            status =
                fv_ctx_fail(ctx, FV_ERR_FORMAT, "%s: element %zu is %.9g, expected a whole number",
                            path, i, values[i]);
    free(values);
    return status;
}

fv_tensor *cli_load_i64_option(fv_ctx *ctx, const cli_call *call, const char *option,
                               fv_status *status)
{
    const char *path = cli_text(call, option);
    fv_npy *file = NULL;
    if (!path || *status != FV_OK) return NULL;
    *status = fv_npy_open(ctx, path, &file);
    if (*status != FV_OK) return NULL;
    fv_tensor *ids = fv_npy_load(ctx, file, "");
    fv_npy_close(&file);
    const fv_dtype type = fv_tensor_dtype(ids);
    if (type != FV_I64 && type != FV_I32 && type != FV_U8) *status = check_whole(ctx, path, ids);
    if (*status != FV_OK) return NULL;
    if (type != FV_I64) ids = fv_cast(ctx, ids, FV_I64);
    if (fv_tensor_rank(ids) == 1) ids = fv_unsqueeze(ctx, ids, 0);
    *status = fv_ctx_error(ctx);
    return ids;
}

/* Those of its head; the last states of an encoder without one. */
static fv_tensor *logits_of_encoder(fv_ctx *ctx, const fv_transformer *t, const fv_token_rows *rows)
{
    const fv_transformer_config *cfg = fv_transformer_settings(t);
    fv_tensor *states = fv_transformer_encode(ctx, t, rows, NULL);
    if (cfg->mlm_head) return fv_transformer_logits(ctx, t, states);
    if (cfg->labels > 0) return fv_transformer_labels(ctx, t, rows, states, NULL);
    return cfg->spans ? fv_transformer_spans(ctx, t, states) : states;
}

static fv_tensor *logits_of(fv_ctx *ctx, const fv_transformer *t, const fv_token_rows *rows,
                            const fv_token_rows *target)
{
    const fv_transformer_config *cfg = fv_transformer_settings(t);
    if (cfg->decoder_layers == 0) return logits_of_encoder(ctx, t, rows);
    if (cfg->encoder_layers == 0)
        return fv_transformer_logits(ctx, t, fv_transformer_decode(ctx, t, rows, NULL, NULL, NULL));
    fv_tensor *memory = fv_transformer_encode(ctx, t, rows, NULL);
    return fv_transformer_logits(ctx, t, fv_transformer_decode(ctx, t, target, memory, rows, NULL));
}

static int check_options(const cli_call *call, const fv_transformer *t)
{
    if (!t) {
        cli_error("run: --ids is for Transformers; %s is another kind of model", call->words[0]);
        return CLI_USAGE;
    }
    const fv_transformer_config *cfg = fv_transformer_settings(t);
    const bool both = cfg->encoder_layers > 0 && cfg->decoder_layers > 0;
    if (both != cli_given(call, "decoder-ids")) {
        cli_error(both ? "run: an encoder-decoder needs --decoder-ids"
                       : "run: --decoder-ids is for encoder-decoders");
        return CLI_USAGE;
    }
    if (cli_given(call, "type-ids") && cfg->types == 0) {
        cli_error("run: --type-ids: this model has no token types");
        return CLI_USAGE;
    }
    return CLI_DONE;
}

static fv_status write_logits(fv_ctx *ctx, const cli_call *call, const fv_transformer *t)
{
    fv_status status = FV_OK;
    const fv_token_rows rows = {.ids = cli_load_i64_option(ctx, call, "ids", &status),
                                .types = cli_load_i64_option(ctx, call, "type-ids", &status),
                                .mask = cli_load_i64_option(ctx, call, "mask", &status)};
    const fv_token_rows target = {.ids = cli_load_i64_option(ctx, call, "decoder-ids", &status)};
    if (status != FV_OK) return status;
    fv_tensor *logits = logits_of(ctx, t, &rows, &target);
    return fv_npy_save(ctx, logits, cli_text(call, "logits"));
}

int cli_run_ids(const cli_call *call)
{
    int code = CLI_FAILED;
    fv_model *model = NULL;
    if (!cli_given(call, "logits")) {
        cli_error("run: --ids needs --logits OUT.npy");
        return CLI_USAGE;
    }
    if (call->word_count > 1) {
        cli_error("run: expected a text or --ids, not both; the text is '%s'", call->words[1]);
        return CLI_USAGE;
    }
    fv_ctx *ctx = cli_context(call, 0, &code);
    if (!ctx) return code;
    fv_status status = cli_open_model(ctx, call, call->words[0], &model);
    code = CLI_DONE;
    if (status == FV_OK) code = check_options(call, fv_model_transformer(model));
    if (status == FV_OK && code == CLI_DONE && cli_weight_form(call) != FV_WEIGHT_F32)
        status = fv_transformer_pack(fv_model_transformer(model), cli_weight_form(call));
    if (status == FV_OK && code == CLI_DONE) {
        fv_no_grad_begin(ctx);
        status = write_logits(ctx, call, fv_model_transformer(model));
        fv_no_grad_end(ctx);
    }
    if (status != FV_OK) code = cli_library_error("run", ctx, status);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    return code;
}
