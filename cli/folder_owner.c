/* Which folders the program may write into: empty ones, and those that it has written itself. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "options.h"
#include "output.h"

/* ---- names ------------------------------------------------------------------------------ */

/* "state-00000100.safetensors" */
static bool is_state(const char *name, size_t n)
{
    static const char head[] = "state-", end[] = ".safetensors";
    const size_t around = sizeof head - 1 + sizeof end - 1;
    if (n <= around || strncmp(name, head, sizeof head - 1) != 0 ||
        strncmp(name + n - (sizeof end - 1), end, sizeof end - 1) != 0)
        return false;
    return strspn(name + sizeof head - 1, "0123456789") == n - around;
}

/* The first n bytes of `name` are a file that a training run writes. */
static bool is_run_file(const char *name, size_t n)
{
    for (int i = 0; i < cli_run_file_count; i++)
        if (strlen(cli_run_files[i]) == n && memcmp(name, cli_run_files[i], n) == 0) return true;
    return is_state(name, n);
}

const char *const cli_run_files[] = {"recipe.toml",
                                     "config.json",
                                     "generation_config.json",
                                     "tokenizer.json",
                                     "source_tokenizer.json",
                                     "target_tokenizer.json",
                                     "model.safetensors",
                                     "states.json",
                                     "log.jsonl",
                                     "log.csv",
                                     "sample.svg"};
const int cli_run_file_count = CLI_COUNT(cli_run_files);

/* "states.json.fovea-0.tmp": a file of a run until it is complete. */
static bool is_leftover(const char *name)
{
    static const char mark[] = ".fovea-", end[] = ".tmp";
    const char *at = strstr(name, mark);
    if (!at || !is_run_file(name, (size_t)(at - name))) return false;
    const char *number = at + sizeof mark - 1;
    const size_t digits = strspn(number, "0123456789");
    return digits > 0 && strcmp(number + digits, end) == 0;
}

/* ---- what is in a folder ------------------------------------------------------------------- */

static DIR *list_folder(int folder)
{
    const int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again >= 0 ? fdopendir(again) : NULL;
    if (!list && again >= 0) close(again);
    return list;
}

static bool begins_with(int folder, const char *name, const char *text)
{
    char start[64];
    const size_t n = strlen(text);
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    const bool same = read(file, start, n) == (ssize_t)n && memcmp(start, text, n) == 0;
    close(file);
    return same;
}

/* Settings are the first file of a run, the manifest is the last of a data set. */
static bool is_ours(int folder, cli_folder_kind kind)
{
    if (kind == CLI_FOLDER_TOUR)
        return begins_with(folder, "index.html", "<!-- Written by fovea tour -->");
    if (kind == CLI_FOLDER_SET) return begins_with(folder, "dataset.json", "{\"name\":");
    return begins_with(folder, "recipe.toml", "# Written by fovea") ||
           begins_with(folder, "states.json", "{\"states\":[");
}

/* The first entry by name that is not hidden and not a leftover; false: there is none. */
static bool first_entry(int folder, char first[NAME_MAX + 1])
{
    DIR *list = list_folder(folder);
    const struct dirent *entry;
    bool found = false;
    while (list && (entry = readdir(list))) {
        const char *name = entry->d_name;
        if (name[0] == '.' || is_leftover(name) || (found && strcmp(name, first) >= 0)) continue;
        snprintf(first, NAME_MAX + 1, "%s", name);
        found = true;
    }
    if (list) closedir(list);
    return found;
}

cli_owner cli_folder_owner(const char *path, cli_folder_kind kind, char first[NAME_MAX + 1])
{
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return errno == ENOENT ? CLI_OWNER_NONE : CLI_OWNER_UNKNOWN;
    const bool ours = is_ours(folder, kind);
    const bool empty = !ours && !first_entry(folder, first);
    close(folder);
    return ours ? CLI_OWNER_PROGRAM : empty ? CLI_OWNER_NONE : CLI_OWNER_OTHER;
}

bool cli_may_write(const char *verb, const char *path, cli_folder_kind kind, bool force)
{
    char first[NAME_MAX + 1];
    if (force || cli_folder_owner(path, kind, first) != CLI_OWNER_OTHER) return true;
    static const char *const owned[] = {"a run", "a data set", "a tour"};
    cli_error("%s: %s: the folder is not empty and not %s of this program: it holds '%s'", verb,
              path, owned[kind], first);
    cli_note("name another folder%s, or add --force to write into this one; files of the "
             "same names are then replaced",
             kind == CLI_FOLDER_TOUR ? "" : " with -o");
    return false;
}

bool cli_is_new_folder(const char *verb, const char *path)
{
    char first[NAME_MAX + 1];
    if (cli_folder_owner(path, CLI_FOLDER_RUN, first) == CLI_OWNER_NONE) return true;
    cli_error("%s: %s: expected a new or empty folder", verb, path);
    return false;
}

void cli_remove_leftovers(int folder)
{
    char first[NAME_MAX + 1];
    const bool safe = is_ours(folder, CLI_FOLDER_RUN) || !first_entry(folder, first);
    DIR *list = safe ? list_folder(folder) : NULL;
    const struct dirent *entry;
    struct stat st;
    while (list && (entry = readdir(list)))
        if (is_leftover(entry->d_name) &&
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            unlinkat(folder, entry->d_name, 0);
    if (list) closedir(list);
}
