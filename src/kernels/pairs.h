/*
 * Products whose operands are rounded to bf16 (`bf16` in fovea/gemm.h), for the vector levels.
 * Both operands are packed; two numbers that follow each other along k share a word, the first
 * one in its lower half, as the instructions for bf16 want them:
 *
 *     A   words (row, pair)
 *     B   panels of as many columns as the level's tile has, [columns/width][pairs][width]
 *
 * A unit of work is `rows` rows by `panels` panels of FV_GEMM_PANEL columns and owns its part of C.
 * It walks k in blocks of `depth` pairs: packs its part of B, then A, FV_PAIRS_ROWS rows at a time,
 * and meets them in strips of FV_GEMM_STRIP rows.
 *
 *     fv_pairs_plan plan;
 *     fv_pairs_make_plan(g, threads, &plan);
 */
#ifndef FV_KERNELS_PAIRS_H
#define FV_KERNELS_PAIRS_H

#include "kernels/gemm.h"

/* Whole strips and whole vectors of sixteen. */
enum { FV_PAIRS_ROWS = 96 };

typedef struct fv_pairs_plan {
    int64_t pairs;                        /* of k; an odd last one has a zero beside it */
    int64_t depth;                        /* pairs of a block */
    int64_t rows, row_units;              /* of C */
    int64_t panels, col_units;            /* likewise */
    bool serial;                          /* too little work to wake another thread */
    int64_t a_words, b_words, sum_floats; /* scratch of one thread */
} fv_pairs_plan;

void fv_pairs_make_plan(const fv_gemm *g, int threads, fv_pairs_plan *plan);
size_t fv_pairs_scratch(const fv_gemm *g, int threads);

/* The kernel GEMM for `bf16`: by multiply-adds, and by the dot products of AVX512_BF16. */
void fv_simd_gemm_pairs_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_pairs_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_bf16_avx512(const fv_exec *exec, void *const *ptr, const void *args);

#endif
