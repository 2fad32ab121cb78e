/* Runs: a recipe, a task and a model in a folder. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "data/games.h"
#include "data/generated.h"
#include "data/media.h"
#include "fovea/autograd.h"
#include "io/file.h"
#include "io/recipe.h"
#include "ops/product.h"
#include "train/init_from.h"
#include "train/run.h"
#include "train/step.h"

struct fv_run {
    fv_ctx *ctx;
    fv_recipe *recipe;
    const fv_task_kind *kind;
    void *task;
    fv_model *model;
    fv_train_config train;
    fv_init_report loaded;
    fv_pass pass; /* of training */
    uint64_t step;
    fv_batch batch; /* of this step, where the task has no `begin` */
    int samples;
};

/* ---- the recipe ------------------------------------------------------------------------------ */

#define AUTO "auto" /* model.kind: what the task trains by default */

/* What every run has; the choices of the first two are the names of the tables' entries. */
static const fv_key run_keys[] = {
    {"train.task", FV_KEY_CHOICE, "translation", 0, 0, "translation", "what is learned"},
    {"model.kind", FV_KEY_CHOICE, AUTO, 0, 0, AUTO,
     "kind of model, with the keys of [model] or [transformer]; auto: the task's default"},
    {"train.init_from", FV_KEY_PATH, "", 0, 0, NULL,
     "folder of a model to start from: its tokenizer, and weights with the same name and shape"},
    {"train.sampling", FV_KEY_REAL, "0", 0, 1, NULL,
     "scheduled sampling: share of decoder inputs that are the model's own last token"},
    {"train.seed", FV_KEY_INT, "1", 0, 1e15, NULL,
     "random seed of weights, data order and dropout"},
    {"eval.samples", FV_KEY_INT, "3", 0, 100, NULL, "sample outputs to print at each evaluation"},
};

enum { NAMES_BYTES = 1024, TABLES = 64 };

static bool add_name(char names[NAMES_BYTES], const char *name)
{
    const size_t used = strlen(names);
    return snprintf(names + used, NAMES_BYTES - used, "%s%s", used ? "|" : "", name) <
           (int)(NAMES_BYTES - used);
}

/* Collects the key tables and names of every kind and task. */
static fv_status collect(fv_ctx *ctx, fv_key_table *tables, size_t *count, char tasks[NAMES_BYTES],
                         char models[NAMES_BYTES])
{
    const fv_task_kind *task;
    const fv_model_kind *model;
    bool fits = add_name(models, AUTO);
    for (size_t i = 0; fits && (task = fv_task_kind_at(ctx, i)) != NULL; i++) {
        fits = add_name(tasks, task->name) && *count < TABLES;
        if (fits && task->keys) tables[(*count)++] = task->keys();
    }
    for (size_t i = 0; fits && (model = fv_model_kind_at(ctx, i)) != NULL; i++) {
        fits = add_name(models, model->name) && *count < TABLES;
        if (fits && model->keys) tables[(*count)++] = model->keys();
    }
    FV_RETURN_IF(!fits, ctx, FV_ERR_LIMIT, "more than %d kinds and tasks", TABLES);
    return FV_OK;
}

/* The names of tables as the choices of their keys. */
static fv_status set_choices(fv_recipe *recipe, const char *tasks, const char *models)
{
    char made[NAMES_BYTES] = "none";
    const fv_generated_set *set;
    for (size_t i = 0; (set = fv_generated_set_at(i)) != NULL; i++)
        add_name(made, set->name);
    char media[NAMES_BYTES] = "";
    const fv_media_kind *kind;
    for (size_t i = 0; (kind = fv_media_kind_at(i)) != NULL; i++)
        add_name(media, kind->name);
    char games[NAMES_BYTES] = "";
    const fv_game_kind *game;
    for (size_t i = 0; (game = fv_game_kind_at(i)) != NULL; i++)
        add_name(games, game->name);
    FV_TRY(fv_recipe_set_choices(recipe, "play.game", games));
    FV_TRY(fv_recipe_set_choices(recipe, "data.media", media));
    FV_TRY(fv_recipe_set_choices(recipe, "train.task", tasks));
    FV_TRY(fv_recipe_set_choices(recipe, "model.kind", models));
    return fv_recipe_set_choices(recipe, "data.made", made);
}

