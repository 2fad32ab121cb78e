#include "train/tasks/trials_rows.h"

#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/ctx.h"
#include "base/memory.h"
#include "fovea/ops.h"
#include "fovea/optim.h"

enum { FIELDS = 5, REALS = 3 };

/* ---- memory --------------------------------------------------------------------------------- */

static void *take(char **at, size_t count, size_t size)
{
    void *place = *at;
    *at += (count * size + 7) / 8 * 8;
    return place;
}

fv_status fv_trial_rows_create(fv_ctx *ctx, int64_t capacity, int64_t steps, int64_t inputs,
                               fv_trial_rows *out)
{
    const size_t trials = (size_t)capacity,
                 step = sizeof(int64_t) + (REALS + (size_t)inputs) * sizeof(float);
    size_t bytes = 0;
    *out = (fv_trial_rows){.ctx = ctx, .capacity = capacity, .steps = steps, .inputs = inputs};
    const bool fits =
        fv_checked_mul_size((size_t)steps, step, &bytes) &&
        fv_checked_add_size(bytes, sizeof(int64_t) + FIELDS * sizeof(void *), &bytes) &&
        fv_checked_mul_size(trials, bytes, &bytes) &&
        fv_checked_add_size(bytes, 8 * sizeof(int64_t), &bytes);
    char *at = fits ? fv_mem_zalloc(&ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!at, ctx, FV_ERR_MEMORY, "no memory for %lld trials", (long long)capacity);
    out->room = at;
    out->bytes = bytes;
    const size_t all = trials * (size_t)steps;
    out->action = take(&at, all, sizeof *out->action);
    out->length = take(&at, trials, sizeof *out->length);
    out->row = take(&at, FIELDS * trials, sizeof *out->row);
    out->observed = take(&at, all * (size_t)inputs, sizeof(float));
    out->log_p = take(&at, all, sizeof(float));
    out->advantage = take(&at, all, sizeof(float));
    out->target = take(&at, all, sizeof(float));
    for (int64_t i = 0; i < capacity; i++)
        out->length[i] = steps;
    return FV_OK;
}

void fv_trial_rows_free(fv_trial_rows *r)
{
    if (r->room) fv_mem_free(&r->ctx->mem, r->room, r->bytes);
    r->room = NULL;
}

/* ---- advantages ----------------------------------------------------------------------------- */

/* g of one trial, and its targets. */
static void add_up(fv_trial_rows *r, const fv_trials *played, int64_t trial,
                   const fv_advantage_rule *rule)
{
    const int64_t first = trial * r->steps;
    const float *rewards = rule->expected ? played->expected : played->reward;
    double g = 0, after = 0;
    for (int64_t t = r->steps; t-- > 0;) {
        const double value = (double)played->value[first + t],
                     reward = (double)rewards[first + t] / (double)r->steps;
        g = reward + rule->discount * after - value + rule->discount * rule->lambda * g;
        after = value;
        r->advantage[first + t] = (float)g;
        r->target[first + t] = (float)(g + value);
    }
}

/* Subtracts from each g_t the mean over the other trials of the problem. */
static void compare_runs(fv_trial_rows *r, int64_t first, int64_t runs)
{
    for (int64_t t = 0; t < r->steps; t++) {
        double sum = 0;
        for (int64_t i = first; i < first + runs; i++)
            sum += (double)r->advantage[i * r->steps + t];
        for (int64_t i = first; i < first + runs; i++) {
            float *g = &r->advantage[i * r->steps + t];
            *g = (float)(((double)runs * (double)*g - sum) / (double)(runs - 1));
        }
    }
}

