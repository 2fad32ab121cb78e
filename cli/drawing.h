/* Pictures that a model generates: 'fovea run' lays them out as a grid, 'fovea look' shows the
 * attention of one. */
#ifndef FOVEA_CLI_DRAWING_H
#define FOVEA_CLI_DRAWING_H

#include "model.h"

/* Pictures of a model that draws, with what they are made of. */
typedef struct cli_samples {
    int64_t count, channels, height, width;
    int64_t noise_width;
    float *noise;   /* [count][noise_width] */
    int64_t *label; /* [count]; NULL: the model has no classes */
    const void **noise_row, **label_row;
    float *pixels;  /* [count][channels][height][width] in 0 .. 1, once they are drawn */
    fv_batch batch; /* "noise" and "label" */
} cli_samples;

/* Room for `count` pictures, whose noise and classes the caller sets. To be freed even on failure.
 * Fails: UNSUPPORTED (a model that draws something else), MEMORY. */
fv_status cli_samples_create(fv_model *model, int64_t count, cli_samples *out);
void cli_samples_free(cli_samples *samples);
/* Noise [count][noise_width] of a seed: entry i is the same for any count. */
fv_status cli_samples_noise(fv_model *model, int64_t seed, int64_t count, float *out);
fv_status cli_samples_draw(fv_model *model, cli_samples *samples);

enum { CLI_CLASSES = 256 };

/* The classes of --class, "3,8", or all of them, into list[CLI_CLASSES]; their number, 0 for a
 * model without classes, or -1: the error is printed. */
int64_t cli_read_classes(const cli_call *call, const fv_model *model, int64_t *list);

#define CLI_CLASS                                                                                  \
    {                                                                                              \
        .name = "class", .type = CLI_STRING, .metavar = "NAME",                                    \
        .help =                                                                                    \
            "models that draw: only this class, by name or number, or several separated by commas" \
    }

#define CLI_SEED                                                                                   \
    {                                                                                              \
        .name = "seed", .letter = 's', .type = CLI_INT, .default_value = "1", .min = 0,            \
        .max = 1e15, .metavar = "N", .help = "random seed of sampling, drawing and games"          \
    }

#endif
