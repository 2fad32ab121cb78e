/* A generative adversarial network on points of a circle, small enough to cancel at every call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/own_kinds.h"

enum { NOISE = 3, AXES = 2, HIDDEN = 4, ROWS = 4, PARTS = 2, DISCRIMINATOR = 0, GENERATOR = 1 };

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct gan {
    fv_ctx *ctx;
    fv_tensor *g_w, *g_b, *d_w, *d_out;
    fv_tensor *spectral; /* [1, HIDDEN]: the left singular vector of d_w, by power iteration */
    fv_tensor *mean;     /* a running mean of g_b */
    fv_tensor *count;    /* i64 [1]: updates of the generator */
} gan;

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    (void)recipe;
    fv_ctx *ctx = fv_params_ctx(params);
    gan *m = calloc(1, sizeof *m);
    if (!m) return FV_ERR_MEMORY;
    const int64_t axes = fv_data_spec_get(spec, "axes", 0);
    const int64_t g[] = {axes, NOISE}, d[] = {HIDDEN, axes}, out[] = {1, HIDDEN};
    m->ctx = ctx;
    m->g_w = fv_params_add(params, "generator.w", fv_rand_normal(ctx, FV_F32, 2, g, 0, 0.5));
    m->g_b = fv_params_add(params, "generator.b", fv_zeros(ctx, FV_F32, 1, &axes));
    m->d_w = fv_params_add(params, "discriminator.w", fv_rand_normal(ctx, FV_F32, 2, d, 0, 0.5));
    m->d_out =
        fv_params_add(params, "discriminator.out", fv_rand_normal(ctx, FV_F32, 2, out, 0, 0.5));
    m->spectral =
        fv_params_add_buffer(params, "discriminator.u", fv_full(ctx, FV_F32, 2, out, 0.5));
    m->mean = fv_params_add_buffer(params, "generator.mean", fv_zeros(ctx, FV_F32, 1, &axes));
    m->count = fv_params_add_buffer(params, "count", fv_zeros(ctx, FV_I64, 1, (int64_t[]){1}));
    *self = m;
    return fv_ctx_error(ctx);
}

static fv_tensor *draw(fv_ctx *ctx, void *self, int64_t rows, const fv_batch *conditions)
{
    (void)conditions;
    gan *m = self;
    fv_tensor *noise = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){rows, NOISE}, 0, 1);
    return fv_linear(ctx, noise, m->g_w, m->g_b);
}

/* How real points look, [rows, 1]: the first matrix is divided by its largest singular value. */
static fv_tensor *score(gan *m, fv_tensor *points)
{
    fv_ctx *ctx = m->ctx;
    fv_tensor *size = fv_norm(ctx, fv_matmul(ctx, m->spectral, m->d_w), 0, NULL, false);
    fv_tensor *h = fv_linear(ctx, points, fv_div(ctx, m->d_w, size), NULL);
    return fv_linear(ctx, fv_leaky_relu(ctx, h, 0.2), m->d_out, NULL);
}

/* dst = src; both f32 of the same size. */
static fv_status assign(fv_ctx *ctx, fv_tensor *dst, fv_tensor *src)
{
    float values[HIDDEN];
    const size_t bytes = (size_t)fv_tensor_count(dst) * sizeof *values;
    fv_status status = fv_tensor_read(ctx, src, values, bytes);
    return status == FV_OK ? fv_tensor_write(ctx, dst, values, bytes) : status;
}

static fv_status step_done(void *self, uint64_t step, int phase)
{
    (void)step;
    gan *m = self;
    fv_ctx *ctx = m->ctx;
    own_called();
    own_check_recording(ctx, m->d_w);
    if (phase == DISCRIMINATOR) {
        fv_tensor *v = fv_unit(ctx, fv_matmul(ctx, m->spectral, m->d_w));
        return assign(ctx, m->spectral,
                      fv_unit(ctx, fv_matmul(ctx, v, fv_transpose(ctx, m->d_w, 0, 1))));
    }
    int64_t count = 0;
    fv_status status = fv_tensor_read(ctx, m->count, &count, sizeof count);
    count++;
    if (status == FV_OK) status = fv_tensor_write(ctx, m->count, &count, sizeof count);
    if (status != FV_OK) return status;
    return assign(ctx, m->mean,
                  fv_add(ctx, fv_scale(ctx, m->mean, 0.9), fv_scale(ctx, m->g_b, 0.1)));
}

