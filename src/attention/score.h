/*
 * An attention score is an entry of the table in scores.c; everything that depends on the score
 * (checks, paths, parameters of layers and models, choices in recipes, names in the log) reads the
 * entry.
 *
 *     const fv_score_kind *score = fv_score_find(how->score);
 *     if (score->streamed == FV_ATTN_SCORE_NONE) ...         // it has a map, and no streamed form
 *
 * docs/mechanisms/README.md says how to add one.
 */
#ifndef FV_ATTENTION_SCORE_H
#define FV_ATTENTION_SCORE_H

#include "fovea/attention.h"

typedef struct fv_attention_call fv_attention_call;

/* What an axis of a parameter is as long as. */
typedef enum fv_score_size {
    FV_SCORE_SIZE_NONE,
    FV_SCORE_SIZE_QUERY, /* a query */
    FV_SCORE_SIZE_KEY,   /* a key */
    FV_SCORE_SIZE_INNER, /* the space in which query and key are compared */
    FV_SCORE_SIZE_KEYS   /* the largest number of keys */
} fv_score_size;

/* One parameter; an axis of heads may come first. No axes: the score has no such parameter. */
typedef struct fv_score_param {
    fv_score_size axis[2];
    bool optional;
} fv_score_param;

typedef struct fv_score_kind {
    const char *name;           /* in recipes, messages and the log */
    fv_score_param w, w_q, w_k; /* as in fv_attention_input */
    bool has_beta;              /* the input beta multiplies it */
    bool has_function;          /* the description's score_fn computes it */
    bool ignores_keys;          /* k may be NULL */
    bool is_scaled;             /* its default scale is 1 / sqrt(d), not 1 */
    bool is_dot_product;        /* of q and k as they are, in any dtype of the kernel */

    /* Turns the call's q and k, and sets its w, into what both forms below start from. NULL: q and
     * k stay as they are. */
    void (*prepare)(fv_attention_call *call);
    /* Made of ops: e_ij of every pair, [batch, heads, n_q, n_k]. */
    fv_tensor *(*map)(fv_attention_call *call);
    /* Streamed: what the kernel makes of q, k and w. NONE: there is only the map. */
    fv_attn_score streamed;
} fv_score_kind;

/* NULL if there is no such score. */
const fv_score_kind *fv_score_find(fv_attention_score score);

/* The names of all scores that need no function, in the order of the enum, each behind a bar:
 * fv_score_choices + 1 is what a recipe's key wants. */
extern const char fv_score_choices[];

/* The axes of a parameter: 0 if the score has none. */
static inline int fv_score_rank(const fv_score_param *p)
{
    return (p->axis[0] != FV_SCORE_SIZE_NONE) + (p->axis[1] != FV_SCORE_SIZE_NONE);
}

/* Whether queries and keys must have one width: nothing stands between them. */
static inline bool fv_score_needs_equal_widths(const fv_score_kind *score)
{
    return !score->ignores_keys && !score->has_function && fv_score_rank(&score->w) == 0;
}

/* The factor of the scores: the rule's or, where that is 0, the score's own for queries of width
 * d, over the temperature. */
double fv_score_scale(const fv_attention *how, int64_t d);

#endif
