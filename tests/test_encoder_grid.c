/*
 * The grid encoder: cells see their own part of a picture and its place, pictures do not depend on
 * each other, keys with neighbours are the formula, and the coverage penalty is what its formula
 * says. Its gradients and its search are checked with those of the other parts (test_seq2seq).
 */
#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/ops.h"
#include "models/parts/cross_attention.h"
#include "models/seq2seq.h"
#include "support/tensors.h"
#include "support/test.h"

enum { ROWS = 3, CHANNELS = 2, HIGH = 9, WIDE = 12, WIDTH = 8, KEYS = 5 };
enum { GRID_HIGH = 3, GRID_WIDE = 3, CELLS = GRID_HIGH * GRID_WIDE };

static fv_ctx *ctx;
static fv_params *params;
static fv_seq2seq *model;
static float pixels[ROWS][CHANNELS * HIGH * WIDE];
static const void *const rows[ROWS] = {pixels[0], pixels[1], pixels[2]};

static fv_seq2seq_config config(void)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = 6;
    cfg.embedding = 4;
    cfg.encoder = FV_ENCODER_GRID;
    cfg.encoder_hidden = cfg.hidden = WIDTH;
    cfg.attention_width = KEYS;
    cfg.input_channels = CHANNELS;
    cfg.input_height = HIGH;
    cfg.input_width = WIDE;
    cfg.grid_stages = 2;
    cfg.grid_halvings = 2;
    cfg.grid_channels = 4;
    return cfg;
}

static void make(const fv_seq2seq_config *cfg)
{
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_ctx_set_step(ctx, 7, 0); /* the same first weights each time */
    CHECK_OK(ctx, fv_seq2seq_create(params, cfg, &model));
}

static void unmake(void)
{
    fv_seq2seq_destroy(&model);
    fv_params_destroy(&params);
}

static void draw_pixels(void)
{
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < CHANNELS * HIGH * WIDE; i++)
            pixels[r][i] = (float)(0.5 + 0.5 * sin(0.7 * i + 1.3 * r * i + r));
}

static fv_batch batch_of(int first, int count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {CHANNELS, HIGH, WIDE},
                                    .row = rows + first});
    return batch;
}

static fv_memory encode(const fv_batch *batch, const int64_t *order)
{
    const fv_encode_call call = {.order = order, .attention = model->y->attention(model->decoder)};
    fv_memory memory = {.n = 0};
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, batch, &call, &memory));
    return memory;
}

/* Nine pixels halve to five and three, twelve to six and three. */
static void cells_cover_the_picture(void)
{
    const fv_seq2seq_config cfg = config();
    int64_t high = 0, wide = 0;
    make(&cfg);
    fv_scope_begin(ctx);
    const fv_batch batch = batch_of(0, ROWS);
    const fv_memory m = encode(&batch, NULL);
    CHECK(m.n == ROWS && m.positions == CELLS);
    CHECK(fv_tensor_size(m.v, 2) == CELLS && fv_tensor_size(m.v, 3) == WIDTH);
    CHECK(fv_tensor_size(m.k, 2) == CELLS && fv_tensor_size(m.k, 3) == KEYS);
    fv_tensor *mean = fv_mean(ctx, fv_squeeze(ctx, m.v, 1), 1, (int[]){1}, false);
    CHECK(tensor_distance(ctx, mean, m.summary) < 1e-6);
    int64_t lengths[ROWS];
    CHECK_OK(ctx, fv_tensor_read(ctx, m.lengths, lengths, sizeof lengths));
    CHECK(lengths[0] == CELLS && lengths[2] == CELLS);
    model->x->grid(model->encoder, &high, &wide);
    CHECK(high == GRID_HIGH && wide == GRID_WIDE);
    fv_scope_end(ctx);
    unmake();
}

