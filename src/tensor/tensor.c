/*
 * Tensors: reference-counted handles over reference-counted buffers, the scopes that own them, and
 * views.
 */
#include "tensor/tensor.h"

#include <string.h>

#include "base/checked_math.h"

/* ---- lifetime ------------------------------------------------------------------- */

static void buffer_unref(fv_ctx *ctx, fv_buffer *buffer)
{
    if (!buffer || --buffer->refs > 0) return;
    if (buffer->owned) ctx->device->ops->free(ctx->device, buffer->data, buffer->bytes);
    if (buffer->bf16) ctx->device->ops->free(ctx->device, buffer->bf16, buffer->bytes / 2);
    fv_mem_free(&ctx->mem, buffer, sizeof *buffer);
}

static fv_buffer *buffer_new(fv_ctx *ctx, void *data, size_t bytes)
{
    fv_buffer *buffer = fv_mem_alloc(&ctx->mem, sizeof *buffer);
    if (!buffer) return NULL;
    *buffer = (fv_buffer){.refs = 1, .owned = data == NULL, .data = data, .bytes = bytes};
    if (data) return buffer;
    buffer->data = ctx->device->ops->alloc(ctx->device, bytes);
    if (!buffer->data) {
        fv_mem_free(&ctx->mem, buffer, sizeof *buffer);
        return NULL;
    }
    return buffer;
}

static void enter_scope(fv_ctx *ctx, fv_tensor *t)
{
    fv_scope *scope = ctx->scope;
    t->scope = scope;
    t->prev = NULL;
    t->next = scope->first;
    if (t->next) t->next->prev = t;
    scope->first = t;
}

/* A handle in the innermost scope, without shape and memory. packed_version is set with packed. */
static fv_tensor *handle_new(fv_ctx *ctx, fv_dtype dtype, int rank)
{
    fv_tensor *t = fv_mem_alloc(&ctx->mem, sizeof *t);
    if (!t) return NULL;
    t->ctx = ctx;
    t->refs = 1;
    t->flags = 0;
    t->dtype = dtype;
    t->rank = rank;
    t->node = NULL;
    t->node_out = 0;
    t->grad = NULL;
    t->packed = NULL;
    t->packed_form = 0;
    enter_scope(ctx, t);
    return t;
}

static fv_tensor *out_of_memory(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    char text[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_MEMORY, "no memory for a %s tensor %s (%llu bytes in use%s)",
              fv_dtype_name(dtype), fv_shape_text(text, rank, shape),
              (unsigned long long)ctx->mem.stats.used_bytes,
              ctx->mem.cap ? ", the context has a byte cap" : "");
    return ctx->invalid;
}

/* Checks a caller's shape and computes its size. */
static bool check_shape(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape, int64_t *count,
                        size_t *bytes)
{
    const size_t element = fv_dtype_size(dtype);
    if (element == 0) {
        fv_poison(ctx, FV_ERR_DTYPE, "no such dtype: %d", (int)dtype);
        return false;
    }
    if (rank < 0 || rank > FV_MAX_RANK) {
        fv_poison(ctx, FV_ERR_SHAPE, "rank %d is outside 0..%d", rank, (int)FV_MAX_RANK);
        return false;
    }
    if (rank > 0 && !shape) {
        fv_poison(ctx, FV_ERR_SHAPE, "shape is NULL, expected %d sizes", rank);
        return false;
    }
    char text[FV_SHAPE_TEXT];
    if (!fv_shape_count(rank, shape, count) ||
        !fv_checked_mul_size((size_t)*count, element, bytes) ||
        *bytes > FV_MEM_LARGEST) { /* fv_mem_alloc refuses more than that */
        fv_poison(ctx, FV_ERR_SHAPE, "shape %s has a negative size or too many elements",
                  fv_shape_text(text, rank, shape));
        return false;
    }
    return true;
}

