/*
 * Learning to learn by reinforcement: a model plays trials on fresh bandits or decision processes
 * and is trained to collect the most reward over a whole trial, which makes it explore and then
 * use what it found. The method is proximal policy optimization (Schulman et al. 2017): every
 * collection of trials is learned from trials.passes times, in updates of train.batch_examples
 * trials, with the advantages and the loss of trials_rows.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/memory.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "text/codepoints.h"
#include "train/step.h"
#include "train/tasks/tasks.h"
#include "train/tasks/trials_rows.h"

enum { DEFAULT_VALID = 200, DEFAULT_TEST = 2000, EVALUATED = 250, MOST_REFERENCES = 7 };

_Static_assert(MOST_REFERENCES + 2 <= FV_MAX_METRICS, "rewards, the ratio and references");

static const fv_key keys[] = {
    {"trials.problem", FV_KEY_CHOICE, "bandit", 0, 0, "bandit|mdp",
     "what a trial is about: arms that pay 0 or 1, or a decision process with few states"},
    {"trials.actions", FV_KEY_INT, "5", 2, FV_TRIAL_MAX_ACTIONS, NULL, "arms, or actions"},
    {"trials.pulls", FV_KEY_INT, "10", 1, FV_TRIAL_MAX_STEPS, NULL, "bandit: steps of a trial"},
    {"trials.states", FV_KEY_INT, "10", 1, FV_TRIAL_MAX_STATES, NULL, "mdp: states"},
    {"trials.episodes", FV_KEY_INT, "10", 1, FV_TRIAL_MAX_STEPS, NULL,
     "mdp: episodes of a trial, each from state 0"},
    {"trials.horizon", FV_KEY_INT, "10", 1, FV_TRIAL_MAX_STEPS, NULL, "mdp: steps of an episode"},
    {"trials.count", FV_KEY_INT, "512", 1, 65536, NULL, "trials that are played at a time"},
    {"trials.runs", FV_KEY_INT, "8", 1, 1024, NULL, "of these, how many are of the same problem"},
    {"trials.passes", FV_KEY_INT, "2", 1, 100, NULL, "how often each trial is learned from"},
    {"trials.clip", FV_KEY_REAL, "0.2", 0.001, 1, NULL,
     "how far the probability of an action may move before its gradient stops"},
    {"trials.discount", FV_KEY_REAL, "1", 0, 1, NULL, "factor of a reward one step later"},
    {"trials.lambda", FV_KEY_REAL, "0.97", 0, 1, NULL,
     "share of later rewards, the rest comes from the value (generalized advantage estimation)"},
    {"trials.regret", FV_KEY_BOOL, "true", 0, 0, NULL,
     "learn from how much the best action is better, which a simulation knows, not from rewards"},
    {"trials.knowledge", FV_KEY_BOOL, "false", 0, 0, NULL,
     "bandit: regrets are towards the arm that looks best, less what a pull is expected to teach"},
    {"trials.entropy", FV_KEY_REAL, "0.01", 0, 10, NULL,
     "weight of the policy's entropy at first; falls to 0 by the last step"},
    {"trials.value_weight", FV_KEY_REAL, "0.5", 0, 100, NULL, "weight of the loss of values"},
    {"trials.valid_count", FV_KEY_INT, "0", 0, 1e6, NULL, "problems for validation; 0: 200"},
    {"trials.test_count", FV_KEY_INT, "0", 0, 1e6, NULL, "problems for the final test; 0: 2000"},
};

static fv_key_table trials_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

typedef struct trials_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    fv_trial_config cfg;
    int64_t count, batch, updates; /* of a collection: trials, of an update, updates */
    fv_advantage_rule rule;
    bool knowledge;
    fv_trial_weights weights; /* entropy: of the current step */
    fv_trials trials;
    fv_trial_rows kept, fresh; /* kept changes only in `end` */
    bool collected;            /* fresh is to be kept */
    fv_step_parts parts;
    /* Mean rewards of reference policies on the held-out problems, computed once. */
    double reference[MOST_REFERENCES];
    int reference_count;
    char report[160];
} trials_task;