fv_status fv_run_recipe(fv_ctx *ctx, fv_recipe **out)
{
    fv_key_table tables[TABLES + 2] = {{run_keys, sizeof run_keys / sizeof *run_keys}};
    char tasks[NAMES_BYTES] = "", models[NAMES_BYTES] = "";
    size_t count = 1;
    FV_TRY(collect(ctx, tables, &count, tasks, models));
    tables[count++] = fv_train_keys();
    fv_recipe *recipe = NULL;
    FV_TRY(fv_recipe_create(ctx, tables, count, &recipe));
    const fv_status status = set_choices(recipe, tasks, models);
    if (status == FV_OK)
        *out = recipe;
    else
        fv_recipe_destroy(&recipe);
    return status;
}

/* ---- making ---------------------------------------------------------------------------------- */

static const char *model_name(const fv_run *run)
{
    const char *name = fv_recipe_text(run->recipe, "model.kind");
    const bool automatic = !*name || strcmp(name, AUTO) == 0;
    return automatic && run->kind->model ? run->kind->model : name;
}

/* Settings that this kind of model does not have. */
static fv_status check_model(const fv_run *run, const fv_model_kind *kind)
{
    FV_RETURN_IF(run->train.compute != FV_F32 && !kind->trains_bf16, run->ctx, FV_ERR_ARGUMENT,
                 "train.compute_dtype is bf16: %s models train in f32 only", kind->name);
    FV_RETURN_IF(run->train.recompute && !kind->supports_checkpointing, run->ctx, FV_ERR_ARGUMENT,
                 "train.recompute: %s models have no blocks to recompute", kind->name);
    FV_RETURN_IF(run->pass.kept && !run->train.recompute, run->ctx, FV_ERR_ARGUMENT,
                 "train.recompute_keep is %s, but train.recompute is false",
                 fv_recipe_text(run->recipe, "train.recompute_keep"));
    return FV_OK;
}

static fv_status make_model(fv_run *run, const char *folder)
{
    fv_ctx *ctx = run->ctx;
    const char *name = model_name(run);
    const fv_model_kind *kind = fv_model_kind_find(ctx, name);
    FV_RETURN_IF(!kind, ctx, FV_ERR_ARGUMENT, "model.kind: unknown kind '%.60s'", name);
    FV_TRY(check_model(run, kind));
    const fv_task_config cfg = {.ctx = ctx, .recipe = run->recipe, .folder = folder};
    fv_data_spec spec = {.ability = FV_CAN_GENERATE};
    const fv_status opened = run->kind->open(&cfg, &spec, &run->task);
    if (opened != FV_OK) {
        if (spec.target != spec.source) fv_tokenizer_destroy(&spec.target);
        fv_tokenizer_destroy(&spec.source);
        return opened;
    }
    FV_TRY(fv_model_create(ctx, name, run->recipe, &spec, &run->model));
    FV_RETURN_IF(!fv_model_can(run->model, spec.ability), ctx, FV_ERR_ARGUMENT,
                 "task %s trains models to %s, which a %s model cannot do", run->kind->name,
                 fv_ability_name(spec.ability), name);
    FV_TRY(fv_init_from(ctx, folder, fv_recipe_text(run->recipe, "train.init_from"),
                        fv_model_params(run->model), &run->loaded));
    return run->kind->prepare ? run->kind->prepare(run->task, run->model) : FV_OK;
}

