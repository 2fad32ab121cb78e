/* Reading .npy and .npz files. */
#include "fovea/file.h"

#include <string.h>

#include "io/npy_header.h"
#include "io/tensor_file.h"
#include "io/utf8.h"
#include "io/zip.h"

/* The internal part of an entry. */
typedef struct array_info {
    const fv_zip_entry *zip; /* NULL in a plain .npy */
    size_t header;           /* bytes before the data */
    bool fortran;
} array_info;

struct fv_npy {
    fv_ctx *ctx;
    fv_arena arena;
    fv_file file;
    bool open;
    bool archive;
    fv_crc *crc; /* for archives */
    fv_file_entry *entries;
    array_info *infos;
    size_t count;
    const uint32_t *by_name;
};

/* ---- headers --------------------------------------------------------------------- */

/* Reads `n` bytes of an array's header, from the file or from the archive. */
static fv_status read_at(fv_npy *npy, fv_zip_reader *zip, void *out, size_t n, uint64_t offset)
{
    return zip ? fv_zip_read(zip, out, n) : fv_file_read(&npy->file, out, n, offset);
}

/* Fills entry and info from the header of an array of `available` bytes; the name is already set.
 */
static fv_status read_header(fv_npy *npy, fv_zip_reader *zip, uint64_t available,
                             fv_file_entry *entry, array_info *info)
{
    fv_ctx *ctx = npy->ctx;
    const char *path = npy->file.path;
    unsigned char raw[FV_NPY_PREAMBLE];
    size_t have = available < sizeof raw ? (size_t)available : sizeof raw, start, bytes;
    FV_TRY(read_at(npy, zip, raw, have, 0));
    FV_TRY(fv_npy_preamble(ctx, path, raw, have, &start, &bytes));
    FV_RETURN_IF(bytes > available - start, ctx, FV_ERR_FORMAT,
                 "%s: the header has %zu bytes, but the array only %llu", path, bytes,
                 (unsigned long long)available);
    /* raw may already hold the first bytes of the text, and an archive reader cannot seek. */
    size_t early = have - start < bytes ? have - start : bytes;
    char *text = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!text, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    memcpy(text, raw + start, early);
    fv_status status = read_at(npy, zip, text + early, bytes - early, have);
    if (status == FV_OK)
        status = fv_npy_parse(ctx, path, &npy->arena, text, bytes, entry, &info->fortran);
    fv_mem_free(&ctx->mem, text, bytes);
    FV_TRY(status);
    info->header = start + bytes;
    FV_RETURN_IF(entry->bytes != available - info->header, ctx, FV_ERR_FORMAT,
                 "%s: the array has %llu bytes of data, expected %llu for its shape", path,
                 (unsigned long long)(available - info->header), (unsigned long long)entry->bytes);
    return FV_OK;
}

static fv_status make_room(fv_npy *npy, size_t count)
{
    npy->entries = fv_arena_array(&npy->arena, count, sizeof *npy->entries);
    npy->infos = fv_arena_array(&npy->arena, count, sizeof *npy->infos);
    FV_RETURN_IF(!npy->entries || !npy->infos, npy->ctx, FV_ERR_MEMORY, "%s: out of memory",
                 npy->file.path);
    if (count) memset(npy->entries, 0, count * sizeof *npy->entries);
    if (count) memset(npy->infos, 0, count * sizeof *npy->infos);
    return FV_OK;
}

static fv_status open_plain(fv_npy *npy)
{
    FV_TRY(make_room(npy, 1));
    fv_file_entry *entry = &npy->entries[0];
    entry->name = "";
    FV_TRY(read_header(npy, NULL, npy->file.bytes, entry, &npy->infos[0]));
    entry->offset = npy->infos[0].header;
    entry->stored_bytes = entry->bytes;
    npy->count = 1;
    return FV_OK;
}

/* ---- archives -------------------------------------------------------------------- */

static const char SUFFIX[] = ".npy";
enum { SUFFIX_BYTES = sizeof SUFFIX - 1 };

