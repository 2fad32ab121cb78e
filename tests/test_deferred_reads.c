/* Reads that arrive later, and the gate of optimizer steps: what a step decides on the device is
 * what the host would have decided, and a closed gate changes nothing. */
#include "device/guarded.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/kernels.h"
#include "support/opcase.h"
#include "tensor/later.h"
#include "train/optim.h"

/* ---- tickets ------------------------------------------------------------------------ */

static fv_tensor *number(fv_ctx *ctx, double value)
{
    return fv_full(ctx, FV_F64, 1, (int64_t[]){1}, value);
}

/* A kernel with an index outside its table. */
static void raise_fault(fv_ctx *ctx, int64_t index)
{
    fv_tensor *table = fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 2});
    fv_embedding(ctx, table, fv_full(ctx, FV_I64, 1, (int64_t[]){1}, (double)index), -1);
}

static void the_cpu_delivers_at_once(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_tensor *t = number(ctx, 3);
    fv_later later = {0};
    double got = 0;
    bool done = false;
    CHECK(fv_later_is_none(&later));
    CHECK_OK(ctx, fv_later_begin(ctx, t, &later));
    CHECK(!fv_later_is_none(&later));
    fv_fill(ctx, t, 4); /* too late to be seen */
    CHECK_OK(ctx, fv_later_end(ctx, &later, false, &got, sizeof got, &done));
    CHECK(done && got == 3 && fv_later_is_none(&later));
    fv_ctx_destroy(&ctx);
}

static void the_guarded_device_delivers_when_asked(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_tensor *t = number(ctx, 3);
    fv_later later = {0};
    double got = 0;
    bool done = true;
    CHECK_OK(ctx, fv_later_begin(ctx, t, &later));
    for (int i = 0; i < 1000; i++) /* more than the queue holds: it has run without a wait */
        fv_fill(ctx, t, 4);
    CHECK_OK(ctx, fv_later_end(ctx, &later, false, &got, sizeof got, &done));
    CHECK(!done && got == 0);
    CHECK_OK(ctx, fv_later_end(ctx, &later, true, &got, sizeof got, &done));
    CHECK(done && got == 3);
    fv_ctx_destroy(&ctx);
}

