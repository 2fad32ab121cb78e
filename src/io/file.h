/*
 * Files through the context's I/O table: complete reads, and atomic writes that replace a file.
 * Interrupted calls (EINTR) are retried, short ones continued.
 */
#ifndef FV_IO_FILE_H
#define FV_IO_FILE_H

#include "base/ctx.h"

enum { FV_PATH_BYTES = 4096 };

/* Writes "folder/name". Fails: ARGUMENT (path too long). */
fv_status fv_path_join(fv_ctx *ctx, char out[FV_PATH_BYTES], const char *folder, const char *name);

/* ---- reading --------------------------------------------------------------------- */

typedef struct fv_file {
    fv_ctx *ctx;
    const char *path; /* not owned; for messages */
    int64_t handle;
    uint64_t bytes; /* size when it was opened */
} fv_file;

/* Opens a regular file of at most fv_limits.total_bytes. `path` must outlive it. Fails: IO, LIMIT.
 */
fv_status fv_file_open(fv_ctx *ctx, const char *path, fv_file *out);
void fv_file_close(fv_file *file);
/* Reads exactly n bytes; fails with FV_ERR_IO if the file is shorter. */
fv_status fv_file_read(const fv_file *file, void *out, size_t n, uint64_t offset);
/* The same for threads, which must not write to the context: returns 0, -errno or one of these, and
 * the number of bytes that were read; then the error for a result other than 0, at byte `at`. */
enum { FV_FILE_ENDED = 1, FV_FILE_BROKEN = 2 };
int64_t fv_file_try_read(const fv_file *file, void *out, size_t n, uint64_t offset, size_t *done);
fv_status fv_file_read_error(const fv_file *file, int64_t result, uint64_t at, uint64_t end);
/* Fails with FV_ERR_IO if the file has become shorter since it was opened. */
fv_status fv_file_check_size(const fv_file *file);

/* Maps the whole file for reading; it must not be empty. Fails: UNSUPPORTED if the I/O table cannot
 * map. */
fv_status fv_file_map(const fv_file *file, void **out);
void fv_file_unmap(const fv_file *file, void *map);

/* True if anything of that name exists, even if it cannot be read. */
bool fv_file_exists(fv_ctx *ctx, const char *path);

/* True for a device, a FIFO or a link to one: it can be written, but neither cut nor read back. */
bool fv_file_is_stream(fv_ctx *ctx, const char *path);

/* Reads a file of at most fv_limits.text_bytes, to be freed with fv_mem_free(text, bytes). */
fv_status fv_file_read_text(fv_ctx *ctx, const char *path, char **text, size_t *bytes);

/* ---- atomic writes ---------------------------------------------------------------- */

/*
 *     fv_atomic_file file;
 *     FV_TRY(fv_atomic_file_create(ctx, path, total_bytes, &file));
 *     s = fv_atomic_file_write(&file, data, n, 0);
 *     s = fv_atomic_file_close(&file, s);   // always call it
 *
 * Closing with FV_OK syncs the temporary file and renames it to `path`; closing with an error
 * removes it. Where `path` is a symbolic link, its target is replaced and the link stays. Devices,
 * FIFOs and /dev/stdout are never replaced: what is written is collected in memory, and closing
 * with FV_OK writes it through.
 *
 * Messages name `path`, never the temporary file.
 */
typedef struct fv_atomic_file {
    fv_ctx *ctx;
    const char *path; /* not owned */
    char *target;     /* `path` with links followed */
    size_t target_room;
    char *temp; /* path of the temporary file; NULL: `target` is written through */
    size_t temp_room;
    int64_t handle;
    char *collected; /* to be written through */
    size_t collected_bytes, collected_room;
} fv_atomic_file;

/* Names of temporary files: the file's own name, then these two around a number. */
#define FV_TEMP_MARK   ".fovea-"
#define FV_TEMP_ENDING ".tmp"

fv_status fv_atomic_file_create(fv_ctx *ctx, const char *path, uint64_t bytes, fv_atomic_file *out);
fv_status fv_atomic_file_write(fv_atomic_file *save, const void *data, size_t n, uint64_t offset);
fv_status fv_atomic_file_close(fv_atomic_file *save, fv_status status);

/* Replaces the content of `path` atomically. */
fv_status fv_file_write_text(fv_ctx *ctx, const char *path, const void *text, size_t bytes);

/* ---- appending ------------------------------------------------------------------- */

/* A file that is only appended to, such as a log. It is not synced: a crash may lose or truncate
 * its last lines. */
typedef struct fv_append_file {
    fv_ctx *ctx;
    const char *path; /* not owned */
    int64_t handle;
    uint64_t end; /* current size */
} fv_append_file;

/* Creates the file if it does not exist. `path` must outlive it. Fails: IO. */
fv_status fv_append_file_open(fv_ctx *ctx, const char *path, fv_append_file *out);
fv_status fv_append_file_write(fv_append_file *file, const void *data, size_t n);
/* May be called on a zeroed struct, or twice. */
void fv_append_file_close(fv_append_file *file);

#endif
