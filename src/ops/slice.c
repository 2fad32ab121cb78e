/*
 * y = every step-th element of x from begin up to end along one axis. A view.
 *   dx = g at those elements, 0 elsewhere. Several slices of x write into one gradient, and what
 *   none has written is cleared at the end: n slices of a tensor cost one pass over it, not n.
 */
#include "base/checked_math.h"
#include "ops/layout.h"

typedef struct slice_params {
    int axis;
    int64_t begin, end, step;
} slice_params;

fv_tensor *fv_slice(fv_ctx *ctx, fv_tensor *x, int axis, int64_t begin, int64_t end, int64_t step)
{
    slice_params params = {.axis = axis, .begin = begin, .end = end, .step = step};
    return fv_op_apply(ctx, FV_OP_SLICE, 1, &x, &params);
}

/* Whether the sizes sum to that of the axis. */
static bool adds_up(const fv_tensor *x, int axis, int n, const int64_t *sizes)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (sizes[i] < 0 || !fv_checked_add_i64(sum, sizes[i], &sum)) return false;
    return sum == fv_tensor_size(x, axis);
}

void fv_split(fv_ctx *ctx, fv_tensor *x, int axis, int n, const int64_t *sizes, fv_tensor **out)
{
    for (int i = 0; i < n; i++)
        out[i] = ctx->invalid;
    if (fv_layout_has_shape(x)) {
        if (axis < -x->rank || axis >= x->rank)
            fv_poison(ctx, FV_ERR_ARGUMENT,
                      "split: axis %d is out of range for a tensor of rank %d", axis, x->rank);
        else if (n < 1 || !sizes || !adds_up(x, axis, n, sizes))
            fv_poison(ctx, FV_ERR_SHAPE, "split: the sizes do not sum to %lld, the size of axis %d",
                      (long long)fv_tensor_size(x, axis), axis);
    }
    int64_t begin = 0;
    for (int i = 0; i < n && ctx->error == FV_OK; i++) {
        const int64_t size = sizes ? sizes[i] : 0;
        out[i] = fv_slice(ctx, x, axis, begin, begin + size, 1);
        begin += size;
    }
    /* All or nothing. */
    for (int i = 0; i < n && ctx->error != FV_OK; i++)
        out[i] = ctx->invalid;
}

/* A position as in Python slices, clamped to 0..size. */
static int64_t position(int64_t at, int64_t size)
{
    if (at < 0) at += size;
    if (at < 0) return 0;
    return at > size ? size : at;
}

/* Turns shape and strides of a tensor into those of the slice, and *offset into its start. */
static void locate(const slice_params *p, int rank, int64_t *shape, int64_t *stride,
                   int64_t *offset)
{
    const int axis = p->axis < 0 ? p->axis + rank : p->axis;
    const int64_t begin = position(p->begin, shape[axis]), end = position(p->end, shape[axis]);
    *offset = 0;
    if (begin >= end) {
        shape[axis] = 0;
        return;
    }
    shape[axis] = 1 + (end - begin - 1) / p->step;
    *offset = begin * stride[axis];
    if (shape[axis] > 1) stride[axis] *= p->step; /* a step past the end could overflow */
}

static fv_status infer(fv_op_run *run)
{
    const slice_params *p = run->params;
    const fv_tensor *x = run->in[0];
    int axis = 0;
    FV_TRY(fv_need_axis(run, 0, p->axis, &axis));
    if (p->step < 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "step is %lld, expected >= 1", (long long)p->step);
    fv_spec *spec = &run->spec[0];
    fv_spec_like(run, 0, 0);
    for (int i = 0; i < x->rank; i++)
        spec->stride[i] = x->stride[i];
    spec->view_of = 0;
    locate(p, x->rank, spec->shape, spec->stride, &spec->offset);
    return FV_OK;
}

/* The part of dx, a gradient of the input's shape, that belongs to the slice. */
static fv_tensor *part_of(fv_op_back *back, fv_tensor *dx)
{
    int64_t shape[FV_MAX_RANK] = {0}, stride[FV_MAX_RANK] = {0}, offset = 0;
    for (int i = 0; i < dx->rank; i++) {
        shape[i] = dx->shape[i];
        stride[i] = dx->stride[i];
    }
    locate(back->params, dx->rank, shape, stride, &offset);
    return fv_tensor_view(back->ctx, dx, dx->rank, shape, stride, offset);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    const fv_tensor *g = back->grad[0];
    bool accumulate = false;
    if (!fv_back_wants(back, 0)) return;
    fv_tensor *dx = NULL, *part = fv_back_place_own(back, &accumulate);
    if (!part && ctx->error == FV_OK) {
        dx = fv_back_dest(back, 0, &accumulate);
        if (ctx->error == FV_OK && !accumulate) fv_fill(ctx, dx, 0.0);
        if (ctx->error == FV_OK) part = part_of(back, dx);
    }
    if (ctx->error != FV_OK) return;
    if (accumulate)
        fv_add_into(ctx, part, g);
    else
        fv_copy_into(ctx, part, g);
    fv_tensor_free(ctx, &part);
    if (dx) fv_back_commit(back, 0, dx, accumulate);
}

static const slice_params inner = {.axis = 1, .begin = 1, .end = -1, .step = 1};
static const slice_params every_other = {.axis = -1, .begin = -6, .end = 100, .step = 2};
static const slice_params nothing = {.axis = 0, .begin = 2, .end = 1, .step = 1};

static const fv_op_case cases[] = {
    {.name = "inner", .params = &inner, .n_in = 1, .in = {FV_IN(NORMAL, 2, 5, 2)}},
    {.name = "step", .params = &every_other, .n_in = 1, .in = {FV_IN(NORMAL, 2, 7)}},
    {.name = "whole", .params = &every_other, .n_in = 1, .in = {FV_IN(NORMAL, 1)}},
    {.name = "nothing", .params = &nothing, .n_in = 1, .in = {FV_IN(NORMAL, 4, 2)}},
    {.name = "empty", .params = &inner, .n_in = 1, .in = {FV_IN(NORMAL, 0, 4)}},
};

const fv_op_desc fv_op_slice = {
    .id = FV_OP_SLICE,
    .name = "slice",
    .formula = "y = x[begin:end:step] along an axis",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(slice_params),
    .infer = infer,
    .backward = backward,
    .is_view = true,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
