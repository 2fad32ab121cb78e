/* A translator in memory and in its folder. */
#include <string.h>

#include "fovea/model.h"
#include "fovea/train.h"
#include "io/file.h"
#include "models/translate.h"

#define SOURCE "source_tokenizer.json"
#define TARGET "target_tokenizer.json"
#define SHARED "tokenizer.json" /* of both sides */

static fv_status special(fv_ctx *ctx, const fv_tokenizer *tok, const char *token, int64_t *out)
{
    *out = fv_tokenizer_id(tok, token, strlen(token));
    FV_RETURN_IF(*out < 0, ctx, FV_ERR_ARGUMENT, "the target's tokenizer has no token \"%s\"",
                 token);
    return FV_OK;
}

/* ---- making --------------------------------------------------------------------------- */

static fv_status recurrent(fv_translator *t, const fv_seq2seq_config *settings)
{
    fv_seq2seq_config cfg = *settings;
    fv_seq2seq *model = NULL;
    cfg.source_tokens = (int64_t)fv_tokenizer_size(t->source);
    cfg.target_tokens = (int64_t)fv_tokenizer_size(t->target);
    FV_FORWARD(special(t->ctx, t->target, "<s>", &cfg.start));
    FV_FORWARD(special(t->ctx, t->target, "</s>", &cfg.end));
    FV_FORWARD(fv_seq2seq_create(t->params, &cfg, &model));
    t->model = fv_seq2seq_pairs(model);
    return FV_OK;
}

static fv_status transformer(fv_translator *t, const fv_transformer_config *settings)
{
    fv_transformer_config cfg = *settings;
    fv_transformer *model = NULL;
    cfg.vocabulary = (int64_t)fv_tokenizer_size(t->source);
    cfg.target_vocabulary = t->target == t->source ? 0 : (int64_t)fv_tokenizer_size(t->target);
    FV_FORWARD(special(t->ctx, t->target, "<s>", &cfg.start));
    FV_FORWARD(special(t->ctx, t->target, "</s>", &cfg.end));
    cfg.pad = fv_tokenizer_id(t->target, "<pad>", 5);
    FV_FORWARD(fv_transformer_create(t->params, &cfg, &model));
    const fv_status status = fv_transformer_pairs(model, &t->model);
    if (status != FV_OK) fv_transformer_destroy(&model);
    t->transformer = model;
    return status;
}

/* Exactly one of the settings is given. */
static fv_status build(fv_translator *t, const fv_seq2seq_config *s, const fv_transformer_config *x)
{
    fv_ctx *ctx = t->ctx;
    t->unknown = fv_tokenizer_id(t->target, "<unk>", 5);
    FV_FORWARD(fv_params_create(ctx, &t->params));
    FV_FORWARD(s ? recurrent(t, s) : transformer(t, x));
    FV_FORWARD(fv_encoder_create(ctx, t->source, &t->source_encoder));
    return fv_encoder_create(ctx, t->target, &t->target_encoder);
}

static fv_status create(fv_ctx *ctx, const fv_seq2seq_config *s, const fv_transformer_config *x,
                        fv_tokenizer *source, fv_tokenizer *target, fv_translator **out)
{
    fv_translator *t = fv_mem_zalloc(&ctx->mem, sizeof *t);
    if (!t) {
        if (target != source) fv_tokenizer_destroy(&target);
        fv_tokenizer_destroy(&source);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for a translator");
    }
    t->ctx = ctx;
    t->source = source;
    t->target = target;
    const fv_status status = build(t, s, x);
    if (status == FV_OK)
        *out = t;
    else
        fv_translator_destroy(&t);
    return status;
}

fv_status fv_translator_create(fv_ctx *ctx, const fv_seq2seq_config *cfg, fv_tokenizer *source,
                               fv_tokenizer *target, fv_translator **out)
{
    return create(ctx, cfg, NULL, source, target, out);
}

fv_status fv_translator_create_transformer(fv_ctx *ctx, const fv_transformer_config *cfg,
                                           fv_tokenizer *source, fv_tokenizer *target,
                                           fv_translator **out)
{
    return create(ctx, NULL, cfg, source, target, out);
}

void fv_translator_destroy(fv_translator **translator)
{
    fv_translator *t = *translator;
    if (!t) return;
    fv_encoder_destroy(&t->source_encoder);
    fv_encoder_destroy(&t->target_encoder);
    if (t->target != t->source) fv_tokenizer_destroy(&t->target);
    fv_tokenizer_destroy(&t->source);
    if (t->model.self) t->model.destroy(t->model.self);
    fv_params_destroy(&t->params);
    fv_mem_free(&t->ctx->mem, t, sizeof *t);
    *translator = NULL;
}

/* ---- folders ----------------------------------------------------------------------- */

