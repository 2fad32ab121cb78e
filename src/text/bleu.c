/* BLEU: rows hold [hypothesis length, reference length, matches..., totals...]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/text_metric.h"

static size_t stats_per_segment(const fv_text_metric_config *cfg)
{
    return 2 + 2 * (size_t)cfg->order;
}

/* Counts the n-grams of one text; *length is its length in tokens. */
static fv_status count_text(fv_text_metric *metric, fv_ngram_side side, fv_string text,
                            int64_t *length)
{
    size_t bytes = text.bytes;
    /* Remove trailing white space before tokenizing, so that a dash before a trailing line end is
     * kept. */
    while (bytes > 0) {
        size_t begin = bytes - 1;
        while (begin > 0 && (text.text[begin] & 0xC0) == 0x80)
            begin--;
        if (!fv_text_metric_is_space(fv_code_of(text.text + begin, bytes - begin))) break;
        bytes = begin;
    }
    FV_TRY(fv_bleu_tokenize(metric, text.text, bytes));
    *length = (int64_t)metric->symbols.count;
    return fv_ngrams_count(&metric->words, side, metric->symbols.items, metric->symbols.count,
                           metric->cfg.order);
}

static void keep_best(fv_ngrams *g)
{
    for (size_t i = 0; i < g->count; i++) {
        uint32_t *count = g->nodes[i].count;
        if (count[FV_NGRAM_REFERENCE] > count[FV_NGRAM_BEST])
            count[FV_NGRAM_BEST] = count[FV_NGRAM_REFERENCE];
        count[FV_NGRAM_REFERENCE] = 0;
    }
}

static fv_status count(fv_text_metric *metric, fv_string hypothesis, const fv_string *references,
                       size_t n, int64_t *row)
{
    const int order = metric->cfg.order;
    int64_t length = 0, nearest = 0;
    fv_ngrams *g = &metric->words;
    FV_TRY(count_text(metric, FV_NGRAM_HYPOTHESIS, hypothesis, &length));
    for (size_t i = 0; i < n; i++) {
        int64_t other = 0;
        FV_TRY(count_text(metric, FV_NGRAM_REFERENCE, references[i], &other));
        keep_best(g);
        int64_t distance = llabs(other - length), best = llabs(nearest - length);
        if (i == 0 || distance < best || (distance == best && other < nearest)) nearest = other;
    }
    memset(row, 0, stats_per_segment(&metric->cfg) * sizeof *row);
    row[0] = length;
    row[1] = nearest;
    for (size_t i = 0; i < g->count; i++) {
        const fv_ngram *node = &g->nodes[i];
        uint32_t have = node->count[FV_NGRAM_HYPOTHESIS], best = node->count[FV_NGRAM_BEST];
        row[1 + node->order] += have < best ? have : best;
        row[1 + order + (int)node->order] += have;
    }
    return FV_OK;
}

static double smooth_value(const fv_text_metric_config *cfg)
{
    if (cfg->smooth_value >= 0) return cfg->smooth_value;
    return cfg->smooth == FV_BLEU_SMOOTHING_FLOOR ? 0.1 : 1.0;
}

/* Precisions in percent; returns the number of orders to use. */
static int precisions(const fv_text_metric_config *cfg, const int64_t *row, double *out)
{
    const double value = smooth_value(cfg);
    double halves = 1;
    int effective = cfg->order;
    for (int n = 0; n < cfg->order; n++) {
        bool add = cfg->smooth == FV_BLEU_SMOOTHING_ADD_K && n > 0;
        double matched = (double)row[2 + n] + (add ? value : 0);
        double total = (double)row[2 + cfg->order + n] + (add ? value : 0);
        if (total == 0) break;
        if (cfg->effective_order) effective = n + 1;
        if (matched != 0)
            out[n] = 100 * matched / total;
        else if (cfg->smooth == FV_BLEU_SMOOTHING_EXP)
            out[n] = 100 / ((halves *= 2) * total);
        else if (cfg->smooth == FV_BLEU_SMOOTHING_FLOOR)
            out[n] = 100 * value / total;
    }
    return effective;
}

static double compute(const fv_text_metric_config *cfg, const int64_t *row,
                      fv_text_metric_result *out)
{
    double precision[FV_TEXT_METRIC_MAX_ORDER] = {0}, score = 0, brevity = 1;
    const double h = (double)row[0], r = (double)row[1];
    if (row[0] < row[1]) brevity = row[0] > 0 ? exp(1 - r / h) : 0;
    int64_t matches = 0;
    for (int n = 0; n < cfg->order; n++)
        matches += row[2 + n];
    if (matches > 0) {
        int effective = precisions(cfg, row, precision);
        double sum = 0;
        for (int n = 0; n < effective; n++)
            sum += precision[n] == 0 ? -INFINITY : log(precision[n]);
        score = brevity * exp(sum / effective);
    }
    if (out) {
        out->order = cfg->order;
        out->brevity_penalty = brevity;
        out->hypothesis_length = row[0];
        out->reference_length = row[1];
        memcpy(out->precision, precision, sizeof precision);
        for (int n = 0; n < cfg->order; n++) {
            out->matched[n] = row[2 + n];
            out->total[n] = row[2 + cfg->order + n];
        }
    }
    return score;
}

static void describe(const fv_text_metric_config *cfg, char *signature, size_t signature_bytes,
                     char *name, size_t name_bytes)
{
    static const char *const tokenizers[] = {"13a", "char", "none"};
    static const char *const smoothings[] = {"exp", "floor", "add-k", "none"};
    char value[32] = "";
    if (cfg->smooth == FV_BLEU_SMOOTHING_FLOOR || cfg->smooth == FV_BLEU_SMOOTHING_ADD_K)
        snprintf(value, sizeof value, "[%.2f]", smooth_value(cfg));
    /* snprintf uses the decimal point of the locale. */
    for (char *at = value; *at; at++)
        if (*at == ',') *at = '.';
    snprintf(signature, signature_bytes, "case:%s|eff:%s|tok:%s|smooth:%s%s",
             cfg->lowercase ? "lc" : "mixed", cfg->effective_order ? "yes" : "no",
             tokenizers[cfg->tokenizer], smoothings[cfg->smooth], value);
    snprintf(name, name_bytes, "BLEU");
}

const fv_text_metric_ops fv_text_metric_bleu = {stats_per_segment, count, compute, describe};
