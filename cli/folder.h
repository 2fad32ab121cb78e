/* Paths, and folders that the program writes into. */
#ifndef FOVEA_CLI_FOLDER_H
#define FOVEA_CLI_FOLDER_H

#include <limits.h>
#include <stdbool.h>

#include "fovea/context.h"

enum { CLI_PATH_BYTES = 4096 };

/*
 * Formats a path. Too long a path is an error, since a truncated one would name another file.
 * False: the error is already printed.
 *
 *     char path[CLI_PATH_BYTES];
 *     if (!cli_path(path, "%s/log.csv", folder)) return CLI_FAILED;
 */
FV_MUST_USE bool cli_path(char out[CLI_PATH_BYTES], const char *fmt, ...) FV_PRINTF(2, 3);

/* The file that holds the tensors of `path`: itself, or in a model's folder model.safetensors,
 * pytorch_model.bin or the index of shards. Returns an exit code; the error is already printed. */
FV_MUST_USE int cli_weights_file(const char *verb, const char *path, char out[CLI_PATH_BYTES]);

/* True if `input`, or a file of the model folder `input`, is the file that `output` describes,
 * whose path in `input` is then in `found`. */
struct stat;
bool cli_is_input(const char *input, const struct stat *output, char found[CLI_PATH_BYTES]);

/* Creates a folder and its parents. False: the error is already printed. */
bool cli_make_folder(const char *path);

/* --force of the verbs that write a folder, for the option tables. */
#define CLI_FORCE                                                                                  \
    {                                                                                              \
        .name = "force", .type = CLI_FLAG,                                                         \
        .help = "write into a folder that holds other files, too"                                  \
    }

/* ---- whose folder it is ------------------------------------------------------------ */

typedef enum cli_folder_kind {
    CLI_FOLDER_RUN, /* of 'fovea train': known by its recipe.toml or states.json */
    CLI_FOLDER_SET, /* of 'fovea data make': known by its dataset.json */
    CLI_FOLDER_TOUR /* of 'fovea tour --html': known by its index.html */
} cli_folder_kind;

typedef enum cli_owner {
    CLI_OWNER_NONE,    /* absent or empty; hidden files do not count */
    CLI_OWNER_PROGRAM, /* written by this program */
    CLI_OWNER_OTHER,
    CLI_OWNER_UNKNOWN /* cannot be listed */
} cli_owner;

/* For CLI_OWNER_OTHER, `first` is the name of the first entry. */
cli_owner cli_folder_owner(const char *path, cli_folder_kind kind, char first[NAME_MAX + 1]);

/* False, with the error printed, for a folder of another owner, unless `force` is set. */
FV_MUST_USE bool cli_may_write(const char *verb, const char *path, cli_folder_kind kind,
                               bool force);

/* False, with the error printed, unless the folder is absent or empty. */
FV_MUST_USE bool cli_is_new_folder(const char *verb, const char *path);

/* Names of the files that a training run writes and replaces, besides its states. */
extern const char *const cli_run_files[];
extern const int cli_run_file_count;

/* Removes incomplete files of a killed process from a locked folder: those with the name of a run's
 * file and the ending of a temporary one. Does nothing in a folder of another owner. */
void cli_remove_leftovers(int folder);

/*
 * Creates a run folder, in which one process at a time may train: checks its owner, locks it and
 * removes leftovers. Returns an exit code; the error is already printed. Releasing with `used`
 * false removes a folder that was created here and is still empty.
 */
typedef struct cli_lock {
    const char *path;
    int descriptor; /* holds the folder while it is open */
    bool fresh;
} cli_lock;
FV_MUST_USE int cli_lock_folder(const char *verb, const char *path, bool force, cli_lock *lock);
void cli_unlock_folder(cli_lock *lock, bool used);

#endif
