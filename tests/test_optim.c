/* Optimizers against recorded PyTorch steps; schedules; clipping; skipped and failed steps. */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "support/test.h"

static fv_ctx *make(void)
{
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(NULL, &ctx) != FV_OK) test_failed(__FILE__, __LINE__, "no context");
    return ctx;
}

/* ---- against PyTorch --------------------------------------------------------------- */

typedef struct recorded {
    const char *name;
    fv_optim_kind kind;
    double lr, momentum, beta2, alpha, weight_decay;
} recorded;

/* Gives the parameter a gradient of exactly g. */
static void set_gradient(fv_ctx *ctx, fv_tensor *w, fv_tensor *g)
{
    fv_tensor *y = fv_affine(ctx, w, 1.0, 0.0);
    CHECK_OK(ctx, fv_backward_from(ctx, y, g));
}

static void follow(const recorded *r, fv_simd level, fv_dtype dtype)
{
    enum { N = 20 };
    fv_ctx_config ctx_cfg;
    fv_ctx_config_init(&ctx_cfg, sizeof ctx_cfg);
    ctx_cfg.simd = level;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&ctx_cfg, &ctx), FV_OK);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, test_path("fixtures/torch/optimizers.safetensors"),
                                      FV_SAFETENSORS_COPY, &file));
    fv_params *params = NULL;
    fv_optim *optim = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_tensor *w0 = fv_cast(ctx, fv_safetensors_load(ctx, file, "w0"), dtype);
    fv_tensor *w = fv_params_add(params, "w", fv_contiguous(ctx, w0));
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, r->kind);
    cfg.momentum = r->momentum;
    if (r->beta2 > 0) cfg.beta2 = r->beta2;
    if (r->alpha > 0) cfg.alpha = r->alpha;
    cfg.weight_decay = r->weight_decay;
    CHECK_OK(ctx, fv_optim_create(params, &cfg, &optim));
    for (int step = 0; step < 3; step++) {
        char name[32];
        float expected[N], got[N];
        snprintf(name, sizeof name, "g%d", step);
        set_gradient(ctx, w, fv_cast(ctx, fv_safetensors_load(ctx, file, name), dtype));
        CHECK_OK(ctx, fv_optim_step(optim, r->lr, NULL));
        CHECK(fv_grad(ctx, w) == NULL);
        snprintf(name, sizeof name, "%s.w%d", r->name, step + 1);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_safetensors_load(ctx, file, name), expected,
                                     sizeof expected));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_cast(ctx, w, FV_F32), got, sizeof got));
        for (int i = 0; i < N; i++)
            CHECK_NEAR(got[i], expected[i], 1e-6 * fabs(expected[i]) + 1e-7);
    }
    fv_optim_destroy(&optim);
    fv_params_destroy(&params);
    fv_safetensors_close(&file);
    fv_ctx_destroy(&ctx);
}

static void steps_equal_pytorch(void)
{
    static const recorded records[] = {
        {.name = "sgd_m09", .kind = FV_OPTIM_SGD, .lr = 0.1, .momentum = 0.9},
        {.name = "adam", .kind = FV_OPTIM_ADAM, .lr = 0.01, .beta2 = 0.98},
        {.name = "adamw", .kind = FV_OPTIM_ADAMW, .lr = 0.01, .weight_decay = 0.1},
        {.name = "rmsprop", .kind = FV_OPTIM_RMSPROP, .lr = 0.01, .alpha = 0.95, .momentum = 0.9},
        {.name = "adadelta", .kind = FV_OPTIM_ADADELTA, .lr = 1.0, .alpha = 0.95},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
            follow(&records[i], (fv_simd)level, FV_F32);
        follow(&records[i], FV_SIMD_SCALAR, FV_F64);
    }
}

/* ---- steps ------------------------------------------------------------------------- */

typedef struct toy {
    fv_ctx *ctx;
    fv_params *params;
    fv_optim *optim;
    fv_tensor *w;
} toy;

static toy toy_make(const fv_optim_config *cfg)
{
    toy t = {.ctx = make()};
    CHECK_OK(t.ctx, fv_params_create(t.ctx, &t.params));
    t.w = fv_params_add(t.params, "w", fv_full(t.ctx, FV_F32, 1, (int64_t[]){4}, 1.0));
    CHECK_OK(t.ctx, fv_optim_create(t.params, cfg, &t.optim));
    return t;
}

static void toy_free(toy *t)
{
    fv_optim_destroy(&t->optim);
    fv_params_destroy(&t->params);
    fv_ctx_destroy(&t->ctx);
}

static void toy_gradient(toy *t, float a, float b, float c, float d)
{
    float g[4] = {a, b, c, d};
    set_gradient(t->ctx, t->w, fv_from_host(t->ctx, FV_F32, 1, (int64_t[]){4}, g));
}

static float toy_first(toy *t)
{
    float w[4] = {NAN};
    CHECK_OK(t->ctx, fv_tensor_read(t->ctx, t->w, w, sizeof w));
    return w[0];
}

