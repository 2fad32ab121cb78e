/*
 * Uniform or normal numbers from the key. No inputs but the numbers of the rows.
 */
#include "kernels/random.h"

#include <math.h>

#include "ops/draw.h"
#include "ops/rows.h"

typedef struct random_params {
    bool normal;
    double lo, hi; /* the range, or mean and deviation */
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
    fv_draw draw;
} random_params;

static fv_tensor *draw_numbers(fv_ctx *ctx, random_params *params, int rank, const int64_t *shape)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    int64_t count;
    const bool has_shape = rank >= 0 && rank <= FV_MAX_RANK && (rank == 0 || shape);
    if (!has_shape || !fv_shape_count(rank, shape, &count)) {
        fv_poison(ctx, FV_ERR_SHAPE, "random: invalid shape of rank %d", rank);
        return ctx->invalid;
    }
    params->rank = rank;
    for (int i = 0; i < rank; i++)
        params->shape[i] = shape[i];
    params->draw = fv_draw_next(ctx, rank, shape);
    fv_tensor *numbers = fv_draw_numbers(ctx, rank, shape);
    return fv_op_apply(ctx, FV_OP_RANDOM, 1, &numbers, params);
}

fv_tensor *fv_rand_uniform(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape, double low,
                           double high)
{
    random_params params = {.dtype = dtype, .lo = low, .hi = high};
    return draw_numbers(ctx, &params, rank, shape);
}

fv_tensor *fv_rand_normal(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape, double mean,
                          double deviation)
{
    random_params params = {.normal = true, .dtype = dtype, .lo = mean, .hi = deviation};
    return draw_numbers(ctx, &params, rank, shape);
}

static fv_status infer(fv_op_run *run)
{
    const random_params *params = run->params;
    if (params->dtype != FV_F32 && params->dtype != FV_F64)
        return fv_op_error(run, FV_ERR_DTYPE, "expected dtype f32 or f64, got %s",
                           fv_dtype_name(params->dtype));
    const bool valid = isfinite(params->lo) && isfinite(params->hi) &&
                       (params->normal ? params->hi >= 0.0 : params->lo <= params->hi);
    if (!valid)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           params->normal ? "invalid mean %g or deviation %g"
                                          : "invalid range from %g to %g",
                           params->lo, params->hi);
    const fv_draw_shape shape = fv_draw_shape_of(params->rank, params->shape);
    FV_TRY(fv_draw_check_numbers(run, 0, shape.rows));
    fv_spec_set(run, 0, params->dtype, params->rank, params->shape);
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    const random_params *params = run->params;
    fv_tensor *out = run->out[0];
    if (out->count == 0) return;
    const fv_draw_shape shape = fv_draw_shape_of(out->rank, out->shape);
    const fv_random_args args = {.rows = shape.rows,
                                 .cols = shape.cols,
                                 .draw = params->draw,
                                 .normal = params->normal,
                                 .lo = params->lo,
                                 .hi = params->hi};
    fv_tensor *numbers = fv_draw_numbers_in(run->in, run->n_in, 0), *copy;
    void *table = fv_optional_data(run->ctx, numbers, &copy);
    if (run->ctx->error == FV_OK)
        fv_launch(run->ctx, FV_KERNEL_RANDOM, out->dtype, (void *[]){out->data, table}, &args,
                  sizeof args);
    fv_drop_copy(run->ctx, copy, numbers);
}

static const random_params
    uniform = {.lo = -1.0, .hi = 2.0, .dtype = FV_F64, .rank = 2, .shape = {3, 5}},
    normal = {.normal = true, .hi = 1.0, .dtype = FV_F64, .rank = 1, .shape = {7}},
    empty = {.hi = 1.0, .dtype = FV_F64, .rank = 2, .shape = {0, 3}};

static const fv_op_case cases[] = {
    {.name = "uniform", .params = &uniform},
    {.name = "normal", .params = &normal},
    {.name = "numbers", .params = &uniform, .n_in = 1, .in = {FV_INDEX(9, 3)}},
    {.name = "empty", .params = &empty},
};

const fv_op_desc fv_op_random = {
    .id = FV_OP_RANDOM,
    .name = "random",
    .formula = "uniform or normal numbers from the key",
    .min_in = 0,
    .max_in = 1,
    .params_bytes = sizeof(random_params),
    .infer = infer,
    .forward = forward,
    .no_backward = "its only input is a table of integers",
    FV_CASES(cases),
};
