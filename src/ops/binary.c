/*
 * The broadcasting ops c = f(a, b) and the comparisons: kernels/elementwise.def has a row for each,
 * with its derivation.
 */
#include "ops/op.h"

static fv_status binary_infer(fv_op_run *run)
{
    for (int i = 0; i < 2; i++)
        if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    const fv_dtype a = run->in[0]->dtype, b = run->in[1]->dtype;
    const bool mixed = (a == FV_BF16 && b == FV_F32) || (a == FV_F32 && b == FV_BF16);
    if (a != b && !mixed)
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                           fv_dtype_name(a), fv_dtype_name(b));
    FV_TRY(fv_spec_broadcast(run, 0, 0, 1));
    run->spec[0].dtype = fv_result_dtype(run);
    return FV_OK;
}

static fv_status real_infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    return binary_infer(run);
}

static fv_status arithmetic_infer(fv_op_run *run)
{
    FV_TRY(binary_infer(run));
    fv_dtype dtype = run->in[0]->dtype;
    if (dtype != FV_F32 && dtype != FV_F64 && dtype != FV_I32 && dtype != FV_I64 &&
        dtype != FV_BF16)
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s, expected f32, f64, bf16, i32 or i64",
                           fv_dtype_name(dtype));
    return FV_OK;
}

static fv_status compare_infer(fv_op_run *run)
{
    FV_TRY(binary_infer(run));
    run->spec[0].dtype = FV_U8;
    return FV_OK;
}

static void launch(fv_op_run *run, fv_kernel_id kernel)
{
    fv_elementwise_args args;
    args.op = run->desc->kernel_op;
    fv_launch_elementwise(run->ctx, kernel, run->in[0]->dtype, &args, 3,
                          (fv_tensor *[]){run->out[0], run->in[0], run->in[1]});
}

static void forward(fv_op_run *run)
{
    launch(run, FV_KERNEL_BINARY);
    if (!(run->desc->traits & FV_SAVES_INPUTS)) return;
    fv_save(run, 0, run->in[0]);
    fv_save(run, 1, run->in[1]);
}

static void compare_forward(fv_op_run *run) { launch(run, FV_KERNEL_COMPARE); }

static void launch_neg(fv_ctx *ctx, fv_tensor *y, fv_tensor *x)
{
    fv_elementwise_args args;
    args.op = FV_UNARY_NEG;
    args.alpha = args.beta = 0.0;
    fv_launch_elementwise(ctx, FV_KERNEL_UNARY, y->dtype, &args, 2, (fv_tensor *[]){y, x});
}

static void launch_grad(fv_op_back *back, int which, fv_tensor *out)
{
    fv_elementwise_args args;
    args.op = back->desc->kernel_op;
    args.which = which;
    fv_launch_elementwise(back->ctx, FV_KERNEL_BINARY_GRAD, out->dtype, &args, 4,
                          (fv_tensor *[]){out, back->grad[0], back->saved[0], back->saved[1]});
}

/* What one input's gradient is computed in: the input's dtype, but f32 if it is summed down yet. */
static fv_tensor *product_for(fv_op_back *back, int which)
{
    const fv_tensor *g = back->grad[0];
    const bool is_summed =
        !fv_shape_equal(g->rank, g->shape, fv_back_rank(back, which), fv_back_shape(back, which));
    const fv_dtype dtype = fv_back_dtype(back, which);
    return fv_tensor_new(back->ctx, is_summed ? fv_wide_dtype(dtype) : dtype, g->rank, g->shape);
}

static void backward(fv_op_back *back)
{
    const unsigned traits = back->desc->traits;
    for (int which = 0; which < 2; which++) {
        if (!fv_back_wants(back, which)) continue;
        if (traits & (which ? FV_PASSES_B : FV_PASSES_A)) {
            fv_back_send_reduced(back, which, back->grad[0]);
            continue;
        }
        fv_tensor *out = product_for(back, which);
        if (back->ctx->error != FV_OK) return;
        if (which && traits & FV_NEGATES_B)
            launch_neg(back->ctx, out, back->grad[0]);
        else
            launch_grad(back, which, out);
        fv_back_send_reduced(back, which, out);
    }
}

/* ---- public functions ------------------------------------------------------------- */

#define FV_BINARY(op, name, ...)                                                                   \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)                                  \
    {                                                                                              \
        return fv_op_apply(ctx, FV_OP_##op, 2, (fv_tensor *[]){a, b}, NULL);                       \
    }
#define FV_COMPARE FV_BINARY
#include "kernels/elementwise.def"

/* ---- descriptors ------------------------------------------------------------------ */

#define FV_BINARY(op, name_, infer_, c, da, db, traits_, A, B)                                     \
    static const fv_op_case name_##_cases[] = {FV_BROADCAST_CASES(A, B)};                          \
    const fv_op_desc fv_op_##name_ = {                                                             \
        .id = FV_OP_##op,                                                                          \
        .name = #name_,                                                                            \
        .formula = "c = " #c,                                                                      \
        .min_in = 2,                                                                               \
        .max_in = 2,                                                                               \
        .infer = infer_,                                                                           \
        .forward = forward,                                                                        \
        .backward = backward,                                                                      \
        .kernel_op = FV_BINARY_##op,                                                               \
        .traits = traits_,                                                                         \
        .bf16 = FV_BF16_FOLLOWS,                                                                   \
        .bf16_inputs = 3u,                                                                         \
        FV_CASES(name_##_cases),                                                                   \
    };
#include "kernels/elementwise.def"

static const fv_op_case compare_cases[] = {FV_BROADCAST_CASES(NORMAL, NORMAL)};

#define FV_COMPARE(op, name_, operator)                                                            \
    const fv_op_desc fv_op_##name_ = {                                                             \
        .id = FV_OP_##op,                                                                          \
        .name = #name_,                                                                            \
        .formula = "c = a " #operator" b",                                                         \
        .min_in = 2,                                                                               \
        .max_in = 2,                                                                               \
        .infer = compare_infer,                                                                    \
        .forward = compare_forward,                                                                \
        .no_backward = "a comparison is a step function",                                          \
        .kernel_op = FV_COMPARE_##op,                                                              \
        FV_CASES(compare_cases),                                                                   \
    };
#include "kernels/elementwise.def"
