/*
 * Outputs of the problems of fovea/points.h while they are made: how long they become, and which
 * choices keep them valid.
 *
 *     fv_points_rank(problem, n, values, rank);
 *     fv_points_valid(problem, n, rank, count, choices, valid);    // valid[1 + n]
 */
#ifndef FV_DATA_POINTS_H
#define FV_DATA_POINTS_H

#include "fovea/points.h"

/* The most indices that an answer over n inputs has. */
int64_t fv_answer_max(fv_problem problem, int64_t n);

/*
 * Which choices may follow `count` choices of an output over n inputs: valid[0] is 1 if the output
 * may end, valid[1 + j] if input j may come next. rank[j] is the input's place in the order of
 * points of that header (fv_points_rank). A tour and a sorted list hold every input once; a hull
 * never repeats and has three corners or more; a triangulation is a list of triples in that order.
 * At least one choice is valid, until every input of a tour or a sorted list is used: then all are
 * 0.
 */
void fv_points_valid(fv_problem problem, int64_t n, const int64_t *rank, int64_t count,
                     const int64_t *choices, uint8_t *valid);
/* rank[j]: how many inputs come before input j in that order; equal ones keep theirs. */
void fv_points_rank(fv_problem problem, int64_t n, const float *values, int64_t *rank);

#endif
