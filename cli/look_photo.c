/*
 * fovea look MODEL photo.png: the attention of one query over a picture. The first panel is the
 * picture with its class; the others are the attention of each layer, or of each head with --layer.
 * The query is --pixel, or a class token, or else the cell that gets the most attention.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "drawing.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"

enum { MAX_SITES = 128, MAX_SHOWN = 64, CAPTION = 96 };

typedef struct photo_look {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    const char *file, *path;
    cli_photo photo;
    const fv_batch *batch; /* that the model runs over */
    cli_class best;
    bool is_drawn; /* by the model itself; `best` has the class that was asked for */
    fv_site sites[MAX_SITES];
    int site_count, first_site, end_site; /* those that are shown */
    int64_t head;                         /* -1: all */
    int64_t query;                        /* -1: to be found */
    bool finding;
    int64_t cells; /* of the grid */
    fv_look_panel panels[MAX_SHOWN + 1];
    char captions[MAX_SHOWN + 1][CAPTION];
    float *weights[MAX_SHOWN + 1];
    int64_t panel_count;
} photo_look;

/* ---- choices -------------------------------------------------------------------------------- */

/* "X,Y" in pixels of the picture, as the cell that covers it. */
static bool read_pixel(photo_look *w)
{
    const char *text = cli_text(w->call, "pixel");
    const fv_site *site = &w->sites[w->first_site];
    long long x = 0, y = 0;
    char more = 0;
    w->query = -1;
    if (!text) return true;
    if (sscanf(text, "%lld,%lld%c", &x, &y, &more) != 2 || x < 0 || y < 0 || x >= w->photo.width ||
        y >= w->photo.height) {
        cli_error("look: --pixel %s: expected X,Y within the picture's %lld x %lld pixels, counted "
                  "from 0",
                  text, (long long)w->photo.width, (long long)w->photo.height);
        return false;
    }
    w->query = site->before + y * site->rows / w->photo.height * site->cols +
               x * site->cols / w->photo.width;
    return true;
}

static bool choose_sites(photo_look *w)
{
    const fv_model_kind *kind = fv_model_kind_of(w->model);
    w->site_count = kind->attention_sites
                        ? kind->attention_sites(fv_model_self(w->model), w->sites, MAX_SITES)
                        : 0;
    if (w->site_count < 1 || w->sites[0].rows < 1 || w->sites[0].cols < 1) {
        cli_error("look: this %s model has no attention over a grid", fv_model_type(w->model));
        return false;
    }
    if (w->site_count > MAX_SITES) w->site_count = MAX_SITES;
    const int64_t layer = cli_given(w->call, "layer") ? cli_int(w->call, "layer") : -1;
    w->head = cli_given(w->call, "head") ? cli_int(w->call, "head") : -1;
    if (layer >= w->site_count || w->head >= w->sites[0].heads) {
        cli_error("look: expected a layer from 0 to %d and a head from 0 to %lld",
                  w->site_count - 1, (long long)w->sites[0].heads - 1);
        return false;
    }
    w->first_site = layer < 0 ? 0 : (int)layer;
    w->end_site = layer < 0 ? w->site_count : (int)layer + 1;
    if (w->end_site - w->first_site > MAX_SHOWN) w->first_site = w->end_site - MAX_SHOWN;
    w->cells = w->sites[0].rows * w->sites[0].cols;
    return true;
}

/* ---- capture -------------------------------------------------------------------------------- */

/* The weights of one query, [1, heads, 1, keys]. */
static fv_tensor *row_of(fv_ctx *ctx, const fv_attention_captured *c, int64_t query)
{
    if (c->weights) return fv_slice(ctx, c->weights, 2, query, query + 1, 1);
    const fv_attention_region region = {.heads = c->heads, .row = query, .rows = 1, .cols = c->n_k};
    return fv_attention_weights(ctx, &c->saved, &region);
}

/* What every cell gets from all queries, [1, heads, keys], as its mean over the heads. */
static fv_status find_query(photo_look *w, const fv_attention_captured *c, int64_t before)
{
    fv_ctx *ctx = w->ctx;
    fv_tensor *got =
        c->weights ? fv_sum(ctx, c->weights, 1, (int[]){2}, false) : c->summary.received;
    got = fv_slice(ctx, fv_mean(ctx, got, 1, (int[]){1}, false), 1, before, c->n_k, 1);
    double best = 0;
    const fv_status status =
        fv_tensor_item(ctx, fv_cast(ctx, fv_argmax(ctx, got, -1, false), FV_F32), &best);
    w->query = before + (int64_t)best;
    return status;
}

static bool add_panel(photo_look *w, const fv_site *site, const char *caption, float *values)
{
    const int64_t i = w->panel_count++;
    float *copy = malloc((size_t)w->cells * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, values, (size_t)w->cells * sizeof *copy);
    w->weights[i] = copy;
    cli_format(w->captions[i], CAPTION, "%s", caption);
    w->panels[i] = (fv_look_panel){
        .caption = w->captions[i], .rows = site->rows, .cols = site->cols, .weights = copy};
    return true;
}