static bool is_array(const fv_zip_entry *zip)
{
    return zip->name_bytes >= SUFFIX_BYTES &&
           memcmp(zip->name + zip->name_bytes - SUFFIX_BYTES, SUFFIX, SUFFIX_BYTES) == 0;
}

static fv_status read_member(fv_npy *npy, const fv_zip_entry *zip)
{
    fv_file_entry *entry = &npy->entries[npy->count];
    array_info *info = &npy->infos[npy->count];
    entry->name = fv_arena_text(&npy->arena, zip->name, zip->name_bytes - SUFFIX_BYTES);
    FV_RETURN_IF(!entry->name, npy->ctx, FV_ERR_MEMORY, "%s: out of memory", npy->file.path);
    fv_zip_reader reader;
    FV_TRY(fv_zip_begin(&reader, &npy->file, zip, npy->crc));
    fv_status status = read_header(npy, &reader, zip->bytes, entry, info);
    fv_zip_end(&reader);
    FV_TRY(status);
    info->zip = zip;
    entry->offset = zip->deflated ? zip->offset : zip->offset + info->header;
    entry->stored_bytes = zip->deflated ? zip->compressed_bytes : entry->bytes;
    npy->count++;
    return FV_OK;
}

static fv_status open_archive(fv_npy *npy)
{
    fv_zip_entry *list = NULL;
    size_t count = 0;
    npy->archive = true;
    npy->crc = fv_arena_alloc(&npy->arena, sizeof *npy->crc);
    FV_RETURN_IF(!npy->crc, npy->ctx, FV_ERR_MEMORY, "%s: out of memory", npy->file.path);
    fv_crc_init(npy->crc, FV_CRC32);
    FV_TRY(fv_zip_list(&npy->file, &npy->arena, &list, &count));
    FV_TRY(make_room(npy, count));
    /* Files that are not arrays are ignored. */
    for (size_t i = 0; i < count; i++)
        if (is_array(&list[i])) FV_TRY(read_member(npy, &list[i]));
    return FV_OK;
}

/* ---- opening --------------------------------------------------------------------- */

