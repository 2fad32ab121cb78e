/*
 * An agent that sees pictures through recurrent attention and estimates the value of each action
 * (deep recurrent Q-network, Hausknecht and Stone 2015; attention by Sorokin 2015, Mott 2019). With
 * x_t the picture of step t, a_t the action and (h_t, c_t) the state of an LSTM:
 *
 *     v_1 .. v_n = conv(patches(x_t) + P)         cells of a grid; P: learned places
 *     g_t        = attention(query h_{t-1}, keys and values v_1 .. v_n)
 *     h_t, c_t   = lstm(W g_t + A a_{t-1}, h_{t-1}, c_{t-1})
 *     Q_t        = V h_t + b                      one value for each action
 *
 * Without attention, agent.pooling = "mean" or "flat", g_t is a linear function of the mean of the
 * cells, or of all of them one after the other. `patches` is a convolution that makes one cell of
 * each agent.patch x agent.patch pixels; agent.layers of 3 x 3 follow. Places are added before
 * those, so that a cell can say what is where. The forget gate is sigma(z + 1): an agent remembers
 * unless it has learned to forget.
 *
 * Episodes of a batch have different lengths: they are packed, so that nothing is computed for
 * steps past an end, and convolutions, keys and values of all steps are one product.
 */
#include <stdio.h>
#include <string.h>

#include "fovea/image.h"
#include "fovea/recurrent.h"
#include "models/model.h"
#include "nn/weights.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

enum { MAX_LAYERS = 6, MAX_SIDE = 1024, MAX_CHANNELS = 64, MAX_ACTIONS = 256, GATES = 4 };
enum { STATE = 2 }; /* h and c */
/* Factor of pixels: a ball is one percent of a dark picture, and would be lost among the places. */
enum { BRIGHTER = 4 };

#define SITE "step.0.grid"

typedef enum pooling { ATTENTION, MEAN, FLAT } pooling;

typedef struct agent {
    fv_ctx *ctx;
    int64_t channels, height, width, actions;
    int64_t rows, cols; /* of the grid */
    int64_t cell, hidden;
    pooling pooling;
    int layers;
    fv_conv2d_layer conv[MAX_LAYERS + 1];
    fv_tensor *places; /* [cell, rows, cols] */
    fv_mha look;
    fv_dense pool;                      /* mean, flat */
    fv_dense input;                     /* of the LSTM: [4 hidden, cell] */
    fv_tensor *recurrent, *last_action; /* [4 hidden, hidden], [actions + 1, 4 hidden] */
    fv_dense values;
} agent;

static const fv_key keys[] = {
    {"agent.pooling", FV_KEY_CHOICE, "attention", 0, 0, "attention|mean|flat",
     "how an agent reads the grid: by attention, or as its mean or all cells without it"},
    {"agent.patch", FV_KEY_INT, "3", 1, 64, NULL, "side of a cell of the grid in pixels"},
    {"agent.layers", FV_KEY_INT, "1", 0, MAX_LAYERS, NULL, "3 x 3 convolutions over the grid"},
    {"agent.channels", FV_KEY_INT, "32", 1, 4096, NULL, "width of a cell"},
    {"agent.heads", FV_KEY_INT, "2", 1, 64, NULL, "attention heads"},
    {"agent.hidden", FV_KEY_INT, "64", 1, 4096, NULL, "width of the LSTM's state"},
};

