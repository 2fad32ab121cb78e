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
 *
 *     float frame[2][4] = {{1, 2, 3, 0}, {4, 5, 6, 0}};     // rows of 3, padded to 4
 *     fv_tensor *t = fv_wrap(ctx, FV_F32, 2, (int64_t[]){2, 3}, (int64_t[]){4, 1}, frame);
 *     fv_tensor *sum = fv_sum(ctx, t, 0, NULL, false);      // 21: the padding is not read
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

/*
 * Copies from row-major host memory into t, which may be a view: here rows 8 to 15 of a buffer that
 * is filled piece by piece.
 *
 *     fv_tensor *buffer = fv_empty(ctx, FV_F32, 2, (int64_t[]){64, 4});   // not initialised
 *     fv_tensor *rows = fv_slice(ctx, buffer, 0, 8, 16, 1);               // a view
 *     const float piece[8][4] = {{0}};
 *     s = fv_tensor_write(ctx, rows, piece, sizeof piece);
 *     fv_tensor_free(ctx, &rows);                                         // before its scope ends
 */
FV_API FV_MUST_USE fv_status fv_tensor_write(fv_ctx *ctx, fv_tensor *t, const void *in,
                                             size_t bytes);

/* One-element tensors of any dtype as double. */
FV_API FV_MUST_USE fv_status fv_tensor_item(fv_ctx *ctx, const fv_tensor *t, double *out);

/*
 * The CPU address of element 0, or NULL where the device's memory cannot be read
 * (every device but FV_DEVICE_CPU), the tensor is invalid or was released.
 *
 *     const float *values = fv_tensor_data(x);              // x is f32 [rows, columns], any view
 *     const int64_t *stride = fv_tensor_strides(x);
 *     if (values) printf("x[2][1] is %g\n", values[2 * stride[0] + stride[1]]);
 *     if (values && fv_tensor_contiguous(x)) printf("so is %g\n", values[2 * width + 1]);
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
