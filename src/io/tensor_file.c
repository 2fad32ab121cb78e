#include "io/tensor_file.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/sort.h"
#include "io/utf8.h"

bool fv_shape_bytes(int rank, const int64_t *shape, size_t element, uint64_t *out)
{
    int64_t bytes = (int64_t)element;
    for (int i = 0; i < rank; i++)
        if (!fv_checked_mul_i64(bytes, shape[i], &bytes)) return false;
    *out = (uint64_t)bytes;
    return true;
}

/* ---- reading --------------------------------------------------------------------- */

static int compare_entries(const void *entries, uint32_t a, uint32_t b)
{
    const fv_file_entry *e = entries;
    return strcmp(e[a].name, e[b].name);
}

bool fv_entries_index(fv_arena *arena, const fv_file_entry *entries, size_t count,
                      const uint32_t **order, const fv_file_entry **duplicate)
{
    uint32_t *sorted = fv_arena_array(arena, count, sizeof *sorted);
    size_t spare_bytes = count * sizeof *sorted;
    uint32_t *spare = fv_mem_alloc(arena->mem, spare_bytes);
    if (sorted && spare) fv_argsort(entries, count, compare_entries, sorted, spare);
    fv_mem_free(arena->mem, spare, spare_bytes);
    if (!sorted || !spare) return false;
    *duplicate = NULL;
    for (size_t i = 1; i < count && !*duplicate; i++)
        if (compare_entries(entries, sorted[i - 1], sorted[i]) == 0)
            *duplicate = &entries[sorted[i]];
    *order = sorted;
    return true;
}

const fv_file_entry *fv_entries_find(const fv_file_entry *entries, size_t count,
                                     const uint32_t *order, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int sign = strcmp(name, entries[order[middle]].name);
        if (sign == 0) return &entries[order[middle]];
        if (sign < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* Turns the message of a failed call into the sticky error of an op. */
static void poison_with_last(fv_ctx *ctx, fv_status status)
{
    char text[FV_MESSAGE_BYTES];
    memcpy(text, ctx->message, sizeof text);
    fv_poison(ctx, status, "%s", text);
}

/* Reads directly into t if the host can write its memory, otherwise through a copy. */
static fv_status fill(fv_ctx *ctx, fv_tensor *t, const fv_file_entry *entry, fv_entry_read read,
                      void *file)
{
    size_t bytes = (size_t)entry->bytes;
    void *data = fv_tensor_data(t);
    if (data || bytes == 0) return read(file, entry, data, bytes);
    void *copy = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "out of memory for %zu bytes", bytes);
    fv_status status = read(file, entry, copy, bytes);
    if (status == FV_OK) status = fv_tensor_write(ctx, t, copy, bytes);
    fv_mem_free(&ctx->mem, copy, bytes);
    return status;
}

fv_tensor *fv_entry_load(fv_ctx *ctx, const char *path, const char *name,
                         const fv_file_entry *entry, fv_entry_read read, void *file)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    char quoted[FV_QUOTED_BYTES];
    fv_quote(name, strlen(name), quoted);
    if (!entry) {
        fv_poison(ctx, FV_ERR_INDEX, "%s: has no tensor \"%s\"", path, quoted);
        return ctx->invalid;
    }
    if (!entry->loadable) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED, "%s: \"%s\" has dtype %s, which is not supported", path,
                  quoted, entry->dtype_name);
        return ctx->invalid;
    }
    fv_tensor *t = fv_empty(ctx, entry->dtype, entry->rank, entry->shape);
    if (!fv_tensor_valid(t)) return t;
    fv_status status = fill(ctx, t, entry, read, file);
    if (status == FV_OK) return t;
    poison_with_last(ctx, status);
    fv_tensor_free(ctx, &t);
    return ctx->invalid;
}

/* ---- writing --------------------------------------------------------------------- */

static int compare_specs(const void *specs, uint32_t a, uint32_t b)
{
    const fv_file_spec *s = specs;
    return strcmp(s[a].name, s[b].name);
}

