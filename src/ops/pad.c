/*
 * y = x with `before` and `after` elements of a constant around each axis.
 *   dx = the inner part of g, a view.
 */
#include "base/checked_math.h"
#include "ops/layout.h"

typedef struct pad_params {
    bool has_amounts;
    int64_t before[FV_MAX_RANK], after[FV_MAX_RANK];
    double value;
} pad_params;

fv_tensor *fv_pad(fv_ctx *ctx, fv_tensor *x, const int64_t *before, const int64_t *after,
                  double value)
{
    pad_params params = {.has_amounts = before && after, .value = value};
    for (int i = 0; params.has_amounts && fv_layout_has_shape(x) && i < x->rank; i++) {
        params.before[i] = before[i];
        params.after[i] = after[i];
    }
    return fv_op_apply(ctx, FV_OP_PAD, 1, &x, &params);
}

static fv_status infer(fv_op_run *run)
{
    const pad_params *p = run->params;
    const fv_tensor *x = run->in[0];
    if (!x) return fv_op_error(run, FV_ERR_ARGUMENT, "input 0 is missing");
    if (!p->has_amounts && x->rank > 0)
        return fv_op_error(run, FV_ERR_ARGUMENT, "before or after is NULL");
    fv_spec_like(run, 0, 0);
    for (int i = 0; i < x->rank; i++) {
        int64_t *size = &run->spec[0].shape[i];
        if (p->before[i] < 0 || p->after[i] < 0 || !fv_checked_add_i64(*size, p->before[i], size) ||
            !fv_checked_add_i64(*size, p->after[i], size))
            return fv_op_error(run, FV_ERR_ARGUMENT, "cannot pad axis %d by %lld and %lld", i,
                               (long long)p->before[i], (long long)p->after[i]);
    }
    return FV_OK;
}

/* The view of x in a tensor of the padded shape. */
static fv_tensor *inner(fv_ctx *ctx, const fv_tensor *padded, const pad_params *p,
                        const int64_t *shape)
{
    int64_t offset = 0;
    for (int i = 0; i < padded->rank; i++)
        if (shape[i] > 0) offset += p->before[i] * padded->stride[i];
    return fv_tensor_view(ctx, padded, padded->rank, shape, padded->stride, offset);
}

static void forward(fv_op_run *run)
{
    const pad_params *p = run->params;
    fv_fill(run->ctx, run->out[0], p->value);
    fv_tensor *part = inner(run->ctx, run->out[0], p, run->in[0]->shape);
    if (run->ctx->error == FV_OK) fv_copy_into(run->ctx, part, run->in[0]);
    fv_tensor_free(run->ctx, &part);
}

static void backward(fv_op_back *back)
{
    fv_back_send(back, 0, inner(back->ctx, back->grad[0], back->params, fv_back_shape(back, 0)));
}

static const pad_params border = {
    .has_amounts = true, .before = {1, 0}, .after = {0, 2}, .value = 3.0};
static const pad_params none = {.has_amounts = true};

static const fv_op_case cases[] = {
    {.name = "3x4", .params = &border, .n_in = 1, .in = {FV_IN(NORMAL, 3, 4)}},
    {.name = "row", .params = &border, .n_in = 1, .in = {FV_IN(NORMAL, 5)}},
    {.name = "scalar", .params = &none, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &border, .n_in = 1, .in = {FV_IN(NORMAL, 0, 2)}},
};

const fv_op_desc fv_op_pad = {
    .id = FV_OP_PAD,
    .name = "pad",
    .formula = "y = x with a border",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(pad_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
