/* Opens an encoder with its tokenizer, and passes texts through it in batches. */
#include "models/text_encoder.h"

#include <string.h>

#include "fovea/autograd.h"

/* ---- open and close ------------------------------------------------------------------------ */

static fv_status prepare(fv_text_encoder *e, const char *folder, fv_weight_form form,
                         const fv_text_encoder_kind *kind)
{
    fv_ctx *ctx = e->ctx;
    const fv_model_kind *model_kind = fv_model_kind_of(e->model);
    FV_RETURN_IF(!fv_model_can(e->model, kind->ability), ctx, FV_ERR_UNSUPPORTED,
                 "%.200s: a %s model cannot %s: it has no such head", folder,
                 fv_model_type(e->model), fv_ability_name(kind->ability));
    FV_TRY(fv_tokenizer_load(ctx, folder, &e->tok));
    FV_TRY(fv_tokenizer_encoder_create(ctx, e->tok, &e->enc));
    if (kind->prepare) FV_TRY(kind->prepare(e, folder));
    if (form == FV_WEIGHT_F32 || !model_kind->pack) return FV_OK;
    return model_kind->pack(fv_model_self(e->model), form);
}

fv_status fv_text_encoder_take(fv_model **model, const char *folder, fv_weight_form form,
                               const fv_text_encoder_kind *kind, fv_text_encoder **out)
{
    fv_ctx *ctx = fv_model_ctx(*model);
    if (ctx->error != FV_OK) return ctx->error;
    fv_text_encoder *e = fv_mem_zalloc(&ctx->mem, kind->bytes);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder of texts");
    e->ctx = ctx;
    e->model = *model;
    e->bytes = kind->bytes;
    fv_arena_init(&e->tokens, &ctx->mem);
    fv_arena_init(&e->results, &ctx->mem);
    const fv_status status = prepare(e, folder, form, kind);
    if (status == FV_OK) {
        *model = NULL;
        *out = e;
        return FV_OK;
    }
    e->model = NULL;
    fv_text_encoder_close(e);
    return status;
}

fv_status fv_text_encoder_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                               const fv_text_encoder_kind *kind, fv_text_encoder **out)
{
    fv_model *model = NULL;
    FV_TRY(fv_model_open(ctx, folder, &model));
    const fv_status status = fv_text_encoder_take(&model, folder, form, kind, out);
    fv_model_close(&model);
    return status;
}

