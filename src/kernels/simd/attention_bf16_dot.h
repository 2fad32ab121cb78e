/*
 * bf16 dot products: rows of bf16 as pairs, one pair per word, for vdpbf16ps. It adds two products
 * of bf16 to each float sum, the second of the pair first, at twice the rate of the float tile.
 * Both operands are used as stored, so products are exact; only the order of the sum differs. The
 * instruction treats subnormal numbers as 0.
 *
 *     fv_attn_bf16_pack(k, row, keys, d, panels);               // [keys/64][ceil(d/2)][64]
 *     fv_attn_bf16_load(q, row, rows, d, words, words_row);     // rows unchanged
 *     fv_attn_bf16_scores(words, words_row, rows, panels, d, first, cols, s, s_row);
 *
 * AVX-512 only, and only on CPUs with AVX512_BF16.
 *
 *   attention_bf16_dot.c      these functions
 *   attention_bf16.c          the forward pass
 *   attention_decode_bf16.c   decoding
 *   attention_grad_bf16.c     the backward
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_BF16_DOT_H
#define FV_KERNELS_SIMD_ATTENTION_BF16_DOT_H

#include "kernels/simd/attention_simd.h"

/* Rows of bf16 pairs: the caller's own, or a copy. */
typedef struct fv_attn_bf16_rows {
    const uint32_t *at;
    int64_t row; /* words */
} fv_attn_bf16_rows;

/* Floats per deinterleaved row. */
static inline int64_t fv_attn_deinterleaved_row(int64_t cols)
{
    return fv_attn_round(cols, 2 * FV_LANES);
}

#if FV_SIMD_LEVEL == 3

/* The first `count` of 32 elements of 16 bits. */
V_INLINE __mmask32 fv_attn_first_halves(int64_t count)
{
    return count >= 32 ? 0xffffffffu : (__mmask32)(((uint32_t)1 << count) - 1);
}

/* c(i,j) (+)= sum over pairs k of a(i,k) . b(k,j), whole vectors of columns. */
typedef struct fv_attn_bf16_tile {
    int64_t k;
    const uint32_t *a, *b;
    int64_t a_row, b_row;
    float *c;
    int64_t c_row;
    bool add; /* add to c */
} fv_attn_bf16_tile;

/* rows 1..FV_ATTN_TILE_ROWS, cols a multiple of 16 up to FV_TILE_COLS. */
void fv_attn_bf16_multiply(const fv_attn_bf16_tile *t, int rows, int64_t cols);

/* Packs rows of `width` elements (row stride `row`) into panels [keys/64][ceil(width/2)][64].
 * Missing keys become 0 up to the next multiple of 16. */
void fv_attn_bf16_pack(const void *k, int64_t row, int64_t keys, int64_t width, void *panels);

/* Copies rows unchanged, ceil(width/2) words each and zeros up to whole vectors, row stride to_row
 * words. */
void fv_attn_bf16_load(const void *x, int64_t row, int64_t rows, int64_t width, void *to,
                       int64_t to_row);

/* Rows in place if they are whole words, else copied into `buffer`. */
fv_attn_bf16_rows fv_attn_bf16_rows_at(const void *x, int64_t row, int64_t rows, int64_t width,
                                       uint32_t *buffer, int64_t buffer_row);

/* Products of such rows with keys [first, first + cols) of packed panels; first and cols are
 * multiples of 16. */
void fv_attn_bf16_scores(const void *x, int64_t x_row, int rows, const void *panels, int64_t width,
                         int64_t first, int64_t cols, float *s, int64_t s_row);

/* x_r . y_r for rows as stored, row stride `row`, each in the order of the scores: if a y is a
 * key's, the same bits as fv_attn_bf16_scores gives. */
void fv_attn_bf16_dots(const void *x, int64_t x_row, const void *y, int64_t y_row, int64_t rows,
                       int64_t width, float *out);

/* The same in the order of AMX tiles: for each 32 terms, the sum of the even ones and that of the
 * odd ones are added to the sum so far. */
void fv_attn_bf16_step_dots(const void *x, int64_t x_row, const void *y, int64_t y_row,
                            int64_t rows, int64_t width, float *out);

/*
 * Converts rows to floats, deinterleaved: [ceil(width/32)][even 16, odd 16], zeros past the last
 * element. The two elements of a word are separated by one operation each, and sums over rows do
 * not depend on the column order. Returns whether every element is finite.
 */
bool fv_attn_bf16_deinterleave(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                               int64_t to_row);
/* Converts back, rounding to nearest even: the same bits as fv_attn_narrow. */
void fv_attn_bf16_interleave(const float *deinterleaved, int64_t row, int64_t rows, int64_t width,
                             void *to, int64_t to_row);

/* Packs rows of values as words of two keys, [ceil(keys/2)][ceil16(d_v)]. Returns whether all are
 * finite. */
bool fv_attn_bf16_pack_values(const uint16_t *v, int64_t row, int64_t keys, int64_t d_v,
                              uint32_t *to);

/* 2^x as fv_attn_exp2, but with a relative error of 3e-6: the weight is rounded to 2^-8 anyway. A
 * polynomial of x - floor(x); the scaling instruction takes the floor itself, -inf included. */
V_INLINE vf fv_attn_exp2_short(vf x)
{
    enum { MINUS_FLOOR = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC };
    const vf r = _mm512_reduce_ps(x, MINUS_FLOOR);
    vf y = v_set(0x1.b7f714p-7f);
    y = v_fma(y, r, v_set(0x1.abf874p-5f));
    y = v_fma(y, r, v_set(0x1.ee245p-3f));
    y = v_fma(y, r, v_set(0x1.62d6c6p-1f));
    y = v_fma(y, r, v_set(1.0f));
    return _mm512_scalef_ps(y, x);
}

/* 2^(factor s - scaled_max) */
V_INLINE vf fv_attn_bf16_weight(const float *s, vf neg_max, vf factor)
{
    return fv_attn_exp2_short(v_fma(v_load(s, FV_LANES), factor, neg_max));
}

/* As fv_attn_decode, with bf16 dot products. */
void fv_attn_decode_bf16(const fv_exec *exec, void *const *ptr, const fv_attn *a);
/* The backward kernel of bf16. */
void fv_attn_backward_bf16(const fv_exec *exec, void *const *ptr, const void *args);

#endif
#endif
