#include "io/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"

/* Give up after this many interruptions in a row. */
enum { RETRIES = 100 };

#define RETRY(result, call)                                                                        \
    do {                                                                                           \
        int tries_ = 0;                                                                            \
        do {                                                                                       \
            (result) = (call);                                                                     \
        } while ((result) == -EINTR && ++tries_ < RETRIES);                                        \
    } while (0)

static fv_status io_error(fv_ctx *ctx, const char *path, const char *what, int64_t result)
{
    char reason[64] = "unknown error";
#if defined(__GLIBC__)
    /* The GNU form may return a constant instead of filling the buffer. */
    const char *text = strerror_r((int)-result, reason, sizeof reason);
#else
    const char *text = strerror_r((int)-result, reason, sizeof reason) == 0 ? reason : "unknown";
#endif
    return fv_fail(ctx, FV_ERR_IO, "%.160s: cannot %s: %s", path, what, text);
}

fv_status fv_path_join(fv_ctx *ctx, char out[FV_PATH_BYTES], const char *folder, const char *name)
{
    const int n = snprintf(out, FV_PATH_BYTES, "%s/%s", folder, name);
    FV_RETURN_IF(n < 0 || n >= FV_PATH_BYTES, ctx, FV_ERR_ARGUMENT, "%.100s: the path is too long",
                 folder);
    return FV_OK;
}

/* ---- reading --------------------------------------------------------------------- */

fv_status fv_file_open(fv_ctx *ctx, const char *path, fv_file *out)
{
    const fv_io *io = &ctx->io;
    int64_t handle, size;
    RETRY(handle, io->open(io->user, path, FV_IO_READ));
    FV_RETURN_IF(handle == -EINVAL, ctx, FV_ERR_IO, "%s: not a regular file", path);
    if (handle < 0) return io_error(ctx, path, "open", handle);
    RETRY(size, io->size(io->user, handle));
    fv_status status = FV_OK;
    if (size < 0)
        status = io_error(ctx, path, "get the size", size);
    else if ((uint64_t)size > ctx->limits.total_bytes)
        status = fv_fail(ctx, FV_ERR_LIMIT, "%s: %lld bytes, the limit is %llu", path,
                         (long long)size, (unsigned long long)ctx->limits.total_bytes);
    if (status != FV_OK) {
        io->close(io->user, handle);
        return status;
    }
    *out = (fv_file){.ctx = ctx, .path = path, .handle = handle, .bytes = (uint64_t)size};
    return FV_OK;
}

/* The file was only read, so a failing close loses nothing. */
void fv_file_close(fv_file *file)
{
    const fv_io *io = &file->ctx->io;
    io->close(io->user, file->handle);
    file->handle = -1;
}

int64_t fv_file_try_read(const fv_file *file, void *out, size_t n, uint64_t offset, size_t *done)
{
    const fv_io *io = &file->ctx->io;
    for (*done = 0; *done < n;) {
        int64_t got;
        RETRY(got,
              io->read(io->user, file->handle, (char *)out + *done, n - *done, offset + *done));
        if (got < 0) return got;
        if (got == 0) return FV_FILE_ENDED;
        if ((uint64_t)got > n - *done) return FV_FILE_BROKEN;
        *done += (size_t)got;
    }
    return 0;
}

fv_status fv_file_read_error(const fv_file *file, int64_t result, uint64_t at, uint64_t end)
{
    if (result < 0) return io_error(file->ctx, file->path, "read", result);
    FV_RETURN_IF(result == FV_FILE_BROKEN, file->ctx, FV_ERR_IO,
                 "%s: the read call returned more bytes than requested", file->path);
    return fv_fail(file->ctx, FV_ERR_IO, "%s: ends at byte %llu, expected at least %llu",
                   file->path, (unsigned long long)at, (unsigned long long)end);
}

fv_status fv_file_read(const fv_file *file, void *out, size_t n, uint64_t offset)
{
    size_t done = 0;
    const int64_t result = fv_file_try_read(file, out, n, offset, &done);
    return result ? fv_file_read_error(file, result, offset + done, offset + n) : FV_OK;
}