void fv_text_encoder_close(fv_text_encoder *e)
{
    if (!e) return;
    fv_arena_free(&e->tokens);
    fv_arena_free(&e->results);
    fv_tokenizer_encoder_destroy(&e->enc);
    fv_tokenizer_destroy(&e->tok);
    fv_model_close(&e->model);
    fv_mem_free(&e->ctx->mem, e, e->bytes);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Tokens of a text, cut so that the special tokens at its end stay. */
static fv_status encode(fv_text_encoder *e, int64_t number, fv_string text, const int64_t **tokens,
                        int64_t *length)
{
    fv_encoding x = {.struct_size = sizeof x};
    FV_TRY(fv_tokenizer_encode(e->enc, text.text, text.bytes, FV_TOKENIZER_ADD_SPECIALS, &x));
    FV_RETURN_IF(x.count == 0, e->ctx, FV_ERR_ARGUMENT, "text %lld has no tokens",
                 (long long)number);
    const size_t limit = (size_t)e->max_tokens;
    size_t specials = 0, count = x.count; /* specials: at the end */
    while (specials < count && x.special_tokens_mask[count - 1 - specials])
        specials++;
    if (limit > 0 && count > limit && specials < limit) {
        count = limit;
        e->truncated++;
    }
    int64_t *list = fv_arena_array(&e->tokens, count, sizeof *list);
    fv_token_span *spans = fv_arena_array(&e->tokens, count, sizeof *spans);
    FV_RETURN_IF(!list || !spans, e->ctx, FV_ERR_MEMORY, "no memory for a text of %zu tokens",
                 count);
    for (size_t i = 0; i < count; i++) {
        const size_t from = i < count - specials ? i : x.count - count + i;
        list[i] = x.ids[from];
        spans[i] = x.offsets[from];
    }
    *tokens = list;
    e->spans = spans;
    *length = (int64_t)count;
    return FV_OK;
}

/* Tokens of a pair and which of its texts each belongs to. */
static fv_status encode_pair(fv_text_encoder *e, int64_t number, const fv_text_pair *pair,
                             const int64_t **tokens, const int64_t **types, int64_t *length)
{
    fv_encoding x = {.struct_size = sizeof x};
    FV_TRY(
        fv_tokenizer_encode_pair(e->enc, pair->first, pair->second, FV_TOKENIZER_ADD_SPECIALS, &x));
    FV_RETURN_IF(x.count == 0, e->ctx, FV_ERR_ARGUMENT, "pair %lld has no tokens",
                 (long long)number);
    int64_t *list = fv_arena_array(&e->tokens, x.count, sizeof *list);
    int64_t *kinds = fv_arena_array(&e->tokens, x.count, sizeof *kinds);
    FV_RETURN_IF(!list || !kinds, e->ctx, FV_ERR_MEMORY, "no memory for a pair of %zu tokens",
                 x.count);
    for (size_t i = 0; i < x.count; i++) {
        list[i] = x.ids[i];
        kinds[i] = x.type_ids[i];
    }
    *tokens = list;
    *types = kinds;
    *length = (int64_t)x.count;
    return FV_OK;
}

/* What a call reads: texts, or pairs. */
typedef struct input {
    const fv_string *texts;
    const fv_text_pair *pairs;
} input;

static fv_status run_batch(fv_text_encoder *e, int64_t first, int64_t count, const input *in,
                           fv_text_pass_fn *pass, void *user)
{
    const int64_t **tokens = fv_arena_array(&e->tokens, (size_t)count, sizeof *tokens);
    const int64_t **types = fv_arena_array(&e->tokens, (size_t)count, sizeof *types);
    int64_t *lengths = fv_arena_array(&e->tokens, (size_t)count, sizeof *lengths);
    FV_RETURN_IF(!tokens || !types || !lengths, e->ctx, FV_ERR_MEMORY, "no memory for %lld texts",
                 (long long)count);
    for (int64_t i = 0; i < count; i++)
        FV_TRY(in->pairs ? encode_pair(e, first + i, &in->pairs[first + i], &tokens[i], &types[i],
                                       &lengths[i])
                         : encode(e, first + i, in->texts[first + i], &tokens[i], &lengths[i]));
    const fv_sequences all = {
        .count = count, .tokens = tokens, .length = lengths, .types = in->pairs ? types : NULL};
    fv_scope_begin(e->ctx);
    fv_no_grad_begin(e->ctx);
    const fv_status status = pass(e, user, first, &all);
    fv_no_grad_end(e->ctx);
    fv_scope_end(e->ctx);
    return status;
}

static fv_status run_all(fv_text_encoder *e, int64_t count, const input *in, int64_t together,
                         fv_text_pass_fn *pass, void *user)
{
    fv_ctx *ctx = e->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(count < 1 || (!in->texts && !in->pairs), ctx, FV_ERR_ARGUMENT,
                 "no texts: their number is %lld", (long long)count);
    fv_arena_free(&e->results);
    e->truncated = 0;
    fv_status status = FV_OK;
    for (int64_t done = 0; done < count && status == FV_OK; done += together) {
        const int64_t rest = count - done;
        status = run_batch(e, done, rest < together ? rest : together, in, pass, user);
        fv_arena_free(&e->tokens);
    }
    return status;
}

fv_status fv_text_encoder_run(fv_text_encoder *e, int64_t count, const fv_string *texts,
                              int64_t together, fv_text_pass_fn *pass, void *user)
{
    return run_all(e, count, &(input){.texts = texts}, together, pass, user);
}

fv_status fv_text_encoder_run_pairs(fv_text_encoder *e, int64_t count, const fv_text_pair *pairs,
                                    int64_t together, fv_text_pass_fn *pass, void *user)
{
    return run_all(e, count, &(input){.pairs = pairs}, together, pass, user);
}

/* ---- results -------------------------------------------------------------------------------- */

fv_status fv_text_encoder_read(fv_text_encoder *e, const fv_tensor *t, float **out)
{
    fv_ctx *ctx = e->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const size_t count = (size_t)fv_tensor_count(t);
    *out = fv_arena_array(&e->results, count, sizeof **out);
    FV_RETURN_IF(!*out, ctx, FV_ERR_MEMORY, "no memory for %zu numbers", count);
    return fv_tensor_read(ctx, t, *out, count * sizeof **out);
}

void *fv_text_encoder_grow(fv_text_encoder *e, void *array, int64_t count, int64_t *capacity,
                           int64_t more, size_t bytes)
{
    if (count + more <= *capacity) return array;
    const int64_t wanted = 2 * (count + more);
    void *larger = fv_arena_array(&e->results, (size_t)wanted, bytes);
    if (!larger) {
        (void)fv_fail(e->ctx, FV_ERR_MEMORY, "no memory for %lld results", (long long)wanted);
        return NULL;
    }
    if (count > 0) memcpy(larger, array, (size_t)count * bytes);
    *capacity = wanted;
    return larger;
}
