/*
 * The SNAIL stack: outputs and attention against the plain formula in double, causality, a step at
 * a time gives the bits of the whole sequence, rows do not depend on each other, gradients by
 * differences, stages from text, wrong settings and inputs, failing memory.
 */
#include "models/snail.h"

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/failing.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/tensor.h"

enum { ROWS = 3, N = 6, IN = 3, FILTERS = 4, KEYS = 5, VALUES = 2, DENSE = 3 };
enum { OUT = IN + 2 * DENSE * FILTERS + 2 * VALUES };

static fv_snail_config config(void)
{
    return (fv_snail_config){.inputs = IN,
                             .steps = N,
                             .stage_count = 4,
                             .stage = {{.filters = FILTERS},
                                       {.keys = KEYS, .values = VALUES},
                                       {.filters = FILTERS},
                                       {.keys = KEYS, .values = VALUES}}};
}

static fv_params *make(fv_ctx *ctx, const fv_snail_config *cfg, fv_snail *snail)
{
    fv_params *params = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_snail_create(params, "snail", cfg, snail));
    for (int i = 0; i < fv_params_count(params); i++) { /* biases too are not 0 */
        fv_tensor *t = fv_params_tensor(params, i);
        const int64_t n = fv_tensor_count(t);
        float *x = tensor_floats(ctx, t);
        for (int64_t k = 0; k < n; k++)
            x[k] += (float)(0.2 * sin(1.7 * (double)k + i));
        CHECK_OK(ctx, fv_tensor_write(ctx, t, x, (size_t)n * sizeof *x));
        free(x);
    }
    return params;
}

/* ---- the formula ---------------------------------------------------------------------------- */

/* The map of a site of row 0, for comparison. */
typedef struct maps {
    int count;
    double a[2][N][N];
} maps;

static void project(const fv_dense *dense, int out, int in, const double *x, double *y)
{
    float *w = tensor_floats(dense->weight->ctx, dense->weight),
          *b = tensor_floats(dense->weight->ctx, dense->bias);
    for (int i = 0; i < out; i++) {
        y[i] = (double)b[i];
        for (int k = 0; k < in; k++)
            y[i] += (double)w[i * in + k] * x[k];
    }
    free(w), free(b);
}

static void expect_dense(const fv_snail_dense *dense, int in, int dilation, double x[N][OUT])
{
    float *w = tensor_floats(dense->weight->ctx, dense->weight),
          *b = tensor_floats(dense->weight->ctx, dense->bias);
    for (int t = 0; t < N; t++) {
        double sum[2 * FILTERS];
        for (int i = 0; i < 2 * FILTERS; i++) {
            sum[i] = (double)b[i];
            for (int k = 0; k < in; k++) {
                sum[i] += (double)w[i * in + k] * x[t][k];
                if (t >= dilation)
                    sum[i] += (double)w[(i + 2 * FILTERS) * in + k] * x[t - dilation][k];
            }
        }
        for (int i = 0; i < FILTERS; i++)
            x[t][in + i] = tanh(sum[i]) / (1 + exp(-sum[FILTERS + i]));
    }
    free(w), free(b);
}

static void expect_attention(const fv_snail *snail, int stage, int in, double x[N][OUT],
                             double a[N][N])
{
    double q[N][KEYS], k[N][KEYS], v[N][VALUES];
    for (int t = 0; t < N; t++) {
        double sum = 0;
        project(&snail->part[stage].query, KEYS, in, x[t], q[t]);
        project(&snail->part[stage].key, KEYS, in, x[t], k[t]);
        project(&snail->part[stage].value, VALUES, in, x[t], v[t]);
        for (int s = 0; s < N; s++) {
            double score = 0;
            for (int i = 0; s <= t && i < KEYS; i++)
                score += q[t][i] * k[s][i];
            a[t][s] = s <= t ? exp(score / sqrt((double)KEYS)) : 0;
            sum += a[t][s];
        }
        for (int s = 0; s < N; s++)
            a[t][s] /= sum;
    }
    for (int t = 0; t < N; t++)
        for (int i = 0; i < VALUES; i++) {
            x[t][in + i] = 0;
            for (int s = 0; s < N; s++)
                x[t][in + i] += a[t][s] * v[s][i];
        }
}

