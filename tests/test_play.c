/*
 * Deep recurrent Q-learning: targets and the loss by hand, episodes that are kept and restored,
 * runs that were cancelled and resumed, and an agent that learns to catch a ball on a small board.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/tasks/play.h"

/* ---- targets -------------------------------------------------------------------------------- */

static void expect_target(const fv_q_target *t, double reward, double discount, double weight,
                          int64_t next)
{
    CHECK_NEAR((double)t->reward, reward, 1e-6);
    CHECK_NEAR((double)t->discount, discount, 1e-6);
    CHECK_NEAR((double)t->weight, weight, 0);
    if (discount > 0) CHECK_EQ(t->next, next);
    CHECK(t->next >= 0 && t->next < 4);
}

/* Rewards 1, 2, 4, 8 with a discount of 1/2. */
static void targets_add_up_rewards(void)
{
    static const float rewards[] = {1, 2, 4, 8};
    const fv_q_rule one = {.discount = 0.5, .n_step = 1}, two = {.discount = 0.5, .n_step = 2},
                    many = {.discount = 0.5, .n_step = 10};
    fv_q_target t[4];
    fv_q_targets(&one, 4, true, rewards, t);
    expect_target(&t[0], 1, 0.5, 1, 1);
    expect_target(&t[2], 4, 0.5, 1, 3);
    expect_target(&t[3], 8, 0, 1, 0); /* the end: nothing follows */
    fv_q_targets(&two, 4, true, rewards, t);
    expect_target(&t[0], 1 + 1, 0.25, 1, 2);
    expect_target(&t[1], 2 + 2, 0.25, 1, 3);
    expect_target(&t[2], 4 + 4, 0, 1, 0);
    expect_target(&t[3], 8, 0, 1, 0);
    fv_q_targets(&many, 4, true, rewards, t);
    expect_target(&t[0], 1 + 1 + 1 + 1, 0, 1, 0);
    CHECK_EQ(fv_q_target_count(4, true), 4);
}

/* The limit is not an end: targets lead to the last observation, whose move has none. */
static void a_limit_is_not_an_end(void)
{
    static const float rewards[] = {1, 2, 4, 8};
    const fv_q_rule two = {.discount = 0.5, .n_step = 2};
    fv_q_target t[4];
    fv_q_targets(&two, 4, false, rewards, t);
    expect_target(&t[0], 2, 0.25, 1, 2);
    expect_target(&t[1], 4, 0.25, 1, 3);
    expect_target(&t[2], 4, 0.5, 1, 3);
    expect_target(&t[3], 0, 0, 0, 0);
    CHECK_EQ(fv_q_target_count(4, false), 3);
    fv_q_targets(&two, 1, false, rewards, t);
    expect_target(&t[0], 0, 0, 0, 0);
}

/* ---- the loss ------------------------------------------------------------------------------- */

enum { MOVES = 3, ACTIONS = 2 };

/* One episode of three moves and two actions:
 *
 *     t   Q          Q'          a   reward  discount  next
 *     0   1.0  2.0   10  20      0   0.5     0.5       1
 *     1   5.0  3.0   0.4 0.8     1   0       0.5       2
 *     2   0.0  1.0   0.6 0.2     1   4       0         2
 *
 * double Q: y_0 = 0.5 + 0.5 Q'(1, argmax Q(1) = 0) = 0.7, y_1 = 0.5 Q'(2, 1) = 0.1, y_2 = 4;
 * otherwise: y_0 = 0.5 + 0.5 max Q'(1) = 0.9, y_1 = 0.5 max Q'(2) = 0.3, y_2 = 4.
 */
