/*
 * Learning to learn: advantages and the loss by hand, trials step by step against the whole
 * sequence, learning, runs that were cancelled and resumed, wrong settings, failing memory.
 */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/trial.h"
#include "models/trials.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"
#include "train/tasks/trials_rows.h"

static const fv_trial_config arms = {
    .kind = FV_TRIAL_BANDIT, .actions = 2, .states = 1, .horizon = 1, .episodes = 6, .seed = 3};
static const fv_trial_config process = {
    .kind = FV_TRIAL_MDP, .actions = 2, .states = 3, .horizon = 4, .episodes = 5, .seed = 3};

/* ---- advantages and the loss ---------------------------------------------------------------- */

/* Sizes of rows: `pulls` of two arms have five inputs. */
static fv_trial_config pulls_of(int64_t pulls)
{
    fv_trial_config cfg = arms;
    cfg.episodes = pulls;
    return cfg;
}

/*
 * Two trials of one problem with two steps, discount 1/2, lambda 1/2; - regret / 2, m / 2:
 *
 *     r / 2   m / 2      w      v = w - m / 2   g_1   g_0
 *     1  2    0.5  -0.5  0.5 1  0  1.5          0.5   1 + 0.75 - 0 + 0.25 * 0.5 = 1.875
 *     3  0    1    0     1   2  0  2            -2    3 + 1 - 0 - 0.25 * 2 = 3.5
 *
 * advantage: 0.375, -1 and -0.5, -2, of runs of one problem 0.875, 1 and -0.875, -1; what is taken
 * without a draw, (r + m) / 2: 1.5, 1.5 and 4, 0. Of rewards alone: g_1 = 1, g_0 = 1.25 and
 * -2, 2.5.
 */
static void advantages_are_those_by_hand(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_rows rows;
    const fv_trial_config cfg = pulls_of(2);
    int64_t action[4] = {0, 1, 1, 0};
    float rewards[4] = {2, 4, 6, 0}, regret[4] = {-2, -4, -6, 0}, mean[4] = {1, -1, 2, 0},
          values[4] = {0.5f, 1, 1, 2}, log_p[4] = {-1, -2, -3, -4}, observed[20], other[4] = {0},
          regrets[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 20; i++)
        observed[i] = (float)i;
    fv_trials played = {.action = action,
                        .reward = other,
                        .regret = regret,
                        .regrets = regrets,
                        .mean_regret = mean,
                        .value = values,
                        .log_p = log_p,
                        .observed = observed};
    fv_advantage_rule rule = {.discount = 0.5, .lambda = 0.5, .runs = 2, .regret = true};
    CHECK_OK(ctx, fv_trial_rows_create(ctx, 2, &cfg, &rows));
    fv_trial_rows_fill(&rows, &played, 2, &rule);
    const double size = sqrt((2 * 0.875 * 0.875 + 2 + 1.5 * 1.5 + 1.5 * 1.5 + 16) / 4);
    const double want[4] = {0.875 / size, 1 / size, -0.875 / size, -1 / size},
                 target[4] = {0.875, 0, 0.5, 0};
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR((double)rows.advantage[i], want[i], 1e-6);
        CHECK_NEAR((double)rows.target[i], target[i], 1e-6);
        CHECK(rows.action[i] == action[i] && rows.log_p[i] == log_p[i]);
    }
    for (int i = 0; i < 8; i++)
        CHECK_NEAR((double)rows.regrets[i], (i + 1) / 2.0 / size, 1e-6);
    const fv_batch second = fv_trial_rows_batch(&rows, 1, 1);
    CHECK(second.rows == 1 && *(const float *)second.field[0].row[0] == 10);
    CHECK_EQ(second.field[0].length[0], 2);
    CHECK_NEAR((double)*(const float *)second.field[5].row[0], 2.5 / size, 1e-6);
    CHECK_STR(second.field[4].name, "target");
    CHECK(second.field[4].row[0] == &rows.target[2] &&
          second.field[3].row[0] == &rows.advantage[2]);
    rule.runs = 1;
    rule.regret = false;
    played.reward = rewards;
    played.regret = other;
    fv_trial_rows_fill(&rows, &played, 2, &rule);
    const double alone = sqrt((1.25 * 1.25 + 1 + 2.5 * 2.5 + 4) / 4);
    CHECK_NEAR((double)rows.advantage[0], 1.25 / alone, 1e-6);
    CHECK_NEAR((double)rows.advantage[3], -2 / alone, 1e-6);
    CHECK_NEAR((double)rows.target[2], 3.5, 1e-6);
    CHECK(rows.regrets[1] == 0 && rows.regrets[7] == 0);
    fv_trial_rows_free(&rows);
    fv_ctx_destroy(&ctx);
}

