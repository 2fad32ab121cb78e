/*
 * SNAIL (Mishra, Rohaninejad, Chen, Abbeel 2018) as a model kind: a policy that learns a problem
 * while it acts in it. snail.memory = "lstm" puts an LSTM in place of the stack (RL^2, Duan et al.
 * 2016).
 */
#include <string.h>

#include "fovea/autograd.h"
#include "models/snail_player.h"
#include "nn/weights.h"
#include "tensor/launch.h"
#include "tensor/tensor.h"

enum { MOST_WIDTH = 4096, GATES = 4 };

static const fv_key keys[] = {
    {"snail.memory", FV_KEY_CHOICE, "snail", 0, 0, "snail|lstm",
     "what remembers earlier steps: convolutions and attention, or an LSTM"},
    {"snail.stages", FV_KEY_TEXT, "tc 32, tc 32, attention 32 32", 0, 0, NULL,
     "blocks of the stack: \"tc FILTERS\" and \"attention KEYS VALUES\", separated by commas"},
    {"snail.embedding", FV_KEY_INT, "32", 1, MOST_WIDTH, NULL, "width of an embedded step"},
    {"snail.hidden", FV_KEY_INT, "128", 1, MOST_WIDTH, NULL, "units of the LSTM"},
};

static fv_key_table snail_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- observations --------------------------------------------------------------------------- */

int64_t fv_trial_inputs(const fv_trial_config *cfg)
{
    return cfg->actions + 3 + (cfg->kind == FV_TRIAL_MDP ? cfg->states : 0);
}

void fv_trial_observe(const fv_trial_config *cfg, int64_t t, int64_t action, double reward,
                      int64_t state, float *x)
{
    for (int64_t i = 0; i < fv_trial_inputs(cfg); i++)
        x[i] = 0;
    if (action >= 0) x[action] = 1;
    x[cfg->actions] = (float)reward;
    x[cfg->actions + 1] = t % cfg->horizon == 0;
    x[cfg->actions + 2] = (float)((double)t / (double)fv_trial_steps(cfg));
    if (cfg->kind == FV_TRIAL_MDP) x[cfg->actions + 3 + state] = 1;
}

/* ---- creation ------------------------------------------------------------------------------- */

bool fv_model_plays_trials(const fv_model *model, fv_trial_config *out)
{
    const fv_snail_player *p = fv_snail_player_of(model);
    if (p) *out = p->cfg;
    return p != NULL;
}

static fv_status create_memory(fv_params *params, const fv_recipe *recipe, int64_t embedding,
                               fv_snail_player *p)
{
    if (p->lstm) {
        FV_TRY(fv_dense_create(params, "gates", embedding, GATES * p->hidden, true, 0, &p->gates));
        p->recurrent = fv_nn_weight(params, "recurrent", "weight", 2,
                                    (int64_t[]){GATES * p->hidden, p->hidden},
                                    fv_init_xavier(p->hidden, p->hidden));
        return p->ctx->error;
    }
    fv_snail_config cfg = {.inputs = embedding, .steps = fv_trial_steps(&p->cfg)};
    FV_TRY(fv_snail_read_stages(p->ctx, fv_recipe_text(recipe, "snail.stages"), &cfg));
    FV_TRY(fv_snail_create(params, "stack", &cfg, &p->snail));
    p->hidden = p->snail.outputs;
    return FV_OK;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    const int64_t embedding = fv_recipe_int(recipe, "snail.embedding");
    fv_snail_player *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = p;
    *p = (fv_snail_player){
        .ctx = ctx,
        .hidden = fv_recipe_int(recipe, "snail.hidden"),
        .lstm = fv_recipe_choice(recipe, "snail.memory") == 1,
        .cfg = {.kind = fv_data_spec_get(spec, "mdp", 0) == 1 ? FV_TRIAL_MDP : FV_TRIAL_BANDIT,
                .actions = fv_data_spec_get(spec, "actions", 0),
                .states = fv_data_spec_get(spec, "states", 0),
                .horizon = fv_data_spec_get(spec, "horizon", 0),
                .episodes = fv_data_spec_get(spec, "episodes", 0)}};
    FV_RETURN_IF(spec->ability != FV_CAN_ACT, ctx, FV_ERR_ARGUMENT,
                 "a SNAIL model is not trained to %s", fv_ability_name(spec->ability));
    FV_TRY(fv_trial_check(ctx, &p->cfg));
    p->inputs = fv_trial_inputs(&p->cfg);
    FV_TRY(fv_dense_create(params, "embed", p->inputs, embedding, true, 0, &p->embed));
    FV_TRY(create_memory(params, recipe, embedding, p));
    FV_TRY(fv_dense_create(params, "policy", p->hidden, p->cfg.actions, true, 0.01, &p->policy));
    return fv_dense_create(params, "value", p->hidden, 1, true, 0.01, &p->value);
}

