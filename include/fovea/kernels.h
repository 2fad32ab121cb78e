/*
 * fovea/kernels.h: the matrix product under everything, for programs that want it
 * alone. Raw pointers, no context, no allocation.
 *
 *     fv_gemm g = {.m = m, .n = n, .k = k,
 *                  .a_row = k, .a_col = 1,          // A is m x k, row-major
 *                  .b_row = 1, .b_col = k,          // B is k x n, stored n x k (transposed)
 *                  .c_row = n, .batch = 1};
 *     size_t need = fv_gemm_scratch(&g, 1);
 *     void *scratch = aligned_alloc(64, need);      // need is a multiple of 64, may be 0
 *     fv_status s = fv_gemm_run(&g, a, b, NULL, scratch, need, c);
 *
 * C = act(A B + bias) + residual, or C += A B with `accumulate`. Each element is
 * one chain of fused multiply-adds with k ascending, from 0 or, with `accumulate`,
 * from C; so its bits do not depend on m, n, the batch, the threads, the strides,
 * packing or the SIMD level (which NaN comes out of several may).
 *
 * Weights that are read more often than written are packed once, as floats or in fewer
 * bits; a product with one row takes as long as reading them:
 *
 *     void *w = aligned_alloc(64, fv_gemm_packed_bytes(k, n, FV_WEIGHT_I8));
 *     fv_status s = fv_gemm_pack_as(k, n, b, b_row, b_col, FV_WEIGHT_I8, w);
 *     g.b_packed = 1;
 *     g.b_form = FV_WEIGHT_I8;
 *     s = fv_gemm_run(&g, a, w, NULL, scratch, need, c);
 *
 * bf16: each weight rounded to nearest even; the product is that of the rounded weights.
 * int8: column j is q(k,j) scale(j) with whole q from -127 to 127 and scale(j) = max|B(.,j)| / 127;
 * the chain runs over A(i,k) q(k,j), and its sum is multiplied by scale(j) before the bias. A
 * column that holds NaN or an infinity gives NaN.
 *
 * With `bf16`, A and B are floats in memory and are rounded to bf16, to nearest even, on their way
 * into the product; products are exact and their sums floats. That takes half the time where the
 * CPU has AVX512_BF16, and is what training with a compute_dtype of bf16 uses (fovea/ops.h). The
 * chain takes k in pairs, the second of a pair first, an odd last k beside a zero:
 *
 *     sum = fma(A(i,2p), B(2p,j), fma(A(i,2p+1), B(2p+1,j), sum))
 *
 * Its bits depend on the level only where a number below 2^-126 comes up: the instruction takes
 * those for 0. Level amx is the exception: it adds 32 elements of k at a time to the sum, those of
 * even and those of odd k summed first from 0, and takes every number below 2^-126 for 0. Level
 * AUTO is amx only for these products, and only if the process may use it
 * (fv_ctx_config.request_amx); FV_SIMD_AVX512 keeps the chain above. `stored_bf16`: operands that
 * are bf16 in memory; a bf16 C is rounded to once.
 *
 * Weights packed as bf16 or int8 are read as they are by a product with `bf16`, since the whole
 * numbers of int8 are bf16 numbers too: only A is rounded, and the sums of int8 are multiplied by
 * scale(j) at the end, as above.
 *
 *     g.bf16 = 1;                                   // times the panels w of above
 *     g.stored_bf16 = FV_GEMM_STORED_A | FV_GEMM_STORED_C;
 *
 * Training needs more than C of a product, and `aux` gets it in the same pass: what an activation's
 * derivative is computed from, or, beside the gradient dW = du^T x of a weight, that of the bias:
 *
 *     float db[64];                                 // m entries: with A = du^T, C is dW
 *     g.aux = FV_GEMM_AUX_ROW_SUMS;
 *     fv_gemm_exec exec = {.level = FV_SIMD_AUTO, .aux = db};
 *     s = fv_gemm_run(&g, a, b, &exec, scratch, need, c);
 *
 * Sums of rows put element k into lane k mod 16 and join the lanes as a tree (8, 4, 2, 1), so that
 * they have the bits of fv_sum for every level and any number of threads.
 */
#ifndef FOVEA_KERNELS_H
#define FOVEA_KERNELS_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_act {
    FV_ACT_NONE,
    FV_ACT_RELU,
    FV_ACT_GELU,
    FV_ACT_GELU_TANH,
    FV_ACT_SILU,
    FV_ACT_TANH,
    FV_ACT_SIGMOID,
    FV_ACT_QUICK_GELU,
    FV_ACT_COUNT
} fv_act;

/* How packed weights are stored. */
typedef enum fv_weight_form {
    FV_WEIGHT_F32,
    FV_WEIGHT_BF16,
    FV_WEIGHT_I8,
    FV_WEIGHT_FORM_COUNT
} fv_weight_form;

/* What a product writes to `aux`. A matrix of C's size has C's strides. */
typedef enum fv_gemm_aux {
    FV_GEMM_AUX_NONE,
    FV_GEMM_AUX_SUM,      /* A B + bias, before the activation; no accumulate */
    FV_GEMM_AUX_ACT,      /* act(A B + bias), before the residual; no accumulate */
    FV_GEMM_AUX_ROW_SUMS, /* m entries: the sum of each row of A; no batch, n > 0 */
    FV_GEMM_AUX_COUNT
} fv_gemm_aux;

