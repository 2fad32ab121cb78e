/* The guarded device: its wall holds, its launches are late, and a training run on it has the same
 * bits as on the CPU. (tests/test_bits.c runs every op on it.) */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fovea/autograd.h"
#include "fovea/optim.h"
#include "kernels/elementwise.h"
#include "kernels/optim.h"
#include "support/failing.h"
#include "support/opcase.h"

/* Runs fn(ctx) in a child; returns the signal that ended it, or 0. */
static int signal_of(void (*fn)(fv_ctx *))
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL); /* past any sanitizer's handler */
        signal(SIGBUS, SIG_DFL);
        fv_ctx *ctx = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_GUARDED);
        fn(ctx);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void peek(fv_ctx *ctx)
{
    fv_tensor *t = fv_full(ctx, FV_F32, 0, NULL, 1.0);
    volatile float x = *(volatile float *)(void *)t->data; /* what host code must never do */
    (void)x;
}

static void poke(fv_ctx *ctx)
{
    fv_tensor *t = fv_full(ctx, FV_F32, 0, NULL, 1.0);
    *(volatile float *)(void *)t->data = 2.0f;
}

static void obey(fv_ctx *ctx)
{
    float x = 0;
    fv_tensor *t = fv_full(ctx, FV_F32, 0, NULL, 1.0);
    if (fv_tensor_read(ctx, t, &x, sizeof x) != FV_OK || x != 1.0f) raise(SIGABRT);
}

static void the_wall_holds(void)
{
    CHECK_EQ(signal_of(obey), 0);
    CHECK_EQ(signal_of(peek), SIGSEGV);
    CHECK_EQ(signal_of(poke), SIGSEGV);
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    CHECK(fv_tensor_data(fv_full(ctx, FV_F32, 0, NULL, 1.0)) == NULL);
    fv_ctx_destroy(&ctx);
}

/* What a device can be asked, and that its answers are those that tensors get. */
static void traits_are_true(void)
{
    for (int kind = FV_DEVICE_CPU; kind <= FV_DEVICE_GUARDED; kind++) {
        fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, (fv_device_kind)kind);
        const fv_device_ops *ops = ctx->device->ops;
        CHECK_STR(ops->name, fv_device_name((fv_device_kind)kind));
        CHECK_EQ(ops->traits.host_readable, kind == FV_DEVICE_CPU);
        CHECK(ops->traits.bits_like_cpu); /* tests/test_bits.c */
        CHECK(!ops->traits.wants_bf16);
        for (int form = 0; form < FV_WEIGHT_FORM_COUNT; form++) {
            const size_t bytes = ops->packed_bytes(ctx->device, (fv_weight_form)form, 19, 37);
            CHECK_EQ(bytes % 64, 0);
            fv_tensor *w = fv_full(ctx, FV_F32, 2, (int64_t[]){37, 19}, 1.0);
            CHECK_OK(ctx, fv_linear_pack_in_place(ctx, w, (fv_weight_form)form));
            CHECK_EQ((size_t)w->packed->count * sizeof(float), bytes);
        }
        CHECK_EQ(ops->packed_bytes(ctx->device, FV_WEIGHT_F32, INT64_MAX, 8), SIZE_MAX);
        fv_ctx_destroy(&ctx);
    }
}

/* Copies and fills carry the type they write; one that is launched as another type is refused. */
static void types_of_launches_are_checked(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_device *dev = ctx->device;
    fv_tensor *t = fv_full(ctx, FV_I32, 1, (int64_t[]){4}, 3.0);
    fv_elementwise_args args = {
        .to = FV_I32, .from = FV_I32, .rank = 1, .shape = {4}, .stride = {{1}, {1}}};
    void *ptr[2] = {t->data, t->data};
    CHECK_EQ(dev->ops->launch(dev, FV_KERNEL_COPY, FV_F32, ptr, &args, sizeof args),
             FV_ERR_INTERNAL);
    CHECK(strstr(fv_ctx_message(ctx), "copy: launched as f32 for a tensor of i32"));
    CHECK_EQ(dev->ops->launch(dev, FV_KERNEL_FILL, FV_F32, ptr, &args, sizeof args),
             FV_ERR_INTERNAL);
    CHECK_EQ(dev->ops->launch(dev, FV_KERNEL_COPY, FV_I32, ptr, &args, sizeof args), FV_OK);
    CHECK_EQ(dev->ops->launch(dev, FV_KERNEL_FILL, FV_I32, ptr, &args, sizeof args), FV_OK);
    CHECK_OK(ctx, dev->ops->sync(dev));
    fv_ctx_destroy(&ctx);
}

