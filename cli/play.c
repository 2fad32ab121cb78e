/*
 * Agents: 'fovea run' plays an episode and prints its course, 'fovea look' shows what the agent saw
 * before each move, under its attention.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/trial.h"
#include "heatmap.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"
#include "run.h"

enum { COLUMNS = 80, CAPTION = 48 };

bool cli_plays_first(const cli_call *call, const fv_model *model)
{
    const fv_ability ability = fv_model_spec(model)->ability;
    return (ability == FV_CAN_ACT || ability == FV_CAN_LEARN) && call->word_count == 1 &&
           !cli_given(call, "file") && !cli_given(call, "prompt");
}

/* ---- run ------------------------------------------------------------------------------------ */

static void begin_json(cli_json *j, const fv_episode *e)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "game", e->game);
    cli_json_int(j, "episode", e->number);
    cli_json_bool(j, "won", e->won);
    cli_json_real(j, "reward", e->reward);
}

static void json_move(cli_json *j, const fv_episode *e, const fv_episode_move *m)
{
    cli_json_text(j, "action", e->actions[m->action]);
    cli_json_real(j, "reward", m->reward);
    cli_json_open(j, "values", '[');
    for (int i = 0; i < e->action_count; i++)
        cli_json_real(j, NULL, (double)m->values[i]);
    cli_json_close(j, ']');
}