fv_status fv_translator_save_settings(fv_translator *t, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_FORWARD(t->model.save(t->ctx, t->model.self, folder));
    if (t->source == t->target) return fv_tokenizer_save_folder(t->ctx, t->source, folder);
    FV_FORWARD(fv_path_join(t->ctx, path, folder, SOURCE));
    FV_FORWARD(fv_tokenizer_save(t->ctx, t->source, path));
    FV_FORWARD(fv_path_join(t->ctx, path, folder, TARGET));
    return fv_tokenizer_save(t->ctx, t->target, path);
}

fv_status fv_translator_load_tokenizers(fv_ctx *ctx, const char *folder, fv_tokenizer **source,
                                        fv_tokenizer **target)
{
    char path[FV_PATH_BYTES];
    FV_FORWARD(fv_path_join(ctx, path, folder, SOURCE));
    if (!fv_file_exists(ctx, path)) {
        FV_FORWARD(fv_path_join(ctx, path, folder, SHARED));
        FV_FORWARD(fv_tokenizer_load(ctx, path, source));
        *target = *source;
        return FV_OK;
    }
    FV_FORWARD(fv_tokenizer_load(ctx, path, source));
    fv_status status = fv_path_join(ctx, path, folder, TARGET);
    if (status == FV_OK) status = fv_tokenizer_load(ctx, path, target);
    if (status != FV_OK) fv_tokenizer_destroy(source);
    return status;
}

/* A model's vocabularies against the tokenizers beside it. */
static fv_status check_sizes(const fv_translator *t, const char *folder, int64_t source,
                             int64_t target)
{
    const int64_t has_source = (int64_t)fv_tokenizer_size(t->source),
                  has_target = (int64_t)fv_tokenizer_size(t->target);
    FV_RETURN_IF(source != has_source || target != has_target, t->ctx, FV_ERR_FORMAT,
                 "%.100s: config.json says %lld and %lld tokens, the tokenizers have %lld and %lld",
                 folder, (long long)source, (long long)target, (long long)has_source,
                 (long long)has_target);
    return FV_OK;
}

static fv_status load_recurrent(fv_ctx *ctx, const char *folder, const char *config,
                                fv_translator **out)
{
    fv_seq2seq_config cfg;
    fv_tokenizer *source = NULL, *target = NULL;
    FV_FORWARD(fv_seq2seq_config_load(ctx, config, &cfg));
    FV_FORWARD(fv_translator_load_tokenizers(ctx, folder, &source, &target));
    FV_FORWARD(fv_translator_create(ctx, &cfg, source, target, out));
    return check_sizes(*out, folder, cfg.source_tokens, cfg.target_tokens);
}

static fv_status load_transformer(fv_ctx *ctx, const char *folder, const char *config,
                                  fv_translator **out)
{
    fv_transformer_config cfg;
    fv_tokenizer *source = NULL, *target = NULL;
    FV_FORWARD(fv_transformer_config_load(ctx, config, &cfg));
    FV_RETURN_IF(cfg.encoder_layers < 1 || cfg.decoder_layers < 1, ctx, FV_ERR_FORMAT,
                 "%.200s: not a translator: it has %s", config,
                 cfg.decoder_layers < 1 ? "no decoder" : "no encoder");
    FV_FORWARD(fv_translator_load_tokenizers(ctx, folder, &source, &target));
    FV_FORWARD(fv_translator_create_transformer(ctx, &cfg, source, target, out));
    return check_sizes(*out, folder, cfg.vocabulary,
                       cfg.target_vocabulary ? cfg.target_vocabulary : cfg.vocabulary);
}

fv_status fv_translator_load(fv_ctx *ctx, const char *folder, fv_translator **out)
{
    char path[FV_PATH_BYTES];
    bool recurrent_one = false;
    fv_translator *t = NULL;
    FV_FORWARD(fv_path_join(ctx, path, folder, "config.json"));
    FV_FORWARD(fv_model_is_recurrent(ctx, path, &recurrent_one));
    fv_status status = (recurrent_one ? load_recurrent : load_transformer)(ctx, folder, path, &t);
    if (status == FV_OK) status = fv_path_join(ctx, path, folder, "model.safetensors");
    if (status == FV_OK) status = fv_params_load(t->params, path);
    if (status == FV_OK)
        *out = t;
    else
        fv_translator_destroy(&t);
    return status;
}

fv_ctx *fv_translator_context(const fv_translator *t) { return t->ctx; }
fv_params *fv_translator_params(const fv_translator *t) { return t->params; }
const fv_pair_model *fv_translator_model(const fv_translator *t) { return &t->model; }
fv_transformer *fv_translator_transformer(const fv_translator *t) { return t->transformer; }

fv_status fv_parallel_create(fv_translator *t, fv_parallel **out)
{
    return fv_parallel_create_with(t->ctx, t->source_encoder, t->target_encoder, out);
}
