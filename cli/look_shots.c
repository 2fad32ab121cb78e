/*
 * fovea look at a model that learns from episodes: how strongly the query looked at each example.
 * The panels are the query and the examples, each as bright as its weight in one attention block;
 * the terminal also shows the weights of all blocks as a map.
 */
#include <stdlib.h>
#include <string.h>

#include "heatmap.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "shots.h"

enum { MOST_SITES = 16, CAPTION = 48 };

/* What the query saw in each attention block. */
typedef struct seen {
    int count;
    int64_t steps; /* examples and the query */
    float weights[MOST_SITES][FV_SHOTS_MOST];
} seen;

/* An fv_capture.on_weights: the last row of [1, 1, steps, steps]. */
static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    seen *s = user;
    const fv_tensor *w = site->captured.weights;
    const int64_t steps = fv_tensor_size(w, 3), all = fv_tensor_count(w);
    if (s->count == MOST_SITES) return FV_OK;
    float *values = malloc((size_t)all * sizeof *values);
    if (!values) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    const fv_status status = fv_tensor_read(ctx, w, values, (size_t)all * sizeof *values);
    memcpy(s->weights[s->count++], values + (all - steps), (size_t)steps * sizeof *values);
    s->steps = steps;
    free(values);
    return status;
}

/* ---- pictures ------------------------------------------------------------------------------- */

/* The panels of one episode; the query comes first. */
typedef struct film {
    fv_look_panel panel[FV_LOOK_MAX_PANELS];
    char caption[FV_LOOK_MAX_PANELS][CAPTION];
    int64_t count;
} film;

static void fill_film(const cli_shots *s, const float *weights, film *out)
{
    const fv_shots_episode *e = &s->episode;
    const int64_t pixels = (int64_t)FV_SHOTS_SIDE * FV_SHOTS_SIDE;
    out->count = e->examples + 1 < FV_LOOK_MAX_PANELS ? e->examples + 1 : FV_LOOK_MAX_PANELS;
    for (int64_t i = 0; i < out->count; i++) {
        const int64_t at = i == 0 ? e->examples : i - 1;
        out->panel[i] = (fv_look_panel){.caption = out->caption[i],
                                        .rows = 1,
                                        .cols = 1,
                                        .weights = i == 0 ? NULL : weights + at,
                                        .pixels = e->pixels + at * pixels};
        if (i == 0)
            cli_format(out->caption[i], CAPTION, "query: %.0f %%", 100 * (double)weights[at]);
        else
            cli_format(out->caption[i], CAPTION, "class %lld: %.0f %%", (long long)e->labels[at],
                       100 * (double)weights[at]);
    }
}

static fv_status draw_film(const cli_call *call, fv_ctx *ctx, const cli_shots *s,
                           const float *weights, const char *path)
{
    char title[160];
    fv_look_options how;
    if (!look_picture_options(call, &how)) return FV_ERR_ARGUMENT;
    if (how.low == how.high) {
        how.low = 0;
        how.high = 1;
    }
    film *p = calloc(1, sizeof *p);
    if (!p) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    fill_film(s, weights, p);
    cli_format(title, sizeof title, "episode %lld: class %lld with %.0f %%, %s",
               (long long)s->number, (long long)s->answer, 100 * (double)s->probability[s->answer],
               s->answer == s->label ? "right" : "wrong");
    const fv_look_overlay overlay = {.channels = 1,
                                     .height = FV_SHOTS_SIDE,
                                     .width = FV_SHOTS_SIDE,
                                     .pixels = s->episode.pixels,
                                     .panels = p->panel,
                                     .panel_count = p->count,
                                     .title = look_title(call, title)};
    const fv_status status = look_show_overlay(ctx, path, &overlay, &how);
    free(p);
    return status;
}

/* All blocks as rows, the examples and the query as columns. */
static fv_status print_map(const cli_call *call, fv_ctx *ctx, const cli_shots *s, const seen *w)
{
    fv_look_options how;
    float *values = calloc((size_t)(w->count * w->steps), sizeof *values);
    char(*labels)[CAPTION] = calloc((size_t)(w->count + w->steps), sizeof *labels);
    const char **names = calloc((size_t)(w->count + w->steps), sizeof *names);
    fv_status status = values && labels && names && look_picture_options(call, &how)
                           ? FV_OK
                           : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    for (int64_t i = 0; i < w->count + w->steps && status == FV_OK; i++) {
        const int64_t at = i - w->count;
        names[i] = labels[i];
        if (at < 0)
            cli_format(labels[i], CAPTION, "attention %lld", (long long)i);
        else if (at < s->episode.examples)
            cli_format(labels[i], CAPTION, "%lld", (long long)s->episode.labels[at]);
        else
            cli_format(labels[i], CAPTION, "?");
        if (at < 0) memcpy(values + i * w->steps, w->weights[i], (size_t)w->steps * sizeof *values);
    }
    if (status == FV_OK)
        status = cli_heatmap_print(ctx, stdout,
                                   &(fv_look_map){.rows = w->count,
                                                  .cols = w->steps,
                                                  .values = values,
                                                  .row_labels = names,
                                                  .col_labels = names + w->count,
                                                  .title = "where the query looked"},
                                   &how);
    free(values);
    free(labels);
    free((void *)names);
    return status;
}

/* ---- the verb ------------------------------------------------------------------------------- */

static void print_json(const cli_shots *s, const seen *w)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_shots_json(&j, s);
    cli_json_open(&j, "weights", '[');
    for (int i = 0; i < w->count; i++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t k = 0; k < w->steps; k++)
            cli_json_exact(&j, NULL, (double)w->weights[i][k]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static int show(const cli_call *call, fv_ctx *ctx, const cli_shots *s, const seen *w,
                const char *path)
{
    const int64_t layer = cli_given(call, "layer") ? cli_int(call, "layer") : w->count - 1;
    fv_status status = FV_OK;
    if (w->count == 0) {
        cli_error("look: the model has no attention: it was trained with few-shot.stages without "
                  "any");
        return CLI_USAGE;
    }
    if (layer >= w->count) {
        cli_error("look: --layer %lld: the model has %d, counted from 0", (long long)layer,
                  w->count);
        return CLI_USAGE;
    }
    if (cli_flag(call, "json")) print_json(s, w);
    if (path || !cli_flag(call, "json")) status = draw_film(call, ctx, s, w->weights[layer], path);
    if (status == FV_OK && !path && !cli_flag(call, "json")) status = print_map(call, ctx, s, w);
    if (status == FV_OK && path) cli_note("wrote %s", path);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}

int cli_look_shots(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path)
{
    fv_look_options how;
    cli_shots s;
    static const char *const other[] = {"head", "pixel", "invert"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (!cli_given(call, other[i])) continue;
        cli_error("look: --%s does not apply to a %s model", other[i], fv_model_type(model));
        return CLI_USAGE;
    }
    if (!cli_look_media_options(call, path) || !look_picture_options(call, &how)) return CLI_USAGE;
    seen *w = calloc(1, sizeof *w);
    if (!w) {
        cli_error("look: out of memory");
        return CLI_FAILED;
    }
    const fv_capture capture = {.options = {.weights = true}, .on_weights = take, .user = w};
    int code = cli_shots_run(call, ctx, model, text, &capture, &s);
    if (!code) code = show(call, ctx, &s, w, path);
    cli_shots_free(ctx, &s);
    free(w);
    return code;
}