static void print_json(const fv_episode *e)
{
    cli_json j = {.to = stdout};
    begin_json(&j, e);
    cli_json_open(&j, "moves", '[');
    for (int64_t i = 0; i < e->count; i++) {
        cli_json_open(&j, NULL, '{');
        json_move(&j, e, &e->moves[i]);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

typedef struct player {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
} player;

static int play(const player *p, const char *text)
{
    fv_episode *episode = NULL;
    fv_text course = {0};
    int64_t number = 0;
    fv_trial_config trial;
    if (fv_model_plays_trials(p->model, &trial))
        return cli_run_trial(p->call, p->ctx, p->model, text);
    if (!cli_read_number(p->call, "an episode", text, &number)) return CLI_USAGE;
    const uint64_t seed = (uint64_t)cli_int(p->call, "seed");
    fv_status status = fv_play_episode(p->model, FV_GAME_TEST, seed, number, &episode);
    const bool json = cli_flag(p->call, "json");
    if (status == FV_OK && !json) status = fv_episode_text(episode, COLUMNS, &course);
    if (status == FV_OK && json) print_json(episode);
    if (status == FV_OK && !json) fputs(course.data, stdout);
    fv_text_free(p->ctx, &course);
    fv_episode_free(&episode);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", p->ctx, status);
}

/* A cli_texts_fn: the texts are numbers. */
static int play_all(void *user, int64_t count, const fv_string *texts)
{
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++)
        code = play(user, texts[i].text);
    return code;
}

int cli_run_play(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    player p = {.call = call, .ctx = ctx, .model = *model};
    if (cli_plays_first(call, *model)) return play(&p, "0");
    return cli_for_each_batch(call, ctx, 1, play_all, &p);
}

/* ---- look ----------------------------------------------------------------------------------- */

typedef struct film {
    const cli_call *call;
    fv_ctx *ctx;
    const char *path;
    const fv_episode *episode;
    int64_t head; /* -1: the mean of all */
    float *weights;
    fv_look_panel *panels;
    char (*captions)[CAPTION];
} film;

static void json_weights(cli_json *j, const fv_episode *e, const float *weights)
{
    cli_json_open(j, "weights", '[');
    for (int64_t i = 0; i < e->rows; i++) {
        cli_json_open(j, NULL, '[');
        for (int64_t k = 0; k < e->cols; k++)
            cli_json_exact(j, NULL, (double)weights[i * e->cols + k]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
}

static void print_film(const film *f)
{
    const fv_episode *e = f->episode;
    cli_json j = {.to = stdout};
    begin_json(&j, e);
    cli_json_int(&j, "rows", e->rows);
    cli_json_int(&j, "cols", e->cols);
    cli_json_open(&j, "panels", '[');
    for (int64_t i = 0; i < e->count; i++) {
        cli_json_open(&j, NULL, '{');
        json_move(&j, e, &e->moves[i]);
        json_weights(&j, e, f->panels[i].weights);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* One head's weights of a move, or the mean of all heads. */
static void mean_weights(const film *f, const float *weights, float *out)
{
    const fv_episode *e = f->episode;
    const int64_t cells = e->rows * e->cols, first = f->head < 0 ? 0 : f->head,
                  end = f->head < 0 ? e->heads : f->head + 1;
    for (int64_t i = 0; i < cells; i++) {
        double sum = 0;
        for (int64_t head = first; head < end; head++)
            sum += (double)weights[head * cells + i];
        out[i] = (float)(sum / (double)(end - first));
    }
}

static void fill_panels(film *f)
{
    const fv_episode *e = f->episode;
    for (int64_t i = 0; i < e->count; i++) {
        const fv_episode_move *m = &e->moves[i];
        float *weights = f->weights + i * e->rows * e->cols;
        mean_weights(f, m->weights, weights);
        cli_format(f->captions[i], CAPTION, "%lld: %s", (long long)i + 1, e->actions[m->action]);
        f->panels[i] = (fv_look_panel){.caption = f->captions[i],
                                       .rows = e->rows,
                                       .cols = e->cols,
                                       .weights = weights,
                                       .pixels = m->pixels};
    }
}

static fv_status draw(const film *f, const fv_look_options *how)
{
    const fv_episode *e = f->episode;
    char title[120];
    cli_format(title, sizeof title, "%s, episode %lld: %s after %lld moves", e->game,
               (long long)e->number, e->won ? "won" : "lost", (long long)e->count);
    const fv_look_overlay overlay = {.channels = e->channels,
                                     .height = e->height,
                                     .width = e->width,
                                     .pixels = e->moves[0].pixels,
                                     .panels = f->panels,
                                     .panel_count = e->count,
                                     .title = look_title(f->call, title)};
    if (!f->path) return cli_overlay_print(f->ctx, stdout, &overlay, how);
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(f->ctx, f->path, &form);
    if (status == FV_OK) status = fv_look_overlay_draw(f->ctx, &overlay, form, how, &picture);
    return look_save_picture(status, picture, f->path);
}

static fv_status show(film *f, const fv_look_options *how)
{
    const fv_episode *e = f->episode;
    const size_t count = (size_t)e->count, cells = (size_t)(e->rows * e->cols);
    fv_status status = FV_OK;
    f->weights = calloc(count * cells, sizeof *f->weights);
    f->panels = calloc(count, sizeof *f->panels);
    f->captions = calloc(count, sizeof *f->captions);
    if (f->weights && f->panels && f->captions) {
        fill_panels(f);
        if (cli_flag(f->call, "json")) print_film(f);
        if (f->path || !cli_flag(f->call, "json")) status = draw(f, how);
    } else {
        status = fv_ctx_fail(f->ctx, FV_ERR_MEMORY, "out of memory");
    }
    free(f->weights);
    free(f->panels);
    free(f->captions);
    return status;
}

static bool film_options(const cli_call *call, const fv_model *model)
{
    static const char *const other[] = {"layer", "pixel", "invert", "beam"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (cli_given(call, other[i])) {
            cli_error("look: --%s does not apply to a %s model", other[i], fv_model_type(model));
            return false;
        }
    return true;
}

int cli_look_play(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const char *path)
{
    fv_look_options how;
    fv_episode *episode = NULL;
    fv_site site;
    int64_t number = 0;
    const fv_model_kind *kind = fv_model_kind_of(model);
    fv_trial_config trial;
    if (fv_model_plays_trials(model, &trial)) return cli_look_trial(call, ctx, model, text, path);
    if (!cli_look_media_options(call, path) || !film_options(call, model) ||
        !look_picture_options(call, &how) || !cli_read_number(call, "an episode", text, &number))
        return CLI_USAGE;
    if (!kind->attention_sites || kind->attention_sites(fv_model_self(model), &site, 1) < 1) {
        cli_error("look: this %s model has no attention over a grid", fv_model_type(model));
        return CLI_USAGE;
    }
    film f = {.call = call, .ctx = ctx, .path = path};
    f.head = cli_given(call, "head") ? cli_int(call, "head") : -1;
    if (f.head >= site.heads) {
        cli_error("look: expected a head from 0 to %lld", (long long)site.heads - 1);
        return CLI_USAGE;
    }
    const uint64_t seed = (uint64_t)cli_int(call, "seed");
    fv_status status = fv_play_episode(model, FV_GAME_TEST, seed, number, &episode);
    f.episode = episode;
    if (status == FV_OK) status = show(&f, &how);
    fv_episode_free(&episode);
    if (status != FV_OK) return cli_library_error("look", ctx, status);
    if (path) cli_note("wrote %s", path);
    return CLI_DONE;
}
