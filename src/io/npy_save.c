/* Writing .npy and .npz files. */
#include <string.h>

#include "base/checked_math.h"
#include "fovea/file.h"
#include "io/npy_header.h"
#include "io/tensor_file.h"
#include "io/utf8.h"
#include "io/zip.h"

enum { PIECE = 1 << 18 };

/* Writes an array's data at offset `at`, and updates *sum if crc is not NULL. */
static fv_status write_data(fv_atomic_file *save, fv_tensor_source *source, size_t index,
                            uint64_t bytes, char *piece, const fv_crc *crc, uint32_t *sum,
                            uint64_t at)
{
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < PIECE ? (size_t)(bytes - done) : PIECE;
        FV_TRY(fv_tensor_source_read(source, index, done, piece, n));
        if (crc) *sum = fv_crc_add(crc, *sum, piece, n);
        FV_TRY(fv_atomic_file_write(save, piece, n, at + done));
        done += n;
    }
    return FV_OK;
}

static fv_status array_header(fv_ctx *ctx, const char *path, const fv_file_spec *spec,
                              char text[FV_NPY_HEADER_BYTES], size_t *header, uint64_t *data)
{
    *header = fv_npy_header(spec, text);
    FV_RETURN_IF(*header == 0, ctx, FV_ERR_UNSUPPORTED, "%s: NumPy has no dtype for %s", path,
                 fv_dtype_name(spec->dtype));
    FV_RETURN_IF(!fv_shape_bytes(spec->rank, spec->shape, fv_dtype_size(spec->dtype), data), ctx,
                 FV_ERR_ARGUMENT, "%s: the size of the array overflows", path);
    return FV_OK;
}

/* ---- one array ------------------------------------------------------------------- */

static fv_status save_plain(fv_ctx *ctx, const char *path, const fv_file_spec *spec,
                            fv_tensor_source *source, char *piece)
{
    char text[FV_NPY_HEADER_BYTES];
    size_t header = 0;
    uint64_t data = 0;
    fv_atomic_file save;
    FV_TRY(array_header(ctx, path, spec, text, &header, &data));
    FV_TRY(fv_atomic_file_create(ctx, path, header + data, &save));
    fv_status status = fv_atomic_file_write(&save, text, header, 0);
    if (status == FV_OK) status = write_data(&save, source, 0, data, piece, NULL, NULL, header);
    return fv_atomic_file_close(&save, status);
}

fv_status fv_npy_save(fv_ctx *ctx, fv_tensor *tensor, const char *path)
{
    FV_RETURN_IF(!path || !tensor, ctx, FV_ERR_ARGUMENT, "npy: path or tensor is NULL");
    fv_file_spec *spec = NULL;
    FV_TRY(fv_specs_of_tensors(ctx, path, NULL, &tensor, 1, &spec));
    fv_tensor_source source = {.ctx = ctx, .tensors = &tensor};
    char *piece = fv_mem_alloc(&ctx->mem, PIECE);
    fv_status status = piece ? save_plain(ctx, path, spec, &source, piece)
                             : fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    fv_mem_free(&ctx->mem, piece, PIECE);
    fv_tensor_source_free(&source);
    fv_mem_free(&ctx->mem, spec, sizeof *spec);
    return status;
}

/* ---- archives -------------------------------------------------------------------- */

typedef struct archive {
    fv_ctx *ctx;
    const char *path;
    const fv_file_spec *specs;
    size_t count;
    fv_arena arena;
    fv_zip_entry *entries; /* names end in ".npy" */
    unsigned char *directory;
    size_t directory_bytes;
    uint64_t directory_at;
    fv_crc *crc;
    char *piece;
} archive;

