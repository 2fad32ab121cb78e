/*
 * The Neural Turing Machine (Graves, Wayne, Danihelka 2014) as a model kind: a controller that
 * reads from and writes to a memory M of ntm.slots x ntm.width numbers by attention.
 *
 *     h_t = controller(x_t, r_(t-1))           an LSTM, or tanh(W [r, x] + b)
 *     p_t = H h_t + c                          raw parameters of all heads
 *     r_t, w_t, M_t = fv_ntm_step(p_t, w_(t-1), M_(t-1))
 *     y_t = V [h_t, r_t] + d                   logits of bits
 *
 * With ntm.slots = 0 there is no memory: the controller alone, which is the LSTM baseline. All
 * heads start at slot 0. Sequences of a batch may differ in length; those that have ended cost
 * nothing, and a row's bits do not depend on the others.
 */
#include <math.h>

#include "models/ntm.h"
#include "nn/weights.h"
#include "ops/product.h"

enum { MOST_SLOTS = 1 << 16, MOST_WIDTH = 1 << 12, MOST_HEADS = 64, MOST_SHIFTS = 1023 };

static const fv_key keys[] = {
    {"ntm.slots", FV_KEY_INT, "128", 0, MOST_SLOTS, NULL,
     "slots of the memory; 0: none, the controller alone"},
    {"ntm.width", FV_KEY_INT, "20", 1, MOST_WIDTH, NULL, "numbers of a slot"},
    {"ntm.readers", FV_KEY_INT, "1", 1, MOST_HEADS, NULL, "read heads"},
    {"ntm.writers", FV_KEY_INT, "1", 0, MOST_HEADS, NULL, "write heads"},
    {"ntm.shifts", FV_KEY_INT, "3", 0, MOST_SHIFTS, NULL,
     "offsets by which a head moves, an odd number; 0: one shift, uniform over a width of 1"},
    {"ntm.controller", FV_KEY_CHOICE, "lstm", 0, 0, "lstm|feed-forward", "kind of controller"},
    {"ntm.hidden", FV_KEY_INT, "100", 1, 1 << 14, NULL, "units of the controller"},
    {"ntm.memory", FV_KEY_CHOICE, "constant", 0, 0, "constant|learned",
     "what the memory holds before the first step: 1e-6 everywhere, or parameters"},
};

static fv_key_table ntm_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static fv_tensor *start_of(fv_params *params, const char *name, int64_t width)
{
    return fv_nn_weight(params, "start", name, 2, (int64_t[]){1, width}, fv_init_normal(0.05));
}

static fv_status create_layers(fv_params *params, fv_ntm *m)
{
    const int64_t read = m->slots > 0 ? m->heads.readers * m->width : 0;
    const double bound = 1 / sqrt((double)m->hidden) / sqrt(3.0);
    const int64_t in = (m->feed_forward ? 0 : m->hidden) + read + m->inputs;
    FV_TRY(fv_dense_create(params, "controller", in, (m->feed_forward ? 1 : 4) * m->hidden, true,
                           bound, &m->controller));
    if (!m->feed_forward) {
        m->start_h = start_of(params, "h", m->hidden);
        m->start_c = start_of(params, "c", m->hidden);
    }
    if (m->slots > 0) {
        m->start_read = start_of(params, "read", read);
        if (m->learned_memory)
            m->start_memory = fv_nn_weight(params, "start", "memory", 3,
                                           (int64_t[]){1, m->width, m->slots}, fv_init_normal(0.1));
        FV_TRY(fv_dense_create(params, "heads", m->hidden, fv_ntm_params(&m->heads, m->width), true,
                               0, &m->head));
    }
    FV_TRY(fv_dense_create(params, "output", m->hidden + read, m->outputs, true, 0, &m->output));
    return m->ctx->error;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_ntm *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    *m = (fv_ntm){.ctx = ctx,
                  .inputs = fv_data_spec_get(spec, "inputs", 0),
                  .outputs = fv_data_spec_get(spec, "outputs", 0),
                  .hidden = fv_recipe_int(recipe, "ntm.hidden"),
                  .slots = fv_recipe_int(recipe, "ntm.slots"),
                  .width = fv_recipe_int(recipe, "ntm.width"),
                  .heads = {.readers = fv_recipe_int(recipe, "ntm.readers"),
                            .writers = fv_recipe_int(recipe, "ntm.writers"),
                            .shifts = fv_recipe_int(recipe, "ntm.shifts")},
                  .feed_forward = fv_recipe_choice(recipe, "ntm.controller") == 1,
                  .learned_memory = fv_recipe_choice(recipe, "ntm.memory") == 1};
    FV_RETURN_IF(
        m->inputs < 1 || m->outputs < 1 || m->inputs > MOST_WIDTH || m->outputs > MOST_WIDTH, ctx,
        FV_ERR_ARGUMENT, "ntm: vectors of %lld inputs and %lld outputs, expected 1 to %d",
        (long long)m->inputs, (long long)m->outputs, MOST_WIDTH);
    FV_RETURN_IF(m->heads.shifts > 0 && m->heads.shifts % 2 == 0, ctx, FV_ERR_ARGUMENT,
                 "ntm.shifts is %lld, expected an odd number, or 0", (long long)m->heads.shifts);
    return create_layers(params, m);
}

