/*
 * y[n,o,i,j] = bias[o] + sum over c, a, b of w[o,c,a,b] x[n,c, i s - p + a d, j s - p + b d], x = 0
 * outside. y is linear in x and in w, so with the same index relation
 *   dx[n,c,.,.] = the sum over o, a, b of w[o,c,a,b] g[n,o,i,j]  (the transposed convolution),
 *   dw[o,c,a,b] = the sum over n, i, j of x[n,c,.,.] g[n,o,i,j],
 *   dbias[o] = the sum over n, i, j of g[n,o,i,j].
 */
#include "ops/conv2d.h"

#include "base/checked_math.h"
#include "kernels/reduce.h"
#include "ops/rows.h"

fv_conv2d_options fv_conv2d_defaults(const fv_conv2d_options *options)
{
    fv_conv2d_options o = options ? *options : (fv_conv2d_options){.groups = 1};
    for (int axis = 0; axis < 2; axis++) {
        if (o.stride[axis] == 0) o.stride[axis] = 1;
        if (o.dilation[axis] == 0) o.dilation[axis] = 1;
    }
    if (o.groups == 0) o.groups = 1;
    return o;
}

fv_tensor *fv_conv2d(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                     const fv_conv2d_options *options)
{
    const fv_conv2d_options params = fv_conv2d_defaults(options);
    return fv_op_apply(ctx, FV_OP_CONV2D, 3, (fv_tensor *[]){x, weight, bias}, &params);
}

/* ---- shared with the transposed convolution ------------------------------------------ */

static fv_status check_axis(fv_op_run *run, const fv_conv2d_options *o, int axis, int64_t window)
{
    const int64_t largest = INT32_MAX;
    const int64_t stride = o->stride[axis], pad = o->padding[axis], dilation = o->dilation[axis];
    if (stride < 1 || stride > largest || pad < 0 || pad > largest || dilation < 1 ||
        dilation > largest)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "stride %lld, padding %lld, dilation %lld: expected at least 1, 0, 1 "
                           "and at most %lld",
                           (long long)stride, (long long)pad, (long long)dilation,
                           (long long)largest);
    if (window < 1 || window > largest)
        return fv_op_error(run, FV_ERR_SHAPE, "window of size %lld, expected 1 to %lld",
                           (long long)window, (long long)largest);
    return FV_OK;
}

/* x is the shape that the convolution reads, y the one that it makes. */
static fv_conv2d_args fill_args(const fv_conv2d_options *o, const int64_t *x, const int64_t *y,
                                const int64_t *weight)
{
    fv_conv2d_args args = {
        .batch = x[0], .groups = o->groups, .in_c = x[1], .out_c = y[1], .accumulate = false};
    for (int axis = 0; axis < 2; axis++) {
        args.in[axis] = x[2 + axis];
        args.out[axis] = y[2 + axis];
        args.window[axis] = weight[2 + axis];
        args.stride[axis] = o->stride[axis];
        args.pad[axis] = o->padding[axis];
        args.dilation[axis] = o->dilation[axis];
    }
    return args;
}

fv_status fv_conv2d_check(fv_op_run *run, fv_conv2d_args *args)
{
    const fv_conv2d_options *o = run->params;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, FV_CONV_X, 4, 4));
    FV_TRY(fv_need_rank(run, FV_CONV_WEIGHT, 4, 4));
    if (run->in[FV_CONV_BIAS]) FV_TRY(fv_need_rank(run, FV_CONV_BIAS, 1, 1));
    const fv_tensor *x = run->in[FV_CONV_X], *w = run->in[FV_CONV_WEIGHT];
    for (int axis = 0; axis < 2; axis++)
        FV_TRY(check_axis(run, o, axis, w->shape[2 + axis]));
    if (o->groups < 1 || x->shape[1] % o->groups != 0 || w->shape[0] % o->groups != 0)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "%lld groups do not divide %lld channels and a weight of %lld rows",
                           (long long)o->groups, (long long)x->shape[1], (long long)w->shape[0]);
    *args = fill_args(o, x->shape, x->shape, w->shape);
    return FV_OK;
}

/* The arguments of a call: the convolution reads the transposed one's result. */
static fv_conv2d_args args_of(const fv_op_desc *desc, const fv_conv2d_options *o,
                              const fv_tensor *x, const fv_tensor *y, const fv_tensor *w)
{
    const bool transposed = desc->id == FV_OP_CONV_TRANSPOSE2D;
    return transposed ? fill_args(o, y->shape, x->shape, w->shape)
                      : fill_args(o, x->shape, y->shape, w->shape);
}

