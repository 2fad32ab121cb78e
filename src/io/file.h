/*
 * Files through the context's I/O table: whole reads, and saves that replace a file in one step.
 * Interrupted calls (EINTR) are repeated, short ones continued.
 */
#ifndef FV_IO_FILE_H
#define FV_IO_FILE_H

#include "base/ctx.h"

enum { FV_PATH_BYTES = 4096 };

/* "folder/name". Fails: ARGUMENT (longer than a path may be). */
fv_status fv_path_join(fv_ctx *ctx, char out[FV_PATH_BYTES], const char *folder, const char *name);

/* ---- reading --------------------------------------------------------------------- */

typedef struct fv_file {
    fv_ctx *ctx;
    const char *path; /* not owned, for messages */
    int64_t handle;
    uint64_t bytes; /* when it was opened */
} fv_file;

/* A regular file of at most fv_limits.total_bytes. Fails: IO, LIMIT. `path` must stay. */
fv_status fv_file_open(fv_ctx *ctx, const char *path, fv_file *out);
void fv_file_close(fv_file *file);
/* Exactly n bytes; a file that ends before is FV_ERR_IO. */
fv_status fv_file_read(const fv_file *file, void *out, size_t n, uint64_t offset);
/* FV_ERR_IO unless the file still has the size it was opened with, or more. */
fv_status fv_file_check_size(const fv_file *file);

/* The whole file in memory, for reading; UNSUPPORTED where the table cannot map. Must not be empty.
 */
fv_status fv_file_map(const fv_file *file, void **out);
void fv_file_unmap(const fv_file *file, void *map);

/* Whether there is anything of that name; what is wrong with it shows when it is read. */
bool fv_file_exists(fv_ctx *ctx, const char *path);

/* A whole text of at most fv_limits.text_bytes, to be freed with fv_mem_free(text, bytes). */
fv_status fv_file_read_text(fv_ctx *ctx, const char *path, char **text, size_t *bytes);

/* ---- saving ---------------------------------------------------------------------- */

/*
 *     fv_atomic_file save;
 *     FV_FORWARD(fv_atomic_file_create(ctx, path, total_bytes, &save));
 *     s = fv_atomic_file_write(&save, data, n, 0);
 *     s = fv_atomic_file_close(&save, s);        // FV_OK in: sync and rename; else: remove. Always
 * call it.
 *
 * Messages name `path`, the file the caller knows, never the new one beside it.
 */
typedef struct fv_atomic_file {
    fv_ctx *ctx;
    const char *path; /* not owned */
    char *temp;       /* the new file beside it */
    size_t temp_room;
    int64_t handle;
} fv_atomic_file;

fv_status fv_atomic_file_create(fv_ctx *ctx, const char *path, uint64_t bytes, fv_atomic_file *out);
fv_status fv_atomic_file_write(fv_atomic_file *save, const void *data, size_t n, uint64_t offset);
fv_status fv_atomic_file_close(fv_atomic_file *save, fv_status status);

/* All of it: a text that takes the place of `path`. */
fv_status fv_file_write_text(fv_ctx *ctx, const char *path, const void *text, size_t bytes);

/* ---- appending ------------------------------------------------------------------- */

/* A file that grows at its end, such as a log. It is not synced: a crash may cost or tear its last
 * lines. */
typedef struct fv_append_file {
    fv_ctx *ctx;
    const char *path; /* not owned */
    int64_t handle;
    uint64_t end; /* bytes it holds */
} fv_append_file;

/* Made if it is not there. Fails: IO. `path` must stay. */
fv_status fv_append_file_open(fv_ctx *ctx, const char *path, fv_append_file *out);
fv_status fv_append_file_write(fv_append_file *file, const void *data, size_t n);
/* Fine on a zeroed one, or twice. */
void fv_append_file_close(fv_append_file *file);

#endif
