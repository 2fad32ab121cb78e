/*
 * Linear layers in mixed precision. Their products are held to those of the rounded operands in
 * double, within what the roundings of the sums allow, and y within one more rounding to bf16: y,
 * dx and dW. Results have equal bits for all levels, threads and devices. The bf16 copy of a weight
 * follows it.
 */
#include "fovea/autograd.h"
#include "fovea/optim.h"
#include "support/opcase.h"
#include "support/tensors.h"

enum { ROWS = 37, IN = 83, OUT = 70 };

/* Forward and backward of one layer: y = x W^T, and its gradients for dy = g. */
typedef struct layer {
    fv_tensor *x, *w, *g, *y, *dx, *dw;
} layer;

static fv_ctx *make(fv_dtype compute)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, compute));
    return ctx;
}

static layer layer_make(fv_ctx *ctx)
{
    return (layer){.x = fv_leaf(ctx, tensor_random(ctx, 1, 2, ROWS, IN)),
                   .w = fv_leaf(ctx, tensor_random(ctx, 2, 2, OUT, IN)),
                   .g = tensor_random(ctx, 3, 2, ROWS, OUT)};
}

static void back(fv_ctx *ctx, layer *l)
{
    fv_tensor *loss = fv_sum(ctx, fv_mul(ctx, l->y, l->g), 0, NULL, false);
    fv_retain(ctx, l->y);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    l->dx = fv_grad(ctx, l->x);
    l->dw = fv_grad(ctx, l->w);
    l->y = fv_cast(ctx, l->y, FV_F32);
}

static layer layer_run(fv_ctx *ctx)
{
    layer l = layer_make(ctx);
    l.y = fv_linear(ctx, l.x, l.w, NULL);
    back(ctx, &l);
    return l;
}

static fv_tensor *rounded(fv_ctx *ctx, fv_tensor *t)
{
    return fv_cast(ctx, fv_cast(ctx, t, FV_BF16), FV_F64);
}

/* max |got - a b| / (|a| |b|), in units of what `terms` additions may be off by; with `half`, after
 * what rounding the result to bf16 may be off by. */
static double error_of(fv_ctx *ctx, fv_tensor *got, fv_tensor *a, fv_tensor *b, double terms,
                       bool half)
{
    const double n = (terms + 1) * 0x1p-24, bound = n / (1 - n);
    fv_tensor *exact = fv_matmul(ctx, a, b);
    fv_tensor *size = fv_matmul(ctx, fv_abs(ctx, a), fv_abs(ctx, b));
    fv_tensor *off = fv_abs(ctx, fv_sub(ctx, fv_cast(ctx, got, FV_F64), exact));
    if (half) off = fv_relu(ctx, fv_sub(ctx, off, fv_scale(ctx, fv_abs(ctx, exact), 0x1p-8)));
    double most = NAN;
    fv_tensor *share = fv_max(ctx, fv_div(ctx, off, size), 0, NULL, false);
    CHECK_OK(ctx, fv_tensor_item(ctx, share, &most));
    return most / bound;
}

static double error(fv_ctx *ctx, fv_tensor *got, fv_tensor *a, fv_tensor *b, double terms)
{
    return error_of(ctx, got, a, b, terms, false);
}

static double worst_error(fv_ctx *ctx, const layer *l)
{
    fv_no_grad_begin(ctx);
    fv_tensor *x = rounded(ctx, l->x), *w = rounded(ctx, l->w), *g = rounded(ctx, l->g);
    const bool half = fv_ctx_compute(ctx) == FV_BF16;
    double worst = error_of(ctx, l->y, x, fv_transpose(ctx, w, 0, 1), IN, half);
    worst = test_worse(worst, error(ctx, l->dx, g, w, OUT));
    worst = test_worse(worst, error(ctx, l->dw, fv_transpose(ctx, g, 0, 1), x, ROWS));
    fv_no_grad_end(ctx);
    return worst;
}