fv_status fv_file_check_size(const fv_file *file)
{
    const fv_io *io = &file->ctx->io;
    int64_t size;
    RETRY(size, io->size(io->user, file->handle));
    if (size < 0) return io_error(file->ctx, file->path, "get the size", size);
    FV_RETURN_IF((uint64_t)size < file->bytes, file->ctx, FV_ERR_IO,
                 "%s: truncated from %llu to %lld bytes while open", file->path,
                 (unsigned long long)file->bytes, (long long)size);
    return FV_OK;
}

fv_status fv_file_map(const fv_file *file, void **out)
{
    const fv_io *io = &file->ctx->io;
    FV_RETURN_IF(!io->map || !io->unmap || file->bytes > SIZE_MAX, file->ctx, FV_ERR_UNSUPPORTED,
                 "%s: memory mapping is not supported", file->path);
    void *map = NULL;
    int64_t result;
    RETRY(result, io->map(io->user, file->handle, (size_t)file->bytes, &map));
    if (result < 0 || !map) return io_error(file->ctx, file->path, "map", result);
    *out = map;
    return FV_OK;
}

void fv_file_unmap(const fv_file *file, void *map)
{
    const fv_io *io = &file->ctx->io;
    io->unmap(io->user, map, (size_t)file->bytes);
}

bool fv_file_exists(fv_ctx *ctx, const char *path)
{
    int64_t handle;
    RETRY(handle, ctx->io.open(ctx->io.user, path, FV_IO_READ));
    if (handle >= 0) ctx->io.close(ctx->io.user, handle);
    return handle != -ENOENT;
}

bool fv_file_is_stream(fv_ctx *ctx, const char *path)
{
    char target[FV_PATH_BYTES];
    int64_t found = 0;
    if (ctx->io.resolve) RETRY(found, ctx->io.resolve(ctx->io.user, path, target, sizeof target));
    return found > 0;
}

fv_status fv_file_read_text(fv_ctx *ctx, const char *path, char **text, size_t *bytes)
{
    fv_file file;
    FV_TRY(fv_file_open(ctx, path, &file));
    fv_status status = FV_OK;
    char *buffer = NULL;
    if (file.bytes > ctx->limits.text_bytes)
        status =
            fv_fail(ctx, FV_ERR_LIMIT, "%s: %llu bytes of text, the limit is %llu", path,
                    (unsigned long long)file.bytes, (unsigned long long)ctx->limits.text_bytes);
    else if (!(buffer = fv_mem_alloc(&ctx->mem, (size_t)file.bytes)))
        status = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    if (status == FV_OK) status = fv_file_read(&file, buffer, (size_t)file.bytes, 0);
    if (status == FV_OK) {
        *text = buffer;
        *bytes = (size_t)file.bytes;
    } else {
        fv_mem_free(&ctx->mem, buffer, (size_t)file.bytes);
    }
    fv_file_close(&file);
    return status;
}

/* ---- saving ---------------------------------------------------------------------- */

/* Names tried before giving up; killed processes may have left some behind. */
enum { TEMP_NAMES = 1000 };

static fv_status open_temp(fv_atomic_file *save)
{
    const fv_io *io = &save->ctx->io;
    int64_t handle = -EEXIST;
    for (int i = 0; i < TEMP_NAMES && handle == -EEXIST; i++) {
        snprintf(save->temp, save->temp_room, "%s" FV_TEMP_MARK "%d" FV_TEMP_ENDING, save->target,
                 i);
        RETRY(handle, io->open(io->user, save->temp, FV_IO_CREATE));
    }
    FV_RETURN_IF(handle == -EEXIST, save->ctx, FV_ERR_IO,
                 "%s: cannot save: found %d temporary files of interrupted saves, the last is %s",
                 save->path, TEMP_NAMES, save->temp);
    if (handle < 0) return io_error(save->ctx, save->path, "create", handle);
    save->handle = handle;
    return FV_OK;
}

static void free_save(fv_atomic_file *save)
{
    fv_mem *mem = &save->ctx->mem;
    fv_mem_free(mem, save->target, save->target_room);
    fv_mem_free(mem, save->temp, save->temp_room);
    fv_mem_free(mem, save->collected, save->collected_room);
    save->target = save->temp = save->collected = NULL;
}

