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

#include "output.h"

bool cli_path(char out[CLI_PATH_BYTES], const char *fmt, ...)
{
    enum { SHOWN = 60 };
    va_list ap;
    va_start(ap, fmt);
    const int bytes = vsnprintf(out, CLI_PATH_BYTES, fmt, ap);
    va_end(ap);
    if (bytes >= 0 && bytes < CLI_PATH_BYTES) return true;
    cli_error("a path of %d bytes is too long: '%.*s...'", bytes, SHOWN, out);
    return false;
}

bool cli_make_folder(const char *path)
{
    char part[CLI_PATH_BYTES];
    const size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        cli_error("'%s' is no name for a folder", path);
        return false;
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        const char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            cli_error("cannot make the folder '%s': %s", part, strerror(errno));
            return false;
        }
        part[i] = kept;
    }
    return true;
}

static bool ends_with(const char *name, size_t n, const char *ending)
{
    const size_t m = strlen(ending);
    return n >= m && memcmp(name + n - m, ending, m) == 0;
}

/* "state-00000100.safetensors.0.tmp": what a save is called until it is whole. */
static bool is_leftover(const char *name)
{
    static const char *const endings[] = {".safetensors", ".json", ".jsonl", ".toml", ".csv"};
    size_t n = strlen(name);
    if (!ends_with(name, n, ".tmp")) return false;
    n -= strlen(".tmp");
    const size_t before = n;
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n == before || n == 0 || name[--n] != '.') return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, n, endings[i])) return true;
    return false;
}

static void sweep(int folder)
{
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (is_leftover(entry->d_name)) unlinkat(folder, entry->d_name, 0);
    if (list)
        closedir(list);
    else if (again >= 0)
        close(again);
}

bool cli_claim_folder(const char *path, cli_claim *claim)
{
    *claim = (cli_claim){.path = path, .descriptor = -1, .fresh = access(path, F_OK) != 0};
    if (!cli_make_folder(path)) return false;
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        cli_error("cannot open the folder '%s': %s", path, strerror(errno));
        return false;
    }
    /* File systems without locks are used without them; nothing is swept there. */
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) {
        sweep(folder);
    } else if (errno == EWOULDBLOCK) {
        cli_error("another training is at work in '%s'", path);
        close(folder);
        return false;
    }
    claim->descriptor = folder;
    return true;
}

void cli_release_folder(cli_claim *claim, bool used)
{
    if (claim->descriptor < 0) return;
    if (claim->fresh && !used) (void)rmdir(claim->path); /* stays where something is in it */
    close(claim->descriptor);
    claim->descriptor = -1;
}