/* Alone or among others, in any order: the same bits. */
static void pictures_do_not_depend_on_each_other(void)
{
    fv_seq2seq_config cfg = config();
    cfg.cell = FV_CELL_LSTM;
    for (int with = 0; with < 2; with++) {
        cfg.grid_rows = cfg.grid_neighbours = with == 1;
        make(&cfg);
        fv_scope_begin(ctx);
        const int64_t order[ROWS] = {2, 0, 1};
        const fv_batch batch = batch_of(0, ROWS);
        const fv_memory x = encode(&batch, NULL), y = encode(&batch, order);
        fv_tensor *index = indices_of(ctx, order, ROWS);
        CHECK(tensor_same(ctx, fv_index_select(ctx, x.v, index, 0), y.v));
        CHECK(tensor_same(ctx, fv_index_select(ctx, x.k, index, 0), y.k));
        CHECK(tensor_same(ctx, fv_index_select(ctx, x.summary, index, 0), y.summary));
        for (int i = 0; i < ROWS; i++) {
            const fv_batch one = batch_of(i, 1);
            const fv_memory alone = encode(&one, NULL);
            CHECK(tensor_same(ctx, alone.v, fv_slice(ctx, x.v, 0, i, i + 1, 1)));
            CHECK(tensor_same(ctx, alone.k, fv_slice(ctx, x.k, 0, i, i + 1, 1)));
        }
        fv_scope_end(ctx);
        unmake();
    }
}

/* A picture of one value has cells that differ only by where they are, if they know it. (At the
 * border the padding shows, so it is the places that make inner cells differ.) */
static void cells_know_their_place(void)
{
    fv_seq2seq_config cfg = config();
    static float flat[2][CHANNELS * 24 * 24];
    for (int i = 0; i < CHANNELS * 24 * 24; i++)
        flat[0][i] = 0.5f;
    const void *const row[1] = {flat[0]};
    cfg.input_height = cfg.input_width = 24;
    for (int with = 0; with < 2; with++) {
        cfg.grid_coordinates = with == 1;
        make(&cfg);
        fv_scope_begin(ctx);
        fv_batch batch;
        fv_batch_init(&batch, 1);
        fv_batch_add(&batch, (fv_field){.name = "pixels",
                                        .dtype = FV_F32,
                                        .rank = 3,
                                        .shape = {CHANNELS, 24, 24},
                                        .row = row});
        const fv_memory m = encode(&batch, NULL);
        float *h = tensor_floats(ctx, m.v);
        double along = 0, down = 0; /* of inner cells of the 6 x 6 */
        for (int k = 0; k < WIDTH; k++) {
            along += fabs((double)(h[(2 * 6 + 2) * WIDTH + k] - h[(2 * 6 + 3) * WIDTH + k]));
            down += fabs((double)(h[(2 * 6 + 2) * WIDTH + k] - h[(3 * 6 + 2) * WIDTH + k]));
        }
        CHECK(with ? along > 1e-3 && down > 1e-3 : along < 1e-5 && down < 1e-5);
        free(h);
        fv_scope_end(ctx);
        unmake();
    }
}

/* h + V [forward; backward] of each row of cells: the network run by hand gives the same. */
static void rows_are_read_along(void)
{
    fv_seq2seq_config cfg = config();
    cfg.grid_rows = true;
    make(&cfg);
    fv_scope_begin(ctx);
    fv_tensor *w = fv_params_find(params, "encoder.rows.weight");
    CHECK(w && fv_tensor_size(w, 0) == WIDTH && fv_tensor_size(w, 1) == 2 * WIDTH);
    const fv_batch batch = batch_of(0, 1);
    const fv_memory with = encode(&batch, NULL);
    static const float none[WIDTH * 2 * WIDTH];
    const size_t bytes = sizeof none;
    float *before = tensor_floats(ctx, w);
    CHECK_OK(ctx, fv_tensor_write(ctx, w, none, sizeof none));
    const fv_memory without = encode(&batch, NULL);
    fv_packed_sequences p;
    int64_t row_lengths[GRID_HIGH], index[CELLS], back[CELLS];
    for (int c = 0; c < CELLS; c++) { /* packed: all first cells of rows, then all second ones */
        row_lengths[c / GRID_WIDE] = GRID_WIDE;
        index[c] = c % GRID_HIGH * GRID_WIDE + c / GRID_HIGH;
        back[c] = c % GRID_WIDE * GRID_HIGH + c / GRID_WIDE;
    }
    fv_rnn rnn;
    fv_rnn_config how;
    fv_rnn_config_init(&how, sizeof how);
    how.input = how.hidden = WIDTH;
    how.bidirectional = true;
    CHECK_OK(ctx, fv_rnn_create(params, "encoder.rnn", &how, &rnn));
    CHECK_OK(ctx, fv_pack_sequences(ctx, GRID_HIGH, row_lengths, &p));
    fv_tensor *x = fv_reshape(ctx, without.v, 2, (int64_t[]){CELLS, WIDTH});
    x = fv_index_select(ctx, x, indices_of(ctx, index, CELLS), 0);
    x = fv_rnn_run(ctx, &rnn, x, &p, NULL, false, NULL);
    x = fv_index_select(ctx, x, indices_of(ctx, back, CELLS), 0);
    CHECK_OK(ctx, fv_tensor_write(ctx, w, before, bytes));
    x = fv_linear(ctx, x, w, fv_params_find(params, "encoder.rows.bias"));
    x = fv_add(ctx, fv_reshape(ctx, without.v, 2, (int64_t[]){CELLS, WIDTH}), x);
    CHECK(tensor_distance(ctx, with.v, fv_reshape(ctx, x, 4, (int64_t[]){1, 1, CELLS, WIDTH})) <
          1e-5);
    CHECK(tensor_distance(ctx, with.v, without.v) > 1e-3);
    fv_packed_free(&p);
    free(before);
    fv_scope_end(ctx);
    unmake();
}