static fv_optim_config sgd(void)
{
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_SGD);
    return cfg;
}

static void long_gradients_are_clipped(void)
{
    fv_optim_config cfg = sgd();
    cfg.clip_norm = 1.0;
    toy t = toy_make(&cfg);
    fv_step_report report;
    toy_gradient(&t, 3, 0, 4, 0);
    CHECK_OK(t.ctx, fv_optim_step(t.optim, 1.0, &report));
    CHECK(report.clipped && !report.skipped);
    CHECK_NEAR(report.grad_norm, 5.0, 1e-12);
    CHECK_NEAR(toy_first(&t), 1.0 - 3.0 / 5.0, 1e-6);
    toy_gradient(&t, 0.3f, 0, 0.4f, 0);
    CHECK_OK(t.ctx, fv_optim_step(t.optim, 1.0, &report));
    CHECK(!report.clipped);
    toy_free(&t);
}

static void bad_gradients_skip_the_step(void)
{
    fv_optim_config cfg = sgd();
    cfg.max_skipped = 3;
    toy t = toy_make(&cfg);
    fv_step_report report;
    static const float bad[] = {INFINITY, NAN};
    for (int i = 0; i < 2; i++) {
        toy_gradient(&t, 1, 2, bad[i], 3);
        CHECK_OK(t.ctx, fv_optim_step(t.optim, 1.0, &report));
        CHECK(report.skipped);
        CHECK_EQ(report.skipped_total, i + 1);
        CHECK(toy_first(&t) == 1.0f);
        CHECK(fv_grad(t.ctx, t.w) == NULL);
    }
    CHECK_EQ(fv_optim_steps(t.optim), 0);
    toy_gradient(&t, 1, 1, 1, 1); /* a good one in between resets the run */
    CHECK_OK(t.ctx, fv_optim_step(t.optim, 0.5, &report));
    CHECK(toy_first(&t) == 0.5f);
    for (int i = 0; i < 3; i++) {
        toy_gradient(&t, NAN, 1, 1, 1);
        fv_status s = fv_optim_step(t.optim, 1.0, &report);
        CHECK_EQ(s, i < 2 ? FV_OK : FV_ERR_NONFINITE);
    }
    CHECK(toy_first(&t) == 0.5f);
    CHECK_EQ(report.skipped_total, 5);
    toy_free(&t);
}

static void a_failed_context_changes_nothing(void)
{
    fv_optim_config cfg = sgd();
    toy t = toy_make(&cfg);
    toy_gradient(&t, 1, 1, 1, 1);
    fv_add(t.ctx, t.w, fv_zeros(t.ctx, FV_F32, 1, (int64_t[]){3}));
    CHECK_EQ(fv_optim_step(t.optim, 1.0, NULL), FV_ERR_SHAPE);
    CHECK_EQ(fv_ctx_take_error(t.ctx), FV_ERR_SHAPE);
    CHECK(toy_first(&t) == 1.0f);
    CHECK_EQ(fv_optim_step(t.optim, NAN, NULL), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_optim_step(t.optim, -1.0, NULL), FV_ERR_ARGUMENT);
    CHECK(toy_first(&t) == 1.0f);
    CHECK_OK(t.ctx, fv_optim_step(t.optim, 1.0, NULL)); /* the gradient is still there */
    CHECK(toy_first(&t) == 0.0f);
    fv_params_add(t.params, "late", fv_zeros(t.ctx, FV_F32, 0, NULL));
    CHECK_EQ(fv_optim_step(t.optim, 1.0, NULL), FV_ERR_STATE);
    toy_free(&t);
}

static void parameters_are_named_once(void)
{
    fv_ctx *ctx = make();
    fv_params *params = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_scope_begin(ctx);
    fv_tensor *a = fv_params_add(params, "a", fv_full(ctx, FV_F64, 1, (int64_t[]){3}, 2.0));
    fv_scope_end(ctx);
    CHECK(fv_params_find(params, "a") == a); /* out of its scope */
    CHECK(fv_params_find(params, "b") == NULL);
    CHECK_EQ(fv_params_elements(params), 3);
    CHECK_STR(fv_params_name(params, 0), "a");
    fv_params_add(params, "a", fv_zeros(ctx, FV_F32, 0, NULL));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_params_add(params, "", fv_zeros(ctx, FV_F32, 0, NULL));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_params_add(params, "i", fv_zeros(ctx, FV_I64, 0, NULL));
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_params_add(params, "alias", a); /* would be stepped twice */
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_params_count(params), 1);
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        fv_params_add(params, name, fv_zeros(ctx, FV_F32, 0, NULL));
    }
    CHECK_EQ(fv_params_count(params), 41);
    fv_params_destroy(&params);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static void state_has_names(void)
{
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_ADAM);
    toy t = toy_make(&cfg);
    char name[300];
    CHECK_EQ(fv_optim_state_count(t.optim), 2);
    CHECK_EQ(fv_tensor_count(fv_optim_state(t.optim, 0, name)), 4);
    CHECK_STR(name, "w.exp_avg");
    fv_optim_state(t.optim, 1, name);
    CHECK_STR(name, "w.exp_avg_sq");
    CHECK(!fv_tensor_valid(fv_optim_state(t.optim, 2, name)));
    toy_free(&t);
    cfg.beta1 = 1.0;
    toy u = {.ctx = make()};
    CHECK_OK(u.ctx, fv_params_create(u.ctx, &u.params));
    CHECK_EQ(fv_optim_create(u.params, &cfg, &u.optim), FV_ERR_ARGUMENT);
    toy_free(&u);
}

