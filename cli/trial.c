/*
 * Models that learn within a trial: 'fovea run' plays one on a test problem and prints its steps,
 * 'fovea look' shows which earlier steps each step attended to.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "fovea/trial.h"
#include "input.h"
#include "look_model.h"
#include "output.h"
#include "run.h"

enum { LABEL = 48 };

/* ---- run ------------------------------------------------------------------------------------ */

static void print_means(const fv_trial *t)
{
    const fv_trial_config *c = &t->cfg;
    if (c->kind == FV_TRIAL_MDP) {
        printf("mdp, problem %lld: %lld states, %lld actions, %lld episodes of %lld steps\n",
               (long long)t->number, (long long)c->states, (long long)c->actions,
               (long long)c->episodes, (long long)c->horizon);
        return;
    }
    printf("bandit, problem %lld: arms pay", (long long)t->number);
    for (int64_t a = 0; a < c->actions; a++)
        printf(" %.2f", t->means[a]);
    printf("\n");
}

static void print_step(const fv_trial *t, int64_t i)
{
    const fv_trial_step *s = &t->step[i];
    const fv_trial_config *c = &t->cfg;
    if (c->kind == FV_TRIAL_MDP && i % c->horizon == 0)
        printf("episode %lld\n", (long long)(i / c->horizon) + 1);
    printf("%4lld ", (long long)i + 1);
    if (c->kind == FV_TRIAL_MDP) printf(" state %lld", (long long)s->state);
    printf(" %s %lld (%.0f %%)  reward %.*f\n", c->kind == FV_TRIAL_MDP ? "action" : "arm",
           (long long)s->action, 100 * (double)s->probabilities[s->action],
           c->kind == FV_TRIAL_MDP ? 2 : 0, s->reward);
}

static void print_trial(const fv_trial *t)
{
    print_means(t);
    for (int64_t i = 0; i < t->count; i++)
        print_step(t, i);
    printf("expected reward %.2f; with all probabilities known %.2f\n", t->reward, t->best);
}

/* The fields of an object. */
static void json_trial(cli_json *j, const fv_trial *t)
{
    cli_json_text(j, "problem", t->cfg.kind == FV_TRIAL_MDP ? "mdp" : "bandit");
    cli_json_int(j, "number", t->number);
    cli_json_real(j, "expected", t->reward);
    cli_json_real(j, "optimal", t->best);
    cli_json_open(j, "means", '[');
    for (int64_t i = 0; i < t->cfg.states * t->cfg.actions; i++)
        cli_json_real(j, NULL, t->means[i]);
    cli_json_close(j, ']');
    cli_json_open(j, "steps", '[');
    for (int64_t i = 0; i < t->count; i++) {
        cli_json_open(j, NULL, '{');
        cli_json_int(j, "state", t->step[i].state);
        cli_json_int(j, "action", t->step[i].action);
        cli_json_real(j, "reward", t->step[i].reward);
        cli_json_open(j, "probabilities", '[');
        for (int64_t a = 0; a < t->cfg.actions; a++)
            cli_json_real(j, NULL, (double)t->step[i].probabilities[a]);
        cli_json_close(j, ']');
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void print_json(const fv_trial *t)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    json_trial(&j, t);
    cli_json_close(&j, '}');
}

int cli_run_trial(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text)
{
    fv_trial *trial = NULL;
    int64_t number = 0;
    if (!cli_read_number(call, "a problem", text, &number)) return CLI_USAGE;
    const uint64_t seed = (uint64_t)cli_int(call, "seed");
    const fv_status status = fv_trial_play(model, FV_GAME_TEST, seed, number, NULL, &trial);
    if (status == FV_OK && cli_flag(call, "json")) print_json(trial);
    if (status == FV_OK && !cli_flag(call, "json")) print_trial(trial);
    fv_trial_free(&trial);
    return status == FV_OK ? CLI_DONE : cli_library_error("run", ctx, status);
}

/* ---- look ----------------------------------------------------------------------------------- */

typedef struct map {
    const fv_trial *trial;
    const char *site;
    int64_t steps;
    float *weights;        /* [steps][steps] */
    char (*labels)[LABEL]; /* of the rows and, on a terminal, shorter ones of the columns */
    const char **rows, **cols;
} map;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    const map *m = user;
    return fv_tensor_read(ctx, site->captured.weights, m->weights,
                          (size_t)(m->steps * m->steps) * sizeof *m->weights);
}

