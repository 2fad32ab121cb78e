/*
 * One LSTM step from gates before their nonlinearities (i, f, g, o, as in PyTorch):
 *   i, f, o = sigmoid, g = tanh;  c' = f c + i g;  h = o tanh(c').
 * With t = tanh(c') and D the whole gradient of c':
 *   D = dc' + dh o (1 - t^2):                                       terms 0 and 1
 *   di = D g i (1 - i),  df = D c f (1 - f),  dg = D i (1 - g^2),  do = dh t o (1 - o):
 *   gates in terms 2 to 5;  dc = D f.
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"

enum { GATES, STATE };
enum { SAVED_ACTS, SAVED_STATE, SAVED_NEXT };

void fv_lstm_cell(fv_ctx *ctx, fv_tensor *gates, fv_tensor *c, fv_tensor **h_out, fv_tensor **c_out)
{
    fv_tensor *out[2];
    fv_op_apply_many(ctx, FV_OP_LSTM_CELL, 2, (fv_tensor *[]){gates, c}, NULL, 2, out);
    *h_out = out[0];
    *c_out = out[1];
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, GATES));
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, GATES, 2, 2));
    FV_TRY(fv_need_rank(run, STATE, 2, 2));
    const fv_tensor *gates = run->in[GATES], *c = run->in[STATE];
    if (gates->shape[0] != c->shape[0] || gates->shape[1] % 4 != 0 ||
        gates->shape[1] / 4 != c->shape[1])
        return fv_op_mismatch(run, GATES, STATE, "(gates and state) must be [B, 4H] and [B, H]");
    run->n_out = 2;
    for (int k = 0; k < 2; k++) {
        fv_spec_like(run, k, STATE);
        run->spec[k].view_of = -1;
    }
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *gates = fv_contiguous_raw(ctx, run->in[GATES]);
    fv_tensor *c = fv_contiguous_raw(ctx, run->in[STATE]);
    fv_tensor *acts = run->recording ? fv_tensor_like(ctx, gates) : NULL;
    if (ctx->error != FV_OK) return;
    const fv_cell_args args = {.batch = c->shape[0], .hidden = c->shape[1]};
    fv_launch(ctx, FV_KERNEL_LSTM_CELL, c->dtype,
              (void *[]){run->out[0]->data, run->out[1]->data, acts ? acts->data : NULL,
                         gates->data, NULL, c->data},
              &args, sizeof args);
    fv_save(run, SAVED_ACTS, acts);
    fv_save(run, SAVED_STATE, c);
    fv_save(run, SAVED_NEXT, run->out[1]);
    fv_drop_copy(ctx, gates, run->in[GATES]);
    if (!run->recording) fv_drop_copy(ctx, c, run->in[STATE]);
}

static void *grad_data(fv_op_back *back, int k)
{
    if (!back->grad[k] || back->ctx->error != FV_OK) return NULL;
    return fv_contiguous_raw(back->ctx, back->grad[k])->data;
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    void *dh = grad_data(back, 0), *dc_next = grad_data(back, 1);
    fv_tensor *dgates = fv_back_new(back, GATES), *dc = fv_back_new(back, STATE);
    if (ctx->error != FV_OK) return;
    const fv_cell_args args = {.batch = dc->shape[0], .hidden = dc->shape[1]};
    fv_launch(ctx, FV_KERNEL_LSTM_CELL_GRAD, dc->dtype,
              (void *[]){dgates->data, dc->data, dh, dc_next, back->saved[SAVED_ACTS]->data,
                         back->saved[SAVED_NEXT]->data, back->saved[SAVED_STATE]->data, NULL, NULL},
              &args, sizeof args);
    fv_back_send(back, GATES, dgates);
    fv_back_send(back, STATE, dc);
}

static const fv_op_case cases[] = {
    {.name = "batch", .n_in = 2, .in = {FV_IN(NORMAL, 2, 12), FV_IN(NORMAL, 2, 3)}},
    {.name = "one", .n_in = 2, .in = {FV_IN(NORMAL, 1, 4), FV_IN(NORMAL, 1, 1)}},
    {.name = "empty", .n_in = 2, .in = {FV_IN(NORMAL, 0, 8), FV_IN(NORMAL, 0, 2)}},
};

const fv_op_desc fv_op_lstm_cell = {
    .id = FV_OP_LSTM_CELL,
    .name = "lstm_cell",
    .formula = "c' = f c + i g, h = o tanh(c')",
    .min_in = 2,
    .max_in = 2,
    .n_out = 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 6,
    FV_CASES(cases),
};
