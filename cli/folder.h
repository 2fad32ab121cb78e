/* Folders that the program writes into. */
#ifndef FOVEA_CLI_FOLDER_H
#define FOVEA_CLI_FOLDER_H

#include <stdbool.h>

/* Makes a folder and those above it. false: it was said why. */
bool cli_make_folder(const char *path);

/*
 * The same for the folder of a training, which one process at a time may work in: takes it for this
 * one and removes half-written files that a killed process left there. Returns a descriptor that
 * holds the folder until it is closed, or -1: it was said why.
 */
int cli_claim_folder(const char *path);

#endif