/* What was seen before each step: "3: arm 4, 1" after a second step with arm 4 that paid 1. */
static void make_labels(map *m, const char *path)
{
    const bool mdp = m->trial->cfg.kind == FV_TRIAL_MDP;
    for (int64_t i = 0; i < m->steps; i++) {
        const fv_trial_step *s = &m->trial->step[i > 0 ? i - 1 : 0];
        if (i == 0)
            cli_format(m->labels[i], LABEL, "1: start");
        else
            cli_format(m->labels[i], LABEL, "%lld: %s %lld, %.*f", (long long)i + 1,
                       mdp ? "action" : "arm", (long long)s->action, mdp ? 1 : 0, s->reward);
        cli_format(m->labels[m->steps + i], LABEL, "%lld", (long long)i + 1);
        m->rows[i] = m->labels[i];
        m->cols[i] = m->labels[i + (path ? 0 : m->steps)];
    }
}

static fv_status save_array(fv_ctx *ctx, const map *m, const char *path)
{
    const int64_t shape[] = {m->steps, m->steps};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 2, shape, m->weights);
    const fv_status status = fv_npz_save(ctx, &m->site, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

static void print_map(const map *m)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "site", m->site);
    cli_json_open(&j, "weights", '[');
    for (int64_t i = 0; i < m->steps; i++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t k = 0; k < m->steps; k++)
            cli_json_exact(&j, NULL, (double)m->weights[i * m->steps + k]);
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    json_trial(&j, m->trial);
    cli_json_close(&j, '}');
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, map *m, const fv_look_options *how,
                      const char *path)
{
    char title[120];
    make_labels(m, path);
    cli_format(title, sizeof title, "problem %lld, %s: reward %.2f of %.2f",
               (long long)m->trial->number, m->site, m->trial->reward, m->trial->best);
    const fv_look_map picture = {.rows = m->steps,
                                 .cols = m->steps,
                                 .values = m->weights,
                                 .row_labels = m->rows,
                                 .col_labels = m->cols,
                                 .title = look_title(call, title),
                                 .row_title = "step",
                                 .col_title = "step attended to"};
    const fv_status status = look_draw_map(ctx, &picture, how, path);
    if (status == FV_OK && path) cli_note("wrote %s", path);
    return status;
}

static fv_status show(const cli_call *call, fv_ctx *ctx, map *m, const fv_look_options *how,
                      const char *path)
{
    if (cli_flag(call, "json")) print_map(m);
    if (path && cli_ends_with(path, ".npz")) return save_array(ctx, m, path);
    return path || !cli_flag(call, "json") ? draw(call, ctx, m, how, path) : FV_OK;
}

/* The site of --layer, or the last one. */
static int choose_site(const cli_call *call, fv_model *model, fv_site *out)
{
    enum { MOST = 16 };
    fv_site sites[MOST];
    const int count = fv_model_kind_of(model)->attention_sites(fv_model_self(model), sites, MOST);
    const int64_t layer = cli_given(call, "layer") ? cli_int(call, "layer") : count - 1;
    if (count < 1) {
        cli_error("look: this model has no attention");
        return CLI_MISSING;
    }
    if (layer < 0 || layer >= count) {
        cli_error("look: --layer %lld: the model has %d, counted from 0", (long long)layer, count);
        return CLI_USAGE;
    }
    *out = sites[layer];
    return CLI_DONE;
}

static fv_status play(fv_ctx *ctx, fv_model *model, uint64_t seed, int64_t number, map *m,
                      fv_trial **trial)
{
    fv_trial_config cfg;
    if (!fv_model_plays_trials(model, &cfg)) return FV_ERR_UNSUPPORTED;
    m->steps = cfg.episodes * cfg.horizon;
    m->weights = calloc((size_t)(m->steps * m->steps), sizeof *m->weights);
    m->labels = calloc((size_t)(2 * m->steps), sizeof *m->labels);
    m->rows = calloc((size_t)(2 * m->steps), sizeof *m->rows);
    m->cols = m->rows + m->steps;
    if (!m->weights || !m->labels || !m->rows)
        return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    const fv_capture capture = {
        .sites = m->site, .options = {.weights = true}, .on_weights = take, .user = m};
    return fv_trial_play(model, FV_GAME_TEST, seed, number, &capture, trial);
}

int cli_look_trial(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                   const char *path)
{
    fv_look_options how;
    fv_site site;
    fv_trial *trial = NULL;
    int64_t number = 0;
    const char *inside = look_inside_option(call);
    if (inside && strcmp(inside, "layer") != 0) {
        cli_error("look: --%s does not apply to a %s model", inside, fv_model_type(model));
        return CLI_USAGE;
    }
    if (!look_picture_options(call, &how) || !cli_read_number(call, "a problem", text, &number))
        return CLI_USAGE;
    const int code = choose_site(call, model, &site);
    if (code != CLI_DONE) return code;
    map m = {.site = site.name};
    const uint64_t seed = (uint64_t)cli_int(call, "seed");
    fv_status status = play(ctx, model, seed, number, &m, &trial);
    m.trial = trial;
    if (status == FV_OK) status = show(call, ctx, &m, &how, path);
    free(m.weights);
    free(m.labels);
    free((void *)m.rows);
    fv_trial_free(&trial);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}
