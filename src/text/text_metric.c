/* BLEU and chrF over segments: each segment becomes one row of integer statistics; a score is
 * computed from the sum of rows. */
#include "fovea/text_metric.h"

#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "base/rng.h"
#include "io/sort.h"
#include "io/utf8.h"
#include "text/text_metric.h"

void fv_text_metric_config_init(fv_text_metric_config *cfg, size_t struct_size,
                                fv_text_metric_kind kind)
{
    const fv_text_metric_config defaults = {.struct_size = struct_size,
                                            .kind = kind,
                                            .smooth_value = -1,
                                            .order = 4,
                                            .char_order = 6,
                                            .beta = 2,
                                            .seed = 12345};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static const fv_text_metric_ops *ops_of(const fv_text_metric *metric)
{
    return metric->cfg.kind == FV_TEXT_METRIC_BLEU ? &fv_text_metric_bleu : &fv_text_metric_chrf;
}

static fv_status check_config(fv_ctx *ctx, const fv_text_metric_config *c)
{
    FV_RETURN_IF((unsigned)c->kind > FV_TEXT_METRIC_CHRF, ctx, FV_ERR_ARGUMENT,
                 "metric: unknown kind %d", (int)c->kind);
    FV_RETURN_IF((unsigned)c->tokenizer > FV_BLEU_TOKENIZER_NONE ||
                     (unsigned)c->smooth > FV_BLEU_SMOOTHING_NONE,
                 ctx, FV_ERR_ARGUMENT, "metric: unknown tokenizer or smoothing");
    FV_RETURN_IF(c->order < 1 || c->order > FV_TEXT_METRIC_MAX_ORDER || c->char_order < 1 ||
                     c->char_order > FV_TEXT_METRIC_MAX_ORDER || c->word_order < 0 ||
                     c->word_order > FV_TEXT_METRIC_MAX_ORDER,
                 ctx, FV_ERR_ARGUMENT, "metric: n-gram order out of range, expected 1 to %d",
                 FV_TEXT_METRIC_MAX_ORDER);
    FV_RETURN_IF(c->beta < 0 || c->beta > 1000, ctx, FV_ERR_ARGUMENT,
                 "metric: beta is %d, expected 0 to 1000", c->beta);
    FV_RETURN_IF(!(c->smooth_value <= 1e6), ctx, FV_ERR_ARGUMENT,
                 "metric: smoothing value out of range, expected at most 1e6");
    FV_RETURN_IF(c->bootstrap_samples < 0 || c->bootstrap_samples > 10000000, ctx, FV_ERR_ARGUMENT,
                 "metric: bootstrap_samples is %d, expected 0 to 10,000,000", c->bootstrap_samples);
    return FV_OK;
}

fv_status fv_text_metric_create(fv_ctx *ctx, const fv_text_metric_config *cfg, fv_text_metric **out)
{
    fv_text_metric_config full;
    fv_text_metric_config_init(&full, sizeof full, FV_TEXT_METRIC_BLEU);
    FV_RETURN_IF(!fv_config_copy(&full, sizeof full, cfg), ctx, FV_ERR_ARGUMENT,
                 "metric: the config is not initialised");
    FV_TRY(check_config(ctx, &full));
    fv_text_metric *metric = fv_mem_zalloc(&ctx->mem, sizeof *metric);
    FV_RETURN_IF(!metric, ctx, FV_ERR_MEMORY, "metric: out of memory");
    metric->ctx = ctx;
    metric->cfg = full;
    metric->stats_per_segment = ops_of(metric)->stats_per_segment(&full);
    fv_ngrams_init(&metric->chars, ctx);
    fv_ngrams_init(&metric->words, ctx);
    fv_codepoints_init(&metric->codepoints, ctx);
    *out = metric;
    return FV_OK;
}

void fv_text_metric_destroy(fv_text_metric **metric)
{
    fv_text_metric *s = *metric;
    if (!s) return;
    fv_mem *mem = &s->ctx->mem;
    fv_ngrams_free(&s->chars);
    fv_ngrams_free(&s->words);
    fv_codepoints_free(&s->codepoints);
    fv_text_free(s->ctx, &s->lowered);
    fv_text_free(s->ctx, &s->tokens);
    fv_text_free(s->ctx, &s->scratch_text);
    fv_mem_free(mem, s->symbols.items, s->symbols.room * sizeof *s->symbols.items);
    fv_mem_free(mem, s->stats, s->stats_capacity * sizeof *s->stats);
    fv_mem_free(mem, s, sizeof *s);
    *metric = NULL;
}

size_t fv_text_metric_segment_count(const fv_text_metric *metric) { return metric->segments; }

/* ---- counting -------------------------------------------------------------------- */

static fv_status check_text(fv_text_metric *metric, fv_string text)
{
    FV_RETURN_IF(!text.text, metric->ctx, FV_ERR_ARGUMENT, "metric: a text of segment %zu is NULL",
                 metric->segments + 1);
    FV_RETURN_IF(text.bytes >= UINT32_MAX, metric->ctx, FV_ERR_LIMIT,
                 "metric: segment %zu has 4 GiB or more", metric->segments + 1);
    FV_RETURN_IF(!fv_utf8_valid(text.text, text.bytes), metric->ctx, FV_ERR_FORMAT,
                 "metric: segment %zu is not valid UTF-8", metric->segments + 1);
    return FV_OK;
}

/* Lower-cases all texts of a segment into one buffer and makes `texts` point there. */
static fv_status lower_all(fv_text_metric *metric, fv_string *texts, size_t count)
{
    metric->lowered.bytes = 0;
    for (size_t i = 0; i < count; i++) {
        FV_TRY(fv_codepoints_decode(&metric->codepoints, texts[i].text, texts[i].bytes));
        FV_TRY(fv_codepoints_lower(&metric->codepoints, true));
        FV_TRY(fv_codepoints_encode(&metric->codepoints, &metric->scratch_text));
        texts[i].bytes = metric->scratch_text.bytes;
        FV_TRY(fv_text_append(metric->ctx, &metric->lowered, metric->scratch_text.data,
                              metric->scratch_text.bytes));
    }
    const char *at = metric->lowered.data;
    for (size_t i = 0; i < count; i++) {
        texts[i].text = at;
        at += texts[i].bytes;
    }
    return FV_OK;
}

static fv_status count_segment(fv_text_metric *metric, fv_string *texts, size_t references)
{
    for (size_t i = 0; i <= references; i++)
        FV_TRY(check_text(metric, texts[i]));
    if (metric->cfg.lowercase) FV_TRY(lower_all(metric, texts, references + 1));
    size_t used = metric->segments * metric->stats_per_segment;
    int64_t *stats = fv_mem_grow(&metric->ctx->mem, metric->stats, &metric->stats_capacity,
                                 used + metric->stats_per_segment, sizeof *stats);
    FV_RETURN_IF(!stats, metric->ctx, FV_ERR_MEMORY, "metric: out of memory");
    metric->stats = stats;
    fv_ngrams_clear(&metric->chars);
    fv_ngrams_clear(&metric->words);
    return ops_of(metric)->count(metric, texts[0], texts + 1, references, stats + used);
}

fv_status fv_text_metric_add(fv_text_metric *metric, fv_string hypothesis,
                             const fv_string *references, size_t count)
{
    fv_ctx *ctx = metric->ctx;
    size_t bytes;
    FV_RETURN_IF(count == 0, ctx, FV_ERR_ARGUMENT, "metric: segment %zu has no reference",
                 metric->segments + 1);
    FV_RETURN_IF(count == SIZE_MAX || !fv_checked_mul_size(count + 1, sizeof(fv_string), &bytes),
                 ctx, FV_ERR_ARGUMENT, "metric: too many references");
    fv_string *texts = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!texts, ctx, FV_ERR_MEMORY, "metric: out of memory");
    texts[0] = hypothesis;
    memcpy(texts + 1, references, count * sizeof *texts);
    fv_status s = count_segment(metric, texts, count);
    fv_mem_free(&ctx->mem, texts, bytes);
    if (s != FV_OK) return s;
    if (metric->segments == 0) metric->references = count;
    if (metric->references != count) metric->references_vary = true;
    metric->segments++;
    return FV_OK;
}