static fv_status check_spec(fv_ctx *ctx, const char *path, const fv_file_spec *spec)
{
    uint64_t bytes;
    size_t length = spec->name ? strlen(spec->name) : 0;
    char name[FV_QUOTED_BYTES];
    FV_RETURN_IF(length == 0, ctx, FV_ERR_ARGUMENT, "%s: a tensor has no name", path);
    fv_quote(spec->name, length, name);
    FV_RETURN_IF(length > ctx->limits.name_bytes, ctx, FV_ERR_LIMIT,
                 "%s: the name \"%s\" has %zu bytes, the limit is %llu", path, name, length,
                 (unsigned long long)ctx->limits.name_bytes);
    FV_RETURN_IF(!fv_utf8_valid(spec->name, length), ctx, FV_ERR_ARGUMENT,
                 "%s: the name \"%s\" is not UTF-8", path, name);
    FV_RETURN_IF(fv_dtype_size(spec->dtype) == 0, ctx, FV_ERR_ARGUMENT,
                 "%s: \"%s\" has an invalid dtype", path, name);
    FV_RETURN_IF(spec->rank < 0 || spec->rank > FV_MAX_RANK, ctx, FV_ERR_ARGUMENT,
                 "%s: \"%s\" has rank %d, expected 0 to %d", path, name, spec->rank, FV_MAX_RANK);
    for (int i = 0; i < spec->rank; i++)
        FV_RETURN_IF(spec->shape[i] < 0, ctx, FV_ERR_ARGUMENT, "%s: \"%s\" has a negative size",
                     path, name);
    FV_RETURN_IF(!fv_shape_bytes(spec->rank, spec->shape, fv_dtype_size(spec->dtype), &bytes), ctx,
                 FV_ERR_ARGUMENT, "%s: the size of \"%s\" overflows", path, name);
    return FV_OK;
}

static fv_status check_unique(fv_ctx *ctx, const char *path, const fv_file_spec *specs,
                              size_t count)
{
    size_t bytes = 2 * count * sizeof(uint32_t); /* count is within fv_limits.tensors */
    uint32_t *order = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!order, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    fv_argsort(specs, count, compare_specs, order, order + count);
    fv_status status = FV_OK;
    char name[FV_QUOTED_BYTES];
    for (size_t i = 1; i < count && status == FV_OK; i++) {
        const char *text = specs[order[i]].name;
        if (compare_specs(specs, order[i - 1], order[i]) == 0)
            status = fv_fail(ctx, FV_ERR_ARGUMENT, "%s: duplicate name \"%s\"", path,
                             fv_quote(text, strlen(text), name));
    }
    fv_mem_free(&ctx->mem, order, bytes);
    return status;
}

fv_status fv_specs_check(fv_ctx *ctx, const char *path, const fv_file_spec *specs, size_t count)
{
    FV_RETURN_IF(count > ctx->limits.tensors || count > UINT32_MAX, ctx, FV_ERR_LIMIT,
                 "%s: %zu tensors, the limit is %llu", path, count,
                 (unsigned long long)ctx->limits.tensors);
    for (size_t i = 0; i < count; i++)
        FV_TRY(check_spec(ctx, path, &specs[i]));
    return check_unique(ctx, path, specs, count);
}

fv_status fv_tensor_source_read(void *user, size_t index, uint64_t offset, void *buf, size_t bytes)
{
    fv_tensor_source *source = user;
    fv_ctx *ctx = source->ctx;
    fv_tensor *t = source->tensors[index];
    const char *data = fv_tensor_contiguous(t) ? fv_tensor_data(t) : NULL;
    if (!data) {
        if (source->copy_room == 0 || source->index != index) {
            fv_tensor_source_free(source);
            size_t whole = (size_t)fv_tensor_count(t) * fv_dtype_size(fv_tensor_dtype(t));
            source->copy = fv_mem_alloc(&ctx->mem, whole);
            FV_RETURN_IF(!source->copy, ctx, FV_ERR_MEMORY, "out of memory for %zu bytes", whole);
            source->copy_room = whole;
            source->index = index;
            FV_TRY(fv_tensor_read(ctx, t, source->copy, whole));
        }
        data = source->copy;
    }
    memcpy(buf, data + offset, bytes);
    return FV_OK;
}

void fv_tensor_source_free(fv_tensor_source *source)
{
    fv_mem_free(&source->ctx->mem, source->copy, source->copy_room);
    source->copy = NULL;
    source->copy_room = 0;
}

fv_status fv_specs_of_tensors(fv_ctx *ctx, const char *path, const char *const *names,
                              fv_tensor *const *tensors, size_t count, fv_file_spec **out)
{
    size_t bytes;
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(count > ctx->limits.tensors, ctx, FV_ERR_LIMIT,
                 "%s: %zu tensors, the limit is %llu", path, count,
                 (unsigned long long)ctx->limits.tensors);
    for (size_t i = 0; i < count; i++)
        FV_RETURN_IF(!fv_tensor_valid(tensors[i]), ctx, FV_ERR_ARGUMENT,
                     "%s: tensor %zu is not valid", path, i);
    fv_file_spec *specs =
        fv_checked_mul_size(count, sizeof *specs, &bytes) ? fv_mem_zalloc(&ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!specs, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i < count; i++) {
        specs[i].name = names ? names[i] : "";
        specs[i].dtype = fv_tensor_dtype(tensors[i]);
        specs[i].rank = fv_tensor_rank(tensors[i]);
        for (int k = 0; k < specs[i].rank; k++)
            specs[i].shape[k] = fv_tensor_size(tensors[i], k);
    }
    *out = specs;
    return FV_OK;
}
