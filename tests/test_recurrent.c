/*
 * Recurrent layers over varlen sequences: equal to PyTorch's, and a sequence among others to the
 * bit what it is alone.
 */
#include "fovea/recurrent.h"

#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "nn/recurrent.h"
#include "ops/sequence.h"
#include "support/test.h"

enum { MOST = 4096 };

static fv_ctx *ctx;

/* ---- recorded layers ---------------------------------------------------------------- */

static size_t read_recorded(fv_safetensors *file, const char *layer, const char *what, float *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", layer, what);
    const fv_file_entry *entry = fv_safetensors_find(file, name);
    CHECK(entry != NULL && entry->bytes <= MOST * sizeof *out);
    if (!entry) return 0;
    CHECK_OK(ctx, fv_safetensors_read(file, entry, 0, out, (size_t)entry->bytes));
    return (size_t)entry->bytes / sizeof *out;
}

static void check_near(const char *what, const float *got, const float *want, size_t n)
{
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        worst = test_worse(worst, fabs((double)got[i] - (double)want[i]));
    }
    if (!(worst <= 2e-6 + 1e-5 * most))
        test_failed(__FILE__, __LINE__, "%s is off by %g of %g", what, worst, most);
}

/* Recorded rows are [batch, steps, width]; equal lengths pack as [steps, batch, width]. */
static fv_tensor *steps_first(fv_tensor *x)
{
    return fv_contiguous(ctx, fv_transpose(ctx, x, 0, 1));
}

static void check_recorded(const char *layer, fv_cell cell, int layers, bool bidirectional)
{
    static float want[MOST], got[MOST];
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("fixtures/torch/layers.safetensors"),
                                      FV_SAFETENSORS_COPY, &file));
    fv_scope_begin(ctx);
    char name[96];
    snprintf(name, sizeof name, "%s.in0", layer);
    fv_tensor *in = fv_leaf(ctx, fv_safetensors_load(ctx, file, name));
    const int64_t batch = fv_tensor_size(in, 0), steps = fv_tensor_size(in, 1);
    snprintf(name, sizeof name, "%s.param.weight_hh_l0", layer);
    fv_rnn_config cfg;
    fv_rnn_config_init(&cfg, sizeof cfg);
    cfg.cell = cell;
    cfg.layers = layers;
    cfg.bidirectional = bidirectional;
    cfg.input = fv_tensor_size(in, 2);
    cfg.hidden = fv_safetensors_find(file, name)->shape[1];
    fv_params *params = NULL;
    fv_rnn rnn;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_rnn_create(params, "param", &cfg, &rnn));
    for (int i = 0; i < fv_params_count(params); i++) {
        const size_t n = read_recorded(file, layer, fv_params_name(params, i), want);
        CHECK_OK(ctx, fv_tensor_write(ctx, fv_params_tensor(params, i), want, n * sizeof *want));
    }
    int64_t lengths[16];
    for (int64_t i = 0; i < batch; i++)
        lengths[i] = steps;
    fv_packed_sequences packing;
    CHECK_OK(ctx, fv_pack_sequences(ctx, batch, lengths, &packing));
    const int64_t flat[] = {packing.total, cfg.input};
    fv_tensor *h = fv_rnn_run(ctx, &rnn, fv_reshape(ctx, steps_first(in), 2, flat), &packing, NULL,
                              false, NULL);
    fv_tensor *out = fv_retain(ctx, fv_packed_pad(ctx, &packing, h, NULL));
    size_t n = read_recorded(file, layer, "out0", want);
    CHECK_OK(ctx, fv_tensor_read(ctx, out, got, n * sizeof *got));
    check_near(layer, got, want, n);
    read_recorded(file, layer, "out0.grad", want);
    CHECK_OK(ctx,
             fv_backward_from(ctx, out, fv_from_host(ctx, FV_F32, 3, fv_tensor_shape(out), want)));
    n = read_recorded(file, layer, "in0.grad", want);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, in), got, n * sizeof *got));
    check_near("in0.grad", got, want, n);
    for (int i = 0; i < fv_params_count(params); i++) {
        snprintf(name, sizeof name, "%.80s.grad", fv_params_name(params, i));
        n = read_recorded(file, layer, name, want);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, fv_params_tensor(params, i)), got,
                                     n * sizeof *got));
        check_near(name, got, want, n);
    }
    fv_packed_free(&packing);
    fv_params_destroy(&params);
    fv_scope_end(ctx);
    fv_safetensors_close(&file);
}

