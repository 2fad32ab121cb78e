/* Models that learn from the examples of an episode: episodes by their number, and 'fovea run' and
 * 'fovea look'. */
#ifndef FOVEA_CLI_SHOTS_H
#define FOVEA_CLI_SHOTS_H

#include "fovea/shots.h"
#include "model.h"
#include "output.h"

/* One episode with one query, and the model's answer. */
typedef struct cli_shots {
    fv_shots_episode episode;
    int64_t number;
    float probability[FV_SHOTS_MOST_WAYS]; /* of each class */
    int64_t answer, label, nearest;        /* class; nearest: by pixels */
} cli_shots;

/*
 * Draws episode `text`, a number, of the test characters that the folder's recipe.toml describes,
 * and runs the model on it, with the capture unless that is NULL. Returns an exit code; the error
 * is already printed.
 */
int cli_shots_run(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const fv_capture *capture, cli_shots *out);
void cli_shots_free(fv_ctx *ctx, cli_shots *shots);
/* The members of the answer. */
void cli_shots_json(cli_json *j, const cli_shots *shots);

int cli_run_shots(const cli_call *call, fv_ctx *ctx, fv_model **model);
int cli_look_shots(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path);

#endif
