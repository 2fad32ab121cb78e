/*
 * Images x [n, c, h, w] at another size, resampled at positions that kernels/image.h defines.
 *   nearest:  y copies one element, so dx there += g.
 *   bilinear: y is a fixed weighted mean of four elements, so each gets its weight times g:
 *   terms 0 to 3.
 */
#include "fovea/image.h"
#include "kernels/image.h"
#include "ops/planes.h"
#include "ops/rows.h"

typedef struct resize2d_params {
    int64_t size[2];
    bool align_corners;
} resize2d_params;

fv_tensor *fv_resize_nearest(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width)
{
    const resize2d_params params = {.size = {height, width}};
    return fv_op_apply(ctx, FV_OP_RESIZE_NEAREST, 1, &x, &params);
}

fv_tensor *fv_resize_bilinear(fv_ctx *ctx, fv_tensor *x, int64_t height, int64_t width,
                              bool align_corners)
{
    const resize2d_params params = {.size = {height, width}, .align_corners = align_corners};
    return fv_op_apply(ctx, FV_OP_RESIZE_BILINEAR, 1, &x, &params);
}

static fv_status infer(fv_op_run *run)
{
    const resize2d_params *p = run->params;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_rank(run, 0, 4, 4));
    const fv_tensor *x = run->in[0];
    if (p->size[0] < 1 || p->size[1] < 1 || p->size[0] > INT32_MAX || p->size[1] > INT32_MAX)
        return fv_op_error(run, FV_ERR_ARGUMENT, "size %lld x %lld, expected 1 to %lld",
                           (long long)p->size[0], (long long)p->size[1], (long long)INT32_MAX);
    if (x->shape[2] < 1 || x->shape[3] < 1)
        return fv_op_error(run, FV_ERR_SHAPE, "the image has no elements");
    fv_spec_set(run, 0, x->dtype, 4, (int64_t[]){x->shape[0], x->shape[1], p->size[0], p->size[1]});
    return FV_OK;
}

static fv_resize2d_args args_of(const fv_op_desc *desc, const resize2d_params *p, const int64_t *x)
{
    return (fv_resize2d_args){.planes = x[0] * x[1],
                              .in = {x[2], x[3]},
                              .out = {p->size[0], p->size[1]},
                              .bilinear = desc->id == FV_OP_RESIZE_BILINEAR,
                              .align_corners = p->align_corners};
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[0]), *out = run->out[0];
    if (ctx->error != FV_OK) return;
    const fv_resize2d_args args = args_of(run->desc, run->params, x->shape);
    if (out->count > 0)
        fv_launch(ctx, FV_KERNEL_RESIZE2D, x->dtype, (void *[]){out->data, x->data}, &args,
                  sizeof args);
    fv_drop_copy(ctx, x, run->in[0]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]), *dx = fv_back_new(back, 0);
    if (ctx->error != FV_OK) return;
    const fv_resize2d_args args = args_of(back->desc, back->params, dx->shape);
    if (dx->count > 0)
        fv_launch(ctx, FV_KERNEL_RESIZE2D_GRAD, g->dtype, (void *[]){dx->data, g->data}, &args,
                  sizeof args);
    fv_back_send(back, 0, dx);
}

static const resize2d_params larger = {.size = {5, 7}};
static const resize2d_params smaller = {.size = {2, 3}};
static const resize2d_params twice = {.size = {6, 8}};
static const resize2d_params corners = {.size = {5, 4}, .align_corners = true};
static const resize2d_params point = {.size = {1, 1}, .align_corners = true};

static const fv_op_case cases[] = {
    {.name = "larger", .params = &larger, .n_in = 1, .in = {FV_IN(NORMAL, 2, 1, 3, 4)}},
    {.name = "twice", .params = &twice, .n_in = 1, .in = {FV_IN(NORMAL, 1, 2, 3, 4)}},
    {.name = "smaller", .params = &smaller, .n_in = 1, .in = {FV_IN(NORMAL, 1, 2, 5, 4)}},
    {.name = "corners", .params = &corners, .n_in = 1, .in = {FV_IN(NORMAL, 1, 2, 3, 3)}},
    {.name = "to one", .params = &point, .n_in = 1, .in = {FV_IN(NORMAL, 1, 2, 3, 2)}},
    {.name = "from one", .params = &larger, .n_in = 1, .in = {FV_IN(NORMAL, 2, 2, 1, 1)}},
    {.name = "no batch", .params = &larger, .n_in = 1, .in = {FV_IN(NORMAL, 0, 2, 3, 3)}},
};

FV_PLANES_OP(RESIZE_NEAREST, resize_nearest, "y = x at the nearest element above or left",
             resize2d_params, 0);
FV_PLANES_OP(RESIZE_BILINEAR, resize_bilinear, "y = the weighted mean of four neighbours in x",
             resize2d_params, 4);
