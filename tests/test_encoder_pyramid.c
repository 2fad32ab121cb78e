/*
 * The pyramid encoder: each layer reads pairs of neighbouring states, rows do not depend on each
 * other, what is dropped depends on rows alone, bad batches and settings are named, and no failing
 * allocation ends the process. Its gradients and its search are checked with those of the other
 * parts (test_seq2seq).
 */
#include "models/seq2seq.h"
#include "support/failing.h"
#include "support/tensors.h"
#include "support/test.h"

enum { ROWS = 5, FRAME = 3, LONGEST = 21, HIDDEN = 4, WIDTH = 2 * HIDDEN };

static fv_ctx *ctx;
static fv_params *params;
static fv_seq2seq *model;

/* Two rows change places in the order of lengths from one level to the next. */
static const int64_t lengths[ROWS] = {13, 14, 1, LONGEST, 8};
static float frames[ROWS][LONGEST * FRAME];
static const void *const rows[ROWS] = {frames[0], frames[1], frames[2], frames[3], frames[4]};
static const int64_t target[] = {2, 3};
static const int64_t *const targets[ROWS] = {target, target, target, target, target};
static const int64_t target_lengths[ROWS] = {2, 1, 2, 0, 1};

static fv_batch batch_of(int first, int count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "frames",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {FRAME},
                                    .row = rows + first,
                                    .length = lengths + first});
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = (const void *const *)targets + first,
                                    .length = target_lengths + first});
    return batch;
}

static fv_status make_in(fv_ctx *in, int layers, double dropout, fv_params **set, fv_seq2seq **out)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = 1;
    cfg.target_tokens = 5;
    cfg.embedding = 4;
    cfg.cell = FV_CELL_LSTM;
    cfg.encoder_hidden = HIDDEN;
    cfg.hidden = WIDTH;
    cfg.attention_width = 5;
    cfg.readout_width = 6;
    cfg.encoder = FV_ENCODER_PYRAMID;
    cfg.input_width = FRAME;
    cfg.pyramid_layers = layers;
    cfg.dropout = dropout;
    const fv_status s = fv_params_create(in, set);
    return s == FV_OK ? fv_seq2seq_create(*set, &cfg, out) : s;
}

static void make_model(int layers, double dropout)
{
    CHECK_OK(ctx, make_in(ctx, layers, dropout, &params, &model));
}

static void free_model(void)
{
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
}

static fv_memory encode(const fv_batch *batch, const int64_t *order)
{
    const fv_encode_call call = {.order = order, .attention = model->y->attention(model->decoder)};
    fv_memory memory = {.n = 0};
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, batch, &call, &memory));
    return memory;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* One row, layer by layer: pairs are concatenated by reshaping, after a row of zeros where one is
 * missing. */
static void layers_read_pairs(void)
{
    for (int layers = 1; layers <= 3; layers++)
        for (int r = 0; r < ROWS; r++) {
            make_model(layers, 0);
            fv_scope_begin(ctx);
            const fv_batch one = batch_of(r, 1);
            const fv_memory memory = encode(&one, NULL);
            int64_t n = lengths[r], d = FRAME;
            fv_tensor *x = tensor_of(ctx, frames[r], 2, (int)n, FRAME);
            fv_rnn_state last;
            for (int i = 0; i < layers; i++) {
                char name[40];
                fv_rnn rnn;
                fv_rnn_config cfg;
                fv_packed_sequences p;
                if (n % 2)
                    x = fv_concat(
                        ctx, 2, (fv_tensor *[]){x, fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, d})}, 0);
                n = (n + 1) / 2;
                x = fv_reshape(ctx, x, 2, (int64_t[]){n, 2 * d});
                fv_rnn_config_init(&cfg, sizeof cfg);
                cfg.cell = FV_CELL_LSTM;
                cfg.input = 2 * d;
                cfg.hidden = HIDDEN;
                cfg.bidirectional = true;
                snprintf(name, sizeof name, "encoder.pyramid.%d", i);
                CHECK_OK(ctx, fv_rnn_create(params, name, &cfg, &rnn)); /* the model's weights */
                CHECK_OK(ctx, fv_pack_sequences(ctx, 1, &n, &p));
                x = fv_rnn_run(ctx, &rnn, x, &p, NULL, false, &last);
                fv_packed_free(&p);
                d = WIDTH;
            }
            CHECK_EQ(memory.positions, n);
            CHECK(tensor_same(ctx, memory.v, fv_reshape(ctx, x, 4, (int64_t[]){1, 1, n, WIDTH})));
            fv_tensor *ends = fv_concat(ctx, 2, (fv_tensor *[]){last.h[0][0], last.h[0][1]}, 1);
            CHECK(tensor_same(ctx, memory.summary, ends));
            fv_scope_end(ctx);
            free_model();
        }
}

