/* Writing safetensors files. */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "io/json_write.h"
#include "io/safetensors_file.h"
#include "io/sort.h"
#include "io/tensor_file.h"

/* Data starts on a multiple of this, so that mapped tensors are aligned for SIMD loads. */
enum { DATA_ALIGN = 64, MAX_CHUNK = 1 << 20 };

typedef struct plan {
    fv_ctx *ctx;
    const char *path;
    const fv_file_spec *specs;
    size_t count;
    const fv_file_metadata *metadata;
    size_t metadata_count;
    uint32_t *order; /* of the data: larger elements first, otherwise as given */
    uint32_t *sums;
    fv_json_writer header;
    size_t digits_at; /* offset of the checksums in the header */
    uint64_t data_start, total;
    size_t chunk; /* bytes requested at a time */
} plan;

static uint64_t spec_bytes(const fv_file_spec *spec)
{
    uint64_t bytes = 0;
    fv_shape_bytes(spec->rank, spec->shape, fv_dtype_size(spec->dtype),
                   &bytes); /* cannot fail: checked before */
    return bytes;
}

static int compare_elements(const void *specs, uint32_t a, uint32_t b)
{
    const fv_file_spec *s = specs;
    size_t x = fv_dtype_size(s[a].dtype), y = fv_dtype_size(s[b].dtype);
    return (x < y) - (x > y);
}

/* ---- checks ---------------------------------------------------------------------- */

static int compare_keys(const void *metadata, uint32_t a, uint32_t b)
{
    const fv_file_metadata *n = metadata;
    return strcmp(n[a].key, n[b].key);
}

static fv_status check_metadata(const plan *p)
{
    uint64_t limit = p->ctx->limits.string_bytes;
    size_t bytes;
    for (size_t i = 0; i < p->metadata_count; i++) {
        const fv_file_metadata *n = &p->metadata[i];
        FV_RETURN_IF(!n->key || !n->value, p->ctx, FV_ERR_ARGUMENT,
                     "%s: metadata without a key or a value", p->path);
        FV_RETURN_IF(strlen(n->key) > limit || strlen(n->value) > limit, p->ctx, FV_ERR_LIMIT,
                     "%s: metadata longer than %llu bytes", p->path, (unsigned long long)limit);
    }
    FV_RETURN_IF(p->metadata_count > UINT32_MAX ||
                     !fv_checked_mul_size(p->metadata_count, 8, &bytes),
                 p->ctx, FV_ERR_LIMIT, "%s: too many metadata entries", p->path);
    uint32_t *order = fv_mem_alloc(&p->ctx->mem, bytes);
    FV_RETURN_IF(!order, p->ctx, FV_ERR_MEMORY, "%s: out of memory", p->path);
    fv_argsort(p->metadata, p->metadata_count, compare_keys, order, order + p->metadata_count);
    bool twice = false;
    for (size_t i = 1; i < p->metadata_count; i++)
        twice = twice || compare_keys(p->metadata, order[i - 1], order[i]) == 0;
    fv_mem_free(&p->ctx->mem, order, bytes);
    FV_RETURN_IF(twice, p->ctx, FV_ERR_ARGUMENT, "%s: duplicate metadata key", p->path);
    return FV_OK;
}

static fv_status check(const plan *p)
{
    FV_RETURN_IF(!p->path || (p->count && !p->specs) || (p->metadata_count && !p->metadata), p->ctx,
                 FV_ERR_ARGUMENT, "safetensors: path, specs or metadata is NULL");
    FV_TRY(fv_specs_check(p->ctx, p->path, p->specs, p->count));
    for (size_t i = 0; i < p->count; i++)
        FV_RETURN_IF(strcmp(p->specs[i].name, "__metadata__") == 0, p->ctx, FV_ERR_ARGUMENT,
                     "%s: \"__metadata__\" cannot be the name of a tensor", p->path);
    FV_RETURN_IF((p->count + 1) * FV_SAFETENSORS_CRC_DIGITS > p->ctx->limits.string_bytes, p->ctx,
                 FV_ERR_LIMIT, "%s: the checksums need more than %llu bytes", p->path,
                 (unsigned long long)p->ctx->limits.string_bytes);
    return check_metadata(p);
}

/* ---- header ---------------------------------------------------------------------- */