static void lstm_of_two_layers(void) { check_recorded("lstm", FV_CELL_LSTM, 2, false); }
static void lstm_both_ways(void) { check_recorded("bilstm", FV_CELL_LSTM, 1, true); }
static void gru(void) { check_recorded("gru", FV_CELL_GRU, 1, false); }
static void plain(void) { check_recorded("rnn_tanh", FV_CELL_RNN, 1, false); }

/* ---- packing ------------------------------------------------------------------------ */

static void packs_longest_first(void)
{
    fv_packed_sequences p;
    CHECK_OK(ctx, fv_pack_sequences(ctx, 4, (int64_t[]){2, 4, 2, 1}, &p));
    CHECK_EQ(p.total, 9);
    CHECK_EQ(p.steps, 4);
    static const int64_t order[] = {1, 0, 2, 3}, rows[] = {4, 3, 1, 1}, first[] = {0, 4, 7, 8};
    CHECK(memcmp(p.order, order, sizeof order) == 0);
    CHECK(memcmp(p.rows, rows, sizeof rows) == 0);
    CHECK(memcmp(p.first, first, sizeof first) == 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(p.order[p.rank[i]], i);
    fv_packed_free(&p);
    CHECK_EQ(fv_pack_sequences(ctx, 2, (int64_t[]){3, 0}, &p), FV_ERR_ARGUMENT);
}

enum { WIDTH = 3, HIDDEN = 5, SEQUENCES = 4, STEPS = 6 };
static const int64_t lengths[SEQUENCES] = {3, 6, 1, 6};

/* Token t of sequence i as a row. */
static void row_of(int64_t i, int64_t t, float *out)
{
    for (int c = 0; c < WIDTH; c++)
        out[c] = (float)sin((double)(i * 37 + t * 5 + c) * 0.9);
}

static fv_tensor *varlen_rows(const fv_packed_sequences *p, int64_t only)
{
    float host[SEQUENCES * STEPS * WIDTH];
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            row_of(only >= 0 ? only : p->order[i], t, host + (p->first[t] + i) * WIDTH);
    return fv_from_host(ctx, FV_F32, 2, (int64_t[]){p->total, WIDTH}, host);
}

/* Output [steps][width], last h and last c of one sequence. */
typedef struct traced {
    float out[STEPS * 2 * HIDDEN], h[2 * HIDDEN], c[2 * HIDDEN];
} traced;

static void read_state(fv_tensor *t, int64_t row, float *out)
{
    if (!t) return;
    fv_tensor *one = fv_slice(ctx, t, 0, row, row + 1, 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, one, out, HIDDEN * sizeof *out));
}

static void trace(const fv_rnn *rnn, const fv_packed_sequences *p, int64_t only, int64_t row,
                  traced *out)
{
    const int top = rnn->cfg.layers - 1;
    memset(out, 0, sizeof *out);
    fv_scope_begin(ctx);
    fv_rnn_state last;
    fv_tensor *h = fv_rnn_run(ctx, rnn, varlen_rows(p, only), p, NULL, false, &last);
    const int64_t at = p->rank[row], width = fv_tensor_size(h, 1);
    for (int64_t t = 0; t < p->length[at]; t++) {
        fv_tensor *one = fv_slice(ctx, h, 0, p->first[t] + at, p->first[t] + at + 1, 1);
        CHECK_OK(ctx,
                 fv_tensor_read(ctx, one, out->out + t * width, (size_t)width * sizeof *out->out));
    }
    for (int d = 0; d <= rnn->cfg.bidirectional; d++) {
        read_state(last.h[top][d], row, out->h + d * HIDDEN);
        if (rnn->cfg.cell == FV_CELL_LSTM) read_state(last.c[top][d], row, out->c + d * HIDDEN);
    }
    fv_scope_end(ctx);
}

