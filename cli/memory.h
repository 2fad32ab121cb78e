/*
 * The program's memory cap: a model or file that needs more than the machine has must end in a
 * message, not in a machine that swaps or in the kernel's OOM killer.
 */
#ifndef FOVEA_CLI_MEMORY_H
#define FOVEA_CLI_MEMORY_H

#include "fovea/context.h"
#include "options.h"

/* --memory, for the option tables of verbs that load or train. */
#define CLI_MEMORY                                                                                 \
    {                                                                                              \
        .name = "memory", .type = CLI_STRING, .metavar = "SIZE",                                   \
        .help = "memory cap, such as 512M or 8G; 0: none; default: 80 % of what is free"           \
    }

/* Sets the cap from --memory, or to 80 % of the memory that is free now. Returns an exit code; the
 * error is already printed. */
int cli_memory_begin(const cli_call *call);

/* The cap in bytes; 0: none. */
uint64_t cli_memory_cap(void);

/* Fills a config with defaults, the cap, Ctrl-C and a log that prints warnings. */
void cli_config_init(fv_ctx_config *cfg);

/* Adds the cap, and the option that changes it, to the message of a failure for lack of memory. */
void cli_memory_explain(char *out, size_t bytes, const char *reason);

#endif
