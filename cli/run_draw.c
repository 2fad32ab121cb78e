/*
 * fovea run MODEL -o grid.png: pictures that a model generates, as a grid. A row is a class, a
 * column one vector of noise, so that --class and --count leave the other pictures as they are.
 * With --interpolate a row leads from one vector to another.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drawing.h"
#include "fovea/look.h"
#include "heatmap.h"
#include "input.h"
#include "output.h"
#include "run.h"

enum { GAP = 2, MOST = 4096, WIDEST = 720 };

/* What the grid shows. */
typedef struct grid {
    int64_t classes[CLI_CLASSES], class_count; /* 0: the model has none */
    int64_t count;                             /* pictures of each class, or in all */
    int64_t across, rows;
    bool interpolate;
} grid;

/* ---- layout --------------------------------------------------------------------------------- */

/* Columns for n pictures without an order of their own: about a square, full where possible. */
static int64_t square_across(int64_t n)
{
    const int64_t side = (int64_t)ceil(sqrt((double)n));
    for (int64_t a = side; a <= 2 * side && a <= n; a++)
        if (n % a == 0) return a;
    return side;
}

static bool plan_grid(const cli_call *call, const fv_model *model, grid *g)
{
    const bool file = cli_text(call, "output") != NULL;
    enum { ROW = 10, ALL = 64, FEW = 12, WALKS = 8 };
    *g = (grid){.interpolate = cli_flag(call, "interpolate")};
    g->class_count = cli_read_classes(call, model, g->classes);
    if (g->class_count < 0) return false;
    const int64_t usual = g->interpolate || g->class_count > 0 ? ROW : file ? ALL : FEW;
    const bool one_each = !file && !g->interpolate && g->class_count > 1;
    g->count = cli_given(call, "count") ? cli_int(call, "count") : one_each ? 1 : usual;
    if (g->interpolate && g->count < 2) {
        cli_error("run: --count %lld: expected 2 or more with --interpolate", (long long)g->count);
        return false;
    }
    const int64_t rows = g->class_count > 0 ? g->class_count : g->interpolate ? WALKS : 1;
    if (rows * g->count > MOST) {
        cli_error("run: --count %lld: expected at most %d pictures in all", (long long)g->count,
                  MOST);
        return false;
    }
    const bool plain = rows == 1 || g->count == 1;
    g->across = plain && !g->interpolate ? square_across(rows * g->count) : g->count;
    g->rows = (rows * g->count + g->across - 1) / g->across;
    return true;
}

static int64_t pictures(const grid *g)
{
    const int64_t walks = g->interpolate ? g->rows : 1;
    return g->count * (g->class_count > 0 ? g->class_count : walks);
}

/* ---- noise ---------------------------------------------------------------------------------- */

/* From a to b on the sphere: a point between two normal vectors is as long as they are. */
static void between(const float *a, const float *b, int64_t n, double t, float *out)
{
    double aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
        ab += (double)a[i] * (double)b[i];
    }
    const double angle = acos(fmax(-1, fmin(1, ab / sqrt(aa * bb)))), s = sin(angle);
    const double p = s > 1e-6 ? sin((1 - t) * angle) / s : 1 - t,
                 q = s > 1e-6 ? sin(t * angle) / s : t;
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(p * (double)a[i] + q * (double)b[i]);
}

/* Classes share their noise; without classes every row of an interpolation has its own ends. */
static fv_status fill(const cli_call *call, fv_model *model, const grid *g, cli_samples *s)
{
    const int64_t width = s->noise_width, walks = g->class_count > 0 ? 1 : g->rows,
                  vectors = g->interpolate ? 2 * walks : g->count;
    float *noise = malloc((size_t)(vectors * width) * sizeof *noise);
    if (!noise) return fv_ctx_fail(fv_model_ctx(model), FV_ERR_MEMORY, "out of memory");
    const fv_status status = cli_samples_noise(model, cli_int(call, "seed"), vectors, noise);
    for (int64_t i = 0; status == FV_OK && i < s->count; i++) {
        const int64_t row = i / g->count, column = i % g->count;
        const float *from = noise + (g->interpolate ? 2 * (row % walks) : column) * width;
        float *to = s->noise + i * width;
        if (g->interpolate)
            between(from, from + width, width, (double)column / (double)(g->count - 1), to);
        else
            memcpy(to, from, (size_t)width * sizeof *to);
        if (s->label) s->label[i] = g->classes[row];
    }
    free(noise);
    return status;
}

/* ---- the picture ---------------------------------------------------------------------------- */

/* All samples side by side on white. */
static float *compose(const grid *g, const cli_samples *s, int64_t *height, int64_t *width)
{
    const int64_t w = s->width + GAP, h = s->height + GAP, plane = s->height * s->width;
    *width = g->across * w - GAP;
    *height = g->rows * h - GAP;
    float *out = malloc((size_t)(s->channels * *height * *width) * sizeof *out);
    for (int64_t i = 0; out && i < s->channels * *height * *width; i++)
        out[i] = 1;
    for (int64_t i = 0; out && i < s->count * s->channels * s->height; i++) {
        const int64_t y = i % s->height, c = i / s->height % s->channels,
                      n = i / s->height / s->channels;
        float *to = out + (c * *height + n / g->across * h + y) * *width + n % g->across * w;
        memcpy(to, s->pixels + (n * s->channels + c) * plane + y * s->width,
               (size_t)s->width * sizeof *to);
    }
    return out;
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const grid *g, const cli_samples *s)
{
    const char *path = cli_text(call, "output");
    int64_t height = 0, width = 0;
    float *pixels = compose(g, s, &height, &width);
    if (!pixels) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    const fv_look_panel panel = {.caption = NULL};
    const fv_look_overlay overlay = {.channels = s->channels,
                                     .height = height,
                                     .width = width,
                                     .pixels = pixels,
                                     .panels = &panel,
                                     .panel_count = 1,
                                     .panel_width =
                                         (int)(width * (width < WIDEST ? WIDEST / width : 1))};
    fv_status status;
    fv_look_format form;
    fv_picture *picture = NULL;
    if (path) {
        status = fv_look_format_from_path(ctx, path, &form);
        if (status == FV_OK) status = fv_look_overlay_draw(ctx, &overlay, form, NULL, &picture);
        if (status == FV_OK) status = fv_picture_save(picture, path);
        fv_picture_free(&picture);
    } else {
        status = cli_overlay_print(ctx, stdout, &overlay, NULL);
    }
    free(pixels);
    return status;
}

int cli_run_draw(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    const char *path = cli_text(call, "output");
    fv_look_format form;
    grid g;
    if (call->word_count > 1 || cli_given(call, "prompt") || cli_given(call, "file")) {
        cli_error("run: a %s model draws pictures of noise; expected no text",
                  fv_model_type(*model));
        return CLI_USAGE;
    }
    if (path && fv_look_format_from_path(ctx, path, &form) != FV_OK) {
        cli_error("run: -o %s: expected a name that ends with .png, .svg, .pdf, .html or .txt",
                  path);
        return CLI_USAGE;
    }
    if (!plan_grid(call, *model, &g)) return CLI_USAGE;
    cli_samples s;
    fv_status status = cli_samples_create(*model, pictures(&g), &s);
    if (status == FV_OK) status = fill(call, *model, &g, &s);
    if (status == FV_OK) status = cli_samples_draw(*model, &s);
    if (status == FV_OK) status = show(call, ctx, &g, &s);
    cli_samples_free(&s);
    if (status != FV_OK) return cli_library_error("run", ctx, status);
    if (path) cli_note("wrote %s", path);
    return CLI_DONE;
}