fv_tensor *fv_tensor_new(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    int64_t count = 0;
    size_t bytes = 0;
    if (!check_shape(ctx, dtype, rank, shape, &count, &bytes)) return ctx->invalid;
    fv_buffer *buffer = buffer_new(ctx, NULL, bytes);
    if (!buffer) return out_of_memory(ctx, dtype, rank, shape);
    fv_tensor *t = handle_new(ctx, dtype, rank);
    if (!t) {
        buffer_unref(ctx, buffer);
        return out_of_memory(ctx, dtype, rank, shape);
    }
    t->count = count;
    for (int i = 0; i < rank; i++)
        t->shape[i] = shape[i];
    fv_shape_strides(rank, t->shape, t->stride);
    t->buffer = buffer;
    t->data = buffer->data;
    return t;
}

fv_tensor *fv_tensor_like(fv_ctx *ctx, const fv_tensor *t)
{
    return fv_tensor_new(ctx, t->dtype, t->rank, t->shape);
}

fv_tensor *fv_tensor_view(fv_ctx *ctx, const fv_tensor *base, int rank, const int64_t *shape,
                          const int64_t *stride, int64_t offset)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *t = handle_new(ctx, base->dtype, rank);
    if (!t) return out_of_memory(ctx, base->dtype, rank, shape);
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        t->shape[i] = shape[i];
        t->stride[i] = stride[i];
        count *= shape[i];
    }
    t->count = count;
    t->buffer = base->buffer;
    t->buffer->refs++;
    t->data = base->data + offset * (int64_t)fv_dtype_size(base->dtype);
    return t;
}

void fv_tensor_ref(fv_tensor *t) { t->refs++; }