static fv_status open_file(fv_npy *npy, const char *path)
{
    fv_ctx *ctx = npy->ctx;
    const char *kept = fv_arena_text(&npy->arena, path, strlen(path));
    FV_RETURN_IF(!kept, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    FV_TRY(fv_file_open(ctx, kept, &npy->file));
    npy->open = true;
    char magic[2];
    FV_RETURN_IF(npy->file.bytes < sizeof magic, ctx, FV_ERR_FORMAT, "%s: not a NumPy file", path);
    FV_TRY(fv_file_read(&npy->file, magic, sizeof magic, 0));
    FV_TRY(magic[0] == 'P' && magic[1] == 'K' ? open_archive(npy) : open_plain(npy));
    const fv_file_entry *duplicate = NULL;
    FV_RETURN_IF(
        !fv_entries_index(&npy->arena, npy->entries, npy->count, &npy->by_name, &duplicate), ctx,
        FV_ERR_MEMORY, "%s: out of memory", path);
    char name[FV_QUOTED_BYTES];
    FV_RETURN_IF(duplicate, ctx, FV_ERR_FORMAT, "%s: duplicate array \"%s\"", path,
                 fv_quote(duplicate->name, strlen(duplicate->name), name));
    return FV_OK;
}

fv_status fv_npy_open(fv_ctx *ctx, const char *path, fv_npy **out)
{
    FV_RETURN_IF(!path, ctx, FV_ERR_ARGUMENT, "npy: the path is NULL");
    fv_npy *npy = fv_mem_zalloc(&ctx->mem, sizeof *npy);
    FV_RETURN_IF(!npy, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    npy->ctx = ctx;
    fv_arena_init(&npy->arena, &ctx->mem);
    fv_status status = open_file(npy, path);
    if (status == FV_OK)
        *out = npy;
    else
        fv_npy_close(&npy);
    return status;
}

void fv_npy_close(fv_npy **file)
{
    fv_npy *npy = *file;
    if (!npy) return;
    if (npy->open) fv_file_close(&npy->file);
    fv_arena_free(&npy->arena);
    fv_mem_free(&npy->ctx->mem, npy, sizeof *npy);
    *file = NULL;
}

bool fv_npy_is_archive(const fv_npy *file) { return file->archive; }
size_t fv_npy_count(const fv_npy *file) { return file->count; }

const fv_file_entry *fv_npy_entry(const fv_npy *file, size_t i)
{
    return i < file->count ? &file->entries[i] : NULL;
}

const fv_file_entry *fv_npy_find(const fv_npy *file, const char *name)
{
    return fv_entries_find(file->entries, file->count, file->by_name, name);
}

/* ---- data ------------------------------------------------------------------------ */

/* The CRC covers the header too, so the header is read again. */
static fv_status read_through(fv_npy *npy, fv_zip_reader *reader, size_t header, void *out,
                              size_t bytes)
{
    void *skipped = fv_mem_alloc(&npy->ctx->mem, header);
    FV_RETURN_IF(!skipped, npy->ctx, FV_ERR_MEMORY, "%s: out of memory", npy->file.path);
    fv_status status = fv_zip_read(reader, skipped, header);
    fv_mem_free(&npy->ctx->mem, skipped, header);
    FV_TRY(status);
    FV_TRY(fv_zip_read(reader, out, bytes));
    return fv_zip_check(reader);
}

/* In the order of the file. */
static fv_status read_stored(fv_npy *file, const fv_file_entry *entry, const array_info *info,
                             void *out, size_t bytes)
{
    if (!info->zip) return fv_file_read(&file->file, out, bytes, entry->offset);
    fv_zip_reader reader;
    FV_TRY(fv_zip_begin(&reader, &file->file, info->zip, file->crc));
    fv_status status = read_through(file, &reader, info->header, out, bytes);
    fv_zip_end(&reader);
    return status;
}

/* Converts an array from column-major (first index fastest) to row-major order. It is not empty,
 * and its size was checked with the header. */
static void to_row_major(const fv_file_entry *entry, const char *columns, char *rows)
{
    const int last = entry->rank - 1;
    int64_t at[FV_MAX_RANK] = {0}, stride[FV_MAX_RANK], count = 1;
    for (int axis = 0; axis <= last; axis++) {
        stride[axis] = count;
        count *= entry->shape[axis];
    }
    const size_t element = (size_t)entry->bytes / (size_t)count;
    for (int64_t i = 0, from = 0; i < count; i++) {
        memcpy(rows + (size_t)i * element, columns + (size_t)from * element, element);
        int axis = last;
        for (from += stride[axis]; axis > 0 && ++at[axis] == entry->shape[axis]; axis--) {
            at[axis] = 0;
            from += stride[axis - 1] - stride[axis] * entry->shape[axis];
        }
    }
}

fv_status fv_npy_read(fv_npy *file, const fv_file_entry *entry, void *out, size_t bytes)
{
    fv_ctx *ctx = file->ctx;
    bool is_entry = entry && (uintptr_t)entry >= (uintptr_t)file->entries &&
                    (uintptr_t)entry < (uintptr_t)(file->entries + file->count);
    FV_RETURN_IF(!is_entry || bytes != entry->bytes, ctx, FV_ERR_ARGUMENT,
                 "npy: not an entry of this file, or not the size of its data");
    const array_info *info = &file->infos[entry - file->entries];
    if (!info->fortran || bytes == 0) return read_stored(file, entry, info, out, bytes);
    char *columns = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!columns, ctx, FV_ERR_MEMORY, "%s: out of memory", file->file.path);
    fv_status status = read_stored(file, entry, info, columns, bytes);
    if (status == FV_OK) to_row_major(entry, columns, out);
    fv_mem_free(&ctx->mem, columns, bytes);
    return status;
}

static fv_status read_whole(void *file, const fv_file_entry *entry, void *out, size_t bytes)
{
    return fv_npy_read(file, entry, out, bytes);
}

fv_tensor *fv_npy_load(fv_ctx *ctx, fv_npy *file, const char *name)
{
    return fv_entry_load(ctx, file->file.path, name, fv_npy_find(file, name), read_whole, file);
}
