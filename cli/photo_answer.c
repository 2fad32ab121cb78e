/*
 * Questions about pictures: 'fovea run' prints the answer, 'fovea look' shows the picture with the
 * answer, then with the attention of each word of the question, and of each hop, map or layer.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/encode.h"
#include "fovea/ops.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"

enum { MAX_SITES = 32, MAX_PANELS = 128, CAPTION = 96 };

/* A picture and the question about it, as one row. */
typedef struct asked {
    cli_photo photo;
    fv_question_words words;
    const void *row;
} asked;

static void note_unknown(const cli_call *call, const fv_question_words *words)
{
    for (int64_t i = 0; i < words->count; i++)
        if (!words->is_known[i])
            cli_note("%s: no training question has the word '%s'", call->verb->name,
                     words->word[i]);
}

/* To be closed with cli_photo_close even on failure. */
static fv_status open_asked(const cli_call *call, fv_model *model, const char *file, asked *a)
{
    fv_status status = cli_photo_open(call, model, file, &a->photo);
    if (status == FV_OK) status = fv_question_read(model, cli_text(call, "ask"), &a->words);
    if (status != FV_OK) return status;
    note_unknown(call, &a->words);
    a->row = a->words.id;
    fv_batch_add(
        &a->photo.batch,
        (fv_field){.name = "question", .dtype = FV_I64, .row = &a->row, .length = &a->words.count});
    return FV_OK;
}

/* A question that cannot be read is a wrong argument, not a failure. */
static int exit_code(const cli_call *call, fv_ctx *ctx, fv_status status)
{
    if (status == FV_OK) return CLI_DONE;
    const int code = cli_library_error(call->verb->name, ctx, status);
    return status == FV_ERR_ARGUMENT || status == FV_ERR_LIMIT ? CLI_USAGE : code;
}

/* ---- run ------------------------------------------------------------------------------------ */

static void print_json(const cli_call *call, const char *file, const cli_class *list, int64_t count)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "question", cli_text(call, "ask"));
    cli_json_text(&j, "answer", list[0].label);
    cli_json_real(&j, "p", list[0].p);
    cli_json_open(&j, "answers", '[');
    for (int64_t i = 0; i < count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "answer", list[i].label);
        cli_json_real(&j, "p", list[i].p);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status print_answers(const cli_call *call, fv_model *model, const char *file,
                               const fv_batch *batch)
{
    enum { SHOWN_JSON = 3, MOST = 100 };
    cli_class list[MOST];
    fv_status status = FV_OK;
    const bool json = cli_flag(call, "json");
    int64_t shown = json ? SHOWN_JSON : 1;
    if (cli_given(call, "top-k")) shown = cli_int(call, "top-k");
    if (shown < 1 || shown > MOST) shown = MOST;
    const int64_t count = cli_classify(model, batch, list, shown, &status);
    if (count > 0 && json) print_json(call, file, list, count);
    for (int64_t i = 0; i < count && !json; i++) {
        cli_safe_text(stdout, list[i].label);
        printf("\t%.4f\t", list[i].p);
        cli_safe_text(stdout, file);
        printf("\n");
    }
    return status;
}

int cli_run_photo_answer(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file)
{
    asked a;
    fv_status status = open_asked(call, model, file, &a);
    if (status == FV_OK) status = print_answers(call, model, file, &a.photo.batch);
    cli_photo_close(&a.photo);
    return exit_code(call, ctx, status);
}

/* ---- look: weights -------------------------------------------------------------------------- */

typedef struct answer_look {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    const char *file, *path;
    asked asked;
    cli_class best;
    fv_site sites[MAX_SITES];
    int site_count;
    fv_look_panel panels[MAX_PANELS];
    char captions[MAX_PANELS][CAPTION];
    float *weights[MAX_PANELS];
    int64_t panel_count;
} answer_look;

/* "hop.0" as "hop 0", "encoder.1.self" as "layer 1"; of a site of words, the word. */
static void name_panel(const answer_look *w, const fv_site *site, int64_t query, char out[CAPTION])
{
    const char *dot = strchr(site->name, '.');
    const int kind = dot ? (int)(dot - site->name) : 0;
    if (cli_ends_with(site->name, ".words") && query < w->asked.words.count)
        cli_format(out, CAPTION, "%s", w->asked.words.word[query]);
    else if (dot && strncmp(site->name, "encoder", 7) == 0)
        cli_format(out, CAPTION, "layer %.*s", (int)strcspn(dot + 1, "."), dot + 1);
    else
        cli_format(out, CAPTION, "%.*s %s", kind, site->name, dot ? dot + 1 : site->name);
}

static fv_status add_panel(answer_look *w, const fv_site *site, int64_t query, fv_tensor *row)
{
    const int64_t i = w->panel_count;
    const size_t bytes = (size_t)(site->rows * site->cols) * sizeof(float);
    if (i == MAX_PANELS) return FV_OK;
    float *values = malloc(bytes);
    if (!values) return fv_ctx_fail(w->ctx, FV_ERR_MEMORY, "out of memory");
    w->weights[i] = values;
    name_panel(w, site, query, w->captions[i]);
    w->panels[i] = (fv_look_panel){
        .caption = w->captions[i], .rows = site->rows, .cols = site->cols, .weights = values};
    w->panel_count++;
    return fv_tensor_read(w->ctx, row, values, bytes);
}

