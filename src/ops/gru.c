/*
 * A GRU over a whole sequence: at each step h's gates are h W^T + bias, then the cell of
 * gru_cell.c with x_gates, which the caller computes in one product over all steps.
 *
 * Backward, from the last step to the first, E the gradient of h's gates of a step:
 *   dx, E, dh_before's direct part = the cell's backward:    terms 0 to 4
 *   dh_before = that + E W:                                  term 5
 *     + its own upstream:                                    terms 7 (h), 6 (h_last)
 *   dW = sum over steps of E^T h_before: terms 8, and 9 for the steps that read h0;
 *   dbias = sum of E over steps and rows;  dh0 = the first step's dh_before.
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"
#include "ops/sequence.h"

enum { X, WEIGHT, BIAS, H0, LENGTHS, INPUTS };
enum { OUT_H, OUT_H_LAST };
enum { SAVED_WEIGHT, SAVED_H, SAVED_ACTS, SAVED_H0, SAVED_LENGTHS };
enum { TERM_H_BEFORE = 8, TERMS = 10 };

fv_tensor *fv_gru(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h_bias,
                  fv_tensor *h0, bool reverse, fv_tensor **h_last)
{
    return fv_gru_varlen(ctx, x_gates, NULL, weight, h_bias, h0, reverse, h_last);
}

fv_tensor *fv_gru_varlen(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths, fv_tensor *weight,
                         fv_tensor *h_bias, fv_tensor *h0, bool reverse, fv_tensor **h_last)
{
    const fv_sequence_params params = {.reverse = reverse};
    fv_tensor *out[2], *in[INPUTS] = {x_gates, weight, h_bias, h0, lengths};
    fv_op_apply_many(ctx, FV_OP_GRU, INPUTS, in, &params, 2, out);
    if (h_last) *h_last = out[OUT_H_LAST];
    return out[OUT_H];
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_sequence_infer(run, 3, H0, LENGTHS, 2));
    const fv_tensor *bias = run->in[BIAS];
    if (bias && (bias->rank != 1 || bias->shape[0] != run->in[WEIGHT]->shape[0]))
        return fv_op_mismatch(run, WEIGHT, BIAS, "(weight and bias): expected a bias of [3H]");
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *h = run->out[OUT_H], *h_last = run->out[OUT_H_LAST], *acts = NULL;
    fv_tensor *lengths = run->in[LENGTHS] ? fv_contiguous_raw(ctx, run->in[LENGTHS]) : NULL;
    if (ctx->error != FV_OK) return;
    const fv_sequence s = fv_sequence_of(ctx, run->params, h, 3, lengths);
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *weight = run->in[WEIGHT];
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    fv_tensor *bias = run->in[BIAS] ? fv_contiguous_raw(ctx, run->in[BIAS]) : NULL;
    fv_tensor *h0 = run->in[H0] ? fv_contiguous_raw(ctx, run->in[H0]) : NULL;
    if (run->recording) acts = fv_sequence_rows(&s, 4);
    if (ctx->error != FV_OK) return;

    if (s.total > 0)
        fv_sequence_launch(&s, FV_KERNEL_GRU, mw,
                           (void *[]){h->data, fv_data_or_null(acts), h_last->data, x->data,
                                      mw.data, fv_data_or_null(bias), fv_data_or_null(h0),
                                      s.lengths});
    else
        fv_sequence_copy_state(&s, h_last, h0);

    fv_drop_copy(ctx, x, run->in[X]);
    fv_drop_copy(ctx, bias, run->in[BIAS]);
    fv_save(run, SAVED_WEIGHT, weight);
    fv_save(run, SAVED_H, h);
    fv_save(run, SAVED_ACTS, acts);
    fv_save(run, SAVED_H0, h0);
    fv_save(run, SAVED_LENGTHS, lengths);
    if (run->recording) return;
    fv_drop_copy(ctx, weight, run->in[WEIGHT]);
    fv_drop_copy(ctx, h0, run->in[H0]);
    fv_drop_copy(ctx, lengths, run->in[LENGTHS]);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *h = back->saved[SAVED_H], *h0 = back->saved[SAVED_H0];
    fv_tensor *weight = back->saved[SAVED_WEIGHT], *lengths = back->saved[SAVED_LENGTHS];
    const fv_sequence s = fv_sequence_of(ctx, back->params, h, 3, lengths);
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    fv_tensor *dh = fv_sequence_grad(back, OUT_H);
    fv_tensor *dh_last = fv_sequence_grad(back, OUT_H_LAST);
    fv_tensor *dx = fv_back_new(back, X), *dgates = fv_back_new(back, X);
    fv_tensor *dh0 = fv_back_wants(back, H0) ? fv_back_new(back, H0) : NULL;
    fv_tensor *before = fv_sequence_before(back, &s);
    if (ctx->error != FV_OK) return;

    if (s.total > 0)
        fv_sequence_launch(&s, FV_KERNEL_GRU_GRAD, mw,
                           (void *[]){dx->data, dgates->data, fv_data_or_null(dh0),
                                      fv_data_or_null(before), fv_data_or_null(dh),
                                      fv_data_or_null(dh_last), back->saved[SAVED_ACTS]->data,
                                      h->data, mw.data, fv_data_or_null(h0), s.lengths});
    else if (dh0)
        fv_sequence_copy_state(&s, dh0, dh_last);
    fv_back_send(back, X, dx);
    fv_sequence_send_weight(back, &s, dgates, before, h, h0, TERM_H_BEFORE);
    if (fv_back_wants(back, BIAS)) {
        fv_tensor *db = fv_back_new(back, BIAS);
        if (ctx->error != FV_OK) return;
        fv_column_sum(ctx, s.dtype, db->data, fv_matrix_at(dgates->data, s.total, s.gates));
        fv_back_send(back, BIAS, db);
    }
    if (dh0) fv_back_send(back, H0, dh0);
}

static const fv_sequence_params forward_time = {.reverse = false}, reverse_time = {.reverse = true};

static const fv_op_case cases[] = {
    {.name = "state",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 3, 2, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 2, 2),
            FV_IN_NONE}},
    {.name = "reverse",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 3, 2, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 2, 2),
            FV_IN_NONE}},
    {.name = "from zero",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 5, 1, 6), FV_IN(NORMAL, 6, 2), FV_IN_NONE, FV_IN_NONE, FV_IN_NONE}},
    {.name = "one step",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 2, 3), FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 3), FV_IN_NONE, FV_IN_NONE}},
    {.name = "varlen",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 3, 2),
            FV_LENGTHS(6, 3)}},
    {.name = "varlen, reverse",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 3, 2),
            FV_LENGTHS(6, 3)}},
    {.name = "varlen, reverse, from zero",
     .params = &reverse_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 6, 3), FV_IN(NORMAL, 3, 1), FV_IN_NONE, FV_IN_NONE, FV_LENGTHS(6, 3)}},
    {.name = "no steps",
     .params = &forward_time,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 0, 2, 3), FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 3), FV_IN(NORMAL, 2, 1),
            FV_IN_NONE}},
};

const fv_op_desc fv_op_gru = {
    .id = FV_OP_GRU,
    .name = "gru",
    .formula = "h of every step from x_gates and h W^T + b",
    .min_in = INPUTS,
    .max_in = INPUTS,
    .n_out = 2,
    .params_bytes = sizeof(fv_sequence_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = TERMS,
    FV_CASES(cases),
};
