/* The fv_io table over POSIX files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static int64_t system_open(void *user, const char *path, fv_io_mode mode)
{
    (void)user;
    switch (mode) {
    case FV_IO_READ:
        return open_regular(path);
    case FV_IO_CREATE:
        return result(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    case FV_IO_APPEND:
        return result(open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    case FV_IO_DIRECTORY:
        return result(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
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
    return result(pwrite((int)file, buf, n, (off_t)offset));
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
    };
}
