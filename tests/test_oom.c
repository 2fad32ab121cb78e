/*
 * Memory that runs out at every single request. Each scenario is run with request 0, 1, 2, ...
 * failing, once and forever, until it gets through untouched. Nothing may crash or leak, no failure
 * may go untold, and a context that has lost one request works again once the error is taken.
 *
 * Scenarios: every case of every op and compound forward and backward, contexts, parameters and
 * optimizers, checkpoints, every file format read and written, text, models, and pictures.
 */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/optim.h"
#include "support/compound.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/oom_files.h"
#include "support/oom_layers.h"
#include "support/oom_look.h"
#include "support/oom_models.h"
#include "support/oom_text.h"
#include "support/opcase.h"

/* Whether every call of the scenario succeeded. */
typedef bool (*scenario_fn)(fv_ctx *ctx, const void *user);

static struct {
    long scenarios, injections;
} totals;

static fv_status make_context(failing_allocator *f, fv_pool *pool, fv_device_kind device,
                              fv_ctx **out)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.allocator = failing_allocator_table(f);
    cfg.memory_uncached = true; /* every block is a request */
    cfg.pool = pool;
    cfg.device = device;
    return fv_ctx_create(&cfg, out);
}

/* One run with one failure; true when the scenario needed fewer requests than that. */
static bool injected(const char *name, fv_pool *pool, scenario_fn scenario, const void *user,
                     long fail_at, bool forever)
{
    failing_allocator f = {.fail_at = -1};
    fv_ctx *ctx = NULL;
    if (make_context(&f, pool, FV_DEVICE_CPU, &ctx) != FV_OK) {
        test_failed(__FILE__, __LINE__, "%s: no context", name);
        return true;
    }
    f.fail_at = f.requests + fail_at;
    f.forever = forever;
    bool worked = scenario(ctx, user);
    bool through = f.failures == 0;
    if (worked != through)
        test_failed(__FILE__, __LINE__, "%s: %s with request %ld %s: %s", name,
                    worked ? "says it worked" : "failed", fail_at,
                    through ? "not reached" : "refused", fv_ctx_message(ctx));
    if (!through) totals.injections++;
    if (!through && !forever) {
        fv_ctx_take_error(ctx);
        if (!scenario(ctx, user))
            test_failed(__FILE__, __LINE__, "%s: after a failure at %ld it fails again: %s", name,
                        fail_at, fv_ctx_message(ctx));
    }
    fv_ctx_destroy(&ctx);
    if (f.live != 0)
        test_failed(__FILE__, __LINE__, "%s: %ld blocks leaked with request %ld failing %s", name,
                    f.live, fail_at, forever ? "forever" : "once");
    return through;
}

static void everywhere(const char *name, fv_pool *pool, scenario_fn scenario, const void *user)
{
    enum { SAFETY = 20000 };
    totals.scenarios++;
    for (int forever = 0; forever < 2; forever++) {
        long n = 0;
        while (n < SAFETY && !injected(name, pool, scenario, user, n, forever))
            n++;
        CHECK(n < SAFETY);
    }
}

/* ---- ops -------------------------------------------------------------------------- */

typedef struct op_and_case {
    const fv_op_desc *desc;
    const fv_op_case *c;
} op_and_case;

/* The case's results and every gradient it should have. op_case_run takes the context's error, so
 * a lost gradient is how a failed backward shows. */
static bool op_scenario(fv_ctx *ctx, const void *user)
{
    const op_and_case *x = user;
    op_run_options o = {.dtype = FV_F32, .layout = OP_STRIDED, .quiet = true};
    op_result r;
    bool worked = op_case_run(ctx, x->desc, x->c, &o, &r) && !r.failed;
    for (int i = 0; worked && x->desc->backward && i < x->c->n_in; i++)
        worked = r.grad[i].present || !op_case_differentiates(x->c, i);
    op_result_free(&r);
    return worked;
}

static void every_op(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    for (int id = 0; id < FV_OP_COUNT; id++)
        for (int k = 0; k < fv_op_table[id]->n_cases; k++) {
            op_and_case x = {fv_op_table[id], &fv_op_table[id]->cases[k]};
            everywhere(x.desc->name, pool, op_scenario, &x);
        }
    fv_pool_destroy(&pool);
}

static void every_compound(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    for (int n = 0; n < compound_count; n++)
        for (int k = 0; k < compound_table[n]->n_cases; k++) {
            op_and_case x = {compound_table[n], &compound_table[n]->cases[k]};
            everywhere(x.c->name, pool, op_scenario, &x);
        }
    for (int i = 0; i < oom_layer_scenario_count; i++)
        everywhere(oom_layer_scenarios[i].name, pool, oom_layer_scenarios[i].run, NULL);
    fv_pool_destroy(&pool);
}

/* ---- contexts and training -------------------------------------------------------- */

