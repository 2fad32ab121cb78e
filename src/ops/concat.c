/*
 * y = the inputs one after another along an axis.
 *   dx_i = its slice of g, a view.
 */
#include "base/checked_math.h"
#include "ops/layout.h"

typedef struct concat_params {
    int axis;
} concat_params;

enum { MAX_INPUTS = 4096 };

fv_tensor *fv_concat(fv_ctx *ctx, int n, fv_tensor *const *x, int axis)
{
    return fv_op_apply(ctx, FV_OP_CONCAT, x ? n : 0, x, &(concat_params){axis});
}

/* Checks that input i equals input 0 in dtype, rank and every size but that of the axis. */
static fv_status check_input(fv_op_run *run, int i, int axis)
{
    const fv_tensor *first = run->in[0], *x = run->in[i];
    if (!x) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    if (fv_wide_dtype(x->dtype) != fv_wide_dtype(first->dtype))
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                           fv_dtype_name(first->dtype), fv_dtype_name(x->dtype));
    if (x->rank != first->rank) return fv_op_mismatch(run, 0, i, "have different ranks");
    for (int k = 0; k < x->rank; k++)
        if (k != axis && x->shape[k] != first->shape[k])
            return fv_op_mismatch(run, 0, i, "differ in an axis other than the one concatenated");
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    const concat_params *p = run->params;
    int axis = 0;
    FV_TRY(fv_need_axis(run, 0, p->axis, &axis));
    int64_t size = 0;
    for (int i = 0; i < run->n_in; i++) {
        FV_TRY(check_input(run, i, axis));
        if (!fv_checked_add_i64(size, run->in[i]->shape[axis], &size))
            return fv_op_error(run, FV_ERR_SHAPE, "the resulting axis is too long");
    }
    fv_spec_like(run, 0, 0);
    run->spec[0].dtype = fv_result_dtype(run);
    run->spec[0].shape[axis] = size;
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    const concat_params *p = run->params;
    const int axis = p->axis < 0 ? p->axis + run->out[0]->rank : p->axis;
    int64_t at = 0;
    for (int i = 0; i < run->n_in; i++) {
        const int64_t size = run->in[i]->shape[axis];
        fv_layout_copy_slice(run->ctx, run->out[0], axis, at, run->in[i], 0, size);
        at += size;
    }
}

static void backward(fv_op_back *back)
{
    const concat_params *p = back->params;
    const fv_tensor *g = back->grad[0];
    const int axis = p->axis < 0 ? p->axis + g->rank : p->axis;
    int64_t at = 0;
    for (int i = 0; i < back->n_in && back->ctx->error == FV_OK; i++) {
        const int64_t size = fv_back_shape(back, i)[axis];
        if (fv_back_wants(back, i))
            fv_back_send(back, i, fv_layout_slice(back->ctx, g, axis, at, size));
        at += size;
    }
}

static const concat_params first = {.axis = 0}, last = {.axis = -1};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 2, 3), FV_IN(NORMAL, 1, 3)}},
    {.name = "columns",
     .params = &last,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 3), FV_IN(NORMAL, 2, 0), FV_IN(NORMAL, 2, 2)}},
    {.name = "one", .params = &last, .n_in = 1, .in = {FV_IN(NORMAL, 4)}},
    {.name = "empty", .params = &first, .n_in = 2, .in = {FV_IN(NORMAL, 0), FV_IN(NORMAL, 0)}},
};

const fv_op_desc fv_op_concat = {
    .id = FV_OP_CONCAT,
    .name = "concat",
    .formula = "y = [x_0, x_1, ...] along an axis",
    .min_in = 1,
    .max_in = MAX_INPUTS,
    .params_bytes = sizeof(concat_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
