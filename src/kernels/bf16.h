/*
 * Kernels over bf16 tensors, launched with the dtype FV_BF16. A kernel widens a block of its bf16
 * operands to float in a buffer that stays in the caches, runs the float kernel of its table on it
 * and rounds the result once, to nearest even. So it has the bits of the float kernel on the
 * widened operands, rounded, at every level and for any number of threads. SIMD levels have a
 * cross-entropy of their own that does the same in registers: a row of logits fills no cache twice.
 *
 *     fv_launch(ctx, FV_KERNEL_LAYER_NORM, FV_BF16, ptr, &args, sizeof args);
 *
 * Which pointers are bf16; all others are what the float kernel takes:
 *
 *     UNARY, UNARY_GRAD, BINARY, BINARY_GRAD    those that fv_elementwise_args.bf16 marks
 *     LAYER_NORM, RMS_NORM                      y, x           (mean, rstd, gamma, beta: f32)
 *     LAYER_NORM_GRAD, RMS_NORM_GRAD            dx, g, x       (statistics and gamma: f32)
 *     NORM_PARAM_GRAD                           g, x           (dgamma, dbeta: f32)
 *     CROSS_ENTROPY, CROSS_ENTROPY_GRAD         logits, dx     (losses, lse, scale: f32)
 *     DROPOUT, ROTARY                           y, x           (table of angles: f32)
 *     INDEX_ADD                                 the rows added (the table: f32)
 *
 * GEMM and attention read bf16 in kernels of their own (kernels/gemm_bf16.h, kernels/attention.h);
 * COPY, FILL and gathers take any dtype.
 */
#ifndef FV_KERNELS_BF16_H
#define FV_KERNELS_BF16_H

#include "kernels/kernel.h"

void fv_bf16_elementwise_register(fv_kernel_table *t);
void fv_bf16_rows_register(fv_kernel_table *t);

/* The same kernels on the calling thread, with the caller's table: what runs on a block. */
static inline fv_exec fv_exec_serial(const fv_exec *exec)
{
    fv_exec serial = *exec;
    serial.threads = 1;
    return serial;
}

#endif
