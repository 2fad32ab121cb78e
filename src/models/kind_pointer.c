/*
 * The pointer network as a model kind. An encoder reads a set of vectors x_j into states h_j, an
 * LSTM whose input is the vector chosen last steps from state to state, and the current state
 * points at an input, or at the end:
 *
 *     e_j = W [x_j, sin(2^k pi x_j), cos(2^k pi x_j)] + b       k below pointer.frequencies
 *     h   = blocks of self-attention over the set (encoder "set"), or an LSTM over e ("lstm")
 *     s_i = LSTM(s_(i-1), [e_c ; h_c]),  c the input chosen at step i - 1
 *     u_ij = v . tanh(W1 h_j + W2 s_i),  j = 0 the end, whose W1 h_0 is a parameter
 *     p(choice i is j) = softmax_j u_ij over the choices that keep the output valid
 *
 * It reads the field "points" and learns from "target".
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fovea/ops.h"
#include "models/model.h"
#include "models/pointer.h"
#include "nn/weights.h"

static const fv_key keys[] = {
    {"pointer.encoder", FV_KEY_CHOICE, "set", 0, 0, "set|lstm",
     "what reads the inputs: self-attention without positions, or an LSTM in the given order"},
    {"pointer.width", FV_KEY_INT, "128", 1, 512, NULL, "width of encoder and decoder states"},
    {"pointer.layers", FV_KEY_INT, "3", 1, FV_POINTER_LAYERS, NULL, "layers of the encoder"},
    {"pointer.heads", FV_KEY_INT, "8", 1, 512, NULL, "set: attention heads of a layer"},
    {"pointer.frequencies", FV_KEY_INT, "0", 0, 16, NULL,
     "sines and cosines of each input number, with 1, 2, 4, ... half waves over [0, 1]"},
};

static fv_key_table pointer_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static fv_status create_encoder(fv_params *params, const fv_recipe *recipe, fv_pointer *m)
{
    if (m->reads_in_order) {
        fv_rnn_config cfg;
        fv_rnn_config_init(&cfg, sizeof cfg);
        cfg.cell = FV_CELL_LSTM;
        cfg.input = cfg.hidden = m->width;
        cfg.layers = m->layers;
        return fv_rnn_create(params, "encoder", &cfg, &m->reader);
    }
    const int64_t heads = fv_recipe_int(recipe, "pointer.heads");
    FV_RETURN_IF(m->width % heads != 0, m->ctx, FV_ERR_ARGUMENT,
                 "pointer.width %lld is not a multiple of pointer.heads %lld", (long long)m->width,
                 (long long)heads);
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, m->width, heads);
    for (int i = 0; i < m->layers; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "encoder.%d", i);
        FV_TRY(fv_block_create(params, prefix, &cfg, &m->block[i]));
    }
    FV_TRY(fv_norm_layer_create(params, "encoder.norm", m->width, FV_NORM_LAYER, true, cfg.eps,
                                &m->norm));
    return fv_dense_create(params, "decoder.first", m->width, m->width, true, 0, &m->first);
}

static fv_status create_decoder(fv_params *params, fv_pointer *m)
{
    const int64_t width = m->width, fed = 2 * width;
    const fv_init small = fv_init_uniform(1 / sqrt((double)width));
    fv_rnn_config cfg;
    fv_rnn_config_init(&cfg, sizeof cfg);
    cfg.cell = FV_CELL_LSTM;
    cfg.input = fed;
    cfg.hidden = width;
    FV_TRY(fv_rnn_create(params, "decoder", &cfg, &m->writer));
    m->start = fv_nn_weight(params, "decoder", "start", 1, &fed, small);
    m->end = fv_nn_weight(params, "pointer", "end", 1, &width, small);
    m->v = fv_nn_weight(params, "pointer", "v", 1, &width, small);
    FV_TRY(fv_dense_create(params, "pointer.key", width, width, false, 0, &m->key));
    FV_TRY(fv_dense_create(params, "pointer.query", width, width, true, 0, &m->query));
    return m->ctx->error;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_pointer *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    FV_TRY(fv_point_problem(ctx, spec, &m->problem));
    m->reads_in_order = strcmp(fv_recipe_text(recipe, "pointer.encoder"), "lstm") == 0;
    m->width = fv_recipe_int(recipe, "pointer.width");
    m->layers = (int)fv_recipe_int(recipe, "pointer.layers");
    m->frequencies = (int)fv_recipe_int(recipe, "pointer.frequencies");
    const int64_t numbers = fv_problem_width(m->problem) * (1 + 2 * m->frequencies);
    FV_TRY(fv_dense_create(params, "embed", numbers, m->width, true, 0, &m->embed));
    FV_TRY(create_encoder(params, recipe, m));
    return create_decoder(params, m);
}

static void destroy(void *self)
{
    fv_pointer *m = self;
    fv_pointer_search_free(m);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

/* ---- the encoder ---------------------------------------------------------------------------- */