/* *through: the target is not a regular file. */
static fv_status find_target(fv_atomic_file *save, bool *through)
{
    fv_ctx *ctx = save->ctx;
    const size_t n = strlen(save->path) + 1;
    save->target_room = n > FV_PATH_BYTES ? n : FV_PATH_BYTES;
    save->target = fv_mem_alloc(&ctx->mem, save->target_room);
    FV_RETURN_IF(!save->target, ctx, FV_ERR_MEMORY, "%s: out of memory", save->path);
    *through = false;
    memcpy(save->target, save->path, n);
    if (!ctx->io.resolve) return FV_OK;
    int64_t found;
    RETRY(found, ctx->io.resolve(ctx->io.user, save->path, save->target, save->target_room));
    if (found < 0) return io_error(ctx, save->path, "write", found);
    *through = found > 0;
    return FV_OK;
}

/* Waits for the reader of a FIFO unless the context is cancelled. */
static fv_status open_through(fv_atomic_file *save)
{
    const fv_io *io = &save->ctx->io;
    int64_t handle;
    do {
        handle = io->open(io->user, save->target, FV_IO_THROUGH);
    } while (handle == -EINTR && !fv_cancelled(save->ctx));
    if (handle < 0) return io_error(save->ctx, save->path, "open", handle);
    save->handle = handle;
    return FV_OK;
}

static fv_status open_beside(fv_atomic_file *save, uint64_t bytes)
{
    fv_ctx *ctx = save->ctx;
    if (!fv_checked_add_size(strlen(save->target), sizeof FV_TEMP_MARK "999" FV_TEMP_ENDING,
                             &save->temp_room) ||
        !(save->temp = fv_mem_alloc(&ctx->mem, save->temp_room)))
        return fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", save->path);
    FV_TRY(open_temp(save));
    int64_t result;
    RETRY(result, ctx->io.reserve(ctx->io.user, save->handle, bytes));
    return result < 0 ? io_error(ctx, save->path, "reserve space", result) : FV_OK;
}

fv_status fv_atomic_file_create(fv_ctx *ctx, const char *path, uint64_t bytes, fv_atomic_file *out)
{
    fv_atomic_file save = {.ctx = ctx, .path = path, .handle = -1};
    FV_RETURN_IF(path[0] == '\0', ctx, FV_ERR_ARGUMENT, "the path is empty");
    bool through = false;
    fv_status status = find_target(&save, &through);
    if (status == FV_OK) status = through ? open_through(&save) : open_beside(&save, bytes);
    if (status == FV_OK) {
        *out = save;
        return FV_OK;
    }
    if (save.handle >= 0) return fv_atomic_file_close(&save, status);
    free_save(&save);
    return status;
}

/* Repeats short writes until everything is written. */
static fv_status write_all(fv_ctx *ctx, const char *path, int64_t handle, const void *data,
                           size_t n, uint64_t offset)
{
    const fv_io *io = &ctx->io;
    for (size_t done = 0; done < n;) {
        int64_t put;
        RETRY(put, io->write(io->user, handle, (const char *)data + done, n - done, offset + done));
        /* Writing nothing without an error would repeat forever. */
        if (put == 0 || (put > 0 && (uint64_t)put > n - done)) put = -EIO;
        if (put < 0) return io_error(ctx, path, "write", put);
        done += (size_t)put;
    }
    return FV_OK;
}

/* A stream has no offsets, and headers are written last: the whole file is put together first. */
static fv_status collect(fv_atomic_file *save, const void *data, size_t n, uint64_t offset)
{
    fv_ctx *ctx = save->ctx;
    size_t end = 0, room = save->collected_room ? save->collected_room : 4096;
    bool fits = offset <= SIZE_MAX && fv_checked_add_size((size_t)offset, n, &end);
    while (fits && room < end)
        fits = fv_checked_mul_size(room, 2, &room);
    if (fits && room > save->collected_room) {
        char *larger = fv_mem_zalloc(&ctx->mem, room);
        fits = larger != NULL;
        if (larger) {
            if (save->collected) memcpy(larger, save->collected, save->collected_bytes);
            fv_mem_free(&ctx->mem, save->collected, save->collected_room);
            save->collected = larger;
            save->collected_room = room;
        }
    }
    FV_RETURN_IF(!fits, ctx, FV_ERR_MEMORY, "%s: out of memory", save->path);
    if (n > 0) memcpy(save->collected + offset, data, n);
    if (end > save->collected_bytes) save->collected_bytes = end;
    return FV_OK;
}