static const fv_model_kind kind = {.struct_size = sizeof kind,
                                   .name = "toy-gan",
                                   .summary = "two networks that train each other",
                                   .abilities = 1u << FV_CAN_DRAW,
                                   .create = create,
                                   .destroy = free,
                                   .draw = draw,
                                   .step_done = step_done};

/* ---- the task ------------------------------------------------------------------------------- */

typedef struct circle {
    fv_ctx *ctx;
    int64_t next;                /* example */
    float points[ROWS][AXES];    /* of a batch */
    const void *row[ROWS];       /* of it */
    double smoothed;             /* saved in addition to weights; changes only in `end` */
    double sums[2], end_sums[2]; /* of the parameters of each group */
} circle;

static fv_status open_task(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    circle *t = calloc(1, sizeof *t);
    if (!t) return FV_ERR_MEMORY;
    t->ctx = cfg->ctx;
    t->next = 1;
    spec->ability = FV_CAN_DRAW;
    *self = t;
    return fv_data_spec_set(spec, "axes", AXES) ? FV_OK : FV_ERR_LIMIT;
}

/* A cancel flag that is set here stops the run before its first step. */
static fv_status prepare(void *self, fv_model *model)
{
    (void)self;
    (void)model;
    own_called();
    return FV_OK;
}

static const char *group(void *self, int phase)
{
    (void)self;
    return phase == DISCRIMINATOR ? "discriminator." : "generator.";
}

static void optimizer(void *self, int phase, fv_optim_config *optim, fv_schedule *schedule)
{
    (void)self;
    optim->beta1 = phase == DISCRIMINATOR ? 0.5 : 0.7;
    optim->beta2 = 0.9;
    if (phase == GENERATOR) schedule->lr *= 0.5;
}

/* A number that differs when any parameter of a group does. */
static void group_sums(fv_model *model, double sums[2])
{
    const fv_params *params = fv_model_params(model);
    for (int phase = 0; phase < 2; phase++) {
        sums[phase] = 0;
        for (int i = 0; i < fv_params_count(params); i++) {
            float values[16] = {0};
            const fv_tensor *w = fv_params_tensor(params, i);
            const char *prefix = group(NULL, phase);
            if (fv_params_is_buffer(params, i) ||
                strncmp(fv_params_name(params, i), prefix, strlen(prefix)) != 0)
                continue;
            if (fv_tensor_read(fv_model_ctx(model), w, values,
                               (size_t)fv_tensor_count(w) * sizeof *values) != FV_OK)
                return;
            for (int k = 0; k < 16; k++)
                sums[phase] += (double)values[k] * sin(k + 2.0 * i);
        }
    }
}

static fv_status begin(void *self, fv_model *model, uint64_t step, int phase, fv_step_plan *plan)
{
    circle *t = self;
    own_called();
    own_check_recording(t->ctx, fv_params_tensor(fv_model_params(model), 0));
    group_sums(model, t->sums);
    plan->parts = phase == DISCRIMINATOR ? PARTS : 1;
    plan->tokens = (double)(ROWS * plan->parts);
    plan->epoch = (double)step;
    return FV_OK;
}

static fv_status batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                       fv_batch *out)
{
    (void)step;
    (void)part;
    circle *t = self;
    own_called();
    own_check_recording(t->ctx, fv_params_tensor(fv_model_params(model), 0));
    fv_batch_init(out, ROWS);
    if (phase == GENERATOR) return FV_OK; /* it generates its points */
    for (int i = 0; i < ROWS; i++, t->next++) {
        t->points[i][0] = (float)cos((double)t->next);
        t->points[i][1] = (float)sin((double)t->next);
        t->row[i] = t->points[i];
    }
    fv_batch_add(
        out,
        (fv_field){.name = "points", .dtype = FV_F32, .rank = 1, .shape = {AXES}, .row = t->row});
    return FV_OK;
}