static void host_pointers_are_refused(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    float host[4] = {1, 2, 3, 4};
    fv_tensor *t = fv_zeros(ctx, FV_F32, 1, (int64_t[]){4});
    fv_elementwise_args args = {.op = FV_UNARY_NEG, .rank = 1, .shape = {4}, .stride = {{1}, {1}}};
    fv_launch(ctx, FV_KERNEL_UNARY, FV_F32, (void *[]){t->data, host}, &args, sizeof args);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INTERNAL);
    CHECK(strstr(fv_ctx_message(ctx), "pointer 1") != NULL);
    fv_wrap(ctx, FV_F32, 1, (int64_t[]){4}, NULL, host);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_UNSUPPORTED);
    fv_ctx_destroy(&ctx);
}

/* An op returns before its kernel has run: a bad index is reported only at the next wait. */
static void launches_are_late(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_tensor *table = fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 2});
    fv_tensor *index = fv_full(ctx, FV_I64, 1, (int64_t[]){1}, 9);
    fv_tensor *y = fv_embedding(ctx, table, index, -1);
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    float out[2];
    CHECK_EQ(fv_tensor_read(ctx, y, out, sizeof out), FV_ERR_INDEX);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
    CHECK(strstr(fv_ctx_message(ctx), "index 9 is outside 0..2") != NULL);
    fv_ctx_destroy(&ctx);
}

/* Device memory counts as the context's and stays under its cap. */
static void the_byte_cap_holds(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = FV_DEVICE_GUARDED;
    cfg.threads = 1;
    cfg.memory_limit = 8 << 20;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    int64_t n = 1 << 20;
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    fv_tensor *t = fv_zeros(ctx, FV_F32, 1, &n);
    fv_ctx_memory(ctx, &after);
    CHECK(after.used_bytes >= before.used_bytes + 4 * (uint64_t)n);
    fv_zeros(ctx, FV_F32, 1, &n);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_MEMORY);
    fv_tensor_free(ctx, &t);
    CHECK(fv_tensor_valid(fv_zeros(ctx, FV_F32, 1, &n)));
    fv_ctx_destroy(&ctx);
}

/* Freed memory is handed out again while old work is still queued: the order must keep it right. */
static void reuse_keeps_the_order(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_GUARDED);
    int64_t n = 1000;
    double sum = 0;
    fv_tensor *total = fv_zeros(ctx, FV_F64, 0, NULL);
    for (int i = 0; i < 300; i++) {
        fv_scope_begin(ctx);
        fv_tensor *x = fv_full(ctx, FV_F64, 1, &n, (double)i);
        fv_add_into(ctx, total, fv_mean(ctx, fv_affine(ctx, x, 2.0, 1.0), 0, NULL, false));
        fv_scope_end(ctx);
        sum += 2.0 * i + 1.0;
    }
    double got = 0;
    CHECK_OK(ctx, fv_tensor_item(ctx, total, &got));
    CHECK_NEAR(got, sum, 1e-9);
    fv_ctx_destroy(&ctx);
}

/* Adds the squares of x to total: a kernel whose scratch grows with x. */
static void add_squares(fv_ctx *ctx, fv_tensor *total, fv_tensor *x)
{
    fv_optim_args args = {.n = fv_tensor_count(x)};
    fv_launch(ctx, FV_KERNEL_SUMSQ, FV_F32, (void *[]){total->data, x->data}, &args, sizeof args);
}

