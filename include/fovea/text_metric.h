/*
 * fovea/score.h: how near a translation is to its references: BLEU and chrF, with the numbers and
 * the signatures of sacreBLEU.
 *
 *     fv_score_config cfg;
 *     fv_score_config_init(&cfg, sizeof cfg, FV_SCORE_BLEU);
 *     cfg.lowercase = true;
 *     fv_scorer *scorer = NULL;
 *     s = fv_scorer_create(ctx, &cfg, &scorer);
 *     for (int i = 0; i < segments && s == FV_OK; i++)
 *         s = fv_scorer_add(scorer, hypothesis[i], references[i], 2);   // fv_string, fv_string[2]
 *     fv_score_result score = {.struct_size = sizeof score};
 *     s = fv_scorer_finish(scorer, &score);
 *     printf("%s|%s = %.2f\n", score.name, score.signature, score.score);
 *     fv_scorer_destroy(&scorer);
 *
 * BLEU of a corpus, up to order N (4), from the matches m_n and totals t_n of its n-grams, each
 * match counted at most as often as in the reference that has most of it:
 *
 *     100 x exp(min(0, 1 - r / h)) x (prod m_n / t_n)^(1/N)
 *
 * h is the length of the hypotheses, r the sum of the reference lengths nearest to theirs (the
 * shorter of two equally near). Without any match it is 0; a single m_n of 0 is smoothed.
 *
 * chrF: F-score, with recall weighing beta times as much as precision, of precision and recall
 * averaged over the orders of character n-grams (6) and word n-grams (0; 2 in chrF++). Of several
 * references a segment takes the one that suits it best.
 *
 * Intervals come from resampling: `samples` times, as many segments as there are are drawn with
 * repetition and scored. Draw i of sample s is word i % 4 of Philox 4x32-10 at (row s, block i / 4)
 * with a key from (seed, 0, 0), times the number of segments, divided by 2^32.
 *
 * A scorer belongs to its context and its thread.
 */
#ifndef FOVEA_SCORE_H
#define FOVEA_SCORE_H

#include "fovea/unicode.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_score_metric { FV_SCORE_BLEU, FV_SCORE_CHRF } fv_score_metric;

/* How BLEU finds words. */
typedef enum fv_score_tokenizer {
    FV_SCORE_13A,  /* as WMT does (mteval-v13a): entities read, punctuation apart */
    FV_SCORE_CHAR, /* every character but white space */
    FV_SCORE_SPLIT /* at white space: the text is tokenized already */
} fv_score_tokenizer;

/* What BLEU does with an order that has no match. */
typedef enum fv_score_smooth {
    FV_SCORE_EXP,      /* m_n = 1/2 for the first such order, 1/4 for the second, ... */
    FV_SCORE_FLOOR,    /* m_n = smooth_value [0.1] */
    FV_SCORE_ADD_K,    /* smooth_value [1] is added to all m_n and t_n with n > 1 */
    FV_SCORE_NO_SMOOTH /* the score is 0 */
} fv_score_smooth;

enum { FV_SCORE_ORDERS = 8 };

typedef struct fv_score_config {
    size_t struct_size;
    fv_score_metric metric;
    bool lowercase;
    /* BLEU */
    fv_score_tokenizer tokenizer;
    fv_score_smooth smooth;
    double smooth_value;  /* below 0: the value in brackets above */
    bool effective_order; /* leave out orders longer than the text: for single sentences */
    int order;            /* N, 1 to 8 [4] */
    /* chrF */
    int char_order;     /* 1 to 8 [6] */
    int word_order;     /* 0 to 8 [0] */
    int beta;           /* 0 to 1000 [2] */
    bool whitespace;    /* keep white space in character n-grams */
    bool eps_smoothing; /* average F-scores instead of precisions and recalls */
    /* intervals */
    int samples; /* 0 or 1: none */
    uint64_t seed;
} fv_score_config;

/* The defaults in brackets; the metric decides nothing else. */
FV_API void fv_score_config_init(fv_score_config *cfg, size_t struct_size, fv_score_metric metric);

typedef struct fv_score_result {
    size_t struct_size; /* set by the caller */
    char name[32];      /* "BLEU", "chrF2", "chrF2++" */
    double score;       /* 0 to 100 */
    double mean;        /* of the resampled scores; 0 without intervals */
    double interval;    /* half of the range that holds 95 % of them */
    char signature[256];
    /* BLEU only */
    int order;
    double precision[FV_SCORE_ORDERS]; /* smoothed, in percent */
    int64_t matched[FV_SCORE_ORDERS], total[FV_SCORE_ORDERS];
    double brevity;
    int64_t hypothesis_length, reference_length;
} fv_score_result;

typedef struct fv_scorer fv_scorer;

/* Fails: ARGUMENT (a value outside its range), MEMORY. */
FV_API FV_MUST_USE fv_status fv_scorer_create(fv_ctx *ctx, const fv_score_config *cfg,
                                              fv_scorer **out);
/* NULL is fine; *scorer becomes NULL. */
FV_API void fv_scorer_destroy(fv_scorer **scorer);

/*
 * Counts one segment against its `count` references, at least one. Segments may have different
 * numbers of them, which the signature then says. The texts are not needed afterwards.
 * Fails: ARGUMENT, FORMAT (not UTF-8), LIMIT (4 GiB), MEMORY; the segment is not counted then.
 */
FV_API FV_MUST_USE fv_status fv_scorer_add(fv_scorer *scorer, fv_string hypothesis,
                                           const fv_string *references, size_t count);

FV_API size_t fv_scorer_segments(const fv_scorer *scorer);

/* The score of all segments so far. Fails: STATE (there are none), MEMORY, CANCELLED. */
FV_API FV_MUST_USE fv_status fv_scorer_finish(fv_scorer *scorer, fv_score_result *out);

/* The score of one segment by itself, without an interval. Fails: INDEX. */
FV_API FV_MUST_USE fv_status fv_scorer_segment(fv_scorer *scorer, size_t index,
                                               fv_score_result *out);

#ifdef __cplusplus
}
#endif
#endif
