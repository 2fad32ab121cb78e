#include "nn/recurrent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/ctx.h"
#include "fovea/ops.h"
#include "nn/packed_sequences.h"
#include "nn/weights.h"
#include "ops/draw.h"
#include "ops/sequence.h"

static const int gates_of[FV_CELL_COUNT] = {1, 3, 4};

void fv_rnn_config_init(fv_rnn_config *cfg, size_t struct_size)
{
    const fv_rnn_config defaults = {
        .struct_size = struct_size, .cell = FV_CELL_GRU, .input = 1, .hidden = 1, .layers = 1};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* ---- parameters ------------------------------------------------------------------- */

static fv_rnn_weights make_weights(fv_params *params, const char *prefix, const fv_rnn_config *cfg,
                                   int layer, int direction)
{
    const int64_t hidden = cfg->hidden, gates = gates_of[cfg->cell] * hidden;
    const int64_t below = layer == 0 ? cfg->input : cfg->bidirectional ? 2 * hidden : hidden;
    const fv_init start = fv_init_uniform(1.0 / sqrt((double)hidden));
    static const char *const kinds[4] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    fv_tensor *made[4];
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_l%d%s", kinds[i], layer, direction ? "_reverse" : "");
        const int64_t shape[2] = {gates, i == 0 ? below : hidden};
        made[i] = fv_nn_weight(params, prefix, name, i < 2 ? 2 : 1, shape, start);
    }
    return (fv_rnn_weights){made[0], made[1], made[2], made[3]};
}

fv_status fv_rnn_create(fv_params *params, const char *prefix, const fv_rnn_config *given,
                        fv_rnn *out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_rnn_config full, *cfg = &full;
    fv_rnn_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given) || cfg->cell < FV_CELL_RNN ||
                     cfg->cell >= FV_CELL_COUNT || cfg->input < 1 || cfg->hidden < 1 ||
                     cfg->hidden > INT32_MAX || cfg->layers < 1 || cfg->layers > FV_RNN_LAYERS ||
                     !(cfg->dropout >= 0 && cfg->dropout < 1),
                 ctx, FV_ERR_ARGUMENT, "rnn: a setting is out of range");
    *out = (fv_rnn){.cfg = *cfg};
    for (int layer = 0; layer < cfg->layers; layer++)
        for (int direction = 0; direction <= cfg->bidirectional; direction++)
            out->weights[layer][direction] = make_weights(params, prefix, cfg, layer, direction);
    return ctx->error;
}

/* ---- one step --------------------------------------------------------------------- */

fv_tensor *fv_rnn_step(fv_ctx *ctx, fv_cell cell, const fv_rnn_weights *w, fv_tensor *input_gates,
                       fv_tensor *h, fv_tensor **c)
{
    fv_tensor *own = fv_linear(ctx, h, w->hidden, w->hidden_bias);
    if (cell == FV_CELL_GRU) return fv_gru_cell(ctx, input_gates, own, h);
    fv_tensor *gates = fv_add(ctx, input_gates, own);
    if (cell == FV_CELL_RNN) return fv_tanh(ctx, gates);
    fv_tensor *h_new = NULL, *c_new = NULL;
    fv_lstm_cell(ctx, gates, *c, &h_new, &c_new);
    *c = c_new;
    return h_new;
}

/* ---- sequences -------------------------------------------------------------------- */

static fv_tensor *reorder(fv_ctx *ctx, fv_tensor *x, int64_t n, const int64_t *index)
{
    return fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &n, index), 0);
}

/* One direction of one layer. States are sorted by length; NULL: zeros. */
typedef struct pass {
    fv_ctx *ctx;
    const fv_rnn_weights *weights;
    const fv_packed_sequences *packed;
    bool reverse;
    fv_tensor *x, *lengths;     /* all inputs, and i64 [sequences] */
    fv_tensor *gates;           /* of these inputs; NULL: not computed yet */
    bool own_gates;             /* computed here: nothing else reads them */
    fv_tensor *h0, *c0;         /* c: LSTM only */
    fv_tensor *h_last, *c_last; /* results */
} pass;

/* An LSTM's two biases are added first; other cells apply the second one separately. */
static fv_tensor *make_gates(fv_ctx *ctx, fv_cell cell, const fv_rnn_weights *w, fv_tensor *x)
{
    fv_tensor *bias = w->input_bias;
    if (cell == FV_CELL_LSTM) bias = fv_add(ctx, bias, w->hidden_bias);
    return fv_linear(ctx, x, w->input, bias);
}

