/*
 * What models that point at their inputs share: sets of points of a batch, which choices are valid,
 * and the rows of a search.
 *
 *     fv_point_sets sets;
 *     s = fv_point_sets_make(ctx, problem, batch, &sets);          // the field "points"
 *     fv_tensor *x = fv_point_sets_values(ctx, &sets);             // [total, width]
 *     ...
 *     fv_point_sets_free(&sets);
 *
 * Choices of a row are numbered with the end first: choice 0 ends the output, choice 1 + j is input
 * j. So the place of an input does not depend on the other rows of a batch, and neither does any
 * sum over choices. Token 0, which is never an input, is also what a search feeds first.
 */
#ifndef FV_MODELS_POINTING_H
#define FV_MODELS_POINTING_H

#include "base/ctx.h"
#include "data/points.h"

/* The sets of a batch, one after the other. Tables on the host. */
typedef struct fv_point_sets {
    fv_ctx *ctx;
    fv_problem problem;
    const fv_field *field; /* "points" */
    int64_t rows, total, longest, width;
    int64_t *begin; /* [rows + 1] */
    int64_t *rank;  /* [total]: of fv_points_rank */
    size_t bytes;
} fv_point_sets;

/* The problem of a spec, which the models below store as a number. Fails: ARGUMENT (it has none, or
 * its vectors have another width). */
fv_status fv_point_problem(fv_ctx *ctx, const fv_data_spec *spec, fv_problem *out);

/* Fails: ARGUMENT (no such field, another width, an empty or too large set, a number that is not
 * finite), MEMORY. Can be freed even then. */
fv_status fv_point_sets_make(fv_ctx *ctx, fv_problem problem, const fv_batch *batch,
                             fv_point_sets *out);
void fv_point_sets_free(fv_point_sets *sets);
fv_tensor *fv_point_sets_values(fv_ctx *ctx, const fv_point_sets *sets); /* [total, width] */
fv_tensor *fv_point_sets_begin(fv_ctx *ctx, const fv_point_sets *sets);  /* i64 [rows + 1] */
/* i64 [rows * (1 + longest)]: row 0 and rows 1 + k of a table whose row 1 + k is input k of all
 * sets, for choices 0 and 1 + j; 0 where a set is shorter. */
fv_tensor *fv_point_sets_choices(fv_ctx *ctx, const fv_point_sets *sets);
/* [rows, width]: the mean of each set's rows of x [total, width]. */
fv_tensor *fv_point_sets_mean(fv_ctx *ctx, const fv_point_sets *sets, fv_tensor *x);

/* ---- answers to learn from ------------------------------------------------------------------ */

/* The answers of a batch, the field "target" of input numbers, as choices: with the end where the
 * problem has one. Tables on the host, of `all` steps one after the other, row by row. */
typedef struct fv_point_answers {
    fv_ctx *ctx;
    int64_t all, longest; /* steps in all, and of the longest answer */
    int64_t *steps;       /* [rows] */
    int64_t *place;       /* [all]: row * longest + step */
    int64_t *choice;      /* [all] */
    int64_t *chosen;      /* [all]: row * (1 + longest set) + choice */
    int64_t *last;        /* [all]: the input chosen before, counted over all sets; -1: none */
    int64_t *first;       /* [all]: the first input chosen; -1: none */
    uint8_t *valid;       /* [rows][longest][1 + longest set] */
    size_t bytes, valid_bytes;
} fv_point_answers;

/* Fails: ARGUMENT (no field, an input that does not exist, a choice that is not valid), MEMORY. Can
 * be freed even then. */
fv_status fv_point_answers_make(const fv_point_sets *sets, const fv_batch *batch,
                                fv_point_answers *out);
void fv_point_answers_free(fv_point_answers *answers);

/* ---- rows of a search ----------------------------------------------------------------------- */

typedef struct fv_point_search {
    fv_ctx *ctx;
    const fv_point_sets *sets;
    int64_t rows, room, step, max_steps;
    int64_t *source;  /* [room]: the set of each row */
    int64_t *history; /* [room][max_steps]: inputs chosen so far */
    uint8_t *valid;   /* [room][1 + longest] */
    size_t bytes, valid_bytes;
} fv_point_search;

/* One row for each set. Fails: MEMORY. A zeroed search may be freed and started. */
fv_status fv_point_search_start(fv_point_search *search, const fv_point_sets *sets);
void fv_point_search_free(fv_point_search *search);
/* The tokens that are fed to each row (fv_stepper.feed). */
void fv_point_search_feed(fv_point_search *search, int64_t rows, const int64_t *tokens);
/* Row i continues from row from[i]. Fails: MEMORY. */
fv_status fv_point_search_select(fv_point_search *search, int64_t rows, const int64_t *from);
/* u8 [rows, 1 + longest]. */
fv_tensor *fv_point_search_valid(fv_ctx *ctx, fv_point_search *search);

/* Puts a tensor into a place that outlives scopes, and drops the one that was there. NULL is fine.
 */
void fv_hold_tensor(fv_ctx *ctx, fv_tensor **place, fv_tensor *t);

/* Steps of a search over a set of n inputs, the end included where the problem has one. */
int64_t fv_point_steps(fv_problem problem, int64_t n);
/* Tours and sorted lists hold every input and need no end. */
bool fv_problem_has_end(fv_problem problem);

#endif
