/*
 * Recurrent cells, convolution windows and optimizer steps against formulas in double, and the
 * optimizers against three steps recorded from torch.optim (fixtures/torch).
 */
#include "kernels/conv.h"
#include "kernels/half.h"
#include "kernels/optim.h"
#include "kernels/recurrent.h"
#include "support/kernels.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* ---- cells ------------------------------------------------------------------------- */

enum { BATCH = 3, HIDDEN = 19, CELLS = BATCH * HIDDEN };

/* Gate k of cell i in a (batch, gates x hidden) array. */
static double gate(vec v, int gates, int k, int64_t i)
{
    return vec_get(v, (i / HIDDEN * gates + k) * HIDDEN + i % HIDDEN);
}

#define CHECK_GATE(v, gates, k, i, expected)                                                       \
    CHECK_VALUE(v, ((i) / HIDDEN * (gates) + (k)) * HIDDEN + (i) % HIDDEN, expected)

static void check_lstm(fv_dtype dtype, bool split, bool with_dh, bool with_dc, unsigned dropped)
{
    const fv_cell_args a = {BATCH, HIDDEN};
    const vec xg = vec_random(dtype, 4 * CELLS, -2, 2), hg = vec_random(dtype, 4 * CELLS, -2, 2);
    const vec c_prev = vec_random(dtype, CELLS, -1, 1), h = vec_new(dtype, CELLS);
    const vec c = vec_new(dtype, CELLS), acts = vec_new(dtype, 4 * CELLS);
    kernel_run(FV_KERNEL_LSTM_CELL, dtype,
               PTRS(h.data, c.data, acts.data, xg.data, split ? hg.data : NULL, c_prev.data), &a);
    const vec h_only = vec_new(dtype, CELLS), c_only = vec_new(dtype, CELLS);
    kernel_run(FV_KERNEL_LSTM_CELL, dtype,
               PTRS(h_only.data, c_only.data, NULL, xg.data, split ? hg.data : NULL, c_prev.data),
               &a);
    CHECK(vec_same_bits(h, h_only) && vec_same_bits(c, c_only));
    const vec dh = vec_random(dtype, CELLS, -1, 1), dc = vec_random(dtype, CELLS, -1, 1);
    const vec d = vec_new(dtype, 4 * CELLS), dc_prev = vec_new(dtype, CELLS);
    setup.dropped = dropped;
    kernel_run(FV_KERNEL_LSTM_CELL_GRAD, dtype,
               PTRS(d.data, dc_prev.data, with_dh ? dh.data : NULL, with_dc ? dc.data : NULL,
                    acts.data, c.data, c_prev.data),
               &a);
    setup.dropped = 0;
    for (int64_t n = 0; n < CELLS; n++) {
        double in[4];
        for (int k = 0; k < 4; k++)
            in[k] = gate(xg, 4, k, n) + (split ? gate(hg, 4, k, n) : 0);
        const double i = sigmoid(in[0]), f = sigmoid(in[1]), g = tanh(in[2]), o = sigmoid(in[3]);
        const double before = vec_get(c_prev, n), state = f * before + i * g, tc = tanh(state);
        CHECK_VALUE(c, n, state);
        CHECK_VALUE(h, n, o * tc);
        const double up_h = with_dh ? vec_get(dh, n) : 0, up_c = with_dc ? vec_get(dc, n) : 0;
        const double dct = (dropped & 1 ? 0 : up_c) + (dropped & 2 ? 0 : up_h * o * (1 - tc * tc));
        CHECK_GATE(d, 4, 0, n, dropped & 4 ? 0 : dct * g * i * (1 - i));
        CHECK_GATE(d, 4, 1, n, dropped & 8 ? 0 : dct * before * f * (1 - f));
        CHECK_GATE(d, 4, 2, n, dropped & 16 ? 0 : dct * i * (1 - g * g));
        CHECK_GATE(d, 4, 3, n, dropped & 32 ? 0 : up_h * tc * o * (1 - o));
        CHECK_VALUE(dc_prev, n, dct * f);
    }
}

static void lstm_cells(fv_dtype dtype)
{
    check_lstm(dtype, true, true, true, 0);
    check_lstm(dtype, false, true, false, 0);
    check_lstm(dtype, true, false, true, 0);
    for (unsigned term = 1; term <= 32; term *= 2)
        check_lstm(dtype, true, true, true, term);
}

