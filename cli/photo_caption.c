/*
 * Captions of pictures: 'fovea run' prints what a model writes for a picture, 'fovea look' shows
 * the picture once for every word, with the attention that it had when it wrote the word.
 */
#include <stdlib.h>

#include "fovea/translate.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"
#include "run.h"

enum { MAX_TOKENS = 200 }; /* fewer than FV_LOOK_MAX_PANELS */

/* ---- run ------------------------------------------------------------------------------------ */

static void print_json(const char *file, const fv_translation *t, int rank)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "text", t->text);
    cli_json_int(&j, "rank", rank + 1);
    cli_json_real(&j, "score", t->score);
    cli_json_real(&j, "log_prob", t->log_prob);
    cli_json_bool(&j, "ended", t->ended);
    cli_json_close(&j, '}');
}

void cli_print_descriptions(const cli_call *call, const char *file, const fv_translations *texts)
{
    const fv_translation *t;
    for (int n = 0; (t = fv_translations_get(texts, 0, n)); n++) {
        if (cli_flag(call, "json")) {
            print_json(file, t, n);
            continue;
        }
        if (cli_int(call, "nbest") > 1) printf("%d\t%.4f\t", n + 1, t->score);
        cli_safe_text(stdout, t->text);
        printf("\n");
    }
}

fv_status cli_describe(const cli_call *call, fv_model *model, const fv_batch *batch,
                       fv_translations **out)
{
    fv_search_config how;
    fv_search_config_init(&how, sizeof how);
    how.length_alpha = cli_float(call, "length-penalty");
    cli_read_search_options(call, &how);
    const int64_t most = cli_int(call, "tokens");
    return fv_describe(model, batch, most > 0 ? most : MAX_TOKENS, &how, out);
}

int cli_run_photo_caption(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    cli_photo photo;
    fv_translations *texts = NULL;
    fv_status status = cli_photo_open(call, model, file, &photo);
    if (status == FV_OK) status = cli_describe(call, model, &photo.batch, &texts);
    if (status == FV_OK) cli_print_descriptions(call, file, texts);
    fv_translations_free(&texts);
    cli_photo_close(&photo);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}

/* ---- look ----------------------------------------------------------------------------------- */

typedef struct film {
    const cli_call *call;
    fv_ctx *ctx;
    const char *file, *path;
    const cli_photo *photo;
    fv_site site;
    const fv_translation *text;
} film;

static fv_look_panel panel_of(const film *f, int64_t token)
{
    const fv_translation *t = f->text;
    return (fv_look_panel){.caption = t->target_tokens[token],
                           .rows = f->site.rows,
                           .cols = f->site.cols,
                           .weights = t->weights + token * t->source_count};
}

static void print_film(const film *f)
{
    const fv_translation *t = f->text;
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", f->file);
    cli_json_text(&j, "text", t->text);
    cli_json_int(&j, "rows", f->site.rows);
    cli_json_int(&j, "cols", f->site.cols);
    cli_json_open(&j, "panels", '[');
    for (int64_t i = 0; i < t->target_count; i++) {
        const fv_look_panel panel = panel_of(f, i);
        look_json_panel(&j, &panel);
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status draw_panels(const film *f, const fv_look_options *how, const fv_look_panel *panels,
                             int64_t count)
{
    const fv_look_overlay overlay = {.channels = f->photo->channels,
                                     .height = f->photo->height,
                                     .width = f->photo->width,
                                     .pixels = f->photo->pixels,
                                     .panels = panels,
                                     .panel_count = count,
                                     .title = look_title(f->call, f->text->text),
                                     .smooth = true};
    return look_show_overlay(f->ctx, f->path, &overlay, how);
}

/* The picture as it is, then a panel for each token. */
static fv_status draw_film(const film *f, const fv_look_options *how)
{
    const fv_translation *t = f->text;
    fv_look_panel *panels = calloc((size_t)t->target_count + 1, sizeof *panels);
    if (!panels) return fv_ctx_fail(f->ctx, FV_ERR_MEMORY, "out of memory");
    for (int64_t i = 0; i < t->target_count; i++)
        panels[i + 1] = panel_of(f, i);
    const fv_status status = draw_panels(f, how, panels, t->target_count + 1);
    free(panels);
    return status;
}

static fv_status show(film *f, fv_model *model, const fv_look_options *how)
{
    fv_translations *texts = NULL;
    fv_search_config search;
    fv_search_config_init(&search, sizeof search);
    search.want_weights = true;
    if (cli_given(f->call, "beam")) search.beam = (int)cli_int(f->call, "beam");
    fv_status status = fv_describe(model, &f->photo->batch, MAX_TOKENS, &search, &texts);
    if (status != FV_OK) return status;
    f->text = fv_translations_get(texts, 0, 0);
    const long long cells = f->site.rows * f->site.cols;
    if (f->text->source_count != cells)
        status = fv_ctx_fail(f->ctx, FV_ERR_STATE, "attention has %lld positions, expected %lld",
                             (long long)f->text->source_count, cells);
    if (status == FV_OK && cli_flag(f->call, "json")) print_film(f);
    if (status == FV_OK && (f->path || !cli_flag(f->call, "json"))) status = draw_film(f, how);
    fv_translations_free(&texts);
    return status;
}

/* True if the model attends to a grid; else the error is printed. */
static bool find_site(const fv_model *model, fv_site *site)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    if (kind->attention_sites && kind->attention_sites(fv_model_self(model), site, 1) > 0 &&
        site->rows > 0 && site->cols > 0)
        return true;
    cli_error("look: this %s model has no attention over a grid", fv_model_type(model));
    return false;
}

int cli_look_photo_caption(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                           const char *path)
{
    static const char *const useless[] = {"pixel", "layer", "head"};
    cli_photo photo;
    fv_look_options how;
    film f = {.call = call, .ctx = ctx, .file = file, .path = path, .photo = &photo};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++)
        if (cli_given(call, useless[i])) {
            cli_error("look: --%s is for models that classify pictures", useless[i]);
            return CLI_USAGE;
        }
    if (!cli_look_media_options(call, path) || !look_picture_options(call, &how) ||
        !find_site(model, &f.site))
        return CLI_USAGE;
    fv_status status = cli_photo_open(call, model, file, &photo);
    if (status == FV_OK) status = show(&f, model, &how);
    cli_photo_close(&photo);
    if (status != FV_OK) return cli_library_error("look", ctx, status);
    if (path) cli_note("wrote %s", path);
    return CLI_DONE;
}