static void destroy(void *self)
{
    fv_ntm *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

/* ---- a pass --------------------------------------------------------------------------------- */

static fv_tensor *fail(fv_ctx *ctx, fv_status status, const char *message)
{
    fv_poison(ctx, status, "%s", message);
    return ctx->invalid;
}

typedef struct state {
    fv_tensor *h, *c, *read, *weights, *memory; /* NULL where the model has none */
} state;

static fv_tensor *repeat(fv_ctx *ctx, fv_tensor *x, int64_t rows)
{
    if (!x) return NULL;
    int64_t shape[FV_MAX_RANK] = {rows};
    for (int i = 1; i < fv_tensor_rank(x); i++)
        shape[i] = fv_tensor_shape(x)[i];
    return fv_broadcast(ctx, x, fv_tensor_rank(x), shape);
}

static state start_state(fv_ctx *ctx, const fv_ntm *m, int64_t rows)
{
    state s = {.h = repeat(ctx, m->start_h, rows),
               .c = repeat(ctx, m->start_c, rows),
               .read = repeat(ctx, m->start_read, rows),
               .memory = repeat(ctx, m->start_memory, rows)};
    if (m->slots == 0) return s;
    const int64_t heads = m->heads.readers + m->heads.writers;
    fv_tensor *at[] = {fv_full(ctx, FV_F32, 3, (int64_t[]){rows, heads, 1}, 1),
                       fv_zeros(ctx, FV_F32, 3, (int64_t[]){rows, heads, m->slots - 1})};
    s.weights = fv_concat(ctx, 2, at, 2);
    if (!s.memory) s.memory = fv_full(ctx, FV_F32, 3, (int64_t[]){rows, m->width, m->slots}, 1e-6);
    return s;
}

static fv_tensor *first_rows(fv_ctx *ctx, fv_tensor *x, int64_t rows)
{
    return x ? fv_slice(ctx, x, 0, 0, rows, 1) : NULL;
}

static void run_controller(fv_ctx *ctx, const fv_ntm *m, fv_tensor *x, state *s)
{
    fv_tensor *parts[3];
    int n = 0;
    if (!m->feed_forward) parts[n++] = s->h;
    if (s->read) parts[n++] = s->read;
    parts[n++] = x;
    fv_tensor *gates = fv_dense_run(ctx, &m->controller, n > 1 ? fv_concat(ctx, n, parts, 1) : x);
    if (m->feed_forward)
        s->h = fv_tanh(ctx, gates);
    else
        fv_lstm_cell(ctx, gates, s->c, &s->h, &s->c);
}

/* One step of the rows that still run. */
static void run_step(fv_ctx *ctx, const fv_ntm *m, fv_tensor *x, state *s, int64_t t,
                     const fv_ntm_trace *trace)
{
    run_controller(ctx, m, x, s);
    if (m->slots == 0) return;
    fv_tensor *params = fv_dense_run(ctx, &m->head, s->h);
    if (trace) {
        trace->params[t] = params;
        trace->memory[t] = s->memory;
    }
    fv_ntm_step(ctx, params, s->weights, s->memory, &m->heads, &s->read, &s->weights, &s->memory);
    if (trace) trace->weights[t] = s->weights;
}

/* Logits from the states of all steps with an answer. */
static fv_tensor *answer(fv_ctx *ctx, const fv_ntm *m, const fv_ntm_rows *rows, fv_tensor **h,
                         fv_tensor **read)
{
    const int steps = (int)(rows->packed.steps - rows->first_answer);
    fv_tensor *all[2] = {fv_concat(ctx, steps, h, 0), NULL};
    if (m->slots > 0) {
        all[1] = fv_concat(ctx, steps, read, 0);
        all[0] = fv_concat(ctx, 2, all, 1);
    }
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &rows->answers, rows->answer);
    return fv_dense_run(ctx, &m->output, fv_index_select(ctx, all[0], index, 0));
}

/* Packs a weight that every step multiplies with. */
static void pack(fv_ctx *ctx, const fv_dense *layer)
{
    if (ctx->error != FV_OK || !layer->weight || fv_weight_packed(layer->weight)) return;
    const fv_status status = fv_linear_pack(ctx, layer->weight);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
}

