/*
 * y = the elements of x, in row-major order, with another shape.
 *   dx = g with x's shape.
 * A view where x's strides allow it, else a copy. squeeze and unsqueeze, which only remove or
 * insert an axis of size 1, are always views.
 */
#include "ops/layout.h"

fv_tensor *fv_reshape(fv_ctx *ctx, fv_tensor *x, int rank, const int64_t *shape)
{
    fv_shape_params params = fv_shape_params_of(rank, shape);
    return fv_op_apply(ctx, FV_OP_RESHAPE, 1, &x, &params);
}

fv_tensor *fv_squeeze(fv_ctx *ctx, fv_tensor *x, int axis)
{
    fv_shape_params params = {.rank = 0};
    if (fv_layout_has_shape(x)) {
        const int at = axis < 0 ? axis + x->rank : axis;
        char text[FV_SHAPE_TEXT];
        if (at < 0 || at >= x->rank || x->shape[at] != 1) {
            fv_poison(ctx, FV_ERR_ARGUMENT, "squeeze: expected size 1 for axis %d, got shape %s",
                      axis, fv_shape_text(text, x->rank, x->shape));
            return ctx->invalid;
        }
        for (int i = 0; i < x->rank; i++)
            if (i != at) params.shape[params.rank++] = x->shape[i];
    }
    return fv_op_apply(ctx, FV_OP_RESHAPE, 1, &x, &params);
}

fv_tensor *fv_unsqueeze(fv_ctx *ctx, fv_tensor *x, int axis)
{
    fv_shape_params params = {.rank = 0};
    if (fv_layout_has_shape(x)) {
        const int at = axis < 0 ? axis + x->rank + 1 : axis;
        if (at < 0 || at > x->rank || x->rank == FV_MAX_RANK) {
            fv_poison(ctx, FV_ERR_ARGUMENT,
                      "unsqueeze: cannot insert axis %d into a tensor of rank %d", axis, x->rank);
            return ctx->invalid;
        }
        params.rank = x->rank + 1;
        for (int i = 0; i < params.rank; i++)
            params.shape[i] = i == at ? 1 : x->shape[i < at ? i : i - 1];
    }
    return fv_op_apply(ctx, FV_OP_RESHAPE, 1, &x, &params);
}

static fv_status mismatch(fv_op_run *run, const fv_shape_params *p)
{
    char from[FV_SHAPE_TEXT], to[FV_SHAPE_TEXT];
    const fv_tensor *x = run->in[0];
    return fv_op_error(run, FV_ERR_SHAPE, "cannot reshape %s to %s",
                       fv_shape_text(from, x->rank, x->shape),
                       fv_shape_text(to, p->rank, p->shape));
}

/* The requested shape, with a size of -1 replaced. */
static fv_status resolve(fv_op_run *run, const fv_shape_params *p, int64_t *shape)
{
    const int64_t count = run->in[0]->count;
    int64_t known = 0;
    int inferred = -1;
    for (int i = 0; i < p->rank; i++) {
        shape[i] = p->shape[i];
        if (shape[i] == -1 && inferred < 0) {
            inferred = i;
            shape[i] = 1;
        }
    }
    if (!fv_shape_count(p->rank, shape, &known)) return mismatch(run, p);
    if (inferred >= 0) {
        if (known == 0) return mismatch(run, p); /* any size would do */
        shape[inferred] = count / known;
        known *= shape[inferred];
    }
    if (known != count) return mismatch(run, p);
    return FV_OK;
}

/*
 * Strides for a view of x, which is not empty, with another shape; false where there are none.
 * Neighbouring axes of x that merge into one form a group; from the last axis on, each group must
 * be divided into whole new axes.
 */
static bool view_strides(const fv_tensor *x, int rank, const int64_t *shape, int64_t *stride)
{
    int axis = x->rank - 1;
    int64_t step = 1, left = 1; /* of the current group: stride, elements not yet divided */
    for (int n = rank - 1; n >= 0; n--) {
        stride[n] = step;
        if (shape[n] == 1) continue;
        if (left == 1) {
            while (x->shape[axis] == 1)
                axis--;
            step = x->stride[axis];
            left = x->shape[axis--];
            while (axis >= 0 && (x->shape[axis] == 1 || x->stride[axis] == step * left))
                left *= x->shape[axis--];
        }
        if (left % shape[n] != 0) return false;
        stride[n] = step;
        step *= shape[n];
        left /= shape[n];
    }
    return true;
}

static fv_status infer(fv_op_run *run)
{
    const fv_shape_params *p = run->params;
    FV_TRY(fv_shape_check(run, p));
    const fv_tensor *x = run->in[0];
    fv_spec *spec = &run->spec[0];
    spec->dtype = x->dtype;
    spec->rank = p->rank;
    spec->offset = 0;
    FV_TRY(resolve(run, p, spec->shape));
    if (x->count == 0 || fv_tensor_contiguous(x)) {
        fv_shape_strides(spec->rank, spec->shape, spec->stride);
        spec->view_of = 0;
    } else if (view_strides(x, spec->rank, spec->shape, spec->stride)) {
        spec->view_of = 0;
    }
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    if (run->spec[0].view_of == 0) return;
    const fv_tensor *x = run->in[0];
    fv_tensor *like_x = fv_layout_reshape(run->ctx, run->out[0], x->rank, x->shape);
    if (run->ctx->error == FV_OK) fv_copy_into(run->ctx, like_x, x);
    fv_tensor_free(run->ctx, &like_x);
}

static void backward(fv_op_back *back)
{
    fv_tensor *g = fv_contiguous_raw(back->ctx, back->grad[0]);
    if (back->ctx->error != FV_OK) return;
    fv_back_send(back, 0,
                 fv_layout_reshape(back->ctx, g, fv_back_rank(back, 0), fv_back_shape(back, 0)));
}

static const fv_shape_params four_by_six = {.rank = 2, .shape = {4, -1}};
static const fv_shape_params flat = {.rank = 1, .shape = {-1}};
static const fv_shape_params ones = {.rank = 3, .shape = {1, 1, 1}};
static const fv_shape_params nothing = {.rank = 2, .shape = {3, 0}};

static const fv_op_case cases[] = {
    {.name = "2x3x4", .params = &four_by_six, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "flat", .params = &flat, .n_in = 1, .in = {FV_IN(NORMAL, 3, 1, 2)}},
    {.name = "scalar", .params = &ones, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &nothing, .n_in = 1, .in = {FV_IN(NORMAL, 0, 5)}},
};

const fv_op_desc fv_op_reshape = {
    .id = FV_OP_RESHAPE,
    .name = "reshape",
    .formula = "y = x under another shape",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_shape_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .is_view = true,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
