/*
 * y_((i + s) mod n) = x_i along an axis.
 *   dx_i = g_((i + s) mod n): g rolled by -s.
 */
#include "ops/layout.h"

typedef struct roll_params {
    int axis;
    int64_t shift;
} roll_params;

fv_tensor *fv_roll(fv_ctx *ctx, fv_tensor *x, int axis, int64_t shift)
{
    return fv_op_apply(ctx, FV_OP_ROLL, 1, &x, &(roll_params){axis, shift});
}

static fv_status infer(fv_op_run *run)
{
    const roll_params *p = run->params;
    int axis = 0;
    FV_TRY(fv_need_axis(run, 0, p->axis, &axis));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

/* Two copies: the elements that shift within the axis and those that wrap around. */
static void roll(fv_ctx *ctx, fv_tensor *out, const fv_tensor *in, const roll_params *p, bool undo)
{
    const int axis = p->axis < 0 ? p->axis + in->rank : p->axis;
    const int64_t size = in->shape[axis];
    if (in->count == 0) return;
    int64_t shift = p->shift % size;
    if (undo) shift = -shift;
    if (shift < 0) shift += size;
    fv_layout_copy_slice(ctx, out, axis, shift, in, 0, size - shift);
    fv_layout_copy_slice(ctx, out, axis, 0, in, size - shift, shift);
}

static void forward(fv_op_run *run) { roll(run->ctx, run->out[0], run->in[0], run->params, false); }

static void backward(fv_op_back *back)
{
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    roll(back->ctx, dx, back->grad[0], back->params, true);
    fv_back_send(back, 0, dx);
}

static const roll_params right = {.axis = 1, .shift = 2}, left = {.axis = -1, .shift = -11};
static const roll_params whole = {.axis = 0, .shift = 3};

static const fv_op_case cases[] = {
    {.name = "2x5x2", .params = &right, .n_in = 1, .in = {FV_IN(NORMAL, 2, 5, 2)}},
    {.name = "far", .params = &left, .n_in = 1, .in = {FV_IN(NORMAL, 2, 4)}},
    {.name = "full turn", .params = &whole, .n_in = 1, .in = {FV_IN(NORMAL, 3)}},
    {.name = "empty", .params = &whole, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_roll = {
    .id = FV_OP_ROLL,
    .name = "roll",
    .formula = "y_(i+s mod n) = x_i",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(roll_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