static fv_tensor *run_rows(fv_ctx *ctx, const fv_ntm *m, const fv_ntm_rows *rows,
                           const fv_ntm_trace *trace)
{
    const fv_packed_sequences *p = &rows->packed;
    const size_t bytes = (size_t)(2 * p->steps) * sizeof(fv_tensor *);
    fv_tensor **kept = fv_mem_zalloc(&ctx->mem, bytes);
    if (!kept) return fail(ctx, FV_ERR_MEMORY, "no memory for the steps of a batch");
    pack(ctx, &m->controller);
    pack(ctx, &m->head);
    state s = start_state(ctx, m, p->rows[0]);
    for (int64_t t = 0; t < p->steps; t++) {
        if (t > 0 && p->rows[t] < p->rows[t - 1])
            s = (state){.h = first_rows(ctx, s.h, p->rows[t]),
                        .c = first_rows(ctx, s.c, p->rows[t]),
                        .read = first_rows(ctx, s.read, p->rows[t]),
                        .weights = first_rows(ctx, s.weights, p->rows[t]),
                        .memory = first_rows(ctx, s.memory, p->rows[t])};
        fv_tensor *x = fv_slice(ctx, rows->inputs, 0, p->first[t], p->first[t] + p->rows[t], 1);
        run_step(ctx, m, x, &s, t, trace);
        kept[t] = s.h;
        kept[p->steps + t] = s.read;
    }
    fv_tensor *logits =
        answer(ctx, m, rows, kept + rows->first_answer, kept + p->steps + rows->first_answer);
    fv_mem_free(&ctx->mem, kept, bytes);
    return logits;
}

/* Runs the rows; with a capture, one sequence whose steps are traced. */
static fv_tensor *run_traced(fv_ctx *ctx, const fv_ntm *m, const fv_ntm_rows *rows,
                             const fv_pass *pass)
{
    fv_ntm_trace trace = {.steps = 0};
    if (!pass || !pass->capture || m->slots == 0) return run_rows(ctx, m, rows, NULL);
    if (rows->packed.sequences != 1)
        return fail(ctx, FV_ERR_ARGUMENT, "ntm: heads are captured of one sequence at a time");
    const fv_status status = fv_ntm_trace_make(ctx, rows->packed.steps, &trace);
    fv_tensor *logits = ctx->invalid;
    if (status == FV_OK) {
        logits = run_rows(ctx, m, rows, &trace);
        if (ctx->error == FV_OK) fv_ntm_trace_give(ctx, m, &trace, pass);
    } else {
        fv_make_last_failure_sticky(ctx, status);
    }
    fv_ntm_trace_free(ctx, &trace);
    return logits;
}

static fv_tensor *predict(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    const fv_ntm *m = self;
    fv_ntm_rows rows;
    const fv_status status = fv_ntm_rows_make(ctx, m, inputs, &rows);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    fv_tensor *logits = status == FV_OK ? run_traced(ctx, m, &rows, pass) : ctx->invalid;
    fv_ntm_rows_free(ctx, &rows);
    return logits;
}

/* All targets, in the order of the answers. */
static fv_tensor *targets_of(fv_ctx *ctx, const fv_ntm *m, const fv_batch *batch)
{
    const fv_field *f = fv_batch_find(batch, "targets");
    if (!f) return fail(ctx, FV_ERR_ARGUMENT, "ntm: the batch has no \"targets\"");
    fv_tensor **rows = fv_mem_zalloc(&ctx->mem, (size_t)batch->rows * sizeof *rows);
    if (!rows) return fail(ctx, FV_ERR_MEMORY, "no memory for targets");
    for (int64_t i = 0; i < batch->rows; i++)
        rows[i] = fv_from_host(ctx, FV_F32, 2, (int64_t[]){f->length[i], m->outputs}, f->row[i]);
    fv_tensor *all = fv_concat(ctx, (int)batch->rows, rows, 0);
    fv_mem_free(&ctx->mem, rows, (size_t)batch->rows * sizeof *rows);
    return all;
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const fv_ntm *m = self;
    fv_tensor *logits = predict(ctx, self, batch, pass), *targets = targets_of(ctx, m, batch);
    if (ctx->error != FV_OK) return ctx->invalid;
    const double bits = (double)fv_tensor_count(targets);
    return fv_scale(ctx, fv_bce_logits(ctx, logits, targets), bits);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const fv_ntm *m = self;
    const int heads = m->slots > 0 ? (int)(m->heads.readers + m->heads.writers) : 0;
    for (int h = 0; h < heads && h < capacity; h++) {
        out[h] = (fv_site){.heads = 1, .queries = FV_AXIS_STEPS, .keys = FV_AXIS_SLOTS};
        fv_ntm_site_name(m, h, "", out[h].name, sizeof out[h].name);
    }
    return heads;
}

static fv_status capture(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    predict(ctx, self, batch, pass);
    return ctx->error;
}

const fv_model_kind fv_kind_ntm = {
    .struct_size = sizeof fv_kind_ntm,
    .name = "ntm",
    .types = "fovea-ntm",
    .summary = "a Neural Turing Machine: a controller with a memory, for sequences of bits",
    .abilities = 1u << FV_CAN_PREDICT,
    .keys = ntm_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .attention_sites = sites,
    .capture_attention = capture,
    .predict = predict,
};
