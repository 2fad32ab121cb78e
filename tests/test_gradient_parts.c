/*
 * Gradients of views in the layout of the tensor they belong to (autograd/parts.c): slices of one
 * tensor in every combination against sums made on the host; q, k and v of one projection, whose
 * gradients the kernel writes in place, against the same with retained views, which takes the
 * copies; and the copies and fills that a GPT-2 block launches, counted.
 */
#include "device/device.h"
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "support/layerbench.h"
#include "support/tensors.h"
#include "support/test.h"
#include "tensor/tensor.h"

static fv_ctx *make(void)
{
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) test_failed(__FILE__, __LINE__, "no context");
    return ctx;
}

static fv_tensor *total(fv_ctx *ctx, fv_tensor *x) { return fv_sum(ctx, x, 0, NULL, false); }

/* ---- launches counted ----------------------------------------------------------------- */

static const fv_device_ops *real_ops;
static int64_t launches[FV_KERNEL_COUNT], copied;

static fv_status count_launch(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr,
                              const void *args, size_t args_bytes)
{
    launches[kernel]++;
    if (kernel == FV_KERNEL_COPY || kernel == FV_KERNEL_FILL) {
        const fv_elementwise_args *m = args;
        int64_t n = 1;
        for (int i = 0; i < m->rank; i++)
            n *= m->shape[i];
        copied += n;
    }
    return real_ops->launch(dev, kernel, dtype, ptr, args, args_bytes);
}

static void count_from_here(fv_ctx *ctx)
{
    static fv_device_ops counting;
    real_ops = ctx->device->ops;
    counting = *real_ops;
    counting.launch = count_launch;
    ctx->device->ops = &counting;
    memset(launches, 0, sizeof launches);
    copied = 0;
}

static void count_to_here(fv_ctx *ctx) { ctx->device->ops = real_ops; }

/* ---- slices ----------------------------------------------------------------------------- */

enum { ROWS = 3, COLS = 10 };

/* A use of y: columns [begin, end) (or rows), weighed by a constant. */
typedef struct use {
    int axis;
    int64_t begin, end, step;
    double weight;
    enum { NONE, RETAINED, TRANSPOSED } also;
} use;

/* Sums weighed slices of y = 1 x and compares the gradient of x with what they add up to. */
static void check_slices(const char *name, int n, const use *uses, bool whole_too)
{
    fv_ctx *ctx = make();
    double numbers[ROWS * COLS], want[ROWS * COLS] = {0}, got[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        numbers[i] = i + 1;
    fv_tensor *x = fv_leaf(ctx, fv_from_host(ctx, FV_F64, 2, (int64_t[]){ROWS, COLS}, numbers));
    fv_tensor *y = fv_scale(ctx, x, 1.0),
              *loss = whole_too ? total(ctx, fv_scale(ctx, y, 7.0)) : NULL;
    for (int k = 0; k < n; k++) {
        const use *u = &uses[k];
        fv_tensor *part = fv_slice(ctx, y, u->axis, u->begin, u->end, u->step);
        if (u->also == RETAINED) fv_retain(ctx, part);
        if (u->also == TRANSPOSED) part = fv_transpose(ctx, part, 0, 1);
        fv_tensor *term = total(ctx, fv_scale(ctx, part, u->weight));
        loss = loss ? fv_add(ctx, loss, term) : term;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLS; j++) {
                const int64_t at = u->axis == 0 ? i : j;
                const bool in = at >= u->begin && at < u->end && (at - u->begin) % u->step == 0;
                want[i * COLS + j] += in ? u->weight : 0;
            }
    }
    for (int i = 0; whole_too && i < ROWS * COLS; i++)
        want[i] += 7;
    CHECK_OK(ctx, fv_backward(ctx, loss));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), got, sizeof got));
    if (memcmp(want, got, sizeof got) != 0) test_failed(__FILE__, __LINE__, "slices: %s", name);
    fv_ctx_destroy(&ctx);
}

#define SLICES(name, whole, ...)                                                                   \
    check_slices(name, (int)(sizeof((use[]){__VA_ARGS__}) / sizeof(use)), (use[]){__VA_ARGS__},    \
                 whole)

