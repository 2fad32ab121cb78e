/*
 * fovea/points.h: problems over sets of points whose answers are lists of those points, their exact
 * or approximate solutions, and models that point at their inputs (FV_CAN_POINT).
 *
 *     fv_instance *set = NULL;
 *     const fv_points_source from = {.problem = FV_PROBLEM_TSP, .min = 10, .max = 10, .seed = 1};
 *     s = fv_instance_draw(ctx, &from, FV_POINTS_TEST, 17, &set);        // with its answer
 *     if (s == FV_OK) printf("%g\n", fv_tour_length(set->n, set->values, set->answer));
 *     fv_instance_free(&set);
 *
 * An input is a vector of fv_problem_width() numbers: a value in [0, 1), or a point of the unit
 * square. Answers are indices of inputs, from 0:
 *
 *     sort      all inputs in ascending order
 *     hull      the corners of the convex hull, counter-clockwise from the smallest point
 *     delaunay  the triangles of the Delaunay triangulation, three indices each: in a triangle
 *               ascending points, triangles in ascending order
 *     tsp       a shortest closed tour, counter-clockwise from the smallest point
 *
 * where points are ordered by x, then by y, and triangles by their first point, then the second,
 * then the third. So an answer depends on the set alone, not on the order of its inputs.
 * Orientation and circle tests are exact for any finite coordinates (data/exact.h).
 */
#ifndef FOVEA_POINTS_H
#define FOVEA_POINTS_H

#include "fovea/model.h"
#include "fovea/search.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_problem {
    FV_PROBLEM_SORT,
    FV_PROBLEM_HULL,
    FV_PROBLEM_DELAUNAY,
    FV_PROBLEM_TSP,
    FV_PROBLEM_COUNT
} fv_problem;

/* "sort", "hull", "delaunay", "tsp"; "?" if there is no such problem. */
FV_API const char *fv_problem_name(fv_problem problem);
/* Numbers of an input: 1 or 2. */
FV_API int64_t fv_problem_width(fv_problem problem);

enum {
    FV_POINTS_MAX = 1024,  /* inputs of an instance */
    FV_TSP_EXACT_MAX = 20, /* cities up to which tours are proved shortest */
    FV_SORT_VALUES = 100   /* sorting: inputs are 0, 1 .. 99, divided by this */
};

/* ---- instances ------------------------------------------------------------------------------ */

typedef enum fv_points_part { FV_POINTS_TRAIN, FV_POINTS_VALID, FV_POINTS_TEST } fv_points_part;

/* Where instances come from. One is a function of (seed, part, number). */
typedef struct fv_points_source {
    fv_problem problem;
    int64_t min, max; /* inputs, uniformly in min .. max */
    uint64_t seed;
    int64_t
        exact; /* tsp: tours of up to so many cities are shortest, others locally; 0: the most */
} fv_points_source;

typedef struct fv_instance {
    fv_ctx *ctx;
    int64_t n;
    float *values;   /* [n][width] */
    int64_t *answer; /* [count] */
    int64_t count;
    bool exact;  /* the answer is proved right */
    size_t room; /* bytes of what belongs to it */
} fv_instance;

/* The instance with its answer. Fails: ARGUMENT (bounds), MEMORY. */
FV_API FV_MUST_USE fv_status fv_instance_draw(fv_ctx *ctx, const fv_points_source *from,
                                              fv_points_part part, uint64_t number,
                                              fv_instance **out);
FV_API void fv_instance_free(fv_instance **instance); /* NULL is fine; before the context */

/*
 * The answer to inputs of the caller, values [n][width], into answer, which has room for n
 * indices, for delaunay 6 n. exact: as in fv_points_source; *proved unless NULL: whether it is
 * known to be right. Fails: ARGUMENT (n out of bounds, numbers that are not finite or beyond 1e6,
 * equal points or all points on one line for hull and delaunay), MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_problem_solve(fv_ctx *ctx, fv_problem problem, int64_t n,
                                              const float *values, int64_t exact, int64_t *answer,
                                              int64_t *count, bool *proved);

/* ---- measures ------------------------------------------------------------------------------- */

/* Of the closed tour through points [n][2] in the given order. */
FV_API double fv_tour_length(int64_t n, const float *points, const int64_t *tour);
/* A lower bound on the length of every tour: the largest weight of a 1-tree (Held and Karp 1970)
 * that `rounds` rounds of subgradient ascent find; 0 for less than 3 cities. Fails: ARGUMENT,
 * MEMORY. */
FV_API FV_MUST_USE fv_status fv_tour_bound(fv_ctx *ctx, int64_t n, const float *points, int rounds,
                                           double *out);
/* Area of the polygon through `count` of the points, positive counter-clockwise. */
FV_API double fv_polygon_area(const float *points, int64_t count, const int64_t *corners);

/* What an output is worth beside the answer. */
typedef struct fv_points_score {
    bool exact;     /* the same answer: sort and hull the list, delaunay the set, tsp the length */
    double covered; /* hull: share of the area, 0 where the polygon crosses itself; delaunay: share
                       of the triangles; sort: share of places; tsp: length / answer's length */
} fv_points_score;

FV_API FV_MUST_USE fv_status fv_points_compare(fv_ctx *ctx, fv_problem problem, int64_t n,
                                               const float *values, const int64_t *answer,
                                               int64_t answer_count, const int64_t *output,
                                               int64_t output_count, fv_points_score *out);

/* ---- models --------------------------------------------------------------------------------- */

/* The problem that a model was trained for; FV_PROBLEM_COUNT: none. */
FV_API fv_problem fv_model_problem(const fv_model *model);

/*
 * The outputs of a model for a batch of sets: rows of the field "points", f32 of rank 1. The most
 * likely valid outputs as `how` searches for them; tokens of an output are inputs, from 0. With
 * want_weights the weights of a step are the probabilities [1 + inputs] of the end and of each
 * input. Fails: ARGUMENT, UNSUPPORTED (the model does not point), MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_point(fv_model *model, const fv_batch *sets,
                                      const fv_search_config *how, fv_outputs **out);

#ifdef __cplusplus
}
#endif
#endif