/* The rows of all heads, or their mean, as panels. */
static fv_status take_rows(photo_look *w, const fv_site *site, const fv_attention_captured *c)
{
    fv_ctx *ctx = w->ctx;
    char caption[CAPTION];
    const bool one_layer = w->end_site - w->first_site == 1, by_head = one_layer && w->head < 0;
    fv_tensor *row = row_of(ctx, c, w->query);
    if (w->head >= 0)
        row = fv_slice(ctx, row, 1, w->head, w->head + 1, 1);
    else if (!by_head)
        row = fv_mean(ctx, row, 1, (int[]){1}, true);
    row = fv_slice(ctx, row, 3, site->before, c->n_k, 1);
    const int64_t maps = fv_tensor_size(row, 1);
    if (fv_ctx_error(ctx) != FV_OK) return fv_ctx_error(ctx);
    float *values = malloc((size_t)(maps * w->cells) * sizeof *values);
    if (!values) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    fv_status status = fv_tensor_read(ctx, row, values, (size_t)(maps * w->cells) * sizeof *values);
    for (int64_t i = 0; status == FV_OK && i < maps && w->panel_count <= MAX_SHOWN; i++) {
        if (by_head && maps > 1)
            cli_format(caption, sizeof caption, "head %lld", (long long)i);
        else if (w->is_drawn) /* "generator.0.self" */
            cli_format(caption, sizeof caption, "%.*s", (int)strcspn(site->name, "."), site->name);
        else if (w->site_count > 1)
            cli_format(caption, sizeof caption, "layer %d", (int)(site - w->sites));
        else
            cli_format(caption, sizeof caption, "attention");
        if (!add_panel(w, site, caption, values + i * w->cells))
            status = fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    }
    free(values);
    return status;
}

static fv_status on_weights(void *user, fv_ctx *ctx, const fv_site_weights *weights)
{
    photo_look *w = user;
    (void)ctx;
    int i = 0;
    while (i < w->site_count && strcmp(w->sites[i].name, weights->name) != 0)
        i++;
    if (i < w->first_site || i >= w->end_site) return FV_OK;
    const fv_site *site = &w->sites[i];
    const fv_attention_captured *c = &weights->captured;
    if (c->n_k != w->cells + site->before)
        return fv_ctx_fail(w->ctx, FV_ERR_STATE, "%s has %lld keys, not a grid of %lld cells",
                           site->name, (long long)c->n_k, (long long)w->cells);
    if (w->finding) return i + 1 == w->end_site ? find_query(w, c, site->before) : FV_OK;
    return take_rows(w, site, c);
}

static fv_status capture(photo_look *w, bool finding)
{
    w->finding = finding;
    const fv_capture how = {
        .options = {.saved = true, .summary = finding}, .on_weights = on_weights, .user = w};
    fv_scope_begin(w->ctx);
    fv_no_grad_begin(w->ctx);
    const fv_status status =
        fv_model_capture_attention(w->model, w->batch, &(fv_pass){.capture = &how});
    fv_no_grad_end(w->ctx);
    fv_scope_end(w->ctx);
    return status;
}

/* ---- showing -------------------------------------------------------------------------------- */

static void mark_query(photo_look *w)
{
    const fv_site *site = &w->sites[w->first_site];
    const int64_t cell = w->query - site->before;
    if (cell < 0) return; /* a class token */
    const double wide = (double)w->photo.width / (double)site->cols,
                 high = (double)w->photo.height / (double)site->rows,
                 x = (double)(cell % site->cols) * wide, y = (double)(cell / site->cols) * high;
    for (int64_t i = 0; i < w->panel_count; i++) {
        double *mark = w->panels[i].mark;
        mark[0] = x;
        mark[1] = y;
        mark[2] = fmin(x + wide, (double)w->photo.width);
        mark[3] = fmin(y + high, (double)w->photo.height);
    }
}

