/* One vector per text, by the rule of the folder. */
#include <math.h>

#include "models/text_encoder.h"

enum { TOGETHER = 32 }; /* texts in one pass */

struct fv_embedder {
    fv_text_encoder base;
    fv_embedding_rule rule;
    float *values;
    fv_embeddings found;
};

static fv_status set_rule(fv_embedder *e, const fv_embedding_rule *rule)
{
    const fv_model_kind *kind = fv_model_kind_of(e->base.model);
    const int64_t positions = kind->max_length ? kind->max_length(fv_model_self(e->base.model)) : 0;
    FV_RETURN_IF(rule->max_tokens < 0, e->base.ctx, FV_ERR_ARGUMENT, "embedder: max_tokens is %lld",
                 (long long)rule->max_tokens);
    FV_RETURN_IF(rule->pooling != FV_POOLING_FIRST && rule->pooling != FV_POOLING_MEAN, e->base.ctx,
                 FV_ERR_ARGUMENT, "embedder: there is no pooling %d", (int)rule->pooling);
    e->rule = *rule;
    if (positions > 0 && (rule->max_tokens == 0 || rule->max_tokens > positions))
        e->rule.max_tokens = positions;
    e->base.max_tokens = e->rule.max_tokens;
    return FV_OK;
}

static fv_status load_rule(fv_text_encoder *base, const char *folder)
{
    fv_embedding_rule rule;
    FV_TRY(fv_embedding_rule_load(base->ctx, folder, &rule));
    return set_rule((fv_embedder *)base, &rule);
}

static const fv_text_encoder_kind embeds = {
    .ability = FV_CAN_EMBED, .bytes = sizeof(fv_embedder), .prepare = load_rule};

fv_status fv_embedder_open(fv_ctx *ctx, const char *folder, fv_weight_form form, fv_embedder **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_open(ctx, folder, form, &embeds, &base));
    *out = (fv_embedder *)base;
    return FV_OK;
}

fv_status fv_embedder_take(fv_model **model, const char *folder, fv_weight_form form,
                           fv_embedder **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_take(model, folder, form, &embeds, &base));
    *out = (fv_embedder *)base;
    return FV_OK;
}

void fv_embedder_close(fv_embedder **embedder)
{
    if (*embedder) fv_text_encoder_close(&(*embedder)->base);
    *embedder = NULL;
}

const fv_embedding_rule *fv_embedder_rule(const fv_embedder *embedder) { return &embedder->rule; }

fv_status fv_embedder_set_rule(fv_embedder *embedder, const fv_embedding_rule *rule)
{
    return set_rule(embedder, rule);
}

static fv_status embed(fv_text_encoder *base, void *user, int64_t first, const fv_sequences *tokens)
{
    fv_embedder *e = user;
    fv_ctx *ctx = base->ctx;
    const fv_batch batch = fv_batch_of_tokens(tokens);
    const fv_tensor *t =
        fv_model_kind_of(base->model)->embed(ctx, fv_model_self(base->model), &batch, &e->rule);
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t width = fv_tensor_size(t, -1);
    const size_t row = (size_t)width * sizeof(float);
    if (!e->values) {
        e->found.width = width;
        e->values = fv_arena_array(&base->results, (size_t)e->found.count, row);
        FV_RETURN_IF(!e->values, ctx, FV_ERR_MEMORY, "no memory for %lld vectors",
                     (long long)e->found.count);
    }
    return fv_tensor_read(ctx, t, e->values + first * width, (size_t)tokens->count * row);
}

fv_status fv_embed_texts(fv_embedder *embedder, int64_t count, const fv_string *texts,
                         const fv_embeddings **out)
{
    embedder->values = NULL;
    embedder->found = (fv_embeddings){.count = count};
    FV_TRY(fv_text_encoder_run(&embedder->base, count, texts, TOGETHER, embed, embedder));
    embedder->found.values = embedder->values;
    embedder->found.truncated = embedder->base.truncated;
    *out = &embedder->found;
    return FV_OK;
}

double fv_embeddings_cosine(const fv_embeddings *vectors, int64_t i, int64_t j)
{
    const float *a = vectors->values + i * vectors->width,
                *b = vectors->values + j * vectors->width;
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < vectors->width; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}
