#include "train/tasks/play.h"

#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "io/recipe.h"
#include "text/codepoints.h"
#include "train/tasks/tasks.h"

/* A random site that no op uses. */
#define REPLAY_SITE 0x7265706c6179u

enum { DEFAULT_BATCH = 32, DEFAULT_HELD_OUT = 500, EVALUATED = 128 /* at once */ };

static const fv_key keys[] = {
    {"play.game", FV_KEY_CHOICE, "catch", 0, 0, "catch", "game that an agent learns to play"},
    {"play.side", FV_KEY_INT, "0", 0, 1024, NULL, "side of the game's board; 0: the game's own"},
    {"play.episodes", FV_KEY_INT, "16", 1, 65536, NULL, "episodes that are played at a time"},
    {"play.every", FV_KEY_INT, "2", 1, 1e9, NULL, "steps between them"},
    {"play.memory", FV_KEY_INT, "4000", 1, 1e7, NULL, "episodes that are kept to learn from"},
    {"play.discount", FV_KEY_REAL, "0.97", 0, 1, NULL, "factor of a reward one move later"},
    {"play.n_step", FV_KEY_INT, "3", 1, 1000, NULL,
     "rewards that a target adds up before it uses the model's own value"},
    {"play.double", FV_KEY_BOOL, "true", 0, 0, NULL,
     "double Q-learning: the model chooses the action, its older copy gives the value"},
    {"play.explore", FV_KEY_REAL, "1", 0, 1, NULL, "share of random moves at first"},
    {"play.explore_floor", FV_KEY_REAL, "0.05", 0, 1, NULL, "share of random moves at last"},
    {"play.explore_steps", FV_KEY_INT, "1000", 1, 1e12, NULL, "steps from the first to the last"},
    {"play.copy_every", FV_KEY_INT, "100", 1, 1e12, NULL,
     "steps between copies of the model that give the values of targets"},
    {"play.valid_count", FV_KEY_INT, "0", 0, 1e7, NULL, "episodes for validation; 0: 500"},
    {"play.test_count", FV_KEY_INT, "0", 0, 1e7, NULL, "episodes for the final test; 0: 500"},
};

static fv_key_table play_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct play_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    const fv_game_kind *game;
    int64_t side, batch; /* episodes of a part */
    uint64_t seed;
    fv_q_rule rule;
    fv_replay replay;   /* changes only in `end`, */
    fv_model *copy;     /* and so does this */
    fv_playing playing; /* fresh episodes are in it until `end` */
    int64_t fresh;
    fv_play_rows rows;
    fv_step_parts parts;
    float *copied; /* the largest parameter, while it is copied */
    size_t copied_bytes;
    char report[160];
} play_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    play_task *t = self;
    fv_ctx *ctx = t->ctx;
    fv_replay_free(&t->replay);
    fv_playing_free(&t->playing);
    fv_play_rows_free(&t->rows);
    fv_step_parts_free(ctx, &t->parts);
    fv_model_close(&t->copy);
    if (t->copied) fv_mem_free(&ctx->mem, t->copied, t->copied_bytes);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