/* The sum over rows of -log p(answer). */
static fv_tensor *cross_entropy(fv_ctx *ctx, fv_tensor *logits, double answer)
{
    fv_tensor *target = fv_full(ctx, FV_F32, 2, (int64_t[]){ROWS, 1}, answer);
    return fv_scale(ctx, fv_bce_logits(ctx, logits, target), ROWS);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, fv_model *model, int phase, const fv_batch *data,
                       const fv_pass *pass)
{
    (void)self;
    (void)pass;
    gan *m = fv_model_self(model);
    own_called();
    fv_tensor *made = draw(ctx, m, ROWS, NULL), *sum;
    if (phase == GENERATOR) {
        sum = cross_entropy(ctx, score(m, made), 1);
    } else {
        fv_tensor *real = fv_batch_tensor(ctx, data, "points", NULL);
        sum = fv_add(ctx, cross_entropy(ctx, score(m, real), 1),
                     cross_entropy(ctx, score(m, fv_detach(ctx, made)), 0));
    }
    own_called();
    return sum;
}

static fv_status end(void *self, fv_model *model, uint64_t step, int phase)
{
    (void)step;
    circle *t = self;
    own_called();
    group_sums(model, t->end_sums);
    if (t->end_sums[phase] == t->sums[phase] || t->end_sums[!phase] != t->sums[!phase])
        own_calls.wrong_group++;
    t->smoothed = 0.9 * t->smoothed + t->end_sums[phase];
    return FV_OK;
}

/* How far drawn points are from the circle: an evaluation that draws. */
static fv_status evaluate(void *self, fv_model *model, fv_metric *metrics, int *count)
{
    (void)self;
    fv_ctx *ctx = fv_model_ctx(model);
    double distance = 0;
    own_called();
    fv_tensor *made = draw(ctx, fv_model_self(model), 8, NULL);
    fv_tensor *off = fv_affine(ctx, fv_norm(ctx, made, 1, (int[]){1}, false), 1, -1);
    const fv_status status =
        fv_tensor_item(ctx, fv_mean(ctx, fv_square(ctx, off), 0, NULL, false), &distance);
    fv_metric_add(metrics, count, "distance", distance, false);
    return status;
}

static void get_position(void *self, int64_t position[FV_TASK_POSITION])
{
    position[0] = ((circle *)self)->next;
}

static fv_status set_position(void *self, const int64_t position[FV_TASK_POSITION])
{
    ((circle *)self)->next = position[0];
    return FV_OK;
}

static fv_status get_state(void *self, fv_params *state)
{
    circle *t = self;
    own_called();
    fv_tensor *half = fv_scalar(t->ctx, FV_F64, t->smoothed / 2);
    fv_params_add_buffer(state, "smoothed", fv_add(t->ctx, half, half));
    return FV_OK;
}

static fv_status set_state(void *self, const fv_params *state)
{
    circle *t = self;
    fv_tensor *smoothed = fv_params_find(state, "smoothed");
    return smoothed ? fv_tensor_item(t->ctx, smoothed, &t->smoothed) : FV_ERR_FORMAT;
}

static const fv_task_kind task = {.struct_size = sizeof task,
                                  .name = "toy-circle",
                                  .summary = "points of a circle",
                                  .model = "toy-gan",
                                  .open = open_task,
                                  .prepare = prepare,
                                  .close = free,
                                  .phases = 2,
                                  .group = group,
                                  .optimizer = optimizer,
                                  .begin = begin,
                                  .batch = batch,
                                  .loss = loss,
                                  .end = end,
                                  .evaluate = evaluate,
                                  .get_position = get_position,
                                  .set_position = set_position,
                                  .get_state = get_state,
                                  .set_state = set_state};

const own_pair own_gan = {.kind = &kind, .task = &task, .steps = "4"};