static double loss_by_hand(bool double_q, float grad[MOVES][ACTIONS])
{
    static const float q[MOVES][ACTIONS] = {{1, 2}, {5, 3}, {0, 1}},
                       copy[MOVES][ACTIONS] = {{10, 20}, {0.4f, 0.8f}, {0.6f, 0.2f}};
    static const int64_t action[MOVES] = {0, 1, 1}, next[MOVES] = {1, 2, 2};
    static const float reward[MOVES] = {0.5f, 0, 4}, discount[MOVES] = {0.5f, 0.5f, 0},
                       weight[MOVES] = {1, 1, 1};
    const void *rows[] = {action, next, reward, discount, weight};
    static const char *const names[] = {"action", "next", "reward", "discount", "weight"};
    const int64_t length = MOVES, shape[] = {1, MOVES, ACTIONS};
    fv_ctx *ctx = run_context(1, 1);
    fv_params *params = NULL;
    fv_batch batch;
    double loss = 0;
    fv_batch_init(&batch, 1);
    for (int i = 0; i < 5; i++)
        fv_batch_add(&batch, (fv_field){.name = names[i],
                                        .dtype = i < 2 ? FV_I64 : FV_F32,
                                        .row = &rows[i],
                                        .length = &length});
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_tensor *values = fv_params_add(params, "q", fv_from_host(ctx, FV_F32, 3, shape, q));
    fv_tensor *older = fv_params_add(params, "copy", fv_from_host(ctx, FV_F32, 3, shape, copy));
    fv_tensor *sum = fv_q_loss(ctx, &batch, double_q, values, older);
    CHECK_OK(ctx, fv_tensor_item(ctx, sum, &loss));
    CHECK_OK(ctx, fv_backward(ctx, sum));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, values), grad, sizeof(float[MOVES][ACTIONS])));
    CHECK(!fv_grad(ctx, older));
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return loss;
}

/* Huber: d^2 / 2 up to 1, then |d| - 1/2; the gradient is d cut to -1 .. 1, and only at the action
 * that was taken: none flows into the targets. */
static void losses_are_those_by_hand(void)
{
    float g[MOVES][ACTIONS];
    /* d = 0.3, 2.9, -3 */
    CHECK_NEAR(loss_by_hand(true, g), 0.5 * 0.3 * 0.3 + 2.4 + 2.5, 1e-5);
    CHECK_NEAR((double)g[0][0], 0.3, 1e-6);
    CHECK_NEAR((double)g[1][1], 1, 1e-6);
    CHECK_NEAR((double)g[2][1], -1, 1e-6);
    CHECK(g[0][1] == 0 && g[1][0] == 0 && g[2][0] == 0);
    /* d = 0.1, 2.7, -3 */
    CHECK_NEAR(loss_by_hand(false, g), 0.5 * 0.1 * 0.1 + 2.2 + 2.5, 1e-5);
    CHECK_NEAR((double)g[0][0], 0.1, 1e-6);
}

/* ---- batches -------------------------------------------------------------------------------- */

/* Rows are the episodes played again: pictures, actions before and now, targets; "next" counts in
 * the padded batch. */
static void rows_are_played_again(void)
{
    const fv_game_kind *kind = fv_game_kind_find("catch");
    const fv_game_facts facts = kind->facts(5);
    const fv_q_rule rule = {.discount = 0.5, .n_step = 1};
    fv_ctx *ctx = run_context(1, 1);
    fv_play_rows rows;
    uint8_t first[] = {0, 1, 2, 2}, second[] = {2, 2, 1, 0};
    const fv_played played[] = {{.number = 3, .length = 4, .actions = first, .ended = true},
                                {.number = 8, .length = 2, .actions = second, .ended = false}};
    static float wanted[100];
    CHECK_OK(ctx, fv_play_rows_create(ctx, 2, &facts, &rule, &rows));
    fv_play_rows_clear(&rows);
    for (int i = 0; i < 2; i++) {
        fv_game game;
        fv_game_start(&game, kind, 5, 1, FV_GAME_TRAIN, played[i].number);
        fv_play_rows_add(&rows, &game, &played[i]);
    }
    const fv_batch batch = fv_play_rows_batch(&rows);
    CHECK_EQ(batch.rows, 2);
    fv_game game;
    fv_game_start(&game, kind, 5, 1, FV_GAME_TRAIN, 3);
    for (int t = 0; t < 3; t++)
        (void)fv_game_move(&game, first[t]);
    fv_game_observe(&game, wanted);
    const float *pixels = fv_batch_find(&batch, "pixels")->row[0];
    CHECK(memcmp(pixels + 300, wanted, sizeof wanted) == 0);
    const int64_t *before = fv_batch_find(&batch, "last_action")->row[0],
                  *next = fv_batch_find(&batch, "next")->row[1],
                  *action = fv_batch_find(&batch, "action")->row[1];
    const float *reward = fv_batch_find(&batch, "reward")->row[0],
                *weight = fv_batch_find(&batch, "weight")->row[1];
    CHECK(before[0] == -1 && before[1] == 0 && before[3] == 2 && action[0] == 2);
    CHECK_EQ(next[0], 4 + 1); /* the second row begins at the longest row's length */
    (void)fv_game_move(&game, first[3]);
    CHECK(reward[0] == 0 && reward[3] == (game.won ? 1 : -1));
    CHECK(weight[0] == 1 && weight[1] == 0);
    CHECK_EQ(fv_batch_find(&batch, "pixels")->length[1], 2);
    fv_play_rows_free(&rows);
    fv_ctx_destroy(&ctx);
}