static void lstm_test(void) { for_reals(lstm_cells); }

static void check_gru(fv_dtype dtype, unsigned dropped)
{
    const fv_cell_args a = {BATCH, HIDDEN};
    const vec xg = vec_random(dtype, 3 * CELLS, -2, 2), hg = vec_random(dtype, 3 * CELLS, -2, 2);
    const vec h_prev = vec_random(dtype, CELLS, -1, 1), h = vec_new(dtype, CELLS);
    const vec acts = vec_new(dtype, 4 * CELLS), dh = vec_random(dtype, CELLS, -1, 1);
    kernel_run(FV_KERNEL_GRU_CELL, dtype, PTRS(h.data, acts.data, xg.data, hg.data, h_prev.data),
               &a);
    const vec dx = vec_new(dtype, 3 * CELLS), dhg = vec_new(dtype, 3 * CELLS);
    const vec dh_prev = vec_new(dtype, CELLS);
    setup.dropped = dropped;
    kernel_run(FV_KERNEL_GRU_CELL_GRAD, dtype,
               PTRS(dx.data, dhg.data, dh_prev.data, dh.data, acts.data, h_prev.data), &a);
    setup.dropped = 0;
    for (int64_t i = 0; i < CELLS; i++) {
        const double r = sigmoid(gate(xg, 3, 0, i) + gate(hg, 3, 0, i));
        const double z = sigmoid(gate(xg, 3, 1, i) + gate(hg, 3, 1, i));
        const double hn = gate(hg, 3, 2, i), n = tanh(gate(xg, 3, 2, i) + r * hn);
        const double before = vec_get(h_prev, i), up = vec_get(dh, i);
        CHECK_VALUE(h, i, (1 - z) * n + z * before);
        const double dn = dropped & 1 ? 0 : up * (1 - z) * (1 - n * n);
        const double gap = (dropped & 2 ? 0 : before) - (dropped & 4 ? 0 : n);
        const double dr = dropped & 8 ? 0 : dn * hn * r * (1 - r);
        CHECK_GATE(dx, 3, 0, i, dr);
        CHECK_GATE(dhg, 3, 0, i, dr);
        CHECK_GATE(dx, 3, 1, i, up * gap * z * (1 - z));
        CHECK_GATE(dhg, 3, 1, i, up * gap * z * (1 - z));
        CHECK_GATE(dx, 3, 2, i, dn);
        CHECK_GATE(dhg, 3, 2, i, dn * r);
        CHECK_VALUE(dh_prev, i, dropped & 16 ? 0 : up * z);
    }
}

static void gru_cells(fv_dtype dtype)
{
    check_gru(dtype, 0);
    for (unsigned term = 1; term <= 16; term *= 2)
        check_gru(dtype, term);
}

static void gru_test(void) { for_reals(gru_cells); }

/* ---- windows ------------------------------------------------------------------------ */

static void windows(fv_dtype dtype)
{
    enum { B = 2, C = 3, L = 7, K = 3 };
    for (int64_t dilation = 1; dilation <= 9; dilation += 4) {
        const fv_unfold_args a = {
            .batch = B, .channels = C, .length = L, .k = K, .dilation = dilation};
        const vec x = vec_random(dtype, B * C * L, 1, 2), rows = vec_new(dtype, B * L * C * K);
        const vec back = vec_new(dtype, x.n);
        kernel_run(FV_KERNEL_UNFOLD1D, dtype, PTRS(rows.data, x.data), &a);
        kernel_run(FV_KERNEL_FOLD1D, dtype, PTRS(back.data, rows.data), &a);
        double sum[B * C * L] = {0};
        int64_t at = 0;
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < L; t++)
                for (int64_t c = 0; c < C; c++)
                    for (int64_t j = 0; j < K; j++, at++) {
                        const int64_t from = t - (K - 1 - j) * dilation;
                        const int64_t source = (b * C + c) * L + from;
                        CHECK_VALUE(rows, at, from < 0 ? 0 : vec_get(x, source));
                        if (from >= 0) sum[source] += vec_get(x, source);
                    }
        for (int64_t i = 0; i < x.n; i++)
            CHECK_VALUE(back, i, sum[i]);
    }
}

static void window_test(void) { for_reals(windows); }

/* ---- optimizers ---------------------------------------------------------------------- */

enum { WEIGHTS = 20 };

static char fixture[8192];
static size_t fixture_bytes;

