#include "fovea/recurrent.h"

#include <string.h>

#include "base/config.h"
#include "base/ctx.h"
#include "fovea/ops.h"
#include "nn/weights.h"

static bool from_one(fv_sequence_layout layout)
{
    return layout == FV_LAYOUT_ONE_TO_ONE || layout == FV_LAYOUT_ONE_TO_MANY;
}

static bool to_one(fv_sequence_layout layout)
{
    return layout == FV_LAYOUT_ONE_TO_ONE || layout == FV_LAYOUT_MANY_TO_ONE;
}

static bool writes(fv_sequence_layout layout)
{
    return layout == FV_LAYOUT_ONE_TO_MANY || layout == FV_LAYOUT_MANY_THEN_MANY;
}

void fv_sequence_net_config_init(fv_sequence_net_config *cfg, size_t struct_size,
                                 fv_sequence_layout layout)
{
    const fv_sequence_net_config defaults = {.struct_size = struct_size,
                                             .layout = layout,
                                             .cell = FV_CELL_GRU,
                                             .layers = 1,
                                             .input = 1,
                                             .hidden = 1,
                                             .fed = 1,
                                             .output = 1,
                                             .pool = FV_POOL_LAST};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* ---- parameters ------------------------------------------------------------------- */

static fv_status make_rnn(fv_params *params, const char *prefix, const char *part,
                          const fv_sequence_net_config *cfg, int64_t input, fv_rnn *out)
{
    char name[FV_NN_NAME];
    fv_nn_name(name, prefix, part);
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = cfg->cell;
    rnn.layers = cfg->layers;
    rnn.input = input;
    rnn.hidden = cfg->hidden;
    rnn.dropout = cfg->dropout;
    rnn.bidirectional = cfg->bidirectional;
    return fv_rnn_create(params, name, &rnn, out);
}

fv_status fv_sequence_net_create(fv_params *params, const char *prefix,
                                 const fv_sequence_net_config *given, fv_sequence_net *out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_sequence_net_config full, *cfg = &full;
    fv_sequence_net_config_init(cfg, sizeof *cfg, FV_LAYOUT_ONE_TO_ONE);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given) || cfg->layout < FV_LAYOUT_ONE_TO_ONE ||
                     cfg->layout >= FV_LAYOUT_COUNT || cfg->pool < FV_POOL_LAST ||
                     cfg->pool > FV_POOL_MAX,
                 ctx, FV_ERR_ARGUMENT, "sequence net: a setting is out of range");
    FV_RETURN_IF(writes(cfg->layout) && cfg->bidirectional, ctx, FV_ERR_ARGUMENT,
                 "sequence net: a writer continues from a reader that is not bidirectional");
    fv_sequence_net net = {.cfg = *cfg};
    FV_TRY(make_rnn(params, prefix, "reader", cfg, cfg->input, &net.reader));
    if (writes(cfg->layout)) FV_TRY(make_rnn(params, prefix, "writer", cfg, cfg->fed, &net.writer));
    char name[FV_NN_NAME];
    fv_nn_name(name, prefix, "out");
    const int64_t width = cfg->hidden * (cfg->bidirectional ? 2 : 1);
    FV_TRY(fv_dense_create(params, name, width, cfg->output, true, 0, &net.out));
    *out = net;
    return FV_OK;
}

/* ---- running ---------------------------------------------------------------------- */

static fv_tensor *refuse(fv_ctx *ctx, const char *why)
{
    if (ctx->error == FV_OK) fv_poison(ctx, FV_ERR_ARGUMENT, "sequence net: %s", why);
    return ctx->invalid;
}

/* The last state of the top layer, each direction's own. */
static fv_tensor *last_state(fv_ctx *ctx, const fv_rnn_config *rnn, const fv_rnn_state *last)
{
    fv_tensor *const *top = last->h[rnn->layers - 1];
    return rnn->bidirectional ? fv_concat(ctx, 2, top, 1) : top[0];
}

static fv_tensor *run_writer(fv_ctx *ctx, const fv_sequence_net *net,
                             const fv_sequence_net_input *in, const fv_rnn_state *last,
                             int64_t sequences)
{
    if (!in->fed || !in->to || in->to->sequences != sequences)
        return refuse(ctx, "a writer needs `fed` and `to`, with as many sequences as were read");
    return fv_rnn_run(ctx, &net->writer, in->fed, in->to, last, in->training, NULL);
}

static fv_tensor *run_over(fv_ctx *ctx, const fv_sequence_net *net, const fv_sequence_net_input *in,
                           const fv_packed_sequences *from)
{
    const fv_sequence_net_config *cfg = &net->cfg;
    fv_rnn_state last;
    fv_tensor *h = fv_rnn_run(ctx, &net->reader, in->x, from, NULL, in->training, &last);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (writes(cfg->layout))
        h = run_writer(ctx, net, in, &last, from->sequences);
    else if (to_one(cfg->layout))
        h = cfg->pool == FV_POOL_LAST ? last_state(ctx, &net->reader.cfg, &last)
                                      : fv_packed_pool(ctx, from, h, cfg->pool);
    return fv_dense_run(ctx, &net->out, h);
}

/* Every row of x as a sequence of one step. */
static fv_status one_step_each(fv_ctx *ctx, int64_t n, fv_packed_sequences *out)
{
    const size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *ones = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!ones, ctx, FV_ERR_MEMORY, "sequence net: no memory for %lld rows", (long long)n);
    for (int64_t i = 0; i < n; i++)
        ones[i] = 1;
    const fv_status status = fv_pack_sequences(ctx, n, ones, out);
    fv_mem_free(&ctx->mem, ones, bytes);
    return status;
}

fv_tensor *fv_sequence_net_run(fv_ctx *ctx, const fv_sequence_net *net,
                               const fv_sequence_net_input *in)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const bool one = from_one(net->cfg.layout);
    if (one != (in->from == NULL) || fv_tensor_rank(in->x) != 2)
        return refuse(ctx, one ? "expected one vector per row, [n, input], and `from` NULL"
                               : "expected packed sequences, [total, input]");
    if (!one) return run_over(ctx, net, in, in->from);
    fv_packed_sequences rows;
    const fv_status status = one_step_each(ctx, fv_tensor_size(in->x, 0), &rows);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    fv_tensor *y = run_over(ctx, net, in, &rows);
    fv_packed_free(&rows);
    return y;
}