static fv_key_table agent_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    agent *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status read_sizes(agent *m, const fv_recipe *recipe, const fv_data_spec *spec)
{
    const int64_t patch = fv_recipe_int(recipe, "agent.patch");
    m->channels = fv_data_spec_get(spec, "channels", 0);
    m->height = fv_data_spec_get(spec, "height", 0);
    m->width = fv_data_spec_get(spec, "width", 0);
    m->actions = fv_data_spec_get(spec, "actions", 0);
    m->cell = fv_recipe_int(recipe, "agent.channels");
    m->hidden = fv_recipe_int(recipe, "agent.hidden");
    m->layers = (int)fv_recipe_int(recipe, "agent.layers");
    m->pooling = (pooling)fv_recipe_choice(recipe, "agent.pooling");
    FV_RETURN_IF(spec->ability != FV_CAN_ACT, m->ctx, FV_ERR_ARGUMENT,
                 "model.kind is agent: such a model can act, not %s",
                 fv_ability_name(spec->ability));
    FV_RETURN_IF(m->channels < 1 || m->channels > MAX_CHANNELS || m->height < 1 ||
                     m->height > MAX_SIDE || m->width < 1 || m->width > MAX_SIDE ||
                     m->actions < 2 || m->actions > MAX_ACTIONS,
                 m->ctx, FV_ERR_ARGUMENT,
                 "agent: pictures of %lld x %lld x %lld and %lld actions, expected 1 to %d "
                 "channels, sides of 1 to %d pixels and 2 to %d actions",
                 (long long)m->channels, (long long)m->height, (long long)m->width,
                 (long long)m->actions, (int)MAX_CHANNELS, (int)MAX_SIDE, (int)MAX_ACTIONS);
    FV_RETURN_IF(m->height % patch || m->width % patch, m->ctx, FV_ERR_ARGUMENT,
                 "agent.patch is %lld, expected a divisor of the picture's %lld x %lld pixels",
                 (long long)patch, (long long)m->height, (long long)m->width);
    m->rows = m->height / patch;
    m->cols = m->width / patch;
    return FV_OK;
}

static fv_status create_grid(agent *m, fv_params *params, int64_t patch)
{
    const fv_conv2d_options apart = {.stride = {patch, patch}}, same = {.padding = {1, 1}};
    FV_TRY(fv_conv2d_create(params, "grid.0", m->channels, m->cell, (int64_t[]){patch, patch}, true,
                            &apart, &m->conv[0]));
    for (int i = 1; i <= m->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "grid.%d", i);
        FV_TRY(fv_conv2d_create(params, name, m->cell, m->cell, (int64_t[]){3, 3}, true, &same,
                                &m->conv[i]));
    }
    m->places = fv_nn_weight(params, "grid", "places", 3, (int64_t[]){m->cell, m->rows, m->cols},
                             fv_init_normal(0.3));
    return m->ctx->error;
}

static fv_status create_look(agent *m, fv_params *params, int64_t heads)
{
    const int64_t all = m->pooling == FLAT ? m->rows * m->cols * m->cell : m->cell;
    if (m->pooling != ATTENTION)
        return fv_dense_create(params, "pool", all, m->cell, true, 0, &m->pool);
    FV_RETURN_IF(m->cell % heads, m->ctx, FV_ERR_ARGUMENT,
                 "agent.heads is %lld, expected a divisor of agent.channels, %lld",
                 (long long)heads, (long long)m->cell);
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, m->hidden, heads);
    cfg.width_k = cfg.width_v = cfg.width_out = m->cell;
    cfg.d_k = m->cell / heads;
    return fv_mha_create(params, "look", &cfg, &m->look);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    agent *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    FV_TRY(read_sizes(m, recipe, spec));
    FV_TRY(create_grid(m, params, fv_recipe_int(recipe, "agent.patch")));
    FV_TRY(create_look(m, params, fv_recipe_int(recipe, "agent.heads")));
    const int64_t gates = GATES * m->hidden;
    FV_TRY(fv_dense_create(params, "lstm.input", m->cell, gates, true, 0, &m->input));
    m->recurrent = fv_nn_weight(params, "lstm", "recurrent", 2, (int64_t[]){gates, m->hidden},
                                fv_init_xavier(m->hidden, gates));
    m->last_action = fv_nn_weight(params, "lstm", "last_action", 2,
                                  (int64_t[]){m->actions + 1, gates}, fv_init_normal(0.1));
    FV_TRY(fv_dense_create(params, "values", m->hidden, m->actions, true, 0, &m->values));
    return ctx->error;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static fv_tensor *refuse(fv_ctx *ctx, const char *what)
{
    fv_poison(ctx, FV_ERR_SHAPE, "agent: %s", what);
    return ctx->invalid;
}