/* Delays differ, follow the seed, and end by themselves. */
static void delays_are_drawn(void)
{
    enum { READS = 20, MOST = 30 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_tensor *t = number(ctx, 1);
    int launches[2][READS], distinct = 0;
    for (int round = 0; round < 2; round++) {
        fv_guarded_set_delays(ctx->device, 5, MOST);
        for (int i = 0; i < READS; i++) {
            fv_later later = {0};
            bool done = false;
            double got = 0;
            CHECK_OK(ctx, fv_later_begin(ctx, t, &later));
            for (launches[round][i] = 0; !done && launches[round][i] <= MOST + 1;) {
                CHECK_OK(ctx, fv_later_end(ctx, &later, false, &got, sizeof got, &done));
                if (done) break;
                fv_fill(ctx, t, 1);
                launches[round][i]++;
            }
            CHECK(done && got == 1);
            CHECK(launches[round][i] <= MOST);
            distinct += i > 0 && launches[round][i] != launches[round][0];
        }
    }
    CHECK(memcmp(launches[0], launches[1], sizeof launches[0]) == 0);
    CHECK(distinct > READS);
    fv_ctx_destroy(&ctx);
}

static void a_fault_comes_with_its_own_read(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_tensor *t = number(ctx, 7);
    fv_later before = {0}, after = {0};
    double got = 0;
    bool done = false;
    CHECK_OK(ctx, fv_later_begin(ctx, t, &before));
    raise_fault(ctx, 9);
    CHECK_OK(ctx, fv_later_begin(ctx, t, &after));
    CHECK_OK(ctx, fv_later_end(ctx, &before, true, &got, sizeof got, &done)); /* not its fault */
    CHECK(done && got == 7);
    CHECK_EQ(fv_later_end(ctx, &after, true, &got, sizeof got, &done), FV_ERR_INDEX);
    CHECK(done && fv_later_is_none(&after));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
    CHECK(strstr(fv_ctx_message(ctx), "index 9 is outside 0..2") != NULL);
    /* A fault that was reported by another read is not reported twice, and a new one is. */
    raise_fault(ctx, 8);
    CHECK_OK(ctx, fv_later_begin(ctx, t, &after));
    CHECK_EQ(fv_tensor_read(ctx, t, &got, sizeof got), FV_ERR_INDEX);
    fv_ctx_take_error(ctx);
    raise_fault(ctx, 6);
    CHECK_OK(ctx, fv_later_end(ctx, &after, true, &got, sizeof got, &done));
    CHECK_EQ(fv_tensor_read(ctx, t, &got, sizeof got), FV_ERR_INDEX);
    fv_ctx_take_error(ctx);
    fv_ctx_destroy(&ctx);
}

static void bad_reads_are_refused(fv_device_kind device)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, device);
    fv_tensor *t = number(ctx, 1);
    fv_tensor *large = fv_zeros(ctx, FV_F64, 1, (int64_t[]){FV_READ_BYTES / 8 + 1});
    fv_tensor *square = fv_zeros(ctx, FV_F64, 2, (int64_t[]){2, 2});
    fv_later later[FV_READ_SLOTS] = {{0}}, extra = {0};
    double got = 0;
    bool done = false;
    CHECK_EQ(fv_later_begin(ctx, large, &extra), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_later_begin(ctx, fv_transpose(ctx, square, 0, 1), &extra), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_later_end(ctx, &extra, true, &got, sizeof got, &done), FV_ERR_ARGUMENT);
    for (int i = 0; i < FV_READ_SLOTS; i++)
        CHECK_OK(ctx, fv_later_begin(ctx, t, &later[i]));
    CHECK_EQ(fv_later_begin(ctx, t, &extra), FV_ERR_STATE);
    CHECK_EQ(fv_later_end(ctx, &later[0], true, &got, sizeof got - 1, &done), FV_ERR_ARGUMENT);
    const fv_ticket used = later[3].ticket;
    fv_later_drop(ctx, &later[3]);
    CHECK_EQ(ctx->device->ops->read_done(ctx->device, used, true, &got, &done), FV_ERR_ARGUMENT);
    CHECK_EQ(ctx->device->ops->read_done(ctx->device, 99, true, &got, &done), FV_ERR_ARGUMENT);
    CHECK_OK(ctx, fv_later_begin(ctx, t, &extra)); /* its slot is free again */
    fv_ctx_destroy(&ctx);                          /* with reads under way */
}

static void mistakes_are_refused(void)
{
    bad_reads_are_refused(FV_DEVICE_CPU);
    bad_reads_are_refused(FV_DEVICE_GUARDED);
}

static void waits_are_counted(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_GUARDED);
    fv_tensor *t = number(ctx, 1);
    fv_later later = {0};
    double got;
    bool done;
    const uint64_t before = fv_guarded_waits(ctx->device);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, &got, sizeof got));
    CHECK_EQ(fv_guarded_waits(ctx->device) - before, 1);
    CHECK_OK(ctx, fv_later_begin(ctx, t, &later));
    CHECK_OK(ctx, fv_later_end(ctx, &later, false, &got, sizeof got, &done));
    CHECK_OK(ctx, fv_later_end(ctx, &later, true, &got, sizeof got, &done));
    CHECK_EQ(fv_guarded_waits(ctx->device) - before, 2);
    CHECK_OK(ctx, ctx->device->ops->sync(ctx->device));
    CHECK_EQ(fv_guarded_waits(ctx->device) - before, 3);
    fv_ctx_destroy(&ctx);
}

/* ---- the gate ------------------------------------------------------------------------ */

static fv_step_block gate(double loss, double sumsq, double clip_norm, bool unchecked)
{
    fv_step_block block = {.loss = loss, .sumsq = sumsq};
    const fv_step_gate_args args = {.clip_norm = clip_norm, .unchecked = unchecked};
    kernel_run(FV_KERNEL_STEP_GATE, FV_F64, PTRS(&block), &args);
    return block;
}

