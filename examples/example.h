/*
 * What every example begins and ends with: a context, a complaint if something failed, a map on the
 * terminal and in a file.
 *
 * Examples run on the scalar kernels, one thread: the same numbers, to the bit, on every machine,
 * so that the pictures in docs/ can be made again.
 */
#ifndef FOVEA_EXAMPLE_H
#define FOVEA_EXAMPLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "fovea/look.h"
#include "fovea/ops.h"
#include "fovea/optim.h"

static inline fv_ctx *example_start(fv_simd level)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.simd = level;
    cfg.threads = 1;
    cfg.seed = 7;
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) {
        fprintf(stderr, "no context\n");
        exit(1);
    }
    return ctx;
}

/* Ends the program, with the reason, unless the call worked. */
static inline void must(fv_ctx *ctx, fv_status status)
{
    if (status == FV_OK) return;
    fprintf(stderr, "%s: %s\n", fv_status_name(status), fv_ctx_message(ctx));
    exit(1);
}

/* Ends the program unless what the example claims is true. */
static inline void claim(bool true_, const char *what)
{
    if (true_) return;
    fprintf(stderr, "not true: %s\n", what);
    exit(1);
}

/* A tensor from numbers written in the program. */
static inline fv_tensor *matrix(fv_ctx *ctx, int64_t rows, int64_t cols, const float *values)
{
    return fv_from_host(ctx, FV_F32, 2, (int64_t[]){rows, cols}, values);
}

/* Rows of one head, as the attention calls want them: [1, 1, rows, cols]. */
static inline fv_tensor *one_head(fv_ctx *ctx, fv_tensor *x)
{
    return fv_reshape(ctx, x, 4, (int64_t[]){1, 1, fv_tensor_size(x, 0), fv_tensor_size(x, 1)});
}

static inline void read_floats(fv_ctx *ctx, const fv_tensor *t, float *out)
{
    must(ctx, fv_tensor_read(ctx, t, out, (size_t)fv_tensor_count(t) * sizeof *out));
}

static inline bool colours_are_on(void)
{
    const char *none = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(none && none[0]);
}

/* Saves maps of one size side by side, if the program was given a file's name. */
static inline void save_panels(fv_ctx *ctx, const fv_look_heads *panels,
                               const fv_look_options *options, const char *path)
{
    if (!path) return;
    fv_look_format form;
    fv_picture *picture = NULL;
    must(ctx, fv_look_format_from_path(ctx, path, &form));
    must(ctx, fv_look_heads_draw(ctx, panels, form, options, &picture));
    must(ctx, fv_picture_save(picture, path));
    fv_picture_free(&picture);
}

/* Prints a map, and saves it if the program was given a file's name. */
static inline void show_map(fv_ctx *ctx, const fv_look_map *map, const fv_look_options *options,
                            const char *path)
{
    fv_picture *picture = NULL;
    must(ctx, fv_look_map_draw(ctx, map,
                               colours_are_on() ? FV_LOOK_FORMAT_TERMINAL : FV_LOOK_FORMAT_TEXT,
                               options, &picture));
    puts(fv_picture_data(picture, NULL));
    fv_picture_free(&picture);
    if (!path) return;
    fv_look_format form;
    must(ctx, fv_look_format_from_path(ctx, path, &form));
    must(ctx, fv_look_map_draw(ctx, map, form, options, &picture));
    must(ctx, fv_picture_save(picture, path));
    fv_picture_free(&picture);
}

#endif
