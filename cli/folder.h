/* Paths, and folders that the program writes into. */
#ifndef FOVEA_CLI_FOLDER_H
#define FOVEA_CLI_FOLDER_H

#include <stdbool.h>

#include "fovea/status.h"

enum { CLI_PATH_BYTES = 4096 };

/*
 * A path, whole or not at all: one that is cut would name another file. false: it was said why.
 *
 *     char path[CLI_PATH_BYTES];
 *     if (!cli_path(path, "%s/log.csv", folder)) return CLI_FAILED;
 */
FV_MUST_USE bool cli_path(char out[CLI_PATH_BYTES], const char *fmt, ...) FV_PRINTF(2, 3);

/* Makes a folder and those above it. false: it was said why. */
bool cli_make_folder(const char *path);

/*
 * The same for the folder of a training, which one process at a time may work in: takes it for this
 * one and removes half-written files that a killed process left there. false: it was said why. Let
 * go of it with `used` false, a folder that was made for this process and is still empty goes away.
 */
typedef struct cli_claim {
    const char *path;
    int descriptor; /* holds the folder while it is open */
    bool fresh;
} cli_claim;
FV_MUST_USE bool cli_claim_folder(const char *path, cli_claim *claim);
void cli_release_folder(cli_claim *claim, bool used);

#endif
