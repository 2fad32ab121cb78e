/*
 * A small attention problem in double: the numbers as plain arrays, for reference loops, and as the
 * tensors of fv_attention_input.
 *
 *     world *w = world_new();
 *     fv_attention how = world_described(FV_ATTENTION_COSINE);
 *     fv_attention_input in = world_input(w, how.score);
 *     ...
 *     world_free(w);                                    // fails the test if an error was left
 */
#ifndef FV_TESTS_WORLD_H
#define FV_TESTS_WORLD_H

#include "fovea/attention.h"
#include "support/opcase.h"

enum { B = 2, H = 4, G = 2, NQ = 5, NK = 6, D = 3, DV = 2, N_MAX = 9 };

typedef struct world {
    fv_ctx *ctx;
    double q[B][H][NQ][D], k[B][G][NK][D], v[B][G][NK][DV];
    double general[H][D][D], location[H][N_MAX][D], additive[H][D], w_q[D][D], w_k[D][D];
    double beta[H], heat[H], bias[NQ][NK], slopes[H], w_p[D][D], v_p[D];
    uint8_t visible[B][1][NQ][NK];
    int64_t key_lengths[B];
} world;

world *world_new(void);
void world_free(world *w);

/* q, k and v only; and with the other inputs that a score needs. */
fv_attention_input world_basic(world *w);
fv_attention_input world_input(world *w, fv_attention_score score);
/* The defaults with this score; the caller-defined score is world_manhattan. */
fv_attention world_described(fv_attention_score score);
/* -sum |q - k|, as a caller-defined score. */
fv_tensor *world_manhattan(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k);

double world_dot(const double *x, const double *y); /* of width D */
/* e_ij of the definition, before scale and temperature. */
double world_score(const world *w, fv_attention_score score, int b, int h, int i, int j);

fv_tensor *world_tensor(world *w, const void *data, int rank, const int64_t *shape);
#define REALS(w, field, ...)                                                                       \
    world_tensor(w, &(w)->field, FV_RANK_OF(__VA_ARGS__), (int64_t[]){__VA_ARGS__})

/* The values of an f64 tensor; free() them. */
double *world_read(world *w, fv_tensor *t);

#endif