/* ---- opening -------------------------------------------------------------------------------- */

static void close_task(void *self)
{
    trials_task *t = self;
    fv_ctx *ctx = t->ctx;
    fv_trials_free(&t->trials);
    fv_trial_rows_free(&t->kept);
    fv_trial_rows_free(&t->fresh);
    fv_step_parts_free(ctx, &t->parts);
    fv_mem_free(&ctx->mem, t, sizeof *t);
}

static fv_trial_config config_of(const fv_recipe *recipe)
{
    const bool mdp = fv_recipe_choice(recipe, "trials.problem") == 1;
    return (fv_trial_config){.kind = mdp ? FV_TRIAL_MDP : FV_TRIAL_BANDIT,
                             .actions = fv_recipe_int(recipe, "trials.actions"),
                             .states = mdp ? fv_recipe_int(recipe, "trials.states") : 1,
                             .horizon = mdp ? fv_recipe_int(recipe, "trials.horizon") : 1,
                             .episodes =
                                 fv_recipe_int(recipe, mdp ? "trials.episodes" : "trials.pulls"),
                             .seed = (uint64_t)fv_recipe_int(recipe, "train.seed")};
}

static fv_status describe(const trials_task *t, fv_data_spec *spec)
{
    spec->ability = FV_CAN_ACT;
    const bool fits = fv_data_spec_set(spec, "mdp", t->cfg.kind == FV_TRIAL_MDP) &&
                      fv_data_spec_set(spec, "actions", t->cfg.actions) &&
                      fv_data_spec_set(spec, "states", t->cfg.states) &&
                      fv_data_spec_set(spec, "horizon", t->cfg.horizon) &&
                      fv_data_spec_set(spec, "episodes", t->cfg.episodes);
    FV_RETURN_IF(!fits, t->ctx, FV_ERR_LIMIT, "a model has no room for more numbers");
    return FV_OK;
}

static fv_status open_parts(trials_task *t, fv_data_spec *spec)
{
    const fv_recipe *recipe = t->recipe;
    FV_TRY(fv_trial_check(t->ctx, &t->cfg));
    FV_RETURN_IF(t->knowledge && (t->cfg.kind != FV_TRIAL_BANDIT || !t->rule.regret), t->ctx,
                 FV_ERR_ARGUMENT, "trials.knowledge needs bandits and trials.regret = true");
    FV_TRY(fv_step_parts_create(t->ctx, recipe, &t->parts));
    const int64_t asked = fv_recipe_int(recipe, "train.batch_examples"),
                  epochs = fv_recipe_int(recipe, "trials.passes");
    t->batch = asked > 0 ? asked : t->count / t->parts.count;
    const int64_t update = t->batch * t->parts.count;
    FV_RETURN_IF(update < 1 || t->count % update != 0 || t->count % t->rule.runs != 0, t->ctx,
                 FV_ERR_ARGUMENT,
                 "trials.count is %lld, expected a multiple of trials.runs, %lld, and of the "
                 "%lld trials of an update",
                 (long long)t->count, (long long)t->rule.runs, (long long)update);
    t->updates = epochs * (t->count / update);
    FV_TRY(fv_trial_rows_create(t->ctx, t->count, &t->cfg, &t->kept));
    FV_TRY(fv_trial_rows_create(t->ctx, t->count, &t->cfg, &t->fresh));
    return describe(t, spec);
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    const fv_recipe *recipe = cfg->recipe;
    trials_task *t = fv_mem_zalloc(&cfg->ctx->mem, sizeof *t);
    FV_RETURN_IF(!t, cfg->ctx, FV_ERR_MEMORY, "no memory for a training run");
    *t = (trials_task){.ctx = cfg->ctx,
                       .recipe = recipe,
                       .cfg = config_of(recipe),
                       .count = fv_recipe_int(recipe, "trials.count"),
                       .rule = {.discount = fv_recipe_real(recipe, "trials.discount"),
                                .lambda = fv_recipe_real(recipe, "trials.lambda"),
                                .runs = fv_recipe_int(recipe, "trials.runs"),
                                .regret = fv_recipe_bool(recipe, "trials.regret")},
                       .knowledge = fv_recipe_bool(recipe, "trials.knowledge"),
                       .weights = {.clip = fv_recipe_real(recipe, "trials.clip"),
                                   .value = fv_recipe_real(recipe, "trials.value_weight")}};
    return fv_task_opened(open_parts(t, spec), close_task, t, self);
}

