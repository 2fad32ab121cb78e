/*
 * Data from a pipe for 'fovea train --new'. The file is read several times, and training a plain
 * text reads it again when a run resumes, so a pipe is saved in the run folder first.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "train_new.h"

bool cli_new_is_stream(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

/* Copies all bytes; false: the error is already printed. */
static bool copy(FILE *from, const char *path, FILE *to, const char *saved)
{
    char block[4096];
    size_t n;
    while (!cli_cancelled && (n = fread(block, 1, sizeof block, from)) > 0)
        if (fwrite(block, 1, n, to) != n) break;
    if (cli_cancelled)
        cli_error("train: interrupted while reading %s", path);
    else if (ferror(from))
        cli_error("train: %s: cannot read the data", path);
    else if (ferror(to) || fflush(to) != 0 || fsync(fileno(to)) != 0)
        cli_error("train: %s: cannot save the data; is the disk full?", saved);
    else
        return true;
    return false;
}

int cli_new_save_stream(const cli_call *call, const char *folder, char saved[CLI_PATH_BYTES])
{
    const char *path = call->words[0];
    const bool standard = strcmp(path, "-") == 0;
    char files[CLI_PATH_BYTES];
    if (cli_flag(call, "check")) {
        cli_error("train: --check needs a file: %s can be read only once", path);
        return CLI_USAGE;
    }
    if (!cli_path(files, "%s/data", folder) || !cli_path(saved, "%s/input", files) ||
        !cli_may_write("train", folder, CLI_FOLDER_RUN, cli_flag(call, "force")))
        return CLI_USAGE;
    /* A run that exists keeps its file; the new one shows whether the data are the same. */
    if (access(saved, F_OK) == 0 && !cli_path(saved, "%s/input-again", files)) return CLI_USAGE;
    if (!cli_make_folder(files)) return CLI_FAILED;
    FILE *from = standard ? stdin : fopen(path, "re"), *to = fopen(saved, "we");
    bool done = from && to;
    if (!done)
        cli_error("train: %s: cannot %s this file", from ? saved : path, from ? "write" : "read");
    done = done && copy(from, path, to, saved);
    if (from && !standard) fclose(from);
    if (to && fclose(to) != 0) done = false;
    if (done) return CLI_DONE;
    cli_new_forget_stream(folder, saved);
    return cli_cancelled ? CLI_INTERRUPTED : CLI_FAILED;
}

void cli_new_forget_stream(const char *folder, const char *saved)
{
    char files[CLI_PATH_BYTES];
    unlink(saved);
    if (cli_path(files, "%s/data", folder)) rmdir(files); /* these two only where they are empty */
    rmdir(folder);
}