/* k = W_k h + conv3x3(h), cell by cell. */
static void keys_see_the_cells_around(void)
{
    fv_seq2seq_config cfg = config();
    cfg.grid_neighbours = true;
    make(&cfg);
    fv_scope_begin(ctx);
    const fv_batch batch = batch_of(0, 1);
    const fv_memory m = encode(&batch, NULL);
    float *h = tensor_floats(ctx, m.v), *k = tensor_floats(ctx, m.k);
    float *own = tensor_floats(ctx, fv_params_find(params, "attention.key.weight"));
    float *around = tensor_floats(ctx, fv_params_find(params, "attention.neighbours.weight"));
    for (int c = 0; c < CELLS; c++)
        for (int o = 0; o < KEYS; o++) {
            double sum = 0;
            for (int i = 0; i < WIDTH; i++) {
                sum += (double)own[o * WIDTH + i] * (double)h[c * WIDTH + i];
                for (int t = 0; t < 9; t++) {
                    const int y = c / GRID_WIDE + t / 3 - 1, x = c % GRID_WIDE + t % 3 - 1;
                    if (y < 0 || x < 0 || y >= GRID_HIGH || x >= GRID_WIDE) continue;
                    sum += (double)around[(o * WIDTH + i) * 9 + t] *
                           (double)h[(y * GRID_WIDE + x) * WIDTH + i];
                }
            }
            CHECK_NEAR(k[c * KEYS + o], sum, 1e-5);
        }
    free(h);
    free(k);
    free(own);
    free(around);
    fv_scope_end(ctx);
    unmake();
}

/* ---- the penalty ---------------------------------------------------------------------------- */

static const int64_t ya[] = {3, 2, 5}, yb[] = {4}, yc[] = {2, 2};
static const int64_t *const targets[ROWS] = {ya, yb, yc};
static const int64_t lengths[ROWS] = {3, 1, 2};

static fv_batch with_targets(void)
{
    fv_batch batch = batch_of(0, ROWS);
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = (const void *const *)targets,
                                    .length = lengths});
    return batch;
}

static double training_loss(void)
{
    const fv_pass training = {.training = true};
    const fv_batch batch = with_targets();
    double value = NAN;
    fv_scope_begin(ctx);
    fv_ctx_set_step(ctx, 3, 0);
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_seq2seq_loss(ctx, model, &batch, &training), &value));
    fv_scope_end(ctx);
    return value;
}

