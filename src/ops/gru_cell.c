/*
 * One GRU step (r, z, n, as in PyTorch) from x's gates a and h's gates b, before nonlinearities:
 *   r = sigmoid(a_r + b_r),  z = sigmoid(a_z + b_z),  n = tanh(a_n + r b_n),
 *   h' = (1 - z) n + z h.
 *   dn = g (1 - z) (1 - n^2) (before the tanh):                      term 0
 *   dz = g (h - n) z (1 - z):                                        terms 1 and 2
 *   dr = dn b_n r (1 - r):                                           term 3
 *   da = (dr, dz, dn),  db = (dr, dz, r dn),  dh = g z:              term 4
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"

enum { X_GATES, H_GATES, STATE };

fv_tensor *fv_gru_cell(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *h_gates, fv_tensor *h)
{
    return fv_op_apply(ctx, FV_OP_GRU_CELL, 3, (fv_tensor *[]){x_gates, h_gates, h}, NULL);
}

static fv_status infer(fv_op_run *run)
{
    for (int i = 0; i < 3; i++)
        FV_TRY(fv_need_rank(run, i, 2, 2));
    FV_TRY(fv_need_same_real(run));
    const fv_tensor *x = run->in[X_GATES], *h = run->in[STATE];
    if (x->shape[0] != h->shape[0] || x->shape[1] % 3 != 0 || x->shape[1] / 3 != h->shape[1])
        return fv_op_mismatch(run, X_GATES, STATE, "(gates and state) must be [B, 3H] and [B, H]");
    const fv_tensor *g = run->in[H_GATES];
    if (!fv_shape_equal(x->rank, x->shape, g->rank, g->shape))
        return fv_op_mismatch(run, X_GATES, H_GATES, "(gates of x and of h) must be equal");
    fv_spec_like(run, 0, STATE);
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X_GATES]);
    fv_tensor *g = fv_contiguous_raw(ctx, run->in[H_GATES]);
    fv_tensor *h = fv_contiguous_raw(ctx, run->in[STATE]), *acts = NULL;
    if (run->recording)
        acts = fv_tensor_new(ctx, h->dtype, 2, (int64_t[]){h->shape[0], 4 * h->shape[1]});
    if (ctx->error != FV_OK) return;
    const fv_cell_args args = {.batch = h->shape[0], .hidden = h->shape[1]};
    fv_launch(ctx, FV_KERNEL_GRU_CELL, h->dtype,
              (void *[]){run->out[0]->data, acts ? acts->data : NULL, x->data, g->data, h->data},
              &args, sizeof args);
    fv_save(run, 0, acts);
    fv_save(run, 1, h);
    fv_drop_copy(ctx, x, run->in[X_GATES]);
    fv_drop_copy(ctx, g, run->in[H_GATES]);
    if (!run->recording) fv_drop_copy(ctx, h, run->in[STATE]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    fv_tensor *d[3];
    for (int i = 0; i < 3; i++)
        d[i] = fv_back_new(back, i);
    if (ctx->error != FV_OK) return;
    const fv_cell_args args = {.batch = g->shape[0], .hidden = g->shape[1]};
    fv_launch(ctx, FV_KERNEL_GRU_CELL_GRAD, g->dtype,
              (void *[]){d[X_GATES]->data, d[H_GATES]->data, d[STATE]->data, g->data,
                         back->saved[0]->data, back->saved[1]->data, NULL, NULL},
              &args, sizeof args);
    for (int i = 0; i < 3; i++)
        fv_back_send(back, i, d[i]);
}

static const fv_op_case cases[] = {
    {.name = "batch",
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 9), FV_IN(NORMAL, 2, 9), FV_IN(NORMAL, 2, 3)}},
    {.name = "one",
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 3), FV_IN(NORMAL, 1, 3), FV_IN(NORMAL, 1, 1)}},
    {.name = "empty",
     .n_in = 3,
     .in = {FV_IN(NORMAL, 0, 6), FV_IN(NORMAL, 0, 6), FV_IN(NORMAL, 0, 2)}},
};

const fv_op_desc fv_op_gru_cell = {
    .id = FV_OP_GRU_CELL,
    .name = "gru_cell",
    .formula = "h' = (1 - z) n + z h",
    .min_in = 3,
    .max_in = 3,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 5,
    FV_CASES(cases),
};
