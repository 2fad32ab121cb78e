/* Reinforcement learning: a bandit with two contexts, whose policy learns from its own actions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/own_kinds.h"

enum { CONTEXTS = 2, ARMS = 4, TRIES = 8, KEPT = 24 };

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct policy {
    fv_tensor *logits; /* [CONTEXTS, ARMS] */
} policy;

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    (void)recipe;
    fv_ctx *ctx = fv_params_ctx(params);
    policy *m = calloc(1, sizeof *m);
    if (!m) return FV_ERR_MEMORY;
    const int64_t shape[] = {CONTEXTS, fv_data_spec_get(spec, "actions", 0)};
    m->logits = fv_params_add(params, "policy", fv_zeros(ctx, FV_F32, 2, shape));
    *self = m;
    return FV_OK;
}

static fv_tensor *act(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    (void)pass;
    policy *m = self;
    return fv_embedding(ctx, m->logits, fv_batch_tensor(ctx, inputs, "context", NULL), -1);
}

/* -sum advantage log p(action) */
static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    fv_tensor *log_p = fv_log_softmax(ctx, act(ctx, self, batch, pass), -1);
    fv_tensor *action = fv_unsqueeze(ctx, fv_batch_tensor(ctx, batch, "action", NULL), -1);
    fv_tensor *chosen = fv_squeeze(ctx, fv_gather(ctx, log_p, action, 1), -1);
    fv_tensor *gain = fv_batch_tensor(ctx, batch, "advantage", NULL);
    own_called();
    return fv_neg(ctx, fv_sum(ctx, fv_mul(ctx, gain, chosen), 0, NULL, false));
}

static const fv_model_kind kind = {.struct_size = sizeof kind,
                                   .name = "toy-policy",
                                   .types = "toy_policy|toy_policy_v0",
                                   .abilities = 1u << FV_CAN_ACT,
                                   .create = create,
                                   .destroy = free,
                                   .loss = loss,
                                   .act = act};

/* ---- the task ------------------------------------------------------------------------------- */

typedef struct memory {
    int64_t context[KEPT], action[KEPT];
    float reward[KEPT];
    int64_t count; /* pushed in all */
    double baseline;
} memory;

typedef struct bandit {
    fv_ctx *ctx;
    memory kept;                           /* changes only in `end` */
    int64_t context[TRIES], action[TRIES]; /* of this step */
    float reward[TRIES], advantage[TRIES]; /* of this step, of a batch */
    const void *contexts[TRIES], *actions[TRIES], *gains[TRIES];
} bandit;

/* The environment. */
static float pays(int64_t context, int64_t action, uint64_t when)
{
    return (float)((action == (context ? 1 : 3) ? 1.0 : 0.2) + 0.3 * sin(12.9 * (double)when));
}

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    bandit *t = calloc(1, sizeof *t);
    if (!t) return FV_ERR_MEMORY;
    t->ctx = cfg->ctx;
    spec->ability = FV_CAN_ACT;
    *self = t;
    return fv_data_spec_set(spec, "actions", ARMS) ? FV_OK : FV_ERR_LIMIT;
}

static void add_contexts(bandit *t, const int64_t *first, fv_batch *out)
{
    fv_batch_init(out, TRIES);
    for (int i = 0; i < TRIES; i++)
        t->contexts[i] = &first[i];
    fv_batch_add(out, (fv_field){.name = "context", .dtype = FV_I64, .row = t->contexts});
}