static void expect_row(const fv_snail *snail, double x[N][OUT], maps *m)
{
    int width = IN;
    for (int i = 0; i < snail->cfg.stage_count; i++) {
        if (snail->cfg.stage[i].filters == 0) {
            expect_attention(snail, i, width, x, m->a[m->count++]);
            width += VALUES;
            continue;
        }
        for (int k = 0; k < DENSE; k++, width += FILTERS)
            expect_dense(&snail->part[i].dense[k], width, 1 << k, x);
    }
    CHECK_EQ(width, OUT);
}

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    maps *m = user;
    char name[32];
    float a[ROWS][1][N][N];
    snprintf(name, sizeof name, "attention.%d", m->count);
    CHECK_STR(site->name, name);
    CHECK_EQ(fv_tensor_count(site->captured.weights), ROWS * N * N);
    CHECK_OK(ctx, fv_tensor_read(ctx, site->captured.weights, a, sizeof a));
    for (int t = 0; t < N; t++)
        for (int s = 0; s < N; s++)
            m->a[m->count][t][s] = (double)a[0][0][t][s];
    m->count++;
    return FV_OK;
}

static void outputs_and_attention_are_the_formula(void)
{
    fv_ctx *ctx = run_context(1, 1);
    const fv_snail_config cfg = config();
    fv_snail snail;
    fv_params *params = make(ctx, &cfg, &snail);
    CHECK(snail.dense_count == DENSE && snail.attention_count == 2 && snail.outputs == OUT);
    fv_tensor *x = tensor_random(ctx, 3, 3, ROWS, N, IN);
    maps seen = {0};
    const fv_capture capture = {.options = {.weights = true}, .on_weights = take, .user = &seen};
    fv_tensor *plain = fv_snail_run(ctx, &snail, x, NULL),
              *watched = fv_snail_run(ctx, &snail, x, &(fv_pass){.capture = &capture});
    CHECK(tensor_same(ctx, plain, watched));
    float *in = tensor_floats(ctx, x), *out = tensor_floats(ctx, plain);
    for (int r = 0; r < ROWS; r++) {
        double want[N][OUT];
        maps m = {0};
        for (int t = 0; t < N; t++)
            for (int i = 0; i < IN; i++)
                want[t][i] = (double)in[(r * N + t) * IN + i];
        expect_row(&snail, want, &m);
        for (int t = 0; t < N; t++)
            for (int i = 0; i < OUT; i++)
                CHECK_NEAR(out[(r * N + t) * OUT + i], want[t][i], 1e-5);
        CHECK_EQ(seen.count, 2);
        for (int k = 0; k < 2 * N * N && r == 0; k++)
            CHECK_NEAR(seen.a[k / N / N][k / N % N][k % N], m.a[k / N / N][k / N % N][k % N], 1e-5);
    }
    free(in), free(out);
    fv_site site[2];
    CHECK_EQ(fv_snail_sites(&snail, site, 2), 2);
    CHECK(strcmp(site[1].name, "attention.1") == 0 && site[1].keys == FV_AXIS_STEPS);
    CHECK_EQ(fv_snail_sites(&snail, NULL, 0), 2);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

/* ---- order ---------------------------------------------------------------------------------- */

static void later_inputs_do_not_change_earlier_outputs(void)
{
    fv_ctx *ctx = run_context(1, 1);
    const fv_snail_config cfg = config();
    fv_snail snail;
    fv_params *params = make(ctx, &cfg, &snail);
    fv_tensor *x = tensor_random(ctx, 3, 3, ROWS, N, IN);
    fv_tensor *y = fv_snail_run(ctx, &snail, x, NULL);
    for (int t = 0; t + 1 < N; t++) {
        const int64_t rest = N - 1 - t;
        fv_tensor *other = fv_concat(ctx, 2,
                                     (fv_tensor *[]){fv_slice(ctx, x, 1, 0, t + 1, 1),
                                                     tensor_random(ctx, 9, 3, ROWS, (int)rest, IN)},
                                     1);
        fv_tensor *z = fv_snail_run(ctx, &snail, other, NULL);
        CHECK(tensor_same(ctx, fv_slice(ctx, y, 1, 0, t + 1, 1), fv_slice(ctx, z, 1, 0, t + 1, 1)));
        /* the first changed input reaches the last output by every path */
        CHECK(tensor_distance(ctx, fv_slice(ctx, y, 1, N - 1, N, 1),
                              fv_slice(ctx, z, 1, N - 1, N, 1)) > 1e-3);
    }
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

/* With convolutions alone, the last output of `steps` sees the first input. */
static void convolutions_reach_the_first_step(void)
{
    for (int64_t steps = 1; steps <= 9; steps++) {
        fv_ctx *ctx = run_context(1, 1);
        const fv_snail_config cfg = {
            .inputs = IN, .steps = steps, .stage_count = 1, .stage = {{.filters = FILTERS}}};
        fv_snail snail;
        fv_params *params = make(ctx, &cfg, &snail);
        fv_tensor *x = tensor_random(ctx, 3, 3, 1, (int)steps, IN);
        fv_tensor *first = fv_pad(ctx, tensor_random(ctx, 4, 3, 1, 1, IN), (int64_t[]){0, 0, 0},
                                  (int64_t[]){0, steps - 1, 0}, 0);
        fv_tensor *y = fv_snail_run(ctx, &snail, x, NULL),
                  *z = fv_snail_run(ctx, &snail, fv_add(ctx, x, first), NULL);
        CHECK(tensor_distance(ctx, fv_slice(ctx, y, 1, steps - 1, steps, 1),
                              fv_slice(ctx, z, 1, steps - 1, steps, 1)) > 1e-5);
        fv_params_destroy(&params);
        fv_ctx_destroy(&ctx);
    }
}

/* Outputs of sequences of n steps, step by step and alone, within `tolerance`; 0: the same bits. */
static void compare_steps(const fv_snail_config *cfg, int64_t n, double tolerance)
{
    fv_ctx *ctx = run_context(2, 1);
    fv_snail snail;
    fv_snail_state state;
    fv_params *params = make(ctx, cfg, &snail);
    fv_tensor *x = tensor_random(ctx, 3, 3, ROWS, (int)n, IN);
    fv_tensor *y = fv_snail_run(ctx, &snail, x, NULL);
    fv_snail_begin(ctx, &snail, ROWS, &state);
    for (int64_t t = 0; t < n; t++) {
        fv_scope_begin(ctx);
        fv_tensor *now = fv_squeeze(ctx, fv_slice(ctx, x, 1, t, t + 1, 1), 1),
                  *want = fv_squeeze(ctx, fv_slice(ctx, y, 1, t, t + 1, 1), 1);
        now = fv_snail_step(ctx, &snail, &state, now);
        CHECK(tensor_distance(ctx, now, want) <= tolerance);
        fv_scope_end(ctx);
    }
    CHECK_EQ(state.steps, n);
    for (int64_t r = 0; r < ROWS; r++) { /* a row alone */
        fv_tensor *alone = fv_snail_run(ctx, &snail, fv_slice(ctx, x, 0, r, r + 1, 1), NULL);
        CHECK(tensor_same(ctx, alone, fv_contiguous(ctx, fv_slice(ctx, y, 0, r, r + 1, 1))));
    }
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static void steps_give_what_the_sequence_gives(void)
{
    enum { LONG = 70 };
    fv_snail_config cfg = config();
    cfg.steps = LONG;
    compare_steps(&cfg, 1, 0);
    compare_steps(&cfg, N, 1e-6);
    compare_steps(&cfg, LONG, 1e-6);
    cfg.stage[1] = cfg.stage[0];
    cfg.stage_count = 3;
    compare_steps(&cfg, N, 0);
    compare_steps(&cfg, LONG, 0);
}

/* ---- gradients ------------------------------------------------------------------------------ */

static fv_tensor *weighted_sum(fv_ctx *ctx, const fv_snail *snail, fv_tensor *x)
{
    fv_tensor *y = fv_snail_run(ctx, snail, x, NULL);
    return fv_sum(ctx, fv_mul(ctx, y, tensor_random(ctx, 8, 3, ROWS, N, OUT)), 0, NULL, false);
}

static double value_of(fv_ctx *ctx, const fv_snail *snail, fv_tensor *x)
{
    double value = 0;
    fv_no_grad_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, weighted_sum(ctx, snail, x), &value));
    fv_no_grad_end(ctx);
    return value;
}

/* The derivative along one direction of each parameter, against central differences. */
static void gradients_are_right(void)
{
    fv_ctx *ctx = run_context(1, 1);
    const fv_snail_config cfg = config();
    fv_snail snail;
    fv_params *params = make(ctx, &cfg, &snail);
    fv_tensor *in = tensor_random(ctx, 3, 3, ROWS, N, IN);
    CHECK_OK(ctx, fv_backward(ctx, weighted_sum(ctx, &snail, in)));
    for (int p = 0; p < fv_params_count(params); p++) {
        fv_tensor *t = fv_params_tensor(params, p);
        const int64_t n = fv_tensor_count(t);
        float *x = tensor_floats(ctx, t), *g = tensor_floats(ctx, fv_grad(ctx, t)),
              *y = tensor_floats(ctx, t);
        const double step = 0x1p-8;
        double slope = 0, side[2];
        for (int64_t i = 0; i < n; i++)
            slope += (double)g[i] * cos(3.1 * (double)i);
        for (int s = 0; s < 2; s++) {
            for (int64_t i = 0; i < n; i++)
                y[i] = x[i] + (float)((s ? -step : step) * cos(3.1 * (double)i));
            CHECK_OK(ctx, fv_tensor_write(ctx, t, y, (size_t)n * sizeof *y));
            side[s] = value_of(ctx, &snail, in);
        }
        CHECK_OK(ctx, fv_tensor_write(ctx, t, x, (size_t)n * sizeof *x));
        const double differences = (side[0] - side[1]) / (2 * step);
        if (!(fabs(slope - differences) <= 3e-3 * (1 + fabs(differences))))
            test_failed(__FILE__, __LINE__, "%s: %.9g, differences give %.9g",
                        fv_params_name(params, p), slope, differences);
        CHECK(fabs(slope) > 1e-4 || strstr(fv_params_name(params, p), "key.bias"));
        free(x), free(g), free(y);
    }
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

/* ---- settings, inputs, memory --------------------------------------------------------------- */

static void stages_are_read(void)
{
    static const char *const wrong[] = {"",        "tc",          "tc 0",    "tc 4,",
                                        "tc 5000", "attention 4", "tc 4 5",  "tcx 4",
                                        "tc 4 x",  "attend 3 4",  "tc 4;tc", "tc4"};
    fv_ctx *ctx = run_context(1, 1);
    fv_snail_config cfg = {.inputs = 1, .steps = 2};
    CHECK_OK(ctx, fv_snail_read_stages(ctx, "tc 8, attention  16 4 ,tc 3", &cfg));
    CHECK_EQ(cfg.stage_count, 3);
    CHECK(cfg.stage[0].filters == 8 && cfg.stage[0].keys == 0 && cfg.stage[2].filters == 3);
    CHECK(cfg.stage[1].filters == 0 && cfg.stage[1].keys == 16 && cfg.stage[1].values == 4);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const fv_snail_config before = cfg;
        if (fv_snail_read_stages(ctx, wrong[i], &cfg) != FV_ERR_ARGUMENT)
            test_failed(__FILE__, __LINE__, "'%s' is accepted", wrong[i]);
        CHECK(memcmp(&before, &cfg, sizeof cfg) == 0);
    }
    CHECK(strstr(fv_ctx_message(ctx), "snail: stages 'tc4', expected at most 12 like") != NULL);
    char many[120] = "tc 1";
    for (int i = 1; i < FV_SNAIL_STAGES; i++)
        memcpy(many + strlen(many), ",tc 1", 6);
    CHECK_OK(ctx, fv_snail_read_stages(ctx, many, &cfg));
    memcpy(many + strlen(many), ",tc 1", 6);
    CHECK_EQ(fv_snail_read_stages(ctx, many, &cfg), FV_ERR_ARGUMENT);
    fv_ctx_destroy(&ctx);
}

static void wrong_settings_and_inputs_are_named(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_params *params = NULL;
    fv_snail snail;
    fv_snail_state state;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    for (int i = 0; i < 6; i++) {
        fv_snail_config cfg = config();
        if (i == 0) cfg.inputs = 0;
        if (i == 1) cfg.steps = FV_SNAIL_MAX_STEPS + 1;
        if (i == 2) cfg.stage_count = FV_SNAIL_STAGES + 1;
        if (i == 3) cfg.stage[0].keys = 3;
        if (i == 4) cfg.stage[1].values = 0;
        if (i == 5) cfg.stage[1].keys = FV_ATTN_MAX_WIDTH + 1;
        CHECK_EQ(fv_snail_create(params, "s", &cfg, &snail), FV_ERR_ARGUMENT);
    }
    fv_params_destroy(&params);
    const fv_snail_config cfg = config();
    params = make(ctx, &cfg, &snail);
    fv_snail_run(ctx, &snail, tensor_random(ctx, 1, 3, ROWS, N + 1, IN), NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "snail: inputs [3,7,3], expected [rows, 1 to 6 steps, 3]");
    fv_snail_run(ctx, &snail, tensor_random(ctx, 1, 3, ROWS, N, IN + 1), NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "snail: inputs [3,6,4]");
    fv_snail_begin(ctx, &snail, ROWS, &state);
    fv_snail_step(ctx, &snail, &state, tensor_random(ctx, 1, 2, ROWS + 1, IN));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "snail: step 1 of inputs [4,3]");
    for (int t = 0; t < N; t++)
        fv_snail_step(ctx, &snail, &state, tensor_random(ctx, 1, 2, ROWS, IN));
    CHECK_OK(ctx, fv_ctx_error(ctx));
    fv_snail_step(ctx, &snail, &state, tensor_random(ctx, 1, 2, ROWS, IN));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "snail: step 7 of inputs [3,3], expected at most 6 steps");
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static fv_status use_all(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    const fv_snail_config cfg = config();
    fv_params *params = NULL;
    fv_snail snail;
    fv_snail_state state;
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) status = fv_snail_create(params, "s", &cfg, &snail);
    if (status == FV_OK) {
        fv_tensor *x = fv_zeros(ctx, FV_F32, 3, (int64_t[]){1, N, IN});
        fv_snail_run(ctx, &snail, x, NULL);
        fv_snail_begin(ctx, &snail, 1, &state);
        fv_snail_step(ctx, &snail, &state, fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, IN}));
        status = fv_ctx_error(ctx);
    }
    fv_params_destroy(&params);
    return status;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(use_all, NULL, 0) > 100); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(outputs_and_attention_are_the_formula);
    RUN(later_inputs_do_not_change_earlier_outputs);
    RUN(convolutions_reach_the_first_step);
    RUN(steps_give_what_the_sequence_gives);
    RUN(gradients_are_right);
    RUN(stages_are_read);
    RUN(wrong_settings_and_inputs_are_named);
    RUN(memory_may_run_out);
    return TEST_END();
}