/* What a model must know of the game. The number named after it has the side. */
static fv_status describe(const play_task *t, fv_data_spec *spec)
{
    const fv_game_facts facts = t->game->facts((int32_t)t->side);
    spec->ability = FV_CAN_ACT;
    spec->labels = t->game->action_names;
    spec->label_count = t->game->actions;
    const bool fits = fv_data_spec_set(spec, t->game->name, t->side) &&
                      fv_data_spec_set(spec, "channels", facts.channels) &&
                      fv_data_spec_set(spec, "height", facts.height) &&
                      fv_data_spec_set(spec, "width", facts.width) &&
                      fv_data_spec_set(spec, "actions", t->game->actions);
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_parts(play_task *t, fv_data_spec *spec)
{
    const fv_recipe *recipe = t->recipe;
    const char *name = fv_recipe_text(recipe, "play.game");
    const int64_t side = fv_recipe_int(recipe, "play.side");
    t->game = fv_game_kind_find(name);
    FV_RETURN_IF(!t->game, t->ctx, FV_ERR_ARGUMENT, "play.game: there is no game '%.60s'", name);
    FV_RETURN_IF(!fv_game_side_fits(t->game, side), t->ctx, FV_ERR_ARGUMENT,
                 "play.side is %lld, expected %d to %d in steps of %d for game %s", (long long)side,
                 t->game->min_side, t->game->max_side, t->game->step, name);
    t->side = side ? side : t->game->side;
    const fv_game_facts facts = t->game->facts((int32_t)t->side);
    FV_TRY(fv_replay_create(t->ctx, fv_recipe_int(recipe, "play.memory"), facts.limit, &t->replay));
    FV_TRY(fv_play_rows_create(t->ctx, t->batch, &facts, &t->rule, &t->rows));
    FV_TRY(fv_step_parts_create(t->ctx, recipe, &t->parts));
    return describe(t, spec);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    const fv_recipe *recipe = cfg->recipe;
    const int64_t asked = fv_recipe_int(recipe, "train.batch_examples");
    play_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    *t = (play_task){.ctx = cfg->ctx,
                     .recipe = recipe,
                     .batch = asked > 0 ? asked : DEFAULT_BATCH,
                     .seed = (uint64_t)fv_recipe_int(recipe, "train.seed"),
                     .rule = {.discount = fv_recipe_real(recipe, "play.discount"),
                              .n_step = fv_recipe_int(recipe, "play.n_step"),
                              .double_q = fv_recipe_bool(recipe, "play.double")},
                     .replay = {.ctx = cfg->ctx}};
    return fv_task_opened(open_parts(t, spec), close_task, t, self);
}

/* ---- the copy of the model ------------------------------------------------------------------ */

static size_t bytes_of(const fv_tensor *x)
{
    return (size_t)fv_tensor_count(x) * fv_dtype_size(fv_tensor_dtype(x));
}

/* Every tensor of one set into that of the same name in another. */
static fv_status copy_params(play_task *t, const fv_params *from, const char *prefix, fv_params *to)
{
    for (int i = 0; i < fv_params_count(to); i++) {
        char name[300];
        fv_tensor *x = fv_params_tensor(to, i);
        snprintf(name, sizeof name, "%s%s", prefix, fv_params_name(to, i));
        const fv_tensor *y = fv_params_find(from, name);
        FV_RETURN_IF(!y || fv_tensor_dtype(y) != fv_tensor_dtype(x) || bytes_of(y) != bytes_of(x),
                     t->ctx, FV_ERR_FORMAT, "the state has no %.200s of %lld elements", name,
                     (long long)fv_tensor_count(x));
        FV_TRY(fv_tensor_read(t->ctx, y, t->copied, bytes_of(x)));
        FV_TRY(fv_tensor_write(t->ctx, x, t->copied, bytes_of(x)));
    }
    return FV_OK;
}

static fv_status prepare(void *self, fv_model *model)
{
    play_task *t = self;
    const fv_params *params = fv_model_params(model);
    const int64_t episodes = fv_recipe_int(t->recipe, "play.episodes");
    FV_TRY(fv_playing_init(&t->playing, model, episodes > EVALUATED ? episodes : EVALUATED));
    FV_TRY(fv_model_create(t->ctx, fv_model_kind_of(model)->name, t->recipe, fv_model_spec(model),
                           &t->copy));
    for (int i = 0; i < fv_params_count(params); i++) {
        const size_t bytes = bytes_of(fv_params_tensor(params, i));
        if (bytes > t->copied_bytes) t->copied_bytes = bytes;
    }
    t->copied = fv_mem_alloc(&t->ctx->mem, t->copied_bytes);
    FV_RETURN_IF(!t->copied, t->ctx, FV_ERR_MEMORY, "no memory for a copy of the model");
    return copy_params(t, params, "", fv_model_params(t->copy));
}

/* ---- steps ---------------------------------------------------------------------------------- */

static double explore_at(const play_task *t, uint64_t step)
{
    const double first = fv_recipe_real(t->recipe, "play.explore"),
                 last = fv_recipe_real(t->recipe, "play.explore_floor"),
                 share = (double)step / (double)fv_recipe_int(t->recipe, "play.explore_steps");
    return share < 1 ? first + share * (last - first) : last;
}

/* Example i of a step: a kept episode, or one that has just been played. */
static fv_played pick(const play_task *t, uint64_t step, int64_t i)
{
    const int64_t kept = fv_replay_count(&t->replay);
    fv_draws draws = fv_draws_begin(fv_rng_key(t->seed, step, REPLAY_SITE), (uint64_t)i);
    const int64_t at = fv_draws_below(&draws, kept + t->fresh);
    return at < kept ? fv_replay_get(&t->replay, at) : t->playing.played[at - kept];
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    play_task *t = self;
    const int64_t every = fv_recipe_int(t->recipe, "play.every"),
                  episodes = fv_recipe_int(t->recipe, "play.episodes"),
                  examples = fv_step_plan_rows(&t->parts, t->batch, plan);
    (void)model;
    (void)phase;
    t->fresh = 0;
    if (step % (uint64_t)every == 0) {
        const fv_play_how how = {.seed = t->seed,
                                 .part = FV_GAME_TRAIN,
                                 .first = (int64_t)(step / (uint64_t)every) * episodes,
                                 .count = episodes,
                                 .explore = explore_at(t, step),
                                 .step = step};
        FV_TRY(fv_playing_run(&t->playing, &how));
        t->fresh = episodes;
    }
    int64_t moves = 0;
    for (int64_t i = 0; i < examples; i++) {
        const fv_played played = pick(t, step, i);
        moves += fv_q_target_count(played.length, played.ended);
    }
    plan->tokens = moves > 0 ? (double)moves : 1;
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    play_task *t = self;
    (void)model;
    (void)phase;
    fv_play_rows_clear(&t->rows);
    for (int64_t i = t->parts.first[part]; i < t->parts.first[part + 1]; i++) {
        const fv_played played = pick(t, step, i);
        fv_game game;
        fv_game_start(&game, t->game, t->side, t->seed, FV_GAME_TRAIN, played.number);
        fv_play_rows_add(&t->rows, &game, &played);
    }
    *out = fv_play_rows_batch(&t->rows);
    return FV_OK;
}

static fv_tensor *act(fv_ctx *ctx, fv_model *model, const fv_batch *inputs, const fv_pass *pass)
{
    return fv_model_kind_of(model)->act(ctx, fv_model_self(model), inputs, pass);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, fv_model *model, int phase, const fv_batch *inputs,
                       const fv_pass *pass)
{
    const play_task *t = self;
    (void)phase;
    fv_no_grad_begin(ctx);
    fv_tensor *copy_values = act(ctx, t->copy, inputs, NULL);
    fv_no_grad_end(ctx);
    return fv_q_loss(ctx, inputs, t->rule.double_q, act(ctx, model, inputs, pass), copy_values);
}

static fv_status end(void *self, fv_model *model, uint64_t step, int phase)
{
    play_task *t = self;
    const uint64_t every = (uint64_t)fv_recipe_int(t->recipe, "play.copy_every");
    (void)phase;
    if ((step + 1) % every == 0)
        FV_TRY(copy_params(t, fv_model_params(model), "", fv_model_params(t->copy)));
    for (int64_t i = 0; i < t->fresh; i++)
        fv_replay_push(&t->replay, &t->playing.played[i]);
    t->fresh = 0;
    return FV_OK;
}

/* ---- held-out episodes ---------------------------------------------------------------------- */

static fv_game_part held_out(const play_task *t, int64_t *count)
{
    const bool test = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0;
    const int64_t asked = fv_recipe_int(t->recipe, test ? "play.test_count" : "play.valid_count");
    *count = asked > 0 ? asked : DEFAULT_HELD_OUT;
    return test ? FV_GAME_TEST : FV_GAME_VALID;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    play_task *t = self;
    int64_t all = 0;
    double won = 0, reward = 0, moves = 0;
    fv_play_how how = {.seed = t->seed, .part = held_out(t, &all)};
    (void)model;
    for (how.first = 0; how.first < all; how.first += how.count) {
        how.count = all - how.first < EVALUATED ? all - how.first : EVALUATED;
        FV_TRY(fv_playing_run(&t->playing, &how));
        for (int64_t i = 0; i < how.count; i++) {
            const fv_played *played = &t->playing.played[i];
            won += played->won;
            reward += played->reward;
            moves += (double)played->length;
        }
    }
    fv_metric_add(metrics, count, "won", won / (double)all, true);
    fv_metric_add(metrics, count, "reward", reward / (double)all, true);
    fv_metric_add(metrics, count, "moves", moves / (double)all, false);
    return FV_OK;
}

/* "episode 3    won after 17 moves: up up right ..." */
static fv_status add_sample(const play_task *t, const fv_played *played, fv_text *out)
{
    char line[160];
    int n = snprintf(line, sizeof line,
                     "episode %-4lld %s after %lld moves:", (long long)played->number,
                     played->won ? "won" : "lost", (long long)played->length);
    FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    for (int64_t i = 0; i < played->length; i++) {
        n = snprintf(line, sizeof line, " %s", t->game->action_names[played->actions[i]]);
        FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    }
    return fv_text_append(t->ctx, out, "\n", 1);
}

static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    play_task *t = self;
    int64_t all = 0;
    fv_play_how how = {.seed = t->seed, .part = held_out(t, &all), .count = count};
    (void)model;
    if (how.count > all) how.count = all;
    if (how.count > EVALUATED) how.count = EVALUATED;
    FV_TRY(fv_playing_run(&t->playing, &how));
    for (int64_t i = 0; i < how.count; i++)
        FV_TRY(add_sample(t, &t->playing.played[i], out));
    return FV_OK;
}