/* The share of the training data that the first step reads. The task's place is restored. */
static fv_status first_step_share(fv_run *run, double *out)
{
    const fv_task_kind *kind = run->kind;
    int64_t place[FV_TASK_POSITION] = {0};
    fv_step_plan plan = {.parts = 1};
    if (kind->begin) {
        if (kind->get_position) kind->get_position(run->task, place);
        fv_ctx_set_step(run->ctx, 0, 0);
        fv_scope_begin(run->ctx);
        fv_no_grad_begin(run->ctx);
        const fv_status status = kind->begin(run->task, run->model, 0, 0, &plan);
        fv_no_grad_end(run->ctx);
        fv_scope_end(run->ctx);
        FV_TRY(status);
        if (kind->set_position) FV_TRY(kind->set_position(run->task, place));
    }
    FV_RETURN_IF(!(plan.epoch > 0), run->ctx, FV_ERR_ARGUMENT,
                 "train.epochs: task %s has no epochs, expected train.steps", kind->name);
    *out = plan.epoch;
    return FV_OK;
}

/* train.epochs as train.steps, in the recipe too. */
static fv_status count_steps(fv_run *run)
{
    const double epochs = fv_recipe_real(run->recipe, "train.epochs");
    double share = 0;
    char text[32];
    if (!(epochs > 0)) return FV_OK;
    FV_TRY(first_step_share(run, &share));
    snprintf(text, sizeof text, "%.0f", fmax(1, ceil(epochs / share - 1e-6)));
    FV_TRY(fv_recipe_set(run->recipe, "train.steps", text));
    run->train.steps = run->train.schedule.total =
        (uint64_t)fv_recipe_int(run->recipe, "train.steps");
    return FV_OK;
}

/* bf16 only where it is faster, unless the recipe insists. */
static void choose_compute(fv_run *run)
{
    const bool insists =
        strcmp(fv_recipe_text(run->recipe, "train.compute_dtype"), "bf16-always") == 0;
    if (run->train.compute == FV_F32 || insists || fv_product_prefers_bf16(run->ctx)) return;
    run->train.compute = FV_F32;
    fv_report(run->ctx, FV_LOG_WARN,
              "train.compute_dtype is bf16, but %s products are not faster in it: computing in f32 "
              "(bf16-always: half the memory for activations)",
              fv_simd_name(run->ctx->simd));
}

fv_status fv_run_create(fv_ctx *ctx, fv_recipe *recipe, const char *folder,
                        fv_train_observer observe, void *user, fv_run **out)
{
    const char *task = fv_recipe_text(recipe, "train.task");
    const fv_task_kind *kind = fv_task_kind_find(ctx, task);
    FV_RETURN_IF(!kind, ctx, FV_ERR_ARGUMENT, "train.task: unknown task '%.60s'", task);
    fv_run *run = fv_mem_zalloc(&ctx->mem, sizeof *run);
    FV_RETURN_IF(!run, ctx, FV_ERR_MEMORY, "no memory for a training run");
    run->ctx = ctx;
    run->recipe = recipe;
    run->kind = kind;
    fv_ctx_set_step(ctx, 0, 0); /* the same first weights, whatever was drawn before */
    run->train = fv_step_settings(recipe, folder, observe, user);
    const bool keeps_attention =
        strcmp(fv_recipe_text(recipe, "train.recompute_keep"), "attention") == 0;
    run->pass = (fv_pass){.training = true,
                          .checkpoint = run->train.recompute,
                          .kept = keeps_attention ? FV_CHECKPOINT_KEEP_ATTENTION
                                                  : FV_CHECKPOINT_KEEP_NOTHING,
                          .sampling = fv_recipe_real(recipe, "train.sampling")};
    run->samples = (int)fv_recipe_int(recipe, "eval.samples");
    fv_status status = make_model(run, folder);
    if (status == FV_OK) status = count_steps(run);
    if (status == FV_OK) choose_compute(run);
    if (status == FV_OK)
        *out = run;
    else
        fv_run_destroy(&run);
    return status;
}

void fv_run_destroy(fv_run **run_ptr)
{
    fv_run *run = *run_ptr;
    if (!run) return;
    if (run->task) run->kind->close(run->task);
    fv_model_close(&run->model);
    fv_mem_free(&run->ctx->mem, run, sizeof *run);
    *run_ptr = NULL;
}

