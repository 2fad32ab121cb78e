/* Models that work on generated examples: readers of stories (reading.c) and walkers (walking.c),
 * for 'fovea run' and 'fovea look'. */
#ifndef FOVEA_CLI_EXAMPLE_H
#define FOVEA_CLI_EXAMPLE_H

#include "model.h"

#define CLI_EXAMPLE                                                                                \
    {                                                                                              \
        .name = "example", .type = CLI_INT, .min = 0, .max = 1e9, .metavar = "N",                  \
        .help = "readers: story N of the test part; walkers: map N of it, which is also "          \
                "where a text leads"                                                               \
    }

/* True if the model works on examples. */
bool cli_has_examples(const fv_model *model);
/* --example with another model: prints the error and returns false. */
bool cli_example_applies(const cli_call *call, const char *verb, const fv_model *model);

/* All texts of the call, or the example. Return the exit code. */
int cli_run_example(const cli_call *call, fv_ctx *ctx, fv_model *model);
/* One text, or with NULL the example, into a file, or with NULL to standard output. */
int cli_look_example(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                     const char *path);

/* The same for each kind; text NULL: --example. */
int cli_run_story(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text);
int cli_look_story(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path);
int cli_run_walk(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text);
int cli_look_walk(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const char *path);

#endif