static void write_metadata(plan *p)
{
    fv_json_writer *w = &p->header;
    fv_json_key(w, "__metadata__");
    fv_json_open(w, '{');
    for (size_t i = 0; i < p->metadata_count; i++) {
        /* Checksums copied from another file would be wrong. */
        if (strcmp(p->metadata[i].key, FV_SAFETENSORS_CRC_KEY) == 0) continue;
        fv_json_key(w, p->metadata[i].key);
        fv_json_string(w, p->metadata[i].value);
    }
    fv_json_key(w, FV_SAFETENSORS_CRC_KEY);
    fv_json_raw(w, "\"", 1);
    p->digits_at = w->bytes;
    for (size_t i = 0; i <= p->count; i++)
        fv_json_raw(w, "00000000", FV_SAFETENSORS_CRC_DIGITS);
    fv_json_raw(w, "\"", 1);
    fv_json_close(w, '}');
}

static bool write_entries(plan *p, uint64_t *data_bytes)
{
    fv_json_writer *w = &p->header;
    int64_t begin = 0;
    for (size_t i = 0; i < p->count; i++) {
        const fv_file_spec *spec = &p->specs[p->order[i]];
        int64_t end;
        if (!fv_checked_add_i64(begin, (int64_t)spec_bytes(spec), &end)) return false;
        fv_json_key(w, spec->name);
        fv_json_open(w, '{');
        fv_json_key(w, "dtype");
        fv_json_string(w, fv_safetensors_dtype_name(spec->dtype));
        fv_json_key(w, "shape");
        fv_json_open(w, '[');
        for (int k = 0; k < spec->rank; k++)
            fv_json_int(w, spec->shape[k]);
        fv_json_close(w, ']');
        fv_json_key(w, "data_offsets");
        fv_json_open(w, '[');
        fv_json_int(w, begin);
        fv_json_int(w, end);
        fv_json_close(w, ']');
        fv_json_close(w, '}');
        begin = end;
    }
    *data_bytes = (uint64_t)begin;
    return true;
}

static fv_status make_header(plan *p)
{
    fv_ctx *ctx = p->ctx;
    fv_json_writer *w = &p->header;
    uint64_t data_bytes = 0;
    fv_json_open(w, '{');
    write_metadata(p);
    bool fits = write_entries(p, &data_bytes);
    fv_json_close(w, '}');
    while (w->status == FV_OK && (sizeof(uint64_t) + w->bytes) % DATA_ALIGN != 0)
        fv_json_raw(w, " ", 1);
    FV_TRY(fv_json_end(w));
    p->data_start = sizeof(uint64_t) + w->bytes;
    uint64_t limit = ctx->limits.total_bytes;
    FV_RETURN_IF(!fits || data_bytes > limit || p->data_start > limit - data_bytes, ctx,
                 FV_ERR_LIMIT, "%s: the file would exceed %llu bytes", p->path,
                 (unsigned long long)limit);
    FV_RETURN_IF(w->bytes > ctx->limits.header_bytes, ctx, FV_ERR_LIMIT,
                 "%s: the header needs %zu bytes, the limit is %llu", p->path, w->bytes,
                 (unsigned long long)ctx->limits.header_bytes);
    p->total = p->data_start + data_bytes;
    return FV_OK;
}

