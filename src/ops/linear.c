/*
 * y = act(u) + residual,  u = x W^T + b,  x [..., in] taken as rows, W [out, in].
 *   with du = g act'(u):
 *   u(r,o) = sum_i x(r,i) W(o,i) + b(o), hence
 *   dx = du W,  dW = du^T x,  db = the sum of du over the rows,  dresidual = g.
 *
 * act' needs u for the GELUs and SiLU and act(u) for the others. While recording, the product's
 * epilogue also writes what is needed (aux). In backward, db comes from the launch that makes dW.
 *
 * In mixed precision (fv_ctx_set_compute) y is bf16, and so is du. The three products take bf16
 * operands and sum in float: W by its bf16 copy, an f32 x rounded on its way. dW and db are f32.
 * Panels of bf16 and int8 take the place of the copy where products are faster in bf16; other
 * panels are multiplied in f32, and y is f32.
 *
 * With an activation of the input, h = in_act(x) takes the place of x in u. h is not kept, and
 *   dx = (du W) in_act'(x).
 */
#include "kernels/level.h"
#include "ops/product.h"
#include "ops/rows.h"
#include "tensor/bf16_copy.h"

typedef struct linear_params {
    fv_act act, in_act;
    bool wide; /* y is f32 in mixed precision too */
} linear_params;

enum { X, WEIGHT, BIAS, RESIDUAL };
enum { SAVED_X, SAVED_WEIGHT, SAVED_ACT };

fv_tensor *fv_linear(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias)
{
    return fv_linear_act(ctx, x, weight, bias, FV_ACT_NONE, NULL);
}

/* Whether a weight has panels that only products of f32 read: panels of floats, and any where
 * products are not faster in bf16. */
static bool takes_f32_only(const fv_ctx *ctx, const fv_tensor *w)
{
    return fv_weight_packed(w) &&
           (w->packed_form == (int)FV_WEIGHT_F32 || !fv_product_prefers_bf16(ctx));
}

static fv_tensor *apply(fv_ctx *ctx, linear_params params, fv_tensor *x, fv_tensor *weight,
                        fv_tensor *bias, fv_tensor *residual)
{
    if (weight && takes_f32_only(ctx, weight)) {
        if (x && x->dtype == FV_BF16) x = fv_cast(ctx, x, FV_F32);
        if (residual && residual->dtype == FV_BF16) residual = fv_cast(ctx, residual, FV_F32);
    }
    return fv_op_apply(ctx, FV_OP_LINEAR, 4, (fv_tensor *[]){x, weight, bias, residual}, &params);
}

fv_tensor *fv_linear_act(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias, fv_act act,
                         fv_tensor *residual)
{
    return apply(ctx, (linear_params){.act = act}, x, weight, bias, residual);
}

fv_tensor *fv_linear_wide(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias)
{
    return apply(ctx, (linear_params){.wide = true}, x, weight, bias, NULL);
}

fv_tensor *fv_act_linear(fv_ctx *ctx, fv_tensor *x, fv_act act, fv_tensor *weight, fv_tensor *bias,
                         fv_tensor *residual)
{
    return apply(ctx, (linear_params){.in_act = act}, x, weight, bias, residual);
}

fv_status fv_ctx_set_compute(fv_ctx *ctx, fv_dtype dtype)
{
    FV_RETURN_IF(dtype != FV_F32 && dtype != FV_BF16, ctx, FV_ERR_DTYPE,
                 "linear layers compute in f32 or bf16, got %s", fv_dtype_name(dtype));
    ctx->compute = (int)dtype;
    return FV_OK;
}

fv_dtype fv_ctx_compute(const fv_ctx *ctx) { return (fv_dtype)ctx->compute; }

bool fv_product_prefers_bf16(const fv_ctx *ctx)
{
    if (ctx->device->ops->traits.wants_bf16) return true;
#ifdef __x86_64__
    return ctx->simd == FV_SIMD_AMX || (ctx->simd == FV_SIMD_AVX512 && fv_bf16_usable());
#else
    return false;
#endif
}

/* Which function an activation is, and whether its derivative is a function of y. */
typedef struct act_info {
    fv_unary op;
    bool grad_from_y;
} act_info;

static act_info info_of(fv_act act)
{
    switch (act) {
    case FV_ACT_RELU:
        return (act_info){FV_UNARY_RELU, true};
    case FV_ACT_TANH:
        return (act_info){FV_UNARY_TANH, true};
    case FV_ACT_SIGMOID:
        return (act_info){FV_UNARY_SIGMOID, true};
    case FV_ACT_GELU:
        return (act_info){FV_UNARY_GELU, false};
    case FV_ACT_GELU_TANH:
        return (act_info){FV_UNARY_GELU_TANH, false};
    case FV_ACT_QUICK_GELU:
        return (act_info){FV_UNARY_QUICK_GELU, false};
    default:
        return (act_info){FV_UNARY_SILU, false};
    }
}