static fv_tensor *run_gru(pass *p)
{
    return fv_gru_varlen(p->ctx, p->gates, p->lengths, p->weights->hidden, p->weights->hidden_bias,
                         p->h0, p->reverse, &p->h_last);
}

static fv_tensor *run_lstm(pass *p)
{
    const fv_packed_sequences *packed = p->packed;
    if (!p->own_gates)
        return fv_lstm_varlen(p->ctx, p->gates, p->lengths, p->weights->hidden, p->h0, p->c0,
                              p->reverse, &p->h_last, &p->c_last);
    return fv_lstm_over_gates(p->ctx, p->gates, p->lengths,
                              packed->rows[packed->steps - 1] == packed->sequences,
                              p->weights->hidden, p->h0, p->c0, p->reverse, &p->h_last, &p->c_last);
}

/* ---- tanh cell: step by step ------------------------------------------------------- */

static fv_tensor *slice_rows(fv_ctx *ctx, fv_tensor *x, int64_t begin, int64_t end)
{
    return fv_slice(ctx, x, 0, begin, end, 1);
}

static fv_tensor *concat_rows(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_concat(ctx, 2, (fv_tensor *[]){a, b}, 0);
}

/* Resizes a state to the rows that run at a step. Forward, some sequences have ended; in reverse,
 * some begin, from `start`. */
static fv_tensor *resize(const pass *p, fv_tensor *state, fv_tensor *start, int64_t rows)
{
    const int64_t have = fv_tensor_size(state, 0);
    if (have == rows) return state;
    if (have > rows) return slice_rows(p->ctx, state, 0, rows);
    return concat_rows(p->ctx, state, slice_rows(p->ctx, start, have, rows));
}

/* Forward: sequences that end after step t keep their state in `ended`. */
static void keep_ended(const pass *p, int64_t t, fv_tensor *state, fv_tensor **ended)
{
    const int64_t next = t + 1 < p->packed->steps ? p->packed->rows[t + 1] : 0;
    if (next == p->packed->rows[t]) return;
    fv_tensor *some = slice_rows(p->ctx, state, next, p->packed->rows[t]);
    *ended = *ended ? concat_rows(p->ctx, some, *ended) : some;
}

/* All steps; h of each into all[t]. */
static void run_steps(pass *p, fv_tensor *gates, fv_tensor **all)
{
    const fv_packed_sequences *pk = p->packed;
    fv_ctx *ctx = p->ctx;
    fv_tensor *start = p->h0, *ended = NULL, *none = NULL;
    const int64_t width[2] = {pk->sequences, fv_tensor_size(gates, 1)};
    if (!start) start = fv_zeros(ctx, fv_tensor_dtype(gates), 2, width);
    fv_tensor *h = slice_rows(ctx, start, 0, p->reverse ? pk->rows[pk->steps - 1] : pk->rows[0]);
    for (int64_t k = 0; k < pk->steps && ctx->error == FV_OK; k++) {
        const int64_t t = p->reverse ? pk->steps - 1 - k : k;
        h = resize(p, h, start, pk->rows[t]);
        fv_tensor *own = slice_rows(ctx, gates, pk->first[t], pk->first[t] + pk->rows[t]);
        all[t] = h = fv_rnn_step(ctx, FV_CELL_RNN, p->weights, own, h, &none);
        if (!p->reverse) keep_ended(p, t, h, &ended);
    }
    p->h_last = p->reverse ? h : ended;
}

static fv_tensor *run_plain(pass *p)
{
    fv_ctx *ctx = p->ctx;
    const size_t bytes = (size_t)p->packed->steps * sizeof(fv_tensor *);
    fv_tensor **steps = fv_mem_alloc(&ctx->mem, bytes);
    if (!steps) {
        fv_poison(ctx, FV_ERR_MEMORY, "rnn: no memory for %lld steps", (long long)p->packed->steps);
        return ctx->invalid;
    }
    if (ctx->error == FV_OK) run_steps(p, p->gates, steps);
    fv_tensor *h =
        ctx->error == FV_OK ? fv_concat(ctx, (int)p->packed->steps, steps, 0) : ctx->invalid;
    fv_mem_free(&ctx->mem, steps, bytes);
    return h;
}

/* ---- layers ------------------------------------------------------------------------ */