/* The inputs with their sines and cosines, [total, numbers]. */
static fv_tensor *read_inputs(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets)
{
    fv_tensor *x = fv_point_sets_values(ctx, sets), *part[1 + 2 * 16] = {x};
    int count = 1;
    for (int k = 0; k < m->frequencies; k++) {
        fv_tensor *angle = fv_scale(ctx, x, ldexp(3.14159265358979323846, k));
        part[count++] = fv_sin(ctx, angle);
        part[count++] = fv_cos(ctx, angle);
    }
    return count > 1 ? fv_concat(ctx, count, part, 1) : x;
}

/* h [total, width] and the first state by self-attention. */
static fv_tensor *read_set(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                           fv_tensor *x, bool training, fv_pointer_memory *out)
{
    fv_tensor *begin = fv_point_sets_begin(ctx, sets);
    x = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->embed, x), 0);
    for (int i = 0; i < m->layers; i++) {
        const fv_block_input in = {
            .x = x, .q_begin = begin, .k_begin = begin, .training = training};
        x = fv_block_run(ctx, &m->block[i], &in, NULL);
    }
    x = fv_squeeze(ctx, fv_norm_layer_run(ctx, &m->norm, x), 0);
    out->h = fv_tanh(ctx, fv_dense_run(ctx, &m->first, fv_point_sets_mean(ctx, sets, x)));
    out->c = fv_zeros(ctx, FV_F32, 2, (int64_t[]){sets->rows, m->width});
    return x;
}

/* The LSTM that reads the inputs, with the embedding in the weight of its first layer:
 * A (W x + b) = (A W) x + A b. */
static fv_rnn reader_of_inputs(fv_ctx *ctx, const fv_pointer *m)
{
    fv_rnn rnn = m->reader;
    fv_rnn_weights *w = &rnn.weights[0][0];
    fv_tensor *bias = fv_matmul(ctx, w->input, fv_unsqueeze(ctx, m->embed.bias, 1));
    w->input_bias = fv_add(ctx, w->input_bias, fv_squeeze(ctx, bias, 1));
    w->input = fv_matmul(ctx, w->input, m->embed.weight);
    rnn.cfg.input = fv_tensor_size(m->embed.weight, 1);
    return rnn;
}

/* The same by an LSTM in the order of the inputs. Rows of `x` are sets one after the other, the
 * LSTM wants packed sequences. */
static fv_tensor *read_in_order(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                                fv_tensor *x, bool training, fv_pointer_memory *out)
{
    fv_packed_sequences p;
    if (fv_pack_sequences(ctx, sets->rows, sets->field->length, &p) != FV_OK) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)sets->total);
        return ctx->invalid;
    }
    const size_t bytes = 2 * (size_t)sets->total * sizeof(int64_t);
    int64_t *there = fv_mem_alloc(&ctx->mem, bytes), *back = there + sets->total;
    fv_tensor *h = ctx->invalid;
    if (!there) fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld points", (long long)sets->total);
    for (int64_t t = 0; there && t < p.steps; t++)
        for (int64_t i = 0; i < p.rows[t]; i++) {
            there[p.first[t] + i] = sets->begin[p.order[i]] + t;
            back[sets->begin[p.order[i]] + t] = p.first[t] + i;
        }
    if (there) {
        fv_rnn_state last;
        const fv_rnn reader = reader_of_inputs(ctx, m);
        x = fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &sets->total, there), 0);
        h = fv_rnn_run(ctx, &reader, x, &p, NULL, training, &last);
        h = fv_index_select(ctx, h, fv_from_host(ctx, FV_I64, 1, &sets->total, back), 0);
        out->h = last.h[m->layers - 1][0];
        out->c = last.c[m->layers - 1][0];
        fv_mem_free(&ctx->mem, there, bytes);
    }
    fv_packed_free(&p);
    return h;
}