bool fv_act_needs_argument(fv_act act) { return act != FV_ACT_NONE && !info_of(act).grad_from_y; }

/* What the result is rounded to, and with bf16 also the operands. */
static fv_dtype dtype_of_product(const fv_op_run *run)
{
    return takes_f32_only(run->ctx, run->in[WEIGHT]) ? run->in[X]->dtype : fv_result_dtype(run);
}

static fv_status infer(fv_op_run *run)
{
    const linear_params *params = run->params;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_not_frozen(run, WEIGHT));
    FV_TRY(fv_need_rank(run, X, 1, FV_MAX_RANK));
    FV_TRY(fv_need_rank(run, WEIGHT, 2, 2));
    const fv_act acts[] = {params->act, params->in_act};
    for (int i = 0; i < 2; i++)
        if (acts[i] < FV_ACT_NONE || acts[i] >= FV_ACT_COUNT)
            return fv_op_error(run, FV_ERR_ARGUMENT, "unknown activation %d", (int)acts[i]);
    const fv_tensor *x = run->in[X], *w = run->in[WEIGHT];
    if (x->shape[x->rank - 1] != w->shape[1])
        return fv_op_mismatch(run, X, WEIGHT, "(x and weight) differ in their last axis");
    fv_spec_like(run, 0, X);
    run->spec[0].dtype = params->wide ? fv_wide_dtype(x->dtype) : dtype_of_product(run);
    run->spec[0].shape[x->rank - 1] = w->shape[0];
    const fv_tensor *bias = run->n_in > BIAS ? run->in[BIAS] : NULL;
    const fv_tensor *residual = run->n_in > RESIDUAL ? run->in[RESIDUAL] : NULL;
    if (bias && (bias->rank != 1 || bias->shape[0] != w->shape[0]))
        return fv_op_mismatch(run, WEIGHT, BIAS,
                              "(weight and bias): expected one bias for each row of the weight");
    if (residual && !fv_shape_equal(residual->rank, residual->shape, x->rank, run->spec[0].shape)) {
        char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
        return fv_op_error(run, FV_ERR_SHAPE, "the residual has shape %s, expected %s",
                           fv_shape_text(a, residual->rank, residual->shape),
                           fv_shape_text(b, x->rank, run->spec[0].shape));
    }
    return FV_OK;
}

/* The weight as a product reads it: with `bf16` its copy, unless it has strides that no product
 * takes; then *w becomes a contiguous one. */
static fv_matrix weight_matrix(fv_ctx *ctx, fv_tensor **w, bool bf16)
{
    const fv_tensor *given = *w;
    fv_matrix m = fv_matrix_of(ctx, w);
    if (!bf16 || *w != given || given->count == 0 || ctx->error != FV_OK) return m;
    m.data = fv_bf16_copy(ctx, given);
    m.bf16 = true;
    return m;
}

/* The residual without gaps and in the result's dtype. */
static fv_tensor *plain_residual_of(fv_ctx *ctx, fv_tensor *residual, fv_dtype dtype)
{
    if (!residual || ctx->error != FV_OK || residual->dtype == dtype)
        return residual ? fv_contiguous_raw(ctx, residual) : NULL;
    fv_tensor *copy = fv_tensor_new(ctx, dtype, residual->rank, residual->shape);
    if (ctx->error == FV_OK) fv_copy_into(ctx, copy, residual);
    return copy;
}

/* act(x), in a tensor of its own unless there is no activation. */
static fv_tensor *activated(fv_ctx *ctx, fv_tensor *x, fv_act act)
{
    if (act == FV_ACT_NONE) return x;
    fv_tensor *h = fv_tensor_like(ctx, x);
    fv_elementwise_args args = {.op = (int)info_of(act).op};
    if (ctx->error == FV_OK)
        fv_launch_elementwise(ctx, FV_KERNEL_UNARY, x->dtype, &args, 2, (fv_tensor *[]){h, x});
    return h;
}

/* out = act(x W^T + b) + residual in one launch, where b and residual may be NULL. aux gets what
 * `kind` says, or is NULL. */
