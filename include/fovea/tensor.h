/*
 * fovea/tensor.h: n-dimensional arrays with strides.
 *
 *     fv_scope_begin(ctx);
 *     float data[6] = {1, 2, 3, 4, 5, 6};
 *     fv_tensor *x = fv_from_host(ctx, FV_F32, 2, (int64_t[]){2, 3}, data);  // copies
 *     fv_tensor *xt = fv_transpose(ctx, x, 0, 1);                            // a view
 *     fv_tensor *y = fv_add(ctx, xt, fv_scalar(ctx, FV_F32, 1.0));           // broadcasts
 *     float out[6];
 *     fv_status s = fv_tensor_read(ctx, y, out, sizeof out);                 // row-major
 *     fv_scope_end(ctx);                                                     // x, xt, y are gone
 *
 * A tensor belongs to the scope that was innermost when it was made and dies with
 * it. Handles are plain pointers: using one after its scope ended is an error of
 * the caller, as with free(). Rank 0 (a scalar) to 8, any size may be zero.
 * Failed calls return the context's invalid tensor (never NULL); see fovea/context.h.
 */
#ifndef FOVEA_TENSOR_H
#define FOVEA_TENSOR_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FV_MAX_RANK = 8 };

typedef enum fv_dtype {
    FV_F32,
    FV_F64,
    FV_BF16, /* stored as uint16_t: the upper half of a float, rounded to nearest even */
    FV_F16,  /* stored as uint16_t: IEEE binary16 */
    FV_I32,
    FV_I64,
    FV_U8, /* bytes and booleans (0 is false) */
    FV_DTYPE_COUNT
} fv_dtype;

FV_API size_t fv_dtype_size(fv_dtype dtype);      /* bytes an element; 0 if not a dtype */
FV_API const char *fv_dtype_name(fv_dtype dtype); /* "f32", ...; "?" if not a dtype */

typedef struct fv_tensor fv_tensor;

/* ---- making --------------------------------------------------------------------- */

FV_API fv_tensor *fv_empty(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape);
FV_API fv_tensor *fv_zeros(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape);
FV_API fv_tensor *fv_full(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                          double value);
FV_API fv_tensor *fv_scalar(fv_ctx *ctx, fv_dtype dtype, double value); /* rank 0 */

/* Copies row-major host memory of exactly the tensor's size. */
FV_API fv_tensor *fv_from_host(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                               const void *data);

/*
 * Wraps caller-owned memory without copying. It must outlive the tensor and, on
 * FV_DEVICE_CPU, may have any alignment its element type allows. strides in
 * elements, NULL for row-major; negative and zero ones are refused here.
 * Other devices: FV_ERR_UNSUPPORTED.
 */
FV_API fv_tensor *fv_wrap(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                          const int64_t *strides, void *data);

/* ---- facts ---------------------------------------------------------------------- */

FV_API fv_dtype fv_tensor_dtype(const fv_tensor *t);
FV_API int fv_tensor_rank(const fv_tensor *t);
FV_API int64_t fv_tensor_size(const fv_tensor *t,
                              int axis);                   /* axis may be negative; 0 if outside */
FV_API const int64_t *fv_tensor_shape(const fv_tensor *t); /* rank entries, owned by t */
FV_API const int64_t *fv_tensor_strides(const fv_tensor *t); /* in elements, owned by t */
FV_API int64_t fv_tensor_count(const fv_tensor *t);          /* elements; 1 for rank 0 */
FV_API bool fv_tensor_contiguous(const fv_tensor *t);        /* row-major without gaps */
FV_API bool fv_tensor_valid(const fv_tensor *t);             /* false for the invalid tensor */

/* ---- reading and writing values (wait for the device) ---------------------------- */

/* Copies to row-major host memory. `bytes` must be exactly count x element size. */
FV_API FV_MUST_USE fv_status fv_tensor_read(fv_ctx *ctx, const fv_tensor *t, void *out,
                                            size_t bytes);

/* Copies from row-major host memory into t, which may be a view. */
FV_API FV_MUST_USE fv_status fv_tensor_write(fv_ctx *ctx, fv_tensor *t, const void *in,
                                             size_t bytes);

/* One-element tensors of any dtype as double. */
FV_API FV_MUST_USE fv_status fv_tensor_item(fv_ctx *ctx, const fv_tensor *t, double *out);

/*
 * The CPU address of element 0, or NULL where the device's memory cannot be read
 * (every device but FV_DEVICE_CPU), the tensor is invalid or was released.
 */
FV_API void *fv_tensor_data(fv_tensor *t);

/* ---- scopes --------------------------------------------------------------------- */

FV_API void fv_scope_begin(fv_ctx *ctx);
/* Ends the innermost scope. The outermost ends with the context only; then this does nothing. */
FV_API void fv_scope_end(fv_ctx *ctx);
/* Moves t to the enclosing scope and returns it. If t carries gradients, the ops that it was made
 * by move with it.
 */
FV_API fv_tensor *fv_scope_keep(fv_ctx *ctx, fv_tensor *t);
/* Frees a tensor before its scope ends and sets *t to NULL. NULL is fine. */
FV_API void fv_tensor_free(fv_ctx *ctx, fv_tensor **t);

#ifdef __cplusplus
}
#endif
#endif