/* A game whose pictures are no squares: channel c of row y and column x is 100 c + 10 y + x. */
enum { OBLONG_CHANNELS = 3, OBLONG_HEIGHT = 4, OBLONG_WIDTH = 5, OBLONG_MOVES = 2 };

static fv_game_facts oblong_facts(int32_t side)
{
    (void)side;
    return (fv_game_facts){OBLONG_CHANNELS, OBLONG_HEIGHT, OBLONG_WIDTH, OBLONG_MOVES};
}

static int oblong_move(fv_game *game, int action)
{
    (void)game;
    return action;
}

static void oblong_observe(const fv_game *game, float *pixels)
{
    for (int c = 0; c < OBLONG_CHANNELS; c++)
        for (int y = 0; y < OBLONG_HEIGHT; y++)
            for (int x = 0; x < OBLONG_WIDTH; x++)
                *pixels++ = (float)(1000 * game->moves + 100 * c + 10 * y + x);
}

static void pictures_need_not_be_square(void)
{
    static const fv_game_kind kind = {
        .name = "oblong", .facts = oblong_facts, .move = oblong_move, .observe = oblong_observe};
    const fv_game_facts facts = oblong_facts(5);
    const fv_q_rule rule = {.discount = 0.5, .n_step = 1};
    fv_ctx *ctx = run_context(1, 1);
    fv_play_rows rows;
    uint8_t actions[OBLONG_MOVES] = {1, 0};
    const fv_played played = {.number = 1, .length = OBLONG_MOVES, .actions = actions};
    CHECK_OK(ctx, fv_play_rows_create(ctx, 2, &facts, &rule, &rows));
    fv_play_rows_clear(&rows);
    for (int i = 0; i < 2; i++) {
        fv_game game = {.kind = &kind, .side = 5};
        fv_play_rows_add(&rows, &game, &played);
    }
    const fv_batch batch = fv_play_rows_batch(&rows);
    const fv_field *f = fv_batch_find(&batch, "pixels");
    CHECK(f->shape[0] == OBLONG_CHANNELS && f->shape[1] == OBLONG_HEIGHT &&
          f->shape[2] == OBLONG_WIDTH);
    for (int i = 0; i < 2; i++) {
        const float *p = f->row[i];
        for (int t = 0; t < OBLONG_MOVES; t++)
            for (int c = 0; c < OBLONG_CHANNELS; c++)
                for (int y = 0; y < OBLONG_HEIGHT; y++)
                    for (int x = 0; x < OBLONG_WIDTH; x++)
                        CHECK(*p++ == (float)(1000 * t + 100 * c + 10 * y + x));
    }
    fv_play_rows_free(&rows);
    fv_ctx_destroy(&ctx);
}

/* ---- episodes kept -------------------------------------------------------------------------- */

static void push(fv_replay *r, int64_t number, int64_t length)
{
    uint8_t actions[4] = {1, 2, 0, 1};
    const fv_played p = {
        .number = number, .length = length, .actions = actions, .ended = number % 2 == 0};
    fv_replay_push(r, &p);
}