static fv_tensor *sort_state(const pass *p, fv_tensor *given)
{
    return given ? reorder(p->ctx, given, p->packed->sequences, p->packed->order) : NULL;
}

static fv_tensor *run_direction(const fv_rnn *rnn, int layer, int direction, pass *p,
                                const fv_rnn_state *start, fv_rnn_state *last)
{
    static fv_tensor *(*const run[FV_CELL_COUNT])(pass *) = {run_plain, run_gru, run_lstm};
    const bool lstm = rnn->cfg.cell == FV_CELL_LSTM;
    p->weights = &rnn->weights[layer][direction];
    p->reverse = direction == 1;
    p->h0 = sort_state(p, start ? start->h[layer][direction] : NULL);
    p->c0 = sort_state(p, start && lstm ? start->c[layer][direction] : NULL);
    p->own_gates = !p->gates;
    if (p->own_gates) p->gates = make_gates(p->ctx, rnn->cfg.cell, p->weights, p->x);
    fv_tensor *h = run[rnn->cfg.cell](p);
    p->gates = NULL;
    if (p->ctx->error != FV_OK) return p->ctx->invalid;
    if (last) {
        const int64_t n = p->packed->sequences, *rank = p->packed->rank;
        last->h[layer][direction] = reorder(p->ctx, p->h_last, n, rank);
        last->c[layer][direction] = lstm ? reorder(p->ctx, p->c_last, n, rank) : NULL;
    }
    return h;
}

/* All layers, from inputs or from the gates of the first one. */
static fv_tensor *run_layers(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *x, fv_tensor *const *gates,
                             const fv_packed_sequences *packed, const fv_rnn_state *start,
                             bool training, fv_rnn_state *last)
{
    const fv_rnn_config *cfg = &rnn->cfg;
    pass p = {.ctx = ctx, .packed = packed};
    fv_tensor *before = ctx->draw_numbers;
    if (training && cfg->dropout > 0) fv_draw_numbers_set(ctx, fv_packed_numbers(ctx, packed));
    p.lengths = fv_from_host(ctx, FV_I64, 1, &packed->sequences, packed->length);
    for (int layer = 0; layer < cfg->layers && ctx->error == FV_OK; layer++) {
        if (layer > 0 && training) x = fv_dropout(ctx, x, cfg->dropout);
        p.x = x;
        fv_tensor *out[2] = {NULL, NULL};
        for (int d = 0; d <= cfg->bidirectional && ctx->error == FV_OK; d++) {
            if (gates && layer == 0) p.gates = gates[d];
            out[d] = run_direction(rnn, layer, d, &p, start, last);
        }
        x = cfg->bidirectional ? fv_concat(ctx, 2, out, 1) : out[0];
    }
    fv_draw_numbers_set(ctx, before);
    return x;
}

/* What the last states are until a layer has been run. */
static void mark_invalid(const fv_ctx *ctx, fv_rnn_state *last)
{
    for (int layer = 0; last && layer < FV_RNN_LAYERS; layer++)
        for (int d = 0; d < 2; d++)
            last->h[layer][d] = last->c[layer][d] = ctx->invalid;
}

fv_tensor *fv_rnn_run(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *x, const fv_packed_sequences *p,
                      const fv_rnn_state *start, bool training, fv_rnn_state *last)
{
    fv_rnn_state given; /* `last` may be `start` */
    if (start) given = *start;
    mark_invalid(ctx, last);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (p->sequences == 0 || fv_tensor_rank(x) != 2 || fv_tensor_size(x, 0) != p->total) {
        fv_poison(ctx, FV_ERR_SHAPE, "rnn: expected packed input [%lld, %lld]", (long long)p->total,
                  (long long)rnn->cfg.input);
        return ctx->invalid;
    }
    return run_layers(ctx, rnn, x, NULL, p, start ? &given : NULL, training, last);
}

fv_tensor *fv_rnn_gates(fv_ctx *ctx, const fv_rnn *rnn, int direction, fv_tensor *x)
{
    return make_gates(ctx, rnn->cfg.cell, &rnn->weights[0][direction], x);
}

fv_tensor *fv_rnn_run_gates(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *const gates[2],
                            const fv_packed_sequences *p, fv_rnn_state *last)
{
    mark_invalid(ctx, last);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (p->sequences == 0) {
        fv_poison(ctx, FV_ERR_SHAPE, "rnn: expected one sequence or more");
        return ctx->invalid;
    }
    return run_layers(ctx, rnn, NULL, gates, p, NULL, false, last);
}