static void slices_of_one_tensor(void)
{
    for (int whole = 0; whole < 2; whole++) {
        SLICES("all covered", whole, {1, 0, 4, 1, 2, NONE}, {1, 4, 5, 1, 3, NONE},
               {1, 5, 10, 1, 4, NONE});
        SLICES("out of order", whole, {1, 5, 10, 1, 4, NONE}, {1, 0, 4, 1, 2, NONE},
               {1, 4, 5, 1, 3, NONE});
        SLICES("gaps", whole, {1, 1, 3, 1, 2, NONE}, {1, 6, 9, 1, 3, NONE});
        SLICES("one in the middle", whole, {1, 3, 4, 1, 5, NONE});
        SLICES("the same twice", whole, {1, 2, 6, 1, 2, NONE}, {1, 2, 6, 1, 3, NONE});
        SLICES("overlap", whole, {1, 0, 6, 1, 2, NONE}, {1, 4, 10, 1, 3, NONE});
        SLICES("inside another", whole, {1, 0, 9, 1, 2, NONE}, {1, 4, 5, 1, 3, NONE});
        SLICES("two axes", whole, {1, 0, 6, 1, 2, NONE}, {0, 1, 2, 1, 3, NONE});
        SLICES("two axes, other numbers", whole, {1, 4, 6, 1, 2, NONE}, {0, 1, 2, 1, 3, NONE});
        SLICES("rows", whole, {0, 0, 1, 1, 2, NONE}, {0, 2, 3, 1, 3, NONE});
        SLICES("steps", whole, {1, 0, 10, 3, 2, NONE}, {1, 1, 10, 3, 3, NONE});
        SLICES("everything", whole, {1, 0, 10, 1, 2, NONE}, {0, 0, 3, 1, 3, NONE});
        SLICES("nothing", whole, {1, 4, 4, 1, 2, NONE}, {1, 0, 2, 1, 3, NONE});
        SLICES("retained", whole, {1, 0, 4, 1, 2, RETAINED}, {1, 4, 10, 1, 3, NONE});
        SLICES("transposed", whole, {1, 0, 4, 1, 2, TRANSPOSED}, {1, 4, 10, 1, 3, NONE});
        SLICES("many", whole, {1, 0, 1, 1, 1, NONE}, {1, 1, 2, 1, 2, NONE}, {1, 2, 3, 1, 3, NONE},
               {1, 3, 4, 1, 4, NONE}, {1, 4, 5, 1, 5, NONE}, {1, 5, 6, 1, 6, NONE},
               {1, 6, 7, 1, 7, NONE}, {1, 7, 8, 1, 8, NONE}, {1, 8, 9, 1, 9, NONE},
               {1, 9, 10, 1, 10, NONE});
    }
}

/* A split costs one copy for each part and no fill. */
static void splits_are_not_filled(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F32, 2, (int64_t[]){ROWS, COLS}, 1));
    fv_tensor *part[3];
    fv_split(ctx, fv_scale(ctx, x, 2), 1, 3, (int64_t[]){3, 3, 4}, part);
    fv_tensor *y = fv_add(ctx, total(ctx, fv_exp(ctx, part[0])), total(ctx, fv_exp(ctx, part[1])));
    y = fv_add(ctx, y, total(ctx, fv_exp(ctx, part[2])));
    count_from_here(ctx);
    CHECK_OK(ctx, fv_backward(ctx, y));
    count_to_here(ctx);
    CHECK_EQ(launches[FV_KERNEL_COPY], 3);
    CHECK_EQ(copied, ROWS * COLS + 1); /* and the ones that backward starts from */
    fv_ctx_destroy(&ctx);
}

/* ---- q, k and v of one projection --------------------------------------------------------- */

typedef struct heads {
    int64_t batch, n, heads, kv_heads, d;
    fv_dtype dtype;
    bool varlen;
    bool shared_keys; /* k is v too */
    bool twice;       /* two calls use the same q, k and v */
} heads;

static fv_tensor *attend_once(fv_ctx *ctx, const heads *s, fv_tensor *const *in,
                              const fv_attention_rule *rule, const fv_attend_extra *extra)
{
    fv_tensor *o = fv_attend(ctx, in[0], in[1], in[2], rule, extra, NULL);
    const int64_t shape[3] = {s->batch, s->n, s->heads * s->d};
    return fv_cast(ctx, fv_reshape(ctx, fv_transpose(ctx, o, 1, 2), 3, shape), FV_F32);
}