static fv_status prepare(void *self, fv_model *model)
{
    trials_task *t = self;
    return fv_trials_create(model, &t->cfg, t->count > EVALUATED ? t->count : EVALUATED,
                            &t->trials);
}

static const char *report(void *self)
{
    trials_task *t = self;
    const fv_trial_config *c = &t->cfg;
    if (c->kind == FV_TRIAL_BANDIT)
        snprintf(t->report, sizeof t->report, "bandits of %lld arms, %lld pulls",
                 (long long)c->actions, (long long)c->episodes);
    else
        snprintf(t->report, sizeof t->report,
                 "decision processes of %lld states and %lld actions, %lld episodes of %lld steps",
                 (long long)c->states, (long long)c->actions, (long long)c->episodes,
                 (long long)c->horizon);
    return t->report;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static fv_status collect(trials_task *t, uint64_t step)
{
    const uint64_t problems = (uint64_t)(t->count / t->rule.runs);
    const fv_trials_how how = {.part = FV_GAME_TRAIN,
                               .first = (int64_t)(step / (uint64_t)t->updates * problems),
                               .count = t->count,
                               .runs = t->rule.runs,
                               .knowledge = t->knowledge,
                               .draw = true,
                               .step = step};
    FV_TRY(fv_trials_play(&t->trials, &how));
    fv_trial_rows_fill(&t->fresh, &t->trials, t->count, &t->rule);
    t->collected = true;
    return FV_OK;
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    trials_task *t = self;
    const double steps = (double)fv_recipe_int(t->recipe, "train.steps"),
                 left = steps > 0 ? 1 - (double)step / steps : 1;
    (void)model;
    (void)phase;
    t->collected = false;
    t->weights.entropy = fv_recipe_real(t->recipe, "trials.entropy") * (left > 0 ? left : 0);
    if (step % (uint64_t)t->updates == 0) FV_TRY(collect(t, step));
    plan->tokens = (double)(fv_step_plan_rows(&t->parts, t->batch, plan) * t->trials.steps);
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    trials_task *t = self;
    const int64_t update = t->batch * t->parts.count;
    const int64_t first = (int64_t)(step % (uint64_t)t->updates) * update % t->count;
    (void)model;
    (void)phase;
    *out =
        fv_trial_rows_batch(t->collected ? &t->fresh : &t->kept, first + part * t->batch, t->batch);
    return FV_OK;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, fv_model *model, int phase, const fv_batch *inputs,
                       const fv_pass *pass)
{
    const trials_task *t = self;
    (void)phase;
    fv_tensor *logits, *values;
    fv_snail_player_run(ctx, fv_snail_player_of(model),
                        fv_batch_tensor(ctx, inputs, "inputs", NULL), pass, &logits, &values);
    return fv_trial_loss(ctx, inputs, &t->weights, logits, values);
}

static fv_status end(void *self, fv_model *model, uint64_t step, int phase)
{
    trials_task *t = self;
    (void)model;
    (void)step;
    (void)phase;
    if (!t->collected) return FV_OK;
    const fv_trial_rows fresh = t->fresh;
    t->fresh = t->kept;
    t->kept = fresh;
    t->collected = false;
    return FV_OK;
}

/* ---- held-out problems ---------------------------------------------------------------------- */

static fv_game_part held_out(const trials_task *t, int64_t *count)
{
    const bool test = strcmp(fv_recipe_text(t->recipe, "eval.part"), "test") == 0;
    const int64_t asked =
        fv_recipe_int(t->recipe, test ? "trials.test_count" : "trials.valid_count");
    *count = asked > 0 ? asked : test ? DEFAULT_TEST : DEFAULT_VALID;
    return test ? FV_GAME_TEST : FV_GAME_VALID;
}

static fv_status play_reference(const trials_task *t, const char *name, double *mean)
{
    int64_t all = 0;
    const fv_game_part part = held_out(t, &all);
    fv_reference *reference = NULL;
    fv_status status = fv_reference_create(t->ctx, &t->cfg, name, &reference);
    *mean = 0;
    for (int64_t i = 0; i < all && status == FV_OK; i++) {
        double reward = 0;
        status = fv_reference_play(reference, part, i, &reward);
        *mean += reward / (double)all;
    }
    fv_reference_destroy(&reference);
    return status;
}

static fv_status play_references(trials_task *t)
{
    const char *name;
    while ((name = fv_reference_name(t->cfg.kind, t->reference_count)) != NULL) {
        FV_TRY(play_reference(t, name, &t->reference[t->reference_count]));
        t->reference_count++;
    }
    return FV_OK;
}

static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    trials_task *t = self;
    int64_t all = 0;
    double reward = 0;
    fv_trials_how how = {.part = held_out(t, &all)};
    (void)model;
    for (how.first = 0; how.first < all; how.first += how.count) {
        how.count = all - how.first < EVALUATED ? all - how.first : EVALUATED;
        FV_TRY(fv_trials_play(&t->trials, &how));
        for (int64_t i = 0; i < how.count; i++)
            reward += t->trials.total[i] / (double)all;
    }
    FV_TRY(play_references(t));
    fv_metric_add(metrics, count, "reward", reward, true);
    fv_metric_add(metrics, count, "ratio", reward / t->reference[0], true);
    for (int i = 0; i < t->reference_count; i++)
        fv_metric_add(metrics, count, fv_reference_name(t->cfg.kind, i), t->reference[i], true);
    return FV_OK;
}

