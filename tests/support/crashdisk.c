#include "support/crashdisk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MOST_NAMES = 256, NAME_BYTES = 96, FOLDER = -1 };

typedef struct inode {
    unsigned char *data;
    size_t bytes;
} inode;

typedef struct entry {
    char name[NAME_BYTES]; /* "": free */
    int file;
} entry;

typedef enum change_kind { CREATED, WRITTEN, SYNCED, RENAMED, REMOVED, FOLDER_SYNCED } change_kind;

typedef struct change {
    change_kind kind;
    int file;
    char from[NAME_BYTES], to[NAME_BYTES];
    uint64_t offset;
    unsigned char *data; /* of the write */
    size_t bytes;
} change;

struct crash_disk {
    inode *files;
    int file_count;
    entry names[MOST_NAMES];
    int *handles; /* file of each, or FOLDER */
    int handle_count;
    change *journal;
    size_t change_count;
    bool lies_about_files, lies_about_folder;
};

/* Exits if there is no memory. */
static void *grown(void *array, size_t count, size_t bytes)
{
    void *bigger = realloc(array, (count ? count : 1) * bytes);
    if (!bigger) {
        perror("crash disk");
        exit(1);
    }
    return bigger;
}

crash_disk *crash_disk_new(void)
{
    crash_disk *disk = grown(NULL, 1, sizeof *disk);
    memset(disk, 0, sizeof *disk);
    return disk;
}

void crash_disk_free(crash_disk *disk)
{
    for (int i = 0; i < disk->file_count; i++)
        free(disk->files[i].data);
    for (size_t i = 0; i < disk->change_count; i++)
        free(disk->journal[i].data);
    free(disk->files);
    free(disk->handles);
    free(disk->journal);
    free(disk);
}

void crash_disk_lie(crash_disk *disk, bool about_files, bool about_folder)
{
    disk->lies_about_files = about_files;
    disk->lies_about_folder = about_folder;
}

size_t crash_disk_changes(const crash_disk *disk) { return disk->change_count; }

/* ---- names and bytes ---------------------------------------------------------------- */

static entry *find(crash_disk *disk, const char *name)
{
    for (int i = 0; i < MOST_NAMES; i++)
        if (strcmp(disk->names[i].name, name) == 0) return &disk->names[i];
    return NULL;
}

static void set_name(crash_disk *disk, const char *name, int file)
{
    entry *at = find(disk, name);
    if (!at) at = find(disk, "");
    if (!at) {
        fprintf(stderr, "crash disk: too many names\n");
        exit(1);
    }
    snprintf(at->name, sizeof at->name, "%s", name);
    at->file = file;
}

static void drop_name(crash_disk *disk, const char *name)
{
    entry *at = find(disk, name);
    if (at) at->name[0] = '\0';
}

static int new_file(crash_disk *disk)
{
    disk->files = grown(disk->files, (size_t)disk->file_count + 1, sizeof *disk->files);
    disk->files[disk->file_count] = (inode){NULL, 0};
    return disk->file_count++;
}

static void put_bytes(inode *file, const void *data, size_t n, uint64_t offset)
{
    const size_t end = (size_t)offset + n;
    if (end > file->bytes) {
        file->data = grown(file->data, end, 1);
        memset(file->data + file->bytes, 0, end - file->bytes);
        file->bytes = end;
    }
    if (n) memcpy(file->data + offset, data, n);
}

/* ---- the table ---------------------------------------------------------------------- */

static change *note(crash_disk *disk, change_kind kind, int file)
{
    disk->journal = grown(disk->journal, disk->change_count + 1, sizeof *disk->journal);
    change *c = &disk->journal[disk->change_count++];
    *c = (change){.kind = kind, .file = file};
    return c;
}

static int64_t new_handle(crash_disk *disk, int file)
{
    disk->handles = grown(disk->handles, (size_t)disk->handle_count + 1, sizeof *disk->handles);
    disk->handles[disk->handle_count] = file;
    return disk->handle_count++;
}

static int64_t disk_open(void *user, const char *path, fv_io_mode mode)
{
    crash_disk *disk = user;
    if (mode == FV_IO_DIRECTORY) return new_handle(disk, FOLDER);
    const entry *at = find(disk, path);
    if (mode == FV_IO_CREATE && at) return -EEXIST;
    if (mode == FV_IO_READ && !at) return -ENOENT;
    if (at) return new_handle(disk, at->file);
    const int file = new_file(disk);
    set_name(disk, path, file);
    snprintf(note(disk, CREATED, file)->to, NAME_BYTES, "%s", path);
    return new_handle(disk, file);
}

static inode *file_of(crash_disk *disk, int64_t handle)
{
    return &disk->files[disk->handles[handle]];
}

static int64_t disk_size(void *user, int64_t handle)
{
    return (int64_t)file_of(user, handle)->bytes;
}

static int64_t disk_read(void *user, int64_t handle, void *buf, size_t n, uint64_t offset)
{
    const inode *file = file_of(user, handle);
    if (offset >= file->bytes) return 0;
    if (n > file->bytes - offset) n = file->bytes - (size_t)offset;
    memcpy(buf, file->data + offset, n);
    return (int64_t)n;
}

