/*
 * The bf16 copy of an f32 parameter: products that compute in bf16 read it instead of rounding the
 * parameter each time. A buffer has at most one, with its elements in the same order, so views of a
 * parameter find their part of it. The copy is made when it is first asked for, and again when the
 * buffer's version has changed since; an optimizer's kernel writes it together with the parameter.
 *
 *     const void *w = fv_bf16_copy(ctx, weight);    // element 0 of `weight`, strides as in
 * `weight`
 */
#ifndef FV_TENSOR_BF16_COPY_H
#define FV_TENSOR_BF16_COPY_H

#include "tensor/tensor.h"

/* The device address of t's first element in the copy. t is f32. The copy lives as long as the
 * buffer. Memory of a caller (fv_wrap), which may change unnoticed, is rounded each time. NULL
 * after a failure: the context holds the error. */
void *fv_bf16_copy(fv_ctx *ctx, const fv_tensor *t);

/* For a kernel that changes t and its copy together: the same address if a copy exists and is
 * current, else NULL. After the launch and the new version of the buffer, the copy is declared
 * current again. A launch that may change nothing leaves both as they are.
 *
 *     void *copy = fv_bf16_copy_of_current(t);
 *     fv_launch(...);                          // writes t and, unless NULL, copy
 *     t->buffer->version++;
 *     if (copy) fv_bf16_copy_set_current(t);
 */
void *fv_bf16_copy_of_current(const fv_tensor *t);
void fv_bf16_copy_set_current(const fv_tensor *t);

#endif