/* "problem 3    reward 6.91: 0 1 (2 x) 4 ...": an action, and how often it is taken on end. */
static fv_status add_sample(trials_task *t, fv_game_part part, int64_t number, fv_text *out)
{
    char line[120];
    const fv_trials_how how = {.part = part, .first = number, .count = 1};
    FV_TRY(fv_trials_play(&t->trials, &how));
    int n = snprintf(line, sizeof line, "problem %-4lld reward %.2f:", (long long)number,
                     t->trials.total[0]);
    FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    for (int64_t i = 0, end; i < t->trials.steps; i = end) {
        const long long action = t->trials.action[i];
        for (end = i + 1; end < t->trials.steps && t->trials.action[end] == action;)
            end++;
        n = end - i > 1
                ? snprintf(line, sizeof line, " %lld (%lld x)", action, (long long)(end - i))
                : snprintf(line, sizeof line, " %lld", action);
        FV_TRY(fv_text_append(t->ctx, out, line, (size_t)n));
    }
    return fv_text_append(t->ctx, out, "\n", 1);
}

static fv_status show(void *self, fv_model *model, int count, fv_text *out)
{
    trials_task *t = self;
    int64_t all = 0;
    const fv_game_part part = held_out(t, &all);
    (void)model;
    for (int64_t i = 0; i < count && i < all; i++)
        FV_TRY(add_sample(t, part, i, out));
    return FV_OK;
}

static fv_status get_state(void *self, fv_params *state)
{
    return fv_trial_rows_save(&((trials_task *)self)->kept, state);
}

static fv_status set_state(void *self, const fv_params *state)
{
    return fv_trial_rows_load(&((trials_task *)self)->kept, state);
}

const fv_task_kind fv_task_trials = {
    .struct_size = sizeof fv_task_trials,
    .name = "trials",
    .summary = "learn to learn: bandits and small decision processes, by policy gradient",
    .model = "snail",
    .keys = trials_keys,
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