/* Kept rows come back from a state, and a state that lacks any array is refused. */
static void rows_are_saved(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_rows rows, again;
    fv_params *state = NULL;
    const fv_trial_config cfg = pulls_of(2);
    CHECK_OK(ctx, fv_trial_rows_create(ctx, 2, &cfg, &rows));
    CHECK_OK(ctx, fv_trial_rows_create(ctx, 2, &cfg, &again));
    for (int i = 0; i < 4; i++) {
        rows.target[i] = (float)i;
        rows.action[i] = i % 2;
        rows.observed[i] = (float)-i;
    }
    CHECK_OK(ctx, fv_params_create(ctx, &state));
    CHECK_OK(ctx, fv_trial_rows_save(&rows, state));
    CHECK_OK(ctx, fv_trial_rows_load(&again, state));
    CHECK(memcmp(rows.target, again.target, 4 * sizeof(float)) == 0 &&
          memcmp(rows.action, again.action, 4 * sizeof(int64_t)) == 0 &&
          memcmp(rows.observed, again.observed, 4 * sizeof(float)) == 0);
    for (int without = 0; without < fv_params_count(state); without++) {
        fv_params *less = NULL;
        CHECK_OK(ctx, fv_params_create(ctx, &less));
        for (int i = 0; i < fv_params_count(state); i++)
            if (i != without)
                fv_params_add_buffer(less, fv_params_name(state, i), fv_params_tensor(state, i));
        CHECK_EQ(fv_trial_rows_load(&again, less), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), fv_params_name(state, without)) != NULL);
        fv_params_destroy(&less);
    }
    fv_params_destroy(&state);
    fv_trial_rows_free(&rows);
    fv_trial_rows_free(&again);
    fv_ctx_destroy(&ctx);
}

enum { STEPS = 4 };

/*
 * Probabilities 1/2 and 1/2 of both actions in every step. q = 1.5, 1.5, 0.5 and 1; with c = 0.2:
 *     q A, held A:  A = 1: 1.5, 1.2 -> 1.2, no gradient    A = -1: -1.5, -1.2 -> -1.5
 *                   A = -2: -1, -1.6 -> -1.6, no gradient    A = 3: 3, 3 -> 3
 */
static void losses_are_those_by_hand(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_rows rows;
    fv_params *params = NULL;
    static const double q[STEPS] = {1.5, 1.5, 0.5, 1};
    static const float gain[STEPS] = {1, -1, -2, 3};
    float g[STEPS][2], gv[STEPS];
    double loss = 0;
    const fv_trial_config cfg = pulls_of(STEPS);
    CHECK_OK(ctx, fv_trial_rows_create(ctx, 1, &cfg, &rows));
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    for (int i = 0; i < STEPS; i++) {
        rows.action[i] = i % 2;
        rows.log_p[i] = (float)log(0.5 / q[i]);
        rows.advantage[i] = gain[i];
        rows.target[i] = (float)i;
        rows.regrets[2 * i] = (float)i;
    }
    const fv_batch batch = fv_trial_rows_batch(&rows, 0, 1);
    const int64_t shape[3] = {1, STEPS, 2};
    fv_tensor *logits = fv_params_add(params, "l", fv_zeros(ctx, FV_F32, 3, shape)),
              *values = fv_params_add(params, "v", fv_full(ctx, FV_F32, 2, shape, 1));
    const fv_trial_weights weights = {.clip = 0.2, .value = 0.5, .entropy = 0.1};
    fv_tensor *sum = fv_trial_loss(ctx, &batch, &weights, logits, values);
    CHECK_OK(ctx, fv_tensor_item(ctx, sum, &loss));
    const double squares = 1 + 0 + 1 + 4, gained = 1.2 - 1.5 - 1.6 + 3;
    CHECK_NEAR(loss, 0.5 * squares - gained + 0.5 * (1 + 2 + 3) - 0.1 * STEPS * log(2), 1e-5);
    CHECK_OK(ctx, fv_backward(ctx, sum));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, logits), g, sizeof g));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, values), gv, sizeof gv));
    /* -A q (1 - p) for the action taken; the entropy is at its highest */
    static const double slope[STEPS] = {0, 1.5 * 0.5, 0, -3 * 0.5};
    for (int i = 0; i < STEPS; i++) {
        const double cost = 0.25 * i; /* of the first action: p (1 - p) regret */
        CHECK_NEAR((double)g[i][0], (i % 2 ? -slope[i] : slope[i]) + cost, 1e-5);
        CHECK_NEAR((double)g[i][1], (i % 2 ? slope[i] : -slope[i]) - cost, 1e-5);
        CHECK_NEAR((double)gv[i], 1 - i, 1e-6);
    }
    fv_params_destroy(&params);
    fv_trial_rows_free(&rows);
    fv_ctx_destroy(&ctx);
}