static void coverage_is_its_formula(void)
{
    fv_seq2seq_config cfg = config();
    double penalty = 0, loss[2];
    float a[ROWS][4][CELLS];
    for (int with = 0; with < 2; with++) {
        cfg.coverage = with ? 0.5 : 0;
        make(&cfg);
        loss[with] = training_loss();
        const fv_batch batch = with_targets();
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_seq2seq_align(ctx, model, &batch), a, sizeof a));
        if (with) { /* its gradient reaches the scores, and points along the loss */
            fv_tensor *w = fv_params_find(params, "attention.query.weight");
            const fv_pass training = {.training = true};
            fv_ctx_set_step(ctx, 3, 0);
            CHECK_OK(ctx, fv_backward(ctx, fv_seq2seq_loss(ctx, model, &batch, &training)));
            float *g = tensor_floats(ctx, fv_grad(ctx, w)), *x = tensor_floats(ctx, w);
            const size_t bytes = (size_t)fv_tensor_count(w) * sizeof *x;
            x[3] += 0.01f;
            CHECK_OK(ctx, fv_tensor_write(ctx, w, x, bytes));
            const double up = training_loss();
            x[3] -= 0.02f;
            CHECK_OK(ctx, fv_tensor_write(ctx, w, x, bytes));
            CHECK_NEAR((up - training_loss()) / 0.02, (double)g[3],
                       0.02 * fabs((double)g[3]) + 2e-4);
            free(g);
            free(x);
        }
        fv_scope_end(ctx);
        unmake();
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < CELLS; c++) {
            double seen = 0;
            for (int64_t t = 0; t <= lengths[r]; t++)
                seen += (double)a[r][t][c];
            penalty += (1 - seen) * (1 - seen);
        }
    CHECK_NEAR(loss[1] - loss[0], 0.5 * penalty, 1e-4);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refused(const fv_seq2seq_config *cfg, const char *message)
{
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_EQ(fv_seq2seq_create(params, cfg, &model), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    CHECK(model == NULL);
    fv_params_destroy(&params);
}

static void settings_that_do_not_fit_are_named(void)
{
    fv_seq2seq_config bad = config();
    bad.input_channels = 0;
    refused(&bad, "not 0 x 9 x 12");
    bad = config();
    bad.input_width = 5000;
    refused(&bad, "not 2 x 9 x 5000");
    bad = config();
    bad.grid_halvings = 3;
    refused(&bad, "at most as many halvings");
    bad = config();
    bad.grid_channels = 4000;
    refused(&bad, "1 to 4096 channels in its last stage");
    bad = config();
    bad.grid_neighbours = true;
    bad.score = FV_ATTENTION_GENERAL;
    refused(&bad, "additive scores");
    bad.score = FV_ATTENTION_ADDITIVE;
    bad.decoder = FV_DECODER_FIXED;
    refused(&bad, "a decoder that attends");
    bad = config();
    bad.coverage = 1;
    bad.normaliser = FV_ATTENTION_HARD_SAMPLE;
    refused(&bad, "coverage needs a decoder with soft attention");
    bad.normaliser = FV_ATTENTION_SOFTMAX;
    bad.decoder = FV_DECODER_FIXED;
    refused(&bad, "coverage needs a decoder with soft attention");
    bad = config();
    bad.coverage = -1;
    refused(&bad, "coverage is 0 to 1e6");
}

static void other_pictures_are_refused(void)
{
    const fv_seq2seq_config cfg = config();
    make(&cfg);
    const fv_encode_call call = {.training = false};
    fv_memory m;
    fv_batch batch = batch_of(0, 1);
    batch.field[0].shape[2] = WIDE - 1;
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &m), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "\"pixels\" of 2 x 9 x 12"));
    batch = batch_of(0, 1);
    batch.field[0].name = "frames";
    CHECK_EQ(model->x->encode(ctx, model->encoder, &batch, &call, &m), FV_ERR_ARGUMENT);
    batch = batch_of(0, 0);
    CHECK_OK(ctx, model->x->encode(ctx, model->encoder, &batch, &call, &m));
    CHECK_EQ(m.n, 0);
    unmake();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    draw_pixels();
    RUN(cells_cover_the_picture);
    RUN(pictures_do_not_depend_on_each_other);
    RUN(cells_know_their_place);
    RUN(rows_are_read_along);
    RUN(keys_see_the_cells_around);
    RUN(coverage_is_its_formula);
    RUN(settings_that_do_not_fit_are_named);
    RUN(other_pictures_are_refused);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
