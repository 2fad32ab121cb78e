/* Reading safetensors files, and those of PyTorch as if they were (io/torch_file.h). */
#include "io/safetensors_file.h"

#include <string.h>

#include "io/scan.h"
#include "io/tensor_file.h"
#include "io/torch_file.h"
#include "io/utf8.h"

/* ---- opening --------------------------------------------------------------------- */

fv_status fv_safetensors_open_shard(fv_safetensors *set, size_t number, const char *path)
{
    fv_safetensors_shard *shard = &set->shards[number];
    FV_TRY(fv_file_open(set->ctx, path, &shard->file));
    shard->open = true;
    set->shard_count++;
    FV_TRY(fv_torch_detect(&shard->file, &shard->form));
    FV_TRY(shard->form == FV_WEIGHTS_SAFETENSORS ? fv_safetensors_read_header(set, number)
                                                 : fv_torch_read_header(set, number));
    return set->flags & FV_SAFETENSORS_MAP ? fv_file_map(&shard->file, &shard->map) : FV_OK;
}

static fv_status open_one(fv_safetensors *set, const char *path)
{
    set->shards = fv_arena_alloc(&set->arena, sizeof *set->shards);
    const char *kept = fv_arena_text(&set->arena, path, strlen(path));
    FV_RETURN_IF(!set->shards || !kept, set->ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    memset(set->shards, 0, sizeof *set->shards);
    FV_TRY(fv_safetensors_open_shard(set, 0, kept));
    return fv_safetensors_join(set, path);
}

fv_status fv_safetensors_join(fv_safetensors *set, const char *path)
{
    fv_ctx *ctx = set->ctx;
    uint64_t count = 0, bytes = 0;
    for (size_t i = 0; i < set->shard_count; i++) {
        count += set->shards[i].count;
        bytes += set->shards[i].file.bytes;
    }
    FV_RETURN_IF(count > ctx->limits.tensors || count > UINT32_MAX, ctx, FV_ERR_LIMIT,
                 "%s: has %llu tensors, the limit is %llu", path, (unsigned long long)count,
                 (unsigned long long)ctx->limits.tensors);
    FV_RETURN_IF(bytes > ctx->limits.total_bytes, ctx, FV_ERR_LIMIT,
                 "%s: has %llu bytes in total, the limit is %llu", path, (unsigned long long)bytes,
                 (unsigned long long)ctx->limits.total_bytes);
    set->count = (size_t)count;
    if (set->shard_count == 1) {
        set->entries = set->shards[0].entries;
    } else {
        set->entries = fv_arena_array(&set->arena, set->count, sizeof *set->entries);
        FV_RETURN_IF(!set->entries, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
        size_t next = 0;
        for (size_t i = 0; i < set->shard_count; i++) {
            fv_safetensors_shard *shard = &set->shards[i];
            if (shard->count == 0) continue;
            memcpy(set->entries + next, shard->entries, shard->count * sizeof *set->entries);
            shard->entries = set->entries + next;
            next += shard->count;
        }
    }
    const fv_file_entry *duplicate = NULL;
    FV_RETURN_IF(
        !fv_entries_index(&set->arena, set->entries, set->count, &set->by_name, &duplicate), ctx,
        FV_ERR_MEMORY, "%s: out of memory", path);
    char name[FV_QUOTED_BYTES];
    FV_RETURN_IF(duplicate, ctx, FV_ERR_FORMAT, "%s: duplicate tensor \"%s\"", path,
                 fv_quote(duplicate->name, strlen(duplicate->name), name));
    return FV_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

fv_status fv_safetensors_open(fv_ctx *ctx, const char *path, unsigned flags, fv_safetensors **out)
{
    const unsigned known = FV_SAFETENSORS_MAP | FV_SAFETENSORS_VERIFY | FV_SAFETENSORS_CHECK;
    FV_RETURN_IF(!path || (flags & ~known), ctx, FV_ERR_ARGUMENT,
                 "safetensors: the path is NULL, or a flag is unknown");
    fv_safetensors *set = fv_mem_zalloc(&ctx->mem, sizeof *set);
    FV_RETURN_IF(!set, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    set->ctx = ctx;
    set->flags = ctx->unverified ? flags & ~(unsigned)FV_SAFETENSORS_CHECK : flags;
    fv_arena_init(&set->arena, &ctx->mem);
    fv_status status = FV_OK;
    if (set->flags & (FV_SAFETENSORS_VERIFY | FV_SAFETENSORS_CHECK)) {
        set->crc = fv_arena_alloc(&set->arena, sizeof *set->crc);
        if (set->crc)
            fv_crc32c_init(set->crc, ctx->simd >= FV_SIMD_AVX2);
        else
            status = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    }
    if (status == FV_OK)
        status = ends_with(path, ".index.json") ? fv_safetensors_open_index(set, path)
                                                : open_one(set, path);
    if (status == FV_OK)
        *out = set;
    else
        fv_safetensors_close(&set);
    return status;
}

void fv_ctx_set_verify(fv_ctx *ctx, bool verify) { ctx->unverified = !verify; }

void fv_safetensors_close(fv_safetensors **file)
{
    fv_safetensors *set = *file;
    if (!set) return;
    for (size_t i = 0; i < set->shard_count; i++) {
        fv_safetensors_shard *shard = &set->shards[i];
        if (shard->map) fv_file_unmap(&shard->file, shard->map);
        if (shard->open) fv_file_close(&shard->file);
    }
    fv_arena_free(&set->arena);
    fv_mem_free(&set->ctx->mem, set, sizeof *set);
    *file = NULL;
}

/* ---- listing --------------------------------------------------------------------- */

size_t fv_safetensors_count(const fv_safetensors *file) { return file->count; }

const fv_file_entry *fv_safetensors_entry(const fv_safetensors *file, size_t i)
{
    return i < file->count ? &file->entries[i] : NULL;
}

const fv_file_entry *fv_safetensors_find(const fv_safetensors *file, const char *name)
{
    return fv_entries_find(file->entries, file->count, file->by_name, name);
}

size_t fv_safetensors_metadata_count(const fv_safetensors *file)
{
    return file->shard_count ? file->shards[0].metadata_count : 0;
}

const fv_file_metadata *fv_safetensors_metadata_at(const fv_safetensors *file, size_t i)
{
    return i < fv_safetensors_metadata_count(file) ? &file->shards[0].metadata[i] : NULL;
}

const char *fv_safetensors_metadata_find(const fv_safetensors *file, const char *key)
{
    for (size_t i = 0; i < fv_safetensors_metadata_count(file); i++)
        if (strcmp(file->shards[0].metadata[i].key, key) == 0)
            return file->shards[0].metadata[i].value;
    return NULL;
}

fv_weights_form fv_safetensors_form(const fv_safetensors *file)
{
    return file->shard_count ? file->shards[0].form : FV_WEIGHTS_SAFETENSORS;
}

size_t fv_safetensors_shard_count(const fv_safetensors *file) { return file->shard_count; }

const char *fv_safetensors_shard_path(const fv_safetensors *file, size_t shard)
{
    return shard < file->shard_count ? file->shards[shard].file.path : NULL;
}

uint64_t fv_safetensors_shard_bytes(const fv_safetensors *file, size_t shard)
{
    return shard < file->shard_count ? file->shards[shard].file.bytes : 0;
}

/* ---- data ------------------------------------------------------------------------ */

/* What is to be checked of a whole entry. */
static fv_status scan_of(fv_safetensors *file, const fv_file_entry *entry, fv_scan *out)
{
    const bool check = (file->flags & FV_SAFETENSORS_CHECK) != 0;
    *out = (fv_scan){.crc = file->shards[entry->shard].sums ? file->crc : NULL,
                     .values = check && entry->loadable,
                     .dtype = entry->dtype};
    return file->shards[entry->shard].views ? fv_torch_check(file, entry, out) : FV_OK;
}

static bool sum_matches(const fv_safetensors *file, const fv_file_entry *entry, uint32_t sum)
{
    const fv_safetensors_shard *shard = &file->shards[entry->shard];
    return shard->views ? fv_torch_sum_matches(file, entry, sum)
                        : sum == shard->sums[entry - shard->entries];
}

static fv_status check_result(fv_safetensors *file, const fv_file_entry *entry, const fv_scan *scan)
{
    enum { REPORTED = 3 }; /* one is enough to see that a model is broken */
    const fv_safetensors_shard *shard = &file->shards[entry->shard];
    char name[FV_QUOTED_BYTES];
    fv_quote(entry->name, strlen(entry->name), name);
    FV_RETURN_IF(scan->crc && !sum_matches(file, entry, scan->sum), file->ctx, FV_ERR_FORMAT,
                 "%s: wrong checksum of \"%s\"", shard->file.path, name);
    if (scan->nonfinite && file->nonfinite++ < REPORTED)
        fv_report(file->ctx, FV_LOG_WARN, "%s: tensor \"%s\" has NaN or infinite values%s",
                  shard->file.path, name,
                  file->nonfinite == REPORTED ? "; there may be more such tensors" : "");
    return FV_OK;
}

/* Only entries of this file were checked when it was opened. */
static bool is_entry_of(const fv_safetensors *file, const fv_file_entry *entry)
{
    return entry && (uintptr_t)entry >= (uintptr_t)file->entries &&
           (uintptr_t)entry < (uintptr_t)(file->entries + file->count);
}

fv_status fv_safetensors_read(fv_safetensors *file, const fv_file_entry *entry, uint64_t offset,
                              void *out, size_t bytes)
{
    FV_RETURN_IF(!is_entry_of(file, entry), file->ctx, FV_ERR_ARGUMENT,
                 "safetensors: not an entry of this file");
    FV_RETURN_IF(offset > entry->bytes || bytes > entry->bytes - offset, file->ctx, FV_ERR_ARGUMENT,
                 "safetensors: bytes %llu to %llu are outside an entry of %llu bytes",
                 (unsigned long long)offset, (unsigned long long)(offset + bytes),
                 (unsigned long long)entry->bytes);
    const fv_safetensors_shard *shard = &file->shards[entry->shard];
    const bool mapped = bytes > 0 && shard->map, whole = bytes == entry->bytes;
    const fv_torch_view *view = fv_torch_view_of(file, entry);
    fv_scan scan = {0};
    if (whole) FV_TRY(scan_of(file, entry, &scan));
    const bool scans = scan.crc || scan.values;
    if (view && !view->contiguous) {
        FV_TRY(fv_torch_gather(file, entry, offset, out, bytes));
        if (scans) FV_TRY(fv_scan_memory(file->ctx, out, bytes, &scan));
    } else if (mapped) {
        FV_TRY(fv_file_check_size(&shard->file));
        memcpy(out, (const char *)shard->map + entry->offset + offset, bytes);
        if (scans) FV_TRY(fv_scan_memory(file->ctx, out, bytes, &scan));
    } else if (scans) {
        FV_TRY(fv_scan_read(&shard->file, out, bytes, entry->offset, &scan));
    } else {
        FV_TRY(fv_file_read(&shard->file, out, bytes, entry->offset + offset));
    }
    return scans ? check_result(file, entry, &scan) : FV_OK;
}

fv_status fv_safetensors_view(fv_safetensors *file, const fv_file_entry *entry, const void **out)
{
    FV_RETURN_IF(!is_entry_of(file, entry), file->ctx, FV_ERR_ARGUMENT,
                 "safetensors: not an entry of this file");
    const fv_safetensors_shard *shard = &file->shards[entry->shard];
    FV_RETURN_IF(!shard->map, file->ctx, FV_ERR_STATE,
                 "%s: not mapped, open it with FV_SAFETENSORS_MAP", shard->file.path);
    const fv_torch_view *view = fv_torch_view_of(file, entry);
    FV_RETURN_IF(view && !view->contiguous, file->ctx, FV_ERR_STATE,
                 "%s: a tensor is stored with strides and must be read", shard->file.path);
    FV_TRY(fv_file_check_size(&shard->file));
    const void *data = (const char *)shard->map + entry->offset;
    fv_scan scan = {0};
    FV_TRY(scan_of(file, entry, &scan));
    if (scan.crc || scan.values) {
        FV_TRY(fv_scan_memory(file->ctx, data, (size_t)entry->bytes, &scan));
        FV_TRY(check_result(file, entry, &scan));
    }
    *out = data;
    return FV_OK;
}

static fv_status read_whole(void *file, const fv_file_entry *entry, void *out, size_t bytes)
{
    return fv_safetensors_read(file, entry, 0, out, bytes);
}

fv_tensor *fv_safetensors_load(fv_ctx *ctx, fv_safetensors *file, const char *name)
{
    const fv_file_entry *entry = fv_safetensors_find(file, name);
    const char *path = file->shard_count ? file->shards[entry ? entry->shard : 0].file.path : "";
    return fv_entry_load(ctx, path, name, entry, read_whole, file);
}