/* Forward is the convolution or its transpose, and the gradient of x the other one. */
static fv_kernel_id kernel_of(const fv_op_desc *desc, bool forward)
{
    const bool transposed = desc->id == FV_OP_CONV_TRANSPOSE2D;
    return transposed == forward ? FV_KERNEL_CONV2D_DATA : FV_KERNEL_CONV2D;
}

void fv_conv2d_forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[FV_CONV_X]), *out = run->out[0];
    fv_tensor *w = fv_contiguous_raw(ctx, run->in[FV_CONV_WEIGHT]), *bias;
    void *bias_data = fv_optional_data(ctx, run->in[FV_CONV_BIAS], &bias);
    if (ctx->error != FV_OK) return;
    const fv_conv2d_args args = args_of(run->desc, run->params, x, out, w);
    if (out->count > 0)
        fv_launch(ctx, kernel_of(run->desc, true), x->dtype,
                  (void *[]){out->data, x->data, w->data, bias_data}, &args, sizeof args);
    fv_save(run, 0, x);
    fv_save(run, 1, w);
    fv_drop_copy(ctx, bias, run->in[FV_CONV_BIAS]);
    if (run->recording) return;
    fv_drop_copy(ctx, x, run->in[FV_CONV_X]);
    fv_drop_copy(ctx, w, run->in[FV_CONV_WEIGHT]);
}

/* Sends the sum of g over all but its channels to the bias. */
static void send_bias(fv_op_back *back, fv_tensor *g)
{
    fv_tensor *db = fv_back_new(back, FV_CONV_BIAS);
    if (back->ctx->error != FV_OK) return;
    fv_reduce_args args = {.op = FV_REDUCE_SUM, .alpha = 1.0, .out_rank = 1, .red_rank = 2};
    args.out_shape[0] = g->shape[1];
    args.out_stride[0] = g->stride[1];
    args.red_shape[0] = g->shape[0];
    args.red_stride[0] = g->stride[0];
    args.red_shape[1] = g->shape[2] * g->shape[3];
    args.red_stride[1] = 1;
    if (db->count > 0)
        fv_launch(back->ctx, FV_KERNEL_REDUCE, g->dtype, (void *[]){db->data, NULL, g->data}, &args,
                  sizeof args);
    fv_back_send(back, FV_CONV_BIAS, db);
}

/* Sends the gradient of the weight, from contiguous x and y of the convolution. */
static void send_weight(fv_op_back *back, const fv_conv2d_args *args, fv_tensor *x, fv_tensor *y)
{
    fv_conv2d_args how = *args;
    fv_tensor *dw = fv_back_dest(back, FV_CONV_WEIGHT, &how.accumulate);
    if (back->ctx->error != FV_OK) return;
    if (dw->count > 0)
        fv_launch(back->ctx, FV_KERNEL_CONV2D_WEIGHT, x->dtype,
                  (void *[]){dw->data, x->data, y->data}, &how, sizeof how);
    fv_back_commit(back, FV_CONV_WEIGHT, dw, how.accumulate);
}

void fv_conv2d_backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *x = back->saved[0], *w = back->saved[1];
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    if (ctx->error != FV_OK) return;
    const bool transposed = back->desc->id == FV_OP_CONV_TRANSPOSE2D;
    const fv_conv2d_args args = args_of(back->desc, back->params, x, g, w);
    if (fv_back_wants(back, FV_CONV_X)) {
        fv_tensor *dx = fv_back_new(back, FV_CONV_X);
        if (ctx->error != FV_OK) return;
        if (dx->count > 0)
            fv_launch(ctx, kernel_of(back->desc, false), x->dtype,
                      (void *[]){dx->data, g->data, w->data, NULL}, &args, sizeof args);
        fv_back_send(back, FV_CONV_X, dx);
    }
    if (fv_back_wants(back, FV_CONV_WEIGHT))
        send_weight(back, &args, transposed ? g : x, transposed ? x : g);
    if (fv_back_wants(back, FV_CONV_BIAS) && ctx->error == FV_OK) send_bias(back, g);
}

/* ---- the op -------------------------------------------------------------------------- */