/* Operands that are bf16 in memory, as uint16_t, rather than floats. */
enum {
    FV_GEMM_STORED_A = 1,
    FV_GEMM_STORED_B = 2,
    FV_GEMM_STORED_C = 4 /* with the residual, and an aux of C's size */
};

enum { FV_GEMM_BATCH_RANK = 6 };

typedef struct fv_gemm {
    int64_t m, n, k;      /* any may be 0; k = 0 gives act(bias) + residual */
    int64_t a_row, a_col; /* element strides of A(i,k) and B(k,j); fast when one of a pair is 1 */
    int64_t b_row, b_col;
    int64_t c_row; /* C's and the residual's columns are contiguous */
    int64_t residual_row;
    /* Batch: rank 0 with batch = 1, or up to six axes with a stride per operand (0 repeats it). */
    int64_t batch; /* product of batch_shape */
    int batch_rank;
    int64_t batch_shape[FV_GEMM_BATCH_RANK];
    int64_t a_batch[FV_GEMM_BATCH_RANK], b_batch[FV_GEMM_BATCH_RANK];
    int64_t c_batch[FV_GEMM_BATCH_RANK], residual_batch[FV_GEMM_BATCH_RANK];
    fv_act act;
    int accumulate;        /* C += A B; then no bias, act or residual */
    int b_packed;          /* B is the result of fv_gemm_pack_as; batch strides count floats */
    fv_weight_form b_form; /* of a packed B; but for F32: no batch, no accumulate */
    int bf16;              /* A and B are rounded to bf16; no batch, no B packed as floats */
    fv_gemm_aux aux;       /* what exec->aux gets; ROW_SUMS are of A before rounding */
    unsigned stored_bf16;  /* with bf16: FV_GEMM_STORED_A and the like, of what is bf16 in memory */
} fv_gemm;

typedef struct fv_gemm_exec {
    fv_simd level;         /* FV_SIMD_AUTO: detect */
    fv_pool *pool;         /* NULL: the calling thread */
    const float *bias;     /* n entries or NULL */
    const float *residual; /* like C, or NULL */
    float *aux;            /* what g->aux says; NULL only without it */
} fv_gemm_exec;

/* Scratch bytes for fv_gemm_run with that many threads. SIZE_MAX if the sizes overflow. */
FV_API size_t fv_gemm_scratch(const fv_gemm *g, int threads);

/* b: floats, or packed weights of any form. exec may be NULL. Fails: ARGUMENT (negative size, wrong
 * strides, scratch too small, bias with accumulate, aux without a kind or the reverse), UNSUPPORTED
 * (level). C and aux must not overlap each other, A, B or the bias; residual may be C. */
FV_API FV_MUST_USE fv_status fv_gemm_run(const fv_gemm *g, const float *a, const void *b,
                                         const fv_gemm_exec *exec, void *scratch,
                                         size_t scratch_bytes, float *c);

/* Bytes that B (k x n) takes when packed in a form; 64-byte aligned memory is the caller's.
 * SIZE_MAX if the sizes overflow or there is no such form. */
FV_API size_t fv_gemm_packed_bytes(int64_t k, int64_t n, fv_weight_form form);
/* Fails: ARGUMENT (sizes or form, as above). */
FV_API FV_MUST_USE fv_status fv_gemm_pack_as(int64_t k, int64_t n, const float *b, int64_t b_row,
                                             int64_t b_col, fv_weight_form form, void *packed);

/* ==== vmath ========================================================================= */

/*
 * vmath: exp, log, tanh and erf over arrays of floats, for programs that want
 * them alone. Raw pointers, no context, no allocation, one thread.
 *
 *     float x[1000] = {0.5f, -1, 3}, y[1000];
 *     fv_status s = fv_vexp(1000, x, FV_SIMD_AUTO, y);    // y[i] = e^x[i]
 *     s = fv_vtanh(1000, y, FV_SIMD_AUTO, y);             // in place is allowed
 *
 * The result has the same bits at every level and at any place in the array. Largest errors
 * over all 2^32 arguments against the exact value, in units of the last place of the result:
 *
 *     fv_vexp   1.95    underflows gradually, overflows to inf above 88.7228
 *     fv_vlog   0.82    log(+-0) = -inf, log(x < 0) = NaN
 *     fv_vtanh  1.61    odd, keeps -0, exactly +-1 from |x| = 9.0109 on
 *     fv_verf   1.73    odd, keeps -0, exactly +-1 from |x| = 3.9192 on
 *
 * NaN gives NaN; infinities give the limits.
 */

/*
 * y[i] = f(x[i]) for 0 <= i < n. x and y are n floats each: the same array or ones that do not
 * overlap; no alignment is asked for. FV_SIMD_AUTO takes the best level the machine has.
 *
 * FV_ERR_ARGUMENT: n < 0, or a NULL pointer with n > 0, or no such level.
 * FV_ERR_UNSUPPORTED: a level above the machine's. Nothing is written then.
 */
FV_API fv_status fv_vexp(int64_t n, const float *x, fv_simd level, float *y);
FV_API fv_status fv_vlog(int64_t n, const float *x, fv_simd level, float *y);
FV_API fv_status fv_vtanh(int64_t n, const float *x, fv_simd level, float *y);
FV_API fv_status fv_verf(int64_t n, const float *x, fv_simd level, float *y);

#ifdef __cplusplus
}
#endif
#endif
