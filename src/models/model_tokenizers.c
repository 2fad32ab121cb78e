/* Tokenizers of source and target, in a model's folder and in memory. */
#include <string.h>

#include "models/model.h"

#define SOURCE "source_tokenizer.json"
#define TARGET "target_tokenizer.json"
#define SHARED "tokenizer.json" /* of both sides */

fv_status fv_spec_token(fv_ctx *ctx, const fv_data_spec *spec, const char *token, int64_t *out)
{
    *out = fv_tokenizer_token_to_id(spec->target, token, strlen(token));
    FV_RETURN_IF(*out < 0, ctx, FV_ERR_ARGUMENT, "the target's tokenizer has no token \"%s\"",
                 token);
    return FV_OK;
}

fv_status fv_has_tokenizer_pair(fv_ctx *ctx, const char *folder, bool *out)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, SOURCE));
    *out = fv_file_exists(ctx, path);
    return FV_OK;
}

fv_status fv_load_tokenizer_pair(fv_ctx *ctx, const char *folder, fv_tokenizer **source,
                                 fv_tokenizer **target)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, SOURCE));
    if (!fv_file_exists(ctx, path)) {
        FV_TRY(fv_path_join(ctx, path, folder, SHARED));
        FV_TRY(fv_tokenizer_load(ctx, path, source));
        *target = *source;
        return FV_OK;
    }
    FV_TRY(fv_tokenizer_load(ctx, path, source));
    fv_status status = fv_path_join(ctx, path, folder, TARGET);
    if (status == FV_OK) status = fv_tokenizer_load(ctx, path, target);
    if (status != FV_OK) fv_tokenizer_destroy(source);
    return status;
}

fv_status fv_model_make_encoders(fv_model *m)
{
    if (!m->spec.source || m->source_encoder) return FV_OK;
    m->unknown = fv_tokenizer_token_to_id(m->spec.target, "<unk>", 5);
    FV_TRY(fv_tokenizer_encoder_create(m->ctx, m->spec.source, &m->source_encoder));
    return fv_tokenizer_encoder_create(m->ctx, m->spec.target, &m->target_encoder);
}

fv_status fv_model_load_tokenizers(fv_model *m)
{
    if (!m->spec.source) {
        FV_RETURN_IF(!m->folder, m->ctx, FV_ERR_STATE, "a %s model without tokenizers", m->type);
        FV_TRY(fv_load_tokenizer_pair(m->ctx, m->folder, &m->spec.source, &m->spec.target));
    }
    return fv_model_make_encoders(m);
}

fv_status fv_model_save_tokenizers(const fv_model *m, const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_ctx *ctx = m->ctx;
    if (!m->spec.source) return FV_OK;
    if (m->spec.source == m->spec.target)
        return fv_tokenizer_save_folder(ctx, m->spec.source, folder);
    FV_TRY(fv_path_join(ctx, path, folder, SOURCE));
    FV_TRY(fv_tokenizer_save(ctx, m->spec.source, path));
    FV_TRY(fv_path_join(ctx, path, folder, TARGET));
    return fv_tokenizer_save(ctx, m->spec.target, path);
}