static void destroy(void *self)
{
    fv_snail_player *p = self;
    fv_mem_free(&p->ctx->mem, p, sizeof *p);
}

/* ---- passes --------------------------------------------------------------------------------- */

static fv_tensor *embed(fv_ctx *ctx, const fv_snail_player *p, fv_tensor *x)
{
    return fv_relu(ctx, fv_dense_run(ctx, &p->embed, x));
}

static void answer(fv_ctx *ctx, const fv_snail_player *p, fv_tensor *y, fv_tensor **logits,
                   fv_tensor **values)
{
    *logits = fv_dense_run(ctx, &p->policy, y);
    *values = fv_squeeze(ctx, fv_dense_run(ctx, &p->value, y), -1);
}

void fv_snail_player_run(fv_ctx *ctx, const fv_snail_player *p, fv_tensor *x, const fv_pass *pass,
                         fv_tensor **logits, fv_tensor **values)
{
    fv_tensor *y = embed(ctx, p, x);
    if (p->lstm) {
        fv_tensor *gates = fv_dense_run(ctx, &p->gates, fv_transpose(ctx, y, 0, 1));
        y = fv_lstm(ctx, gates, p->recurrent, NULL, NULL, false, NULL, NULL);
        y = fv_transpose(ctx, y, 0, 1);
    } else {
        y = fv_snail_run(ctx, &p->snail, y, pass);
    }
    answer(ctx, p, y, logits, values);
}

void fv_snail_player_begin(fv_ctx *ctx, const fv_snail_player *p, int64_t rows,
                           fv_snail_player_state *out)
{
    *out = (fv_snail_player_state){.h = NULL};
    if (!p->lstm) {
        fv_snail_begin(ctx, &p->snail, rows, &out->snail);
        return;
    }
    const int64_t shape[2] = {rows, p->hidden};
    out->h = fv_zeros(ctx, FV_F32, 2, shape);
    out->c = fv_zeros(ctx, FV_F32, 2, shape);
}

void fv_snail_player_step(fv_ctx *ctx, const fv_snail_player *p, fv_snail_player_state *state,
                          fv_tensor *x, fv_tensor **logits, fv_tensor **values)
{
    fv_no_grad_begin(ctx);
    fv_tensor *y = embed(ctx, p, x);
    if (p->lstm) {
        fv_tensor *h, *c;
        fv_tensor *gates = fv_add(ctx, fv_dense_run(ctx, &p->gates, y),
                                  fv_linear(ctx, state->h, p->recurrent, NULL));
        fv_lstm_cell(ctx, gates, state->c, &h, &c);
        if (ctx->error == FV_OK) {
            fv_copy_into(ctx, state->h, h);
            fv_copy_into(ctx, state->c, c);
        }
        y = h;
    } else {
        y = fv_snail_step(ctx, &p->snail, &state->snail, y);
    }
    answer(ctx, p, y, logits, values);
    fv_no_grad_end(ctx);
}

/* Logits of the actions of whole trials: "inputs", sequences of observations. */
static fv_tensor *act(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    const fv_snail_player *p = self;
    const fv_field *f = fv_batch_find(inputs, "inputs");
    if (!f || !f->length || f->rank != 1 || f->shape[0] != p->inputs || f->dtype != FV_F32) {
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "snail: the field \"inputs\" must be sequences of %lld floats",
                  (long long)p->inputs);
        return ctx->invalid;
    }
    fv_tensor *logits, *values;
    fv_snail_player_run(ctx, p, fv_batch_tensor(ctx, inputs, "inputs", NULL), pass, &logits,
                        &values);
    return logits;
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const fv_snail_player *p = self;
    return p->lstm ? 0 : fv_snail_sites(&p->snail, out, capacity);
}

const fv_model_kind fv_kind_snail = {
    .struct_size = sizeof fv_kind_snail,
    .name = "snail",
    .types = "fovea-snail",
    .summary = "causal convolutions and attention over all earlier steps, for learning to learn",
    .abilities = 1u << FV_CAN_ACT,
    .keys = snail_keys,
    .create = create,
    .destroy = destroy,
    .act = act,
    .attention_sites = sites,
};

const fv_snail_player *fv_snail_player_of(const fv_model *model)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    return strcmp(kind->name, fv_kind_snail.name) == 0 && kind->act == act ? fv_model_self(model)
                                                                           : NULL;
}