/* The weights of one query over the cells, the mean over heads. */
static fv_tensor *row_of(const answer_look *w, const fv_site *site, const fv_attention_captured *c,
                         int64_t query)
{
    fv_ctx *ctx = w->ctx;
    const fv_attention_region region = {.heads = c->heads, .row = query, .rows = 1, .cols = c->n_k};
    fv_tensor *row = c->weights ? fv_slice(ctx, c->weights, 2, query, query + 1, 1)
                                : fv_attention_weights(ctx, &c->saved, &region);
    row = fv_mean(ctx, row, 1, (int[]){1}, true);
    return fv_slice(ctx, row, 3, site->before, c->n_k, 1);
}

static fv_status on_weights(void *user, fv_ctx *ctx, const fv_site_weights *weights)
{
    answer_look *w = user;
    const fv_attention_captured *c = &weights->captured;
    int i = 0;
    while (i < w->site_count && strcmp(w->sites[i].name, weights->name) != 0)
        i++;
    if (i == w->site_count) return FV_OK;
    const fv_site *site = &w->sites[i];
    if (c->n_k != site->rows * site->cols + site->before)
        return fv_ctx_fail(ctx, FV_ERR_STATE, "%s has %lld keys, not a grid of %lld x %lld cells",
                           site->name, (long long)c->n_k, (long long)site->rows,
                           (long long)site->cols);
    const int64_t queries = site->before > 0 ? 1 : c->n_q; /* the question is before the cells */
    for (int64_t q = 0; q < queries; q++) {
        const fv_status status = add_panel(w, site, q, row_of(w, site, c, q));
        if (status != FV_OK) return status;
    }
    return FV_OK;
}

/* ---- look: showing -------------------------------------------------------------------------- */

static void print_look(const answer_look *w)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", w->file);
    cli_json_text(&j, "question", cli_text(w->call, "ask"));
    cli_json_text(&j, "answer", w->best.label);
    cli_json_real(&j, "p", w->best.p);
    cli_json_int(&j, "rows", w->sites[0].rows);
    cli_json_int(&j, "cols", w->sites[0].cols);
    cli_json_open(&j, "panels", '[');
    for (int64_t i = 1; i < w->panel_count; i++)
        look_json_panel(&j, &w->panels[i]);
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status show(answer_look *w, const fv_look_options *how)
{
    fv_status status = FV_OK;
    const cli_photo *photo = &w->asked.photo;
    if (cli_classify(w->model, &photo->batch, &w->best, 1, &status) < 1) return status;
    cli_format(w->captions[0], CAPTION, "%.60s, %.3f", w->best.label, w->best.p);
    w->panels[0] = (fv_look_panel){.caption = w->captions[0]};
    w->panel_count = 1;
    const fv_capture capture = {.options = {.saved = true}, .on_weights = on_weights, .user = w};
    status = fv_model_capture_attention(w->model, &photo->batch, &(fv_pass){.capture = &capture});
    if (status != FV_OK) return status;
    if (cli_flag(w->call, "json")) print_look(w);
    if (cli_flag(w->call, "json") && !w->path) return FV_OK;
    const fv_look_overlay overlay = {.channels = photo->channels,
                                     .height = photo->height,
                                     .width = photo->width,
                                     .pixels = photo->pixels,
                                     .panels = w->panels,
                                     .panel_count = w->panel_count,
                                     .title = look_title(w->call, cli_text(w->call, "ask")),
                                     .smooth = true};
    return look_show_overlay(w->ctx, w->path, &overlay, how);
}

/* Options that a look at an answer has not; and whether there is attention. */
static bool check(answer_look *w)
{
    static const char *const useless[] = {"pixel", "layer", "head", "beam"};
    const fv_model_kind *kind = fv_model_kind_of(w->model);
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++)
        if (cli_given(w->call, useless[i])) {
            cli_error("look: --%s does not apply to models that answer questions", useless[i]);
            return false;
        }
    w->site_count = kind->attention_sites
                        ? kind->attention_sites(fv_model_self(w->model), w->sites, MAX_SITES)
                        : 0;
    if (w->site_count > MAX_SITES) w->site_count = MAX_SITES;
    if (w->site_count > 0 && w->sites[0].rows > 0 && w->sites[0].cols > 0) return true;
    cli_error("look: this %s model has no attention over a grid", fv_model_type(w->model));
    return false;
}

int cli_look_photo_answer(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                          const char *path)
{
    static answer_look w;
    fv_look_options how;
    w = (answer_look){.call = call, .ctx = ctx, .model = model, .file = file, .path = path};
    if (!cli_look_media_options(call, path) || !look_picture_options(call, &how) || !check(&w))
        return CLI_USAGE;
    fv_status status = open_asked(call, model, file, &w.asked);
    if (status == FV_OK) status = show(&w, &how);
    const int code = exit_code(call, ctx, status);
    if (!code && path) cli_note("wrote %s", path);
    for (int64_t i = 0; i < w.panel_count; i++)
        free(w.weights[i]);
    cli_photo_close(&w.asked.photo);
    return code;
}
