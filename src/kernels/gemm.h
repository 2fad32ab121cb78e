/*
 * GEMM ptr: c, a, b (or packed b), bias (or NULL), residual (or NULL), NULL.
 *   args: fv_gemm (fovea/gemm.h). f32: ref, AVX2, AVX-512; f64: ref only.
 * PACK ptr: packed, b. args: fv_gemm_pack_args.
 * The packed form is one for all levels: panels of FV_GEMM_PANEL columns, [n/panel][k][panel],
 * the last panel padded with zeros.
 */
#ifndef FV_KERNELS_GEMM_H
#define FV_KERNELS_GEMM_H

#include "fovea/gemm.h"
#include "kernels/kernel.h"

enum { FV_GEMM_PANEL = 64 };

typedef struct fv_gemm_pack_args {
    int64_t k, n, b_row, b_col;
} fv_gemm_pack_args;

#endif
