/* Paths, and folders that the program writes into. */
#ifndef FOVEA_CLI_FOLDER_H
#define FOVEA_CLI_FOLDER_H

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

/* The file that holds the tensors of `path`: itself, or in a model's folder model.safetensors or
 * the index of its shards. Returns an exit code; the error is already printed. */
FV_MUST_USE int cli_weights_file(const char *verb, const char *path, char out[CLI_PATH_BYTES]);

/* True if `input`, or a file of the model folder `input`, is the file that `output` describes,
 * whose path in `input` is then in `found`. */
struct stat;
bool cli_is_input(const char *input, const struct stat *output, char found[CLI_PATH_BYTES]);

/* Creates a folder and its parents. False: the error is already printed. */
bool cli_make_folder(const char *path);

/*
 * The same for a run folder, in which one process at a time may train: locks it and removes
 * incomplete files of a killed process. False: the error is already printed. Releasing with `used`
 * false removes a folder that was created here and is still empty.
 */
typedef struct cli_lock {
    const char *path;
    int descriptor; /* holds the folder while it is open */
    bool fresh;
} cli_lock;
FV_MUST_USE bool cli_lock_folder(const char *path, cli_lock *lock);
void cli_unlock_folder(cli_lock *lock, bool used);

#endif