/* Computes all sizes and offsets; the checksums are filled in later. */
static fv_status lay_out(archive *a)
{
    fv_ctx *ctx = a->ctx;
    uint64_t at = 0, central = 0;
    char text[FV_NPY_HEADER_BYTES];
    a->entries = fv_arena_array(&a->arena, a->count, sizeof *a->entries);
    a->crc = fv_arena_alloc(&a->arena, sizeof *a->crc);
    a->piece = fv_arena_alloc(&a->arena, PIECE);
    FV_RETURN_IF(!a->entries || !a->crc || !a->piece, ctx, FV_ERR_MEMORY, "%s: out of memory",
                 a->path);
    fv_crc_init(a->crc, FV_CRC32);
    for (size_t i = 0; i < a->count; i++) {
        size_t header = 0, length = strlen(a->specs[i].name), name_bytes = length + 4;
        uint64_t data = 0;
        FV_TRY(array_header(ctx, a->path, &a->specs[i], text, &header, &data));
        char *name = fv_arena_alloc(&a->arena, name_bytes + 1);
        FV_RETURN_IF(!name, ctx, FV_ERR_MEMORY, "%s: out of memory", a->path);
        memcpy(name, a->specs[i].name, length);
        memcpy(name + length, ".npy", sizeof ".npy");
        uint64_t bytes = header + data, end = at + FV_ZIP_LOCAL_BYTES + name_bytes + bytes;
        FV_RETURN_IF(name_bytes > UINT16_MAX || data > UINT32_MAX || end >= UINT32_MAX ||
                         a->count >= UINT16_MAX,
                     ctx, FV_ERR_LIMIT, "%s: the archive would exceed 4 GiB", a->path);
        a->entries[i] = (fv_zip_entry){.name = name,
                                       .name_bytes = name_bytes,
                                       .compressed_bytes = bytes,
                                       .bytes = bytes,
                                       .header = at,
                                       .offset = at + FV_ZIP_LOCAL_BYTES + name_bytes};
        at = end;
        central += FV_ZIP_CENTRAL_BYTES + name_bytes;
    }
    FV_RETURN_IF(at + central >= UINT32_MAX, ctx, FV_ERR_LIMIT,
                 "%s: the archive would exceed 4 GiB", a->path);
    a->directory_at = at;
    a->directory_bytes = (size_t)central;
    a->directory = fv_arena_alloc(&a->arena, a->directory_bytes + FV_ZIP_END_BYTES);
    FV_RETURN_IF(!a->directory, ctx, FV_ERR_MEMORY, "%s: out of memory", a->path);
    return FV_OK;
}

/* Writes the data first: its checksum goes into the header before it. */
static fv_status write_member(archive *a, fv_atomic_file *save, fv_tensor_source *source, size_t i)
{
    fv_zip_entry *e = &a->entries[i];
    char text[FV_NPY_HEADER_BYTES];
    unsigned char local[FV_ZIP_LOCAL_BYTES];
    size_t header = fv_npy_header(&a->specs[i], text);
    e->crc = fv_crc_add(a->crc, 0, text, header);
    FV_TRY(fv_atomic_file_write(save, text, header, e->offset));
    FV_TRY(write_data(save, source, i, e->bytes - header, a->piece, a->crc, &e->crc,
                      e->offset + header));
    fv_zip_put_local(e, local);
    FV_TRY(fv_atomic_file_write(save, local, sizeof local, e->header));
    return fv_atomic_file_write(save, e->name, e->name_bytes, e->header + sizeof local);
}

static fv_status write_archive(archive *a, fv_atomic_file *save, fv_tensor_source *source)
{
    unsigned char *at = a->directory;
    for (size_t i = 0; i < a->count; i++) {
        const fv_zip_entry *e = &a->entries[i];
        FV_TRY(write_member(a, save, source, i));
        fv_zip_put_central(e, at);
        memcpy(at + FV_ZIP_CENTRAL_BYTES, e->name, e->name_bytes);
        at += FV_ZIP_CENTRAL_BYTES + e->name_bytes;
    }
    fv_zip_put_end(a->count, a->directory_at, a->directory_bytes, at);
    return fv_atomic_file_write(save, a->directory, a->directory_bytes + FV_ZIP_END_BYTES,
                                a->directory_at);
}

static fv_status save_archive(archive *a, fv_tensor_source *source)
{
    fv_atomic_file save;
    FV_TRY(fv_specs_check(a->ctx, a->path, a->specs, a->count));
    FV_TRY(lay_out(a));
    FV_TRY(fv_atomic_file_create(a->ctx, a->path,
                                 a->directory_at + a->directory_bytes + FV_ZIP_END_BYTES, &save));
    return fv_atomic_file_close(&save, write_archive(a, &save, source));
}

fv_status fv_npz_save(fv_ctx *ctx, const char *const *names, fv_tensor *const *tensors,
                      size_t count, const char *path)
{
    FV_RETURN_IF(!path || (count && (!names || !tensors)), ctx, FV_ERR_ARGUMENT,
                 "npz: path, names or tensors is NULL");
    fv_file_spec *specs = NULL;
    FV_TRY(fv_specs_of_tensors(ctx, path, names, tensors, count, &specs));
    fv_tensor_source source = {.ctx = ctx, .tensors = tensors};
    archive a = {.ctx = ctx, .path = path, .specs = specs, .count = count};
    fv_arena_init(&a.arena, &ctx->mem);
    fv_status status = save_archive(&a, &source);
    fv_arena_free(&a.arena);
    fv_tensor_source_free(&source);
    fv_mem_free(&ctx->mem, specs, count * sizeof *specs);
    return status;
}