static void neighbours_do_not_matter(void)
{
    for (int cell = 0; cell < FV_CELL_COUNT; cell++)
        for (int both = 0; both < 2; both++) {
            fv_params *params = NULL;
            fv_rnn rnn;
            fv_rnn_config cfg;
            fv_rnn_config_init(&cfg, sizeof cfg);
            cfg.cell = (fv_cell)cell;
            cfg.input = WIDTH;
            cfg.hidden = HIDDEN;
            cfg.layers = 2;
            cfg.bidirectional = both;
            CHECK_OK(ctx, fv_params_create(ctx, &params));
            CHECK_OK(ctx, fv_rnn_create(params, "", &cfg, &rnn));
            fv_packed_sequences all;
            CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, lengths, &all));
            for (int64_t i = 0; i < SEQUENCES; i++) {
                static traced among, alone;
                fv_packed_sequences one;
                CHECK_OK(ctx, fv_pack_sequences(ctx, 1, &lengths[i], &one));
                trace(&rnn, &all, -1, i, &among);
                trace(&rnn, &one, i, 0, &alone);
                CHECK(memcmp(&among, &alone, sizeof among) == 0);
                fv_packed_free(&one);
            }
            fv_packed_free(&all);
            fv_params_destroy(&params);
        }
}

static void pools_see_their_own_steps_only(void)
{
    fv_packed_sequences p;
    CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, lengths, &p));
    fv_tensor *x = varlen_rows(&p, -1);
    for (int kind = FV_POOL_LAST; kind <= FV_POOL_MAX; kind++) {
        float got[SEQUENCES * WIDTH];
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_packed_pool(ctx, &p, x, (fv_pool_kind)kind), got,
                                     sizeof got));
        for (int64_t i = 0; i < SEQUENCES; i++)
            for (int c = 0; c < WIDTH; c++) {
                double sum = 0, most = -INFINITY, last = 0;
                for (int64_t t = 0; t < lengths[i]; t++) {
                    float row[WIDTH];
                    row_of(i, t, row);
                    last = (double)row[c];
                    sum += last;
                    most = fmax(most, last);
                }
                const double want = kind == FV_POOL_LAST   ? last
                                    : kind == FV_POOL_MEAN ? sum / (double)lengths[i]
                                                           : most;
                CHECK_NEAR(got[i * WIDTH + c], want, 1e-6);
            }
    }
    fv_packed_free(&p);
}

static void tokens_are_stored_by_step(void)
{
    static const int64_t a[] = {10, 11, 12}, b[] = {20, 21, 22, 23};
    fv_packed_sequences p;
    CHECK_OK(ctx, fv_pack_sequences(ctx, 2, (int64_t[]){3, 4}, &p));
    int64_t got[7];
    fv_tensor *t = fv_packed_tokens(ctx, &p, (const int64_t *const[]){a, b});
    CHECK_OK(ctx, fv_tensor_read(ctx, t, got, sizeof got));
    static const int64_t want[] = {20, 10, 21, 11, 22, 12, 23};
    CHECK(memcmp(got, want, sizeof want) == 0);
    fv_packed_free(&p);
}

/* A failed run returns invalid tensors as its last states too, which a caller may hold. */
static void a_failed_run_has_invalid_states(void)
{
    fv_params *params = NULL;
    fv_rnn rnn;
    fv_rnn_config cfg;
    fv_rnn_state last = {.h = {{NULL}}};
    fv_packed_sequences p;
    fv_rnn_config_init(&cfg, sizeof cfg);
    cfg.cell = FV_CELL_LSTM;
    cfg.input = WIDTH;
    cfg.hidden = HIDDEN;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_rnn_create(params, "", &cfg, &rnn));
    CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, lengths, &p));
    fv_tensor *wrong = fv_zeros(ctx, FV_F32, 2, (int64_t[]){p.total + 1, WIDTH});
    fv_tensor *h = fv_rnn_run(ctx, &rnn, wrong, &p, NULL, false, &last);
    CHECK(last.h[0][0] == h && last.c[0][0] == h);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    fv_packed_free(&p);
    fv_params_destroy(&params);
}

/* ---- an LSTM over its gates --------------------------------------------------------- */

/* GIVEN: x, its weight, the recurrent weight, h0 and c0. */
enum { GATES = 4 * HIDDEN, LONG = 60, MOST_ROWS = SEQUENCES * LONG, GIVEN = 5 };