/* Scratch that cannot grow for one launch is still there for those queued before it. */
static void queued_work_keeps_its_scratch(void)
{
    failing_allocator f = {.fail_at = -1};
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = FV_DEVICE_GUARDED;
    cfg.memory_uncached = true;
    cfg.allocator = failing_allocator_table(&f);
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_tensor *total = fv_zeros(ctx, FV_F64, 0, NULL);
    fv_tensor *small = fv_full(ctx, FV_F32, 1, (int64_t[]){9}, 2.0);
    fv_tensor *large = fv_full(ctx, FV_F32, 1, (int64_t[]){1000000}, 2.0);
    add_squares(ctx, total, small);
    f.fail_at = f.requests;
    add_squares(ctx, total, large);
    CHECK_EQ(f.failures, 1);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_MEMORY);
    double sum = 0;
    CHECK_OK(ctx, fv_tensor_item(ctx, total, &sum));
    CHECK_NEAR(sum, 36.0, 0);
    fv_ctx_destroy(&ctx);
    CHECK_EQ(f.live, 0);
}

/* Twenty steps of a small attention network; its weights come back in `out`. */
enum { D = 16, N = 12, STEPS = 20 };

static void train(fv_device_kind device, float out[3 * D * D], double *loss_out)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 2, device);
    fv_params *params = NULL;
    fv_optim *optim = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    int64_t square[] = {D, D};
    fv_tensor *w[3];
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        w[i] = fv_params_add(params, names[i], fv_rand_normal(ctx, FV_F32, 2, square, 0, 0.3));
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAMW);
    cfg.clip_norm = 1.0;
    CHECK_OK(ctx, fv_optim_create(params, &cfg, &optim));
    for (int step = 0; step < STEPS; step++) {
        fv_ctx_set_step(ctx, (uint64_t)step, 0);
        fv_scope_begin(ctx);
        fv_tensor *x = fv_rand_normal(ctx, FV_F32, 3, (int64_t[]){4, N, D}, 0, 1);
        fv_tensor *q = fv_linear(ctx, x, w[0], NULL), *k = fv_linear(ctx, x, w[1], NULL);
        fv_tensor *a = fv_softmax(
            ctx, fv_scale(ctx, fv_matmul(ctx, q, fv_transpose(ctx, k, -1, -2)), 0.25), -1);
        fv_tensor *y = fv_matmul(ctx, fv_dropout(ctx, a, 0.1), fv_linear(ctx, x, w[2], NULL));
        fv_tensor *loss = fv_mse(ctx, y, fv_roll(ctx, x, 1, 1));
        CHECK_OK(ctx, fv_backward(ctx, loss));
        CHECK_OK(ctx, fv_optim_step(optim, 1e-2, NULL));
        if (step == STEPS - 1) CHECK_OK(ctx, fv_tensor_item(ctx, loss, loss_out));
        fv_scope_end(ctx);
    }
    for (int i = 0; i < 3; i++)
        CHECK_OK(ctx, fv_tensor_read(ctx, w[i], out + i * D * D, D * D * sizeof *out));
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static void training_has_the_same_bits(void)
{
    static float cpu[3 * D * D], guarded[3 * D * D];
    double loss_cpu = 0, loss_guarded = 1;
    train(FV_DEVICE_CPU, cpu, &loss_cpu);
    train(FV_DEVICE_GUARDED, guarded, &loss_guarded);
    CHECK(loss_cpu == loss_guarded);
    CHECK(memcmp(cpu, guarded, sizeof cpu) == 0);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(the_wall_holds);
    RUN(traits_are_true);
    RUN(types_of_launches_are_checked);
    RUN(host_pointers_are_refused);
    RUN(launches_are_late);
    RUN(the_byte_cap_holds);
    RUN(reuse_keeps_the_order);
    RUN(queued_work_keeps_its_scratch);
    RUN(training_has_the_same_bits);
    return TEST_END();
}