void fv_tensor_unref(fv_tensor *t)
{
    if (!t || --t->refs > 0) return;
    fv_ctx *ctx = t->ctx;
    if (t->node) ctx->tape_hooks->forget_tensor(t);
    fv_tensor_unref(t->grad);
    fv_tensor_unref(t->packed);
    buffer_unref(ctx, t->buffer);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

void fv_tensor_drop_memory(fv_tensor *t)
{
    buffer_unref(t->ctx, t->buffer);
    t->buffer = NULL;
    t->data = NULL;
    t->flags |= FV_TENSOR_RELEASED;
}

void fv_tensor_leave_scope(fv_tensor *t)
{
    if (!t->scope) return;
    if (t->prev)
        t->prev->next = t->next;
    else
        t->scope->first = t->next;
    if (t->next) t->next->prev = t->prev;
    t->scope = NULL;
    t->prev = t->next = NULL;
    fv_tensor_unref(t);
}

void fv_tensor_free(fv_ctx *ctx, fv_tensor **t)
{
    if (*t && *t != ctx->invalid) fv_tensor_leave_scope(*t);
    *t = NULL;
}

/* ---- scopes --------------------------------------------------------------------- */

static fv_scope *scope_push(fv_ctx *ctx)
{
    fv_scope *scope = fv_mem_alloc(&ctx->mem, sizeof *scope);
    if (!scope) return NULL;
    *scope = (fv_scope){.parent = ctx->scope, .depth = ctx->scope ? ctx->scope->depth + 1 : 0};
    ctx->scope = scope;
    return scope;
}

static void scope_pop(fv_ctx *ctx)
{
    fv_scope *scope = ctx->scope;
    while (scope->first)
        fv_tensor_leave_scope(scope->first);
    ctx->scope = scope->parent;
    fv_mem_free(&ctx->mem, scope, sizeof *scope);
}

fv_status fv_scope_push_root(fv_ctx *ctx)
{
    return scope_push(ctx) ? FV_OK : fv_fail(ctx, FV_ERR_MEMORY, "no memory for a scope");
}

void fv_scope_destroy_all(fv_ctx *ctx)
{
    while (ctx->scope)
        scope_pop(ctx);
}

void fv_scope_begin(fv_ctx *ctx)
{
    /* Begin and end must match even without memory, so failed begins are counted. */
    if (ctx->failed_scopes > 0 || !scope_push(ctx)) {
        ctx->failed_scopes++;
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for a scope");
    }
}

void fv_scope_end(fv_ctx *ctx)
{
    if (ctx->failed_scopes > 0) {
        ctx->failed_scopes--;
        return;
    }
    if (!ctx->scope->parent) return;
    ctx->tape_hooks->end_scope(ctx, ctx->scope->depth);
    scope_pop(ctx);
}

fv_tensor *fv_scope_keep(fv_ctx *ctx, fv_tensor *t)
{
    fv_scope *scope = ctx->scope;
    /* If begin failed, t is in the enclosing scope already. */
    if (!t || ctx->failed_scopes > 0 || t->scope != scope || !scope->parent) return t;
    if (t->node) scope->kept_gradients = true;
    fv_tensor_ref(t);
    fv_tensor_leave_scope(t);
    ctx->scope = scope->parent;
    enter_scope(ctx, t);
    ctx->scope = scope;
    return t;
}

/* ---- creation ------------------------------------------------------------------- */

fv_tensor *fv_empty(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape)
{
    return fv_tensor_new(ctx, dtype, rank, shape);
}

fv_tensor *fv_wrap(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                   const int64_t *strides, void *data)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    int64_t count = 0;
    size_t bytes = 0;
    if (!ctx->device->ops->traits.host_readable) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED, "wrap: host memory cannot be used on device %s",
                  ctx->device->ops->name);
        return ctx->invalid;
    }
    if (!check_shape(ctx, dtype, rank, shape, &count, &bytes)) return ctx->invalid;
    int64_t max_offset = 0; /* of an element: must not overflow */
    for (int i = 0; i < rank && strides; i++) {
        int64_t extent = 0;
        if (strides[i] < 1 ||
            (shape[i] > 1 && (!fv_checked_mul_i64(strides[i], shape[i] - 1, &extent) ||
                              !fv_checked_add_i64(max_offset, extent, &max_offset)))) {
            fv_poison(ctx, FV_ERR_ARGUMENT,
                      "wrap: axis %d has stride %lld, expected at least 1 and no overflow", i,
                      (long long)strides[i]);
            return ctx->invalid;
        }
    }
    if (!data && count > 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "wrap: data is NULL");
        return ctx->invalid;
    }
    if ((uintptr_t)data % fv_dtype_size(dtype) != 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "wrap: data is not aligned for %s", fv_dtype_name(dtype));
        return ctx->invalid;
    }
    static const char nothing[FV_MEM_ALIGN]; /* an empty tensor points here; never read */
    fv_buffer *buffer = buffer_new(ctx, data ? data : (void *)(uintptr_t)nothing, bytes);
    if (!buffer) return out_of_memory(ctx, dtype, rank, shape);
    fv_tensor *t = handle_new(ctx, dtype, rank);
    if (!t) {
        buffer_unref(ctx, buffer);
        return out_of_memory(ctx, dtype, rank, shape);
    }
    t->count = count;
    for (int i = 0; i < rank; i++)
        t->shape[i] = shape[i];
    if (strides)
        memcpy(t->stride, strides, (size_t)rank * sizeof *strides);
    else
        fv_shape_strides(rank, t->shape, t->stride);
    t->buffer = buffer;
    t->data = buffer->data;
    return t;
}

/* ---- queries -------------------------------------------------------------------- */

fv_dtype fv_tensor_dtype(const fv_tensor *t) { return t->dtype; }
int fv_tensor_rank(const fv_tensor *t) { return t->rank; }
const int64_t *fv_tensor_shape(const fv_tensor *t) { return t->shape; }
const int64_t *fv_tensor_strides(const fv_tensor *t) { return t->stride; }
int64_t fv_tensor_count(const fv_tensor *t) { return t->count; }
bool fv_tensor_valid(const fv_tensor *t) { return !(t->flags & FV_TENSOR_INVALID); }

int64_t fv_tensor_size(const fv_tensor *t, int axis)
{
    if (axis < 0) axis += t->rank;
    return axis >= 0 && axis < t->rank ? t->shape[axis] : 0;
}

bool fv_tensor_contiguous(const fv_tensor *t)
{
    return fv_shape_contiguous(t->rank, t->shape, t->stride);
}

void *fv_tensor_data(fv_tensor *t)
{
    if (t->flags & (FV_TENSOR_INVALID | FV_TENSOR_RELEASED)) return NULL;
    return t->ctx->device->ops->traits.host_readable ? t->data : NULL;
}