static void put_digits(char *at, uint32_t sum)
{
    char digits[FV_SAFETENSORS_CRC_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08x", sum);
    memcpy(at, digits, FV_SAFETENSORS_CRC_DIGITS);
}

/* The header is written last, when all checksums are known. */
static fv_status write_header(plan *p, const fv_crc32c *crc, fv_atomic_file *save)
{
    char *text = p->header.text, *digits = text + p->digits_at;
    unsigned char length[sizeof(uint64_t)];
    for (size_t i = 0; i < sizeof length; i++)
        length[i] = (unsigned char)((uint64_t)p->header.bytes >> (8 * i));
    put_digits(digits, fv_crc32c_add(crc, 0, text, p->header.bytes));
    for (size_t i = 0; i < p->count; i++)
        put_digits(digits + (i + 1) * FV_SAFETENSORS_CRC_DIGITS, p->sums[i]);
    FV_TRY(fv_atomic_file_write(save, length, sizeof length, 0));
    return fv_atomic_file_write(save, text, p->header.bytes, sizeof length);
}

/* ---- data ------------------------------------------------------------------------ */

static fv_status write_data(plan *p, const fv_crc32c *crc, fv_atomic_file *save, char *chunk,
                            fv_file_source source, void *user)
{
    uint64_t at = p->data_start;
    for (size_t i = 0; i < p->count; i++) {
        uint64_t bytes = spec_bytes(&p->specs[p->order[i]]);
        uint32_t sum = 0;
        for (uint64_t done = 0; done < bytes;) {
            size_t n = bytes - done < p->chunk ? (size_t)(bytes - done) : p->chunk;
            FV_TRY(source(user, p->order[i], done, chunk, n));
            sum = fv_crc32c_add(crc, sum, chunk, n);
            FV_TRY(fv_atomic_file_write(save, chunk, n, at + done));
            done += n;
        }
        p->sums[i] = sum;
        at += bytes;
    }
    return FV_OK;
}

static fv_status write_file(plan *p, const fv_crc32c *crc, char *chunk, fv_file_source source,
                            void *user)
{
    fv_atomic_file save;
    FV_TRY(make_header(p));
    FV_TRY(fv_atomic_file_create(p->ctx, p->path, p->total, &save));
    fv_status status = write_data(p, crc, &save, chunk, source, user);
    if (status == FV_OK) status = write_header(p, crc, &save);
    return fv_atomic_file_close(&save, status);
}

fv_status fv_safetensors_save_stream(fv_ctx *ctx, const fv_file_spec *specs, size_t count,
                                     const fv_file_metadata *metadata, size_t metadata_count,
                                     fv_file_source source, void *user, const char *path)
{
    if (ctx->error != FV_OK) return ctx->error;
    plan p = {.ctx = ctx,
              .path = path,
              .specs = specs,
              .count = count,
              .metadata = metadata,
              .metadata_count = metadata_count};
    FV_TRY(check(&p));
    for (size_t i = 0; i < count && p.chunk < MAX_CHUNK; i++) {
        uint64_t bytes = spec_bytes(&specs[i]);
        if (bytes > p.chunk) p.chunk = bytes < MAX_CHUNK ? (size_t)bytes : MAX_CHUNK;
    }
    size_t numbers = count * sizeof(uint32_t); /* count is within fv_limits.tensors */
    fv_json_begin(&p.header, ctx);
    p.order = fv_mem_alloc(&ctx->mem, numbers);
    p.sums = fv_mem_alloc(&ctx->mem, numbers);
    char *chunk = fv_mem_alloc(&ctx->mem, p.chunk);
    fv_crc32c *crc = fv_mem_alloc(&ctx->mem, sizeof *crc);
    fv_status status = FV_OK;
    if (p.order && p.sums && chunk && crc) {
        fv_crc32c_init(crc, ctx->simd >= FV_SIMD_AVX2);
        fv_argsort(specs, count, compare_elements, p.order,
                   p.sums); /* sums is scratch space here */
        status = write_file(&p, crc, chunk, source, user);
    } else {
        status = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    }
    fv_json_free(&p.header);
    fv_mem_free(&ctx->mem, p.order, numbers);
    fv_mem_free(&ctx->mem, p.sums, numbers);
    fv_mem_free(&ctx->mem, chunk, p.chunk);
    fv_mem_free(&ctx->mem, crc, sizeof *crc);
    return status;
}

fv_status fv_safetensors_save(fv_ctx *ctx, const char *const *names, fv_tensor *const *tensors,
                              size_t count, const fv_file_metadata *metadata, size_t metadata_count,
                              const char *path)
{
    FV_RETURN_IF(!path || (count && (!names || !tensors)), ctx, FV_ERR_ARGUMENT,
                 "safetensors: path, names or tensors is NULL");
    fv_file_spec *specs = NULL;
    FV_TRY(fv_specs_of_tensors(ctx, path, names, tensors, count, &specs));
    fv_tensor_source source = {.ctx = ctx, .tensors = tensors};
    fv_status status = fv_safetensors_save_stream(ctx, specs, count, metadata, metadata_count,
                                                  fv_tensor_source_read, &source, path);
    fv_tensor_source_free(&source);
    fv_mem_free(&ctx->mem, specs, count * sizeof *specs);
    return status;
}
