/* chrF: rows hold [hypothesis, reference, match] counts, characters first, then words. */
#include <stdio.h>
#include <string.h>

#include "text/text_metric.h"

static int orders(const fv_text_metric_config *cfg) { return cfg->char_order + cfg->word_order; }
static size_t stats_per_segment(const fv_text_metric_config *cfg)
{
    return 3 * (size_t)orders(cfg);
}

/* ---- counting -------------------------------------------------------------------- */

static fv_status count_characters(fv_text_metric *metric, fv_ngram_side side, fv_string text)
{
    metric->symbols.count = 0;
    for (size_t i = 0; i < text.bytes;) {
        size_t length = fv_lead_length(text.text[i]);
        uint32_t code = fv_code_of(text.text + i, length);
        if (metric->cfg.whitespace || !fv_text_metric_is_space(code))
            FV_TRY(fv_symbols_put(metric, code));
        i += length;
    }
    return fv_ngrams_count(&metric->chars, side, metric->symbols.items, metric->symbols.count,
                           metric->cfg.char_order);
}

static bool is_ascii_punctuation(char c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* Copies the words with a blank after each, and separates one punctuation mark per word: the last
 * byte if it is one, otherwise the first. Words of a single character stay unchanged. */
static fv_status separate_punctuation(fv_text_metric *metric, fv_string text)
{
    fv_text *out = &metric->tokens;
    /* A word becomes at most two, each with a blank; texts are below 4 GiB, so this cannot
     * overflow. */
    FV_TRY(fv_text_reserve(metric->ctx, out, 3 * text.bytes + 3));
    size_t used = 0, begin = 0;
    for (size_t i = 0; i <= text.bytes;) {
        size_t length = i < text.bytes ? fv_lead_length(text.text[i]) : 1;
        if (i < text.bytes && !fv_text_metric_is_space(fv_code_of(text.text + i, length))) {
            i += length;
            continue;
        }
        const char *word = text.text + begin;
        size_t n = i - begin, cut = 0;
        if (n > 0 && n > fv_lead_length(word[0])) {
            if (is_ascii_punctuation(word[n - 1]))
                cut = n - 1;
            else if (is_ascii_punctuation(word[0]))
                cut = 1;
        }
        memcpy(out->data + used, word, cut);
        used += cut;
        out->data[used++] = ' ';
        memcpy(out->data + used, word + cut, n - cut);
        used += n - cut;
        out->data[used++] = ' ';
        i += length;
        begin = i;
    }
    out->bytes = used;
    return FV_OK;
}

static fv_status count_text(fv_text_metric *metric, fv_ngram_side side, fv_string text)
{
    FV_TRY(count_characters(metric, side, text));
    if (metric->cfg.word_order == 0) return FV_OK;
    FV_TRY(separate_punctuation(metric, text));
    FV_TRY(fv_text_metric_split_words(metric, metric->tokens.data, metric->tokens.bytes));
    return fv_ngrams_count(&metric->words, side, metric->symbols.items, metric->symbols.count,
                           metric->cfg.word_order);
}

/* Sums one kind of n-grams into the row and clears the counts of the reference. */
static void collect(fv_ngrams *g, int64_t *row)
{
    for (size_t i = 0; i < g->count; i++) {
        fv_ngram *node = &g->nodes[i];
        int64_t *of_order = row + 3 * (size_t)(node->order - 1);
        uint32_t have = node->count[FV_NGRAM_HYPOTHESIS], other = node->count[FV_NGRAM_REFERENCE];
        of_order[0] += have;
        of_order[1] += other;
        of_order[2] += have < other ? have : other;
        node->count[FV_NGRAM_REFERENCE] = 0;
    }
}

/* ---- score ----------------------------------------------------------------------- */

static double compute(const fv_text_metric_config *cfg, const int64_t *row,
                      fv_text_metric_result *out)
{
    (void)out;
    const double eps = 1e-16, factor = (double)cfg->beta * cfg->beta;
    double sum = 0, precision = 0, recall = 0;
    int effective = 0;
    for (int i = 0; i < orders(cfg); i++) {
        const double have = (double)row[3 * i], other = (double)row[3 * i + 1];
        const double match = (double)row[3 * i + 2];
        double p = have > 0 ? match / have : eps, r = other > 0 ? match / other : eps;
        double below = factor * p + r;
        sum += below > 0 ? (1 + factor) * p * r / below : eps;
        if (have > 0 && other > 0) {
            precision += p;
            recall += r;
            effective++;
        }
    }
    if (cfg->eps_smoothing) return 100 * sum / orders(cfg);
    if (effective == 0 || precision + recall == 0) return 0;
    precision /= effective;
    recall /= effective;
    return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

static fv_status count(fv_text_metric *metric, fv_string hypothesis, const fv_string *references,
                       size_t n, int64_t *row)
{
    const fv_text_metric_config *cfg = &metric->cfg;
    double best = -1;
    FV_TRY(count_text(metric, FV_NGRAM_HYPOTHESIS, hypothesis));
    for (size_t i = 0; i < n; i++) {
        int64_t stats[FV_TEXT_METRIC_MAX_STATS] = {0};
        FV_TRY(count_text(metric, FV_NGRAM_REFERENCE, references[i]));
        collect(&metric->chars, stats);
        collect(&metric->words, stats + 3 * (size_t)cfg->char_order);
        /* Orders for which the reference is too short do not count against the hypothesis. */
        for (int k = 0; k < orders(cfg); k++)
            if (stats[3 * k + 1] == 0) stats[3 * k] = 0;
        double score = compute(cfg, stats, NULL);
        if (score > best) {
            best = score;
            memcpy(row, stats, stats_per_segment(cfg) * sizeof *row);
        }
    }
    return FV_OK;
}

static void describe(const fv_text_metric_config *cfg, char *signature, size_t signature_bytes,
                     char *name, size_t name_bytes)
{
    snprintf(signature, signature_bytes, "case:%s|eff:%s|nc:%d|nw:%d|space:%s",
             cfg->lowercase ? "lc" : "mixed", cfg->eps_smoothing ? "no" : "yes", cfg->char_order,
             cfg->word_order, cfg->whitespace ? "yes" : "no");
    snprintf(name, name_bytes, "chrF%d%.*s", cfg->beta, cfg->word_order, "++++++++");
}

const fv_text_metric_ops fv_text_metric_chrf = {stats_per_segment, count, compute, describe};
