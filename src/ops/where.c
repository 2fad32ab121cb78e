/*
 * c = a where cond, else b; all three broadcast.
 *   da = g where cond, else 0; db = the rest of g; each summed over the axes along which its input
 *   was repeated. cond gets no gradient.
 */
#include "ops/op.h"

enum { COND, A, B };

fv_tensor *fv_where(fv_ctx *ctx, fv_tensor *cond, fv_tensor *a, fv_tensor *b)
{
    return fv_op_apply(ctx, FV_OP_WHERE, 3, (fv_tensor *[]){cond, a, b}, NULL);
}

/* Broadcasts the result's shape with cond's. */
static fv_status broadcast_cond(fv_op_run *run)
{
    const fv_tensor *cond = run->in[COND];
    fv_spec *spec = &run->spec[0];
    const int rank = cond->rank > spec->rank ? cond->rank : spec->rank;
    const int lead = rank - spec->rank, cond_lead = rank - cond->rank;
    for (int i = rank - 1; i >= 0; i--) { /* from the end: the shape shifts within its array */
        const int64_t n = i >= lead ? spec->shape[i - lead] : 1;
        const int64_t nc = i >= cond_lead ? cond->shape[i - cond_lead] : 1;
        if (n != nc && n != 1 && nc != 1) {
            const int ia = i - (rank - run->in[A]->rank);
            const bool from_a = ia >= 0 && run->in[A]->shape[ia] == n;
            return fv_op_mismatch(run, COND, from_a ? A : B, "do not broadcast");
        }
        spec->shape[i] = n == 1 ? nc : n;
    }
    spec->rank = rank;
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_dtype(run, COND, FV_U8));
    for (int i = A; i <= B; i++)
        if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    if (run->in[A]->dtype != run->in[B]->dtype)
        return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                           fv_dtype_name(run->in[A]->dtype), fv_dtype_name(run->in[B]->dtype));
    FV_TRY(fv_spec_broadcast(run, 0, A, B));
    return broadcast_cond(run);
}

/* out = a where cond, else b; NULL stands for 0. */
static void launch_select(fv_ctx *ctx, fv_tensor *out, fv_tensor *cond, fv_tensor *a, fv_tensor *b)
{
    fv_elementwise_args args;
    args.op = 0;
    args.alpha = args.beta = 0.0;
    fv_launch_elementwise(ctx, FV_KERNEL_SELECT, out->dtype, &args, 4,
                          (fv_tensor *[]){out, cond, a, b});
}

static void forward(fv_op_run *run)
{
    launch_select(run->ctx, run->out[0], run->in[COND], run->in[A], run->in[B]);
    fv_save(run, 0, run->in[COND]);
}

static void backward(fv_op_back *back)
{
    fv_tensor *g = back->grad[0], *cond = back->saved[0];
    for (int i = A; i <= B; i++) {
        if (!fv_back_wants(back, i)) continue;
        fv_tensor *part = fv_tensor_like(back->ctx, g);
        if (back->ctx->error != FV_OK) return;
        launch_select(back->ctx, part, cond, i == A ? g : NULL, i == A ? NULL : g);
        fv_back_send_reduced(back, i, part);
    }
}

static const fv_op_case cases[] = {
    {.name = "3x4", .n_in = 3, .in = {FV_IN(MASK, 3, 4), FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 3, 4)}},
    {.name = "broadcast",
     .n_in = 3,
     .in = {FV_IN(MASK, 3, 1), FV_IN(NORMAL, 4), FV_IN(NORMAL, 2, 1, 4)}},
    {.name = "wide cond", .n_in = 3, .in = {FV_IN(MASK, 2, 8), FV_IN0(NORMAL), FV_IN(NORMAL, 8)}},
    {.name = "scalar", .n_in = 3, .in = {FV_IN0(MASK), FV_IN0(NORMAL), FV_IN0(NORMAL)}},
    {.name = "empty", .n_in = 3, .in = {FV_IN(MASK, 0, 4), FV_IN(NORMAL, 4), FV_IN0(NORMAL)}},
};

const fv_op_desc fv_op_where = {
    .id = FV_OP_WHERE,
    .name = "where",
    .formula = "c = cond ? a : b",
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    FV_CASES(cases),
};