fv_status fv_atomic_file_write(fv_atomic_file *save, const void *data, size_t n, uint64_t offset)
{
    if (!save->temp) return collect(save, data, n, offset);
    return write_all(save->ctx, save->path, save->handle, data, n, offset);
}

/* A rename is durable only once the folder is synced. */
static fv_status sync_folder(fv_atomic_file *save)
{
    const fv_io *io = &save->ctx->io;
    /* temp is not needed any more: cut the folder's path out of it. */
    char *slash = strrchr(save->temp, '/');
    if (slash == save->temp)
        slash[1] = '\0';
    else if (slash)
        *slash = '\0';
    const char *folder = slash ? save->temp : ".";
    int64_t handle, result;
    RETRY(handle, io->open(io->user, folder, FV_IO_DIRECTORY));
    if (handle < 0) return io_error(save->ctx, folder, "open", handle);
    RETRY(result, io->sync(io->user, handle));
    io->close(io->user, handle);
    return result < 0 ? io_error(save->ctx, folder, "sync", result) : FV_OK;
}

fv_status fv_atomic_file_close(fv_atomic_file *save, fv_status status)
{
    const fv_io *io = &save->ctx->io;
    const bool through = !save->temp;
    int64_t result;
    if (status == FV_OK && through)
        status = write_all(save->ctx, save->path, save->handle, save->collected,
                           save->collected_bytes, 0);
    if (status == FV_OK) {
        RETRY(result, io->sync(io->user, save->handle));
        /* FIFOs and most devices have nothing to sync. */
        if (result < 0 && !(through && result == -EINVAL))
            status = io_error(save->ctx, save->path, "sync", result);
    }
    /* Never retried: an interrupted close has closed, and the descriptor may belong to another file
     * by now. The data is already on disk. */
    result = io->close(io->user, save->handle);
    if (status == FV_OK && result < 0 && result != -EINTR)
        status = io_error(save->ctx, save->path, "close", result);
    if (status == FV_OK && !through) {
        RETRY(result, io->rename(io->user, save->temp, save->target));
        if (result < 0) status = io_error(save->ctx, save->path, "replace", result);
    }
    if (!through) {
        if (status == FV_OK)
            status = sync_folder(save);
        else
            RETRY(result, io->remove(io->user, save->temp));
    }
    free_save(save);
    return status;
}

fv_status fv_file_write_text(fv_ctx *ctx, const char *path, const void *text, size_t bytes)
{
    fv_atomic_file save;
    FV_TRY(fv_atomic_file_create(ctx, path, bytes, &save));
    return fv_atomic_file_close(&save, fv_atomic_file_write(&save, text, bytes, 0));
}

/* ---- appending ------------------------------------------------------------------- */

fv_status fv_append_file_open(fv_ctx *ctx, const char *path, fv_append_file *out)
{
    const fv_io *io = &ctx->io;
    int64_t handle, size;
    RETRY(handle, io->open(io->user, path, FV_IO_APPEND));
    if (handle < 0) return io_error(ctx, path, "open", handle);
    RETRY(size, io->size(io->user, handle));
    if (size < 0) {
        io->close(io->user, handle);
        return io_error(ctx, path, "get the size", size);
    }
    *out = (fv_append_file){.ctx = ctx, .path = path, .handle = handle, .end = (uint64_t)size};
    return FV_OK;
}

fv_status fv_append_file_write(fv_append_file *file, const void *data, size_t n)
{
    FV_TRY(write_all(file->ctx, file->path, file->handle, data, n, file->end));
    file->end += n;
    return FV_OK;
}

void fv_append_file_close(fv_append_file *file)
{
    if (file->ctx) file->ctx->io.close(file->ctx->io.user, file->handle);
    *file = (fv_append_file){.ctx = NULL};
}