/* ---- the trainer's view of it -----------------------------------------------------------------
 */

static fv_status begin(void *user, uint64_t step, int phase, fv_step_plan *plan)
{
    fv_run *run = user;
    run->step = step;
    if (run->kind->begin) return run->kind->begin(run->task, run->model, step, phase, plan);
    fv_batch_init(&run->batch, 0);
    FV_TRY(run->kind->batch(run->task, run->model, step, phase, 0, &run->batch));
    plan->tokens = (double)run->batch.rows;
    return FV_OK;
}

/* A batch may be made by running the model: none of that is for backward. */
static fv_status make_batch(fv_run *run, int phase, int64_t part, fv_batch *out)
{
    fv_batch_init(out, 0);
    fv_no_grad_begin(run->ctx);
    const fv_status status = run->kind->batch(run->task, run->model, run->step, phase, part, out);
    fv_no_grad_end(run->ctx);
    return status;
}

static fv_tensor *loss(void *user, fv_ctx *ctx, int phase, int64_t part)
{
    fv_run *run = user;
    const fv_model_kind *kind = fv_model_kind_of(run->model);
    fv_batch batch = run->batch;
    fv_status status = run->kind->begin ? make_batch(run, phase, part, &batch) : FV_OK;
    if (status == FV_OK && !run->kind->loss && !kind->loss)
        status = fv_fail(ctx, FV_ERR_ARGUMENT, "a %s model has no loss", kind->name);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    if (run->kind->loss)
        return run->kind->loss(ctx, run->task, run->model, phase, &batch, &run->pass);
    return kind->loss(ctx, fv_model_self(run->model), &batch, &run->pass);
}

static fv_tensor *update(void *user, fv_ctx *ctx, uint64_t step, int phase, double lr)
{
    fv_run *run = user;
    return run->kind->update(ctx, run->task, run->model, step, phase, lr);
}

static fv_status end(void *user, uint64_t step, int phase)
{
    fv_run *run = user;
    const fv_model_kind *kind = fv_model_kind_of(run->model);
    if (kind->step_done) FV_TRY(kind->step_done(fv_model_self(run->model), step, phase));
    return run->kind->end ? run->kind->end(run->task, run->model, step, phase) : FV_OK;
}

static fv_status evaluate(void *user, fv_metric *metrics, int *count)
{
    return fv_run_evaluate(user, metrics, count);
}

static fv_status show(void *user, fv_text *out)
{
    fv_run *run = user;
    return run->kind->show(run->task, run->model, run->samples, out);
}

static const char *group(void *user, int phase)
{
    fv_run *run = user;
    return run->kind->group(run->task, phase);
}

static void optimizer(void *user, int phase, fv_optim_config *optim, fv_schedule *schedule)
{
    fv_run *run = user;
    run->kind->optimizer(run->task, phase, optim, schedule);
}

/* The position holds the task's numbers, then the model's. */
static void get_position(void *user, int64_t position[FV_POSITION])
{
    fv_run *run = user;
    const fv_model_kind *kind = fv_model_kind_of(run->model);
    if (run->kind->get_position) run->kind->get_position(run->task, position);
    if (kind->get_counters)
        kind->get_counters(fv_model_self(run->model), position + FV_TASK_POSITION);
}

static fv_status set_position(void *user, const int64_t position[FV_POSITION])
{
    fv_run *run = user;
    const fv_model_kind *kind = fv_model_kind_of(run->model);
    if (kind->set_counters)
        FV_TRY(kind->set_counters(fv_model_self(run->model), position + FV_TASK_POSITION));
    return run->kind->set_position ? run->kind->set_position(run->task, position) : FV_OK;
}

static fv_status get_state(void *user, fv_params *state)
{
    fv_run *run = user;
    return run->kind->get_state(run->task, state);
}

