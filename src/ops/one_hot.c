/*
 * y[..., c] = 1 where c == index[...], else 0.
 */
#include "kernels/index.h"
#include "ops/rows.h"

typedef struct one_hot_params {
    int64_t classes;
    fv_dtype dtype;
} one_hot_params;

fv_tensor *fv_one_hot(fv_ctx *ctx, fv_tensor *index, int64_t classes, fv_dtype dtype)
{
    const one_hot_params params = {classes, dtype};
    return fv_op_apply(ctx, FV_OP_ONE_HOT, 1, &index, &params);
}

static fv_status infer(fv_op_run *run)
{
    const one_hot_params *params = run->params;
    FV_TRY(fv_need_dtype(run, 0, FV_I64));
    FV_TRY(fv_need_rank(run, 0, 0, FV_MAX_RANK - 1));
    if (params->classes < 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "expected at least one class, got %lld",
                           (long long)params->classes);
    fv_spec_like(run, 0, 0);
    fv_spec *spec = &run->spec[0];
    spec->dtype = params->dtype;
    spec->shape[spec->rank++] = params->classes;
    return FV_OK;
}

/* The kernel writes real numbers; other dtypes are converted from them. */
static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const one_hot_params *params = run->params;
    fv_tensor *index = fv_contiguous_raw(ctx, run->in[0]), *out = run->out[0], *real = out;
    if (out->dtype != FV_F32 && out->dtype != FV_F64)
        real = fv_tensor_new(ctx, FV_F32, out->rank, out->shape);
    if (ctx->error != FV_OK) return;
    const fv_one_hot_args args = {.count = index->count, .classes = params->classes};
    fv_launch(ctx, FV_KERNEL_ONE_HOT, real->dtype, (void *[]){real->data, index->data}, &args,
              sizeof args);
    if (real != out) fv_copy_into(ctx, out, real);
    fv_drop_copy(ctx, real, out);
    fv_drop_copy(ctx, index, run->in[0]);
}

static const one_hot_params f64 = {5, FV_F64}, u8 = {3, FV_U8};

static const fv_op_case cases[] = {
    {.name = "f64", .params = &f64, .n_in = 1, .in = {FV_INDEX(5, 2, 3)}},
    {.name = "u8", .params = &u8, .n_in = 1, .in = {FV_INDEX(3, 4)}},
    {.name = "none", .params = &f64, .n_in = 1, .in = {FV_INDEX(5, 0)}},
};

const fv_op_desc fv_op_one_hot = {
    .id = FV_OP_ONE_HOT,
    .name = "one_hot",
    .formula = "y[..., c] = [c == index[...]]",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(one_hot_params),
    .infer = infer,
    .forward = forward,
    .no_backward = "its input is an index",
    FV_CASES(cases),
};
