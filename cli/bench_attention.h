/*
 * The lines of `fovea bench attention`.
 *
 *     const attention_shape s = {.name = "fwd", .pass = ATTENTION_FORWARD,
 *                                .n = 2048, .d = 64, .heads = 8, .level = FV_SIMD_AVX512};
 *     int code = bench_attention_line(run, &s, pool, threads);
 *
 * bench_attention.c lists the shapes, bench_attention_line.c measures one.
 *
 * Operations are counted as 4 heads n^2 d forward, 2.5 times that backward, half of both when
 * causal; the share is relative to the multiply-adds this machine can do at the same level, or for
 * bf16 to its bf16 dot products (backward: at level amx only). Decoding is counted in bytes of K
 * and V, its share relative to the memory's read bandwidth. Additive scores are counted in tanh,
 * heads n^2 d of them, half when causal. Recomputed weights are counted as 2 heads n^2 d, and their
 * time is reported as a share of the forward pass's, measured alternately. With a list of blocks
 * only visible pairs count: a share near that of the full lines means that hidden blocks cost
 * nothing.
 *
 * With --types the three element types are interleaved, and a line reports the time of one as a
 * share of f32's.
 *
 * With --long both passes run once over one long sequence and over half of it: a line reports the
 * ratio of the two times, 4 where time grows with the square of the length, and the memory that the
 * pass takes beyond inputs, outputs and gradients: its scratch and the log-sum-exps.
 */
#ifndef FOVEA_CLI_BENCH_ATTENTION_H
#define FOVEA_CLI_BENCH_ATTENTION_H

#include "bench.h"
#include "fovea/attention_kernels.h"

typedef enum attention_pass {
    ATTENTION_FORWARD,
    ATTENTION_BACKWARD,
    ATTENTION_DECODE,
    ATTENTION_MAP, /* the whole map of weights */
    ATTENTION_TOP  /* the sixteen largest of each row */
} attention_pass;

/* Lines with a list of blocks: their size, and how many there are for each visible one. */
enum { ATTENTION_BLOCK = 64, ATTENTION_SPARSE = 4 };

typedef struct attention_shape {
    const char *name; /* of the line; --only matches it and the sizes, such as n=2048 or d=64 */
    attention_pass pass;
    fv_attn_score score;
    fv_dtype dtype;
    int64_t n, d, heads;
    int64_t queries; /* number of queries over n keys; 0: n */
    bool causal;
    bool blocks; /* one block of ATTENTION_SPARSE is visible */
    fv_simd level;
} attention_shape;

/* Returns an exit code. pool may be NULL where threads is 1. */
int bench_attention_line(bench_run *run, const attention_shape *s, fv_pool *pool, int threads);

/* The shape in f32, bf16 and f16, interleaved: a line for each of the latter two. */
int bench_attention_types(bench_run *run, const attention_shape *s, fv_pool *pool, int threads);

/* One call of each pass, for sequences too long for several rounds. */
typedef struct attention_once {
    double seconds[ATTENTION_BACKWARD + 1];
    size_t bytes[ATTENTION_BACKWARD + 1]; /* of scratch and log-sum-exps */
    double limit;
    bool noisy; /* the limit changed meanwhile */
} attention_once;

/* s->pass must be ATTENTION_BACKWARD. Returns an exit code. */
int bench_attention_once(bench_run *run, const attention_shape *s, fv_pool *pool, int threads,
                         attention_once *out);
/* Prints the line of one of its passes; half: the same pass over half the length. */
void bench_attention_long_line(bench_run *run, const attention_shape *s, int threads,
                               const attention_once *whole, const attention_once *half);

#endif