static const char *report(void *self)
{
    play_task *t = self;
    int64_t count = 0;
    const fv_game_part part = held_out(t, &count);
    snprintf(t->report, sizeof t->report, "game %s, board of %lld x %lld, %lld %s episodes",
             t->game->name, (long long)t->side, (long long)t->side, (long long)count,
             part == FV_GAME_TEST ? "test" : "validation");
    return t->report;
}

/* ---- the state of a run --------------------------------------------------------------------- */

#define COPY "copy."

static fv_status get_state(void *self, fv_params *state)
{
    play_task *t = self;
    const fv_params *params = fv_model_params(t->copy);
    FV_TRY(fv_replay_save(&t->replay, state));
    for (int i = 0; i < fv_params_count(params); i++) {
        char name[300];
        const fv_tensor *x = fv_params_tensor(params, i);
        snprintf(name, sizeof name, COPY "%s", fv_params_name(params, i));
        FV_TRY(fv_tensor_read(t->ctx, x, t->copied, bytes_of(x)));
        fv_params_add_buffer(state, name,
                             fv_from_host(t->ctx, fv_tensor_dtype(x), fv_tensor_rank(x),
                                          fv_tensor_shape(x), t->copied));
    }
    return fv_ctx_error(t->ctx);
}

static fv_status set_state(void *self, const fv_params *state)
{
    play_task *t = self;
    FV_TRY(copy_params(t, state, COPY, fv_model_params(t->copy)));
    return fv_replay_load(&t->replay, t->game, state);
}

const fv_task_kind fv_task_play = {
    .struct_size = sizeof fv_task_play,
    .name = "play",
    .summary = "learn to play a game by deep recurrent Q-learning",
    .model = "agent",
    .keys = play_keys,
    .open = open_task,
    .prepare = prepare,
    .close = close_task,
    .report = report,
    .begin = begin,
    .batch = batch,
    .loss = loss,
    .end = end,
    .evaluate = evaluate,
    .show = show,
    .get_state = get_state,
    .set_state = set_state,
};