void fv_trial_rows_fill(fv_trial_rows *r, const fv_trials *played, int64_t count,
                        const fv_advantage_rule *rule)
{
    const int64_t n = count * r->steps;
    double squares = 0;
    for (int64_t i = 0; i < count; i++)
        add_up(r, played, i, rule);
    for (int64_t i = 0; rule->runs > 1 && i + rule->runs <= count; i += rule->runs)
        compare_runs(r, i, rule->runs);
    for (int64_t i = 0; i < n; i++)
        squares += (double)r->advantage[i] * (double)r->advantage[i];
    const double factor = 1 / (sqrt(squares / (double)n) + 1e-8);
    for (int64_t i = 0; i < n; i++)
        r->advantage[i] = (float)(factor * (double)r->advantage[i]);
    memcpy(r->action, played->action, (size_t)n * sizeof *r->action);
    memcpy(r->log_p, played->log_p, (size_t)n * sizeof *r->log_p);
    memcpy(r->observed, played->observed, (size_t)(n * r->inputs) * sizeof *r->observed);
}

/* ---- batches -------------------------------------------------------------------------------- */

static void add_field(fv_trial_rows *r, fv_batch *batch, const char *name, fv_dtype dtype,
                      const void *values, int64_t width, int64_t first)
{
    const void **row = r->row + batch->count * r->capacity;
    const size_t bytes = (size_t)(r->steps * width) * fv_dtype_size(dtype);
    for (int64_t i = 0; i < batch->rows; i++)
        row[i] = (const char *)values + (size_t)(first + i) * bytes;
    fv_batch_add(batch, (fv_field){.name = name, .dtype = dtype, .row = row, .length = r->length});
}

fv_batch fv_trial_rows_batch(fv_trial_rows *r, int64_t first, int64_t count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    add_field(r, &batch, "inputs", FV_F32, r->observed, r->inputs, first);
    batch.field[0].rank = 1;
    batch.field[0].shape[0] = r->inputs;
    add_field(r, &batch, "action", FV_I64, r->action, 1, first);
    add_field(r, &batch, "log_p", FV_F32, r->log_p, 1, first);
    add_field(r, &batch, "advantage", FV_F32, r->advantage, 1, first);
    add_field(r, &batch, "target", FV_F32, r->target, 1, first);
    return batch;
}

/* ---- the state of a run --------------------------------------------------------------------- */

typedef struct array {
    const char *name;
    fv_dtype dtype;
    void *values;
    int64_t width;
} array;

static int arrays_of(const fv_trial_rows *r, array out[FIELDS])
{
    out[0] = (array){"trials.observed", FV_F32, r->observed, r->inputs};
    out[1] = (array){"trials.action", FV_I64, r->action, 1};
    out[2] = (array){"trials.log_p", FV_F32, r->log_p, 1};
    out[3] = (array){"trials.advantage", FV_F32, r->advantage, 1};
    out[4] = (array){"trials.target", FV_F32, r->target, 1};
    return FIELDS;
}

fv_status fv_trial_rows_save(const fv_trial_rows *r, fv_params *state)
{
    array a[FIELDS];
    const int count = arrays_of(r, a);
    for (int i = 0; i < count; i++)
        fv_params_add_buffer(state, a[i].name,
                             fv_from_host(r->ctx, a[i].dtype, 2,
                                          (int64_t[]){r->capacity, r->steps * a[i].width},
                                          a[i].values));
    return r->ctx->error;
}

fv_status fv_trial_rows_load(fv_trial_rows *r, const fv_params *state)
{
    array a[FIELDS];
    const int count = arrays_of(r, a);
    for (int i = 0; i < count; i++) {
        const fv_tensor *t = fv_params_find(state, a[i].name);
        const int64_t n = r->capacity * r->steps * a[i].width;
        FV_RETURN_IF(!t || fv_tensor_dtype(t) != a[i].dtype || fv_tensor_count(t) != n, r->ctx,
                     FV_ERR_FORMAT, "the state has no %s of %lld elements", a[i].name,
                     (long long)n);
    }
    for (int i = 0; i < count; i++) {
        const size_t bytes =
            (size_t)(r->capacity * r->steps * a[i].width) * fv_dtype_size(a[i].dtype);
        FV_TRY(fv_tensor_read(r->ctx, fv_params_find(state, a[i].name), a[i].values, bytes));
    }
    return FV_OK;
}