static bool has_shape(const fv_field *f, fv_dtype dtype, int rank, const int64_t *shape)
{
    bool same = f->dtype == dtype && f->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = f->shape[i] == shape[i];
    return same;
}

/* Row `first[t] + i` is entry t of the i-th longest row. */
static fv_tensor *packed_pixels(fv_ctx *ctx, const agent *m, const fv_batch *batch,
                                const fv_packed_sequences *p)
{
    const int64_t picture[] = {m->channels, m->height, m->width};
    const int64_t shape[] = {p->total, m->channels, m->height, m->width};
    const int64_t size = m->channels * m->height * m->width;
    const fv_field *f = fv_batch_find(batch, "pixels");
    if (!has_shape(f, FV_F32, 3, picture)) return refuse(ctx, "pictures of another size");
    float *x = fv_host_alloc(ctx, FV_F32, 4, shape);
    for (int64_t t = 0; x && t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            memcpy(x + (p->first[t] + i) * size, (const float *)f->row[p->order[i]] + t * size,
                   (size_t)size * sizeof *x);
    return fv_scale(ctx, fv_host_tensor(ctx, FV_F32, x, 4, shape, FV_F32), BRIGHTER);
}

/* 1 for the forget gate, 0 for the others (i, f, g, o), [4 hidden]. */
static fv_tensor *forget_bias(fv_ctx *ctx, int64_t hidden)
{
    const int64_t gates = GATES * hidden;
    float *x = fv_host_alloc(ctx, FV_F32, 1, &gates);
    for (int64_t i = 0; x && i < gates; i++)
        x[i] = i / hidden == 1;
    return fv_host_tensor(ctx, FV_F32, x, 1, &gates, FV_F32);
}

/* What the actions before each step add to the gates, [total, 4 hidden]. */
static fv_tensor *packed_actions(fv_ctx *ctx, const agent *m, const fv_batch *batch,
                                 const fv_packed_sequences *p)
{
    const fv_field *f = fv_batch_find(batch, "last_action");
    if (f && !has_shape(f, FV_I64, 0, NULL)) return refuse(ctx, "last_action is not of i64");
    int64_t *x = fv_host_alloc(ctx, FV_I64, 1, &p->total);
    for (int64_t t = 0; x && t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            x[p->first[t] + i] = f ? ((const int64_t *)f->row[p->order[i]])[t] + 1 : 0;
    fv_tensor *index = fv_host_tensor(ctx, FV_I64, x, 1, &p->total, FV_I64);
    return fv_add(ctx, fv_embedding(ctx, m->last_action, index, -1), forget_bias(ctx, m->hidden));
}

/* The state before the first step, longest row first. */
static fv_tensor *first_state(fv_ctx *ctx, const agent *m, const fv_batch *batch,
                              const fv_packed_sequences *p)
{
    const int64_t width = STATE * m->hidden, shape[] = {p->sequences, width};
    const fv_field *f = fv_batch_find(batch, "state");
    if (!f) return fv_zeros(ctx, FV_F32, 2, shape);
    if (f->length || !has_shape(f, FV_F32, 1, &width))
        return refuse(ctx, "a state of another size");
    float *x = fv_host_alloc(ctx, FV_F32, 2, shape);
    for (int64_t i = 0; x && i < p->sequences; i++)
        memcpy(x + i * width, f->row[p->order[i]], (size_t)width * sizeof *x);
    return fv_host_tensor(ctx, FV_F32, x, 2, shape, FV_F32);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* What all steps share: k and v [total, heads, cells, d] of attention, or else what was pooled. */
typedef struct seen {
    fv_tensor *k, *v, *pooled, *actions;
} seen;

/* The tensors of each step. */
typedef struct trace {
    fv_tensor **h, **c, **weights; /* c and weights: NULL where they are not asked for */
} trace;

static seen look_at(fv_ctx *ctx, const agent *m, const fv_batch *batch,
                    const fv_packed_sequences *p)
{
    seen s = {.actions = packed_actions(ctx, m, batch, p)};
    fv_tensor *x = packed_pixels(ctx, m, batch, p);
    for (int i = 0; i <= m->layers; i++) {
        x = fv_relu(ctx, fv_conv2d_run(ctx, &m->conv[i], x));
        if (i == 0) x = fv_add(ctx, x, m->places);
    }
    const int64_t cells = m->rows * m->cols, shape[] = {p->total, m->cell, cells};
    x = fv_contiguous(ctx, fv_transpose(ctx, fv_reshape(ctx, x, 3, shape), 1, 2));
    if (m->pooling == ATTENTION) {
        fv_mha_project_keys(ctx, &m->look, x, NULL, 0, NULL, &s.k, &s.v);
        return s;
    }
    x = m->pooling == MEAN ? fv_mean(ctx, x, 1, (int[]){1}, false)
                           : fv_reshape(ctx, x, 2, (int64_t[]){p->total, cells * m->cell});
    s.pooled = fv_dense_run(ctx, &m->pool, x);
    return s;
}

/* g_t for rows first .. end - 1, [rows, cell]. */
static fv_tensor *attend(fv_ctx *ctx, const agent *m, const seen *s, int64_t first, int64_t end,
                         fv_tensor *h, fv_tensor **weights)
{
    if (m->pooling != ATTENTION) return fv_slice(ctx, s->pooled, 0, first, end, 1);
    fv_attention_result result;
    const fv_mha_input in = {.x = fv_unsqueeze(ctx, h, 1),
                             .k = fv_slice(ctx, s->k, 0, first, end, 1),
                             .v = fv_slice(ctx, s->v, 0, first, end, 1),
                             .want_weights = weights != NULL};
    fv_tensor *g = fv_mha_run(ctx, &m->look, &in, &result);
    if (weights)
        *weights = fv_reshape(ctx, result.weights, 2,
                              (int64_t[]){end - first, m->look.cfg.heads * m->rows * m->cols});
    return fv_squeeze(ctx, g, 1);
}

static void run_steps(fv_ctx *ctx, const agent *m, const fv_packed_sequences *p, const seen *s,
                      fv_tensor *state, const trace *out)
{
    fv_tensor *h = fv_slice(ctx, state, 1, 0, m->hidden, 1);
    fv_tensor *c = fv_slice(ctx, state, 1, m->hidden, STATE * m->hidden, 1);
    for (int64_t t = 0; t < p->steps && ctx->error == FV_OK; t++) {
        const int64_t n = p->rows[t], first = p->first[t];
        if (t > 0 && n < p->rows[t - 1]) {
            h = fv_slice(ctx, h, 0, 0, n, 1);
            c = fv_slice(ctx, c, 0, 0, n, 1);
        }
        fv_tensor *g =
            attend(ctx, m, s, first, first + n, h, out->weights ? &out->weights[t] : NULL);
        fv_tensor *gates = fv_dense_run(ctx, &m->input, g);
        gates = fv_add(ctx, gates, fv_linear(ctx, h, m->recurrent, NULL));
        gates = fv_add(ctx, gates, fv_slice(ctx, s->actions, 0, first, first + n, 1));
        fv_lstm_cell(ctx, gates, c, &h, &c);
        out->h[t] = h;
        if (out->c) out->c[t] = c;
    }
}

/* Weights of all steps as [rows, heads, steps, cells], for the pass's capture. */
static void give_weights(fv_ctx *ctx, const agent *m, const fv_packed_sequences *p,
                         const fv_pass *pass, const trace *steps)
{
    const int64_t heads = m->look.cfg.heads, cells = m->rows * m->cols;
    const int64_t shape[] = {p->sequences, p->steps, heads, cells};
    fv_tensor *w = fv_concat(ctx, (int)p->steps, steps->weights, 0);
    w = fv_reshape(ctx, fv_packed_pad(ctx, p, w, NULL), 4, shape);
    fv_capture_give(ctx, pass, SITE, fv_transpose(ctx, w, 1, 2));
}

static fv_tensor *run_packed(fv_ctx *ctx, const agent *m, const fv_batch *batch,
                             const fv_packed_sequences *p, const fv_pass *pass, const trace *steps,
                             fv_tensor **state)
{
    const seen s = look_at(ctx, m, batch, p);
    run_steps(ctx, m, p, &s, first_state(ctx, m, batch, p), steps);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (steps->weights) give_weights(ctx, m, p, pass, steps);
    fv_tensor *h = fv_concat(ctx, (int)p->steps, steps->h, 0);
    if (state) {
        fv_tensor *c = fv_concat(ctx, (int)p->steps, steps->c, 0);
        fv_tensor *both = fv_concat(ctx, 2, (fv_tensor *[]){h, c}, 1);
        *state = fv_packed_pool(ctx, p, both, FV_POOL_LAST);
    }
    fv_tensor *values = fv_packed_pad(ctx, p, fv_dense_run(ctx, &m->values, h), NULL);
    return fv_batch_find(batch, "pixels")->length ? values : fv_squeeze(ctx, values, 1);
}

/* Lengths of the rows of "pixels"; a field without lengths has one picture each. */
static fv_status pack(fv_ctx *ctx, const fv_batch *batch, fv_packed_sequences *out)
{
    const fv_field *f = fv_batch_find(batch, "pixels");
    FV_RETURN_IF(!f || batch->rows < 1, ctx, FV_ERR_ARGUMENT,
                 "agent: the batch has no field \"pixels\", or no rows");
    if (f->length) return fv_pack_sequences(ctx, batch->rows, f->length, out);
    const size_t bytes = (size_t)batch->rows * sizeof(int64_t);
    int64_t *ones = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!ones, ctx, FV_ERR_MEMORY, "no memory for %lld rows", (long long)batch->rows);
    for (int64_t i = 0; i < batch->rows; i++)
        ones[i] = 1;
    const fv_status status = fv_pack_sequences(ctx, batch->rows, ones, out);
    fv_mem_free(&ctx->mem, ones, bytes);
    return status;
}

static fv_tensor *act_with_state(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                 const fv_pass *pass, fv_tensor **state)
{
    enum { LISTS = 3 };
    const agent *m = self;
    fv_packed_sequences p;
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_status status = pack(ctx, inputs, &p);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    const bool captures = m->pooling == ATTENTION && pass && fv_capture_wants(pass->capture, SITE);
    const size_t bytes = LISTS * (size_t)p.steps * sizeof(fv_tensor *);
    fv_tensor **room = fv_mem_zalloc(&ctx->mem, bytes), *values = ctx->invalid;
    if (room) {
        const trace steps = {.h = room,
                             .c = state ? room + p.steps : NULL,
                             .weights = captures ? room + 2 * p.steps : NULL};
        values = run_packed(ctx, m, inputs, &p, pass, &steps, state);
        fv_mem_free(&ctx->mem, room, bytes);
    } else {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)p.steps);
    }
    fv_packed_free(&p);
    return values;
}

static fv_tensor *act(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    return act_with_state(ctx, self, inputs, pass, NULL);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const agent *m = self;
    if (m->pooling != ATTENTION) return 0;
    if (capacity > 0)
        *out = (fv_site){.name = SITE,
                         .heads = m->look.cfg.heads,
                         .queries = FV_AXIS_STEPS,
                         .keys = FV_AXIS_CELLS,
                         .rows = m->rows,
                         .cols = m->cols};
    return 1;
}

const fv_model_kind fv_kind_agent = {
    .struct_size = sizeof fv_kind_agent,
    .name = "agent",
    .types = "fovea-agent",
    .summary = "convolutions, recurrent attention over the grid and an LSTM, for values of actions",
    .abilities = 1u << FV_CAN_ACT,
    .keys = agent_keys,
    .create = create,
    .destroy = destroy,
    .act = act,
    .act_with_state = act_with_state,
    .attention_sites = sites,
};