/* Runs the policy in the environment. */
static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    (void)phase;
    bandit *t = self;
    fv_ctx *ctx = t->ctx;
    fv_batch inputs;
    own_called();
    for (int i = 0; i < TRIES; i++)
        t->context[i] = (int64_t)((step + (uint64_t)i) % CONTEXTS);
    add_contexts(t, t->context, &inputs);
    fv_tensor *logits = fv_model_kind_of(model)->act(ctx, fv_model_self(model), &inputs, NULL);
    fv_tensor *drawn = fv_multinomial(ctx, fv_softmax(ctx, logits, -1), 1);
    const fv_status status = fv_tensor_read(ctx, drawn, t->action, sizeof t->action);
    if (status != FV_OK) return status;
    for (int i = 0; i < TRIES; i++)
        t->reward[i] = pays(t->context[i], t->action[i], step * TRIES + (uint64_t)i);
    own_called();
    plan->parts = t->kept.count >= TRIES ? 2 : 1; /* the second one is a replay */
    plan->tokens = (double)(TRIES * plan->parts);
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    (void)model;
    (void)phase;
    bandit *t = self;
    const memory *kept = &t->kept;
    const int64_t size = kept->count < KEPT ? kept->count : KEPT;
    const int64_t from = part ? (int64_t)(step * 5) % (size - TRIES + 1) : 0;
    own_called();
    add_contexts(t, part ? kept->context + from : t->context, out);
    for (int i = 0; i < TRIES; i++) {
        t->advantage[i] =
            (float)((part ? kept->reward[from + i] : t->reward[i]) - (float)kept->baseline);
        t->actions[i] = part ? &kept->action[from + i] : &t->action[i];
        t->gains[i] = &t->advantage[i];
    }
    fv_batch_add(out, (fv_field){.name = "action", .dtype = FV_I64, .row = t->actions});
    fv_batch_add(out, (fv_field){.name = "advantage", .dtype = FV_F32, .row = t->gains});
    return FV_OK;
}

static fv_status end(void *self, fv_model *model, uint64_t step, int phase)
{
    (void)model;
    (void)step;
    (void)phase;
    bandit *t = self;
    memory *kept = &t->kept;
    double mean = 0;
    own_called();
    for (int i = 0; i < TRIES; i++, kept->count++) {
        const int64_t at = kept->count % KEPT;
        kept->context[at] = t->context[i];
        kept->action[at] = t->action[i];
        kept->reward[at] = t->reward[i];
        mean += (double)t->reward[i] / TRIES;
    }
    kept->baseline = 0.9 * kept->baseline + 0.1 * mean;
    return FV_OK;
}

/* The probability of the best arm, averaged over both contexts. */
static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    bandit *t = self;
    float p[CONTEXTS][ARMS];
    const policy *m = fv_model_self(model);
    own_called();
    const fv_status status = fv_tensor_read(t->ctx, fv_softmax(t->ctx, m->logits, -1), p, sizeof p);
    fv_metric_add(metrics, count, "best_arm", status == FV_OK ? (p[0][3] + p[1][1]) / 2 : 0, true);
    return status;
}

static fv_status get_state(void *self, fv_params *state)
{
    bandit *t = self;
    const memory *k = &t->kept;
    const int64_t n = KEPT, one = 1;
    own_called();
    fv_params_add_buffer(state, "context", fv_from_host(t->ctx, FV_I64, 1, &n, k->context));
    fv_params_add_buffer(state, "action", fv_from_host(t->ctx, FV_I64, 1, &n, k->action));
    fv_params_add_buffer(state, "reward", fv_from_host(t->ctx, FV_F32, 1, &n, k->reward));
    fv_params_add_buffer(state, "count", fv_from_host(t->ctx, FV_I64, 1, &one, &k->count));
    fv_params_add_buffer(state, "baseline", fv_from_host(t->ctx, FV_F64, 1, &one, &k->baseline));
    return FV_OK;
}

static bool take(bandit *t, const fv_params *state, const char *name, void *out, size_t bytes)
{
    const fv_tensor *kept = fv_params_find(state, name);
    return kept && (size_t)fv_tensor_count(kept) * fv_dtype_size(fv_tensor_dtype(kept)) == bytes &&
           fv_tensor_read(t->ctx, kept, out, bytes) == FV_OK;
}

static fv_status set_state(void *self, const fv_params *state)
{
    bandit *t = self;
    memory k;
    const bool ok = take(t, state, "context", k.context, sizeof k.context) &&
                    take(t, state, "action", k.action, sizeof k.action) &&
                    take(t, state, "reward", k.reward, sizeof k.reward) &&
                    take(t, state, "count", &k.count, sizeof k.count) &&
                    take(t, state, "baseline", &k.baseline, sizeof k.baseline);
    if (!ok) return FV_ERR_FORMAT;
    t->kept = k;
    return FV_OK;
}

static const fv_task_kind task = {.struct_size = sizeof task,
                                  .name = "toy-bandit",
                                  .model = "toy-policy",
                                  .open = open_task,
                                  .close = free,
                                  .begin = begin,
                                  .batch = batch,
                                  .end = end,
                                  .evaluate = evaluate,
                                  .get_state = get_state,
                                  .set_state = set_state};

const own_pair own_bandit = {.kind = &kind, .task = &task, .steps = "6"};