typedef struct lstm_case {
    const int64_t *lengths;
    bool equal, reverse, states, strided; /* strided: gates that are not contiguous */
} lstm_case;

static fv_tensor *leaf_of(int64_t rows, int64_t cols, int which)
{
    static float host[MOST_ROWS * GATES];
    for (int64_t i = 0; i < rows * cols; i++)
        host[i] = (float)sin((double)(i * 7 + which * 31) * 0.37);
    return fv_leaf(ctx, fv_from_host(ctx, FV_F32, 2, (int64_t[]){rows, cols}, host));
}

/* The sum of t times numbers that differ from row to row. */
static fv_tensor *weighed(fv_tensor *t)
{
    static float host[MOST_ROWS * HIDDEN];
    for (int64_t i = 0; i < fv_tensor_count(t); i++)
        host[i] = (float)cos((double)i * 0.53);
    fv_tensor *w = fv_from_host(ctx, FV_F32, 2, fv_tensor_shape(t), host);
    return fv_sum(ctx, fv_mul(ctx, t, w), 0, NULL, false);
}

typedef struct memory {
    uint64_t kept, more; /* for backward; and what backward takes beyond that */
} memory;

/* Loss and gradients. */
static memory run_lstm(const lstm_case *c, bool over, float out[1 + GIVEN * MOST_ROWS * GATES])
{
    fv_packed_sequences p;
    fv_memory_stats before, after;
    memset(out, 0, (1 + GIVEN * MOST_ROWS * GATES) * sizeof *out);
    CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, c->lengths, &p));
    fv_scope_begin(ctx);
    fv_tensor *in[GIVEN] = {leaf_of(p.total, WIDTH, 0), leaf_of(GATES, WIDTH, 1),
                            leaf_of(GATES, HIDDEN, 2), NULL, NULL};
    for (int i = 3; i < GIVEN && c->states; i++)
        in[i] = leaf_of(SEQUENCES, HIDDEN, i);
    fv_tensor *h_last, *c_last,
        *gates = c->strided ? fv_transpose(ctx, fv_linear(ctx, in[1], in[0], NULL), 0, 1)
                            : fv_linear(ctx, in[0], in[1], NULL);
    fv_tensor *lengths_of = fv_from_host(ctx, FV_I64, 1, &p.sequences, p.length);
    fv_tensor *h = over ? fv_lstm_over_gates(ctx, gates, lengths_of, c->equal, in[2], in[3], in[4],
                                             c->reverse, &h_last, &c_last)
                        : fv_lstm_varlen(ctx, gates, lengths_of, in[2], in[3], in[4], c->reverse,
                                         &h_last, &c_last);
    fv_tensor *loss =
        fv_add(ctx, weighed(h),
               fv_add(ctx, weighed(h_last), fv_mul(ctx, weighed(c_last), weighed(c_last))));
    CHECK_OK(ctx, fv_tensor_read(ctx, loss, out, sizeof *out));
    fv_ctx_memory(ctx, &before);
    fv_ctx_memory_reset_peak(ctx);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    fv_ctx_memory(ctx, &after);
    for (int i = 0; i < GIVEN; i++)
        if (in[i])
            CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, in[i]), out + 1 + i * MOST_ROWS * GATES,
                                         (size_t)fv_tensor_count(in[i]) * sizeof *out));
    fv_scope_end(ctx);
    fv_packed_free(&p);
    return (memory){before.used_bytes, after.peak_bytes - before.used_bytes};
}

/* An LSTM that overwrites its gates has the same bits and keeps one array of their size less;
 * backward makes no second one. */
static void gates_are_overwritten(void)
{
    static float want[1 + GIVEN * MOST_ROWS * GATES], got[1 + GIVEN * MOST_ROWS * GATES];
    static const int64_t all[] = {LONG, LONG, LONG, LONG}, one[] = {1, 1, 1, 1};
    static const int64_t ragged[] = {3, LONG, 1, 31};
    const int64_t *const lists[] = {all, one, ragged};
    const uint64_t bytes = sizeof(float[MOST_ROWS * GATES]);
    for (int i = 0; i < 24; i++) {
        const lstm_case c = {.lengths = lists[i / 8],
                             .equal = i < 16,
                             .reverse = i & 1,
                             .states = i & 2,
                             .strided = i & 4};
        const memory plain = run_lstm(&c, false, want), less = run_lstm(&c, true, got);
        CHECK(memcmp(want, got, sizeof want) == 0);
        if (c.lengths != all || c.strided) continue;
        CHECK(less.kept + bytes <= plain.kept);
        CHECK(4 * less.more < 3 * bytes); /* it frees others meanwhile */
    }
}

