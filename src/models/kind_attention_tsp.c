/*
 * The attention model for routes (Kool, van Hoof, Welling 2019), with the names of its published
 * weights: a Transformer with batch norms reads the cities, and each step points at the next one.
 *
 *     h = W x + b;   h = norm(h + attention(h)),  h = norm(h + W2 relu(W1 h + b1) + b2)   per layer
 *     q = W_fixed mean(h) + W_step [h of the first city ; h of the last city]
 *     g = W_out attention of q over all cities not yet visited, in several heads
 *     p(next is j) = softmax_j clip tanh(g . k_j / sqrt(width)) over the cities not yet visited
 *
 * where k_j is the third part of W_node h_j; the first two are the keys and values of g. Before
 * there is a first city, a parameter stands for [first ; last]. In training a step's tour is given,
 * so all steps are computed at once.
 *
 * W_out is multiplied into k_j: g . k_j is (W_out a) . k_j = a . (W_out^T k_j).
 */
#include <math.h>
#include <stdio.h>

#include "fovea/ops.h"
#include "models/attention_tsp.h"
#include "models/model.h"
#include "nn/weights.h"

static const fv_key keys[] = {
    {"tsp.width", FV_KEY_INT, "128", 1, 512, NULL, "width of a state"},
    {"tsp.layers", FV_KEY_INT, "3", 1, FV_ATTENTION_TSP_LAYERS, NULL, "layers of the encoder"},
    {"tsp.heads", FV_KEY_INT, "8", 1, 512, NULL, "attention heads"},
    {"tsp.hidden", FV_KEY_INT, "512", 1, 8192, NULL, "units of a feed-forward network"},
    {"tsp.clip", FV_KEY_REAL, "10", 0.001, 1000, NULL, "bound of the logits"},
};

static fv_key_table tsp_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static fv_tensor *matrix(fv_params *params, const char *name, int64_t rows, int64_t columns)
{
    return fv_nn_weight(params, "", name, 2, (int64_t[]){rows, columns},
                        fv_init_xavier(columns, rows));
}

static fv_tensor *heads(fv_params *params, const char *prefix, const char *name,
                        const fv_attention_tsp *m, bool out)
{
    const int64_t d = m->width / m->heads;
    const int64_t shape[] = {m->heads, out ? d : m->width, out ? m->width : d};
    return fv_nn_weight(params, prefix, name, 3, shape, fv_init_xavier(m->width, m->width));
}

static fv_status create_layer(fv_params *params, int i, int64_t hidden, fv_attention_tsp *m)
{
    fv_attention_tsp_layer *l = &m->layer[i];
    char prefix[64];
    snprintf(prefix, sizeof prefix, "embedder.layers.%d.0.module", i);
    l->w_query = heads(params, prefix, "W_query", m, false);
    l->w_key = heads(params, prefix, "W_key", m, false);
    l->w_val = heads(params, prefix, "W_val", m, false);
    l->w_out = heads(params, prefix, "W_out", m, true);
    snprintf(prefix, sizeof prefix, "embedder.layers.%d.1.normalizer", i);
    FV_TRY(fv_batch_norms_add(&m->norms, params, prefix, m->width, &l->norm[0]));
    snprintf(prefix, sizeof prefix, "embedder.layers.%d.2.module.0", i);
    FV_TRY(fv_dense_create(params, prefix, m->width, hidden, true, 0, &l->up));
    snprintf(prefix, sizeof prefix, "embedder.layers.%d.2.module.2", i);
    FV_TRY(fv_dense_create(params, prefix, hidden, m->width, true, 0, &l->down));
    snprintf(prefix, sizeof prefix, "embedder.layers.%d.3.normalizer", i);
    return fv_batch_norms_add(&m->norms, params, prefix, m->width, &l->norm[1]);
}