static fv_status infer(fv_op_run *run)
{
    fv_conv2d_args a;
    FV_TRY(fv_conv2d_check(run, &a));
    const fv_tensor *x = run->in[FV_CONV_X], *w = run->in[FV_CONV_WEIGHT];
    const fv_tensor *bias = run->in[FV_CONV_BIAS];
    if (w->shape[1] != x->shape[1] / a.groups)
        return fv_op_mismatch(run, FV_CONV_X, FV_CONV_WEIGHT,
                              "(x and weight): expected channels / groups as the weight's axis 1");
    if (bias && bias->shape[0] != w->shape[0])
        return fv_op_mismatch(run, FV_CONV_WEIGHT, FV_CONV_BIAS,
                              "(weight and bias): expected one bias for each output channel");
    int64_t out[4] = {x->shape[0], w->shape[0], 0, 0};
    for (int axis = 0; axis < 2; axis++) {
        const int64_t reach = a.dilation[axis] * (a.window[axis] - 1);
        const int64_t room = a.in[axis] + 2 * a.pad[axis] - reach - 1;
        if (room < 0)
            return fv_op_error(run, FV_ERR_SHAPE,
                               "a window over %lld elements is larger than the padded image with "
                               "%lld",
                               (long long)reach + 1, (long long)a.in[axis] + 2 * a.pad[axis]);
        out[2 + axis] = room / a.stride[axis] + 1;
    }
    fv_spec_set(run, 0, x->dtype, 4, out);
    return FV_OK;
}

#define STEP  .stride = {1, 1}, .dilation = {1, 1}
#define THREE .n_in = 3
static const fv_conv2d_options plain = {STEP, .groups = 1};
static const fv_conv2d_options padded = {STEP, .padding = {1, 2}, .groups = 1};
static const fv_conv2d_options strided = {
    .stride = {2, 3}, .padding = {1, 0}, .dilation = {1, 1}, .groups = 1};
static const fv_conv2d_options dilated = {
    .stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 3}, .groups = 1};
static const fv_conv2d_options grouped = {STEP, .padding = {1, 1}, .groups = 2};

static const fv_op_case cases[] = {
    {.name = "bias",
     .params = &plain,
     THREE,
     .in = {FV_IN(NORMAL, 2, 3, 4, 5), FV_IN(NORMAL, 2, 3, 3, 2), FV_IN(NORMAL, 2)}},
    {.name = "padded",
     .params = &padded,
     THREE,
     .in = {FV_IN(NORMAL, 1, 2, 2, 2), FV_IN(NORMAL, 2, 2, 2, 1), FV_IN_NONE}},
    {.name = "strided",
     .params = &strided,
     THREE,
     .in = {FV_IN(NORMAL, 2, 2, 5, 6), FV_IN(NORMAL, 2, 2, 3, 2), FV_IN(NORMAL, 2)}},
    {.name = "dilated",
     .params = &dilated,
     THREE,
     .in = {FV_IN(NORMAL, 2, 2, 4, 5), FV_IN(NORMAL, 2, 2, 3, 2), FV_IN_NONE}},
    {.name = "groups",
     .params = &grouped,
     THREE,
     .in = {FV_IN(NORMAL, 2, 4, 3, 3), FV_IN(NORMAL, 6, 2, 2, 2), FV_IN(NORMAL, 6)}},
    {.name = "one tap",
     .params = &plain,
     THREE,
     .in = {FV_IN(NORMAL, 2, 3, 3, 3), FV_IN(NORMAL, 4, 3, 1, 1), FV_IN_NONE}},
    {.name = "no batch",
     .params = &plain,
     THREE,
     .in = {FV_IN(NORMAL, 0, 2, 3, 3), FV_IN(NORMAL, 1, 2, 2, 2), FV_IN(NORMAL, 1)}},
    {.name = "no channels",
     .params = &plain,
     THREE,
     .in = {FV_IN(NORMAL, 1, 0, 2, 2), FV_IN(NORMAL, 2, 0, 2, 2), FV_IN(NORMAL, 2)}},
};

const fv_op_desc fv_op_conv2d = {
    .id = FV_OP_CONV2D,
    .name = "conv2d",
    .formula = "y[n,o,i,j] = bias[o] + sum_c,a,b w[o,c,a,b] x[n,c,is-p+ad,js-p+bd]",
    .min_in = 3,
    .max_in = 3,
    .params_bytes = sizeof(fv_conv2d_options),
    .infer = infer,
    .forward = fv_conv2d_forward,
    .backward = fv_conv2d_backward,
    .finite_inputs = 1u << FV_CONV_WEIGHT,
    FV_CASES(cases),
};