static bool read_fixture(void)
{
    FILE *f = fopen(test_path("fixtures/torch/optimizers.safetensors"), "rb");
    if (!f) return false;
    fixture_bytes = fread(fixture, 1, sizeof fixture, f);
    fclose(f);
    return fixture_bytes > 8;
}

/* A tensor of the file, found by its name in the header's text. */
static vec recorded(fv_dtype dtype, const char *name)
{
    uint64_t header = 0;
    memcpy(&header, fixture, sizeof header);
    char text[sizeof fixture] = {0}, key[64];
    memcpy(text, fixture + 8, header);
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *entry = strstr(text, key);
    const char *offsets = entry ? strstr(entry, "\"data_offsets\":[") : NULL;
    if (!offsets) {
        test_failed(__FILE__, __LINE__, "no tensor %s in the fixture", name);
        return vec_random(dtype, WEIGHTS, 0, 0);
    }
    const char *data = fixture + 8 + header + strtoul(offsets + 16, NULL, 10);
    vec v = vec_new(dtype, WEIGHTS);
    for (int64_t i = 0; i < WEIGHTS; i++) {
        float x;
        memcpy(&x, data + 4 * i, sizeof x);
        vec_set(v, i, (double)x);
    }
    return v;
}

/* A step block whose gate is open. */
static vec open_block(double scale)
{
    const vec block = vec_random(FV_F64, sizeof(fv_step_block) / sizeof(double), 0, 0);
    *(fv_step_block *)block.data = (fv_step_block){.scale = scale, .open = 1};
    return block;
}

/* Three steps from w0 with g0, g1, g2; each result must be torch's within two units of f32. */
static void check_recorded(fv_dtype dtype, fv_kernel_id kernel, const char *name, fv_optim_args a)
{
    const vec w = recorded(dtype, "w0"), s1 = vec_random(dtype, WEIGHTS, 0, 0);
    const vec s2 = vec_random(dtype, WEIGHTS, 0, 0);
    const vec block = open_block(1);
    uint16_t copy[WEIGHTS]; /* only an f32 weight has one */
    a.n = WEIGHTS;
    for (int step = 1; step <= 3; step++) {
        char key[32];
        snprintf(key, sizeof key, "g%d", step - 1);
        const vec g = recorded(dtype, key);
        a.first = step == 1;
        a.correction1 = 1 - pow(a.beta1, step);
        a.correction2 = 1 - pow(a.beta2, step);
        kernel_run(
            kernel, dtype,
            PTRS(w.data, g.data, block.data, dtype == FV_F32 ? copy : NULL, s1.data, s2.data), &a);
        snprintf(key, sizeof key, "%s.w%d", name, step);
        const vec expected = recorded(dtype, key);
        for (int64_t i = 0; i < WEIGHTS; i++)
            CHECK_NEAR(vec_get(w, i), vec_get(expected, i),
                       3e-8 + 2.4e-7 * fabs(vec_get(expected, i)));
        for (int64_t i = 0; dtype == FV_F32 && i < WEIGHTS; i++)
            CHECK_EQ(copy[i], fv_f32_to_bf16(((const float *)w.data)[i]));
    }
}

static void recorded_steps(fv_dtype dtype)
{
    check_recorded(dtype, FV_KERNEL_SGD, "sgd_m09", (fv_optim_args){.lr = 0.1, .momentum = 0.9});
    check_recorded(dtype, FV_KERNEL_ADAM, "adam",
                   (fv_optim_args){.lr = 0.01, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9});
    check_recorded(dtype, FV_KERNEL_ADAM, "adamw",
                   (fv_optim_args){.lr = 0.01,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .eps = 1e-8,
                                   .weight_decay = 0.1,
                                   .decoupled = true});
    check_recorded(dtype, FV_KERNEL_RMSPROP, "rmsprop",
                   (fv_optim_args){.lr = 0.01, .momentum = 0.9, .beta2 = 0.95, .eps = 1e-8});
    check_recorded(dtype, FV_KERNEL_ADADELTA, "adadelta",
                   (fv_optim_args){.lr = 1, .beta2 = 0.95, .eps = 1e-6});
}

static void recorded_test(void)
{
    CHECK(read_fixture());
    for_reals(recorded_steps);
}

