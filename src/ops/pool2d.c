/*
 * The maximum or the average of each window of x [n, c, h, w].
 *   max:  y = x at the first largest element of the window, so dx there += g.
 *   mean: y = sum / d, so dx += g / d in the whole window; d counts the window's elements inside
 *   the image, or inside the padded image.
 */
#include "fovea/image.h"
#include "kernels/image.h"
#include "ops/planes.h"
#include "ops/rows.h"

typedef struct pool2d_params {
    bool missing; /* the options were NULL */
    bool adaptive, exclude_padding;
    int64_t window[2]; /* adaptive: the size of the result */
    int64_t stride[2], padding[2];
} pool2d_params;

static fv_tensor *pool(fv_ctx *ctx, fv_op_id id, fv_tensor *x, const fv_pool2d_options *o)
{
    pool2d_params params = {.missing = !o};
    if (o) params.exclude_padding = o->exclude_padding;
    for (int axis = 0; o && axis < 2; axis++) {
        params.window[axis] = o->window[axis];
        params.stride[axis] = o->stride[axis] ? o->stride[axis] : o->window[axis];
        params.padding[axis] = o->padding[axis];
    }
    return fv_op_apply(ctx, id, 1, &x, &params);
}

fv_tensor *fv_max_pool2d(fv_ctx *ctx, fv_tensor *x, const fv_pool2d_options *options)
{
    return pool(ctx, FV_OP_MAX_POOL2D, x, options);
}

fv_tensor *fv_avg_pool2d(fv_ctx *ctx, fv_tensor *x, const fv_pool2d_options *options)
{
    return pool(ctx, FV_OP_AVG_POOL2D, x, options);
}

fv_tensor *fv_adaptive_max_pool2d(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width)
{
    const pool2d_params params = {.adaptive = true, .window = {height, width}};
    return fv_op_apply(ctx, FV_OP_MAX_POOL2D, 1, &x, &params);
}

fv_tensor *fv_adaptive_avg_pool2d(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width)
{
    const pool2d_params params = {.adaptive = true, .window = {height, width}};
    return fv_op_apply(ctx, FV_OP_AVG_POOL2D, 1, &x, &params);
}

static fv_status output_size(fv_op_run *run, const pool2d_params *p, int axis, int64_t in,
                             int64_t *out)
{
    const int64_t largest = INT32_MAX, window = p->window[axis];
    if (window < 1 || window > largest)
        return fv_op_error(run, FV_ERR_ARGUMENT, "%s %lld, expected 1 to %lld",
                           p->adaptive ? "size" : "window", (long long)window, (long long)largest);
    if (in < 1) return fv_op_error(run, FV_ERR_SHAPE, "the image has no elements");
    *out = window;
    if (p->adaptive) return FV_OK;
    const int64_t stride = p->stride[axis], pad = p->padding[axis];
    if (stride < 1 || stride > largest || pad < 0 || pad > window / 2)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "stride %lld, padding %lld: expected 1 to %lld, and 0 to half of the "
                           "window of %lld",
                           (long long)stride, (long long)pad, (long long)largest,
                           (long long)window);
    if (in + 2 * pad < window)
        return fv_op_error(run, FV_ERR_SHAPE,
                           "a window of %lld is larger than the padded image with %lld",
                           (long long)window, (long long)in + 2 * pad);
    *out = (in + 2 * pad - window) / stride + 1;
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    const pool2d_params *p = run->params;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_rank(run, 0, 4, 4));
    if (p->missing) return fv_op_error(run, FV_ERR_ARGUMENT, "options are NULL");
    const fv_tensor *x = run->in[0];
    int64_t out[4] = {x->shape[0], x->shape[1], 0, 0};
    for (int axis = 0; axis < 2; axis++)
        FV_TRY(output_size(run, p, axis, x->shape[2 + axis], &out[2 + axis]));
    fv_spec_set(run, 0, x->dtype, 4, out);
    return FV_OK;
}

static fv_pool2d_args args_of(const fv_op_desc *desc, const pool2d_params *p, const int64_t *x,
                              const int64_t *y)
{
    fv_pool2d_args args = {.planes = x[0] * x[1],
                           .max = desc->id == FV_OP_MAX_POOL2D,
                           .adaptive = p->adaptive,
                           .count_padding = !p->exclude_padding};
    for (int axis = 0; axis < 2; axis++) {
        args.in[axis] = x[2 + axis];
        args.out[axis] = y[2 + axis];
        args.window[axis] = p->window[axis];
        args.stride[axis] = p->stride[axis];
        args.pad[axis] = p->padding[axis];
    }
    return args;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[0]), *out = run->out[0];
    if (ctx->error != FV_OK) return;
    const fv_pool2d_args args = args_of(run->desc, run->params, x->shape, out->shape);
    if (out->count > 0)
        fv_launch(ctx, FV_KERNEL_POOL2D, x->dtype, (void *[]){out->data, x->data}, &args,
                  sizeof args);
    if (args.max) fv_save(run, 0, x);
    if (!run->recording || !args.max) fv_drop_copy(ctx, x, run->in[0]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]), *dx = fv_back_new(back, 0);
    if (ctx->error != FV_OK) return;
    const fv_pool2d_args args = args_of(back->desc, back->params, dx->shape, g->shape);
    if (dx->count > 0)
        fv_launch(ctx, FV_KERNEL_POOL2D_GRAD, g->dtype,
                  (void *[]){dx->data, g->data, args.max ? back->saved[0]->data : NULL}, &args,
                  sizeof args);
    fv_back_send(back, 0, dx);
}

static const pool2d_params two = {.window = {2, 2}, .stride = {2, 2}};
static const pool2d_params padded = {.window = {3, 2}, .stride = {2, 1}, .padding = {1, 1}};
static const pool2d_params inside = {
    .window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .exclude_padding = true};
static const pool2d_params past = {.window = {2, 3}, .stride = {3, 2}, .padding = {1, 1}};
static const pool2d_params to_size = {.adaptive = true, .window = {3, 2}};

static const fv_op_case cases[] = {
    {.name = "2x2", .params = &two, .n_in = 1, .in = {FV_IN(APART, 2, 2, 4, 5)}},
    {.name = "padded", .params = &padded, .n_in = 1, .in = {FV_IN(APART, 1, 2, 5, 4)}},
    {.name = "inside", .params = &inside, .n_in = 1, .in = {FV_IN(APART, 1, 2, 4, 5)}},
    {.name = "stride past the window",
     .params = &past,
     .n_in = 1,
     .in = {FV_IN(APART, 1, 2, 5, 6)}},
    {.name = "adaptive", .params = &to_size, .n_in = 1, .in = {FV_IN(APART, 2, 1, 4, 5)}},
    {.name = "adaptive, larger", .params = &to_size, .n_in = 1, .in = {FV_IN(APART, 1, 2, 2, 1)}},
    {.name = "no batch", .params = &two, .n_in = 1, .in = {FV_IN(APART, 0, 2, 2, 2)}},
};

FV_PLANES_OP(MAX_POOL2D, max_pool2d, "y = the largest of each window of x", pool2d_params, 0);
FV_PLANES_OP(AVG_POOL2D, avg_pool2d, "y = the mean of each window of x", pool2d_params, 0);
