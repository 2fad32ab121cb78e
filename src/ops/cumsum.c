/*
 * y_i = x_0 + ... + x_i along an axis.
 *   x_j contributes to every y_i with i >= j, so dx_j = g_j + g_(j+1) + ...: the running sum of g
 * from the end. The kernel works on contiguous rows: for any other axis, copies exchange it with
 * the last one.
 */
#include "kernels/reduce.h"
#include "ops/op.h"

typedef struct cumsum_params {
    int axis;
} cumsum_params;

fv_tensor *fv_cumsum(fv_ctx *ctx, fv_tensor *x, int axis)
{
    return fv_op_apply(ctx, FV_OP_CUMSUM, 1, &x, &(cumsum_params){axis});
}

static fv_status infer(fv_op_run *run)
{
    const cumsum_params *p = run->params;
    int axis = 0;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_axis(run, 0, p->axis, &axis));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

/* A view of t with `axis` and the last axis exchanged. */
static fv_tensor *swap_axes(fv_ctx *ctx, const fv_tensor *t, int axis)
{
    int64_t shape[FV_MAX_RANK] = {0}, stride[FV_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++) {
        const int from = i == axis ? t->rank - 1 : i == t->rank - 1 ? axis : i;
        shape[i] = t->shape[from];
        stride[i] = t->stride[from];
    }
    return fv_tensor_view(ctx, t, t->rank, shape, stride, 0);
}

/* out = the running sums of in; both have one shape, out is contiguous. */
static void running_sum(fv_ctx *ctx, fv_tensor *out, fv_tensor *in, int axis, bool reverse)
{
    if (out->count == 0) return;
    if (axis < 0) axis += out->rank;
    const bool last = axis == out->rank - 1;
    fv_tensor *swapped = last ? out : swap_axes(ctx, out, axis);
    fv_tensor *view = last ? in : swap_axes(ctx, in, axis);
    fv_tensor *rows = fv_contiguous_raw(ctx, view);
    fv_tensor *sums = last ? out : fv_tensor_like(ctx, swapped);
    if (ctx->error != FV_OK) return; /* the scope frees what was made */
    const fv_cumsum_args args = {
        .rows = out->count / out->shape[axis], .cols = out->shape[axis], .reverse = reverse};
    fv_launch(ctx, FV_KERNEL_CUMSUM, out->dtype, (void *[]){sums->data, rows->data}, &args,
              sizeof args);
    if (rows != view) fv_tensor_free(ctx, &rows);
    if (last) return;
    fv_copy_into(ctx, swapped, sums);
    fv_tensor_free(ctx, &sums);
    fv_tensor_free(ctx, &view);
    fv_tensor_free(ctx, &swapped);
}

static void forward(fv_op_run *run)
{
    const cumsum_params *p = run->params;
    running_sum(run->ctx, run->out[0], run->in[0], p->axis, false);
}

static void backward(fv_op_back *back)
{
    const cumsum_params *p = back->params;
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    running_sum(back->ctx, dx, back->grad[0], p->axis, true);
    fv_back_send(back, 0, dx);
}

static const cumsum_params first = {.axis = 0}, middle = {.axis = 1}, last = {.axis = -1};

static const fv_op_case cases[] = {
    {.name = "row", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 6)}},
    {.name = "first", .params = &first, .n_in = 1, .in = {FV_IN(NORMAL, 4, 3)}},
    {.name = "middle", .params = &middle, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "last", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 3, 4)}},
    {.name = "one", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 3, 1)}},
    {.name = "empty", .params = &first, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_cumsum = {
    .id = FV_OP_CUMSUM,
    .name = "cumsum",
    .formula = "y_i = x_0 + ... + x_i",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(cumsum_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};