/* The options the recording does not use: plain steps in double beside the kernel's. */
static void optimizer_options(fv_dtype dtype)
{
    enum { N = 37 };
    const vec g = vec_random(dtype, N, -1, 1), start = vec_random(dtype, N, -1, 1);
    fv_optim_args a = {.n = N,
                       .lr = 0.1,
                       .weight_decay = 0.01,
                       .momentum = 0.9,
                       .beta1 = 0.9,
                       .beta2 = 0.99,
                       .eps = 1e-3,
                       .correction1 = 0.1,
                       .correction2 = 0.01,
                       .nesterov = true};
    const vec plain = vec_copy(start), nesterov = vec_copy(start), adam = vec_copy(start);
    const vec rms = vec_copy(start), delta = vec_copy(start), buffer = vec_random(dtype, N, -1, 1);
    const vec kept = vec_copy(buffer), m = vec_random(dtype, N, 0, 0);
    const vec v = vec_copy(m), v2 = vec_copy(m), v3 = vec_copy(m), u = vec_copy(m);
    const vec half = open_block(0.5);
    kernel_run(FV_KERNEL_SGD, dtype, PTRS(plain.data, g.data, half.data, NULL, NULL), &a);
    kernel_run(FV_KERNEL_SGD, dtype, PTRS(nesterov.data, g.data, half.data, NULL, buffer.data), &a);
    kernel_run(FV_KERNEL_ADAM, dtype, PTRS(adam.data, g.data, half.data, NULL, m.data, v.data), &a);
    kernel_run(FV_KERNEL_RMSPROP, dtype, PTRS(rms.data, g.data, half.data, NULL, v2.data, NULL),
               &a);
    kernel_run(FV_KERNEL_ADADELTA, dtype,
               PTRS(delta.data, g.data, half.data, NULL, v3.data, u.data), &a);
    for (int64_t i = 0; i < N; i++) {
        const double w = vec_get(start, i), d = 0.5 * vec_get(g, i) + 0.01 * w;
        const double b = 0.9 * vec_get(kept, i) + d, mean = sqrt(0.01 * d * d);
        CHECK_VALUE(plain, i, w - 0.1 * d);
        CHECK_VALUE(nesterov, i, w - 0.1 * (d + 0.9 * b));
        CHECK_VALUE(buffer, i, b);
        CHECK_VALUE(adam, i, w - 0.1 * d / (fabs(d) + 1e-3));
        CHECK_VALUE(rms, i, w - 0.1 * d / (mean + 1e-3));
        CHECK_VALUE(delta, i, w - 0.1 * d * sqrt(1e-3 / (mean * mean + 1e-3)));
    }
}

static void optimizer_test(void) { for_reals(optimizer_options); }

static void sums_of_squares(fv_dtype dtype)
{
    enum { N = 3 * 4096 + 100 };
    const vec x = vec_random(dtype, N, -1, 1);
    const fv_optim_args a = {.n = N};
    double out = 5, expected = 5;
    kernel_run(FV_KERNEL_SUMSQ, dtype, PTRS(&out, x.data), &a);
    double total = 0; /* the order is a promise: lanes within a block, blocks in turn */
    for (int64_t start = 0; start < N; start += 4096) {
        double lane[16] = {0};
        for (int64_t i = start; i < start + 4096 && i < N; i++)
            lane[(i - start) % 16] += vec_get(x, i) * vec_get(x, i);
        for (int w = 8; w; w /= 2)
            for (int i = 0; i < w; i++)
                lane[i] += lane[i + w];
        total += lane[0];
    }
    expected += total;
    CHECK(memcmp(&out, &expected, sizeof out) == 0);
    vec_set(x, 5000, INFINITY);
    kernel_run(FV_KERNEL_SUMSQ, dtype, PTRS(&out, x.data), &a);
    CHECK(out == INFINITY);
    vec_set(x, 7, NAN);
    kernel_run(FV_KERNEL_SUMSQ, dtype, PTRS(&out, x.data), &a);
    CHECK(isnan(out));
    const fv_optim_args none = {.n = 0};
    out = 2;
    kernel_run(FV_KERNEL_SUMSQ, dtype, PTRS(&out, x.data), &none);
    CHECK(out == 2);
}

static void sumsq_test(void) { for_reals(sums_of_squares); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(lstm_test);
    RUN(gru_test);
    RUN(window_test);
    RUN(recorded_test);
    RUN(optimizer_test);
    RUN(sumsq_test);
    return TEST_END();
}
