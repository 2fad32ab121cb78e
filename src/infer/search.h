/*
 * Hypotheses during a search. Prefixes share their beginnings: a node is one token with its parent,
 * so that keeping, dropping and branching prefixes copies nothing.
 *
 *     search.c             checks, then one of the two searches
 *     greedy_sampling.c    one output per row
 *     sampling.c           draws a token of a row
 *     beam_search.c        the most likely prefixes of each source
 *     logits_processors.c  bans, penalties, forced tokens
 *     outputs.c            steps of the model, finished hypotheses
 *
 * The host reads once for a token: the chosen tokens, or a bounded number of candidates, with
 * everything else that it needs of the step (fv_search_read). Only settings that change scores
 * (logits_processors.c), and draws far from the most likely tokens, need all scores of a step.
 */
#ifndef FV_INFER_SEARCH_H
#define FV_INFER_SEARCH_H

#include "base/ctx.h"
#include "fovea/search.h"
#include "io/arena.h"

typedef struct fv_node {
    const struct fv_node *parent; /* NULL: the first token */
    int64_t token;
    int64_t depth; /* tokens up to here, this one included */
    double log_prob;
    const float *weights;  /* [positions] of the step that chose it, or NULL */
    const double *covered; /* [positions]: sum of weights up to here, or NULL */
} fv_node;

struct fv_outputs {
    fv_ctx *ctx;
    fv_arena arena; /* owns all below */
    int64_t sources;
    int room;        /* outputs collected for a source */
    int nbest;       /* those that the caller asked for */
    fv_output *list; /* [sources][room], best first */
    int *count;      /* [sources] */
};

typedef struct fv_search_run {
    fv_ctx *ctx;
    const fv_stepper *stepper;
    const fv_search_config *cfg;
    int64_t sources;
    const int64_t *max_tokens;
    fv_outputs *outputs;
    float *unprocessed; /* [max_choices]: of one row; NULL where no processor is active */
} fv_search_run;

/* A node after `parent` (or NULL), with its step's attention (or NULL); NULL: out of memory. */
const fv_node *fv_search_extend(const fv_search_run *s, const fv_node *parent, int64_t token,
                                double log_prob, const float *weights, int64_t positions);
/* Divides the log-probability of an output with this many tokens. */
double fv_search_length_penalty(const fv_search_run *s, int64_t tokens);
/* The score of a whole hypothesis that ends in `last`. */
double fv_search_score(const fv_search_run *s, const fv_node *last, int64_t positions);
/* Enters a finished hypothesis among the best of its source. */
fv_status fv_search_finish(const fv_search_run *s, int64_t source, const fv_node *last, bool ended,
                           int64_t positions);

bool fv_search_is_eos(const fv_search_run *s, int64_t token);
/* The token fed first for a source. */
static inline int64_t fv_search_bos(const fv_search_run *s, int64_t source)
{
    return s->stepper->first_tokens ? s->stepper->first_tokens[source] : s->stepper->bos;
}

/* One row whose next token is about to be chosen. */
typedef struct fv_search_row {
    int64_t source;
    const fv_node *last; /* NULL: no token yet */
    bool limited;        /* invalid choices have a score of -infinity */
} fv_search_row;

/* Whether the settings change scores before a token is chosen from them. */
bool fv_search_has_processors(const fv_search_run *s);
/* Changes the scores of one row on the host: repetitions, banned tokens, early end tokens, forced
 * tokens. Of a limited row, invalid choices stay invalid, and where nothing valid would be left the
 * row stays as it was. */
void fv_search_process(const fv_search_run *s, fv_search_row row, float *scores);
/* Normalises the log-probabilities of one row after processing. */
void fv_search_renormalize(const fv_search_run *s, float *scores);

/* What the model returned for a step. */
typedef struct fv_search_step_result {
    fv_status status;
    fv_tensor *logits;           /* invalid choices are -infinity */
    fv_tensor *best;             /* of fv_search_best */
    const int64_t *best_on_host; /* the same where the model has read it; else NULL */
    fv_tensor *weights;
    bool limited; /* rows have choices of their own */
} fv_search_step_result;

/* Feeds every row's token to the model; opens a scope that the caller ends. */
fv_search_step_result fv_search_step(const fv_search_run *s, int64_t rows, const int64_t *tokens);
/* Likewise, but `best` is set, or, where rows have choices of their own, logits. */
fv_search_step_result fv_search_best(const fv_search_run *s, int64_t rows, const int64_t *tokens);
/* Fails with STATE: row r of a step has no valid choice. */
fv_status fv_search_no_choice(const fv_search_run *s, int64_t r);
/* Attention of a step on the host, in the arena: [rows][positions]; NULL and 0 without it. */
typedef struct fv_step_weights {
    const float *host;
    int64_t positions;
} fv_step_weights;

/* Brings `count` tensors and the weights (or NULL) of a step to the host in one read. Every tensor
 * arrives as doubles in its out[i], which hold floats and tokens exactly. */
enum { FV_SEARCH_READS = 4 };
fv_status fv_search_read(const fv_search_run *s, int count, fv_tensor *const *t, double *const *out,
                         fv_tensor *weights, fv_step_weights *host);

fv_status fv_search_greedy(const fv_search_run *s); /* also sampling */
fv_status fv_search_beam(const fv_search_run *s);

#endif