/* The device divides and takes roots as the host does, bit for bit. */
static void the_clip_factor_is_the_hosts(void)
{
    for (int i = 0; i < 200; i++) {
        const double sumsq = pow(1.37, i - 100), clip = 0.1 * (i % 17);
        const double norm = sqrt(sumsq);
        const fv_step_block b = gate(1, sumsq, clip, false);
        CHECK(b.norm == norm && b.open == 1 && b.fault == 0);
        CHECK(b.scale == (clip > 0 && norm > clip ? clip / norm : 1));
    }
}

static void what_closes_the_gate(void)
{
    static const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        CHECK(gate(bad[i], 4, 0, false).open == 0);
        CHECK(gate(1, bad[i], 1, false).open == 0);
        CHECK(gate(bad[i], 4, 0, true).open == 1);
        CHECK(gate(1, bad[i], 0, true).open == 1);
    }
    CHECK(gate(-INFINITY, 4, 0, false).open == 0);
    CHECK(gate(1, 4, 0, false).open == 1);
}

/* ---- optimizers ---------------------------------------------------------------------- */

enum { SIZE = 321, VALUES = 3 * SIZE }; /* weights and two states */

typedef struct model {
    fv_ctx *ctx;
    fv_params *params;
    fv_optim *optim;
    fv_tensor *w;
} model;

static model model_make(fv_optim_kind kind, fv_simd level, fv_device_kind device, bool unchecked)
{
    model m = {.ctx = op_context(level, 1, device)};
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, kind);
    cfg.momentum = 0.9;
    cfg.weight_decay = 0.1;
    cfg.unchecked = unchecked;
    CHECK_OK(m.ctx, fv_params_create(m.ctx, &m.params));
    m.w = fv_params_add(m.params, "w", fv_rand_normal(m.ctx, FV_F32, 1, (int64_t[]){SIZE}, 0, 1));
    CHECK_OK(m.ctx, fv_optim_create(m.params, &cfg, &m.optim));
    return m;
}

static void model_free(model *m)
{
    fv_optim_destroy(&m->optim);
    fv_params_destroy(&m->params);
    fv_ctx_destroy(&m->ctx);
}

static void give_gradient(model *m, double value)
{
    fv_tensor *y = fv_affine(m->ctx, m->w, 1.0, 0.0);
    fv_tensor *g = fv_full(m->ctx, FV_F32, 1, (int64_t[]){SIZE}, value);
    CHECK_OK(m->ctx, fv_backward_from(m->ctx, y, g));
}

static void model_read(model *m, float out[VALUES])
{
    char name[300];
    memset(out, 0, VALUES * sizeof *out);
    CHECK_OK(m->ctx, fv_tensor_read(m->ctx, m->w, out, SIZE * sizeof *out));
    for (int i = 0; i < fv_optim_state_count(m->optim); i++)
        CHECK_OK(m->ctx, fv_tensor_read(m->ctx, fv_optim_state(m->optim, i, name),
                                        out + (1 + i) * SIZE, SIZE * sizeof *out));
}

static bool unchanged(model *m, const float before[VALUES])
{
    float after[VALUES];
    model_read(m, after);
    return memcmp(before, after, sizeof after) == 0;
}

/* A step that must not be made, in each way that a step can be stopped. */
static void check_gate(fv_optim_kind kind, fv_simd level, fv_device_kind device)
{
    model m = model_make(kind, level, device, false);
    fv_step_report report;
    float before[VALUES];
    for (int i = 0; i < 2; i++) {
        give_gradient(&m, 0.5);
        CHECK_OK(m.ctx, fv_optim_step(m.optim, 0.1, NULL));
    }
    model_read(&m, before);
    give_gradient(&m, NAN);
    CHECK_OK(m.ctx, fv_optim_step(m.optim, 0.1, &report));
    CHECK(report.skipped && isnan(report.grad_norm) && unchanged(&m, before));
    give_gradient(&m, 0.5);
    raise_fault(m.ctx, 5);
    CHECK_EQ(fv_optim_step(m.optim, 0.1, &report), FV_ERR_INDEX);
    CHECK_EQ(fv_ctx_take_error(m.ctx), FV_ERR_INDEX);
    CHECK(unchanged(&m, before));
    CHECK_EQ(fv_optim_steps(m.optim), 2);
    /* The gradient is still there, and the next step is an ordinary one. */
    CHECK_OK(m.ctx, fv_optim_step(m.optim, 0.1, &report));
    CHECK(!report.skipped && !unchanged(&m, before));
    CHECK_EQ(fv_optim_steps(m.optim), 3);
    model_free(&m);
}

