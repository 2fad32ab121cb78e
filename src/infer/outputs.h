/*
 * Hypotheses while a search runs. Prefixes share their beginnings: a node is one token with its
 * parent, so that keeping, dropping and branching prefixes copies nothing.
 */
#ifndef FV_INFER_OUTPUTS_H
#define FV_INFER_OUTPUTS_H

#include "base/ctx.h"
#include "fovea/decode.h"
#include "io/arena.h"

typedef struct fv_node {
    const struct fv_node *parent; /* NULL: the beginning */
    int64_t token;
    int64_t depth; /* tokens up to here, this one included */
    double log_prob;
    const float *weights;  /* [positions] of the step that made it, or NULL */
    const double *covered; /* [positions]: sum of weights up to here, or NULL */
} fv_node;

struct fv_outputs {
    fv_ctx *ctx;
    fv_arena arena; /* all below lives here */
    int64_t sources;
    int room;        /* outputs collected for a source */
    int nbest;       /* those that the caller asked for */
    fv_output *list; /* [sources][room], best first */
    int *count;      /* [sources] */
};

/* What a search needs at hand. */
typedef struct fv_search {
    fv_ctx *ctx;
    const fv_stepper *stepper;
    const fv_decode_config *cfg;
    int64_t sources;
    const int64_t *most_tokens;
    fv_outputs *outputs;
} fv_search;

/* A node after `parent` (or NULL), with its step's attention (or NULL); NULL: out of memory. */
const fv_node *fv_search_extend(const fv_search *s, const fv_node *parent, int64_t token,
                                double log_prob, const float *weights, int64_t positions);
/* What the log-probability of an output of so many tokens is divided by. */
double fv_search_penalty(const fv_search *s, int64_t tokens);
/* The score of a whole hypothesis that ends in `last`. */
double fv_search_score(const fv_search *s, const fv_node *last, int64_t positions);
/* Enters a finished hypothesis among the best of its source. */
fv_status fv_search_finish(const fv_search *s, int64_t source, const fv_node *last, bool ended,
                           int64_t positions);

/* Whether a token ends an output. */
bool fv_search_ends(const fv_search *s, int64_t token);
/* The token fed first for a source. */
static inline int64_t fv_search_start(const fv_search *s, int64_t source)
{
    return s->stepper->starts ? s->stepper->starts[source] : s->stepper->start;
}

/* One row whose next token is to be chosen. */
typedef struct fv_search_row {
    int64_t source;
    const fv_node *last; /* NULL at the beginning */
} fv_search_row;

/* Whether the settings change scores before a token is chosen from them. */
bool fv_search_changes(const fv_search *s);
/* Changes the scores of one row on the host: repetitions, banned tokens, ends that come too early,
 * forced tokens. */
void fv_search_change(const fv_search *s, fv_search_row row, float *scores);
/* Log-probabilities of one row, so that what is left of them has sum 1. */
void fv_search_renormalize(const fv_search *s, float *scores);

/* Tokens of every row to the model, logits and weights back; opens a scope that the caller ends. */
fv_tensor *fv_search_step(const fv_search *s, int64_t rows, const int64_t *tokens,
                          fv_tensor **weights);
/* Likewise, but the likeliest next tokens back, i64 [rows]. */
fv_tensor *fv_search_best(const fv_search *s, int64_t rows, const int64_t *tokens,
                          fv_tensor **weights);
/* Weights on the host in the arena, [rows][positions]; NULL and *positions = 0 without them. */
fv_status fv_search_weights(const fv_search *s, fv_tensor *weights, const float **out,
                            int64_t *positions);

/* One output a row: greedy or drawn. */
fv_status fv_search_walk(const fv_search *s);
fv_status fv_search_beam(const fv_search *s);

#endif