/* The gradients of x and of the projection's weight, after each other. */
static void projection_grads(const heads *s, bool retained, float *got, int64_t floats)
{
    fv_ctx *ctx = make();
    const int64_t q = s->heads * s->d, kv = s->kv_heads * s->d, width = 6;
    const int64_t sizes[3] = {q, kv, kv}, all = q + 2 * kv;
    fv_tensor *x = fv_leaf(ctx, tensor_random(ctx, 1, 3, (int)s->batch, (int)s->n, (int)width));
    fv_tensor *w = fv_leaf(ctx, tensor_random(ctx, 2, 2, (int)all, (int)width));
    fv_tensor *y = fv_cast(
        ctx, fv_linear(ctx, fv_cast(ctx, x, FV_F32), fv_cast(ctx, w, FV_F32), NULL), s->dtype);
    fv_tensor *part[3], *in[3];
    fv_split(ctx, y, -1, 3, sizes, part);
    for (int i = 0; i < 3; i++) {
        const int64_t h = i ? s->kv_heads : s->heads;
        in[i] = fv_reshape(ctx, part[i], 4, (int64_t[]){s->batch, s->n, h, s->d});
        in[i] = fv_transpose(ctx, in[i], 1, 2);
        if (retained) fv_retain(ctx, in[i]);
    }
    if (s->shared_keys) in[2] = in[1];
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.causal = FV_CAUSAL_TOP_LEFT;
    fv_attend_extra extra = {.bias = NULL};
    if (s->varlen)
        extra.q_begin = extra.k_begin =
            fv_from_host(ctx, FV_I64, 1, (int64_t[]){4}, (int64_t[]){0, 2, 2, s->n});
    fv_tensor *o = attend_once(ctx, s, in, &rule, &extra);
    rule.causal = FV_CAUSAL_NONE;
    if (s->twice) o = fv_add(ctx, o, fv_scale(ctx, attend_once(ctx, s, in, &rule, &extra), 0.5));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_mul(ctx, o, o))));
    /* A view that is passed over ends like any other result. */
    for (int i = 0; i < 2; i++)
        CHECK(retained ? fv_grad(ctx, in[i]) != NULL : (in[i]->flags & FV_TENSOR_RELEASED) != 0);
    const int64_t first = s->batch * s->n * width;
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_cast(ctx, fv_grad(ctx, x), FV_F32), got,
                                 (size_t)first * sizeof *got));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_cast(ctx, fv_grad(ctx, w), FV_F32), got + first,
                                 (size_t)(floats - first) * sizeof *got));
    fv_ctx_destroy(&ctx);
}

/* Equal but for a few roundings, relative to the largest number. */
static bool same(const float *x, const float *y, int64_t n, double rounding)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)y[i]));
        worst = test_worse(worst, fabs((double)x[i] - (double)y[i]));
    }
    return largest > 0 && worst <= 4 * rounding * largest;
}

static void gradients_in_place(void)
{
    static const fv_dtype types[] = {FV_F32, FV_BF16, FV_F16, FV_F64};
    static const double rounding[] = {0x1p-24, 0x1p-8, 0x1p-11, 0x1p-24};
    for (int t = 0; t < 4; t++)
        for (int bits = 0; bits < 16; bits++) {
            const bool varlen = bits & 1;
            const heads s = {.batch = varlen ? 1 : 2,
                             .n = 7,
                             .heads = 4,
                             .kv_heads = bits & 2 ? 2 : 4,
                             .d = 3,
                             .dtype = types[t],
                             .varlen = varlen,
                             .shared_keys = bits & 4,
                             .twice = bits & 8};
            const int64_t floats = s.batch * s.n * 6 + (s.heads + 2 * s.kv_heads) * s.d * 6;
            float placed[1024], copies[1024];
            projection_grads(&s, false, placed, floats);
            projection_grads(&s, true, copies, floats);
            /* Four sums into one gradient come in another order. */
            const double off = s.shared_keys && s.twice ? rounding[t] : 0;
            if (!same(placed, copies, floats, off))
                test_failed(__FILE__, __LINE__, "%s, setting %d: other gradients in place",
                            fv_dtype_name(s.dtype), bits);
        }
}

/* ---- other ways to q, k and v --------------------------------------------------------------- */

/* What a call of attention reads, as views of y [2, LONG, 24]: more queries than the kernels take
 * at a time. */
enum { LONG = 120 };

