/* The most likely tokens for the masks in texts. */
#include "fovea/ops.h"
#include "models/text_encoder.h"

struct fv_filler {
    fv_text_encoder base;
    int64_t mask; /* id of the mask token */
    int64_t best; /* of the call */
    fv_filling *rows;
    int64_t capacity;
    fv_fillings found;
};

static fv_status find_mask(fv_text_encoder *base, const char *folder)
{
    fv_filler *f = (fv_filler *)base;
    f->mask = fv_tokenizer_token_to_id(base->tok, "[MASK]", 6);
    if (f->mask < 0) f->mask = fv_tokenizer_token_to_id(base->tok, "<mask>", 6);
    FV_RETURN_IF(f->mask < 0, base->ctx, FV_ERR_UNSUPPORTED,
                 "%.200s: the tokenizer has no token [MASK] or <mask>", folder);
    return FV_OK;
}

static const fv_text_encoder_kind fills = {
    .ability = FV_CAN_FILL, .bytes = sizeof(fv_filler), .prepare = find_mask};

fv_status fv_filler_open(fv_ctx *ctx, const char *folder, fv_weight_form form, fv_filler **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_open(ctx, folder, form, &fills, &base));
    *out = (fv_filler *)base;
    return FV_OK;
}

fv_status fv_filler_take(fv_model **model, const char *folder, fv_weight_form form, fv_filler **out)
{
    fv_text_encoder *base = NULL;
    FV_TRY(fv_text_encoder_take(model, folder, form, &fills, &base));
    *out = (fv_filler *)base;
    return FV_OK;
}

void fv_filler_close(fv_filler **filler)
{
    if (*filler) fv_text_encoder_close(&(*filler)->base);
    *filler = NULL;
}

/* The text with token `at` replaced by `id`, in `results`. */
static fv_status fill(fv_filler *f, const fv_sequences *tokens, int64_t at, int64_t id,
                      const char **out)
{
    fv_text_encoder *e = &f->base;
    const size_t length = (size_t)tokens->length[0];
    int64_t *ids = fv_arena_array(&e->tokens, length, sizeof *ids);
    FV_RETURN_IF(!ids, e->ctx, FV_ERR_MEMORY, "no memory for a text of %zu tokens", length);
    for (size_t i = 0; i < length; i++)
        ids[i] = (int64_t)i == at ? id : tokens->tokens[0][i];
    fv_text text = {0};
    FV_TRY(fv_tokenizer_decode(e->ctx, e->tok, ids, length, FV_TOKENIZER_SKIP_SPECIALS, &text));
    *out = fv_arena_text(&e->results, text.data ? text.data : "", text.data ? text.bytes : 0);
    fv_text_free(e->ctx, &text);
    FV_RETURN_IF(!*out, e->ctx, FV_ERR_MEMORY, "no memory for a text");
    return FV_OK;
}

/* Adds the best tokens for the mask at one position. */
static fv_status add_rows(fv_filler *f, int64_t text, const fv_sequences *tokens, int64_t at,
                          int64_t best, const float *p, const int64_t *ids)
{
    f->rows = fv_text_encoder_grow(&f->base, f->rows, f->found.count, &f->capacity, best,
                                   sizeof *f->rows);
    if (!f->rows) return FV_ERR_MEMORY;
    for (int64_t i = 0; i < best; i++) {
        fv_filling *row = &f->rows[f->found.count++];
        *row = (fv_filling){.text = text,
                            .position = at,
                            .id = ids[i],
                            .p = (double)p[i],
                            .token = fv_tokenizer_id_to_token(f->base.tok, ids[i]).text};
        FV_TRY(fill(f, tokens, at, ids[i], &row->filled));
    }
    return FV_OK;
}

/* One text: all its masks in one pass. */
static fv_status fill_text(fv_text_encoder *e, void *user, int64_t text, const fv_sequences *tokens)
{
    fv_filler *f = user;
    fv_ctx *ctx = e->ctx;
    int64_t masks = 0;
    int64_t *positions = fv_arena_array(&e->tokens, (size_t)tokens->length[0], sizeof *positions);
    FV_RETURN_IF(!positions, ctx, FV_ERR_MEMORY, "no memory for masked positions");
    for (int64_t i = 0; i < tokens->length[0]; i++)
        if (tokens->tokens[0][i] == f->mask) positions[masks++] = i;
    if (masks == 0) return FV_OK;
    const void *row = positions;
    fv_batch batch = fv_batch_of_tokens(tokens);
    fv_batch_add(&batch,
                 (fv_field){.name = "positions", .dtype = FV_I64, .row = &row, .length = &masks});
    fv_tensor *logits =
        fv_model_kind_of(e->model)->fill_mask(ctx, fv_model_self(e->model), &batch, NULL);
    if (ctx->error != FV_OK) return ctx->error;
    const int64_t vocabulary = fv_tensor_size(logits, -1);
    const int64_t best = f->best < vocabulary ? f->best : vocabulary;
    fv_tensor *index = NULL;
    fv_tensor *top = fv_topk(ctx, fv_softmax(ctx, logits, -1), best, &index);
    const size_t count = (size_t)(masks * best);
    float *p = NULL;
    int64_t *ids = fv_arena_array(&e->tokens, count, sizeof *ids);
    FV_RETURN_IF(!ids, ctx, FV_ERR_MEMORY, "no memory for %zu tokens", count);
    FV_TRY(fv_text_encoder_read(e, top, &p));
    FV_TRY(fv_tensor_read(ctx, index, ids, count * sizeof *ids));
    for (int64_t i = 0; i < masks; i++)
        FV_TRY(add_rows(f, text, tokens, positions[i], best, p + i * best, ids + i * best));
    return FV_OK;
}

fv_status fv_fill_masks(fv_filler *filler, int64_t count, const fv_string *texts, int64_t best,
                        const fv_fillings **out)
{
    FV_RETURN_IF(best < 1, filler->base.ctx, FV_ERR_ARGUMENT, "fill: the best %lld tokens",
                 (long long)best);
    filler->best = best;
    filler->rows = NULL;
    filler->capacity = 0;
    filler->found = (fv_fillings){0};
    FV_TRY(fv_text_encoder_run(&filler->base, count, texts, 1, fill_text, filler));
    filler->found.row = filler->rows;
    *out = &filler->found;
    return FV_OK;
}