/* The newest stay; a state brings all of them back, and a broken one is refused. */
static void episodes_are_kept_and_restored(void)
{
    const fv_game_kind *kind = fv_game_kind_find("catch");
    fv_ctx *ctx = run_context(1, 1);
    fv_replay r, other;
    fv_params *state = NULL;
    CHECK_OK(ctx, fv_replay_create(ctx, 3, 4, &r));
    CHECK_OK(ctx, fv_replay_create(ctx, 3, 4, &other));
    CHECK_EQ(fv_replay_count(&r), 0);
    for (int i = 0; i < 5; i++)
        push(&r, 10 + i, 1 + i % 4);
    CHECK_EQ(fv_replay_count(&r), 3);
    CHECK_OK(ctx, fv_params_create(ctx, &state));
    CHECK_OK(ctx, fv_replay_save(&r, state));
    CHECK_OK(ctx, fv_replay_load(&other, kind, state));
    CHECK_EQ(other.pushed, 5);
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        const fv_played a = fv_replay_get(&r, i), b = fv_replay_get(&other, i);
        CHECK(a.number == b.number && a.length == b.length && a.ended == b.ended);
        CHECK(a.ended == (a.number % 2 == 0) && a.number >= 12);
        CHECK(memcmp(a.actions, b.actions, 4) == 0);
        sum += a.number;
    }
    CHECK_EQ(sum, 12 + 13 + 14);
    push(&r, 20, 4);
    push(&other, 20, 4);
    CHECK(fv_replay_get(&r, 2).number == 20 && fv_replay_get(&other, 2).number == 20);
    /* No game has such an action, and no episode such a length. */
    const uint8_t action = 3;
    const int32_t length = 5;
    fv_tensor *actions = fv_params_find(state, "replay.actions");
    CHECK_OK(ctx,
             fv_tensor_write(ctx, fv_slice(ctx, fv_slice(ctx, actions, 0, 0, 1, 1), 1, 0, 1, 1),
                             &action, 1));
    CHECK_EQ(fv_replay_load(&other, kind, state), FV_ERR_FORMAT);
    CHECK_EQ(fv_replay_count(&other), 0);
    CHECK_OK(ctx, fv_replay_load(&other, fv_game_kind_find("maze"), state));
    fv_tensor *lengths = fv_params_find(state, "replay.length");
    CHECK_OK(ctx, fv_tensor_write(ctx, fv_slice(ctx, lengths, 0, 0, 1, 1), &length, sizeof length));
    CHECK_EQ(fv_replay_load(&other, fv_game_kind_find("maze"), state), FV_ERR_FORMAT);
    fv_replay_free(&other);
    CHECK_OK(ctx, fv_replay_create(ctx, 4, 4, &other)); /* kept with another capacity */
    CHECK_EQ(fv_replay_load(&other, kind, state), FV_ERR_FORMAT);
    fv_replay_free(&r);
    fv_replay_free(&other);
    fv_params_destroy(&state);
    fv_ctx_destroy(&ctx);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static const run_setting small[] = {{"train.task", "play"},
                                    {"play.game", "catch"},
                                    {"play.side", "5"},
                                    {"play.episodes", "6"},
                                    {"play.every", "2"},
                                    {"play.memory", "20"},
                                    {"play.n_step", "2"},
                                    {"play.explore_steps", "8"},
                                    {"play.copy_every", "3"},
                                    {"play.valid_count", "20"},
                                    {"agent.patch", "2"},
                                    {"agent.channels", "8"},
                                    {"agent.hidden", "12"},
                                    {"train.steps", "10"},
                                    {"train.batch_examples", "5"},
                                    {"train.accumulate", "2"},
                                    {"train.optimizer", "adam"},
                                    {"train.eval_every", "5"},
                                    {"train.save_every", "5"},
                                    {0}};

static fv_status train_small(const char *folder, int threads, uint64_t stop, run_watch *watch)
{
    fv_ctx *ctx = run_context(threads, 1);
    *watch = (run_watch){.stop = stop};
    return run_text(ctx, run_recipe(ctx, small), folder, watch);
}

/* Every tensor of two states has the same bytes. */
static void check_states(const char *a, const char *b)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_safetensors *files[2] = {NULL, NULL};
    char path[1100];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/state-00000010.safetensors", i ? b : a);
        CHECK_OK(ctx, fv_safetensors_open(ctx, path, FV_SAFETENSORS_VERIFY, &files[i]));
    }
    CHECK(fv_safetensors_find(files[0], "task.replay.actions") != NULL);
    CHECK(fv_safetensors_find(files[0], "task.copy.values.weight") != NULL);
    for (size_t i = 0; files[0] && files[1] && i < fv_safetensors_count(files[0]); i++) {
        const fv_file_entry *x = fv_safetensors_entry(files[0], i),
                            *y = fv_safetensors_find(files[1], x->name);
        if (!y || x->bytes != y->bytes) {
            test_failed(__FILE__, __LINE__, "%s differs in size", x->name);
            continue;
        }
        char *p = malloc((size_t)x->bytes + 1), *q = malloc((size_t)x->bytes + 1);
        CHECK_OK(ctx, fv_safetensors_read(files[0], x, 0, p, (size_t)x->bytes));
        CHECK_OK(ctx, fv_safetensors_read(files[1], y, 0, q, (size_t)y->bytes));
        if (memcmp(p, q, (size_t)x->bytes) != 0)
            test_failed(__FILE__, __LINE__, "%s differs", x->name);
        free(p);
        free(q);
    }
    fv_safetensors_close(&files[0]);
    fv_safetensors_close(&files[1]);
    fv_ctx_destroy(&ctx);
}

