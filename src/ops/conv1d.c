/*
 * Causal dilated convolution: y[b,o,t] = bias[o] + sum_c sum_j w[o,c,j] x[b,c, t - (K-1-j) d], with
 * x = 0 before its start. With the windows as rows u[b,t,(c,j)] it is y[b] = w u[b]^T + bias, so
 *   du[b,t,:] = sum_o g[b,o,t] w[o,:],  dx = du folded: each x sums over its windows,
 *   dw = sum over b and t of g[b,o,t] u[b,t,:],  dbias = sum over b and t of g.
 * The windows are K times as large as x, so backward computes them again instead of saving them.
 */
#include "base/checked_math.h"
#include "kernels/conv.h"
#include "kernels/reduce.h"
#include "ops/product.h"
#include "ops/rows.h"

enum { X, WEIGHT, BIAS };

typedef struct conv1d_params {
    int64_t dilation;
} conv1d_params;

fv_tensor *fv_conv1d_causal(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                            int64_t dilation)
{
    const conv1d_params params = {dilation};
    return fv_op_apply(ctx, FV_OP_CONV1D, 3, (fv_tensor *[]){x, weight, bias}, &params);
}

static fv_status infer(fv_op_run *run)
{
    const conv1d_params *params = run->params;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, X, 3, 3));
    FV_TRY(fv_need_rank(run, WEIGHT, 3, 3));
    const fv_tensor *x = run->in[X], *w = run->in[WEIGHT], *bias = run->in[BIAS];
    if (x->shape[1] != w->shape[1])
        return fv_op_mismatch(run, X, WEIGHT, "(x and weight) have different numbers of channels");
    if (bias && (bias->rank != 1 || bias->shape[0] != w->shape[0]))
        return fv_op_mismatch(run, WEIGHT, BIAS,
                              "(weight and bias): expected one bias for each output channel");
    int64_t reach;
    if (w->shape[2] < 1 || params->dilation < 1 ||
        !fv_checked_mul_i64(w->shape[2], params->dilation, &reach) ||
        !fv_checked_add_i64(reach, x->shape[2], &reach))
        return fv_op_error(run, FV_ERR_ARGUMENT, "invalid kernel size %lld or dilation %lld",
                           (long long)w->shape[2], (long long)params->dilation);
    fv_spec_set(run, 0, x->dtype, 3, (int64_t[]){x->shape[0], w->shape[0], x->shape[2]});
    return FV_OK;
}

/* The sizes of one call; taps is channels x K, the length of a window. */
typedef struct conv_sizes {
    fv_unfold_args unfold;
    int64_t outputs, taps;
} conv_sizes;

static conv_sizes sizes_of(const void *params, const int64_t *x, const int64_t *w)
{
    return (conv_sizes){.unfold = {.batch = x[0],
                                   .channels = x[1],
                                   .length = x[2],
                                   .k = w[2],
                                   .dilation = ((const conv1d_params *)params)->dilation},
                        .outputs = w[0],
                        .taps = x[1] * w[2]};
}

/* An uninitialised tensor for the windows of all time steps. */
static fv_tensor *new_windows(fv_ctx *ctx, fv_dtype dtype, const conv_sizes *n)
{
    return fv_tensor_new(ctx, dtype, 3, (int64_t[]){n->unfold.batch, n->unfold.length, n->taps});
}

static fv_tensor *unfold(fv_ctx *ctx, const conv_sizes *n, fv_tensor *x)
{
    fv_tensor *windows = new_windows(ctx, x->dtype, n);
    if (ctx->error != FV_OK || windows->count == 0) return windows;
    fv_launch(ctx, FV_KERNEL_UNFOLD1D, x->dtype, (void *[]){windows->data, x->data}, &n->unfold,
              sizeof n->unfold);
    return windows;
}

/* One product for each member of the batch. */
static void multiply(fv_ctx *ctx, fv_dtype dtype, fv_gemm gemm, const conv_sizes *n,
                     const int64_t batch_step[3], void *c, void *a, void *b)
{
    gemm.batch = gemm.batch_shape[0] = n->unfold.batch;
    gemm.batch_rank = 1;
    gemm.c_batch[0] = batch_step[0];
    gemm.a_batch[0] = batch_step[1];
    gemm.b_batch[0] = batch_step[2];
    fv_product_launch(ctx, dtype, &gemm, (void *[6]){c, a, b});
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *w = fv_contiguous_raw(ctx, run->in[WEIGHT]);
    fv_tensor *bias = run->in[BIAS], *out = run->out[0];
    const conv_sizes n = sizes_of(run->params, x->shape, w->shape);
    const int64_t length = n.unfold.length;
    fv_tensor *windows = unfold(ctx, &n, x);
    if (ctx->error != FV_OK) return;
    const fv_matrix c = fv_matrix_at(NULL, n.outputs, length);
    const fv_matrix taps = fv_matrix_at(NULL, n.outputs, n.taps);
    const fv_matrix columns = fv_matrix_transpose(fv_matrix_at(NULL, length, n.taps));
    multiply(ctx, x->dtype, fv_product_gemm(c, taps, columns), &n,
             (int64_t[]){n.outputs * length, 0, length * n.taps}, out->data, w->data,
             windows->data);
    if (bias) {
        fv_tensor *column = fv_tensor_view(ctx, bias, 2, (int64_t[]){n.outputs, 1},
                                           (int64_t[]){bias->stride[0], 0}, 0);
        fv_elementwise_args args = {.op = FV_BINARY_ADD};
        fv_launch_elementwise(ctx, FV_KERNEL_BINARY, out->dtype, &args, 3,
                              (fv_tensor *[]){out, out, column});
        fv_tensor_free(ctx, &column);
    }
    fv_tensor_free(ctx, &windows);
    fv_save(run, 0, x);
    fv_save(run, 1, w);
    if (run->recording) return;
    fv_drop_copy(ctx, x, run->in[X]);
    fv_drop_copy(ctx, w, run->in[WEIGHT]);
}

