/*
 * Internals of a metric: each segment becomes one row of integers, the sufficient statistics. Rows
 * are summed, and the score is computed from the sum.
 */
#ifndef FV_TEXT_TEXT_METRIC_H
#define FV_TEXT_TEXT_METRIC_H

#include "fovea/text_metric.h"
#include "text/codepoints.h"
#include "text/ngrams.h"

/* Symbols of one text. */
typedef struct fv_symbols {
    uint32_t *items;
    size_t count, room;
} fv_symbols;

/* BLEU: two lengths, matches and totals of each order. chrF: hypothesis, reference and match count
 * of each order. */
enum { FV_TEXT_METRIC_MAX_STATS = 3 * 2 * FV_TEXT_METRIC_MAX_ORDER };

struct fv_text_metric {
    fv_ctx *ctx;
    fv_text_metric_config cfg;
    int64_t *stats; /* [segments][stats_per_segment] */
    size_t segments, stats_per_segment, stats_capacity;
    size_t references; /* per segment */
    bool references_vary;
    fv_ngrams chars, words;
    fv_codepoints codepoints;
    fv_text lowered, tokens, scratch_text;
    fv_symbols symbols;
};

/* ---- words ----------------------------------------------------------------------- */

/* White space as in Python's split(). */
bool fv_text_metric_is_space(uint32_t code);

/* Splits text at white space and fills metric->symbols with the ids of the words. */
fv_status fv_text_metric_split_words(fv_text_metric *metric, const char *text, size_t bytes);
/* The same with a tokenizer of BLEU. `text` has no trailing white space. */
fv_status fv_bleu_tokenize(fv_text_metric *metric, const char *text, size_t bytes);

fv_status fv_symbols_put(fv_text_metric *metric, uint32_t symbol);

/* ---- metrics --------------------------------------------------------------------- */

typedef struct fv_text_metric_ops {
    size_t (*stats_per_segment)(const fv_text_metric_config *cfg);
    /* Fills the row of one segment. */
    fv_status (*count)(fv_text_metric *metric, fv_string hypothesis, const fv_string *references,
                       size_t count, int64_t *row);
    /* The score of a row or of a sum of rows; also fills the metric's fields of `out` unless it is
     * NULL. */
    double (*compute)(const fv_text_metric_config *cfg, const int64_t *row,
                      fv_text_metric_result *out);
    /* Writes the metric's part of the signature, and its name. */
    void (*describe)(const fv_text_metric_config *cfg, char *signature, size_t signature_bytes,
                     char *name, size_t name_bytes);
} fv_text_metric_ops;

extern const fv_text_metric_ops fv_text_metric_bleu, fv_text_metric_chrf;

#endif