static fv_tensor *filled(fv_ctx *ctx, int64_t rows, int64_t columns, double value)
{
    return fv_full(ctx, FV_F32, 2, (int64_t[]){rows, columns}, value);
}

/* The table, and the weight for its rows (models/pointer.h). */
static void feed_states(fv_ctx *ctx, const fv_pointer *m, fv_tensor *x, fv_tensor *h,
                        fv_pointer_memory *out)
{
    const fv_rnn_weights *w = &m->writer.weights[0][0];
    const int64_t width = m->width, numbers = fv_tensor_size(m->embed.weight, 1);
    if (ctx->error != FV_OK) return;
    const int64_t total = fv_tensor_size(h, 0);
    fv_tensor *const rows[] = {x, filled(ctx, total, 1, 1), filled(ctx, total, 1, 0), h};
    fv_tensor *start = fv_unsqueeze(ctx, m->start, 0);
    fv_tensor *const first[] = {filled(ctx, 1, numbers + 1, 0), filled(ctx, 1, 1, 1),
                                fv_slice(ctx, start, 1, width, 2 * width, 1)};
    out->table = fv_concat(
        ctx, 2, (fv_tensor *[]){fv_concat(ctx, 3, first, 1), fv_concat(ctx, 4, rows, 1)}, 0);

    fv_tensor *begun = fv_slice(ctx, start, 1, 0, width, 1);
    fv_tensor *const embedded[] = {m->embed.weight, fv_unsqueeze(ctx, m->embed.bias, 1),
                                   fv_transpose(ctx, begun, 0, 1)};
    fv_tensor *a = fv_slice(ctx, w->input, 1, 0, width, 1);
    fv_tensor *const parts[] = {fv_matmul(ctx, a, fv_concat(ctx, 3, embedded, 1)),
                                fv_slice(ctx, w->input, 1, width, 2 * width, 1)};
    out->input = fv_concat(ctx, 2, parts, 1);
}

fv_pointer_memory fv_pointer_encode(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                                    bool training)
{
    fv_tensor *none = ctx->invalid, *x = read_inputs(ctx, m, sets);
    fv_pointer_memory out = {.table = none, .input = none, .h = none, .c = none};
    fv_tensor *h = m->reads_in_order ? read_in_order(ctx, m, sets, x, training, &out)
                                     : read_set(ctx, m, sets, x, training, &out);
    feed_states(ctx, m, x, h, &out);
    fv_tensor *key = fv_dense_run(ctx, &m->key, h);
    key = fv_concat(ctx, 2, (fv_tensor *[]){fv_unsqueeze(ctx, m->end, 0), key}, 0);
    key = fv_index_select(ctx, key, fv_point_sets_choices(ctx, sets), 0);
    out.keys = fv_reshape(ctx, key, 3, (int64_t[]){sets->rows, 1 + sets->longest, m->width});
    return out;
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

const fv_model_kind fv_kind_pointer = {
    .struct_size = sizeof fv_kind_pointer,
    .name = "pointer",
    .summary = "pointer network: answers are lists of the inputs",
    .abilities = 1u << FV_CAN_POINT,
    .keys = pointer_keys,
    .create = create,
    .destroy = destroy,
    .loss = fv_pointer_loss,
    .make_stepper = fv_pointer_stepper,
    .attention_sites = sites,
};
