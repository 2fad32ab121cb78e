/*
 * GEMM ptr: c, a, b (or packed b), bias (or NULL), residual (or NULL), NULL.
 *   args: fv_gemm (fovea/gemm.h). f32: ref, AVX2, AVX-512; f64: ref only.
 * PACK ptr: packed, b. args: fv_gemm_pack_args.
 * The packed form is one for all levels: panels of FV_GEMM_PANEL columns, [n/panel][k][panel],
 * the last panel padded with zeros; forms of fewer bits are described in kernels/weights.h.
 *
 * Every level computes C(i,j) as fma(A(i,k), B(k,j), sum) for k ascending from sum = 0 (from C
 * with `accumulate`). Whatever cuts k into blocks carries the running sum over. With `bf16` the
 * chain is that of fovea/gemm.h; the vector levels take it from kernels/pairs.h.
 */
#ifndef FV_KERNELS_GEMM_H
#define FV_KERNELS_GEMM_H

#include "fovea/gemm.h"
#include "kernels/kernel.h"

enum { FV_GEMM_PANEL = 64 };

typedef struct fv_gemm_pack_args {
    int64_t k, n, b_row, b_col;
    fv_weight_form form;
} fv_gemm_pack_args;

/* Element offsets of one member of the batch. */
typedef struct fv_gemm_offsets {
    int64_t a, b, c, residual;
} fv_gemm_offsets;

static inline fv_gemm_offsets fv_gemm_locate(const fv_gemm *g, int64_t member)
{
    fv_gemm_offsets at = {0, 0, 0, 0};
    for (int axis = g->batch_rank - 1; axis >= 0; axis--) {
        int64_t index = member % g->batch_shape[axis];
        member /= g->batch_shape[axis];
        at.a += index * g->a_batch[axis];
        at.b += index * g->b_batch[axis];
        at.c += index * g->c_batch[axis];
        at.residual += index * g->residual_batch[axis];
    }
    return at;
}

/*
 * How the SIMD levels cut one product. A unit of work is `rows` rows by `panels` panels of one
 * batch member: it owns its part of C, so units run in any order on any thread. Within a unit, k
 * is walked in blocks of `depth`; a block of B is packed once (unless it is used where it lies)
 * and then met by strips of FV_GEMM_STRIP rows of A.
 */
enum { FV_GEMM_STRIP = 6 };

typedef struct fv_gemm_plan {
    int64_t rows, row_units;
    int64_t panels, column_units;
    int64_t depth;
    int64_t units;  /* batch x row_units x column_units */
    int64_t a_rows; /* rows of A packed at a time; 0: A is read where it lies */
    bool pack_b;    /* else B is packed already, or read where it lies */
    bool one_row;   /* a vector times a matrix: streamed, nothing is packed */
    bool few_rows;  /* up to a strip of rows times weights of few bits: likewise */
    bool serial;    /* too little work to wake another thread */
    int64_t a_floats, b_floats, sum_floats; /* scratch of one thread */
} fv_gemm_plan;

/* Sizes must have passed fv_gemm_check. */
void fv_gemm_make_plan(const fv_gemm *g, int threads, fv_gemm_plan *plan);

/* FV_OK, or FV_ERR_ARGUMENT for what no kernel may be given (fovea/gemm.h says what). */
fv_status fv_gemm_check(const fv_gemm *g);

/* The table's scratch query (args: fv_gemm); the same for every level. */
size_t fv_gemm_scratch_query(const void *args, int threads);

void fv_ref_gemm_f32(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_gemm_f64(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_pack_f32(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_pack_f64(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_pack_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_pack_avx512(const fv_exec *exec, void *const *ptr, const void *args);

#endif
