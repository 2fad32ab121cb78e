/* Recurrent networks by their shape: each answer is that of the sequence alone, wrong inputs are
 * refused. Gradients are proved among the compounds. */
#include "fovea/ops.h"
#include "fovea/recurrent.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { WIDTH = 3, HIDDEN = 20, OUTPUT = 4, SEQUENCES = 3 };
static const int64_t read_lengths[SEQUENCES] = {2, 5, 1}, write_lengths[SEQUENCES] = {3, 1, 6};

typedef struct world {
    fv_ctx *ctx;
    fv_params *params;
    fv_sequence_net net;
    fv_packed_sequences from, to;
} world;

static world open_world(fv_sequence_layout kind, fv_cell cell, fv_pool_kind pool, bool both)
{
    world w = {.ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU)};
    CHECK_OK(w.ctx, fv_params_create(w.ctx, &w.params));
    fv_sequence_net_config cfg;
    fv_sequence_net_config_init(&cfg, sizeof cfg, kind);
    cfg.cell = cell;
    cfg.layers = 2;
    cfg.input = cfg.fed = WIDTH;
    cfg.hidden = HIDDEN;
    cfg.output = OUTPUT;
    cfg.pool = pool;
    cfg.bidirectional = both;
    CHECK_OK(w.ctx, fv_sequence_net_create(w.params, "net", &cfg, &w.net));
    CHECK_OK(w.ctx, fv_pack_sequences(w.ctx, SEQUENCES, read_lengths, &w.from));
    CHECK_OK(w.ctx, fv_pack_sequences(w.ctx, SEQUENCES, write_lengths, &w.to));
    return w;
}

static void close_world(world *w)
{
    fv_packed_free(&w->from);
    fv_packed_free(&w->to);
    fv_params_destroy(&w->params);
    fv_ctx_destroy(&w->ctx);
}

/* Rows of sequence i of packed rows, in their order. */
static fv_tensor *alone(world *w, fv_tensor *x, const fv_packed_sequences *p, int64_t i)
{
    int64_t index[8];
    const int64_t rank = p->rank[i], n = p->length[rank];
    for (int64_t t = 0; t < n; t++)
        index[t] = p->first[t] + rank;
    return fv_index_select(w->ctx, x, fv_from_host(w->ctx, FV_I64, 1, &n, index), 0);
}

static bool is_one(fv_sequence_layout kind)
{
    return kind == FV_LAYOUT_ONE_TO_ONE || kind == FV_LAYOUT_ONE_TO_MANY;
}

static bool is_written(fv_sequence_layout kind)
{
    return kind == FV_LAYOUT_ONE_TO_MANY || kind == FV_LAYOUT_MANY_THEN_MANY;
}

static void check_alone(fv_sequence_layout kind, fv_cell cell, fv_pool_kind pool, bool both)
{
    world w = open_world(kind, cell, pool, both);
    fv_ctx *ctx = w.ctx;
    const int64_t rows = is_one(kind) ? SEQUENCES : w.from.total;
    fv_tensor *x = tensor_random(ctx, 1, 2, (int)rows, WIDTH);
    fv_tensor *fed = tensor_random(ctx, 2, 2, (int)w.to.total, WIDTH);
    fv_sequence_net_input in = {.x = x, .from = is_one(kind) ? NULL : &w.from};
    if (is_written(kind)) in.fed = fed, in.to = &w.to;
    fv_tensor *y = fv_sequence_net_run(ctx, &w.net, &in);
    CHECK_EQ(fv_tensor_size(y, 1), OUTPUT);
    for (int64_t i = 0; i < SEQUENCES; i++) {
        fv_packed_sequences from, to;
        CHECK_OK(ctx, fv_pack_sequences(ctx, 1, &read_lengths[i], &from));
        CHECK_OK(ctx, fv_pack_sequences(ctx, 1, &write_lengths[i], &to));
        fv_sequence_net_input own = {.x = is_one(kind) ? fv_slice(ctx, x, 0, i, i + 1, 1)
                                                       : alone(&w, x, &w.from, i),
                                     .from = is_one(kind) ? NULL : &from};
        if (is_written(kind)) own.fed = alone(&w, fed, &w.to, i), own.to = &to;
        fv_tensor *got = fv_sequence_net_run(ctx, &w.net, &own);
        fv_tensor *want = is_written(kind)                 ? alone(&w, y, &w.to, i)
                          : kind == FV_LAYOUT_MANY_TO_MANY ? alone(&w, y, &w.from, i)
                                                           : fv_slice(ctx, y, 0, i, i + 1, 1);
        CHECK(tensor_same(ctx, fv_contiguous(ctx, want), got));
        fv_packed_free(&from);
        fv_packed_free(&to);
    }
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    close_world(&w);
}