static int64_t disk_write(void *user, int64_t handle, const void *buf, size_t n, uint64_t offset)
{
    crash_disk *disk = user;
    put_bytes(file_of(disk, handle), buf, n, offset);
    change *c = note(disk, WRITTEN, disk->handles[handle]);
    c->offset = offset;
    c->bytes = n;
    c->data = grown(NULL, n, 1);
    memcpy(c->data, buf, n);
    return (int64_t)n;
}

static int64_t disk_reserve(void *user, int64_t handle, uint64_t bytes)
{
    (void)user;
    (void)handle;
    (void)bytes;
    return 0;
}

static int64_t disk_sync(void *user, int64_t handle)
{
    crash_disk *disk = user;
    const int file = disk->handles[handle];
    const bool folder = file == FOLDER;
    if (!(folder ? disk->lies_about_folder : disk->lies_about_files))
        note(disk, folder ? FOLDER_SYNCED : SYNCED, file);
    return 0;
}

static int64_t disk_close(void *user, int64_t handle)
{
    (void)user;
    (void)handle;
    return 0;
}

static int64_t disk_rename(void *user, const char *from, const char *to)
{
    crash_disk *disk = user;
    const entry *at = find(disk, from);
    if (!at) return -ENOENT;
    const int file = at->file;
    drop_name(disk, from);
    set_name(disk, to, file);
    change *c = note(disk, RENAMED, file);
    snprintf(c->from, NAME_BYTES, "%s", from);
    snprintf(c->to, NAME_BYTES, "%s", to);
    return 0;
}

static int64_t disk_remove(void *user, const char *path)
{
    crash_disk *disk = user;
    if (!find(disk, path)) return -ENOENT;
    drop_name(disk, path);
    snprintf(note(disk, REMOVED, 0)->from, NAME_BYTES, "%s", path);
    return 0;
}

static int64_t disk_map(void *user, int64_t handle, size_t n, void **addr)
{
    (void)user;
    (void)handle;
    (void)n;
    (void)addr;
    return -ENODEV;
}

void crash_disk_io(crash_disk *disk, fv_io *io)
{
    *io = (fv_io){.user = disk,
                  .open = disk_open,
                  .size = disk_size,
                  .read = disk_read,
                  .write = disk_write,
                  .reserve = disk_reserve,
                  .sync = disk_sync,
                  .close = disk_close,
                  .rename = disk_rename,
                  .remove = disk_remove,
                  .map = disk_map};
}

int crash_disk_count(const crash_disk *disk, const char *suffix)
{
    int count = 0;
    const size_t n = strlen(suffix);
    for (int i = 0; i < MOST_NAMES; i++) {
        const size_t length = strlen(disk->names[i].name);
        count += length > 0 && length >= n && strcmp(disk->names[i].name + length - n, suffix) == 0;
    }
    return count;
}

/* ---- the cut ------------------------------------------------------------------------- */

/* Marks the changes that are certainly on the disk: from the last to the first, all that a later
 * sync covers. */
static bool *certain(const crash_disk *disk, size_t changes)
{
    bool *sure = grown(NULL, changes, sizeof *sure);
    bool *file_synced = grown(NULL, (size_t)disk->file_count, sizeof *file_synced);
    bool folder_synced = false;
    memset(file_synced, 0, (size_t)disk->file_count * sizeof *file_synced);
    for (size_t i = changes; i-- > 0;) {
        const change *c = &disk->journal[i];
        if (c->kind == SYNCED) file_synced[c->file] = true;
        if (c->kind == FOLDER_SYNCED) folder_synced = true;
        sure[i] = c->kind == WRITTEN ? file_synced[c->file] : folder_synced;
    }
    free(file_synced);
    return sure;
}

/* How much of an unsynced change is on the disk: 0, all (1), or a share. */
static double share_of(uint64_t seed, size_t change_number)
{
    if (seed < 2) return (double)seed;
    uint32_t r[4];
    fv_rng_draw(fv_rng_key(seed, 0x637261, 0), change_number, 0, r);
    return r[0] % 3 == 0 ? 0 : r[0] % 3 == 1 ? 1 : (double)fv_rng_unit(r[1]);
}

static void redo(crash_disk *out, const change *c, double share)
{
    if (c->kind == WRITTEN) {
        const size_t n = (size_t)(share * (double)c->bytes);
        if (n > 0) put_bytes(&out->files[c->file], c->data, n, c->offset);
        return;
    }
    if (share < 0.5) return;
    if (c->kind == CREATED || c->kind == RENAMED) {
        if (c->kind == RENAMED) drop_name(out, c->from);
        set_name(out, c->to, c->file);
    } else if (c->kind == REMOVED) {
        drop_name(out, c->from);
    }
}

crash_disk *crash_disk_cut(const crash_disk *disk, size_t changes, uint64_t seed)
{
    crash_disk *out = crash_disk_new();
    bool *sure = certain(disk, changes);
    while (out->file_count < disk->file_count)
        new_file(out);
    for (size_t i = 0; i < changes; i++)
        redo(out, &disk->journal[i], sure[i] ? 1 : share_of(seed, i));
    free(sure);
    return out;
}
