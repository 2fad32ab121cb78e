/*
 * Rows of bf16 taken in pairs, one pair a word, for vdpbf16ps: it adds two products of bf16 to each
 * float of a sum, the second of the pair first, at twice the rate of the float tile. Both operands
 * are what is stored, so a product loses nothing; only the sum has an order of its own. The
 * instruction takes subnormal numbers for 0.
 *
 *     fv_attn_pack_pairs(k, row, keys, d, panels);              // [keys/64][ceil(d/2)][64]
 *     fv_attn_load_pairs(q, row, rows, d, words, words_row);    // rows as they are
 *     fv_attn_pair_scores(words, words_row, rows, panels, d, first, cols, s, s_row);
 *
 * Only AVX-512 has them, and only CPUs with AVX512_BF16 may call them.
 *
 *   attention_pairs.c         this
 *   attention_bf16.c          the forward pass
 *   attention_decode_bf16.c   of few queries
 *   attention_grad_bf16.c     the backward
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_PAIRS_H
#define FV_KERNELS_SIMD_ATTENTION_PAIRS_H

#include "kernels/simd/attention_simd.h"

/* Rows in pairs: the caller's own, or a copy. */
typedef struct fv_attn_pair_rows {
    const uint32_t *at;
    int64_t row; /* words */
} fv_attn_pair_rows;

/* Floats of a split row. */
static inline int64_t fv_attn_split_row(int64_t cols) { return fv_attn_round(cols, 2 * FV_LANES); }

#if FV_SIMD_LEVEL == 3

/* The first `count` of 32 numbers of 16 bits. */
V_INLINE __mmask32 fv_attn_first_halves(int64_t count)
{
    return count >= 32 ? 0xffffffffu : (__mmask32)(((uint32_t)1 << count) - 1);
}

/* c(i,j) (+)= sum over pairs k of a(i,k) . b(k,j), whole vectors of columns. */
typedef struct fv_attn_pair_tile {
    int64_t k;
    const uint32_t *a, *b;
    int64_t a_row, b_row;
    float *c;
    int64_t c_row;
    bool add; /* to what c holds */
} fv_attn_pair_tile;

/* rows 1..FV_ATTN_STRIP, cols a multiple of 16 up to FV_TILE_COLS. */
void fv_attn_multiply_pairs(const fv_attn_pair_tile *t, int rows, int64_t cols);

/* Rows of `width` numbers, `row` apart, into panels [keys/64][ceil(width/2)][64]. Keys that lack
 * become 0 up to the next multiple of 16. */
void fv_attn_pack_pairs(const void *k, int64_t row, int64_t keys, int64_t width, void *panels);

/* Rows as they are, ceil(width/2) words each and zeros up to whole vectors, to_row words apart. */
void fv_attn_load_pairs(const void *x, int64_t row, int64_t rows, int64_t width, void *to,
                        int64_t to_row);

/* Rows in place where they are whole words, else loaded into `room`. */
fv_attn_pair_rows fv_attn_pair_rows_at(const void *x, int64_t row, int64_t rows, int64_t width,
                                       uint32_t *room, int64_t room_row);

/* Products of such rows with keys [first, first + cols) of packed panels; first and cols are
 * multiples of 16. */
void fv_attn_pair_scores(const void *x, int64_t x_row, int rows, const void *panels, int64_t width,
                         int64_t first, int64_t cols, float *s, int64_t s_row);

/* x_r . y_r of rows as they are stored, `row` numbers apart, each in the order of the scores: where
 * a y is a key's, to the bit what fv_attn_pair_scores makes of it. */
void fv_attn_pair_dots(const void *x, const void *y, int64_t row, int64_t rows, int64_t width,
                       float *out);

/*
 * Rows as floats, split: [ceil(width/32)][even 16, odd 16], zeros behind the last number. A word's
 * two numbers part by one operation each, and who adds up columns does not ask for their order.
 * Returns whether every number is one and not infinite.
 */
bool fv_attn_split_rows(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                        int64_t to_row);
/* And back, rounded to nearest even: the bits are those of fv_attn_narrow. */
void fv_attn_unite_rows(const float *split, int64_t row, int64_t rows, int64_t width, void *to,
                        int64_t to_row);

/* As fv_attn_decode, over bf16. */
void fv_attn_decode_bf16(const fv_exec *exec, void *const *ptr, const fv_attn *a);
/* The backward kernel of bf16. */
void fv_attn_backward_bf16(const fv_exec *exec, void *const *ptr, const void *args);

#endif
#endif
