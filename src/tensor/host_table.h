/*
 * Tensors whose values are computed on the host, such as position tables: memory from the context,
 * and the tensor made from it.
 *
 *     double *x = fv_host_alloc(ctx, FV_F64, 2, shape);          // NULL: the error is set
 *     for (...) x[i] = ...;                                      // not if it is NULL
 *     return fv_host_tensor(ctx, FV_F64, x, 2, shape, FV_F32);   // gives x back
 */
#ifndef FV_TENSOR_HOST_TABLE_H
#define FV_TENSOR_HOST_TABLE_H

#include "fovea/tensor.h"

/* Uninitialised memory for every element of a shape. NULL on failure, which sets the sticky error:
 * MEMORY, or ARGUMENT for a negative size or an overflow. */
void *fv_host_alloc(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape);

/* The tensor with these elements, converted to `as`; frees x. NULL gives the invalid tensor. */
fv_tensor *fv_host_tensor(fv_ctx *ctx, fv_dtype dtype, void *x, int rank, const int64_t *shape,
                          fv_dtype as);

#endif