static fv_status create_in(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                           fv_attention_tsp *m)
{
    FV_TRY(fv_point_problem(m->ctx, spec, &m->problem));
    m->width = fv_recipe_int(recipe, "tsp.width");
    m->heads = fv_recipe_int(recipe, "tsp.heads");
    m->layers = (int)fv_recipe_int(recipe, "tsp.layers");
    m->clip = fv_recipe_real(recipe, "tsp.clip");
    FV_RETURN_IF(m->width % m->heads != 0, m->ctx, FV_ERR_ARGUMENT,
                 "tsp.width %lld is not a multiple of tsp.heads %lld", (long long)m->width,
                 (long long)m->heads);
    FV_RETURN_IF(fv_problem_has_end(m->problem), m->ctx, FV_ERR_ARGUMENT,
                 "model.kind is attention-tsp: such a model visits every input, and cannot answer "
                 "%s, expected sort or tsp",
                 fv_problem_name(m->problem));
    const int64_t width = m->width, both = 2 * width;
    m->before = fv_nn_weight(params, "", "W_placeholder", 1, &both, fv_init_uniform(1));
    FV_TRY(fv_dense_create(params, "init_embed", fv_problem_width(m->problem), width, true, 0,
                           &m->embed));
    for (int i = 0; i < m->layers; i++)
        FV_TRY(create_layer(params, i, fv_recipe_int(recipe, "tsp.hidden"), m));
    m->nodes = matrix(params, "project_node_embeddings.weight", 3 * width, width);
    m->fixed = matrix(params, "project_fixed_context.weight", width, width);
    m->step = matrix(params, "project_step_context.weight", width, 2 * width);
    m->out = matrix(params, "project_out.weight", width, width);
    return m->ctx->error;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_attention_tsp *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    FV_TRY(fv_batch_norms_init(&m->norms, ctx));
    return create_in(params, recipe, spec, m);
}

