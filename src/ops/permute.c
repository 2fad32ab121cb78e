/*
 * y = x with its axes in another order: y's axis i is x's axis a_i. A view.
 *   dx = g with the inverse order: its axis a_i is g's axis i.
 */
#include "ops/layout.h"

typedef struct permute_params {
    bool has_axes;
    int axes[FV_MAX_RANK];
} permute_params;

fv_tensor *fv_permute(fv_ctx *ctx, fv_tensor *x, const int *axes)
{
    permute_params params = {.has_axes = axes != NULL};
    for (int i = 0; axes && fv_layout_has_shape(x) && i < x->rank; i++)
        params.axes[i] = axes[i];
    return fv_op_apply(ctx, FV_OP_PERMUTE, 1, &x, &params);
}

fv_tensor *fv_transpose(fv_ctx *ctx, fv_tensor *x, int a, int b)
{
    permute_params params = {.has_axes = true};
    if (fv_layout_has_shape(x)) {
        const int first = a < 0 ? a + x->rank : a, second = b < 0 ? b + x->rank : b;
        if (first < 0 || first >= x->rank || second < 0 || second >= x->rank) {
            fv_poison(ctx, FV_ERR_ARGUMENT,
                      "transpose: axes %d and %d are out of range for a tensor of rank %d", a, b,
                      x->rank);
            return ctx->invalid;
        }
        for (int i = 0; i < x->rank; i++)
            params.axes[i] = i == first ? second : i == second ? first : i;
    }
    return fv_op_apply(ctx, FV_OP_PERMUTE, 1, &x, &params);
}

static fv_status infer(fv_op_run *run)
{
    const permute_params *p = run->params;
    const fv_tensor *x = run->in[0];
    if (!x) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    if (!p->has_axes && x->rank > 0)
        return fv_op_error(run, FV_ERR_ARGUMENT, "the list of axes is NULL");
    fv_spec *spec = &run->spec[0];
    spec->dtype = x->dtype;
    spec->rank = x->rank;
    spec->view_of = 0;
    spec->offset = 0;
    unsigned seen = 0;
    for (int i = 0; i < x->rank; i++) {
        int axis = 0;
        FV_TRY(fv_need_axis(run, 0, p->axes[i], &axis));
        if (seen & 1u << axis)
            return fv_op_error(run, FV_ERR_ARGUMENT, "axis %d is listed twice", axis);
        seen |= 1u << axis;
        spec->shape[i] = x->shape[axis];
        spec->stride[i] = x->stride[axis];
    }
    return FV_OK;
}

static void backward(fv_op_back *back)
{
    const permute_params *p = back->params;
    const fv_tensor *g = back->grad[0];
    int64_t stride[FV_MAX_RANK] = {0};
    for (int i = 0; i < g->rank; i++)
        stride[p->axes[i] < 0 ? p->axes[i] + g->rank : p->axes[i]] = g->stride[i];
    fv_back_send(back, 0, fv_tensor_view(back->ctx, g, g->rank, fv_back_shape(back, 0), stride, 0));
}

static const permute_params cycle = {.has_axes = true, .axes = {2, 0, 1}};
static const permute_params swap = {.has_axes = true, .axes = {-1, 0}};
static const permute_params none = {.has_axes = true};

static const fv_op_case cases[] = {
    {.name = "2x3x4", .params = &cycle, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "transpose", .params = &swap, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "scalar", .params = &none, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &swap, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_permute = {
    .id = FV_OP_PERMUTE,
    .name = "permute",
    .formula = "y = x with its axes reordered",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(permute_params),
    .infer = infer,
    .backward = backward,
    .is_view = true,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
