#include "fovea/score.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/rng.h"
#include "io/sort.h"
#include "io/utf8.h"
#include "text/scorer.h"

void fv_score_config_init(fv_score_config *cfg, size_t struct_size, fv_score_metric metric)
{
    const fv_score_config defaults = {.struct_size = struct_size,
                                      .metric = metric,
                                      .smooth_value = -1,
                                      .order = 4,
                                      .char_order = 6,
                                      .beta = 2,
                                      .seed = 12345};
    fv_config_fill(cfg, struct_size, &defaults, sizeof defaults);
}

static const fv_score_kind *kind_of(const fv_scorer *scorer)
{
    return scorer->cfg.metric == FV_SCORE_BLEU ? &fv_score_bleu : &fv_score_chrf;
}

static fv_status check_config(fv_ctx *ctx, const fv_score_config *c)
{
    FV_RETURN_IF((unsigned)c->metric > FV_SCORE_CHRF, ctx, FV_ERR_ARGUMENT, "score: no metric %d",
                 (int)c->metric);
    FV_RETURN_IF((unsigned)c->tokenizer > FV_SCORE_SPLIT ||
                     (unsigned)c->smooth > FV_SCORE_NO_SMOOTH,
                 ctx, FV_ERR_ARGUMENT, "score: no such tokenizer or smoothing");
    FV_RETURN_IF(c->order < 1 || c->order > FV_SCORE_ORDERS || c->char_order < 1 ||
                     c->char_order > FV_SCORE_ORDERS || c->word_order < 0 ||
                     c->word_order > FV_SCORE_ORDERS,
                 ctx, FV_ERR_ARGUMENT, "score: orders reach from 1 to %d", FV_SCORE_ORDERS);
    FV_RETURN_IF(c->beta < 0 || c->beta > 1000, ctx, FV_ERR_ARGUMENT,
                 "score: beta must be from 0 to 1000, not %d", c->beta);
    FV_RETURN_IF(!(c->smooth_value <= 1e6), ctx, FV_ERR_ARGUMENT,
                 "score: the smoothing value must be at most 1e6");
    FV_RETURN_IF(c->samples < 0 || c->samples > 10000000, ctx, FV_ERR_ARGUMENT,
                 "score: samples must be from 0 to 10,000,000, not %d", c->samples);
    return FV_OK;
}

fv_status fv_scorer_create(fv_ctx *ctx, const fv_score_config *cfg, fv_scorer **out)
{
    fv_score_config own;
    fv_score_config_init(&own, sizeof own, FV_SCORE_BLEU);
    memcpy(&own, cfg, cfg->struct_size < sizeof own ? cfg->struct_size : sizeof own);
    FV_FORWARD(check_config(ctx, &own));
    fv_scorer *scorer = fv_mem_zalloc(&ctx->mem, sizeof *scorer);
    FV_RETURN_IF(!scorer, ctx, FV_ERR_MEMORY, "score: out of memory");
    scorer->ctx = ctx;
    scorer->cfg = own;
    scorer->width = kind_of(scorer)->width(&own);
    fv_ngrams_init(&scorer->chars, ctx);
    fv_ngrams_init(&scorer->words, ctx);
    fv_runes_init(&scorer->runes, ctx);
    *out = scorer;
    return FV_OK;
}

void fv_scorer_destroy(fv_scorer **scorer)
{
    fv_scorer *s = *scorer;
    if (!s) return;
    fv_mem *mem = &s->ctx->mem;
    fv_ngrams_free(&s->chars);
    fv_ngrams_free(&s->words);
    fv_runes_free(&s->runes);
    fv_text_free(s->ctx, &s->lowered);
    fv_text_free(s->ctx, &s->tokens);
    fv_text_free(s->ctx, &s->spare);
    fv_mem_free(mem, s->symbols.items, s->symbols.room * sizeof *s->symbols.items);
    fv_mem_free(mem, s->rows, s->row_room * sizeof *s->rows);
    fv_mem_free(mem, s, sizeof *s);
    *scorer = NULL;
}

size_t fv_scorer_segments(const fv_scorer *scorer) { return scorer->segments; }

/* ---- counting -------------------------------------------------------------------- */

