/* Recurrent networks of every sequence layout, filled by hand with the cases' inputs. */
#include "fovea/recurrent.h"
#include "support/compound.h"

/* Two sequences: 1 and 3 steps in, 2 and 1 steps out. */
static const int64_t read_lengths[2] = {1, 3}, write_lengths[2] = {2, 1};
enum { X, FED, READER, WRITER = READER + 4, OUT = WRITER + 4, OUT_BIAS, INPUTS };

typedef struct shape_case {
    fv_sequence_layout kind;
    fv_cell cell;
    fv_pool_kind pool;
    bool bidirectional; /* both directions share their weights: the set decides, not the layer */
} shape_case;

static fv_rnn rnn_of(const shape_case *s, fv_tensor *const *in)
{
    fv_rnn rnn = {.weights = {{{in[0], in[1], in[2], in[3]}, {in[0], in[1], in[2], in[3]}}}};
    fv_rnn_config_init(&rnn.cfg, sizeof rnn.cfg);
    rnn.cfg.cell = s->cell;
    rnn.cfg.bidirectional = s->bidirectional;
    return rnn;
}

static fv_tensor *shape(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in;
    const shape_case *s = params;
    fv_packed_sequences from, to;
    if (fv_pack_sequences(ctx, 2, read_lengths, &from) != FV_OK) return ctx->invalid;
    if (fv_pack_sequences(ctx, 2, write_lengths, &to) != FV_OK) {
        fv_packed_free(&from);
        return ctx->invalid;
    }
    fv_sequence_net net = {.reader = rnn_of(s, in + READER), .out = {in[OUT], in[OUT_BIAS]}};
    fv_sequence_net_config_init(&net.cfg, sizeof net.cfg, s->kind);
    net.cfg.pool = s->pool;
    if (in[WRITER]) net.writer = rnn_of(s, in + WRITER);
    const bool one = s->kind == FV_LAYOUT_ONE_TO_ONE || s->kind == FV_LAYOUT_ONE_TO_MANY;
    const fv_sequence_net_input given = {
        .x = in[X], .from = one ? NULL : &from, .fed = in[FED], .to = in[FED] ? &to : NULL};
    fv_tensor *y = fv_sequence_net_run(ctx, &net, &given);
    fv_packed_free(&from);
    fv_packed_free(&to);
    return y;
}

#define SHAPE(...) (&(const shape_case){__VA_ARGS__})
#define NONE_4     FV_IN_NONE, FV_IN_NONE, FV_IN_NONE, FV_IN_NONE
/* Weights of g gates, `in` wide, two units. */
#define CELL(g, in)                                                                                \
    FV_IN(NORMAL, 2 * (g), in), FV_IN(NORMAL, 2 * (g), 2), FV_IN(NORMAL, 2 * (g)),                 \
        FV_IN(NORMAL, 2 * (g))

static const fv_op_case cases[] = {
    {.name = "one to one",
     .params = SHAPE(FV_LAYOUT_ONE_TO_ONE, FV_CELL_RNN, FV_POOL_LAST, false),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 2, 3), FV_IN_NONE, CELL(1, 3), NONE_4, FV_IN(NORMAL, 2, 2),
            FV_IN(NORMAL, 2)}},
    {.name = "one to many",
     .params = SHAPE(FV_LAYOUT_ONE_TO_MANY, FV_CELL_LSTM, FV_POOL_LAST, false),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 2, 1), FV_IN(NORMAL, 3, 2), CELL(4, 1), CELL(4, 2), FV_IN(NORMAL, 1, 2),
            FV_IN(NORMAL, 1)}},
    {.name = "many to one, both last states",
     .params = SHAPE(FV_LAYOUT_MANY_TO_ONE, FV_CELL_GRU, FV_POOL_LAST, true),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 4, 2), FV_IN_NONE, CELL(3, 2), NONE_4, FV_IN(NORMAL, 2, 4),
            FV_IN(NORMAL, 2)}},
    {.name = "many to one, mean",
     .params = SHAPE(FV_LAYOUT_MANY_TO_ONE, FV_CELL_LSTM, FV_POOL_MEAN, true),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 4, 1), FV_IN_NONE, CELL(4, 1), NONE_4, FV_IN(NORMAL, 1, 4),
            FV_IN(NORMAL, 1)}},
    {.name = "many to one, maximum",
     .params = SHAPE(FV_LAYOUT_MANY_TO_ONE, FV_CELL_GRU, FV_POOL_MAX, false),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 4, 2), FV_IN_NONE, CELL(3, 2), NONE_4, FV_IN(NORMAL, 2, 2),
            FV_IN(NORMAL, 2)}},
    {.name = "many to many",
     .params = SHAPE(FV_LAYOUT_MANY_TO_MANY, FV_CELL_RNN, FV_POOL_LAST, true),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 4, 2), FV_IN_NONE, CELL(1, 2), NONE_4, FV_IN(NORMAL, 2, 4),
            FV_IN(NORMAL, 2)}},
    {.name = "many, then many",
     .params = SHAPE(FV_LAYOUT_MANY_THEN_MANY, FV_CELL_GRU, FV_POOL_LAST, false),
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 4, 2), FV_IN(NORMAL, 3, 1), CELL(3, 2), CELL(3, 1), FV_IN(NORMAL, 2, 2),
            FV_IN(NORMAL, 2)}},
};

const fv_op_desc compound_sequence_nets =
    COMPOUND(12, "shapes", "y from x by reader, writer and pool", shape, cases);