static fv_status set_state(void *user, const fv_params *state)
{
    fv_run *run = user;
    return run->kind->set_state(run->task, state);
}

static fv_task task_of(fv_run *run)
{
    const fv_task_kind *k = run->kind;
    return (fv_task){.user = run,
                     .phases = k->phases,
                     .begin = begin,
                     .loss = loss,
                     .end = end,
                     .evaluate = k->evaluate ? evaluate : NULL,
                     .show = k->show && run->samples > 0 ? show : NULL,
                     .group = k->group ? group : NULL,
                     .optimizer = k->optimizer ? optimizer : NULL,
                     .get_position = get_position,
                     .set_position = set_position,
                     .get_state = k->get_state ? get_state : NULL,
                     .set_state = k->set_state ? set_state : NULL,
                     .update = k->update ? update : NULL};
}

/* ---- using ----------------------------------------------------------------------------------- */

static fv_status write_settings(const fv_run *run)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(run->ctx, path, run->train.folder, "recipe.toml"));
    FV_TRY(fv_recipe_save(run->recipe, path));
    return fv_model_save_settings(run->model, run->train.folder);
}

fv_status fv_run_train(fv_run *run)
{
    fv_trainer *trainer = NULL;
    const fv_task task = task_of(run);
    FV_TRY(fv_trainer_create(fv_model_params(run->model), &task, &run->train, &trainer));
    fv_status status = fv_trainer_resume(trainer);
    if (status == FV_OK) status = write_settings(run);
    if (status == FV_OK) status = fv_trainer_run(trainer);
    fv_trainer_destroy(&trainer);
    return status;
}

typedef struct step_times {
    uint64_t steps;
    double first, last; /* seconds of training after the first step and after the last */
} step_times;

static void note_time(void *user, const fv_train_event *event)
{
    step_times *times = user;
    if (event->kind != FV_TRAIN_STEP) return;
    if (times->steps++ == 0) times->first = event->seconds;
    times->last = event->seconds;
}

fv_status fv_run_measure(fv_run *run, int steps, double *seconds)
{
    fv_trainer *trainer = NULL;
    step_times times = {.steps = 0};
    fv_task task = task_of(run);
    fv_train_config cfg = run->train;
    FV_RETURN_IF(steps < 2, run->ctx, FV_ERR_ARGUMENT, "measure: %d steps, expected at least 2",
                 steps);
    task.evaluate = NULL;
    task.show = NULL;
    cfg.folder = NULL;
    cfg.steps = (uint64_t)steps;
    cfg.observe = note_time;
    cfg.observe_user = &times;
    FV_TRY(fv_trainer_create(fv_model_params(run->model), &task, &cfg, &trainer));
    const fv_status status = fv_trainer_run(trainer);
    fv_trainer_destroy(&trainer);
    FV_TRY(status);
    *seconds = (times.last - times.first) / (double)(times.steps - 1);
    return FV_OK;
}

void fv_run_set_save_request(fv_run *run, volatile int *request)
{
    run->train.save_request = request;
}

void *fv_run_task(const fv_run *run) { return run->task; }
fv_model *fv_run_model(const fv_run *run) { return run->model; }
fv_init_report fv_run_init_report(const fv_run *run) { return run->loaded; }

const char *fv_run_report(const fv_run *run)
{
    return run->kind->report ? run->kind->report(run->task) : "";
}

fv_status fv_run_evaluate(fv_run *run, fv_metric metrics[FV_MAX_METRICS], int *count)
{
    FV_RETURN_IF(!run->kind->evaluate, run->ctx, FV_ERR_UNSUPPORTED, "task %s has no held-out data",
                 run->kind->name);
    *count = 0;
    fv_scope_begin(run->ctx);
    fv_no_grad_begin(run->ctx);
    const fv_status status = run->kind->evaluate(run->task, run->model, metrics, count);
    fv_no_grad_end(run->ctx);
    fv_scope_end(run->ctx);
    return status == FV_OK ? fv_ctx_error(run->ctx) : status;
}