/* Cancelled after each step, with another number of threads, and resumed. */
static void a_resumed_run_has_the_same_bits(void)
{
    char whole[1024], broken[1024];
    run_watch watch;
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    CHECK_EQ(train_small(whole, 1, 0, &watch), FV_OK);
    for (uint64_t stop = 1; stop < 10; stop += 2) {
        snprintf(broken, sizeof broken, "%s", folder_sub("broken"));
        CHECK_EQ(train_small(broken, 2, stop, &watch), FV_ERR_CANCELLED);
        CHECK_EQ(train_small(broken, 1, 0, &watch), FV_OK);
        CHECK_EQ(watch.seen[FV_TRAIN_RESUMED], 1);
        check_states(whole, broken);
        CHECK(file_same_in(whole, broken, "model.safetensors"));
        tree_remove(broken);
    }
    tree_remove(whole);
}

/* Before the first copy the targets are those of the first weights, and the copy is saved. */
static void settings_that_do_not_fit_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_recipe *recipe = run_recipe(ctx, small);
    fv_run *run = NULL;
    run_set(ctx, recipe, (run_setting[]){{"play.side", "3"}, {0}});
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub("refused"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "play.side is 3, expected 4 to 15"));
    run_set(ctx, recipe, (run_setting[]){{"play.side", "5"}, {"train.epochs", "2"}, {0}});
    CHECK_EQ(fv_run_create(ctx, recipe, folder_path("refused"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "no epochs"));
    run_set(ctx, recipe, (run_setting[]){{"train.epochs", "0"}, {"model.kind", "cnn"}, {0}});
    CHECK_EQ(fv_run_create(ctx, recipe, folder_path("refused"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* On a board of 8 x 8 an agent learns within seconds what random play does not do: it catches one
 * ball in three. (On smaller boards the few falls of the training part say too much about each
 * other, and a fall that was held out surprises the agent.) */
static void an_agent_learns_to_catch(void)
{
    fv_ctx *ctx = run_context(2, 1);
    fv_recipe *recipe = run_recipe(ctx, small);
    run_watch watch = {.stop = 0};
    run_set(ctx, recipe,
            (run_setting[]){{"train.steps", "400"},
                            {"train.lr", "0.005"},
                            {"play.side", "8"},
                            {"agent.patch", "4"},
                            {"agent.channels", "16"},
                            {"train.batch_examples", "16"},
                            {"train.accumulate", "1"},
                            {"train.schedule", "cosine"},
                            {"train.eval_every", "400"},
                            {"train.save_every", "400"},
                            {"play.episodes", "16"},
                            {"play.memory", "1000"},
                            {"play.n_step", "3"},
                            {"play.explore_steps", "100"},
                            {"play.copy_every", "20"},
                            {"play.valid_count", "200"},
                            {"agent.hidden", "32"},
                            {0}});
    CHECK_EQ(run_text(ctx, recipe, folder_sub("learn"), &watch), FV_OK);
    CHECK_STR(watch.last[0].name, "won");
    if (!(watch.last[0].value >= 0.8))
        test_failed(__FILE__, __LINE__, "caught %.3f of the balls", watch.last[0].value);
    CHECK_NEAR(watch.last[1].value, 2 * watch.last[0].value - 1, 1e-6); /* reward */
    CHECK_EQ(watch.last[2].value, 7);                                   /* moves */
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(targets_add_up_rewards);
    RUN(a_limit_is_not_an_end);
    RUN(losses_are_those_by_hand);
    RUN(rows_are_played_again);
    RUN(pictures_need_not_be_square);
    RUN(episodes_are_kept_and_restored);
    RUN(a_resumed_run_has_the_same_bits);
    RUN(settings_that_do_not_fit_are_refused);
    RUN(an_agent_learns_to_catch);
    folder_remove();
    return TEST_END();
}
