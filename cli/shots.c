#include "shots.h"

#include <string.h>

#include "folder.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "input.h"
#include "look_model.h"
#include "run.h"

/* ---- episodes ------------------------------------------------------------------------------- */

/* An episode of test characters, by the recipe of the run. */
static fv_status draw(fv_ctx *ctx, const fv_recipe *recipe, int64_t number, fv_shots_episode *out)
{
    const fv_shots_config cfg = {.source = fv_recipe_text(recipe, "episodes.source"),
                                 .folder = fv_recipe_text(recipe, "episodes.folder"),
                                 .subset = fv_recipe_int(recipe, "episodes.subset"),
                                 .seed = 1};
    const fv_shots_rule rule = {.ways = fv_recipe_int(recipe, "episodes.ways"),
                                .shots = fv_recipe_int(recipe, "episodes.shots"),
                                .queries = 1,
                                .part = FV_SHOTS_TEST,
                                .seed = (uint64_t)fv_recipe_int(recipe, "train.seed")};
    fv_shots *shots = NULL;
    fv_status status = fv_shots_open(ctx, &cfg, &shots);
    if (status == FV_OK) status = fv_shots_episode_make(shots, &rule, (uint64_t)number, out);
    fv_shots_close(&shots);
    return status;
}

static fv_status read_and_draw(const cli_call *call, fv_ctx *ctx, int64_t number,
                               fv_shots_episode *out)
{
    char path[CLI_PATH_BYTES];
    fv_recipe *recipe = NULL;
    if (!cli_path(path, "%s/recipe.toml", call->words[0]))
        return fv_ctx_fail(ctx, FV_ERR_ARGUMENT, "the folder's name is too long");
    fv_status status = fv_run_recipe(ctx, &recipe);
    if (status == FV_OK) status = fv_recipe_load(recipe, path);
    if (status == FV_OK) status = draw(ctx, recipe, number, out);
    fv_recipe_destroy(&recipe);
    return status;
}

static fv_status answer(fv_ctx *ctx, fv_model *model, const fv_capture *capture, cli_shots *s)
{
    fv_shots_episode *e = &s->episode;
    const void *pixels = e->pixels, *labels = e->labels;
    const int64_t length = e->examples + 1;
    const fv_pass pass = {.capture = capture};
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {1, FV_SHOTS_SIDE, FV_SHOTS_SIDE},
                                    .row = &pixels,
                                    .length = &length});
    fv_batch_add(&batch,
                 (fv_field){.name = "label", .dtype = FV_I64, .row = &labels, .length = &length});
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *p = fv_softmax(ctx, fv_model_classify(model, &batch, &pass), -1);
    const fv_status status =
        fv_tensor_read(ctx, p, s->probability, (size_t)e->ways * sizeof *s->probability);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    for (int64_t i = 1; i < e->ways; i++)
        if (s->probability[i] > s->probability[s->answer]) s->answer = i;
    s->label = e->labels[e->examples];
    s->nearest = fv_shots_nearest(e, 0);
    return status;
}

int cli_shots_run(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const fv_capture *capture, cli_shots *out)
{
    *out = (cli_shots){.answer = 0};
    if (!cli_read_number(call, "an episode", text, &out->number)) return CLI_USAGE;
    fv_status status = read_and_draw(call, ctx, out->number, &out->episode);
    if (status == FV_OK) status = answer(ctx, model, capture, out);
    return status == FV_OK ? CLI_DONE : cli_library_error(call->verb->name, ctx, status);
}

void cli_shots_free(fv_ctx *ctx, cli_shots *s) { fv_shots_episode_free(ctx, &s->episode); }

/* ---- fovea run ------------------------------------------------------------------------------ */

void cli_shots_json(cli_json *j, const cli_shots *s)
{
    const fv_shots_episode *e = &s->episode;
    cli_json_int(j, "episode", s->number);
    cli_json_int(j, "answer", s->answer);
    cli_json_int(j, "label", s->label);
    cli_json_int(j, "nearest_pixels", s->nearest);
    cli_json_open(j, "probabilities", '[');
    for (int64_t i = 0; i < e->ways; i++)
        cli_json_real(j, NULL, (double)s->probability[i]);
    cli_json_close(j, ']');
    cli_json_open(j, "examples", '[');
    for (int64_t i = 0; i < e->examples; i++)
        cli_json_int(j, NULL, e->labels[i]);
    cli_json_close(j, ']');
}

static void print_answer(const cli_call *call, const cli_shots *s)
{
    if (cli_flag(call, "json")) {
        cli_json j = {.to = stdout};
        cli_json_open(&j, NULL, '{');
        cli_shots_json(&j, s);
        cli_json_close(&j, '}');
        return;
    }
    printf("episode %lld: class %lld of %lld with %.1f %%, ", (long long)s->number,
           (long long)s->answer, (long long)s->episode.ways,
           100 * (double)s->probability[s->answer]);
    if (s->answer == s->label)
        printf("right");
    else
        printf("wrong: it is %lld", (long long)s->label);
    printf("; the nearest pixels are of class %lld\n", (long long)s->nearest);
}

typedef struct work {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
} work;

static int run_one(const work *w, const char *text)
{
    cli_shots s;
    const int code = cli_shots_run(w->call, w->ctx, w->model, text, NULL, &s);
    if (!code) print_answer(w->call, &s);
    cli_shots_free(w->ctx, &s);
    return code;
}

/* A cli_texts_fn: the texts are numbers. */
static int run_texts(void *user, int64_t count, const fv_string *texts)
{
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++)
        code = run_one(user, texts[i].text);
    return code;
}

int cli_run_shots(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    work w = {call, ctx, *model};
    if (cli_plays_first(call, *model)) return run_one(&w, "0");
    return cli_for_each_batch(call, ctx, 1, run_texts, &w);
}
