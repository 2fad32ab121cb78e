/*
 * Files for tests: a folder of their own, one file in memory behind an fv_io table, and a table
 * that makes chosen calls fail.
 */
#ifndef FV_TEST_FILES_H
#define FV_TEST_FILES_H

#include "fovea/context.h"

/* ---- a folder -------------------------------------------------------------------- */

/* Sets $TMPDIR to a file system in memory where there is one: for tests with many files that do not
 * need a disk. */
void folder_prefer_memory(void);
/* Makes a new folder under $TMPDIR or /tmp; folder_remove removes it with its contents. */
void folder_make(void);
void folder_remove(void);
/* folder/name; the text lives until the fourth call after this one. */
const char *folder_path(const char *name);
/* The same, and makes a folder there. */
const char *folder_sub(const char *name);
/* Number of files in the folder whose name has this ending; "" counts all. */
int folder_count(const char *suffix);

/* Removes a folder with its contents. */
void tree_remove(const char *path);

/* Whole files. read returns malloc'ed memory or NULL. */
void *file_read(const char *path, size_t *bytes);
void file_write(const char *path, const void *data, size_t bytes);
/* Whether two folders hold equal files of that name. */
bool file_same_in(const char *a, const char *b, const char *name);

/* Open file descriptors of this process. */
int open_files(void);

/* ---- one file in memory ---------------------------------------------------------- */

typedef struct memory_file {
    const void *data;
    size_t bytes;
} memory_file;

/* Every path opens `file`, for reading only. */
void memory_io(fv_io *io, memory_file *file);

/* ---- faults ---------------------------------------------------------------------- */

typedef enum fault_call {
    FAULT_OPEN,
    FAULT_SIZE,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_RESERVE,
    FAULT_SYNC,
    FAULT_CLOSE,
    FAULT_RENAME,
    FAULT_REMOVE,
    FAULT_MAP,
    FAULT_RESOLVE,
    FAULT_CALLS
} fault_call;

/* The operating system's files; call number `fail_at` (from 1; 0: none) returns -error, and with
 * `forever` all later calls of the same kind do too. */
typedef struct fault_io {
    fv_io base;
    int64_t calls, fail_at;
    bool forever;
    int error;
    bool unsynced;      /* do not wait for the disk: what is tested is the order of calls */
    size_t piece;       /* reads and writes move at most this many bytes; 0: all */
    fault_call failing; /* the kind that failed, once it did */
    bool failed;
    int64_t count[FAULT_CALLS];
} fault_io;

void fault_io_init(fault_io *faults, fv_io *io);

#endif
