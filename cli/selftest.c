#include "selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/kernels.h"
#include "fovea/ops.h"
#include "output.h"

/* Fixed numbers in [-1, 1) that look random. */
static double sample(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (double)(1u << 23) - 1.0;
}

static void verdict(selftest_result *out, bool ok, const char *what)
{
    out->ok = ok;
    cli_format(out->detail, sizeof out->detail, "%s", what);
}

/* ---- matrix products ------------------------------------------------------------ */

enum { M = 37, N = 53, K = 41 };

typedef struct product {
    float a[K * M], b[K * N], bias[N]; /* A is stored transposed */
    float c[M * N];
} product;

static void product_fill(product *p)
{
    uint32_t state = 1;
    for (int i = 0; i < K * M; i++)
        p->a[i] = (float)sample(&state);
    for (int i = 0; i < K * N; i++)
        p->b[i] = (float)sample(&state);
    for (int i = 0; i < N; i++)
        p->bias[i] = (float)sample(&state);
}

static fv_status product_run(product *p, fv_simd level)
{
    fv_gemm g = {.m = M, .n = N, .k = K, .a_row = 1, .a_col = M, .b_row = N, .b_col = 1};
    fv_gemm_exec exec = {.level = level, .bias = p->bias};
    g.c_row = N;
    g.batch = 1;
    g.act = FV_ACT_RELU;
    size_t bytes = fv_gemm_scratch(&g, 1);
    void *scratch = bytes ? aligned_alloc(64, bytes) : NULL;
    if (bytes && !scratch) return FV_ERR_MEMORY;
    fv_status status = fv_gemm_run(&g, p->a, p->b, &exec, scratch, bytes, p->c);
    free(scratch);
    return status;
}

/* Against sums in double: K products of numbers below 1 leave an error far below 1e-5. */
static bool product_right(const product *p)
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = p->bias[j];
            for (int k = 0; k < K; k++)
                sum += (double)p->a[k * M + i] * (double)p->b[k * N + j];
            if (!(fabs((double)p->c[i * N + j] - fmax(sum, 0)) < 1e-5)) return false;
        }
    }
    return true;
}

void selftest_gemm(fv_simd level, selftest_result *out)
{
    product *both = calloc(2, sizeof *both);
    if (!both) {
        verdict(out, false, "out of memory");
        return;
    }
    product_fill(&both[0]);
    product_fill(&both[1]);
    fv_status status = product_run(&both[0], FV_SIMD_SCALAR);
    if (status == FV_OK) status = product_run(&both[1], level);
    if (status != FV_OK)
        verdict(out, false, fv_status_name(status));
    else if (!product_right(&both[1]))
        verdict(out, false, "differs from sums in double precision");
    else if (memcmp(both[0].c, both[1].c, sizeof both[0].c) != 0)
        verdict(out, false, "differs in bits from the scalar level");
    else
        verdict(out, true,
                level == FV_SIMD_SCALAR ? "right" : "right, with the bits of the scalar level");
    free(both);
}

/* ---- a step of training --------------------------------------------------------- */

enum { ROWS = 5, INPUTS = 19, HIDDEN = 23, CLASSES = 7 };

typedef struct step {
    double loss;
    double first[HIDDEN * INPUTS], second[CLASSES * HIDDEN]; /* gradients of the two weights */
} step;

/* A tensor of fixed numbers; `nudge` is added to the first of them. */
static fv_tensor *fixed(fv_ctx *ctx, fv_dtype dtype, int64_t rows, int64_t columns, uint32_t seed,
                        double nudge)
{
    enum { MOST = HIDDEN * INPUTS };
    double wide[MOST];
    float narrow[MOST];
    int64_t count = rows * columns;
    for (int64_t i = 0; i < count && i < MOST; i++) {
        wide[i] = 0.5 * sample(&seed) + (i == 0 ? nudge : 0);
        narrow[i] = (float)wide[i];
    }
    const void *data = dtype == FV_F64 ? (const void *)wide : (const void *)narrow;
    return fv_from_host(ctx, dtype, 2, (int64_t[]){rows, columns}, data);
}

