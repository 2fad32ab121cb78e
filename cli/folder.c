#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"
#include "output.h"

bool cli_path(char out[CLI_PATH_BYTES], const char *fmt, ...)
{
    enum { SHOWN = 60 };
    va_list ap;
    va_start(ap, fmt);
    const int bytes = vsnprintf(out, CLI_PATH_BYTES, fmt, ap);
    va_end(ap);
    if (bytes >= 0 && bytes < CLI_PATH_BYTES) return true;
    cli_error("%.*s...: a path of %d bytes is too long", SHOWN, out, bytes);
    return false;
}

bool cli_make_folder(const char *path)
{
    char part[CLI_PATH_BYTES];
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        cli_error("'%s' is not a valid folder name", path);
        return false;
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        const char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            cli_error("%s: cannot create the folder: %s", part, strerror(errno));
            return false;
        }
        part[i] = kept;
    }
    return true;
}

int cli_lock_folder(const char *verb, const char *path, bool force, cli_lock *lock)
{
    *lock = (cli_lock){.path = path, .descriptor = -1, .fresh = access(path, F_OK) != 0};
    if (!cli_may_write(verb, path, CLI_FOLDER_RUN, force)) return CLI_USAGE;
    if (!cli_make_folder(path)) return CLI_FAILED;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        cli_error("%s: %s: cannot open the folder: %s", verb, path, strerror(errno));
        return CLI_FAILED;
    }
    /* Without file locks (some network file systems) nothing is removed. */
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) {
        cli_remove_leftovers(folder);
    } else if (errno == EWOULDBLOCK) {
        cli_error("%s: %s: another process is training in this folder", verb, path);
        close(folder);
        return CLI_FAILED;
    }
    lock->descriptor = folder;
    return CLI_DONE;
}

void cli_unlock_folder(cli_lock *lock, bool used)
{
    if (lock->descriptor < 0) return;
    if (lock->fresh && !used) (void)rmdir(lock->path); /* fails, as intended, if it is not empty */
    close(lock->descriptor);
    lock->descriptor = -1;
}

/* ---- weights ------------------------------------------------------------------------ */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The index of a sharded set, else the single file; safetensors first. */
static int resolve_folder(const char *verb, const char *folder, char path[CLI_PATH_BYTES])
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json", "pytorch_model.bin"};
    for (int i = 0; i < CLI_COUNT(names); i++) {
        if (!cli_path(path, "%s/%s", folder, names[i])) return CLI_USAGE;
        if (is_file(path)) return CLI_DONE;
    }
    cli_error("%s: %s: expected a folder with %s, %s or %s", verb, folder, names[0], names[1],
              names[3]);
    return CLI_BAD_FILE;
}

static const char *nearest_file(const char *path, char *found, size_t bytes)
{
    const char *slash = strrchr(path, '/');
    char folder[1024];
    cli_format(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    DIR *dir = opendir(folder[0] ? folder : "/");
    if (!dir) return NULL;
    fv_nearest nearest;
    fv_nearest_init(&nearest, slash ? slash + 1 : path);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.') fv_nearest_add(&nearest, entry->d_name, strlen(entry->d_name));
    closedir(dir);
    const char *name = fv_nearest_best(&nearest);
    if (!name) return NULL;
    cli_format(found, bytes, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
    return found;
}

/* Prints an error unless the path is a file or folder that can be read. */
static int check_path(const char *verb, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0) {
        if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return CLI_DONE;
        cli_error("%s: %s: not a regular file or folder", verb, path);
        return CLI_BAD_FILE;
    }
    int reason = errno;
    char found[1200];
    const char *near = reason == ENOENT ? nearest_file(path, found, sizeof found) : NULL;
    cli_error("%s: %s: %s%s%s%s", verb, path, strerror(reason), near ? "; did you mean '" : "",
              near ? near : "", near ? "'?" : "");
    return CLI_BAD_FILE;
}

int cli_weights_file(const char *verb, const char *path, char out[CLI_PATH_BYTES])
{
    const int code = check_path(verb, path);
    if (code) return code;
    if (!is_file(path)) return resolve_folder(verb, path, out);
    return cli_path(out, "%s", path) ? CLI_DONE : CLI_USAGE;
}
