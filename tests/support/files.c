#include "support/files.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a folder -------------------------------------------------------------------- */

static char folder[512];

void folder_prefer_memory(void)
{
    if (access("/dev/shm", W_OK | X_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
}

void folder_make(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fovea-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
}

const char *folder_path(const char *name)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int folder_count(const char *suffix)
{
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    int count = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        size_t n = strlen(e->d_name), m = strlen(suffix);
        bool self = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        if (self || n < m || strcmp(e->d_name + n - m, suffix) != 0) continue;
        count++;
    }
    closedir(dir);
    return count;
}

const char *folder_sub(const char *name)
{
    const char *path = folder_path(name);
    if (mkdir(path, 0777) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void tree_remove(const char *path) { nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

void folder_remove(void) { tree_remove(folder); }

void *file_read(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *data = malloc((size_t)size + 1);
    *bytes = data ? fread(data, 1, (size_t)size, f) : 0;
    if (data) data[*bytes] = '\0';
    fclose(f);
    return data;
}

bool file_same_in(const char *a, const char *b, const char *name)
{
    char path[1024];
    size_t n = 0, m = 0;
    snprintf(path, sizeof path, "%s/%s", a, name);
    char *x = file_read(path, &n);
    snprintf(path, sizeof path, "%s/%s", b, name);
    char *y = file_read(path, &m);
    const bool same = x && y && n == m && memcmp(x, y, n) == 0;
    free(x);
    free(y);
    return same;
}

void file_write(const char *path, const void *data, size_t bytes)
{
    remove(path); /* emptying an old file may make the system flush it; a new one is cheap */
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;
    while (dir && readdir(dir))
        count++;
    if (dir) closedir(dir);
    return count;
}

/* ---- one file in memory ---------------------------------------------------------- */

static int64_t memory_open(void *user, const char *path, fv_io_mode mode)
{
    (void)user;
    (void)path;
    return mode == FV_IO_READ ? 1 : -EROFS;
}

static int64_t memory_size(void *user, int64_t file)
{
    (void)file;
    return (int64_t)((memory_file *)user)->bytes;
}

static int64_t memory_read(void *user, int64_t file, void *buf, size_t n, uint64_t offset)
{
    const memory_file *m = user;
    (void)file;
    if (offset >= m->bytes) return 0;
    if (n > m->bytes - offset) n = m->bytes - (size_t)offset;
    memcpy(buf, (const char *)m->data + offset, n);
    return (int64_t)n;
}

static int64_t memory_close(void *user, int64_t file)
{
    (void)user;
    (void)file;
    return 0;
}

void memory_io(fv_io *io, memory_file *file)
{
    *io = (fv_io){.user = file,
                  .open = memory_open,
                  .size = memory_size,
                  .read = memory_read,
                  .close = memory_close};
}

/* ---- faults ---------------------------------------------------------------------- */

/* Whether this call fails. */
static bool faulty(fault_io *f, fault_call kind)
{
    f->calls++;
    f->count[kind]++;
    bool again = f->failed && f->forever && f->failing == kind;
    if (f->calls != f->fail_at && !again) return false;
    f->failed = true;
    f->failing = kind;
    return true;
}

static int64_t fault_open(void *user, const char *path, fv_io_mode mode)
{
    fault_io *f = user;
    return faulty(f, FAULT_OPEN) ? -f->error : f->base.open(f->base.user, path, mode);
}

static int64_t fault_size(void *user, int64_t file)
{
    fault_io *f = user;
    return faulty(f, FAULT_SIZE) ? -f->error : f->base.size(f->base.user, file);
}

static int64_t fault_read(void *user, int64_t file, void *buf, size_t n, uint64_t offset)
{
    fault_io *f = user;
    if (faulty(f, FAULT_READ)) return -f->error;
    if (f->piece && n > f->piece) n = f->piece;
    return f->base.read(f->base.user, file, buf, n, offset);
}

static int64_t fault_write(void *user, int64_t file, const void *buf, size_t n, uint64_t offset)
{
    fault_io *f = user;
    if (faulty(f, FAULT_WRITE)) return -f->error;
    if (f->piece && n > f->piece) n = f->piece;
    return f->base.write(f->base.user, file, buf, n, offset);
}

static int64_t fault_reserve(void *user, int64_t file, uint64_t bytes)
{
    fault_io *f = user;
    return faulty(f, FAULT_RESERVE) ? -f->error : f->base.reserve(f->base.user, file, bytes);
}

static int64_t fault_sync(void *user, int64_t file)
{
    fault_io *f = user;
    if (faulty(f, FAULT_SYNC)) return -f->error;
    return f->unsynced ? 0 : f->base.sync(f->base.user, file);
}

/* Linux closes the descriptor even when close fails. */
static int64_t fault_close(void *user, int64_t file)
{
    fault_io *f = user;
    int64_t result = f->base.close(f->base.user, file);
    return faulty(f, FAULT_CLOSE) ? -f->error : result;
}

static int64_t fault_rename(void *user, const char *from, const char *to)
{
    fault_io *f = user;
    return faulty(f, FAULT_RENAME) ? -f->error : f->base.rename(f->base.user, from, to);
}

static int64_t fault_remove(void *user, const char *path)
{
    fault_io *f = user;
    return faulty(f, FAULT_REMOVE) ? -f->error : f->base.remove(f->base.user, path);
}

static int64_t fault_map(void *user, int64_t file, size_t n, void **addr)
{
    fault_io *f = user;
    return faulty(f, FAULT_MAP) ? -f->error : f->base.map(f->base.user, file, n, addr);
}

static int64_t fault_unmap(void *user, void *addr, size_t n)
{
    fault_io *f = user;
    return f->base.unmap(f->base.user, addr, n);
}

static int64_t fault_resolve(void *user, const char *path, char *out, size_t room)
{
    fault_io *f = user;
    if (faulty(f, FAULT_RESOLVE)) return -f->error;
    if (f->base.resolve) return f->base.resolve(f->base.user, path, out, room);
    snprintf(out, room, "%s", path);
    return 0;
}

void fault_io_init(fault_io *faults, fv_io *io)
{
    *faults = (fault_io){.error = EIO};
    fv_io_system(&faults->base);
    *io = (fv_io){.user = faults,
                  .open = fault_open,
                  .size = fault_size,
                  .read = fault_read,
                  .write = fault_write,
                  .reserve = fault_reserve,
                  .sync = fault_sync,
                  .close = fault_close,
                  .rename = fault_rename,
                  .remove = fault_remove,
                  .map = fault_map,
                  .unmap = fault_unmap,
                  .resolve = fault_resolve};
}