static void products_are_of_rounded_operands(void)
{
    for (int compute = 0; compute < 2; compute++) {
        fv_ctx *ctx = make(compute ? FV_BF16 : FV_F32);
        const layer l = layer_run(ctx);
        const double worst = worst_error(ctx, &l);
        if (compute)
            CHECK(worst <= 1);
        else
            CHECK(worst > 10); /* what is not rounded is found out */
        fv_ctx_destroy(&ctx);
    }
}

/* Each of the three is rounded, and by itself. */
static void all_three_products_change(void)
{
    fv_ctx *ctx = make(FV_BF16), *plain = make(FV_F32);
    const layer a = layer_run(ctx), b = layer_run(plain);
    fv_tensor *const of_a[] = {a.y, a.dx, a.dw}, *const of_b[] = {b.y, b.dx, b.dw};
    for (int i = 0; i < 3; i++) {
        float *x = tensor_floats(ctx, of_a[i]), *y = tensor_floats(plain, of_b[i]);
        CHECK(memcmp(x, y, 100 * sizeof *x) != 0);
        free(x);
        free(y);
    }
    fv_ctx_destroy(&ctx);
    fv_ctx_destroy(&plain);
}

static void expect_same(fv_ctx *a, fv_tensor *x, fv_ctx *b, fv_tensor *y, int64_t count)
{
    float *p = tensor_floats(a, x), *q = tensor_floats(b, y);
    CHECK(p && q && memcmp(p, q, (size_t)count * sizeof *p) == 0);
    free(p);
    free(q);
}

static void bits_are_equal_everywhere(void)
{
    fv_ctx *usual = make(FV_BF16);
    const layer want = layer_run(usual);
    for (fv_simd level = FV_SIMD_SCALAR; level <= fv_simd_detect(); level++)
        for (int kind = 0; kind < 4; kind++) {
            fv_ctx *ctx = op_context(level, kind == 3 ? 2 : 1 + 2 * kind,
                                     kind == 3 ? FV_DEVICE_GUARDED : FV_DEVICE_CPU);
            CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_BF16));
            const layer l = layer_run(ctx);
            expect_same(usual, want.y, ctx, l.y, ROWS * OUT);
            expect_same(usual, want.dx, ctx, l.dx, ROWS * IN);
            expect_same(usual, want.dw, ctx, l.dw, OUT * IN);
            fv_ctx_destroy(&ctx);
        }
    fv_ctx_destroy(&usual);
}

/* Bias, activation and residual come after the product, as ever: fused or one by one. */
static void epilogues_follow(void)
{
    fv_ctx *ctx = make(FV_BF16);
    const layer l = layer_make(ctx);
    fv_tensor *bias = fv_leaf(ctx, tensor_random(ctx, 4, 1, OUT));
    fv_tensor *more = fv_leaf(ctx, tensor_random(ctx, 5, 2, ROWS, OUT));
    fv_tensor *recorded = fv_linear_act(ctx, l.x, l.w, bias, FV_ACT_GELU, more);
    CHECK_EQ(fv_tensor_dtype(recorded), FV_BF16);
    fv_no_grad_begin(ctx);
    CHECK(tensor_same(ctx, fv_linear_act(ctx, l.x, l.w, bias, FV_ACT_GELU, more), recorded));
    fv_tensor *w = fv_transpose(ctx, rounded(ctx, l.w), 0, 1);
    fv_tensor *u = fv_add(ctx, fv_matmul(ctx, rounded(ctx, l.x), w), fv_cast(ctx, bias, FV_F64));
    fv_tensor *exact = fv_add(ctx, fv_gelu(ctx, u), rounded(ctx, more));
    fv_tensor *off = fv_abs(ctx, fv_sub(ctx, fv_cast(ctx, recorded, FV_F64), exact));
    fv_tensor *bound = fv_affine(ctx, fv_abs(ctx, exact), 0x1p-8, 1e-4); /* rounded once */
    double worst = NAN;
    CHECK_OK(ctx,
             fv_tensor_item(ctx, fv_max(ctx, fv_div(ctx, off, bound), 0, NULL, false), &worst));
    CHECK(worst <= 1);
    fv_no_grad_end(ctx);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_mul(ctx, recorded, l.g), 0, NULL, false)));
    fv_tensor *g = fv_cast(ctx, fv_cast(ctx, l.g, FV_BF16), FV_F32); /* the gradient of a bf16 y */
    CHECK(tensor_same(ctx, fv_grad(ctx, more), g));
    fv_ctx_destroy(&ctx);
}

