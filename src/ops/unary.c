/*
 * The ops y = f(x): kernels/elementwise.def has a row for each, with its derivation. They share the
 * functions below and differ in the kernel's op code and in what backward reads.
 */
#include "ops/op.h"

typedef struct unary_params {
    double alpha, beta;
} unary_params;

static fv_elementwise_args kernel_args(const fv_op_desc *desc, const void *params)
{
    const unary_params *p = params;
    fv_elementwise_args args;
    args.op = desc->kernel_op;
    args.alpha = p ? p->alpha : 0.0;
    args.beta = p ? p->beta : 0.0;
    return args;
}

static fv_status unary_infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

static fv_status clamp_infer(fv_op_run *run)
{
    const unary_params *p = run->params;
    if (!(p->alpha <= p->beta)) /* also refuses NaN */
        return fv_op_error(run, FV_ERR_ARGUMENT, "expected low <= high, got %g and %g", p->alpha,
                           p->beta);
    return unary_infer(run);
}

static void forward(fv_op_run *run)
{
    fv_elementwise_args args = kernel_args(run->desc, run->params);
    fv_launch_elementwise(run->ctx, FV_KERNEL_UNARY, run->out[0]->dtype, &args, 2,
                          (fv_tensor *[]){run->out[0], run->in[0]});
    if (run->desc->traits & FV_SAVES_X) fv_save(run, 0, run->in[0]);
    if (run->desc->traits & FV_SAVES_Y) fv_save(run, 0, run->out[0]);
}

static void backward(fv_op_back *back)
{
    fv_tensor *dx = fv_back_new(back, 0);
    if (back->ctx->error != FV_OK) return;
    fv_elementwise_args args = kernel_args(back->desc, back->params);
    fv_tensor *x = back->desc->traits & FV_SAVES_X ? back->saved[0] : NULL;
    fv_tensor *y = back->desc->traits & FV_SAVES_Y ? back->saved[0] : NULL;
    fv_launch_elementwise(back->ctx, FV_KERNEL_UNARY_GRAD, dx->dtype, &args, 4,
                          (fv_tensor *[]){dx, back->grad[0], x, y});
    fv_back_send(back, 0, dx);
}

/* ---- public functions ------------------------------------------------------------- */

#define FV_UNARY(op, name, ...)                                                                    \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *x)                                                \
    {                                                                                              \
        return fv_op_apply(ctx, FV_OP_##op, 1, &x, NULL);                                          \
    }
#define FV_UNARY_1(op, name, p, ...)                                                               \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *x, double p)                                      \
    {                                                                                              \
        return fv_op_apply(ctx, FV_OP_##op, 1, &x, &(unary_params){p, 0.0});                       \
    }
#define FV_UNARY_2(op, name, p, q, ...)                                                            \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *x, double p, double q)                            \
    {                                                                                              \
        return fv_op_apply(ctx, FV_OP_##op, 1, &x, &(unary_params){p, q});                         \
    }
#include "kernels/elementwise.def"

fv_tensor *fv_scale(fv_ctx *ctx, fv_tensor *x, double scale)
{
    return fv_affine(ctx, x, scale, 0.0);
}

/* ---- descriptors ------------------------------------------------------------------ */

#define DESCRIBE(op, name_, formula_, params_size, infer_, saved, terms_, ...)                     \
    static const fv_op_case name_##_cases[] = {__VA_ARGS__};                                       \
    const fv_op_desc fv_op_##name_ = {                                                             \
        .id = FV_OP_##op,                                                                          \
        .name = #name_,                                                                            \
        .formula = formula_,                                                                       \
        .min_in = 1,                                                                               \
        .max_in = 1,                                                                               \
        .params_bytes = params_size,                                                               \
        .infer = infer_,                                                                           \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .kernel_op = FV_UNARY_##op,                                                                \
        .traits = saved,                                                                           \
        .terms = terms_,                                                                           \
        .bf16 = FV_BF16_FOLLOWS,                                                                   \
        .bf16_inputs = 1u,                                                                         \
        FV_CASES(name_##_cases),                                                                   \
    };

#define FV_CASE_WITH(label, a, b, ...)                                                             \
    {                                                                                              \
        .name = label, .params = &(const unary_params){a, b}, .n_in = 1, .in = { __VA_ARGS__ }     \
    }
#define FV_UNARY(op, name_, y, dy, saved, terms, inputs)                                           \
    DESCRIBE(op, name_, "y = " #y, 0, unary_infer, saved, terms,                                   \
             {.name = "3x5", .n_in = 1, .in = {FV_IN(inputs, 3, 5)}},                              \
             {.name = "scalar", .n_in = 1, .in = {FV_IN0(inputs)}},                                \
             {.name = "empty", .n_in = 1, .in = {FV_IN(inputs, 2, 0)}})
#define FV_UNARY_1(op, name_, p, infer, y, dy, saved, terms, ...)                                  \
    DESCRIBE(op, name_, "y = " #y, sizeof(unary_params), infer, saved, terms, __VA_ARGS__)
#define FV_UNARY_2(op, name_, p, q, infer, y, dy, saved, terms, ...)                               \
    DESCRIBE(op, name_, "y = " #y, sizeof(unary_params), infer, saved, terms, __VA_ARGS__)
#include "kernels/elementwise.def"