static fv_status read_doubles(fv_ctx *ctx, fv_tensor *t, double *out, size_t count)
{
    if (!t) return FV_ERR_STATE;
    return fv_tensor_read(ctx, fv_cast(ctx, t, FV_F64), out, count * sizeof *out);
}

static fv_status step_in(fv_ctx *ctx, fv_dtype dtype, double nudge, step *out)
{
    static const int64_t labels[ROWS] = {0, 3, 6, 2, 2};
    fv_tensor *x = fixed(ctx, dtype, ROWS, INPUTS, 7, 0);
    fv_tensor *first = fv_leaf(ctx, fixed(ctx, dtype, HIDDEN, INPUTS, 11, nudge));
    fv_tensor *second = fv_leaf(ctx, fixed(ctx, dtype, CLASSES, HIDDEN, 13, 0));
    fv_tensor *target = fv_from_host(ctx, FV_I64, 1, (int64_t[]){ROWS}, labels);
    fv_tensor *hidden = fv_tanh(ctx, fv_linear(ctx, x, first, NULL));
    fv_tensor *logits = fv_linear(ctx, hidden, second, NULL);
    fv_tensor *loss = fv_cross_entropy(ctx, logits, target, -1, 0, FV_REDUCTION_MEAN);
    fv_status status = fv_tensor_item(ctx, loss, &out->loss);
    if (status == FV_OK) status = fv_backward(ctx, loss);
    if (status == FV_OK)
        status = read_doubles(ctx, fv_grad(ctx, first), out->first, HIDDEN * INPUTS);
    if (status == FV_OK)
        status = read_doubles(ctx, fv_grad(ctx, second), out->second, CLASSES * HIDDEN);
    return status;
}

static fv_status step_run(fv_simd level, fv_dtype dtype, double nudge, step *out)
{
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.threads = 1;
    config.simd = level;
    fv_ctx *ctx = NULL;
    fv_status status = fv_ctx_create(&config, &ctx);
    if (status != FV_OK) return status;
    memset(out, 0, sizeof *out);
    status = step_in(ctx, dtype, nudge, out);
    fv_ctx_destroy(&ctx);
    return status;
}

void selftest_training(fv_simd level, selftest_result *out)
{
    const double nudge = 1e-5;
    enum { SCALAR, LEVEL, EXACT, ABOVE, BELOW, RUNS };
    const struct {
        fv_simd level;
        fv_dtype dtype;
        double nudge;
    } plan[RUNS] = {[SCALAR] = {FV_SIMD_SCALAR, FV_F32, 0},
                    [LEVEL] = {level, FV_F32, 0},
                    [EXACT] = {level, FV_F64, 0},
                    [ABOVE] = {level, FV_F64, nudge},
                    [BELOW] = {level, FV_F64, -nudge}};
    step *steps = calloc(RUNS, sizeof *steps);
    if (!steps) {
        verdict(out, false, "out of memory");
        return;
    }
    fv_status status = FV_OK;
    for (int i = 0; i < RUNS && status == FV_OK; i++)
        status = step_run(plan[i].level, plan[i].dtype, plan[i].nudge, &steps[i]);
    double slope = (steps[ABOVE].loss - steps[BELOW].loss) / (2 * nudge);
    if (status != FV_OK)
        verdict(out, false, fv_status_name(status));
    else if (!(fabs(slope - steps[EXACT].first[0]) < 1e-7))
        verdict(out, false, "gradient differs from the difference quotient");
    else if (!(fabs(steps[LEVEL].loss - steps[EXACT].loss) < 1e-5))
        verdict(out, false, "loss in f32 differs from that in f64");
    else if (memcmp(&steps[SCALAR], &steps[LEVEL], sizeof *steps) != 0)
        verdict(out, false, "loss or gradients differ in bits from the scalar level");
    else
        verdict(out, true,
                level == FV_SIMD_SCALAR ? "gradient right"
                                        : "gradient right, with the bits of the scalar level");
    free(steps);
}