static void print_json(const photo_look *w)
{
    const fv_site *site = &w->sites[w->first_site];
    const int64_t cell = w->query - site->before;
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", w->file);
    cli_json_text(&j, "label", w->best.label);
    if (!w->is_drawn) cli_json_real(&j, "p", w->best.p);
    cli_json_int(&j, "rows", site->rows);
    cli_json_int(&j, "cols", site->cols);
    if (cell >= 0) {
        cli_json_int(&j, "query_row", cell / site->cols);
        cli_json_int(&j, "query_col", cell % site->cols);
    }
    cli_json_open(&j, "panels", '[');
    for (int64_t i = 1; i < w->panel_count; i++)
        look_json_panel(&j, &w->panels[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status draw(photo_look *w, const fv_look_options *how)
{
    const fv_look_overlay overlay = {.channels = w->photo.channels,
                                     .height = w->photo.height,
                                     .width = w->photo.width,
                                     .pixels = w->photo.pixels,
                                     .panels = w->panels,
                                     .panel_count = w->panel_count,
                                     .title = look_title(w->call, NULL),
                                     .panel_width = w->panel_count <= 3 ? 280 : 0,
                                     .smooth = true};
    return look_show_overlay(w->ctx, w->path, &overlay, how);
}

static fv_status show(photo_look *w, const fv_look_options *how)
{
    fv_status status = FV_OK;
    w->panels[0] = (fv_look_panel){.caption = w->captions[0]};
    w->panel_count = 1;
    const fv_site *site = &w->sites[w->first_site];
    if (w->query < 0 && site->before > 0) w->query = 0;
    if (w->query < 0) status = capture(w, true);
    if (status == FV_OK) status = capture(w, false);
    if (status != FV_OK) return status;
    mark_query(w);
    if (cli_flag(w->call, "json")) print_json(w);
    return cli_flag(w->call, "json") && !w->path ? FV_OK : draw(w, how);
}

/* The class of the picture, as the caption of its panel. */
static fv_status classify(photo_look *w)
{
    fv_status status = FV_OK;
    if (cli_classify(w->model, w->batch, &w->best, 1, &status) < 1) return status;
    cli_format(w->captions[0], CAPTION, "%.60s, %.3f", w->best.label, w->best.p);
    return status;
}

/* True if the options are those of pictures; else the error is printed. */
static bool check_options(const photo_look *w)
{
    if (!cli_given(w->call, "beam")) return cli_look_media_options(w->call, w->path);
    cli_error("look: --beam is for models that write texts");
    return false;
}

/* Shows what was read, unless that failed; returns the exit code. */
static int finish(photo_look *w, fv_status status, const fv_look_options *how)
{
    int code = CLI_DONE;
    if (status == FV_OK && !read_pixel(w)) code = CLI_USAGE;
    if (status == FV_OK && !code) status = show(w, how);
    if (status != FV_OK) code = cli_library_error("look", w->ctx, status);
    if (!code && w->path) cli_note("wrote %s", w->path);
    for (int64_t i = 0; i < w->panel_count; i++)
        free(w->weights[i]);
    return code;
}

int cli_look_photo_classes(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                           const char *path)
{
    static photo_look w;
    fv_look_options how;
    w = (photo_look){.call = call,
                     .ctx = ctx,
                     .model = model,
                     .file = file,
                     .path = path,
                     .batch = &w.photo.batch};
    if (!check_options(&w)) return CLI_USAGE;
    if (!look_picture_options(call, &how) || !choose_sites(&w)) return CLI_USAGE;
    fv_status status = cli_photo_open(call, model, file, &w.photo);
    if (status == FV_OK) status = classify(&w);
    const int code = finish(&w, status, &how);
    cli_photo_close(&w.photo);
    return code;
}

/* ---- pictures that the model draws ---------------------------------------------------------- */

/* One picture, of the class that comes first. */
static fv_status draw_sample(photo_look *w, const int64_t *classes, cli_samples *s)
{
    fv_status status = cli_samples_create(w->model, 1, s);
    if (status == FV_OK)
        status = cli_samples_noise(w->model, cli_int(w->call, "seed"), 1, s->noise);
    if (status != FV_OK) return status;
    if (s->label) {
        s->label[0] = classes[0];
        w->best.label = fv_model_spec(w->model)->labels[classes[0]];
        cli_format(w->captions[0], CAPTION, "%.60s", w->best.label);
    }
    status = cli_samples_draw(w->model, s);
    w->photo.channels = s->channels;
    w->photo.height = s->height;
    w->photo.width = s->width;
    w->photo.pixels = s->pixels;
    w->batch = &s->batch;
    return status;
}

int cli_look_drawing(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *path)
{
    static photo_look w;
    static int64_t classes[CLI_CLASSES];
    fv_look_options how;
    cli_samples samples = {0};
    w = (photo_look){.call = call, .ctx = ctx, .model = model, .path = path, .is_drawn = true};
    if (call->word_count > 1 || cli_given(call, "prompt") || cli_given(call, "file") ||
        cli_given(call, "ids") || cli_flag(call, "invert")) {
        cli_error("look: a %s model draws its own picture; expected no file and no text",
                  fv_model_type(model));
        return CLI_USAGE;
    }
    if (!check_options(&w) || cli_read_classes(call, model, classes) < 0) return CLI_USAGE;
    if (!look_picture_options(call, &how) || !choose_sites(&w)) return CLI_USAGE;
    const int code = finish(&w, draw_sample(&w, classes, &samples), &how);
    cli_samples_free(&samples);
    return code;
}
