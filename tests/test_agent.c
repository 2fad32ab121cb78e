/*
 * The agent: an episode as a whole and step by step, episodes of different lengths in one batch,
 * attention as a distribution, gradients, what is refused, and a folder that opens again.
 */
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/play.h"
#include "models/play.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

enum { C = 2, H = 6, W = 9, ACTIONS = 3, HIDDEN = 8, ROWS = 3, LONGEST = 5, PICTURE = C * H * W };

static const int64_t lengths[ROWS] = {3, 5, 2};
static float pictures[ROWS][LONGEST][PICTURE];
static int64_t actions[ROWS][LONGEST];

static void fill_inputs(void)
{
    uint32_t word[4];
    for (int i = 0; i < ROWS; i++)
        for (int t = 0; t < LONGEST; t++) {
            for (int k = 0; k < PICTURE; k++) {
                fv_rng_draw(1, (uint64_t)(i * LONGEST + t), (uint64_t)k, word);
                pictures[i][t][k] = fv_rng_unit(word[0]);
            }
            actions[i][t] = t ? (int64_t)(word[1] % ACTIONS) : -1;
        }
}

static fv_recipe *recipe_of(fv_ctx *ctx, const char *pooling)
{
    return run_recipe(ctx, (run_setting[]){{"agent.pooling", pooling},
                                           {"agent.channels", "6"},
                                           {"agent.heads", "2"},
                                           {"agent.hidden", "8"},
                                           {"agent.patch", "3"},
                                           {0}});
}

static fv_data_spec spec_of(void)
{
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    fv_data_spec_set(&spec, "channels", C);
    fv_data_spec_set(&spec, "height", H);
    fv_data_spec_set(&spec, "width", W);
    fv_data_spec_set(&spec, "actions", ACTIONS);
    return spec;
}

