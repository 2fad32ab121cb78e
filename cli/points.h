/*
 * Models that point at points: files of points, 'fovea run' and 'fovea look' with them.
 */
#ifndef FOVEA_CLI_POINTS_H
#define FOVEA_CLI_POINTS_H

#include "fovea/points.h"
#include "model.h"

/* The points of a file, as they are and as a model reads them. */
typedef struct cli_points {
    fv_problem problem;
    int64_t n, width;
    float given[2 * FV_POINTS_MAX];    /* [n][width] */
    float values[2 * FV_POINTS_MAX];   /* in [0, 1] */
    int64_t answer[6 * FV_POINTS_MAX]; /* room for the right answer */
    const void *row;
    fv_batch batch; /* one row, "points" */
} cli_points;

/*
 * One point per line, its numbers separated by blanks, tabs or commas; empty lines and those that
 * begin with '#' are skipped, and so is a first line that begins with a letter. "-" is standard
 * input. Points outside the unit square are moved and scaled into it, all by the same factor.
 * Returns an exit code; the error is already printed. The batch points into `out`, which stays
 * where it is.
 */
int cli_points_read(const cli_call *call, fv_ctx *ctx, const fv_model *model, const char *path,
                    cli_points *out);

/* What the model answers, with its probabilities if `weights`. */
fv_status cli_points_answer(const cli_call *call, fv_model *model, const cli_points *points,
                            bool weights, fv_outputs **out);

/* "length 3.84, 0.2 % above the shortest" and the like: what an output is worth. */
enum { CLI_WORTH_BYTES = 160 };
void cli_points_worth(fv_ctx *ctx, cli_points *points, const fv_output *output,
                      char out[CLI_WORTH_BYTES]);

/* The verbs' part: files are the words after the model, or standard input. */
int cli_run_points(const cli_call *call, fv_ctx *ctx, fv_model *model);
int cli_look_points(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                    const char *path);

#endif
