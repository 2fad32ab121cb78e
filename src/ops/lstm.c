/*
 * An LSTM over a whole sequence: at each step the gates are x_gates + h W^T, then the cell of
 * lstm_cell.c. The caller computes x_gates in one product over all steps.
 *
 * Backward, from the last step to the first, D the gradient of the gates of a step:
 *   dh = its own upstream + D_next W:         terms 6 (D W), 8 (upstream of h), 7 (of h_last)
 *   D, dc_before = the cell's backward:       terms 0 to 5
 *   dx_gates = D,  dW = sum over steps of D^T h_before:  terms 9, and 10 for those that read h0
 *   dh0 = D_first W,  dc0 = the first step's dc_before.
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"
#include "ops/sequence.h"

enum { X, WEIGHT, H0, C0, LENGTHS, INPUTS };
enum { OUT_H, OUT_H_LAST, OUT_C_LAST };
enum { SAVED_WEIGHT, SAVED_H, SAVED_C, SAVED_ACTS, SAVED_H0, SAVED_C0, SAVED_LENGTHS };
enum { TERM_H_BEFORE = 9, TERMS = 11 };

fv_tensor *fv_lstm(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h0, fv_tensor *c0,
                   bool reverse, fv_tensor **h_last, fv_tensor **c_last)
{
    return fv_lstm_varlen(ctx, x_gates, NULL, weight, h0, c0, reverse, h_last, c_last);
}

static fv_tensor *apply(fv_ctx *ctx, fv_sequence_params params, fv_tensor **in, fv_tensor **h_last,
                        fv_tensor **c_last)
{
    fv_tensor *out[3];
    fv_op_apply_many(ctx, FV_OP_LSTM, INPUTS, in, &params, 3, out);
    if (h_last) *h_last = out[OUT_H_LAST];
    if (c_last) *c_last = out[OUT_C_LAST];
    return out[OUT_H];
}

fv_tensor *fv_lstm_varlen(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths, fv_tensor *weight,
                          fv_tensor *h0, fv_tensor *c0, bool reverse, fv_tensor **h_last,
                          fv_tensor **c_last)
{
    return apply(ctx, (fv_sequence_params){.reverse = reverse},
                 (fv_tensor *[]){x_gates, weight, h0, c0, lengths}, h_last, c_last);
}

fv_tensor *fv_lstm_over_gates(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths,
                              bool equal_lengths, fv_tensor *weight, fv_tensor *h0, fv_tensor *c0,
                              bool reverse, fv_tensor **h_last, fv_tensor **c_last)
{
    const fv_sequence_params params = {
        .reverse = reverse, .overwrite = true, .equal_lengths = equal_lengths};
    return apply(ctx, params, (fv_tensor *[]){x_gates, weight, h0, c0, lengths}, h_last, c_last);
}

static fv_status infer(fv_op_run *run) { return fv_sequence_infer(run, 4, H0, LENGTHS, 3); }

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *h = run->out[OUT_H], *h_last = run->out[OUT_H_LAST], *c_last = run->out[OUT_C_LAST];
    fv_tensor *lengths = run->in[LENGTHS] ? fv_contiguous_raw(ctx, run->in[LENGTHS]) : NULL;
    if (ctx->error != FV_OK) return;
    const fv_sequence s = fv_sequence_of(ctx, run->params, h, 4, lengths);
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *weight = run->in[WEIGHT];
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    fv_tensor *h0 = run->in[H0] ? fv_contiguous_raw(ctx, run->in[H0]) : NULL;
    fv_tensor *c0 = run->in[C0] ? fv_contiguous_raw(ctx, run->in[C0]) : NULL;
    fv_tensor *c = run->recording ? fv_tensor_like(ctx, h) : NULL;
    const fv_sequence_params *params = run->params;
    fv_tensor *acts = !run->recording ? NULL : params->overwrite ? x : fv_tensor_like(ctx, x);
    if (ctx->error != FV_OK) return;

    if (s.total > 0) {
        fv_sequence_launch(&s, FV_KERNEL_LSTM, mw,
                           (void *[]){h->data, fv_data_or_null(c), fv_data_or_null(acts),
                                      h_last->data, c_last->data, x->data, mw.data,
                                      fv_data_or_null(h0), fv_data_or_null(c0), s.lengths});
    } else {
        fv_sequence_copy_state(&s, h_last, h0);
        fv_sequence_copy_state(&s, c_last, c0);
    }

    if (acts != x) fv_drop_copy(ctx, x, run->in[X]);
    fv_save(run, SAVED_WEIGHT, weight);
    fv_save(run, SAVED_H, h);
    fv_save(run, SAVED_C, c);
    fv_save(run, SAVED_ACTS, acts);
    fv_save(run, SAVED_H0, h0);
    fv_save(run, SAVED_C0, c0);
    fv_save(run, SAVED_LENGTHS, lengths);
    if (run->recording) return;
    fv_drop_copy(ctx, weight, run->in[WEIGHT]);
    fv_drop_copy(ctx, h0, run->in[H0]);
    fv_drop_copy(ctx, c0, run->in[C0]);
    fv_drop_copy(ctx, lengths, run->in[LENGTHS]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *h = back->saved[SAVED_H], *weight = back->saved[SAVED_WEIGHT];
    fv_tensor *lengths = back->saved[SAVED_LENGTHS];
    const fv_sequence s = fv_sequence_of(ctx, back->params, h, 4, lengths);
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    fv_tensor *dh = fv_sequence_grad(back, OUT_H);
    fv_tensor *dh_last = fv_sequence_grad(back, OUT_H_LAST);
    fv_tensor *dc_last = fv_sequence_grad(back, OUT_C_LAST);
    fv_tensor *dgates = fv_back_over(back, X, back->saved[SAVED_ACTS]);
    fv_tensor *dh0 = fv_back_wants(back, H0) ? fv_back_new(back, H0) : NULL;
    fv_tensor *dc0 = fv_back_wants(back, C0) ? fv_back_new(back, C0) : NULL;
    fv_tensor *before = fv_sequence_before(back, &s);
    if (ctx->error != FV_OK) return;

    if (s.total > 0) {
        fv_sequence_launch(&s, FV_KERNEL_LSTM_GRAD, mw,
                           (void *[]){dgates->data, fv_data_or_null(dh0), fv_data_or_null(dc0),
                                      fv_data_or_null(before), fv_data_or_null(dh),
                                      fv_data_or_null(dh_last), fv_data_or_null(dc_last),
                                      back->saved[SAVED_ACTS]->data, back->saved[SAVED_C]->data,
                                      mw.data, fv_data_or_null(back->saved[SAVED_C0]), h->data,
                                      fv_data_or_null(back->saved[SAVED_H0]), s.lengths});
    } else {
        if (dh0) fv_sequence_copy_state(&s, dh0, dh_last);
        if (dc0) fv_sequence_copy_state(&s, dc0, dc_last);
    }
    fv_back_send(back, X, dgates);
    fv_sequence_send_weight(back, &s, dgates, before, h, back->saved[SAVED_H0], TERM_H_BEFORE);
    if (dh0) fv_back_send(back, H0, dh0);
    if (dc0) fv_back_send(back, C0, dc0);
}

static const fv_sequence_params forward_time = {.reverse = false}, reverse_time = {.reverse = true};

static const fv_op_case cases[] = {
    {.name = "states",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 3, 2, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 2, 2), FV_IN(NORMAL, 2, 2),
            FV_IN_NONE}},
    {.name = "reverse",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 3, 2, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 2, 2), FV_IN(NORMAL, 2, 2),
            FV_IN_NONE}},
    {.name = "from zero",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 5, 1, 8), FV_IN(NORMAL, 8, 2), FV_IN_NONE, FV_IN_NONE, FV_IN_NONE}},
    {.name = "one step",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 2, 4), FV_IN(NORMAL, 4, 1), FV_IN_NONE, FV_IN(NORMAL, 2, 1),
            FV_IN_NONE}},
    {.name = "varlen",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 3, 2),
            FV_LENGTHS(6, 3)}},
    {.name = "varlen, reverse",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 3, 2),
            FV_LENGTHS(6, 3)}},
    {.name = "varlen, reverse, from zero",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 4), FV_IN(NORMAL, 4, 1), FV_IN_NONE, FV_IN_NONE, FV_LENGTHS(6, 3)}},
    {.name = "no steps",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 0, 2, 4), FV_IN(NORMAL, 4, 1), FV_IN(NORMAL, 2, 1), FV_IN(NORMAL, 2, 1),
            FV_IN_NONE}},
};

const fv_op_desc fv_op_lstm = {
    .id = FV_OP_LSTM,
    .name = "lstm",
    .formula = "h, c of every step from x_gates + h W^T",
    .min_in = INPUTS,
    .max_in = INPUTS,
    .n_out = 3,
    .params_bytes = sizeof(fv_sequence_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = TERMS,
    FV_CASES(cases),
};
