/*
 * GEMM ptr: c, a, b (or packed b), bias (or NULL), residual (or NULL), aux (NULL without g->aux).
 *   args: fv_gemm (fovea/kernels.h). f32: ref, AVX2, AVX-512; f64: ref only.
 * PACK ptr: packed, b. args: fv_gemm_pack_args.
 *   All levels share one packed format: panels of FV_GEMM_PANEL columns, [n/panel][k][panel], the
 *   last panel padded with zeros. kernels/weights.h describes the low-precision formats.
 *
 * Every level computes C(i,j) as fma(A(i,k), B(k,j), sum) for k ascending, starting at 0 (at C with
 * `accumulate`). A kernel that splits k into blocks carries the running sum from one to the next.
 * With `bf16` the order is that of fovea/kernels.h; the SIMD kernels for it are in
 * kernels/gemm_bf16.h.
 */
#ifndef FV_KERNELS_GEMM_H
#define FV_KERNELS_GEMM_H

#include "fovea/kernels.h"
#include "kernels/kernel.h"

enum { FV_GEMM_PANEL = 64 };

typedef struct fv_gemm_pack_args {
    int64_t k, n, b_row, b_col;
    fv_weight_form form;
} fv_gemm_pack_args;

/* Element offsets of one batch member. */
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
 * How the SIMD levels split one product. A work item is `rows` rows by `panels` panels of one batch
 * member. It owns its part of C, so work items run in any order on any thread. Within a work item,
 * k is split into blocks of `depth`. A block of B is packed once (unless it is read in place) and
 * then multiplied by row tiles: FV_GEMM_TILE_ROWS rows of A at a time.
 */
enum { FV_GEMM_TILE_ROWS = 6 };

typedef struct fv_gemm_plan {
    int64_t rows, row_items;
    int64_t panels, column_items;
    int64_t depth;
    int64_t items;           /* batch x row_items x column_items */
    int64_t a_rows;          /* rows of A packed at a time; 0: A is read in place */
    bool pack_b;             /* else B is packed already, or read in place */
    bool one_row;            /* vector times matrix: B is streamed, nothing is packed */
    bool low_precision_rows; /* at most one row tile times low-precision weights: likewise */
    bool serial;             /* too little work to wake another thread */
    int64_t lane_rows;       /* rows of A whose sums are computed together; 0: no sums */
    int64_t a_floats, b_floats, sum_floats, lane_floats; /* scratch per thread */
} fv_gemm_plan;

/* The arguments must have passed fv_gemm_check. */
void fv_gemm_make_plan(const fv_gemm *g, int threads, fv_gemm_plan *plan);

/* Scratch for the sums of `rows` rows, `together` at a time: those of all rows stay from block to
 * block of k. */
static inline int64_t fv_gemm_lane_floats(int64_t rows, int64_t together, bool blocks)
{
    return FV_LANES * (blocks ? (rows + together - 1) / together * together : together);
}

/* FV_ERR_ARGUMENT if g violates the rules of fovea/kernels.h, else FV_OK. */
fv_status fv_gemm_check(const fv_gemm *g);

/* The scratch query of the kernel table (args: fv_gemm); the same for every level. */
size_t fv_gemm_scratch_query(const void *args, int threads);

void fv_ref_gemm_f32(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_gemm_f64(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_pack_f32(const fv_exec *exec, void *const *ptr, const void *args);
void fv_ref_pack_f64(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_neon(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_pack_neon(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_pack_avx2(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_gemm_amx_avx512(const fv_exec *exec, void *const *ptr, const void *args);
void fv_simd_pack_avx512(const fv_exec *exec, void *const *ptr, const void *args);

#endif