typedef enum route {
    FIVE_AXES,     /* [b, n, 3, h, d], of which axis 2 is sliced: a slice of a view */
    SAME_ROWS,     /* q, k and v are three views of the same elements */
    COLUMNS_FIRST, /* rows are not contiguous */
    ROUTES
} route;

static void route_inputs(fv_ctx *ctx, route r, fv_tensor *y, bool retained, fv_tensor **in)
{
    for (int i = 0; i < 3; i++) {
        fv_tensor *t = y;
        if (r == FIVE_AXES) {
            t = fv_reshape(ctx, y, 5, (int64_t[]){2, LONG, 3, 2, 4});
            t = fv_squeeze(ctx, fv_slice(ctx, t, 2, i, i + 1, 1), 2);
            t = fv_transpose(ctx, t, 1, 2);
        } else if (r == SAME_ROWS) {
            t = fv_transpose(ctx, fv_reshape(ctx, y, 4, (int64_t[]){2, LONG, 2, 12}), 1, 2);
        } else {
            t = fv_slice(ctx, y, 2, 8 * i, 8 * i + 8, 1);
            t = fv_reshape(ctx, t, 4, (int64_t[]){2, LONG, 2, 4});
            t = fv_permute(ctx, t, (int[]){0, 1, 3, 2});
        }
        if (retained) fv_retain(ctx, t);
        in[i] = t;
    }
}

static void route_grad(route r, bool retained, bool twice, float *got)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_cast(ctx, tensor_random(ctx, 3, 3, 2, LONG, 24), FV_F32));
    fv_tensor *in[3];
    route_inputs(ctx, r, fv_scale(ctx, x, 1.5), retained, in);
    fv_tensor *o = fv_attend(ctx, in[0], in[1], in[2], NULL, NULL, NULL);
    if (twice) o = fv_add(ctx, o, fv_attend(ctx, in[0], in[1], in[2], NULL, NULL, NULL));
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_mul(ctx, o, o))));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), got, 2 * LONG * 24 * sizeof *got));
    fv_ctx_destroy(&ctx);
}

static void other_routes(void)
{
    for (int r = 0; r < ROUTES; r++)
        for (int twice = 0; twice < 2; twice++) {
            static float placed[2 * LONG * 24], copies[2 * LONG * 24];
            route_grad((route)r, false, twice, placed);
            route_grad((route)r, true, twice, copies);
            if (!same(placed, copies, 2 * LONG * 24, 4 * 0x1p-24))
                test_failed(__FILE__, __LINE__, "route %d, %d calls: other gradients in place", r,
                            twice + 1);
        }
}

/* Slices of a result whose memory is in another order: attention's o. */
static void slices_of_strided_memory(void)
{
    float got[2][2 * 3 * 4 * 5];
    for (int contiguous = 0; contiguous < 2; contiguous++) {
        fv_ctx *ctx = make();
        fv_tensor *v = fv_leaf(ctx, fv_cast(ctx, tensor_random(ctx, 4, 4, 2, 3, 4, 5), FV_F32));
        fv_tensor *o = fv_attend(ctx, fv_detach(ctx, v), fv_detach(ctx, v), v, NULL, NULL, NULL);
        if (contiguous) o = fv_contiguous(ctx, o);
        fv_tensor *a = fv_slice(ctx, o, 2, 1, 3, 1), *b = fv_slice(ctx, o, 2, 3, 4, 1);
        CHECK_OK(ctx, fv_backward(ctx, fv_add(ctx, total(ctx, fv_mul(ctx, a, a)),
                                              total(ctx, fv_exp(ctx, b)))));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, v), got[contiguous], sizeof got[0]));
        fv_ctx_destroy(&ctx);
    }
    CHECK(same(got[0], got[1], 2 * 3 * 4 * 5, 0));
}

/* A gradient that two tensors share is not added to. */
static void shared_gradients_stay(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F64, 1, (int64_t[]){4}, 1));
    fv_tensor *z = fv_leaf(ctx, fv_full(ctx, FV_F64, 1, (int64_t[]){4}, 1));
    fv_tensor *a = fv_scale(ctx, x, 1), *b = fv_scale(ctx, z, 1);
    fv_tensor *part = total(ctx, fv_scale(ctx, fv_slice(ctx, a, 0, 1, 3, 1), 10));
    fv_tensor *all = total(ctx, fv_scale(ctx, fv_add(ctx, a, b), 2));
    CHECK_OK(ctx, fv_backward(ctx, fv_add(ctx, part, all)));
    double got[2][4];
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, x), got[0], sizeof got[0]));
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, z), got[1], sizeof got[1]));
    for (int i = 0; i < 4; i++)
        CHECK(got[0][i] == (i == 1 || i == 2 ? 12 : 2) && got[1][i] == 2);
    fv_ctx_destroy(&ctx);
}