static void contexts(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    for (int device = FV_DEVICE_CPU; device <= FV_DEVICE_GUARDED; device++)
        for (int forever = 0; forever < 2; forever++) {
            fv_ctx *ctx = NULL;
            totals.scenarios++;
            for (long n = 0; n < 100 && !ctx; n++) {
                failing_allocator f = {.fail_at = n, .forever = forever};
                fv_status status = make_context(&f, pool, (fv_device_kind)device, &ctx);
                CHECK((status == FV_OK) == (f.failures == 0));
                CHECK((status == FV_OK) == (ctx != NULL));
                if (ctx) {
                    fv_ctx_destroy(&ctx);
                    CHECK_EQ(f.live, 0);
                    break;
                }
                CHECK_EQ(status, FV_ERR_MEMORY);
                CHECK_EQ(f.live, 0);
                totals.injections++;
            }
        }
    fv_pool_destroy(&pool);
}

static fv_tensor *block(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    return fv_tanh(ctx, fv_linear(ctx, in[0], *(fv_tensor **)user, NULL));
}

static fv_tensor *attending(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)user;
    fv_tensor *x = fv_reshape(ctx, in[0], 4, (int64_t[]){1, 1, 4, 4});
    x = fv_attend(ctx, x, x, x, NULL, NULL, NULL);
    return fv_reshape(ctx, x, 2, (int64_t[]){4, 4});
}

/* Two steps of a small network, with a layer that is checkpointed and one that keeps attention. */
static bool training_scenario(fv_ctx *ctx, const void *user)
{
    const fv_optim_kind *kind = user;
    fv_params *params = NULL;
    fv_optim *optim = NULL;
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, *kind);
    cfg.momentum = 0.9;
    cfg.clip_norm = 1.0;
    fv_scope_begin(ctx);
    fv_status status = fv_params_create(ctx, &params);
    if (status == FV_OK) {
        int64_t shape[] = {4, 4};
        fv_tensor *w = fv_params_add(params, "w", fv_rand_normal(ctx, FV_F32, 2, shape, 0, 1));
        fv_tensor *v = fv_params_add(params, "v", fv_rand_normal(ctx, FV_F32, 2, shape, 0, 1));
        status = fv_optim_create(params, &cfg, &optim);
        for (int step = 0; step < 2 && status == FV_OK; step++) {
            fv_scope_begin(ctx);
            fv_tensor *x = fv_full(ctx, FV_F32, 2, shape, 0.5);
            fv_tensor *y = fv_checkpoint(ctx, block, &w, 1, &x);
            y = fv_checkpoint_keeping(ctx, attending, NULL, 1, &y, FV_CHECKPOINT_KEEP_ATTENTION);
            status = fv_backward(ctx, fv_mse(ctx, fv_linear(ctx, y, v, NULL), x));
            if (status == FV_OK) status = fv_optim_step(optim, 0.1, NULL);
            fv_scope_end(ctx);
        }
    }
    fv_optim_destroy(&optim);
    if (params) fv_params_destroy(&params);
    fv_scope_end(ctx);
    return status == FV_OK && fv_ctx_error(ctx) == FV_OK;
}

static void training(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(2, &pool), FV_OK);
    for (int kind = 0; kind < FV_OPTIM_COUNT; kind++) {
        fv_optim_kind k = (fv_optim_kind)kind;
        everywhere("training", pool, training_scenario, &k);
    }
    fv_pool_destroy(&pool);
}

/* ---- files ------------------------------------------------------------------------ */

static void files(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    for (int i = 0; i < oom_file_scenario_count; i++)
        everywhere(oom_file_scenarios[i].name, pool, oom_file_scenarios[i].run, NULL);
    for (int i = 0; i < oom_text_scenario_count; i++)
        everywhere(oom_text_scenarios[i].name, pool, oom_text_scenarios[i].run, NULL);
    fv_pool_destroy(&pool);
}

static void models(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    folder_make();
    for (int i = 0; i < oom_model_scenario_count; i++)
        everywhere(oom_model_scenarios[i].name, pool, oom_model_scenarios[i].run, NULL);
    folder_remove();
    fv_pool_destroy(&pool);
}

static void pictures(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(1, &pool), FV_OK);
    for (int i = 0; i < oom_look_scenario_count; i++)
        everywhere(oom_look_scenarios[i].name, pool, oom_look_scenarios[i].run, NULL);
    fv_pool_destroy(&pool);
}

static void enough(void)
{
    printf("scenarios: %ld x (once, forever), injected failures: %ld\n", totals.scenarios,
           totals.injections);
    CHECK(totals.scenarios >= 60);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(contexts);
    RUN(training);
    RUN(files);
    RUN(models);
    RUN(pictures);
    RUN(every_op);
    RUN(every_compound);
    if (argc == 1) RUN(enough);
    return TEST_END();
}
