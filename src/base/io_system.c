/* The fv_io table over POSIX files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fovea/context.h"

static int64_t result(int64_t value) { return value < 0 ? -(int64_t)errno : value; }

/* Opens without blocking, so that a FIFO is an error and not a wait. */
static int64_t open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -(int64_t)errno;
    struct stat st;
    int64_t error = 0;
    if (fstat(fd, &st) != 0)
        error = errno;
    else if (S_ISDIR(st.st_mode))
        error = EISDIR;
    else if (!S_ISREG(st.st_mode))
        error = EINVAL;
    if (error) {
        close(fd);
        return -error;
    }
    return fd;
}

/* Part of a handle: writes go to the descriptor's own position. Above the bits of a descriptor. */
#define STREAM ((int64_t)1 << 40)

static bool is_stream(const struct stat *st)
{
    return S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) || S_ISFIFO(st->st_mode) ||
           S_ISSOCK(st->st_mode);
}

/* Bytes of the folder's part of a path, slash included: 2 of "a/b", 0 of "b". */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Whether the path is a link of /proc, such as /proc/self/fd/1: what it points at is an open file,
 * whatever its text says. */
static bool is_proc_link(const char *path)
{
    /* PROC_SUPER_MAGIC of the kernel's headers, which musl leaves out. */
    enum { PROC_TYPE = 0x9fa0 };
    char folder[PATH_MAX];
    struct statfs about;
    const size_t n = folder_bytes(path);
    memcpy(folder, path, n);
    memcpy(folder + n, ".", 2);
    return statfs(folder, &about) == 0 && about.f_type == PROC_TYPE;
}

/* The number of this process's descriptor that a path like /dev/fd/1 stands for, or -1. */
static int own_descriptor(const char *path)
{
    char folder[PATH_MAX], real[PATH_MAX], self[32];
    const size_t bytes = folder_bytes(path);
    const char *name = path + bytes;
    memcpy(folder, path, bytes);
    memcpy(folder + bytes, ".", 2);
    const int n = snprintf(self, sizeof self, "/proc/%ld/", (long)getpid());
    if (!realpath(folder, real) || strncmp(real, self, (size_t)n) != 0) return -1;
    int number = *name ? 0 : -1;
    for (; number >= 0 && *name; name++)
        number =
            *name >= '0' && *name <= '9' && number < 1 << 20 ? 10 * number + (*name - '0') : -1;
    return number;
}

/* A descriptor of this process is duplicated, so that both share one position in the file. */
static int64_t open_stream(const char *path)
{
    const int own = strlen(path) < PATH_MAX - 1 && is_proc_link(path) ? own_descriptor(path) : -1;
    const int fd =
        own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -(int64_t)errno : fd | STREAM;
}

/* Opens without blocking, so that a FIFO without a reader is an error; its writes then wait. */
static int64_t open_append(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    struct stat st;
    if (fd < 0) return -(int64_t)errno;
    if (fstat(fd, &st) != 0 || !is_stream(&st)) return fd;
    (void)fcntl(fd, F_SETFL, 0);
    return fd | STREAM;
}

static int64_t system_open(void *user, const char *path, fv_io_mode mode)
{
    (void)user;
    switch (mode) {
    case FV_IO_READ:
        return open_regular(path);
    case FV_IO_CREATE:
        return result(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    case FV_IO_APPEND:
        return open_append(path);
    case FV_IO_DIRECTORY:
        return result(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    case FV_IO_THROUGH:
        return open_stream(path);
    }
    return -EINVAL;
}

static int64_t system_size(void *user, int64_t file)
{
    (void)user;
    struct stat st;
    if (fstat((int)file, &st) != 0) return -(int64_t)errno;
    return st.st_size;
}

static int64_t system_read(void *user, int64_t file, void *buf, size_t n, uint64_t offset)
{
    (void)user;
    return result(pread((int)file, buf, n, (off_t)offset));
}

static int64_t system_write(void *user, int64_t file, const void *buf, size_t n, uint64_t offset)
{
    (void)user;
    return result(file & STREAM ? write((int)file, buf, n)
                                : pwrite((int)file, buf, n, (off_t)offset));
}

/* Reserving space early turns a full disk into an error before anything is written. On file systems
 * that do not support it, the write itself reports the error. */
static int64_t system_reserve(void *user, int64_t file, uint64_t bytes)
{
    (void)user;
    if (bytes == 0 || fallocate((int)file, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) == 0) return 0;
    return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -(int64_t)errno;
}

static int64_t system_sync(void *user, int64_t file)
{
    (void)user;
    return result(fsync((int)file));
}

static int64_t system_close(void *user, int64_t file)
{
    (void)user;
    return result(close((int)file));
}

static int64_t system_rename(void *user, const char *from, const char *to)
{
    (void)user;
    return result(rename(from, to));
}

static int64_t system_remove(void *user, const char *path)
{
    (void)user;
    return result(unlink(path));
}

static int64_t system_map(void *user, int64_t file, size_t n, void **addr)
{
    (void)user;
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, (int)file, 0);
    if (p == MAP_FAILED) return -(int64_t)errno;
    *addr = p;
    return 0;
}

static int64_t system_unmap(void *user, void *addr, size_t n)
{
    (void)user;
    return result(munmap(addr, n));
}

/* Replaces the last name of `path` by the text of the link there, or all of it if that is absolute.
 * Returns 0 or -errno. */
static int64_t follow(char path[PATH_MAX])
{
    char text[PATH_MAX];
    const ssize_t n = readlink(path, text, sizeof text);
    if (n < 0) return -(int64_t)errno;
    const size_t kept = n > 0 && text[0] == '/' ? 0 : folder_bytes(path);
    if (kept + (size_t)n >= PATH_MAX - 1) return -ENAMETOOLONG;
    memcpy(path + kept, text, (size_t)n);
    path[kept + (size_t)n] = '\0';
    return 0;
}

/* Follows links itself: realpath fails where the last target does not exist yet. */
static int64_t system_resolve(void *user, const char *path, char *out, size_t room)
{
    enum { LINKS = 40 }; /* as many as Linux follows */
    char current[PATH_MAX];
    struct stat st;
    bool stream = false;
    (void)user;
    if (strlen(path) >= sizeof current - 1) return -ENAMETOOLONG;
    memcpy(current, path, strlen(path) + 1);
    for (int i = 0; lstat(current, &st) == 0 && S_ISLNK(st.st_mode) && !stream; i++) {
        if (i == LINKS) return -ELOOP;
        stream = is_proc_link(current);
        const int64_t failed = stream ? 0 : follow(current);
        if (failed) return failed;
    }
    if (!stream && stat(current, &st) == 0) {
        if (S_ISDIR(st.st_mode)) return -EISDIR;
        stream = is_stream(&st);
    }
    if (strlen(current) >= room) return -ENAMETOOLONG;
    memcpy(out, current, strlen(current) + 1);
    return stream;
}

void fv_io_system(fv_io *io)
{
    *io = (fv_io){
        .open = system_open,
        .size = system_size,
        .read = system_read,
        .write = system_write,
        .reserve = system_reserve,
        .sync = system_sync,
        .close = system_close,
        .rename = system_rename,
        .remove = system_remove,
        .map = system_map,
        .unmap = system_unmap,
        .resolve = system_resolve,
    };
}
