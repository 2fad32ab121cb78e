#include "support/training.h"

#include <math.h>
#include <string.h>

#include "fovea/ops.h"

enum { EXAMPLES = 48, PART = 4, PARTS = 3, INPUT = 6, HIDDEN = 10 };

static bool make(tiny_task *t, int threads, volatile int *cancel, const fv_io *io,
                 fv_device_kind device)
{
    *t = (tiny_task){.poison_from = UINT64_MAX,
                     .cancel_at = UINT64_MAX,
                     .cancel = cancel,
                     .worse_from = INFINITY};
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = threads;
    cfg.seed = 7;
    cfg.cancel = cancel;
    cfg.device = device;
    if (io) cfg.io = *io;
    if (fv_ctx_create(&cfg, &t->ctx) != FV_OK) return false;
    if (fv_params_create(t->ctx, &t->params) != FV_OK) return false;
    const int64_t w1[] = {HIDDEN, INPUT}, b1[] = {HIDDEN}, w2[] = {1, HIDDEN};
    t->w1 = fv_params_add(t->params, "w1", fv_rand_normal(t->ctx, FV_F32, 2, w1, 0, 0.4));
    t->b1 = fv_params_add(t->params, "b1", fv_zeros(t->ctx, FV_F32, 1, b1));
    t->w2 = fv_params_add(t->params, "w2", fv_rand_normal(t->ctx, FV_F32, 2, w2, 0, 0.4));
    return fv_ctx_error(t->ctx) == FV_OK;
}

bool tiny_make(tiny_task *t, int threads, volatile int *cancel, const fv_io *io)
{
    return make(t, threads, cancel, io, FV_DEVICE_CPU);
}

bool tiny_make_guarded(tiny_task *t, int threads, volatile int *cancel)
{
    return make(t, threads, cancel, NULL, FV_DEVICE_GUARDED);
}

void tiny_free(tiny_task *t)
{
    fv_params_destroy(&t->params);
    fv_ctx_destroy(&t->ctx);
}

/* Example i of an epoch's order: a permutation that differs by epoch. */
static int64_t example(int64_t epoch, int64_t i)
{
    static const int64_t steps[] = {5, 7, 11, 13, 17, 19, 23, 25};
    return (i * steps[epoch % 8] + epoch * 3) % EXAMPLES;
}

static double input_of(int64_t i, int64_t c) { return sin((double)(i * INPUT + c) * 1.7); }

static double target_of(int64_t i)
{
    return sin(3 * input_of(i, 0)) + input_of(i, 1) * input_of(i, 2);
}

static fv_status begin(void *user, uint64_t step, int phase, fv_step_plan *plan)
{
    (void)phase;
    tiny_task *t = user;
    t->step = step;
    t->first = t->next;
    t->next += PART * PARTS;
    plan->epoch = (double)t->epoch + (double)t->first / EXAMPLES;
    if (t->next >= EXAMPLES) {
        t->next = 0;
        t->epoch++;
    }
    plan->parts = PARTS;
    plan->tokens = PART * PARTS;
    return FV_OK;
}

static fv_tensor *predict(tiny_task *t, int64_t epoch, int64_t first, int64_t n, bool training,
                          fv_tensor **target)
{
    fv_ctx *ctx = t->ctx;
    float x[EXAMPLES * INPUT], y[EXAMPLES];
    for (int64_t i = 0; i < n; i++) {
        const int64_t which = example(epoch, first + i);
        for (int64_t c = 0; c < INPUT; c++)
            x[i * INPUT + c] = (float)input_of(which, c);
        y[i] = (float)target_of(which);
    }
    *target = fv_from_host(ctx, FV_F32, 2, (int64_t[]){n, 1}, y);
    fv_tensor *h =
        fv_linear(ctx, fv_from_host(ctx, FV_F32, 2, (int64_t[]){n, INPUT}, x), t->w1, t->b1);
    h = fv_tanh(ctx, h);
    if (training) h = fv_dropout(ctx, h, 0.2);
    return fv_linear(ctx, h, t->w2, NULL);
}

static fv_tensor *loss(void *user, fv_ctx *ctx, int phase, int64_t part)
{
    (void)phase;
    tiny_task *t = user;
    fv_tensor *target = NULL;
    const int64_t epoch = t->first + PART * PARTS >= EXAMPLES ? t->epoch - 1 : t->epoch;
    if (part == 1 && t->step == t->cancel_at && t->cancel) *t->cancel = 1;
    fv_tensor *y = predict(t, epoch, t->first + part * PART, PART, true, &target);
    fv_tensor *sum = fv_sum(ctx, fv_square(ctx, fv_sub(ctx, y, target)), 0, NULL, false);
    const bool poisoned = t->step >= t->poison_from && t->step - t->poison_from < t->poison_steps;
    return poisoned ? fv_scale(ctx, sum, INFINITY) : sum;
}

static fv_status evaluate(void *user, fv_metric *metrics, int *count)
{
    tiny_task *t = user;
    fv_tensor *target = NULL;
    fv_tensor *y = predict(t, 0, 0, EXAMPLES, false, &target);
    *count = 1;
    metrics[0] = (fv_metric){.name = "loss"};
    fv_status status = fv_tensor_item(t->ctx, fv_mse(t->ctx, y, target), &metrics[0].value);
    if ((double)t->step > t->worse_from) metrics[0].value = (double)t->step;
    return status;
}

static void get_position(void *user, int64_t position[FV_POSITION])
{
    const tiny_task *t = user;
    position[0] = t->epoch;
    position[1] = t->next;
}

static fv_status set_position(void *user, const int64_t position[FV_POSITION])
{
    tiny_task *t = user;
    t->epoch = position[0];
    t->next = position[1];
    return FV_OK;
}

fv_task tiny_table(tiny_task *t)
{
    return (fv_task){.user = t,
                     .begin = begin,
                     .loss = loss,
                     .evaluate = evaluate,
                     .get_position = get_position,
                     .set_position = set_position};
}

void tiny_config(fv_train_config *cfg, const char *folder, uint64_t steps)
{
    fv_train_config_init(cfg, sizeof *cfg);
    cfg->folder = folder;
    cfg->steps = steps;
    cfg->optim.clip_norm = 0.5;
    cfg->schedule =
        (fv_schedule){.kind = FV_SCHEDULE_COSINE, .lr = 0.02, .warmup = 10, .total = 200};
    cfg->eval_every = 20;
    cfg->save_every = 10;
    cfg->log_every = 5;
}

fv_status tiny_run(tiny_task *t, const fv_train_config *cfg)
{
    const fv_task task = tiny_table(t);
    fv_trainer *trainer = NULL;
    fv_status status = fv_trainer_create(t->params, &task, cfg, &trainer);
    if (status == FV_OK) status = fv_trainer_resume(trainer);
    if (status == FV_OK) status = fv_trainer_run(trainer);
    fv_trainer_destroy(&trainer);
    return status;
}

size_t tiny_weights(tiny_task *t, float *out, size_t room)
{
    size_t n = 0;
    for (int i = 0; i < fv_params_count(t->params); i++) {
        fv_tensor *w = fv_params_tensor(t->params, i);
        const size_t count = (size_t)fv_tensor_count(w);
        if (n + count > room || fv_tensor_read(t->ctx, w, out + n, count * sizeof *out) != FV_OK)
            return 0;
        n += count;
    }
    return n;
}
