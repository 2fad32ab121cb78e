/*
 * Runs kernels on tensors: builds the argument structs (broadcast strides, merged axes) and passes
 * them to the device. Nothing here records gradients. After a failure these are no-ops; the context
 * holds the error.
 *
 *     fv_elementwise_args args = {.op = FV_BINARY_ADD};
 *     fv_launch_elementwise(ctx, FV_KERNEL_BINARY, a->dtype, &args, 3, (fv_tensor *[]){out, a, b});
 */
#ifndef FV_TENSOR_LAUNCH_H
#define FV_TENSOR_LAUNCH_H

#include "kernels/elementwise.h"
#include "tensor/tensor.h"

/* Any kernel; ptr has as many entries as kernels.def says. Poisons on failure. */
void fv_launch(fv_ctx *ctx, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr, const void *args,
               size_t args_bytes);

/*
 * An elementwise kernel over the shape of t[0], to which the other tensors broadcast (NumPy
 * rules; the caller has checked that they do). Entries may be NULL. Fills rank, shape and strides
 * of args. dtype is that of the real operands; if any is bf16, the bf16 kernel runs
 * (kernels/bf16.h), in which each operand is bf16 or f32.
 */
void fv_launch_elementwise(fv_ctx *ctx, fv_kernel_id kernel, fv_dtype dtype,
                           fv_elementwise_args *args, int n, fv_tensor *const *t);

/* dst = src with broadcasting and conversion; same shape or broadcastable to dst's. */
void fv_copy_into(fv_ctx *ctx, fv_tensor *dst, const fv_tensor *src);
void fv_fill(fv_ctx *ctx, fv_tensor *t, double value);

/* t itself if it is row-major without gaps, else a fresh contiguous copy. */
fv_tensor *fv_contiguous_raw(fv_ctx *ctx, fv_tensor *t);

/* dst += src, same shape; same dtype, or bf16 and f32. */
void fv_add_into(fv_ctx *ctx, fv_tensor *dst, const fv_tensor *src);

#endif
