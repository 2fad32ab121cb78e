/*
 * Products with operands rounded to bf16 (`bf16` in fovea/kernels.h), for the SIMD levels. Both
 * operands are packed as 32-bit words of two consecutive k, the first one in the low half, as
 * vdpbf16ps expects them:
 *
 *     A   words (row, k pair)
 *     B   panels as wide as the kernel's tile, [columns/width][k pairs][width]
 *
 * A work item is `rows` rows by `panels` panels of FV_GEMM_PANEL columns and owns its part of C. It
 * splits k into blocks of `depth` pairs: it packs its part of B, then FV_GEMM_BF16_ROWS rows of A
 * at a time, and multiplies them in row tiles. Few rows times packed weights need no blocks: the
 * panels are read in place, and `depth` is all of k.
 *
 * A kernel without dot products of pairs keeps two floats in place of each word.
 *
 *     fv_gemm_bf16_plan plan;
 *     fv_gemm_bf16_make_plan(g, threads, 1, &plan);
 */
#ifndef FV_KERNELS_GEMM_BF16_H
#define FV_KERNELS_GEMM_BF16_H

#include "kernels/gemm.h"

/* A multiple of the row tiles, of 6 or 32 rows, and of the sixteen lanes. */
enum { FV_GEMM_BF16_ROWS = 96 };

typedef struct fv_gemm_bf16_plan {
    int64_t pairs;                /* of k; an odd last element is paired with zero */
    int64_t depth;                /* pairs per block */
    int64_t rows, row_items;      /* rows per work item, and work items along m */
    int64_t panels, column_items; /* panels per work item, and work items along n */
    bool serial;                  /* too little work to wake another thread */
    bool few_rows;                /* at most one row tile times packed weights */
    int64_t a_words, b_words, sum_floats, lane_floats; /* scratch per thread */
} fv_gemm_bf16_plan;

/* `words`: of a packed pair, 1 or 2. */
void fv_gemm_bf16_make_plan(const fv_gemm *g, int threads, int words, fv_gemm_bf16_plan *plan);
/* Enough for either. */
size_t fv_gemm_bf16_scratch(const fv_gemm *g, int threads);

/* `count` pairs as floats: the second of each, then the first of each. */
static inline void fv_gemm_bf16_widen(const int count, const uint32_t *pairs, uint32_t *out)
{
    for (int i = 0; i < count; i++)
        out[i] = pairs[i] & 0xffff0000u;
    for (int i = 0; i < count; i++)
        out[count + i] = pairs[i] << 16;
}

/* The GEMM kernel for `bf16`: with fused multiply-adds, with the bf16 dot products of AVX512_BF16,
 * and (in tests) on emulated AMX tiles; fv_simd_gemm_amx_avx512 (kernels/gemm.h) runs it on tiles.
 */
void fv_simd_gemm_bf16_fma_neon(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_fma_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_fma_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_dot_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_emulated_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_emulated_avx512(const fv_exec *exec, void *const *ptr, const void *args);

#endif