static void launch_fused(fv_op_run *run, fv_gemm_aux kind, fv_tensor *aux)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *out = run->out[0], *x = run->in[X], *w = run->in[WEIGHT];
    fv_tensor *bias = run->n_in > BIAS ? run->in[BIAS] : NULL;
    fv_tensor *residual = run->n_in > RESIDUAL ? run->in[RESIDUAL] : NULL;
    const bool bf16 = dtype_of_product(run) == FV_BF16;
    const linear_params *params = run->params;
    fv_tensor *h = activated(ctx, x, params->in_act);
    fv_tensor *x_rows = h, *w_rows = w, *plain_bias = bias;
    const bool packed = fv_weight_packed(w);
    fv_matrix mx = fv_matrix_of(ctx, &x_rows), mw = weight_matrix(ctx, &w_rows, bf16 && !packed);
    if (bias) plain_bias = fv_contiguous_raw(ctx, bias);
    fv_tensor *plain_residual = plain_residual_of(ctx, residual, out->dtype);
    if (ctx->error != FV_OK) return;

    fv_matrix c = fv_matrix_at(out->data, mx.rows, mw.rows);
    c.bf16 = out->dtype == FV_BF16;
    fv_gemm gemm = fv_product_gemm(c, mx, fv_matrix_transpose(mw));
    gemm.act = params->act;
    gemm.bf16 = bf16;
    gemm.aux = kind;
    void *b = mw.data;
    if (packed) {
        gemm.b_packed = 1;
        gemm.b_form = (fv_weight_form)w->packed_form;
        b = w->packed->data;
    }
    fv_product_launch(ctx, out->dtype, &gemm,
                      (void *[6]){c.data, mx.data, b, bias ? plain_bias->data : NULL,
                                  residual ? plain_residual->data : NULL, aux ? aux->data : NULL});
    fv_drop_copy(ctx, x_rows, h);
    fv_drop_copy(ctx, h, x);
    fv_drop_copy(ctx, w_rows, w);
    fv_drop_copy(ctx, plain_bias, bias);
    fv_drop_copy(ctx, plain_residual, residual);
}

/* Computes the result and returns what backward needs of the activation: u, or act(u), which is the
 * result itself if there is no residual. */
static fv_tensor *forward_recorded(fv_op_run *run, fv_act act)
{
    fv_ctx *ctx = run->ctx;
    const bool from_y = info_of(act).grad_from_y;
    const bool has_residual = run->n_in > RESIDUAL && run->in[RESIDUAL];
    if (from_y && !has_residual) {
        launch_fused(run, FV_GEMM_AUX_NONE, NULL);
        return run->out[0];
    }
    fv_tensor *aux = fv_tensor_like(ctx, run->out[0]);
    if (ctx->error == FV_OK) launch_fused(run, from_y ? FV_GEMM_AUX_ACT : FV_GEMM_AUX_SUM, aux);
    return aux;
}

static void forward(fv_op_run *run)
{
    const linear_params *params = run->params;
    fv_tensor *saved = NULL;
    if (run->recording && params->act != FV_ACT_NONE)
        saved = forward_recorded(run, params->act);
    else
        launch_fused(run, FV_GEMM_AUX_NONE, NULL);
    const bool keeps_x = fv_tensor_tracked(run->in[WEIGHT]) || params->in_act != FV_ACT_NONE;
    fv_save(run, SAVED_X, keeps_x ? run->in[X] : NULL);
    fv_save(run, SAVED_WEIGHT, fv_tensor_tracked(run->in[X]) ? run->in[WEIGHT] : NULL);
    fv_save(run, SAVED_ACT, saved);
}

/* g act'(u), from u or y = act(u), whichever act' is a function of. */
static fv_tensor *activation_grad(fv_ctx *ctx, fv_act act, fv_tensor *g, fv_tensor *u, fv_tensor *y)
{
    if (act == FV_ACT_NONE) return g;
    const act_info info = info_of(act);
    fv_tensor *du = fv_tensor_like(ctx, g);
    if (ctx->error != FV_OK) return du;
    fv_elementwise_args args = {.op = (int)info.op};
    fv_launch_elementwise(
        ctx, FV_KERNEL_UNARY_GRAD, g->dtype, &args, 4,
        (fv_tensor *[]){du, g, info.grad_from_y ? NULL : u, info.grad_from_y ? y : NULL});
    return du;
}