/* The entropy's weight has a gradient where the probabilities differ. */
static void entropy_holds_actions_apart(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_trial_rows rows;
    fv_params *params = NULL;
    float g[2];
    const fv_trial_config cfg = pulls_of(1);
    CHECK_OK(ctx, fv_trial_rows_create(ctx, 1, &cfg, &rows));
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    const fv_batch batch = fv_trial_rows_batch(&rows, 0, 1);
    fv_tensor *logits = fv_params_add(params, "l", tensor_of(ctx, (float[]){1, 0}, 3, 1, 1, 2)),
              *values = fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, 1});
    const fv_trial_weights weights = {.clip = 0.2, .value = 0.5, .entropy = 0.1};
    CHECK_OK(ctx, fv_backward(ctx, fv_trial_loss(ctx, &batch, &weights, logits, values)));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, logits), g, sizeof g));
    const double p = 1 / (1 + exp(-1)); /* dH/dl = -p (1 - p) (l_0 - l_1) */
    CHECK_NEAR((double)g[0], 0.1 * p * (1 - p), 1e-6);
    CHECK_NEAR((double)g[1], -0.1 * p * (1 - p), 1e-6);
    fv_params_destroy(&params);
    fv_trial_rows_free(&rows);
    fv_ctx_destroy(&ctx);
}

/* ---- models --------------------------------------------------------------------------------- */