static fv_model *make_agent(fv_ctx *ctx, const char *pooling)
{
    fv_model *model = NULL;
    fv_recipe *recipe = recipe_of(ctx, pooling);
    const fv_data_spec spec = spec_of();
    fv_ctx_set_step(ctx, 0, 0);
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

/* Rows first .. first + rows - 1, all their steps, or with `step` >= 0 that one alone. */
typedef struct inputs {
    fv_batch batch;
    const void *pixels[ROWS], *actions[ROWS], *states[ROWS];
    int64_t length[ROWS];
} inputs;

static const fv_batch *batch_of(inputs *in, int first, int rows, int step, const float *state)
{
    fv_batch_init(&in->batch, rows);
    for (int i = 0; i < rows; i++) {
        in->pixels[i] = pictures[first + i][step < 0 ? 0 : step];
        in->actions[i] = &actions[first + i][step < 0 ? 0 : step];
        in->states[i] = state ? state + (ptrdiff_t)i * 2 * HIDDEN : NULL;
        in->length[i] = lengths[first + i];
    }
    const int64_t *length = step < 0 ? in->length : NULL;
    fv_batch_add(&in->batch, (fv_field){.name = "pixels",
                                        .dtype = FV_F32,
                                        .rank = 3,
                                        .shape = {C, H, W},
                                        .row = in->pixels,
                                        .length = length});
    fv_batch_add(
        &in->batch,
        (fv_field){.name = "last_action", .dtype = FV_I64, .row = in->actions, .length = length});
    if (state)
        fv_batch_add(&in->batch, (fv_field){.name = "state",
                                            .dtype = FV_F32,
                                            .rank = 1,
                                            .shape = {2 * HIDDEN},
                                            .row = in->states});
    return &in->batch;
}

static fv_tensor *act(fv_model *model, const fv_batch *batch)
{
    return fv_model_kind_of(model)->act(fv_model_ctx(model), fv_model_self(model), batch, NULL);
}

/* ---- passes --------------------------------------------------------------------------------- */

static const char *const poolings[] = {"attention", "mean", "flat"};

/* Step by step, with the state handed on, an episode has the values of the whole pass, to the bit;
 * and so has each row of a batch alone. */
static void steps_equal_the_whole_episode(void)
{
    for (int k = 0; k < 3; k++) {
        fv_ctx *ctx = run_context(2, 1);
        fv_model *model = make_agent(ctx, poolings[k]);
        inputs in;
        float whole[ROWS][LONGEST][ACTIONS], one[LONGEST][ACTIONS], last[2 * HIDDEN];
        fv_tensor *q = act(model, batch_of(&in, 0, ROWS, -1, NULL));
        CHECK_EQ(fv_tensor_size(q, 1), LONGEST);
        CHECK_OK(ctx, fv_tensor_read(ctx, q, whole, sizeof whole));
        for (int i = 0; i < ROWS; i++) {
            const size_t bytes = (size_t)lengths[i] * sizeof one[0];
            CHECK_OK(ctx,
                     fv_tensor_read(ctx, act(model, batch_of(&in, i, 1, -1, NULL)), one, bytes));
            CHECK(memcmp(one, whole[i], bytes) == 0);
            const float *state = NULL;
            for (int t = 0; t < lengths[i]; t++) {
                fv_tensor *next = NULL;
                q = fv_model_kind_of(model)->act_with_state(
                    ctx, fv_model_self(model), batch_of(&in, i, 1, t, state), NULL, &next);
                CHECK_EQ(fv_tensor_rank(q), 2);
                CHECK_OK(ctx, fv_tensor_read(ctx, q, one[0], sizeof one[0]));
                CHECK(memcmp(one[0], whole[i][t], sizeof one[0]) == 0);
                CHECK_OK(ctx, fv_tensor_read(ctx, next, last, sizeof last));
                state = last;
            }
        }
        /* The states after a batch of whole episodes are each row's own last ones. */
        fv_tensor *states = NULL;
        float all[ROWS][2 * HIDDEN];
        (void)fv_model_kind_of(model)->act_with_state(
            ctx, fv_model_self(model), batch_of(&in, 0, ROWS, -1, NULL), NULL, &states);
        CHECK_OK(ctx, fv_tensor_read(ctx, states, all, sizeof all));
        CHECK(memcmp(all[ROWS - 1], last, sizeof last) == 0);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* What an agent saw, and did, before changes the values of a later step. */
static void agents_remember(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_agent(ctx, "attention");
    inputs in;
    float before[3][ACTIONS], after[3][ACTIONS];
    CHECK_OK(ctx,
             fv_tensor_read(ctx, act(model, batch_of(&in, 0, 1, -1, NULL)), before, sizeof before));
    pictures[0][0][7] += 0.5f;
    CHECK_OK(ctx,
             fv_tensor_read(ctx, act(model, batch_of(&in, 0, 1, -1, NULL)), after, sizeof after));
    CHECK(memcmp(before[2], after[2], sizeof before[2]) != 0);
    pictures[0][0][7] -= 0.5f;
    actions[0][2] = (actions[0][2] + 1) % ACTIONS;
    CHECK_OK(ctx,
             fv_tensor_read(ctx, act(model, batch_of(&in, 0, 1, -1, NULL)), after, sizeof after));
    CHECK(memcmp(before[1], after[1], sizeof before[1]) == 0);
    CHECK(memcmp(before[2], after[2], sizeof before[2]) != 0);
    fill_inputs();
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { HEADS = 2, CELLS = 6 };
static float seen[ROWS][HEADS][LONGEST][CELLS];

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    int *calls = user;
    ++*calls;
    CHECK_STR(site->name, "step.0.grid");
    CHECK_EQ(site->captured.n_q, LONGEST);
    CHECK_EQ(site->captured.n_k, CELLS);
    return fv_tensor_read(ctx, site->captured.weights, seen, sizeof seen);
}

static void attention_is_a_distribution(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_agent(ctx, "attention"), *without = make_agent(ctx, "mean");
    fv_site site;
    inputs in;
    int calls = 0;
    const fv_capture capture = {.on_weights = take, .user = &calls};
    const fv_pass pass = {.capture = &capture};
    const fv_batch *batch = batch_of(&in, 0, ROWS, -1, NULL);
    CHECK_OK(ctx, fv_model_capture_attention(model, batch, &pass));
    CHECK_EQ(calls, 1);
    double apart = 0;
    for (int i = 0; i < ROWS; i++)
        for (int h = 0; h < HEADS; h++)
            for (int t = 0; t < lengths[i]; t++) {
                double sum = 0;
                for (int c = 0; c < CELLS; c++) {
                    CHECK(seen[i][h][t][c] > 0);
                    sum += (double)seen[i][h][t][c];
                    apart += fabs((double)(seen[i][h][t][c] - seen[i][h][0][c]));
                }
                CHECK_NEAR(sum, 1, 1e-6);
            }
    CHECK(apart > 1e-3); /* and looks elsewhere at another step */
    CHECK_EQ(fv_model_kind_of(model)->attention_sites(fv_model_self(model), &site, 1), 1);
    run_check_sites(model, 1);
    CHECK(site.rows == 2 && site.cols == 3 && site.heads == HEADS && site.keys == FV_AXIS_CELLS &&
          site.queries == FV_AXIS_STEPS);
    CHECK_EQ(fv_model_kind_of(without)->attention_sites(fv_model_self(without), &site, 1), 0);
    CHECK_OK(ctx, fv_model_capture_attention(without, batch, &pass));
    CHECK_EQ(calls, 1);
    fv_model_close(&model);
    fv_model_close(&without);
    fv_ctx_destroy(&ctx);
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* Every parameter gets the gradient that a difference of two losses says. */
static double loss_of(fv_model *model, bool backward)
{
    fv_ctx *ctx = fv_model_ctx(model);
    inputs in;
    double loss = 0;
    fv_scope_begin(ctx);
    fv_tensor *q = act(model, batch_of(&in, 1, 1, -1, NULL));
    fv_tensor *sum = fv_sum(ctx, fv_square(ctx, fv_affine(ctx, q, 1, 0.3)), 0, NULL, false);
    CHECK_OK(ctx, fv_tensor_item(ctx, sum, &loss));
    if (backward) CHECK_OK(ctx, fv_backward(ctx, sum));
    fv_scope_end(ctx);
    return loss;
}

static void every_parameter_learns(void)
{
    for (int k = 0; k < 3; k++) {
        fv_ctx *ctx = run_context(1, 1);
        fv_model *model = make_agent(ctx, poolings[k]);
        const fv_params *params = fv_model_params(model);
        (void)loss_of(model, true);
        for (int i = 0; i < fv_params_count(params); i++) {
            fv_tensor *x = fv_params_tensor(params, i);
            const int64_t n = fv_tensor_count(x), at = n / 2;
            float *values = malloc((size_t)n * sizeof *values),
                  *grads = malloc((size_t)n * sizeof *grads);
            CHECK_OK(ctx, fv_tensor_read(ctx, x, values, (size_t)n * sizeof *values));
            CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), grads, (size_t)n * sizeof *grads));
            const float kept = values[at], step = 0.01f;
            values[at] = kept + step;
            CHECK_OK(ctx, fv_tensor_write(ctx, x, values, (size_t)n * sizeof *values));
            const double up = loss_of(model, false);
            values[at] = kept - step;
            CHECK_OK(ctx, fv_tensor_write(ctx, x, values, (size_t)n * sizeof *values));
            const double down = loss_of(model, false);
            values[at] = kept;
            CHECK_OK(ctx, fv_tensor_write(ctx, x, values, (size_t)n * sizeof *values));
            const double wanted = (up - down) / (2 * (double)step);
            if (!(fabs(wanted - (double)grads[at]) <= 2e-3 + 0.02 * fabs(wanted)))
                test_failed(__FILE__, __LINE__, "%s, %s: gradient %g, expected %g", poolings[k],
                            fv_params_name(params, i), (double)grads[at], wanted);
            free(values);
            free(grads);
        }
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuse(const run_setting *settings, fv_data_spec spec, const char *why)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_recipe *recipe = run_recipe(ctx, settings);
    fv_model *model = NULL;
    CHECK_EQ(fv_model_create(ctx, "agent", recipe, &spec, &model), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), why))
        test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", fv_ctx_message(ctx), why);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void sizes_that_do_not_fit_are_refused(void)
{
    fv_data_spec spec = spec_of(), other = spec;
    refuse((run_setting[]){{"agent.patch", "4"}, {0}}, spec, "agent.patch is 4");
    refuse((run_setting[]){{"agent.heads", "5"}, {0}}, spec, "agent.heads is 5");
    other.ability = FV_CAN_CLASSIFY;
    refuse((run_setting[]){{0}}, other, "not classify");
    other = spec;
    fv_data_spec_set(&other, "actions", 1);
    refuse((run_setting[]){{0}}, other, "2 to 256 actions");
    other = spec;
    fv_data_spec_set(&other, "height", 1 << 20);
    refuse((run_setting[]){{0}}, other, "sides of 1 to 1024");
}

static void bad_batches_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_agent(ctx, "attention");
    inputs in;
    fv_batch batch = *batch_of(&in, 0, 1, 0, NULL);
    batch.field[0].shape[1] = W;
    batch.field[0].shape[2] = H;
    CHECK(!fv_tensor_valid(act(model, &batch)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    batch = *batch_of(&in, 0, 1, 0, NULL);
    batch.field[0].name = "frames";
    CHECK(!fv_tensor_valid(act(model, &batch)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    static const float state[2 * HIDDEN];
    batch = *batch_of(&in, 0, 1, 0, state);
    batch.field[2].shape[0] = HIDDEN;
    CHECK(!fv_tensor_valid(act(model, &batch)));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    actions[0][0] = ACTIONS; /* there is no such action */
    double sum = 0;
    fv_tensor *q = act(model, batch_of(&in, 0, 1, 0, NULL));
    CHECK_EQ(fv_tensor_item(ctx, fv_sum(ctx, q, 0, NULL, false), &sum), FV_ERR_INDEX);
    (void)fv_ctx_take_error(ctx);
    fill_inputs();
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- folders and episodes ------------------------------------------------------------------- */

static fv_data_spec maze_spec(int64_t side)
{
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    fv_data_spec_set(&spec, "maze", side);
    fv_data_spec_set(&spec, "channels", 3);
    fv_data_spec_set(&spec, "height", 15);
    fv_data_spec_set(&spec, "width", 15);
    fv_data_spec_set(&spec, "actions", 4);
    return spec;
}

/* The moves of an episode are those with the highest values, which one pass over the whole episode
 * computes again; the model plays the same from its folder. */
static void episodes_are_played_by_values(void)
{
    fv_ctx *ctx = run_context(1, 3);
    const fv_data_spec spec = maze_spec(7);
    fv_recipe *recipe = recipe_of(ctx, "attention");
    fv_model *model = NULL, *opened = NULL;
    fv_episode *e = NULL, *again = NULL;
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    CHECK_OK(ctx, fv_play_episode(model, FV_GAME_TEST, 1, 5, &e));
    CHECK_OK(ctx, fv_model_save(model, folder_sub("agent")));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("agent"), &opened));
    CHECK_OK(ctx, fv_play_episode(opened, FV_GAME_TEST, 1, 5, &again));
    double reward = 0;
    CHECK(e && again && e->count == again->count && e->heads == 2 && e->rows == 5 && e->cols == 5);
    for (int64_t i = 0; e && again && i < e->count; i++) {
        const fv_episode_move *m = &e->moves[i];
        for (int a = 0; a < 4; a++)
            CHECK(m->values[a] <= m->values[m->action]);
        CHECK(memcmp(m->values, again->moves[i].values, 4 * sizeof(float)) == 0);
        double sum = 0;
        for (int c = 0; c < 50; c++)
            sum += (double)m->weights[c];
        CHECK_NEAR(sum, 2, 1e-5);
        CHECK(memchr(m->board, 'a', 49) || memchr(m->board, 'A', 49));
        reward += m->reward;
    }
    if (e) CHECK_NEAR(e->reward, reward, 1e-9);
    fv_episode_free(&e);
    fv_episode_free(&again);
    fv_model_close(&model);
    fv_model_close(&opened);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void play_with(fv_data_spec spec, fv_status how, const char *why)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_recipe *recipe = recipe_of(ctx, "mean");
    fv_model *model = NULL;
    fv_episode *e = NULL;
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    CHECK_EQ(fv_play_episode(model, FV_GAME_TEST, 1, 0, &e), how);
    if (!strstr(fv_ctx_message(ctx), why))
        test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", fv_ctx_message(ctx), why);
    CHECK_EQ(fv_play_episode(model, FV_GAME_TEST, 1, -1, &e), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_play_episode(model, FV_GAME_PARTS, 1, 0, &e), FV_ERR_ARGUMENT);
    CHECK(!e);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void games_that_do_not_fit_are_refused(void)
{
    fv_data_spec spec = spec_of();
    play_with(spec, FV_ERR_UNSUPPORTED, "does not play a game");
    play_with(maze_spec(8), FV_ERR_FORMAT, "side 8, expected 5 to 15 in steps of 2");
    spec = maze_spec(7);
    fv_data_spec_set(&spec, "actions", 3);
    play_with(spec, FV_ERR_FORMAT, "4 actions");
}

/* What a played episode shows of each move is what the game and the whole pass have. */
static void episodes_show_what_happened(void)
{
    fv_ctx *ctx = run_context(1, 3);
    const fv_data_spec spec = maze_spec(5);
    fv_recipe *recipe = recipe_of(ctx, "attention");
    fv_model *model = NULL;
    fv_episode *e = NULL;
    fv_text text = {0};
    fv_game game;
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    CHECK(fv_params_find(fv_model_params(model), "values.bias") != NULL);
    CHECK_OK(ctx, fv_play_episode(model, FV_GAME_VALID, 1, 2, &e));
    if (!e) return;
    const size_t picture = (size_t)(e->channels * e->height * e->width);
    float *pixels = calloc((size_t)e->count * picture, sizeof *pixels);
    int64_t *before = calloc((size_t)e->count, sizeof *before);
    float *values = calloc((size_t)(e->count * e->action_count), sizeof *values);
    char board[FV_GAME_BOARD];
    fv_game_start(&game, fv_game_kind_find("maze"), 5, 1, FV_GAME_VALID, 2);
    for (int64_t i = 0; i < e->count; i++) {
        const fv_episode_move *m = &e->moves[i];
        game.kind->board(&game, board);
        CHECK(memcmp(board, m->board, 25) == 0);
        fv_game_observe(&game, pixels + (size_t)i * picture);
        CHECK(memcmp(pixels + (size_t)i * picture, m->pixels, picture * sizeof *pixels) == 0);
        before[i] = i ? e->moves[i - 1].action : -1;
        CHECK_NEAR(fv_game_move(&game, m->action), m->reward, 0);
    }
    game.kind->board(&game, board);
    CHECK(memcmp(board, e->last, 25) == 0 && e->won == game.won);
    fv_batch batch;
    const void *rows[] = {pixels, before};
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {e->channels, e->height, e->width},
                                    .row = &rows[0],
                                    .length = &e->count});
    fv_batch_add(
        &batch,
        (fv_field){.name = "last_action", .dtype = FV_I64, .row = &rows[1], .length = &e->count});
    CHECK_OK(ctx, fv_tensor_read(ctx, act(model, &batch), values,
                                 (size_t)(e->count * e->action_count) * sizeof *values));
    for (int64_t i = 0; i < e->count; i++)
        CHECK(memcmp(values + i * e->action_count, e->moves[i].values,
                     (size_t)e->action_count * sizeof *values) == 0);
    CHECK_OK(ctx, fv_episode_text(e, 40, &text));
    CHECK(strlen(text.data) == text.bytes && text.data[text.bytes - 1] == '\n');
    CHECK(strstr(text.data, " \n") == NULL);
    fv_text_free(ctx, &text);
    free(pixels);
    free(before);
    free(values);
    fv_episode_free(&e);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* Random moves are drawn by (seed, step, number, move): not by the episodes beside them. */
static void random_moves_have_their_keys(void)
{
    fv_ctx *ctx = run_context(1, 3);
    const fv_data_spec spec = maze_spec(7);
    fv_recipe *recipe = recipe_of(ctx, "mean");
    fv_model *model = NULL;
    fv_playing p, q;
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    CHECK_OK(ctx, fv_playing_init(&p, model, 8));
    CHECK_OK(ctx, fv_playing_init(&q, model, 8));
    fv_play_how how = {.seed = 4, .first = 20, .count = 8, .explore = 0.5, .step = 9};
    CHECK_OK(ctx, fv_playing_run(&p, &how));
    how.first = 23;
    how.count = 1;
    CHECK_OK(ctx, fv_playing_run(&q, &how));
    CHECK_EQ(p.played[3].number, q.played[0].number);
    CHECK_EQ(p.played[3].length, q.played[0].length);
    CHECK(memcmp(p.played[3].actions, q.played[0].actions, (size_t)q.played[0].length) == 0);
    how.step = 10;
    CHECK_OK(ctx, fv_playing_run(&q, &how));
    CHECK(p.played[3].length != q.played[0].length ||
          memcmp(p.played[3].actions, q.played[0].actions, (size_t)q.played[0].length) != 0);
    how.count = 9;
    CHECK_EQ(fv_playing_run(&q, &how), FV_ERR_ARGUMENT);
    fv_playing_free(&p);
    fv_playing_free(&q);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Makes an agent for a ball of three moves, plays and prints an episode. */
static fv_status use_agent(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    fv_model *model = NULL;
    fv_episode *e = NULL;
    fv_text text = {0};
    fv_data_spec_set(&spec, "catch", 4);
    fv_data_spec_set(&spec, "channels", 1);
    fv_data_spec_set(&spec, "height", 8);
    fv_data_spec_set(&spec, "width", 8);
    fv_data_spec_set(&spec, "actions", 3);
    fv_recipe *recipe = NULL;
    fv_status s = fv_run_recipe(ctx, &recipe);
    if (s == FV_OK) s = fv_recipe_set(recipe, "agent.patch", "4");
    if (s == FV_OK) s = fv_recipe_set(recipe, "agent.channels", "4");
    if (s == FV_OK) s = fv_model_create(ctx, "agent", recipe, &spec, &model);
    if (s == FV_OK) s = fv_play_episode(model, FV_GAME_VALID, 1, 2, &e);
    if (s == FV_OK) s = fv_episode_text(e, 80, &text);
    fv_text_free(ctx, &text);
    fv_episode_free(&e);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    return s;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(use_agent, NULL, 0) > 100); }

/* Episodes that end at different moves do not mix up what they remember. */
static void episodes_do_not_mix(void)
{
    enum { COUNT = 64 };
    fv_ctx *ctx = run_context(1, 3);
    const fv_data_spec spec = maze_spec(5);
    fv_recipe *recipe = recipe_of(ctx, "attention");
    fv_model *model = NULL;
    fv_playing p, q;
    int early = 0;
    CHECK_OK(ctx, fv_model_create(ctx, "agent", recipe, &spec, &model));
    CHECK_OK(ctx, fv_playing_init(&p, model, COUNT));
    CHECK_OK(ctx, fv_playing_init(&q, model, 1));
    fv_play_how how = {.seed = 4, .count = COUNT, .explore = 0.85, .step = 9};
    CHECK_OK(ctx, fv_playing_run(&p, &how));
    how.count = 1;
    for (how.first = 0; how.first < COUNT; how.first++) {
        const fv_played *together = &p.played[how.first], *alone = &q.played[0];
        CHECK_OK(ctx, fv_playing_run(&q, &how));
        early += alone->length < q.facts.limit;
        CHECK(together->length == alone->length &&
              memcmp(together->actions, alone->actions, (size_t)alone->length) == 0);
    }
    CHECK(early >= 1 && early < COUNT);
    fv_playing_free(&p);
    fv_playing_free(&q);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    fill_inputs();
    RUN(steps_equal_the_whole_episode);
    RUN(agents_remember);
    RUN(attention_is_a_distribution);
    RUN(every_parameter_learns);
    RUN(sizes_that_do_not_fit_are_refused);
    RUN(bad_batches_are_refused);
    RUN(episodes_are_played_by_values);
    RUN(games_that_do_not_fit_are_refused);
    RUN(random_moves_have_their_keys);
    RUN(episodes_show_what_happened);
    RUN(episodes_do_not_mix);
    RUN(memory_may_run_out);
    folder_remove();
    return TEST_END();
}