/* dx = (du W) in_act'(x); h = in_act(x). */
static void send_input_grad(fv_op_back *back, fv_act in_act, bool bf16, fv_matrix du, fv_tensor *h)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *w = back->saved[SAVED_WEIGHT];
    const fv_matrix mw = weight_matrix(ctx, &w, bf16);
    if (ctx->error != FV_OK) return;
    if (in_act == FV_ACT_NONE) {
        fv_back_send_product_mixed(back, X, bf16, du, mw);
        return;
    }
    fv_tensor *dh = fv_back_new(back, X);
    if (ctx->error != FV_OK) return;
    fv_matrix c = fv_matrix_at(dh->data, du.rows, mw.cols);
    c.bf16 = dh->dtype == FV_BF16;
    fv_product_mixed(ctx, dh->dtype, bf16, c, du, mw, false);
    fv_tensor *dx = activation_grad(ctx, in_act, dh, back->saved[SAVED_X], h);
    fv_drop_copy(ctx, dh, dx);
    if (ctx->error == FV_OK) fv_back_send(back, X, dx);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    const linear_params *params = back->params;
    const bool bf16 = back->grad[0]->dtype == FV_BF16;
    if (back->n_in > RESIDUAL && fv_back_wants(back, RESIDUAL))
        fv_back_send(back, RESIDUAL, back->grad[0]);
    fv_tensor *kept = back->saved[SAVED_ACT], *x = back->saved[SAVED_X];
    fv_tensor *du_rows = activation_grad(ctx, params->act, back->grad[0], kept, kept);
    fv_matrix du = fv_matrix_of(ctx, &du_rows);
    fv_tensor *h = x ? activated(ctx, x, params->in_act) : NULL;
    if (ctx->error != FV_OK) return;
    if (fv_back_wants(back, X)) send_input_grad(back, params->in_act, bf16, du, h);
    const int bias = back->n_in > BIAS && fv_back_wants(back, BIAS) ? BIAS : -1;
    fv_back_send_outer(back, WEIGHT, bias, bf16, du_rows, h);
}

static const linear_params plain = {.act = FV_ACT_NONE}, relu = {.act = FV_ACT_RELU},
                           gelu = {.act = FV_ACT_GELU}, gelu_tanh = {.act = FV_ACT_GELU_TANH},
                           silu = {.act = FV_ACT_SILU}, tanh_act = {.act = FV_ACT_TANH},
                           sigmoid = {.act = FV_ACT_SIGMOID},
                           quick_gelu = {.act = FV_ACT_QUICK_GELU},
                           gelu_of_x = {.in_act = FV_ACT_GELU}, relu_of_x = {.in_act = FV_ACT_RELU},
                           silu_of_x_tanh = {.act = FV_ACT_TANH, .in_act = FV_ACT_SILU};

static const fv_op_case cases[] = {
    {.name = "rows",
     .params = &plain,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 2), FV_IN_NONE}},
    {.name = "residual",
     .params = &plain,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 3, 4), FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 2), FV_IN(NORMAL, 2, 3, 2)}},
    {.name = "vector", .params = &plain, .n_in = 2, .in = {FV_IN(NORMAL, 5), FV_IN(NORMAL, 3, 5)}},
    {.name = "relu",
     .params = &relu,
     .n_in = 4,
     .in = {FV_IN(POSITIVE, 3, 2), FV_IN(OFFZERO, 2, 2), FV_IN_NONE, FV_IN(NORMAL, 3, 2)}},
    {.name = "gelu",
     .params = &gelu,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN(NORMAL, 2, 3)}},
    {.name = "gelu_tanh",
     .params = &gelu_tanh,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "silu",
     .params = &silu,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN_NONE, FV_IN_NONE}},
    {.name = "tanh",
     .params = &tanh_act,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN(NORMAL, 2, 3)}},
    {.name = "sigmoid",
     .params = &sigmoid,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "quick_gelu",
     .params = &quick_gelu,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "gelu of x",
     .params = &gelu_of_x,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN(NORMAL, 2, 3)}},
    {.name = "relu of x",
     .params = &relu_of_x,
     .n_in = 4,
     .in = {FV_IN(OFFZERO, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "tanh of silu of x",
     .params = &silu_of_x_tanh,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 3, 4), FV_IN_NONE, FV_IN(NORMAL, 2, 3)}},
    {.name = "no rows",
     .params = &plain,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 4), FV_IN(NORMAL, 2, 4), FV_IN(NORMAL, 2)}},
    {.name = "no inputs",
     .params = &plain,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 3, 0), FV_IN(NORMAL, 2, 0), FV_IN(NORMAL, 2)}},
};

const fv_op_desc fv_op_linear = {
    .id = FV_OP_LINEAR,
    .name = "linear",
    .formula = "y = act(in_act(x) W^T + b) + residual",
    .min_in = 2,
    .max_in = 4,
    .params_bytes = sizeof(linear_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .packed_only_inputs = 1u << WEIGHT,
    .bf16 = FV_BF16_COMPUTES,
    .bf16_inputs = 1u << X | 1u << RESIDUAL,
    FV_CASES(cases),
};
