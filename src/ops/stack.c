/*
 * y = inputs of one shape along a new axis: y_i = x_i.
 *   dx_i = g_i, a view.
 */
#include "ops/layout.h"

typedef struct stack_params {
    int axis;
} stack_params;

enum { MAX_INPUTS = 4096 };

fv_tensor *fv_stack(fv_ctx *ctx, int n, fv_tensor *const *x, int axis)
{
    return fv_op_apply(ctx, FV_OP_STACK, x ? n : 0, x, &(stack_params){axis});
}

static fv_status same_as_first(fv_op_run *run, int i)
{
    const fv_tensor *first = run->in[0], *x = run->in[i];
    if (!x) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    if (fv_wide_dtype(x->dtype) != fv_wide_dtype(first->dtype))
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                           fv_dtype_name(first->dtype), fv_dtype_name(x->dtype));
    if (!fv_shape_equal(x->rank, x->shape, first->rank, first->shape))
        return fv_op_mismatch(run, 0, i, "differ");
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    const stack_params *p = run->params;
    const fv_tensor *x = run->in[0];
    for (int i = 0; i < run->n_in; i++)
        FV_TRY(same_as_first(run, i));
    const int rank = x->rank + 1, axis = p->axis < 0 ? p->axis + rank : p->axis;
    if (axis < 0 || axis >= rank || rank > FV_MAX_RANK)
        return fv_op_error(run, FV_ERR_ARGUMENT, "cannot insert axis %d into tensors of rank %d",
                           p->axis, x->rank);
    fv_spec *spec = &run->spec[0];
    spec->dtype = fv_result_dtype(run);
    spec->rank = rank;
    for (int i = 0; i < rank; i++)
        spec->shape[i] = i == axis ? run->n_in : x->shape[i < axis ? i : i - 1];
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    const stack_params *p = run->params;
    const int axis = p->axis < 0 ? p->axis + run->out[0]->rank : p->axis;
    for (int i = 0; i < run->n_in && run->ctx->error == FV_OK; i++) {
        fv_tensor *place = fv_layout_select(run->ctx, run->out[0], axis, i);
        if (run->ctx->error == FV_OK) fv_copy_into(run->ctx, place, run->in[i]);
        fv_tensor_free(run->ctx, &place);
    }
}

static void backward(fv_op_back *back)
{
    const stack_params *p = back->params;
    const fv_tensor *g = back->grad[0];
    const int axis = p->axis < 0 ? p->axis + g->rank : p->axis;
    for (int i = 0; i < back->n_in && back->ctx->error == FV_OK; i++)
        if (fv_back_wants(back, i)) fv_back_send(back, i, fv_layout_select(back->ctx, g, axis, i));
}

static const stack_params first = {.axis = 0}, last = {.axis = -1};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 2, 3), FV_IN(NORMAL, 2, 3)}},
    {.name = "columns",
     .params = &last,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 4), FV_IN(NORMAL, 4), FV_IN(NORMAL, 4)}},
    {.name = "scalars", .params = &first, .n_in = 2, .in = {FV_IN0(NORMAL), FV_IN0(NORMAL)}},
    {.name = "empty", .params = &last, .n_in = 2, .in = {FV_IN(NORMAL, 0), FV_IN(NORMAL, 0)}},
};

const fv_op_desc fv_op_stack = {
    .id = FV_OP_STACK,
    .name = "stack",
    .formula = "y_i = x_i along a new axis",
    .min_in = 1,
    .max_in = MAX_INPUTS,
    .params_bytes = sizeof(stack_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