/* ---- scores ---------------------------------------------------------------------- */

static int compare(const void *scores, uint32_t a, uint32_t b)
{
    double x = ((const double *)scores)[a], y = ((const double *)scores)[b];
    return (x > y) - (x < y);
}

/* Mean and half-width of the 95 % interval of the scores. */
static fv_status summarize(fv_ctx *ctx, const double *scores, size_t n, fv_text_metric_result *out)
{
    const size_t bytes = n * sizeof(uint32_t);
    uint32_t *ranking = fv_mem_alloc(&ctx->mem, bytes),
             *argsort_scratch = fv_mem_alloc(&ctx->mem, bytes);
    if (ranking && argsort_scratch) {
        double sum = 0;
        fv_argsort(scores, n, compare, ranking, argsort_scratch);
        for (size_t i = 0; i < n; i++)
            sum += scores[i];
        out->mean = sum / (double)n;
        out->interval_half_width =
            0.5 * (scores[ranking[n - n / 40 - 1]] - scores[ranking[n / 40]]);
    }
    bool done = ranking && argsort_scratch;
    fv_mem_free(&ctx->mem, ranking, bytes);
    fv_mem_free(&ctx->mem, argsort_scratch, bytes);
    return done ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "metric: out of memory");
}

/* Scores n segments drawn with replacement, `bootstrap_samples` times. */
static fv_status bootstrap(fv_text_metric *metric, fv_text_metric_result *out)
{
    const size_t samples = (size_t)metric->cfg.bootstrap_samples, n = metric->segments;
    const uint64_t key = fv_rng_key(metric->cfg.seed, 0, 0);
    fv_ctx *ctx = metric->ctx;
    FV_RETURN_IF(n > UINT32_MAX, ctx, FV_ERR_LIMIT, "metric: more than 2^32 segments");
    double *scores = fv_mem_alloc(&ctx->mem, samples * sizeof *scores);
    FV_RETURN_IF(!scores, ctx, FV_ERR_MEMORY, "metric: out of memory");
    for (size_t s = 0; s < samples && !fv_cancelled(ctx); s++) {
        int64_t sum[FV_TEXT_METRIC_MAX_STATS] = {0};
        uint32_t draw[4] = {0};
        for (size_t i = 0; i < n; i++) {
            if (i % 4 == 0) fv_rng_draw(key, s, i / 4, draw);
            const int64_t *drawn =
                metric->stats + ((uint64_t)draw[i % 4] * n >> 32) * metric->stats_per_segment;
            for (size_t k = 0; k < metric->stats_per_segment; k++)
                sum[k] += drawn[k];
        }
        scores[s] = ops_of(metric)->compute(&metric->cfg, sum, NULL);
    }
    fv_status s = fv_cancelled(ctx) ? fv_fail(ctx, FV_ERR_CANCELLED, "metric: cancelled")
                                    : summarize(ctx, scores, samples, out);
    fv_mem_free(&ctx->mem, scores, samples * sizeof *scores);
    return s;
}

