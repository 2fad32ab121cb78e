/*
 * What the verbs that train and run models share: a context from the usual options, a translator
 * from a folder, progress on stderr, and alignments as pictures.
 */
#ifndef FOVEA_CLI_MODEL_H
#define FOVEA_CLI_MODEL_H

#include "fovea/look.h"
#include "fovea/task.h"
#include "fovea/transformer.h"
#include "fovea/translate.h"
#include "memory.h"
#include "options.h"
#include "shared_options.h"

/* Opens a model's folder as --mmap and --no-verify ask for. */
fv_status cli_open_model(fv_ctx *ctx, const cli_call *call, const char *folder, fv_model **out);

/* The device of --device. An absent one is an error that names the reason. Returns the exit code.
 */
FV_MUST_USE int cli_device(const cli_call *call, fv_device_kind *out);

/* A context that Ctrl-C cancels. NULL: the error is already printed, *code is the exit code. */
fv_ctx *cli_context(const cli_call *call, uint64_t seed, int *code);

/* 'fovea run --ids': one pass over tokens of a file. Returns the exit code. */
int cli_run_ids(const cli_call *call);
/* The array of an option's file as i64 [batch, n]; NULL where the option is not given or *status is
 * not FV_OK. */
fv_tensor *cli_load_i64_option(fv_ctx *ctx, const cli_call *call, const char *option,
                               fv_status *status);

/* ---- progress -------------------------------------------------------------------- */

/* Shows training progress: one line that is rewritten on a terminal, plain lines elsewhere. */
typedef struct cli_progress {
    fv_ctx *ctx;
    bool quiet, live;
    bool open;         /* a line that will be rewritten is on the terminal */
    double last;       /* when a line was last written */
    double lr, old_lr; /* of the recipe, and of the run before it was resumed */
} cli_progress;

void cli_progress_begin(cli_progress *progress, fv_ctx *ctx, bool quiet);
void cli_progress_show(void *progress, const fv_train_event *event);
/* Ends an open line, so that what is printed next (after Ctrl-C, an error) starts a new one. */
void cli_progress_end(cli_progress *progress);

/* ---- alignments ------------------------------------------------------------------ */

/* The attention map of a translation, target words down, source words across: written to `path` as
 * its extension says (svg, png, html, txt), or to stdout if it is NULL. */
fv_status cli_show_alignment(fv_ctx *ctx, const fv_translation *t, const char *title,
                             const char *path);
/* Pharaoh pairs "i-j", source-target, from 0: each target word with the source word of the largest
 * weight. */
void cli_print_pharaoh(const fv_translation *t);

#endif