static void each_alone(void)
{
    for (int kind = 0; kind < FV_LAYOUT_COUNT; kind++)
        for (int cell = 0; cell < FV_CELL_COUNT; cell++)
            for (int pool = FV_POOL_LAST; pool <= FV_POOL_MAX; pool++) {
                check_alone((fv_sequence_layout)kind, (fv_cell)cell, (fv_pool_kind)pool, false);
                if (!is_written((fv_sequence_layout)kind))
                    check_alone((fv_sequence_layout)kind, (fv_cell)cell, (fv_pool_kind)pool, true);
            }
}

/* The last state of a reader that goes both ways is where each way ends, not the last place. */
static void last_is_each_ways_own(void)
{
    world w = open_world(FV_LAYOUT_MANY_TO_ONE, FV_CELL_GRU, FV_POOL_LAST, true);
    fv_ctx *ctx = w.ctx;
    fv_tensor *x = tensor_random(ctx, 1, 2, (int)w.from.total, WIDTH);
    fv_rnn_state last;
    fv_tensor *h = fv_rnn_run(ctx, &w.net.reader, x, &w.from, NULL, false, &last);
    fv_tensor *ends = fv_concat(ctx, 2, last.h[1], 1);
    fv_tensor *y =
        fv_sequence_net_run(ctx, &w.net, &(fv_sequence_net_input){.x = x, .from = &w.from});
    CHECK(tensor_same(ctx, y, fv_dense_run(ctx, &w.net.out, ends)));
    fv_tensor *places = fv_packed_pool(ctx, &w.from, h, FV_POOL_LAST);
    CHECK(!tensor_same(ctx, y, fv_dense_run(ctx, &w.net.out, places)));
    close_world(&w);
}

static void refusals(void)
{
    world w = open_world(FV_LAYOUT_MANY_THEN_MANY, FV_CELL_GRU, FV_POOL_LAST, false);
    fv_ctx *ctx = w.ctx;
    fv_tensor *x = tensor_random(ctx, 1, 2, (int)w.from.total, WIDTH);
    fv_tensor *fed = tensor_random(ctx, 2, 2, (int)w.to.total, WIDTH);
    fv_sequence_net_run(ctx, &w.net, &(fv_sequence_net_input){.x = x, .from = &w.from});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "a writer needs");
    fv_sequence_net_run(ctx, &w.net, &(fv_sequence_net_input){.x = x, .fed = fed, .to = &w.to});
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "packed sequences");
    fv_sequence_net_run(
        ctx, &w.net, &(fv_sequence_net_input){.x = fed, .from = &w.from, .fed = fed, .to = &w.to});
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "expected packed input");
    fv_sequence_net_config cfg = w.net.cfg;
    fv_sequence_net net;
    cfg.bidirectional = true;
    CHECK_EQ(fv_sequence_net_create(w.params, "b", &cfg, &net), FV_ERR_ARGUMENT);
    cfg = w.net.cfg;
    cfg.layout = FV_LAYOUT_COUNT;
    CHECK_EQ(fv_sequence_net_create(w.params, "c", &cfg, &net), FV_ERR_ARGUMENT);
    cfg = w.net.cfg;
    cfg.struct_size = 0;
    CHECK_EQ(fv_sequence_net_create(w.params, "d", &cfg, &net), FV_ERR_ARGUMENT);
    close_world(&w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(each_alone);
    RUN(last_is_each_ways_own);
    RUN(refusals);
    return TEST_END();
}
