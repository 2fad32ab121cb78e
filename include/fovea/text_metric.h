/*
 * fovea/text_metric.h: BLEU and chrF of a translation against its references, with the scores and
 * signatures of sacreBLEU.
 *
 *     fv_text_metric_config cfg;
 *     fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
 *     cfg.lowercase = true;
 *     fv_text_metric *metric = NULL;
 *     s = fv_text_metric_create(ctx, &cfg, &metric);
 *     for (int i = 0; i < segments && s == FV_OK; i++)
 *         s = fv_text_metric_add(metric, hypothesis[i], references[i], 2);   // 2 references each
 *     fv_text_metric_result result = {.struct_size = sizeof result};
 *     s = fv_text_metric_compute(metric, &result);
 *     printf("%s|%s = %.2f\n", result.name, result.signature, result.score);
 *     fv_text_metric_destroy(&metric);
 *
 * BLEU of a corpus up to order N (4), from the matches m_n and totals t_n of its n-grams. An n-gram
 * matches at most as often as it occurs in the reference that has most of it:
 *
 *     100 x exp(min(0, 1 - r / h)) x (prod m_n / t_n)^(1/N)
 *
 * h is the length of the hypotheses, r the sum of the closest reference lengths (on ties the
 * shorter). BLEU is 0 without any match; a single m_n of 0 is smoothed.
 *
 * chrF: the F-score of precision and recall, averaged over the orders of character n-grams (6) and
 * word n-grams (0; 2 in chrF++); recall weighs beta times as much as precision. With several
 * references, each segment uses the one that scores best.
 *
 * Confidence intervals come from bootstrap resampling: `bootstrap_samples` times, n of the n
 * segments are drawn with replacement and scored. Draw i of sample s is word i % 4 of Philox
 * 4x32-10 at (row s, block i / 4) with a key from (seed, 0, 0), times n, divided by 2^32.
 *
 * A metric belongs to its context and must not be shared between threads.
 */
#ifndef FOVEA_TEXT_METRIC_H
#define FOVEA_TEXT_METRIC_H

#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_text_metric_kind { FV_TEXT_METRIC_BLEU, FV_TEXT_METRIC_CHRF } fv_text_metric_kind;

/* How BLEU splits text into words. */
typedef enum fv_bleu_tokenizer {
    FV_BLEU_TOKENIZER_13A,  /* as in WMT (mteval-v13a): entities decoded, punctuation separated */
    FV_BLEU_TOKENIZER_CHAR, /* every character except white space */
    FV_BLEU_TOKENIZER_NONE  /* split at white space: the text is already tokenized */
} fv_bleu_tokenizer;

/* How BLEU treats an order without a match. */
typedef enum fv_bleu_smoothing {
    FV_BLEU_SMOOTHING_EXP,   /* m_n = 1/2 for the first such order, 1/4 for the second, ... */
    FV_BLEU_SMOOTHING_FLOOR, /* m_n = smooth_value [0.1] */
    FV_BLEU_SMOOTHING_ADD_K, /* smooth_value [1] is added to all m_n and t_n with n > 1 */
    FV_BLEU_SMOOTHING_NONE   /* the score is 0 */
} fv_bleu_smoothing;

enum { FV_TEXT_METRIC_MAX_ORDER = 8 };

typedef struct fv_text_metric_config {
    size_t struct_size;
    fv_text_metric_kind kind;
    bool lowercase;
    /* BLEU */
    fv_bleu_tokenizer tokenizer;
    fv_bleu_smoothing smooth;
    double smooth_value;  /* below 0: the value in brackets above */
    bool effective_order; /* ignore orders longer than the text: for single sentences */
    int order;            /* N, 1 to 8 [4] */
    /* chrF */
    int char_order;     /* 1 to 8 [6] */
    int word_order;     /* 0 to 8 [0] */
    int beta;           /* 0 to 1000 [2] */
    bool whitespace;    /* keep white space in character n-grams */
    bool eps_smoothing; /* average F-scores instead of precisions and recalls */
    /* confidence intervals */
    int bootstrap_samples; /* 0 or 1: none */
    uint64_t seed;
} fv_text_metric_config;

/* Sets the defaults, shown in brackets; they do not depend on `kind`. */
FV_API void fv_text_metric_config_init(fv_text_metric_config *cfg, size_t struct_size,
                                       fv_text_metric_kind metric);

typedef struct fv_text_metric_result {
    size_t struct_size;         /* set by the caller */
    char name[32];              /* "BLEU", "chrF2", "chrF2++" */
    double score;               /* 0 to 100 */
    double mean;                /* of the resampled scores; 0 without resampling */
    double interval_half_width; /* of the 95 % confidence interval */
    char signature[256];
    /* BLEU only */
    int order;
    double precision[FV_TEXT_METRIC_MAX_ORDER]; /* smoothed, in percent */
    int64_t matched[FV_TEXT_METRIC_MAX_ORDER], total[FV_TEXT_METRIC_MAX_ORDER];
    double brevity_penalty;
    int64_t hypothesis_length, reference_length;
} fv_text_metric_result;

typedef struct fv_text_metric fv_text_metric;

/* Fails: ARGUMENT (a value outside its range), MEMORY. */
FV_API FV_MUST_USE fv_status fv_text_metric_create(fv_ctx *ctx, const fv_text_metric_config *cfg,
                                                   fv_text_metric **out);
/* Accepts NULL; sets *metric to NULL. */
FV_API void fv_text_metric_destroy(fv_text_metric **metric);

/*
 * Adds one segment and its `count` references, at least one. Segments may have different numbers of
 * references; the signature then says so. The texts may be freed afterwards.
 * Fails: ARGUMENT, FORMAT (not UTF-8), LIMIT (4 GiB), MEMORY; the segment is then not counted.
 */
FV_API FV_MUST_USE fv_status fv_text_metric_add(fv_text_metric *metric, fv_string hypothesis,
                                                const fv_string *references, size_t count);

FV_API size_t fv_text_metric_segment_count(const fv_text_metric *metric);

/* The score of all segments so far. Fails: STATE (no segments), MEMORY, CANCELLED. */
FV_API FV_MUST_USE fv_status fv_text_metric_compute(fv_text_metric *metric,
                                                    fv_text_metric_result *out);

/* The score of one segment, without an interval. Fails: INDEX. */
FV_API FV_MUST_USE fv_status fv_text_metric_compute_segment(fv_text_metric *metric, size_t index,
                                                            fv_text_metric_result *out);

#ifdef __cplusplus
}
#endif
#endif