/* Gates that the caller has made stay as they are, for the next run. */
static void given_gates_stay(void)
{
    fv_params *params = NULL;
    fv_rnn rnn;
    fv_rnn_config cfg;
    fv_packed_sequences p;
    fv_rnn_config_init(&cfg, sizeof cfg);
    cfg.cell = FV_CELL_LSTM;
    cfg.input = WIDTH;
    cfg.hidden = HIDDEN;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_rnn_create(params, "", &cfg, &rnn));
    CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, lengths, &p));
    fv_tensor *const gates[2] = {fv_rnn_gates(ctx, &rnn, 0, varlen_rows(&p, -1)), NULL};
    float first[SEQUENCES * STEPS * HIDDEN], second[SEQUENCES * STEPS * HIDDEN];
    const size_t bytes = (size_t)p.total * HIDDEN * sizeof *first;
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_rnn_run_gates(ctx, &rnn, gates, &p, NULL), first, bytes));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_rnn_run_gates(ctx, &rnn, gates, &p, NULL), second, bytes));
    CHECK(memcmp(first, second, bytes) == 0);
    CHECK(fv_rnn_run_gates(ctx, &rnn, gates, &(fv_packed_sequences){0}, NULL) != NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    fv_packed_free(&p);
    fv_params_destroy(&params);
}

/* Rows of all sequences from time step `from` on, as many steps as `p` has. */
static fv_tensor *rows_from(const fv_packed_sequences *p, int64_t from)
{
    float host[SEQUENCES * STEPS * WIDTH];
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            row_of(p->order[i], from + t, host + (p->first[t] + i) * WIDTH);
    return fv_from_host(ctx, FV_F32, 2, (int64_t[]){p->total, WIDTH}, host);
}

/* Two halves give the last states of the whole, also if one struct holds the states. */
static void states_continue_in_place(void)
{
    static const int64_t whole[] = {6, 6, 6, 6}, half[] = {3, 3, 3, 3};
    for (int cell = 0; cell < FV_CELL_COUNT; cell++) {
        fv_params *params = NULL;
        fv_rnn rnn;
        fv_rnn_config cfg;
        fv_rnn_state state, want;
        fv_packed_sequences all, part;
        fv_rnn_config_init(&cfg, sizeof cfg);
        cfg.cell = (fv_cell)cell;
        cfg.input = WIDTH;
        cfg.hidden = HIDDEN;
        cfg.layers = 2;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        CHECK_OK(ctx, fv_rnn_create(params, "", &cfg, &rnn));
        CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, whole, &all));
        CHECK_OK(ctx, fv_pack_sequences(ctx, SEQUENCES, half, &part));
        fv_rnn_run(ctx, &rnn, rows_from(&all, 0), &all, NULL, false, &want);
        fv_rnn_run(ctx, &rnn, rows_from(&part, 0), &part, NULL, false, &state);
        fv_rnn_run(ctx, &rnn, rows_from(&part, 3), &part, &state, false, &state);
        for (int layer = 0; layer < cfg.layers; layer++)
            for (int64_t i = 0; i < SEQUENCES; i++) {
                float a[HIDDEN], b[HIDDEN];
                read_state(want.h[layer][0], i, a);
                read_state(state.h[layer][0], i, b);
                CHECK(memcmp(a, b, sizeof a) == 0);
            }
        fv_packed_free(&part);
        fv_packed_free(&all);
        fv_params_destroy(&params);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(packs_longest_first);
    RUN(tokens_are_stored_by_step);
    RUN(lstm_of_two_layers);
    RUN(lstm_both_ways);
    RUN(gru);
    RUN(plain);
    RUN(neighbours_do_not_matter);
    RUN(pools_see_their_own_steps_only);
    RUN(a_failed_run_has_invalid_states);
    RUN(gates_are_overwritten);
    RUN(given_gates_stay);
    RUN(states_continue_in_place);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