/* Changing the compute type between forward and backward has no effect. */
static void backward_uses_the_compute_type_of_forward(void)
{
    fv_ctx *ctx = make(FV_BF16), *other = make(FV_BF16);
    const layer want = layer_run(ctx);
    layer l = layer_make(other);
    l.y = fv_linear(other, l.x, l.w, NULL);
    CHECK_OK(other, fv_ctx_set_compute(other, FV_F32));
    back(other, &l);
    expect_same(ctx, want.dx, other, l.dx, ROWS * IN);
    expect_same(ctx, want.dw, other, l.dw, OUT * IN);
    fv_ctx_destroy(&ctx);
    fv_ctx_destroy(&other);
}

static fv_tensor *linear_block(fv_ctx *ctx, void *weight, fv_tensor *const *in)
{
    return fv_linear(ctx, in[0], weight, NULL);
}

static void checkpoints_keep_the_compute_type(void)
{
    fv_ctx *ctx = make(FV_BF16), *other = make(FV_BF16);
    const layer want = layer_run(ctx);
    layer l = layer_make(other);
    l.y = fv_checkpoint(other, linear_block, l.w, 1, &l.x);
    CHECK_OK(other, fv_ctx_set_compute(other, FV_F32));
    back(other, &l);
    expect_same(ctx, want.dx, other, l.dx, ROWS * IN);
    expect_same(ctx, want.dw, other, l.dw, OUT * IN);
    CHECK_EQ(fv_ctx_compute(other), FV_F32);
    fv_ctx_destroy(&ctx);
    fv_ctx_destroy(&other);
}

/* Two calls with one weight: both shares arrive, rounded. */
static void shared_weights_add_up(void)
{
    fv_ctx *ctx = make(FV_BF16);
    layer l = layer_make(ctx);
    l.y = fv_add(ctx, fv_linear(ctx, l.x, l.w, NULL), fv_linear(ctx, l.x, l.w, NULL));
    back(ctx, &l);
    fv_no_grad_begin(ctx);
    fv_tensor *g = rounded(ctx, l.g), *x = rounded(ctx, l.x);
    fv_tensor *half = fv_scale(ctx, l.dw, 0.5);
    CHECK(error(ctx, half, fv_transpose(ctx, g, 0, 1), x, 2 * ROWS) <= 1);
    fv_no_grad_end(ctx);
    fv_ctx_destroy(&ctx);
}