static void write_signature(const fv_text_metric *metric, bool sampled, fv_text_metric_result *out)
{
    char description[128], references[24] = "var", sampling[64] = "";
    ops_of(metric)->describe(&metric->cfg, description, sizeof description, out->name,
                             sizeof out->name);
    if (!metric->references_vary)
        snprintf(references, sizeof references, "%zu", metric->references);
    if (sampled)
        snprintf(sampling, sizeof sampling, "bs:%d|seed:%llu|", metric->cfg.bootstrap_samples,
                 (unsigned long long)metric->cfg.seed);
    snprintf(out->signature, sizeof out->signature, "nrefs:%s|%s%s|version:fovea-%s", references,
             sampling, description, FV_VERSION);
}

fv_status fv_text_metric_compute(fv_text_metric *metric, fv_text_metric_result *out)
{
    fv_text_metric_result score = {0};
    int64_t sum[FV_TEXT_METRIC_MAX_STATS] = {0};
    const bool sampled = metric->cfg.bootstrap_samples > 1;
    FV_RETURN_IF(metric->segments == 0, metric->ctx, FV_ERR_STATE,
                 "metric: no segments were added");
    for (size_t i = 0; i < metric->segments; i++)
        for (size_t k = 0; k < metric->stats_per_segment; k++)
            sum[k] += metric->stats[i * metric->stats_per_segment + k];
    score.score = ops_of(metric)->compute(&metric->cfg, sum, &score);
    if (sampled) FV_TRY(bootstrap(metric, &score));
    write_signature(metric, sampled, &score);
    fv_config_give(out, &score, sizeof score);
    return FV_OK;
}

fv_status fv_text_metric_compute_segment(fv_text_metric *metric, size_t index,
                                         fv_text_metric_result *out)
{
    fv_text_metric_result score = {0};
    FV_RETURN_IF(index >= metric->segments, metric->ctx, FV_ERR_INDEX,
                 "metric: segment %zu does not exist, there are %zu", index, metric->segments);
    score.score = ops_of(metric)->compute(
        &metric->cfg, metric->stats + index * metric->stats_per_segment, &score);
    write_signature(metric, false, &score);
    fv_config_give(out, &score, sizeof score);
    return FV_OK;
}