/* ---- schedules --------------------------------------------------------------------- */

static void schedules_follow_their_formulas(void)
{
    fv_schedule s = {.kind = FV_SCHEDULE_CONSTANT, .lr = 2.0};
    CHECK_NEAR(fv_schedule_at(&s, 0), 2.0, 0);
    CHECK_NEAR(fv_schedule_at(&s, 1000000), 2.0, 0);
    s.warmup = 4;
    CHECK_NEAR(fv_schedule_at(&s, 0), 0.5, 1e-15);
    CHECK_NEAR(fv_schedule_at(&s, 3), 2.0, 1e-15);

    s = (fv_schedule){.kind = FV_SCHEDULE_STEP, .lr = 1.0, .every = 10, .gamma = 0.1};
    CHECK_NEAR(fv_schedule_at(&s, 9), 1.0, 1e-15);
    CHECK_NEAR(fv_schedule_at(&s, 10), 0.1, 1e-15);
    CHECK_NEAR(fv_schedule_at(&s, 25), 0.01, 1e-15);

    s = (fv_schedule){.kind = FV_SCHEDULE_LINEAR, .lr = 1.0, .floor = 0.2, .total = 101};
    CHECK_NEAR(fv_schedule_at(&s, 0), 1.0, 1e-15);
    CHECK_NEAR(fv_schedule_at(&s, 50), 0.6, 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 100), 0.2, 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 5000), 0.2, 1e-12);

    s = (fv_schedule){
        .kind = FV_SCHEDULE_COSINE, .lr = 1.0, .floor = 0.0, .total = 111, .warmup = 10};
    CHECK_NEAR(fv_schedule_at(&s, 10), 1.0, 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 60), 0.5, 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 110), 0.0, 1e-12);

    s = (fv_schedule){.kind = FV_SCHEDULE_INVERSE_SQRT, .lr = 1.0, .warmup = 100};
    CHECK_NEAR(fv_schedule_at(&s, 99), 1.0, 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 100), sqrt(100.0 / 101.0), 1e-12);
    CHECK_NEAR(fv_schedule_at(&s, 399), 0.5, 1e-12);
}

/* Decay that is for matrices pulls them and leaves biases and gains alone. */
static void decay_can_spare_vectors(void)
{
    fv_ctx *ctx = make();
    for (int spare = 0; spare < 2; spare++) {
        fv_params *params = NULL;
        fv_optim *optim = NULL;
        fv_optim_config cfg;
        fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_SGD);
        cfg.weight_decay = 0.5;
        cfg.decay_matrices = spare == 1;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        fv_tensor *gain = fv_params_add(params, "gain", fv_full(ctx, FV_F32, 1, (int64_t[]){1}, 2));
        fv_tensor *matrix =
            fv_params_add(params, "matrix", fv_full(ctx, FV_F32, 2, (int64_t[]){1, 1}, 2));
        CHECK_OK(ctx, fv_optim_create(params, &cfg, &optim));
        set_gradient(ctx, gain, fv_full(ctx, FV_F32, 1, (int64_t[]){1}, 1));
        set_gradient(ctx, matrix, fv_full(ctx, FV_F32, 2, (int64_t[]){1, 1}, 1));
        CHECK_OK(ctx, fv_optim_step(optim, 0.1, NULL));
        double a = 0, b = 0;
        CHECK_OK(ctx, fv_tensor_item(ctx, gain, &a));
        CHECK_OK(ctx, fv_tensor_item(ctx, matrix, &b));
        CHECK_NEAR(a, spare ? 2 - 0.1 : 2 - 0.1 * (1 + 0.5 * 2), 1e-6);
        CHECK_NEAR(b, 2 - 0.1 * (1 + 0.5 * 2), 1e-6);
        fv_optim_destroy(&optim);
        fv_params_destroy(&params);
    }
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(steps_equal_pytorch);
    RUN(long_gradients_are_clipped);
    RUN(bad_gradients_skip_the_step);
    RUN(a_failed_context_changes_nothing);
    RUN(parameters_are_named_once);
    RUN(state_has_names);
    RUN(schedules_follow_their_formulas);
    RUN(decay_can_spare_vectors);
    return TEST_END();
}
