/* Data of the files in io/torch_file.h: checksums of storages, and views that are not contiguous.
 */
#include <string.h>

#include "io/torch_file.h"
#include "io/utf8.h"

const fv_torch_view *fv_torch_view_of(const fv_safetensors *set, const fv_file_entry *entry)
{
    const fv_safetensors_shard *shard = &set->shards[entry->shard];
    return shard->views ? &shard->views[entry - shard->entries] : NULL;
}

static fv_torch_storage *storage_of(const fv_safetensors *set, const fv_file_entry *entry)
{
    return &set->shards[entry->shard].storages[fv_torch_view_of(set, entry)->storage];
}

bool fv_torch_sum_matches(const fv_safetensors *set, const fv_file_entry *entry, uint32_t sum)
{
    return storage_of(set, entry)->crc == sum;
}

/* Reads a storage only to sum it. */
static fv_status sum_storage(const fv_safetensors *set, const fv_file *file,
                             const fv_torch_storage *s, uint32_t *sum)
{
    enum { CHUNK = 1 << 18 };
    fv_mem *mem = &set->ctx->mem;
    char *chunk = fv_mem_alloc(mem, CHUNK);
    FV_RETURN_IF(!chunk, set->ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    fv_status status = FV_OK;
    *sum = 0;
    for (uint64_t at = 0; at < s->bytes && status == FV_OK;) {
        const size_t n = s->bytes - at < CHUNK ? (size_t)(s->bytes - at) : CHUNK;
        status = fv_file_read(file, chunk, n, s->offset + at);
        if (status == FV_OK) *sum = fv_crc32c_add(set->zip_crc, *sum, chunk, n);
        at += n;
    }
    fv_mem_free(mem, chunk, CHUNK);
    return status;
}

fv_status fv_torch_check(fv_safetensors *set, const fv_file_entry *entry, fv_scan *scan)
{
    const fv_file *file = &set->shards[entry->shard].file;
    fv_torch_storage *s = storage_of(set, entry);
    uint32_t sum = 0;
    if (!set->zip_crc || s->verified) return FV_OK;
    if (fv_torch_view_of(set, entry)->contiguous && entry->bytes == s->bytes) {
        scan->crc = set->zip_crc;
        return FV_OK;
    }
    char name[FV_QUOTED_BYTES];
    FV_TRY(sum_storage(set, file, s, &sum));
    FV_RETURN_IF(sum != s->crc, set->ctx, FV_ERR_FORMAT, "%s: wrong checksum of \"%s\"", file->path,
                 fv_quote(entry->name, strlen(entry->name), name));
    s->verified = true;
    return FV_OK;
}

/* ---- strides --------------------------------------------------------------------------------- */

/* Elements from the first one of the view to the last. */
static size_t span_of(const fv_file_entry *entry, const fv_torch_view *view)
{
    int64_t last = 0;
    for (int i = 0; i < entry->rank; i++)
        last += (entry->shape[i] - 1) * view->stride[i];
    return (size_t)last + 1;
}

/* Copies from byte `offset` of the row-major order on; `data` is the view's first element. */
static void copy_view(const fv_file_entry *entry, const fv_torch_view *view, const char *data,
                      uint64_t offset, char *out, size_t bytes)
{
    const size_t element = view->element;
    int64_t at[FV_MAX_RANK], index = (int64_t)(offset / element), from = 0;
    for (int i = entry->rank - 1; i >= 0; i--) {
        at[i] = index % entry->shape[i];
        index /= entry->shape[i];
        from += at[i] * view->stride[i];
    }
    size_t skip = (size_t)(offset % element); /* a read may begin inside an element */
    for (size_t done = 0; done < bytes; skip = 0) {
        const size_t left = bytes - done, n = element - skip < left ? element - skip : left;
        memcpy(out + done, data + (size_t)from * element + skip, n);
        done += n;
        int axis = entry->rank - 1;
        for (from += view->stride[axis]; axis > 0 && ++at[axis] == entry->shape[axis]; axis--) {
            at[axis] = 0;
            from += view->stride[axis - 1] - view->stride[axis] * entry->shape[axis];
        }
    }
}

fv_status fv_torch_gather(fv_safetensors *set, const fv_file_entry *entry, uint64_t offset,
                          char *out, size_t bytes)
{
    const fv_safetensors_shard *shard = &set->shards[entry->shard];
    const fv_torch_view *view = fv_torch_view_of(set, entry);
    const size_t room = span_of(entry, view) * view->element; /* within the storage */
    fv_mem *mem = &set->ctx->mem;
    if (shard->map) {
        FV_TRY(fv_file_check_size(&shard->file));
        copy_view(entry, view, (const char *)shard->map + entry->offset, offset, out, bytes);
        return FV_OK;
    }
    char *data = fv_mem_alloc(mem, room);
    FV_RETURN_IF(!data, set->ctx, FV_ERR_MEMORY, "%s: out of memory for %zu bytes",
                 shard->file.path, room);
    const fv_status status = fv_file_read(&shard->file, data, room, entry->offset);
    if (status == FV_OK) copy_view(entry, view, data, offset, out, bytes);
    fv_mem_free(mem, data, room);
    return status;
}
