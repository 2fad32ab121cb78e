/* One trial with everything that can be shown of it (fovea/trial.h). */
#include <string.h>

#include "base/checked_math.h"
#include "fovea/autograd.h"
#include "models/trials.h"

/* The trial and its arrays are one block of memory, in this order. */
typedef struct record {
    fv_trial trial;
    fv_trial_step *step;
    double *means;
    float *probabilities;
} record;

static fv_status make_record(fv_ctx *ctx, const fv_trial_config *cfg, record **out)
{
    const size_t steps = (size_t)fv_trial_steps(cfg), actions = (size_t)cfg->actions,
                 pairs = actions * (size_t)cfg->states;
    const size_t bytes = sizeof(record) + steps * sizeof(fv_trial_step) + pairs * sizeof(double) +
                         steps * actions * sizeof(float); /* of sizes that were checked */
    record *r = fv_mem_zalloc(&ctx->mem, bytes);
    FV_RETURN_IF(!r, ctx, FV_ERR_MEMORY, "no memory for a trial of %lld steps", (long long)steps);
    r->step = (fv_trial_step *)(r + 1);
    r->means = (double *)(r->step + steps);
    r->probabilities = (float *)(r->means + pairs);
    r->trial = (fv_trial){.ctx = ctx,
                          .cfg = *cfg,
                          .count = (int64_t)steps,
                          .means = r->means,
                          .step = r->step,
                          .bytes = bytes};
    *out = r;
    return FV_OK;
}

void fv_trial_free(fv_trial **trial)
{
    fv_trial *t = *trial;
    if (t) fv_mem_free(&t->ctx->mem, t, t->bytes);
    *trial = NULL;
}

static fv_status find_best(fv_ctx *ctx, fv_trial *trial, fv_game_part part)
{
    fv_reference *best = NULL;
    fv_status status = fv_reference_create(ctx, &trial->cfg, "optimal", &best);
    if (status == FV_OK) status = fv_reference_play(best, part, trial->number, &trial->best);
    fv_reference_destroy(&best);
    return status;
}

/* Runs the model over the whole trial: probabilities, and attention for the capture. */
static fv_status run_whole(fv_ctx *ctx, const fv_trials *t, const fv_capture *capture, record *r)
{
    const int64_t shape[3] = {1, t->steps, t->inputs};
    fv_tensor *logits, *values;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 3, shape, t->observed);
    fv_snail_player_run(ctx, t->player, x, &(fv_pass){.capture = capture}, &logits, &values);
    const fv_status status = fv_tensor_read(ctx, fv_softmax(ctx, logits, -1), r->probabilities,
                                            (size_t)(t->steps * t->cfg.actions) * sizeof(float));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}

static fv_status record_trial(const fv_trials *t, const fv_capture *capture, fv_game_part part,
                              record *r)
{
    const fv_trial_config *c = &t->cfg;
    r->trial.number = t->problem[0].number;
    r->trial.reward = t->total[0];
    memcpy(r->means, t->problem[0].mean, (size_t)(c->states * c->actions) * sizeof *r->means);
    for (int64_t i = 0; i < t->steps; i++)
        r->step[i] = (fv_trial_step){.state = t->state[i],
                                     .action = t->action[i],
                                     .reward = (double)t->reward[i],
                                     .expected = (double)t->expected[i],
                                     .probabilities = r->probabilities + i * c->actions};
    FV_TRY(find_best(t->ctx, &r->trial, part));
    return run_whole(t->ctx, t, capture, r);
}

fv_status fv_trial_play(fv_model *model, fv_game_part part, uint64_t seed, int64_t number,
                        const fv_capture *capture, fv_trial **out)
{
    fv_ctx *ctx = model->ctx;
    fv_trial_config cfg;
    fv_trials t = {.room = NULL};
    record *r = NULL;
    const fv_trials_how how = {.part = part, .first = number, .count = 1};
    FV_RETURN_IF(!fv_model_plays_trials(model, &cfg), ctx, FV_ERR_UNSUPPORTED,
                 "a %s model plays no trials", model->type);
    FV_RETURN_IF(number < 0 || part >= FV_GAME_PARTS, ctx, FV_ERR_ARGUMENT,
                 "trials: there is no problem %lld", (long long)number);
    cfg.seed = seed;
    fv_status status = fv_trials_create(model, &cfg, 1, &t);
    if (status == FV_OK) status = fv_trials_play(&t, &how);
    if (status == FV_OK) status = make_record(ctx, &cfg, &r);
    if (status == FV_OK) status = record_trial(&t, capture, part, r);
    fv_trial *trial = r ? &r->trial : NULL;
    if (status == FV_OK)
        *out = trial;
    else
        fv_trial_free(&trial);
    fv_trials_free(&t);
    return status;
}