static void closed_gates_change_nothing(void)
{
    for (int kind = 0; kind < FV_OPTIM_COUNT; kind++)
        for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
            check_gate((fv_optim_kind)kind, (fv_simd)level, FV_DEVICE_CPU);
            check_gate((fv_optim_kind)kind, (fv_simd)level, FV_DEVICE_GUARDED);
        }
}

/* Unchecked steps wait for nothing; a fault before them still stops them. */
static void a_fault_stops_unchecked_steps(void)
{
    model m = model_make(FV_OPTIM_ADAM, FV_SIMD_AUTO, FV_DEVICE_GUARDED, true);
    float before[VALUES];
    fv_step_report report;
    model_read(&m, before);
    const uint64_t waits = fv_guarded_waits(m.ctx->device);
    raise_fault(m.ctx, 5);
    give_gradient(&m, 1);
    CHECK_OK(m.ctx, fv_optim_step(m.optim, 0.1, &report));
    CHECK_EQ(fv_guarded_waits(m.ctx->device), waits);
    CHECK(isnan(report.grad_norm) && !report.skipped);
    CHECK_EQ(m.ctx->device->ops->sync(m.ctx->device), FV_ERR_INDEX);
    fv_ctx_take_error(m.ctx);
    CHECK(unchanged(&m, before));
    give_gradient(&m, 1);
    CHECK_OK(m.ctx, fv_optim_step(m.optim, 0.1, NULL));
    CHECK(!unchanged(&m, before));
    model_free(&m);
}

/* The two halves of a step: the loss counts, and a step is settled before the next. */
static void a_bad_loss_closes_the_gate(void)
{
    model m = model_make(FV_OPTIM_ADAMW, FV_SIMD_AUTO, FV_DEVICE_GUARDED, false);
    fv_tensor *block = NULL, *all = fv_step_blocks_create(m.ctx, 1, &block);
    float before[VALUES];
    fv_step_block record;
    fv_step_report report;
    model_read(&m, before);
    static const double losses[] = {0.25, INFINITY};
    for (int i = 1; i >= 0; i--) {
        fv_step_block_clear(m.ctx, block);
        for (int part = 0; part < 3; part++)
            fv_step_block_add_loss(m.ctx, block, fv_scalar(m.ctx, FV_F32, losses[i] + 0.1 * part));
        give_gradient(&m, 1);
        CHECK_OK(m.ctx, fv_optim_launch(m.optim, 0.1, block));
        CHECK_EQ(fv_optim_launch(m.optim, 0.1, block), FV_ERR_STATE); /* not settled */
        CHECK_OK(m.ctx, fv_tensor_read(m.ctx, block, &record, sizeof record));
        CHECK(record.open == (i == 0));
        CHECK_OK(m.ctx, fv_optim_settle(m.optim, &record, &report));
        CHECK_EQ(report.skipped, i == 1);
        CHECK_EQ(unchanged(&m, before), i == 1);
        fv_params_zero_grad(m.params);
    }
    double sum = 0; /* as the host would add them */
    for (int part = 0; part < 3; part++)
        sum += (double)(float)(0.25 + 0.1 * part);
    CHECK(record.loss == sum);
    fv_step_block_add_loss(m.ctx, block, m.w);
    CHECK_EQ(fv_ctx_take_error(m.ctx), FV_ERR_SHAPE);
    fv_tensor_unref(block);
    fv_tensor_unref(all);
    model_free(&m);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    kernel_level(FV_SIMD_SCALAR);
    RUN(the_cpu_delivers_at_once);
    RUN(the_guarded_device_delivers_when_asked);
    RUN(delays_are_drawn);
    RUN(a_fault_comes_with_its_own_read);
    RUN(mistakes_are_refused);
    RUN(waits_are_counted);
    RUN(the_clip_factor_is_the_hosts);
    RUN(what_closes_the_gate);
    RUN(closed_gates_change_nothing);
    RUN(a_fault_stops_unchecked_steps);
    RUN(a_bad_loss_closes_the_gate);
    return TEST_END();
}