static fv_status check_text(fv_scorer *scorer, fv_string text)
{
    FV_RETURN_IF(!text.text, scorer->ctx, FV_ERR_ARGUMENT, "score: segment %zu has a NULL text",
                 scorer->segments + 1);
    FV_RETURN_IF(text.bytes >= UINT32_MAX, scorer->ctx, FV_ERR_LIMIT,
                 "score: segment %zu has 4 GiB or more", scorer->segments + 1);
    FV_RETURN_IF(!fv_utf8_valid(text.text, text.bytes), scorer->ctx, FV_ERR_FORMAT,
                 "score: segment %zu is not valid UTF-8", scorer->segments + 1);
    return FV_OK;
}

/* All texts of a segment in lower case, one after the other; `texts` then points there. */
static fv_status lower_all(fv_scorer *scorer, fv_string *texts, size_t count)
{
    scorer->lowered.bytes = 0;
    for (size_t i = 0; i < count; i++) {
        FV_FORWARD(fv_runes_decode(&scorer->runes, texts[i].text, texts[i].bytes));
        FV_FORWARD(fv_runes_lower(&scorer->runes, true));
        FV_FORWARD(fv_runes_encode(&scorer->runes, &scorer->spare));
        texts[i].bytes = scorer->spare.bytes;
        FV_FORWARD(
            fv_text_append(scorer->ctx, &scorer->lowered, scorer->spare.data, scorer->spare.bytes));
    }
    const char *at = scorer->lowered.data;
    for (size_t i = 0; i < count; i++) {
        texts[i].text = at;
        at += texts[i].bytes;
    }
    return FV_OK;
}

static fv_status count_segment(fv_scorer *scorer, fv_string *texts, size_t references)
{
    for (size_t i = 0; i <= references; i++)
        FV_FORWARD(check_text(scorer, texts[i]));
    if (scorer->cfg.lowercase) FV_FORWARD(lower_all(scorer, texts, references + 1));
    size_t used = scorer->segments * scorer->width;
    int64_t *rows = fv_mem_grow(&scorer->ctx->mem, scorer->rows, &scorer->row_room,
                                used + scorer->width, sizeof *rows);
    FV_RETURN_IF(!rows, scorer->ctx, FV_ERR_MEMORY, "score: out of memory");
    scorer->rows = rows;
    fv_ngrams_clear(&scorer->chars);
    fv_ngrams_clear(&scorer->words);
    return kind_of(scorer)->count(scorer, texts[0], texts + 1, references, rows + used);
}

fv_status fv_scorer_add(fv_scorer *scorer, fv_string hypothesis, const fv_string *references,
                        size_t count)
{
    fv_ctx *ctx = scorer->ctx;
    size_t bytes;
    FV_RETURN_IF(count == 0, ctx, FV_ERR_ARGUMENT, "score: segment %zu has no reference",
                 scorer->segments + 1);
    FV_RETURN_IF(count == SIZE_MAX || !fv_mul_size(count + 1, sizeof(fv_string), &bytes), ctx,
                 FV_ERR_ARGUMENT, "score: too many references");
    fv_string *texts = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!texts, ctx, FV_ERR_MEMORY, "score: out of memory");
    texts[0] = hypothesis;
    memcpy(texts + 1, references, count * sizeof *texts);
    fv_status s = count_segment(scorer, texts, count);
    fv_mem_free(&ctx->mem, texts, bytes);
    if (s != FV_OK) return s;
    if (scorer->segments == 0) scorer->references = count;
    if (scorer->references != count) scorer->references_vary = true;
    scorer->segments++;
    return FV_OK;
}

/* ---- the score ------------------------------------------------------------------- */

static int compare(const void *scores, uint32_t a, uint32_t b)
{
    double x = ((const double *)scores)[a], y = ((const double *)scores)[b];
    return (x > y) - (x < y);
}

/* Mean, and half the width of the middle 95 % of the scores. */
static fv_status summarize(fv_ctx *ctx, const double *scores, size_t n, fv_score_result *out)
{
    const size_t bytes = n * sizeof(uint32_t);
    uint32_t *order = fv_mem_alloc(&ctx->mem, bytes), *spare = fv_mem_alloc(&ctx->mem, bytes);
    if (order && spare) {
        double sum = 0;
        fv_sort(scores, n, compare, order, spare);
        for (size_t i = 0; i < n; i++)
            sum += scores[i];
        out->mean = sum / (double)n;
        out->interval = 0.5 * (scores[order[n - n / 40 - 1]] - scores[order[n / 40]]);
    }
    bool done = order && spare;
    fv_mem_free(&ctx->mem, order, bytes);
    fv_mem_free(&ctx->mem, spare, bytes);
    return done ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "score: out of memory");
}

