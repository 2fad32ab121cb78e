#include "fovea/recurrent.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "fovea/ops.h"
#include "nn/weights.h"

static const int gates_of[FV_CELL_COUNT] = {1, 3, 4};

void fv_rnn_config_init(fv_rnn_config *cfg, size_t struct_size)
{
    const fv_rnn_config defaults = {
        .struct_size = struct_size, .cell = FV_CELL_GRU, .input = 1, .hidden = 1, .layers = 1};
    memset(cfg, 0, struct_size);
    memcpy(cfg, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
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

fv_status fv_rnn_create(fv_params *params, const char *prefix, const fv_rnn_config *cfg,
                        fv_rnn *out)
{
    fv_ctx *ctx = fv_params_context(params);
    FV_RETURN_IF(cfg->struct_size != sizeof *cfg || cfg->cell < FV_CELL_RNN ||
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

/* One direction of one layer, while it runs. States are in packed order. */
typedef struct pass {
    fv_ctx *ctx;
    const fv_rnn *rnn;
    const fv_rnn_weights *weights;
    const fv_packing *packing;
    bool backward;
    fv_tensor *gates; /* of all inputs */
    fv_tensor *h, *c; /* of the sequences that run */
} pass;

static fv_tensor *rows_of(fv_ctx *ctx, fv_tensor *x, int64_t begin, int64_t end)
{
    return fv_slice(ctx, x, 0, begin, end, 1);
}

static fv_tensor *join(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return fv_concat(ctx, 2, (fv_tensor *[]){a, b}, 0);
}

/* Brings a state to the rows that run at step t. Going forward some have ended; going backward some
 * begin, from `start`. */
static fv_tensor *resize(const pass *p, fv_tensor *state, fv_tensor *start, int64_t rows)
{
    const int64_t have = fv_tensor_size(state, 0);
    if (have == rows) return state;
    if (have > rows) return rows_of(p->ctx, state, 0, rows);
    return join(p->ctx, state, rows_of(p->ctx, start, have, rows));
}

/* Sequences that end after step t, going forward, leave their state in `ended`. */
static void note_ended(const pass *p, int64_t t, fv_tensor *state, fv_tensor **ended)
{
    const int64_t next = t + 1 < p->packing->steps ? p->packing->rows[t + 1] : 0;
    if (next == p->packing->rows[t]) return;
    fv_tensor *some = rows_of(p->ctx, state, next, p->packing->rows[t]);
    *ended = *ended ? join(p->ctx, some, *ended) : some;
}

/* All steps; h of each into all[t]. The last states come back in packed order. */
static void run_pass(pass *p, fv_tensor *h0, fv_tensor *c0, fv_tensor **all, fv_tensor **h_last,
                     fv_tensor **c_last)
{
    const fv_packing *pk = p->packing;
    fv_ctx *ctx = p->ctx;
    const int64_t begin = p->backward ? pk->rows[pk->steps - 1] : pk->rows[0];
    p->h = rows_of(ctx, h0, 0, begin);
    p->c = c0 ? rows_of(ctx, c0, 0, begin) : NULL;
    *h_last = *c_last = NULL;
    for (int64_t k = 0; k < pk->steps && ctx->error == FV_OK; k++) {
        const int64_t t = p->backward ? pk->steps - 1 - k : k;
        p->h = resize(p, p->h, h0, pk->rows[t]);
        if (c0) p->c = resize(p, p->c, c0, pk->rows[t]);
        fv_tensor *gates = rows_of(ctx, p->gates, pk->first[t], pk->first[t] + pk->rows[t]);
        p->h = fv_rnn_step(ctx, p->rnn->cfg.cell, p->weights, gates, p->h, &p->c);
        all[t] = p->h;
        if (p->backward) continue;
        note_ended(p, t, p->h, h_last);
        if (c0) note_ended(p, t, p->c, c_last);
    }
    if (p->backward) {
        *h_last = p->h;
        *c_last = p->c;
    }
}

static fv_tensor *reorder(fv_ctx *ctx, fv_tensor *x, int64_t n, const int64_t *index)
{
    return fv_index_select(ctx, x, 0, fv_from_host(ctx, FV_I64, 1, &n, index));
}

static fv_tensor *start_of(fv_ctx *ctx, const fv_packing *p, fv_tensor *given, int64_t hidden,
                           fv_dtype dtype)
{
    if (given) return reorder(ctx, given, p->sequences, p->order);
    return fv_zeros(ctx, dtype, 2, (int64_t[]){p->sequences, hidden});
}

static fv_tensor *run_direction(fv_ctx *ctx, const fv_rnn *rnn, int layer, int direction,
                                fv_tensor *x, const fv_packing *p, const fv_rnn_state *start,
                                fv_tensor **steps, fv_rnn_state *last)
{
    const fv_rnn_weights *w = &rnn->weights[layer][direction];
    const bool lstm = rnn->cfg.cell == FV_CELL_LSTM;
    const int64_t hidden = rnn->cfg.hidden;
    pass way = {.ctx = ctx, .rnn = rnn, .weights = w, .packing = p, .backward = direction == 1};
    way.gates = fv_linear(ctx, x, w->input, w->input_bias);
    fv_tensor *h0 =
        start_of(ctx, p, start ? start->h[layer][direction] : NULL, hidden, fv_tensor_dtype(x));
    fv_tensor *c0 = lstm ? start_of(ctx, p, start ? start->c[layer][direction] : NULL, hidden,
                                    fv_tensor_dtype(x))
                         : NULL;
    fv_tensor *h = NULL, *c = NULL;
    run_pass(&way, h0, c0, steps, &h, &c);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (last) {
        last->h[layer][direction] = reorder(ctx, h, p->sequences, p->rank);
        last->c[layer][direction] = lstm ? reorder(ctx, c, p->sequences, p->rank) : NULL;
    }
    return fv_concat(ctx, (int)p->steps, steps, 0);
}

fv_tensor *fv_rnn_run(fv_ctx *ctx, const fv_rnn *rnn, fv_tensor *x, const fv_packing *p,
                      const fv_rnn_state *start, bool training, fv_rnn_state *last)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_rnn_config *cfg = &rnn->cfg;
    if (p->sequences == 0 || fv_tensor_rank(x) != 2 || fv_tensor_size(x, 0) != p->total) {
        fv_poison(ctx, FV_ERR_SHAPE, "rnn: the input must be packed: [%lld, %lld]",
                  (long long)p->total, (long long)cfg->input);
        return ctx->invalid;
    }
    const size_t bytes = (size_t)p->steps * sizeof(fv_tensor *);
    fv_tensor **steps = fv_mem_alloc(&ctx->mem, bytes);
    if (!steps) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)p->steps);
        return ctx->invalid;
    }
    for (int layer = 0; layer < cfg->layers && ctx->error == FV_OK; layer++) {
        if (layer > 0 && training) x = fv_dropout(ctx, x, cfg->dropout);
        fv_tensor *out[2] = {NULL, NULL};
        for (int d = 0; d <= cfg->bidirectional && ctx->error == FV_OK; d++)
            out[d] = run_direction(ctx, rnn, layer, d, x, p, start, steps, last);
        x = cfg->bidirectional ? fv_concat(ctx, 2, out, 1) : out[0];
    }
    fv_mem_free(&ctx->mem, steps, bytes);
    return x;
}
