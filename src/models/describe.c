/* Texts of pictures and recordings (fovea/translate.h). */
#include "models/translate.h"

static fv_status ready(fv_model *t)
{
    FV_RETURN_IF(!fv_model_can(t, FV_CAN_DESCRIBE) || !t->kind->make_stepper, t->ctx, FV_ERR_FORMAT,
                 "%.150s: a %s model does not describe pictures or recordings",
                 t->folder ? t->folder : "model", t->type);
    return fv_model_load_tokenizers(t);
}

static fv_status search(fv_model *t, const fv_batch *inputs, int64_t max_tokens,
                        const fv_search_config *how, fv_outputs **out)
{
    fv_ctx *ctx = t->ctx;
    fv_stepper stepper;
    const size_t bytes = (size_t)inputs->rows * sizeof(int64_t);
    FV_TRY(t->kind->make_stepper(t->self, inputs, &stepper));
    int64_t *most = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!most, ctx, FV_ERR_MEMORY, "no memory for %lld texts", (long long)inputs->rows);
    for (int64_t i = 0; i < inputs->rows; i++)
        most[i] = max_tokens;
    const fv_status status = fv_search(ctx, &stepper, inputs->rows, most, how, out);
    fv_mem_free(&ctx->mem, most, bytes);
    return status;
}

static fv_status put(fv_model *t, const fv_outputs *outputs, int64_t row, fv_translations *all)
{
    for (int n = 0; n < all->nbest; n++) {
        const fv_output *o = fv_outputs_get(outputs, row, n);
        if (!o) break;
        const fv_translation_parts parts = {.source_count = o->weights ? o->positions : 0,
                                            .target = o->tokens,
                                            .target_count = o->count,
                                            .weights = o->weights,
                                            .positions = o->positions,
                                            .ended = o->ended,
                                            .score = o->score,
                                            .log_prob = o->log_prob};
        FV_TRY(fv_translations_put(t, all, row, &parts));
    }
    return FV_OK;
}

fv_status fv_describe(fv_model *t, const fv_batch *inputs, int64_t max_tokens,
                      const fv_search_config *given, fv_translations **out)
{
    fv_ctx *ctx = t->ctx;
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    if (given) how = *given;
    FV_RETURN_IF(max_tokens < 1, ctx, FV_ERR_ARGUMENT,
                 "describe: max_tokens is %lld, expected 1 up", (long long)max_tokens);
    FV_TRY(ready(t));
    fv_translations *all = NULL;
    fv_outputs *outputs = NULL;
    FV_TRY(fv_translations_make(ctx, inputs->rows, how.nbest, &all));
    fv_scope_begin(ctx);
    fv_status status = inputs->rows > 0 ? search(t, inputs, max_tokens, &how, &outputs) : FV_OK;
    fv_scope_end(ctx);
    for (int64_t i = 0; status == FV_OK && i < inputs->rows; i++)
        status = put(t, outputs, i, all);
    fv_outputs_free(&outputs);
    if (status == FV_OK)
        *out = all;
    else
        fv_translations_free(&all);
    return status;
}