static fv_status resample(fv_scorer *scorer, fv_score_result *out)
{
    const size_t samples = (size_t)scorer->cfg.samples, n = scorer->segments;
    const uint64_t key = fv_rng_key(scorer->cfg.seed, 0, 0);
    fv_ctx *ctx = scorer->ctx;
    FV_RETURN_IF(n > UINT32_MAX, ctx, FV_ERR_LIMIT, "score: more than 2^32 segments");
    double *scores = fv_mem_alloc(&ctx->mem, samples * sizeof *scores);
    FV_RETURN_IF(!scores, ctx, FV_ERR_MEMORY, "score: out of memory");
    for (size_t s = 0; s < samples && !fv_cancelled(ctx); s++) {
        int64_t row[FV_SCORE_WIDTH] = {0};
        uint32_t draw[4] = {0};
        for (size_t i = 0; i < n; i++) {
            if (i % 4 == 0) fv_rng_draw(key, s, i / 4, draw);
            const int64_t *one = scorer->rows + ((uint64_t)draw[i % 4] * n >> 32) * scorer->width;
            for (size_t k = 0; k < scorer->width; k++)
                row[k] += one[k];
        }
        scores[s] = kind_of(scorer)->compute(&scorer->cfg, row, NULL);
    }
    fv_status s = fv_cancelled(ctx) ? fv_fail(ctx, FV_ERR_CANCELLED, "score: cancelled")
                                    : summarize(ctx, scores, samples, out);
    fv_mem_free(&ctx->mem, scores, samples * sizeof *scores);
    return s;
}

static void write_signature(const fv_scorer *scorer, bool sampled, fv_score_result *out)
{
    char metric[128], references[24] = "var", sampling[64] = "";
    kind_of(scorer)->describe(&scorer->cfg, metric, sizeof metric, out->name, sizeof out->name);
    if (!scorer->references_vary)
        snprintf(references, sizeof references, "%zu", scorer->references);
    if (sampled)
        snprintf(sampling, sizeof sampling, "bs:%d|seed:%llu|", scorer->cfg.samples,
                 (unsigned long long)scorer->cfg.seed);
    snprintf(out->signature, sizeof out->signature, "nrefs:%s|%s%s|version:fovea-%s", references,
             sampling, metric, FV_VERSION);
}

/* Copies what the caller's version of the struct has; its size stays the caller's. */
static void hand_out(const fv_score_result *score, fv_score_result *out)
{
    size_t theirs = out->struct_size, bytes = theirs < sizeof *score ? theirs : sizeof *score;
    if (bytes <= sizeof theirs) return;
    memcpy((char *)out + sizeof theirs, (const char *)score + sizeof theirs, bytes - sizeof theirs);
}

fv_status fv_scorer_finish(fv_scorer *scorer, fv_score_result *out)
{
    fv_score_result score = {0};
    int64_t row[FV_SCORE_WIDTH] = {0};
    const bool sampled = scorer->cfg.samples > 1;
    FV_RETURN_IF(scorer->segments == 0, scorer->ctx, FV_ERR_STATE, "score: there is no segment");
    for (size_t i = 0; i < scorer->segments; i++)
        for (size_t k = 0; k < scorer->width; k++)
            row[k] += scorer->rows[i * scorer->width + k];
    score.score = kind_of(scorer)->compute(&scorer->cfg, row, &score);
    if (sampled) FV_FORWARD(resample(scorer, &score));
    write_signature(scorer, sampled, &score);
    hand_out(&score, out);
    return FV_OK;
}

fv_status fv_scorer_segment(fv_scorer *scorer, size_t index, fv_score_result *out)
{
    fv_score_result score = {0};
    FV_RETURN_IF(index >= scorer->segments, scorer->ctx, FV_ERR_INDEX, "score: segment %zu of %zu",
                 index, scorer->segments);
    score.score =
        kind_of(scorer)->compute(&scorer->cfg, scorer->rows + index * scorer->width, &score);
    write_signature(scorer, false, &score);
    hand_out(&score, out);
    return FV_OK;
}
