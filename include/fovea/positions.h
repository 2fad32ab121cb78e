/*
 * fovea/positions.h: positional encodings: sinusoids, learned rows, rotary, relative, ALiBi.
 *
 *     fv_tensor *table = fv_sinusoid(ctx, FV_F32, 0, n, d, 10000, FV_SINUSOID_INTERLEAVED);
 *     x = fv_positions_apply(ctx, x, table, FV_POSITIONS_ADD);          // x [batch, n, d]
 *
 *     fv_rotary_config rotary;
 *     fv_rotary_config_init(&rotary, sizeof rotary, d);
 *     fv_tensor *angles = fv_rotary_table(ctx, FV_F32, &rotary, 0, n);
 *     q = fv_rotary(ctx, q, -2, angles, rotary.pairs);                 // q [batch, heads, n, d]
 *
 *     fv_relative t5 = {
 *         .kind = FV_RELATIVE_T5, .buckets = 32, .reach = 128, .bidirectional = true};
 *     fv_tensor *bias = fv_relative_bias(ctx, &t5, learnt, 0, n_q, n_k);  // learnt [32, heads]
 *     fv_attention_input in = {.q = q, .k = k, .v = v, .bias = bias};
 *
 * `first` is the position of row 0: decoding step by step and split sequences get what the whole
 * sequence would. Tables of numbers are computed in double on the host and have no gradient;
 * tables of parameters get theirs.
 */
#ifndef FOVEA_POSITIONS_H
#define FOVEA_POSITIONS_H

#include "fovea/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- absolute --------------------------------------------------------------------- */

typedef enum fv_sinusoid_layout {
    FV_SINUSOID_INTERLEAVED, /* columns 2m and 2m + 1 are sine and cosine, as in the paper */
    FV_SINUSOID_HALVES       /* first all sines, then all cosines */
} fv_sinusoid_layout;

/* [n, width]: sin and cos of p / base^(2m / width), p = first + row, m the pair. With an odd
 * width the last column is a sine. The paper's base is 10000. Poisons: ARGUMENT. */
FV_API fv_tensor *fv_sinusoid(fv_ctx *ctx, fv_dtype dtype, int64_t first, int64_t n, int64_t width,
                              double base, fv_sinusoid_layout layout);

/* Rows first .. first + n - 1 of a learned table [most, width]. Poisons: SHAPE (not so many). */
FV_API fv_tensor *fv_positions_learned(fv_ctx *ctx, fv_tensor *table, int64_t first, int64_t n);

typedef enum fv_positions_how {
    FV_POSITIONS_ADD,   /* x + table, equal widths */
    FV_POSITIONS_CONCAT /* [x ; table], the widths add up */
} fv_positions_how;

/* x [..., n, d] with table [n, w]. */
FV_API fv_tensor *fv_positions_apply(fv_ctx *ctx, fv_tensor *x, fv_tensor *table,
                                     fv_positions_how how);

/* ---- rotary ------------------------------------------------------------------------ */

typedef struct fv_rotary_config {
    size_t struct_size;
    int64_t width;  /* columns that are rotated, even */
    double base;    /* pair m is rotated by p / base^(2m / width) [10000] */
    fv_pairs pairs; /* for fv_rotary [halves] */
    double stretch; /* positions are divided by this: a longer context [1] */
    /* Llama 3: waves longer than original / low_freq are stretched by `factor`, shorter than
     * original / high_freq stay, between them a blend. factor 0: none of this [0]. */
    double factor, low_freq, high_freq, original;
    uint64_t reserved[4]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_rotary_config;

FV_API void fv_rotary_config_init(fv_rotary_config *cfg, size_t struct_size, int64_t width);

/* [2, n, width / 2]: cosines, then sines, for positions first .. first + n - 1. */
FV_API fv_tensor *fv_rotary_table(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *cfg,
                                  int64_t first, int64_t n);

/* ---- relative ---------------------------------------------------------------------- */

typedef enum fv_relative_kind {
    FV_RELATIVE_CLIPPED, /* row clip(j - p, -reach, reach) + reach of 2 reach + 1 */
    FV_RELATIVE_T5       /* T5's buckets: near distances one by one, far ones by logarithm up to
                            `reach`; bidirectional: left and right differ, else j > p counts as 0 */
} fv_relative_kind;

typedef struct fv_relative {
    fv_relative_kind kind;
    int64_t reach, buckets; /* buckets: T5 only, at least 4 */
    bool bidirectional;     /* T5 alone */
} fv_relative;

/* Rows of the tables below; 0 if the settings are out of range. */
FV_API int64_t fv_relative_rows(const fv_relative *r);
/* i64 [n_q, n_k]: the row for query i, at position p = first + i, and key j. */
FV_API fv_tensor *fv_relative_index(fv_ctx *ctx, const fv_relative *r, int64_t first, int64_t n_q,
                                    int64_t n_k);
/* table [rows, heads] -> [heads, n_q, n_k]: a number per head and distance, as a bias. */
FV_API fv_tensor *fv_relative_bias(fv_ctx *ctx, const fv_relative *r, fv_tensor *table,
                                   int64_t first, int64_t n_q, int64_t n_k);
/* Shaw et al. 2018: q_i . a_r(i,j) with table [rows, d] -> [batch, heads, n_q, n_k]; times the
 * score's own scale it is a bias. q [batch, heads, n_q, d]. */
FV_API fv_tensor *fv_relative_keys(fv_ctx *ctx, const fv_relative *r, fv_tensor *q,
                                   fv_tensor *table, int64_t first, int64_t n_k);
/* and sum_j w_ij a_r(i,j) with table [rows, d_v] -> [batch, heads, n_q, d_v], to be added to the
 * context. weights [batch, heads, n_q, n_k]. */
FV_API fv_tensor *fv_relative_values(fv_ctx *ctx, const fv_relative *r, fv_tensor *weights,
                                     fv_tensor *table, int64_t first);

/* ---- linear bias ------------------------------------------------------------------- */

/* ALiBi's slopes [heads], for any number of heads: 2^(-8 (h+1) / n) for a power of two n; the rest
 * from every second slope of 2n. For `slopes` of an attention. */
FV_API fv_tensor *fv_alibi_slopes(fv_ctx *ctx, fv_dtype dtype, int64_t heads);

#ifdef __cplusplus
}
#endif
#endif