/* A slice of everything is no reason to pass over a view that a caller retains. */
static void retained_views_get_gradients(void)
{
    fv_ctx *ctx = make();
    fv_tensor *x = fv_leaf(ctx, fv_full(ctx, FV_F64, 2, (int64_t[]){2, 3}, 1));
    fv_tensor *t = fv_transpose(ctx, fv_scale(ctx, x, 2), 0, 1);
    fv_retain(ctx, t);
    CHECK_OK(ctx, fv_backward(ctx, total(ctx, fv_slice(ctx, t, 0, 0, 3, 1))));
    CHECK(fv_grad(ctx, t) != NULL);
    fv_ctx_destroy(&ctx);
}

/* A gradient of o that repeats one number has strides of zero. */
static void repeated_gradients(void)
{
    float got[2][6];
    for (int dense = 0; dense < 2; dense++) {
        fv_ctx *ctx = make();
        fv_tensor *v = fv_leaf(ctx, fv_cast(ctx, tensor_random(ctx, 5, 4, 1, 2, 3, 1), FV_F32));
        fv_tensor *o = fv_attend(ctx, fv_detach(ctx, v), fv_detach(ctx, v), v, NULL, NULL, NULL);
        fv_tensor *g =
            fv_broadcast(ctx, fv_full(ctx, FV_F32, 0, NULL, 0.75), 4, (int64_t[]){1, 2, 3, 1});
        CHECK_OK(ctx, fv_backward_from(ctx, o, dense ? fv_contiguous(ctx, g) : g));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, v), got[dense], sizeof got[0]));
        fv_ctx_destroy(&ctx);
    }
    CHECK(same(got[0], got[1], 6, 0));
}

/* ---- a block of GPT-2 ---------------------------------------------------------------------- */

static void a_block_makes_no_dense_copies(void)
{
    bench b = bench_new();
    fv_ctx *ctx = b.ctx;
    fv_block_config cfg;
    fv_block_config_init(&cfg, sizeof cfg, 24, 3);
    cfg.self.fused_qkv = true;
    cfg.self.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    cfg.ff.act = FV_ACT_GELU_TANH;
    fv_block block;
    CHECK_OK(ctx, fv_block_create(b.params, "b", &cfg, &block));
    fv_tensor *x = fv_leaf(ctx, tensor_random(ctx, 1, 3, 2, 5, 24));
    count_from_here(ctx);
    fv_tensor *y = fv_block_run(ctx, &block, &(fv_block_input){.x = x, .training = true}, NULL);
    CHECK_EQ(launches[FV_KERNEL_COPY] + launches[FV_KERNEL_FILL], 0);
    CHECK_EQ(launches[FV_KERNEL_GEMM], 4);
    CHECK_EQ(launches[FV_KERNEL_UNARY], 1); /* GELU, so that backward keeps its argument alone */
    CHECK_EQ(launches[FV_KERNEL_BINARY], 0);
    fv_tensor *loss = total(ctx, y);
    CHECK_OK(ctx, fv_backward(ctx, loss));
    count_to_here(ctx);
    CHECK_EQ(launches[FV_KERNEL_GEMM], 12); /* dx and dW of each; bias gradients come with dW */
    CHECK_EQ(launches[FV_KERNEL_ATTENTION_GRAD], 1);
    CHECK_EQ(launches[FV_KERNEL_UNARY_GRAD], 1);
    CHECK_EQ(launches[FV_KERNEL_REDUCE], 1); /* the loss */
    CHECK_EQ(launches[FV_KERNEL_COPY], 0);
    CHECK_EQ(launches[FV_KERNEL_FILL], 1); /* the one that backward starts from */
    bench_free(&b);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(slices_of_one_tensor);
    RUN(splits_are_not_filled);
    RUN(gradients_in_place);
    RUN(other_routes);
    RUN(slices_of_strided_memory);
    RUN(shared_gradients_stay);
    RUN(retained_views_get_gradients);
    RUN(repeated_gradients);
    RUN(a_block_makes_no_dense_copies);
    return TEST_END();
}