static void destroy(void *self)
{
    fv_attention_tsp *m = self;
    fv_attention_tsp_search_free(m);
    fv_batch_norms_free(&m->norms);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

/* ---- the encoder ---------------------------------------------------------------------------- */

/* [heads, width, d] as the weight [heads d, width] of a linear layer. */
static fv_tensor *as_linear(fv_ctx *ctx, fv_tensor *w, int64_t width)
{
    w = fv_contiguous(ctx, fv_permute(ctx, w, (int[]){0, 2, 1}));
    return fv_reshape(ctx, w, 2, (int64_t[]){-1, width});
}

/* Columns [i width, (i + 1) width) of x [rows, all], split into heads: [1, heads, rows, d]. */
static fv_tensor *split_heads(fv_ctx *ctx, const fv_attention_tsp *m, fv_tensor *x, int i)
{
    x = fv_slice(ctx, x, 1, i * m->width, (i + 1) * m->width, 1);
    x = fv_reshape(ctx, x, 4, (int64_t[]){1, -1, m->heads, m->width / m->heads});
    return fv_transpose(ctx, x, 1, 2);
}

/* Queries, keys and values of a layer in one product, as the weight [3 width, width]. */
static fv_tensor *qkv_weight(fv_ctx *ctx, const fv_attention_tsp *m,
                             const fv_attention_tsp_layer *l)
{
    fv_tensor *const w[] = {as_linear(ctx, l->w_query, m->width),
                            as_linear(ctx, l->w_key, m->width), as_linear(ctx, l->w_val, m->width)};
    return fv_concat(ctx, 3, w, 0);
}

/* The same of the first layer from the points x, W (A x + b) = (W A) x + W b: with two numbers a
 * point that is hardly any arithmetic. */
static fv_tensor *qkv_of_points(fv_ctx *ctx, const fv_attention_tsp *m, fv_tensor *x)
{
    fv_tensor *w = qkv_weight(ctx, m, &m->layer[0]);
    fv_tensor *bias = fv_matmul(ctx, w, fv_unsqueeze(ctx, m->embed.bias, 1));
    return fv_linear(ctx, x, fv_matmul(ctx, w, m->embed.weight), fv_squeeze(ctx, bias, 1));
}

/* h + attention, from the queries, keys and values of h */
static fv_tensor *attend(fv_ctx *ctx, const fv_attention_tsp *m, const fv_attention_tsp_layer *l,
                         fv_tensor *begin, fv_tensor *qkv, fv_tensor *h)
{
    const int64_t width = m->width;
    const fv_attend_extra extra = {.q_begin = begin, .k_begin = begin};
    fv_tensor *y = fv_attend(ctx, split_heads(ctx, m, qkv, 0), split_heads(ctx, m, qkv, 1),
                             split_heads(ctx, m, qkv, 2), NULL, &extra, NULL);
    y = fv_reshape(ctx, fv_contiguous(ctx, fv_transpose(ctx, y, 1, 2)), 2, (int64_t[]){-1, width});
    fv_tensor *out = fv_reshape(ctx, l->w_out, 2, (int64_t[]){width, width});
    return fv_linear_act(ctx, y, fv_transpose(ctx, out, 0, 1), NULL, FV_ACT_NONE, h);
}

/* h [total, width]. */
static fv_tensor *encode(fv_ctx *ctx, fv_attention_tsp *m, const fv_point_sets *sets, bool training)
{
    fv_tensor *begin = fv_point_sets_begin(ctx, sets), *x = fv_point_sets_values(ctx, sets);
    fv_tensor *h = fv_dense_run(ctx, &m->embed, x);
    for (int i = 0; i < m->layers; i++) {
        const fv_attention_tsp_layer *l = &m->layer[i];
        fv_tensor *qkv =
            i == 0 ? qkv_of_points(ctx, m, x) : fv_linear(ctx, h, qkv_weight(ctx, m, l), NULL);
        h = attend(ctx, m, l, begin, qkv, h);
        h = fv_batch_norms_run(ctx, &m->norms, l->norm[0], h, training);
        fv_tensor *up = fv_linear_act(ctx, h, l->up.weight, l->up.bias, FV_ACT_RELU, NULL);
        h = fv_linear_act(ctx, up, l->down.weight, l->down.bias, FV_ACT_NONE, h);
        h = fv_batch_norms_run(ctx, &m->norms, l->norm[1], h, training);
    }
    return h;
}

/* The first or the last city's columns of W_step. */
static fv_tensor *step_weight(fv_ctx *ctx, const fv_attention_tsp *m, int i)
{
    return fv_slice(ctx, m->step, 1, i * m->width, (i + 1) * m->width, 1);
}

fv_tensor *fv_attention_tsp_begun(fv_ctx *ctx, const fv_attention_tsp *m, fv_tensor *h,
                                  fv_tensor *fixed, fv_tensor *first)
{
    return fv_linear_act(ctx, fv_index_select(ctx, h, first, 0), step_weight(ctx, m, 0), NULL,
                         FV_ACT_NONE, fixed);
}

fv_attention_tsp_memory fv_attention_tsp_encode(fv_ctx *ctx, fv_attention_tsp *m,
                                                const fv_point_sets *sets, bool training)
{
    const int64_t rows = sets->rows, width = m->width, choices = 1 + sets->longest,
                  d = width / m->heads, wide[] = {rows, choices, width};
    fv_attention_tsp_memory out;
    out.h = encode(ctx, m, sets, training);
    out.fixed = fv_linear(ctx, fv_point_sets_mean(ctx, sets, out.h), m->fixed, NULL);
    out.none = fv_linear(ctx, fv_unsqueeze(ctx, m->before, 0), m->step, NULL);

    fv_tensor *zeros = fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, width});
    fv_tensor *h = fv_concat(ctx, 2, (fv_tensor *[]){zeros, out.h}, 0);
    h = fv_index_select(ctx, h, fv_point_sets_choices(ctx, sets), 0);
    fv_tensor *attended = fv_slice(ctx, m->nodes, 0, 0, 2 * width, 1),
              *point = fv_slice(ctx, m->nodes, 0, 2 * width, 3 * width, 1);
    fv_tensor *kv = fv_linear(ctx, h, attended, NULL);
    kv = fv_reshape(ctx, kv, 5, (int64_t[]){rows, choices, 2, m->heads, d});
    kv = fv_contiguous(ctx, fv_permute(ctx, kv, (int[]){2, 0, 3, 1, 4}));
    out.k = fv_squeeze(ctx, fv_slice(ctx, kv, 0, 0, 1, 1), 0);
    out.v = fv_squeeze(ctx, fv_slice(ctx, kv, 0, 1, 2, 1), 0);
    point = fv_matmul(ctx, fv_transpose(ctx, m->out, 0, 1), point);
    out.point = fv_reshape(ctx, fv_linear(ctx, h, point, NULL), 3, wide);
    out.last = fv_reshape(ctx, fv_linear(ctx, h, step_weight(ctx, m, 1), NULL), 3, wide);
    return out;
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    fv_attention_tsp *m = self;
    (void)step;
    (void)phase;
    return fv_batch_norms_step(&m->norms);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    (void)self;
    if (capacity > 0)
        out[0] = (fv_site){.name = "decoder.0.cross",
                           .heads = 1,
                           .queries = FV_AXIS_STEPS,
                           .keys = FV_AXIS_POINTS};
    return 1;
}

const fv_model_kind fv_kind_attention_tsp = {
    .struct_size = sizeof fv_kind_attention_tsp,
    .name = "attention-tsp",
    .summary = "attention model for routes: points at the next city",
    .abilities = 1u << FV_CAN_POINT,
    .keys = tsp_keys,
    .create = create,
    .destroy = destroy,
    .loss = fv_attention_tsp_loss,
    .make_stepper = fv_attention_tsp_stepper,
    .attention_sites = sites,
    .step_done = step_done,
};