static fv_model *make_model(fv_ctx *ctx, const fv_trial_config *cfg, const char *memory)
{
    const run_setting small[] = {{"snail.memory", memory},
                                 {"snail.stages", "tc 4, attention 3 5"},
                                 {"snail.embedding", "6"},
                                 {"snail.hidden", "7"},
                                 {0}};
    fv_recipe *recipe = run_recipe(ctx, small);
    fv_model *model = NULL;
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    CHECK(fv_data_spec_set(&spec, "mdp", cfg->kind) &&
          fv_data_spec_set(&spec, "actions", cfg->actions) &&
          fv_data_spec_set(&spec, "states", cfg->states) &&
          fv_data_spec_set(&spec, "horizon", cfg->horizon) &&
          fv_data_spec_set(&spec, "episodes", cfg->episodes));
    CHECK_OK(ctx, fv_model_create(ctx, "snail", recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

/* Makes the policy differ from uniform. */
static void sharpen(fv_ctx *ctx, fv_model *model)
{
    fv_tensor *w = fv_params_find(fv_model_params(model), "policy.weight");
    const int64_t n = fv_tensor_count(w);
    float *x = tensor_floats(ctx, w);
    for (int64_t i = 0; i < n; i++)
        x[i] *= 200;
    CHECK_OK(ctx, fv_tensor_write(ctx, w, x, (size_t)n * sizeof *x));
    free(x);
}

static void observations_say_what_happened(void)
{
    float x[11];
    CHECK_EQ(fv_trial_inputs(&arms), 5);
    CHECK_EQ(fv_trial_inputs(&process), 11);
    fv_trial_observe(&process, 6, 1, 1, 2.5, 2, x);
    static const float want[11] = {0, 1, 2.5f, 0, 6.0f / 20, 0, 0, 1, 0, 1, 0};
    CHECK(memcmp(x, want, sizeof want) == 0);
    fv_trial_observe(&process, 0, 0, -1, 0, 0, x);
    static const float first[11] = {0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0};
    CHECK(memcmp(x, first, sizeof first) == 0);
}

/* Trials are played step by step; the whole sequence gives the same probabilities and values. */
static void steps_equal_the_whole_trial(void)
{
    static const char *const memories[] = {"snail", "lstm"};
    enum { COUNT = 6 };
    for (int k = 0; k < 4; k++) {
        fv_ctx *ctx = run_context(2, 1);
        fv_trial_config cfg = k < 2 ? arms : process;
        fv_model *model = make_model(ctx, &cfg, memories[k % 2]);
        fv_trials t, alone;
        sharpen(ctx, model);
        CHECK_OK(ctx, fv_trials_create(model, &cfg, COUNT, &t));
        CHECK_OK(ctx, fv_trials_create(model, &cfg, 1, &alone));
        fv_trials_how how = {
            .part = FV_GAME_TRAIN, .first = 3, .count = COUNT, .runs = 2, .draw = true, .step = 5};
        CHECK_OK(ctx, fv_trials_play(&t, &how));
        fv_tensor *logits, *values;
        fv_no_grad_begin(ctx);
        fv_tensor *x =
            fv_from_host(ctx, FV_F32, 3, (int64_t[]){COUNT, t.steps, t.inputs}, t.observed);
        fv_snail_player_run(ctx, t.player, x, NULL, &logits, &values);
        float *log_p = tensor_floats(ctx, fv_log_softmax(ctx, logits, -1)),
              *value = tensor_floats(ctx, values);
        fv_no_grad_end(ctx);
        bool several = false;
        for (int64_t i = 0; i < COUNT * t.steps; i++) {
            several = several || t.action[i] != t.action[0];
            CHECK_NEAR(t.log_p[i], log_p[i * cfg.actions + t.action[i]], 1e-5);
            CHECK_NEAR(t.value[i], value[i], 1e-5);
        }
        CHECK(several);
        for (int64_t i = 0; i < COUNT; i++) {
            double sum = 0;
            const fv_problem *p = &t.problem[i];
            CHECK_EQ(p->number, 3 + i / 2);
            for (int64_t s = 0; s < t.steps; s++) {
                const int64_t at = i * t.steps + s;
                const fv_outcome o = fv_problem_act(p, i % 2, s, t.state[at], t.action[at]);
                CHECK(t.reward[at] == (float)o.reward && t.expected[at] == (float)o.expected &&
                      t.regret[at] == (float)o.regret);
                if (s + 1 < t.steps) CHECK_EQ(t.state[at + 1], o.next);
                sum += o.expected;
            }
            CHECK_NEAR(t.total[i], sum, 1e-12);
        }
        /* the first run of a problem does not depend on the others */
        how.first = 4;
        how.count = how.runs = 1;
        CHECK_OK(ctx, fv_trials_play(&alone, &how));
        CHECK(memcmp(alone.action, t.action + 2 * t.steps, (size_t)t.steps * sizeof *t.action) ==
              0);
        free(log_p), free(value);
        fv_trials_free(&t);
        fv_trials_free(&alone);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* Costs follow from what was pulled and won before, in this trial alone. */
static void knowledge_is_what_the_trial_has_seen(void)
{
    enum { COUNT = 6 };
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_model(ctx, &arms, "snail");
    fv_trials t;
    sharpen(ctx, model);
    CHECK_OK(ctx, fv_trials_create(model, &arms, COUNT, &t));
    const fv_trials_how how = {
        .part = FV_GAME_TRAIN, .count = COUNT, .runs = 2, .knowledge = true, .draw = true};
    bool differs = false;
    for (int again = 0; again < 2; again++) /* counts begin at 0 */
        CHECK_OK(ctx, fv_trials_play(&t, &how));
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t pulls[2] = {0}, wins[2] = {0};
        for (int64_t s = 0; s < t.steps; s++) {
            const int64_t at = i * t.steps + s, a = t.action[at];
            const double p = exp((double)t.log_p[at]);
            double cost[2];
            fv_bandit_costs(2, pulls, wins, t.steps - 1 - s, cost);
            CHECK_NEAR(t.regrets[2 * at], cost[0], 1e-6);
            CHECK_NEAR(t.regrets[2 * at + 1], cost[1], 1e-6);
            CHECK_NEAR(t.regret[at], cost[a], 1e-6);
            CHECK_NEAR(t.mean_regret[at], p * cost[a] + (1 - p) * cost[1 - a], 1e-5);
            differs = differs || fabs(cost[0] - cost[1]) > 0.1;
            pulls[a]++;
            wins[a] += t.reward[at] > 0;
        }
    }
    CHECK(differs);
    fv_trials_free(&t);
    fv_model_close(&model);
    model = make_model(ctx, &process, "snail");
    CHECK_OK(ctx, fv_trials_create(model, &process, COUNT, &t));
    CHECK_EQ(fv_trials_play(&t, &how), FV_ERR_ARGUMENT);
    fv_trials_free(&t);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

typedef struct seen {
    int count;
    double rows; /* sum of the weights of all steps */
} seen;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    seen *s = user;
    float *x = tensor_floats(ctx, site->captured.weights);
    CHECK_STR(site->name, "attention.0");
    for (int64_t i = 0; i < fv_tensor_count(site->captured.weights); i++)
        s->rows += (double)x[i];
    s->count++;
    free(x);
    return FV_OK;
}

static void a_trial_shows_everything(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_model(ctx, &process, "snail");
    fv_trial *trial = NULL;
    fv_trial_config cfg;
    seen s = {0};
    const fv_capture capture = {.options = {.weights = true}, .on_weights = take, .user = &s};
    sharpen(ctx, model);
    CHECK(fv_model_plays_trials(model, &cfg) && cfg.states == 3 && cfg.episodes == 5);
    CHECK_OK(ctx, fv_trial_play(model, FV_GAME_TEST, 1, 2, &capture, &trial));
    CHECK(s.count == 1 && trial->count == 20 && trial->number == 2);
    CHECK_NEAR(s.rows, 20, 1e-4);
    double sum = 0;
    for (int64_t i = 0; i < trial->count; i++) {
        const fv_trial_step *step = &trial->step[i];
        CHECK_NEAR(step->probabilities[0] + step->probabilities[1], 1, 1e-6);
        CHECK(step->probabilities[step->action] >= 0.5f);
        CHECK_NEAR(step->expected, trial->means[step->state * 2 + step->action], 1e-6);
        sum += step->expected;
    }
    CHECK_NEAR(trial->reward, sum, 1e-5);
    CHECK(trial->best != 0);
    fv_trial_free(&trial);
    CHECK_EQ(fv_trial_play(model, FV_GAME_TEST, 1, -1, NULL, &trial), FV_ERR_ARGUMENT);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void wrong_batches_and_models_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_model(ctx, &arms, "snail");
    fv_trials t;
    fv_batch batch;
    fv_batch_init(&batch, 1);
    fv_model_kind_of(model)->act(ctx, fv_model_self(model), &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "snail: the field \"inputs\" must be sequences of 5 floats");
    CHECK_EQ(fv_trials_create(model, &process, 1, &t), FV_ERR_FORMAT);
    fv_model_close(&model);
    const fv_data_spec spec = {.ability = FV_CAN_RATE};
    CHECK_EQ(fv_model_create(ctx, "snail", NULL, &spec, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "a SNAIL model is not trained to") != NULL);
    fv_ctx_destroy(&ctx);
}

/* ---- training ------------------------------------------------------------------------------- */

static const run_setting bandit[] = {{"train.task", "trials"},
                                     {"trials.actions", "2"},
                                     {"trials.pulls", "6"},
                                     {"trials.count", "64"},
                                     {"trials.valid_count", "300"},
                                     {"snail.embedding", "12"},
                                     {"snail.stages", "tc 6, attention 6 6"},
                                     {"train.batch_examples", "32"},
                                     {"train.steps", "400"},
                                     {"train.lr", "0.005"},
                                     {"train.schedule", "constant"},
                                     {"train.warmup", "0"},
                                     {"train.optimizer", "adam"},
                                     {"train.eval_every", "400"},
                                     {"train.save_every", "0"},
                                     {"eval.samples", "2"},
                                     {0}};

static fv_status train(const run_setting *more, const char *folder, int threads, run_watch *watch)
{
    fv_ctx *ctx = run_context(threads, 3);
    fv_recipe *recipe = run_recipe(ctx, bandit);
    if (more) run_set(ctx, recipe, more);
    return run_text(ctx, recipe, folder, watch);
}

static void it_learns_to_learn(void)
{
    static const run_setting lstm[] = {{"snail.memory", "lstm"}, {"snail.hidden", "16"}, {0}},
                             knowledge[] = {{"trials.knowledge", "true"}, {0}};
    static const run_setting *const more[] = {NULL, lstm, knowledge};
    static const char *const names[] = {"snail", "lstm", "knowledge"};
    char folder[3][512];
    for (int i = 0; i < 3; i++) {
        run_watch w = {.stop = 0};
        snprintf(folder[i], sizeof folder[i], "%s", folder_sub(names[i]));
        CHECK_EQ(train(more[i], folder[i], 1, &w), FV_OK);
        CHECK_STR(w.last[0].name, "reward");
        CHECK_STR(w.last[1].name, "ratio");
        printf("%s: reward %.3f, of Gittins' %.3f\n", names[i], w.last[0].value, w.last[1].value);
        CHECK(w.last[1].value > 0.95 && w.last[1].value < 1.02);
    }
    CHECK(!file_same_in(folder[0], folder[2], "model.safetensors"));
}

/* Stopped within a collection (four updates) and at its end, with other numbers of threads. */
static void resumed_runs_have_the_same_bits(void)
{
    static const run_setting few[] = {
        {"train.steps", "14"}, {"train.eval_every", "7"}, {"train.save_every", "100"}, {0}};
    char whole[512], parts[512], name[16];
    for (int stop = 5; stop <= 8; stop++) {
        run_watch once = {.stop = 0}, first = {.stop = (uint64_t)stop}, second = {.stop = 0};
        snprintf(name, sizeof name, "whole%d", stop);
        snprintf(whole, sizeof whole, "%s", folder_sub(name));
        snprintf(name, sizeof name, "parts%d", stop);
        snprintf(parts, sizeof parts, "%s", folder_sub(name));
        CHECK_EQ(train(few, whole, 2, &once), FV_OK);
        CHECK_EQ(train(few, parts, 1, &first), FV_ERR_CANCELLED);
        CHECK_EQ(train(few, parts, 2, &second), FV_OK);
        CHECK(file_same_in(whole, parts, "model.safetensors"));
    }
}

static void expect_refused(const run_setting *more, const char *folder, const char *message)
{
    fv_ctx *ctx = run_context(1, 3);
    fv_recipe *recipe = run_recipe(ctx, bandit);
    fv_run *run = NULL;
    run_set(ctx, recipe, more);
    CHECK_EQ(fv_run_create(ctx, recipe, folder, NULL, NULL, &run), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void wrong_settings_are_named(void)
{
    const char *folder = folder_sub("refused");
    expect_refused((run_setting[]){{"trials.count", "65"}, {0}}, folder,
                   "trials.count is 65, expected a multiple of trials.runs, 8, and of the 32");
    expect_refused((run_setting[]){{"trials.runs", "7"}, {0}}, folder,
                   "expected a multiple of trials.runs");
    expect_refused((run_setting[]){{"snail.stages", "tc"}, {0}}, folder,
                   "snail: stages 'tc', expected");
    expect_refused((run_setting[]){{"trials.problem", "mdp"}, {"trials.horizon", "200"}, {0}},
                   folder, "trials: 2 actions, 10 states, 10 episodes of 200 steps");
    expect_refused((run_setting[]){{"trials.problem", "mdp"}, {"trials.knowledge", "true"}, {0}},
                   folder, "trials.knowledge needs bandits and trials.regret = true");
    expect_refused((run_setting[]){{"trials.regret", "false"}, {"trials.knowledge", "true"}, {0}},
                   folder, "trials.knowledge needs bandits and trials.regret = true");
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_all(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    fv_trial *trial = NULL;
    fv_reference *gittins = NULL;
    fv_data_spec spec = {.ability = FV_CAN_ACT};
    fv_data_spec_set(&spec, "actions", 2);
    fv_data_spec_set(&spec, "states", 1);
    fv_data_spec_set(&spec, "horizon", 1);
    fv_data_spec_set(&spec, "episodes", 3);
    fv_status s = fv_run_recipe(ctx, &recipe);
    if (s == FV_OK) s = fv_recipe_set(recipe, "snail.stages", "tc 2, attention 2 2");
    if (s == FV_OK) s = fv_model_create(ctx, "snail", recipe, &spec, &model);
    if (s == FV_OK) s = fv_trial_play(model, FV_GAME_VALID, 1, 2, NULL, &trial);
    if (s == FV_OK) s = fv_reference_create(ctx, &trial->cfg, "gittins", &gittins);
    fv_reference_destroy(&gittins);
    fv_trial_free(&trial);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    return s;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(use_all, NULL, 0) > 100); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(advantages_are_those_by_hand);
    RUN(rows_are_saved);
    RUN(losses_are_those_by_hand);
    RUN(entropy_holds_actions_apart);
    RUN(observations_say_what_happened);
    RUN(steps_equal_the_whole_trial);
    RUN(knowledge_is_what_the_trial_has_seen);
    RUN(a_trial_shows_everything);
    RUN(wrong_batches_and_models_are_refused);
    RUN(it_learns_to_learn);
    RUN(resumed_runs_have_the_same_bits);
    RUN(wrong_settings_are_named);
    RUN(memory_may_run_out);
    folder_remove();
    return TEST_END();
}
