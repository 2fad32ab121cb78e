/*
 * Results of 'fovea eval', and metrics by the length of the source.
 */
#ifndef FOVEA_CLI_EVAL_H
#define FOVEA_CLI_EVAL_H

#include "fovea/text_metric.h"
#include "model.h"
#include "output.h"

/* 'fovea eval RUN': metrics of the run's own task and data. Returns the exit code. */
int cli_eval_run(const cli_call *call);

/* One model and what it wrote for every source. */
typedef struct eval_model {
    const char *folder;
    fv_translations *all;
    double seconds; /* of translating */
} eval_model;

/* The choices of --metric. */
typedef enum eval_metric { EVAL_BLEU, EVAL_CHRF, EVAL_EXACT, EVAL_METRICS } eval_metric;
eval_metric eval_metric_of(const char *name);

/* The texts that a metric covers: sources of low to high words. */
typedef struct eval_span {
    int64_t low, high;
} eval_span;

/* Number of words of a text, separated by blanks. */
int64_t eval_words(fv_string text);

/* BLEU or chrF of the texts in a span. */
fv_status eval_score(fv_ctx *ctx, fv_text_metric_kind metric, bool lowercase,
                     const fv_parallel *pairs, const fv_translations *all, eval_span span,
                     fv_text_metric_result *out);

/* How many translations of a span equal their reference. */
int64_t eval_exact(const fv_parallel *pairs, const fv_translations *all, eval_span span);

/*
 * Scores by source length. Spans are `width` words long; one with fewer than EVAL_MIN_TEXTS texts
 * is merged with the span below it (the first one: above it), since a metric of few texts says
 * little.
 */
enum { EVAL_MAX_SPANS = 32, EVAL_MIN_TEXTS = 20, EVAL_MAX_MODELS = 8 };

typedef struct eval_bucket {
    eval_span span;
    int64_t texts;
    double words; /* mean length of a source */
    double score[EVAL_METRICS][EVAL_MAX_MODELS];
} eval_bucket;

typedef struct eval_lengths {
    eval_bucket bucket[EVAL_MAX_SPANS];
    int count;
} eval_lengths;

fv_status eval_lengths_find(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                            const eval_model *models, int model_count, int64_t width,
                            eval_lengths *out);
/* A table of one metric, all of them as JSON members, and a plot of one by the path's ending. */
void eval_lengths_print(const eval_lengths *lengths, eval_metric metric, const eval_model *models,
                        int model_count);
void eval_lengths_json(const eval_lengths *lengths, int model, cli_json *j);
fv_status eval_lengths_draw(fv_ctx *ctx, const eval_lengths *lengths, eval_metric metric,
                            const eval_model *models, int model_count, const char *path);

#endif