static void send_x(fv_op_back *back, const conv_sizes *n, fv_tensor *g, fv_tensor *w)
{
    fv_ctx *ctx = back->ctx;
    const int64_t length = n->unfold.length;
    fv_tensor *windows = new_windows(ctx, g->dtype, n), *dx = fv_back_new(back, X);
    if (ctx->error != FV_OK) return;
    const fv_matrix c = fv_matrix_at(NULL, length, n->taps);
    const fv_matrix a = fv_matrix_transpose(fv_matrix_at(NULL, n->outputs, length));
    multiply(ctx, g->dtype, fv_product_gemm(c, a, fv_matrix_at(NULL, n->outputs, n->taps)), n,
             (int64_t[]){length * n->taps, n->outputs * length, 0}, windows->data, g->data,
             w->data);
    if (dx->count > 0)
        fv_launch(ctx, FV_KERNEL_FOLD1D, g->dtype, (void *[]){dx->data, windows->data}, &n->unfold,
                  sizeof n->unfold);
    fv_tensor_free(ctx, &windows);
    fv_back_send(back, X, dx);
}

/* g with its output axis first is a matrix with one column for each window: one product. */
static void send_weight(fv_op_back *back, const conv_sizes *n, fv_tensor *g, fv_tensor *x)
{
    fv_ctx *ctx = back->ctx;
    const int64_t rows = n->unfold.batch * n->unfold.length;
    const int64_t shape[3] = {n->outputs, n->unfold.batch, n->unfold.length};
    const int64_t stride[3] = {g->stride[1], g->stride[0], g->stride[2]};
    fv_tensor *outputs_first = fv_tensor_view(ctx, g, 3, shape, stride, 0);
    fv_tensor *flat = fv_contiguous_raw(ctx, outputs_first), *windows = unfold(ctx, n, x);
    bool accumulate;
    fv_tensor *dw = fv_back_dest(back, WEIGHT, &accumulate);
    if (ctx->error != FV_OK) return;
    fv_product(ctx, g->dtype, fv_matrix_at(dw->data, n->outputs, n->taps),
               fv_matrix_at(flat->data, n->outputs, rows),
               fv_matrix_at(windows->data, rows, n->taps), accumulate);
    fv_back_commit(back, WEIGHT, dw, accumulate);
}

static void send_bias(fv_op_back *back, const conv_sizes *n, fv_tensor *g)
{
    fv_tensor *db = fv_back_new(back, BIAS);
    if (back->ctx->error != FV_OK) return;
    fv_reduce_args args = {.op = FV_REDUCE_SUM, .alpha = 1.0, .out_rank = 1, .red_rank = 2};
    args.out_shape[0] = n->outputs;
    args.out_stride[0] = g->stride[1];
    args.red_shape[0] = n->unfold.batch;
    args.red_stride[0] = g->stride[0];
    args.red_shape[1] = n->unfold.length;
    args.red_stride[1] = g->stride[2];
    if (db->count > 0)
        fv_launch(back->ctx, FV_KERNEL_REDUCE, g->dtype, (void *[]){db->data, NULL, g->data}, &args,
                  sizeof args);
    fv_back_send(back, BIAS, db);
}

static void backward(fv_op_back *back)
{
    fv_tensor *x = back->saved[0], *w = back->saved[1];
    fv_tensor *g = fv_contiguous_raw(back->ctx, back->grad[0]);
    const conv_sizes n = sizes_of(back->params, x->shape, w->shape);
    if (fv_back_wants(back, X)) send_x(back, &n, g, w);
    if (fv_back_wants(back, WEIGHT) && back->ctx->error == FV_OK) send_weight(back, &n, g, x);
    if (fv_back_wants(back, BIAS)) send_bias(back, &n, g);
}

static const conv1d_params near = {1}, apart = {2};

static const fv_op_case cases[] = {
    {.name = "bias",
     .params = &apart,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 3, 6), FV_IN(NORMAL, 2, 3, 2), FV_IN(NORMAL, 2)}},
    {.name = "plain",
     .params = &near,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 2, 5), FV_IN(NORMAL, 3, 2, 3), FV_IN_NONE}},
    {.name = "shorter than its window",
     .params = &apart,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 1, 2), FV_IN(NORMAL, 1, 1, 3), FV_IN(NORMAL, 1)}},
    {.name = "no batch",
     .params = &near,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 2, 4), FV_IN(NORMAL, 3, 2, 2), FV_IN(NORMAL, 3)}},
    {.name = "no time",
     .params = &near,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 0), FV_IN(NORMAL, 3, 2, 2), FV_IN(NORMAL, 3)}},
};

const fv_op_desc fv_op_conv1d = {
    .id = FV_OP_CONV1D,
    .name = "conv1d",
    .formula = "y[b,o,t] = bias[o] + sum_c,j w[o,c,j] x[b,c,t-(K-1-j)d]",
    .min_in = 3,
    .max_in = 3,
    .params_bytes = sizeof(conv1d_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};