/* Alone or among others, in any order: the same bits. */
static void rows_do_not_depend_on_each_other(void)
{
    static const int64_t order[ROWS] = {2, 0, 4, 1, 3};
    make_model(3, 0);
    const fv_batch all = batch_of(0, ROWS);
    fv_scope_begin(ctx);
    const fv_memory x = encode(&all, NULL), y = encode(&all, order);
    fv_tensor *index = indices_of(ctx, order, ROWS);
    CHECK(tensor_same(ctx, fv_index_select(ctx, x.v, index, 0), y.v));
    CHECK(tensor_same(ctx, fv_index_select(ctx, x.lengths, index, 0), y.lengths));
    CHECK(tensor_same(ctx, fv_index_select(ctx, x.summary, index, 0), y.summary));
    int64_t *found = tensor_indices(ctx, x.lengths);
    for (int i = 0; i < ROWS; i++) {
        const fv_batch one = batch_of(i, 1);
        const fv_memory alone = encode(&one, NULL);
        const int64_t states = (lengths[i] + 7) / 8;
        CHECK(found && found[i] == states && alone.positions == states);
        fv_tensor *row = fv_slice(ctx, x.v, 0, i, i + 1, 1);
        CHECK(tensor_same(ctx, alone.v, fv_slice(ctx, row, 2, 0, states, 1)));
        CHECK(tensor_same(ctx, alone.summary, fv_slice(ctx, x.summary, 0, i, i + 1, 1)));
    }
    free(found);
    fv_scope_end(ctx);
    free_model();
}

static double loss_of(const fv_batch *batch, bool training)
{
    const fv_pass pass = {.training = training};
    double value = NAN;
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_seq2seq_loss(ctx, model, batch, &pass), &value));
    fv_scope_end(ctx);
    return value;
}

/* What is dropped depends on the row's number in the step, not on the batch. */
static void dropout_is_keyed_by_rows(void)
{
    make_model(3, 0.5);
    const fv_batch all = batch_of(0, ROWS);
    double parts = 0;
    fv_ctx_set_step(ctx, 7, 0);
    const double whole = loss_of(&all, true);
    for (int i = 0; i < ROWS; i++) {
        const fv_batch one = batch_of(i, 1);
        fv_ctx_set_step(ctx, 7, (uint64_t)i);
        parts += loss_of(&one, true);
    }
    CHECK_NEAR(parts, whole, 1e-5 * whole);
    CHECK(fabs(whole - loss_of(&all, false)) > 1e-4);
    /* The encoder itself drops states, between its layers. */
    const fv_encode_call training = {.training = true,
                                     .attention = model->y->attention(model->decoder)};
    fv_memory dropped;
    fv_scope_begin(ctx);
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, &all, &training, &dropped));
    CHECK(tensor_distance(ctx, dropped.v, encode(&all, NULL).v) > 1e-3);
    fv_scope_end(ctx);
    free_model();
}

static void bad_batches_are_named(void)
{
    static const int64_t none = 0;
    make_model(2, 0);
    const fv_encode_call call = {.attention = model->y->attention(model->decoder)};
    fv_memory memory;
    fv_batch batch = batch_of(0, 1), empty;
    fv_batch_init(&empty, 1);
    CHECK_EQ(model->x->encode(ctx, model->encoder, &empty, &call, &memory), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "no \"frames\" of 3 numbers"));
    batch.field[0].shape[0] = 4;
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &memory), FV_ERR_ARGUMENT);
    batch = batch_of(0, 1);
    batch.field[0].dtype = FV_I64;
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &memory), FV_ERR_ARGUMENT);
    batch = batch_of(0, 1);
    batch.field[0].length = &none;
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &memory), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "row 0 has no frames"));
    empty.rows = 0;
    fv_batch_add(&empty, batch.field[0]);
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, &empty, &call, &memory));
    CHECK_EQ(memory.n, 0);
    free_model();
}

static void bad_settings_are_named(void)
{
    static const struct {
        int64_t width;
        int layers;
        const char *message;
    } bad[] = {{0, 3, "frames of 1 to 16384 numbers, not 0"},
               {16385, 3, "not 16385"},
               {40, 0, "pyramid_layers is 0"},
               {40, FV_PYRAMID_LAYERS + 1, "pyramid_layers is 9"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_seq2seq_config cfg;
        fv_seq2seq_config_init(&cfg, sizeof cfg);
        cfg.source_tokens = cfg.target_tokens = 3;
        cfg.encoder = FV_ENCODER_PYRAMID;
        cfg.input_width = bad[i].width;
        cfg.pyramid_layers = bad[i].layers;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        CHECK_EQ(fv_seq2seq_create(params, &cfg, &model), FV_ERR_ARGUMENT);
        if (model || !strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
        fv_params_destroy(&params);
    }
}

static fv_status use(fv_ctx *in, const void *unused)
{
    (void)unused;
    const fv_batch batch = batch_of(0, ROWS);
    fv_params *set = NULL;
    fv_seq2seq *made = NULL;
    fv_scope_begin(in);
    fv_status s = make_in(in, 3, 0.2, &set, &made);
    if (s == FV_OK)
        s = fv_backward(in, fv_seq2seq_loss(in, made, &batch, &(fv_pass){.training = true}));
    fv_scope_end(in);
    fv_seq2seq_destroy(&made);
    fv_params_destroy(&set);
    return s;
}

static void failing_memory_is_reported(void) { CHECK(failing_everywhere(use, NULL, 0) > 50); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < LONGEST * FRAME; i++)
            frames[r][i] = (float)sin(1 + 2 * r + 0.7 * i);
    RUN(layers_read_pairs);
    RUN(rows_do_not_depend_on_each_other);
    RUN(dropout_is_keyed_by_rows);
    RUN(bad_batches_are_named);
    RUN(bad_settings_are_named);
    RUN(failing_memory_is_reported);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
