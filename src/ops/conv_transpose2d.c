/*
 * The transpose of a convolution with weight w [c, out/groups, kh, kw], which makes c channels from
 * out channels: y[n,o, i s - p + a d, j s - p + b d] += w[c,o,a,b] x[n,c,i,j], + bias[o]. Hence
 *   dx = that convolution of g,  dw = its weight's gradient with g as its input and x as its
 * result, dbias[o] = the sum over n and pixels of g[n,o].
 */
#include "ops/conv2d.h"

fv_tensor *fv_conv_transpose2d(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                               const fv_conv2d_options *options)
{
    const fv_conv2d_options params = fv_conv2d_defaults(options);
    return fv_op_apply(ctx, FV_OP_CONV_TRANSPOSE2D, 3, (fv_tensor *[]){x, weight, bias}, &params);
}

/* (in - 1) stride - 2 pad + dilation (window - 1) + extra + 1: the factors are below 2^31, and in
 * times stride is checked here. */
static fv_status output_size(fv_op_run *run, const fv_conv2d_args *a, int axis, int64_t extra,
                             int64_t *out)
{
    const int64_t in = a->in[axis], stride = a->stride[axis], dilation = a->dilation[axis];
    if (extra < 0 || (extra >= stride && extra >= dilation))
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "output padding %lld, expected at least 0 and less than stride %lld or "
                           "dilation %lld",
                           (long long)extra, (long long)stride, (long long)dilation);
    *out = (in - 1) * stride - 2 * a->pad[axis] + dilation * (a->window[axis] - 1) + extra + 1;
    if (in < 1 || in > INT32_MAX || *out < 1)
        return fv_op_error(run, FV_ERR_SHAPE, "an image of size %lld gives one of size %lld",
                           (long long)in, (long long)*out);
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    fv_conv2d_args a;
    FV_TRY(fv_conv2d_check(run, &a));
    const fv_conv2d_options *o = run->params;
    const fv_tensor *x = run->in[FV_CONV_X], *w = run->in[FV_CONV_WEIGHT];
    const fv_tensor *bias = run->in[FV_CONV_BIAS];
    if (w->shape[0] != x->shape[1])
        return fv_op_mismatch(run, FV_CONV_X, FV_CONV_WEIGHT,
                              "(x and weight): expected channels as the weight's axis 0");
    const int64_t outputs = w->shape[1] * a.groups;
    if (bias && bias->shape[0] != outputs)
        return fv_op_mismatch(run, FV_CONV_WEIGHT, FV_CONV_BIAS,
                              "(weight and bias): expected one bias for each output channel");
    int64_t out[4] = {x->shape[0], outputs, 0, 0};
    for (int axis = 0; axis < 2; axis++)
        FV_TRY(output_size(run, &a, axis, o->output_padding[axis], &out[2 + axis]));
    fv_spec_set(run, 0, x->dtype, 4, out);
    return FV_OK;
}

static const fv_conv2d_options plain = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
static const fv_conv2d_options twice = {
    .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
static const fv_conv2d_options odd = {
    .stride = {3, 2}, .padding = {1, 0}, .dilation = {2, 1}, .groups = 1, .output_padding = {2, 1}};
static const fv_conv2d_options grouped = {.stride = {2, 1}, .dilation = {1, 1}, .groups = 2};
static const fv_conv2d_options wide = {
    .stride = {1, 1}, .dilation = {3, 3}, .groups = 1, .output_padding = {2, 2}};

static const fv_op_case cases[] = {
    {.name = "bias",
     .params = &plain,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 3, 4), FV_IN(NORMAL, 2, 3, 2, 3), FV_IN(NORMAL, 3)}},
    {.name = "twice",
     .params = &twice,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 4, 4, 3), FV_IN(NORMAL, 4, 2, 4, 4), FV_IN(NORMAL, 2)}},
    {.name = "output padding",
     .params = &odd,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 4, 3), FV_IN(NORMAL, 2, 2, 2, 3), FV_IN_NONE}},
    {.name = "groups",
     .params = &grouped,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 4, 2, 3), FV_IN(NORMAL, 4, 3, 3, 2), FV_IN(NORMAL, 6)}},
    {.name = "output padding past the stride",
     .params = &wide,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 4, 4), FV_IN(NORMAL, 2, 2, 2, 2), FV_IN(NORMAL, 2)}},
    {.name = "small",
     .params = &twice,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 2, 2, 2), FV_IN(NORMAL, 2, 1, 2, 2), FV_IN(NORMAL, 1)}},
    {.name = "no batch",
     .params = &plain,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 2, 3, 3), FV_IN(NORMAL, 2, 1, 2, 2), FV_IN(NORMAL, 1)}},
};

const fv_op_desc fv_op_conv_transpose2d = {
    .id = FV_OP_CONV_TRANSPOSE2D,
    .name = "conv_transpose2d",
    .formula = "y[n,o,is-p+ad,js-p+bd] = bias[o] + sum_c,a,b w[c,o,a,b] x[n,c,i,j]",
    .min_in = 3,
    .max_in = 3,
    .params_bytes = sizeof(fv_conv2d_options),
    .infer = infer,
    .forward = fv_conv2d_forward,
    .backward = fv_conv2d_backward,
    .finite_inputs = 1u << FV_CONV_WEIGHT,
    FV_CASES(cases),
};
