/* Results of translation as texts. */
#include <string.h>

#include "base/checked_math.h"
#include "models/translate.h"

fv_status fv_translations_make(fv_ctx *ctx, int64_t count, int nbest, fv_translations **out)
{
    fv_translations *all = fv_mem_zalloc(&ctx->mem, sizeof *all);
    FV_RETURN_IF(!all, ctx, FV_ERR_MEMORY, "no memory for translations");
    all->ctx = ctx;
    all->count = count;
    all->nbest = nbest < 1 ? 1 : nbest;
    fv_arena_init(&all->arena, &ctx->mem);
    size_t slots;
    if (fv_checked_mul_size((size_t)count, (size_t)all->nbest, &slots)) {
        all->list = fv_arena_array(&all->arena, slots, sizeof *all->list);
        all->filled = fv_arena_array(&all->arena, (size_t)count, sizeof *all->filled);
    }
    if (!all->list || !all->filled) {
        fv_translations_free(&all);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld translations", (long long)count);
    }
    memset(all->filled, 0, (size_t)count * sizeof *all->filled);
    *out = all;
    return FV_OK;
}

void fv_translations_free(fv_translations **translations)
{
    fv_translations *all = *translations;
    if (!all) return;
    fv_ctx *ctx = all->ctx;
    fv_arena_free(&all->arena);
    fv_mem_free(&ctx->mem, all, sizeof *all);
    *translations = NULL;
}

const fv_translation *fv_translations_get(const fv_translations *all, int64_t source, int n)
{
    if (source < 0 || source >= all->count || n < 0 || n >= all->filled[source]) return NULL;
    return &all->list[source * all->nbest + n];
}

/* ---- one translation --------------------------------------------------------------- */

/* Tokens one by one, as a reader would write them: "▁the" and "the</w>" are "the". */
static fv_status spell(fv_ctx *ctx, const fv_tokenizer *tok, int64_t id, fv_arena *arena,
                       const char **out)
{
    fv_text text = {0};
    FV_TRY(fv_tokenizer_decode(ctx, tok, &id, 1, 0, &text));
    const char *from = text.data ? text.data : "";
    size_t bytes = text.data ? text.bytes : 0;
    for (; bytes > 1 && *from == ' '; from++)
        bytes--;
    *out = fv_arena_text(arena, from, bytes);
    fv_text_free(ctx, &text);
    FV_RETURN_IF(!*out, ctx, FV_ERR_MEMORY, "no memory for a token");
    return FV_OK;
}

static fv_status spell_all(fv_ctx *ctx, const fv_tokenizer *tok, int64_t count, const int64_t *ids,
                           fv_arena *arena, const char *const **out)
{
    const char **list = fv_arena_array(arena, (size_t)count, sizeof *list);
    FV_RETURN_IF(!list, ctx, FV_ERR_MEMORY, "no memory for %lld tokens", (long long)count);
    for (int64_t i = 0; i < count; i++)
        FV_TRY(spell(ctx, tok, ids[i], arena, &list[i]));
    *out = list;
    return FV_OK;
}

/* The source position with the largest weight at step t. */
static int64_t strongest(const fv_translation_parts *p, int64_t t)
{
    const float *row = p->weights + t * p->positions;
    int64_t best = 0;
    for (int64_t i = 1; i < p->source_count; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

/* Decodes runs of known tokens, and copies source words in place of unknown tokens. */
static fv_status text_with_replacements(fv_model *t, const fv_translation_parts *p, fv_arena *arena,
                                        const char **out)
{
    fv_ctx *ctx = t->ctx;
    const int64_t *ids = p->target;
    char *text = fv_arena_text(arena, "", 0);
    FV_RETURN_IF(!text, ctx, FV_ERR_MEMORY, "no memory for a translation");
    size_t length = 0;
    for (int64_t i = 0; i < p->target_count;) {
        int64_t end = i;
        fv_text run = {0};
        const char *word = NULL;
        if (ids[i] == t->unknown) {
            end = i + 1;
            FV_TRY(spell(ctx, t->spec.source, p->source[strongest(p, i)], arena, &word));
        } else {
            while (end < p->target_count && ids[end] != t->unknown)
                end++;
            FV_TRY(fv_tokenizer_decode(ctx, t->spec.target, ids + i, (size_t)(end - i),
                                       FV_TOKENIZER_SKIP_SPECIALS, &run));
            word = run.data ? run.data : "";
        }
        const size_t n = strlen(word), gap = length > 0 && *word && *word != ' ';
        char *joined = fv_arena_alloc(arena, length + gap + n + 1);
        if (joined) {
            memcpy(joined, text, length);
            if (gap) joined[length] = ' ';
            memcpy(joined + length + gap, word, n + 1);
        }
        fv_text_free(ctx, &run);
        FV_RETURN_IF(!joined, ctx, FV_ERR_MEMORY, "no memory for a translation");
        text = joined;
        length += gap + n;
        i = end;
    }
    *out = text;
    return FV_OK;
}

static fv_status plain_text(fv_model *t, const int64_t *ids, int64_t count, fv_arena *arena,
                            const char **out)
{
    fv_text text = {0};
    FV_TRY(fv_tokenizer_decode(t->ctx, t->spec.target, ids, (size_t)count,
                               FV_TOKENIZER_SKIP_SPECIALS, &text));
    *out = fv_arena_text(arena, text.data ? text.data : "", text.data ? text.bytes : 0);
    fv_text_free(t->ctx, &text);
    FV_RETURN_IF(!*out, t->ctx, FV_ERR_MEMORY, "no memory for a translation");
    return FV_OK;
}

/* Weights of all steps, cut from `positions` columns to those of the source. */
static fv_status copy_weights(fv_ctx *ctx, const fv_translation_parts *p, fv_arena *arena,
                              fv_translation *out)
{
    const int64_t rows = p->target_count + (p->ended ? 1 : 0), cols = p->source_count;
    float *to = fv_arena_array(arena, (size_t)(rows * cols), sizeof *to);
    FV_RETURN_IF(!to, ctx, FV_ERR_MEMORY, "no memory for an alignment");
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * cols, p->weights + r * p->positions, (size_t)cols * sizeof *to);
    out->weights = to;
    return FV_OK;
}

fv_status fv_translations_put(fv_model *t, fv_translations *all, int64_t source,
                              const fv_translation_parts *p)
{
    fv_ctx *ctx = t->ctx;
    fv_arena *arena = &all->arena;
    fv_translation out = {.score = p->score,
                          .log_prob = p->log_prob,
                          .ended = p->ended,
                          .source_count = p->source_count,
                          .target_count = p->target_count};
    bool unknown = false;
    for (int64_t i = 0; i < p->target_count; i++)
        unknown = unknown || p->target[i] == t->unknown;
    if (p->replace_unknown && unknown && p->weights)
        FV_TRY(text_with_replacements(t, p, arena, &out.text));
    else
        FV_TRY(plain_text(t, p->target, p->target_count, arena, &out.text));
    if (p->weights) {
        if (p->source)
            FV_TRY(spell_all(ctx, t->spec.source, p->source_count, p->source, arena,
                             &out.source_tokens));
        FV_TRY(
            spell_all(ctx, t->spec.target, p->target_count, p->target, arena, &out.target_tokens));
        FV_TRY(copy_weights(ctx, p, arena, &out));
    }
    all->list[source * all->nbest + all->filled[source]++] = out;
    return FV_OK;
}
