/*
 * y = the i64 index along one axis of the first largest element; a NaN counts as it.
 * An index moves in steps: no gradient.
 */
#include "ops/reduce.h"

fv_tensor *fv_argmax(fv_ctx *ctx, fv_tensor *x, int axis, bool keep)
{
    return fv_reduce_apply(ctx, FV_OP_ARGMAX, x, 1, &axis, keep);
}

static fv_status infer(fv_op_run *run)
{
    FV_FORWARD(fv_reduce_infer_nonempty(run));
    run->spec[0].dtype = FV_I64;
    return FV_OK;
}

static void forward(fv_op_run *run) { fv_reduce_forward_index(run, FV_REDUCE_ARGMAX); }

static const fv_reduce_params last = {.n_axes = 1, .axes = {-1}};
static const fv_reduce_params first_kept = {.n_axes = 1, .axes = {0}, .keep = true};

static const fv_op_case cases[] = {
    {.name = "last", .params = &last, .n_in = 1, .in = {FV_IN(APART, 3, 5)}},
    {.name = "first", .params = &first_kept, .n_in = 1, .in = {FV_IN(APART, 4, 3)}},
    {.name = "empty", .params = &last, .n_in = 1, .in = {FV_IN(APART, 0, 3)}},
};

const fv_op_desc fv_op_argmax = {
    .id = FV_OP_ARGMAX,
    .name = "argmax",
    .formula = "y = argmax(x)",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_reduce_params),
    .infer = infer,
    .forward = forward,
    .no_backward = "an index moves in steps",
    FV_CASES(cases),
};