/* Double, packed-only weights and other products are what they were. */
static void nothing_else_is_rounded(void)
{
    fv_ctx *ctx = make(FV_BF16);
    layer l = layer_make(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *x = fv_cast(ctx, l.x, FV_F64), *w = fv_cast(ctx, l.w, FV_F64);
    fv_tensor *wt = fv_transpose(ctx, w, 0, 1);
    CHECK(tensor_distance(ctx, fv_cast(ctx, fv_linear(ctx, x, w, NULL), FV_F32),
                          fv_cast(ctx, fv_matmul(ctx, x, wt), FV_F32)) == 0);
    fv_tensor *exact = fv_matmul(ctx, l.x, fv_transpose(ctx, l.w, 0, 1));
    CHECK(error(ctx, exact, x, wt, IN) <= 1);
    CHECK(!tensor_same(ctx, fv_cast(ctx, fv_linear(ctx, l.x, l.w, NULL), FV_F32), exact));
    CHECK_OK(ctx, fv_linear_pack_in_place(ctx, l.w, FV_WEIGHT_F32));
    CHECK(tensor_same(ctx, fv_linear(ctx, l.x, l.w, NULL), exact));
    fv_no_grad_end(ctx);
    fv_ctx_destroy(&ctx);
}

/* y of the weight as it is, with and without a copy that an earlier product made. */
static void expect_current_copy(fv_ctx *ctx, fv_tensor *x, fv_tensor *w)
{
    fv_tensor *fresh = fv_add(ctx, w, fv_zeros(ctx, FV_F32, 0, NULL)); /* another buffer */
    CHECK(tensor_same(ctx, fv_linear(ctx, x, w, NULL), fv_linear(ctx, x, fresh, NULL)));
}

static void copies_follow_their_weight(void)
{
    fv_ctx *ctx = make(FV_BF16);
    fv_params *params = NULL;
    fv_optim *optim = NULL;
    fv_optim_config sgd;
    fv_optim_config_init(&sgd, sizeof sgd, FV_OPTIM_SGD);
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_tensor *w = fv_params_add(params, "w", tensor_random(ctx, 2, 2, OUT, IN));
    CHECK_OK(ctx, fv_optim_create(params, &sgd, &optim));
    fv_tensor *x = tensor_random(ctx, 1, 2, ROWS, IN);
    expect_current_copy(ctx, x, w);
    float *values = tensor_floats(ctx, w);
    for (int i = 0; i < OUT * IN; i++)
        values[i] = -values[i];
    CHECK_OK(ctx, fv_tensor_write(ctx, w, values, OUT * IN * sizeof *values)); /* a stale copy */
    expect_current_copy(ctx, x, w);
    fv_tensor *before = fv_cast(ctx, fv_linear(ctx, x, w, NULL), FV_F32);
    CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, fv_linear(ctx, x, w, NULL), 0, NULL, false)));
    CHECK_OK(ctx, fv_optim_step(optim, 0.5, NULL)); /* a refreshed one */
    CHECK(!tensor_same(ctx, fv_cast(ctx, fv_linear(ctx, x, w, NULL), FV_F32), before));
    expect_current_copy(ctx, x, w);
    /* A step that is not made leaves a current copy and does not pass a stale one as current. */
    for (int stale = 0; stale < 2; stale++) {
        if (stale) CHECK_OK(ctx, fv_tensor_write(ctx, w, values, OUT * IN * sizeof *values));
        fv_tensor *loss = fv_sum(ctx, fv_linear(ctx, x, fv_scale(ctx, w, 1), NULL), 0, NULL, false);
        CHECK_OK(ctx, fv_backward(ctx, fv_scale(ctx, loss, INFINITY)));
        CHECK_OK(ctx, fv_optim_step(optim, 0.5, NULL));
        expect_current_copy(ctx, x, w);
    }
    /* A part of a weight finds its part of the copy. */
    fv_tensor *part = fv_slice(ctx, w, 0, 3, OUT, 1);
    fv_tensor *all = fv_linear(ctx, x, w, NULL);
    CHECK(tensor_same(ctx, fv_contiguous(ctx, fv_slice(ctx, all, 1, 3, OUT, 1)),
                      fv_linear(ctx, x, part, NULL)));
    free(values);
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static void other_types_are_refused(void)
{
    fv_ctx *ctx = make(FV_F32);
    CHECK_EQ(fv_ctx_compute(ctx), FV_F32);
    CHECK_EQ(fv_ctx_set_compute(ctx, FV_F16), FV_ERR_DTYPE);
    CHECK(strstr(fv_ctx_message(ctx), "f16"));
    CHECK_EQ(fv_ctx_compute(ctx), FV_F32);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_BF16));
    CHECK_EQ(fv_ctx_compute(ctx), FV_BF16);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(products_are_of_rounded_operands);
    RUN(all_three_products_change);
    RUN(bits_are_equal_everywhere);
    RUN(epilogues_follow);
    RUN(backward_uses_the_compute_type_of_forward);
    RUN(checkpoints_keep_the_compute_type);
    RUN(shared_weights_add_up);
    RUN(nothing_else_is_rounded);
    RUN(copies_follow_their_weight);
    RUN(other_types_are_refused);
    return TEST_END();
}
