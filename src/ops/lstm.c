/*
 * An LSTM over a whole sequence: at each step the gates are x_gates + h W^T, then the cell of
 * lstm_cell.c. x_gates comes from one product over all steps, outside.
 *
 * Back, from the last step to the first, D the gradient of the gates of a step:
 *   dh = its own upstream + D_next W:         terms 6 (D W), 8 (upstream of h), 7 (of h_last)
 *   D, dc_before = the cell's backward:       terms 0 to 5
 *   dx_gates = D,  dW = sum over steps of D^T h_before:  terms 9, and 10 for the step that saw h0
 *   dh0 = D_first W,  dc0 = the first step's dc_before.
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"
#include "ops/sequence.h"

enum { X, WEIGHT, H0, C0 };
enum { OUT_H, OUT_H_LAST, OUT_C_LAST };
enum { SAVED_WEIGHT, SAVED_H, SAVED_C, SAVED_ACTS, SAVED_H0, SAVED_C0 };
enum { TERM_RECURRENT = 6, TERM_LAST = 7, TERM_UPSTREAM = 8, TERM_WEIGHT = 9, TERMS = 11 };

fv_tensor *fv_lstm(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h0, fv_tensor *c0,
                   bool reverse, fv_tensor **h_last, fv_tensor **c_last)
{
    const fv_sequence_params params = {reverse};
    fv_tensor *out[3];
    fv_op_apply_many(ctx, FV_OP_LSTM, 4, (fv_tensor *[]){x_gates, weight, h0, c0}, &params, 3, out);
    if (h_last) *h_last = out[OUT_H_LAST];
    if (c_last) *c_last = out[OUT_C_LAST];
    return out[OUT_H];
}

static fv_status infer(fv_op_run *run) { return fv_sequence_infer(run, 4, H0, 3); }

/* What a walk over the steps reads and writes. h0 may be NULL; c0 may not. */
typedef struct lstm_walk {
    fv_sequence s;
    fv_tensor *h, *c, *acts, *h0, *c0;
} lstm_walk;

static void *state_before(const lstm_walk *w, int64_t k)
{
    return k > 0 ? fv_sequence_at(&w->s, w->c, k - 1, w->s.hidden) : w->c0->data;
}

static void run_steps(const lstm_walk *w, fv_tensor *x, const fv_step_product *product,
                      fv_tensor *room)
{
    const fv_sequence *s = &w->s;
    const fv_cell_args args = {.batch = s->batch, .hidden = s->hidden};
    for (int64_t k = 0; k < s->steps; k++) {
        void *before = w->h0 ? w->h0->data : NULL;
        if (k > 0) before = fv_sequence_at(s, w->h, k - 1, s->hidden);
        if (before) fv_step_multiply(s, product, room->data, before, NULL, NULL);
        fv_launch(s->ctx, FV_KERNEL_LSTM_CELL, s->dtype,
                  (void *[]){fv_sequence_at(s, w->h, k, s->hidden),
                             fv_sequence_at(s, w->c, k, s->hidden),
                             w->acts ? fv_sequence_at(s, w->acts, k, s->gates) : NULL,
                             fv_sequence_at(s, x, k, s->gates), before ? room->data : NULL,
                             state_before(w, k)},
                  &args, sizeof args);
    }
}

/* The last of a state's steps; with no steps, its first value. */
static void write_last(const fv_sequence *s, fv_tensor *out, fv_tensor *all, fv_tensor *first)
{
    if (s->steps > 0)
        fv_sequence_copy_step(s, out, all, s->steps - 1);
    else if (first)
        fv_copy_into(s->ctx, out, first);
    else
        fv_fill(s->ctx, out, 0.0);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    lstm_walk w = {.s = fv_sequence_of(ctx, run->params, run->out[OUT_H], 4), .h = run->out[OUT_H]};
    const fv_sequence *s = &w.s;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *weight = run->in[WEIGHT];
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    w.c = fv_tensor_like(ctx, w.h);
    if (run->recording) w.acts = fv_tensor_like(ctx, x);
    w.h0 = run->in[H0] ? fv_contiguous_raw(ctx, run->in[H0]) : NULL;
    w.c0 = run->in[C0] ? fv_contiguous_raw(ctx, run->in[C0])
                       : fv_tensor_like(ctx, run->out[OUT_C_LAST]);
    fv_tensor *room = fv_tensor_new(ctx, s->dtype, 2, (int64_t[]){s->batch, s->gates});
    if (ctx->error != FV_OK) return;
    if (!run->in[C0]) fv_fill(ctx, w.c0, 0.0);
    fv_step_product product = fv_step_product_of(s, fv_matrix_flip(mw));
    if (ctx->error != FV_OK) return;

    run_steps(&w, x, &product, room);
    write_last(s, run->out[OUT_H_LAST], w.h, w.h0);
    write_last(s, run->out[OUT_C_LAST], w.c, w.c0);

    fv_tensor_free(ctx, &room);
    fv_tensor_free(ctx, &product.packed);
    fv_drop_copy(ctx, x, run->in[X]);
    fv_save(run, SAVED_WEIGHT, weight);
    fv_save(run, SAVED_H, w.h);
    fv_save(run, SAVED_C, w.c);
    fv_save(run, SAVED_ACTS, w.acts);
    fv_save(run, SAVED_H0, w.h0);
    fv_save(run, SAVED_C0, w.c0);
    if (run->recording) return;
    fv_drop_copy(ctx, weight, run->in[WEIGHT]);
    fv_drop_copy(ctx, w.h0, run->in[H0]);
    fv_drop_copy(ctx, w.c0, run->in[C0]);
    fv_tensor_free(ctx, &w.c);
}

/* Gradients on their way to earlier steps. The cell reads dc[0] and writes dc[1], then they
 * change places. */
typedef struct carried {
    fv_tensor *dh;
    fv_tensor *dc[2];
    bool has_dc;
} carried;

static void walk_back(fv_op_back *back, const lstm_walk *w, fv_tensor *dgates, fv_tensor *dh_all,
                      carried *carry)
{
    const fv_sequence *s = &w->s;
    const fv_cell_args args = {.batch = s->batch, .hidden = s->hidden};
    fv_tensor *weight = back->saved[SAVED_WEIGHT];
    fv_step_product product = fv_step_product_of(s, fv_matrix_of(s->ctx, &weight));
    void *dh = fv_sequence_last_grad(back, s, carry->dh, dh_all, back->grad[OUT_H_LAST], TERM_LAST);
    for (int64_t k = s->steps - 1; k >= 0 && s->ctx->error == FV_OK; k--) {
        char *step = fv_sequence_at(s, dgates, k, s->gates);
        fv_launch(s->ctx, FV_KERNEL_LSTM_CELL_GRAD, s->dtype,
                  (void *[]){step, carry->dc[1]->data, dh,
                             carry->has_dc ? carry->dc[0]->data : NULL,
                             fv_sequence_at(s, w->acts, k, s->gates),
                             fv_sequence_at(s, w->c, k, s->hidden), state_before(w, k), NULL, NULL},
                  &args, sizeof args);
        fv_tensor *written = carry->dc[1];
        carry->dc[1] = carry->dc[0];
        carry->dc[0] = written;
        carry->has_dc = true;

        const bool upstream = k > 0 && dh_all && fv_back_term(back, TERM_UPSTREAM);
        void *own = upstream ? fv_sequence_at(s, dh_all, k - 1, s->hidden) : NULL;
        dh = carry->dh->data;
        if (k == 0 && !fv_back_wants(back, H0)) break;
        if (fv_back_term(back, TERM_RECURRENT)) {
            fv_step_multiply(s, &product, dh, step, NULL, own);
        } else {
            fv_fill(s->ctx, carry->dh, 0.0);
            if (own) fv_sequence_add(s, dh, own);
        }
    }
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    lstm_walk w = {.s = fv_sequence_of(ctx, back->params, back->saved[SAVED_H], 4),
                   .h = back->saved[SAVED_H],
                   .c = back->saved[SAVED_C],
                   .acts = back->saved[SAVED_ACTS],
                   .h0 = back->saved[SAVED_H0],
                   .c0 = back->saved[SAVED_C0]};
    fv_tensor *dh_all = back->grad[OUT_H] ? fv_contiguous_raw(ctx, back->grad[OUT_H]) : NULL;
    fv_tensor *dgates = fv_back_new(back, X), *dc_last = back->grad[OUT_C_LAST];
    carried carry = {.dh = fv_tensor_like(ctx, w.c0),
                     .dc = {fv_tensor_like(ctx, w.c0), fv_tensor_like(ctx, w.c0)},
                     .has_dc = dc_last != NULL};
    if (ctx->error != FV_OK) return;
    if (dc_last) fv_copy_into(ctx, carry.dc[0], dc_last);
    if (w.s.steps > 0)
        walk_back(back, &w, dgates, dh_all, &carry);
    else if (back->grad[OUT_H_LAST])
        fv_copy_into(ctx, carry.dh, back->grad[OUT_H_LAST]);
    if (ctx->error != FV_OK) return;
    fv_back_send(back, X, dgates);
    if (fv_back_wants(back, WEIGHT))
        fv_sequence_send_weight(back, &w.s, dgates, w.h, w.h0, TERM_WEIGHT);
    if (fv_back_wants(back, H0) && (w.s.steps > 0 || back->grad[OUT_H_LAST]))
        fv_back_send(back, H0, carry.dh);
    if (fv_back_wants(back, C0) && carry.has_dc) fv_back_send(back, C0, carry.dc[0]);
}

static const fv_sequence_params ahead = {false}, backwards = {true};

static const fv_op_case cases[] = {
    {.name = "states",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 3, 2, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 2, 2), FV_IN(NORMAL, 2, 2)}},
    {.name = "reverse",
     .params = &backwards,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 3, 2, 8), FV_IN(NORMAL, 8, 2), FV_IN(NORMAL, 2, 2), FV_IN(NORMAL, 2, 2)}},
    {.name = "from zero",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 5, 1, 8), FV_IN(NORMAL, 8, 2), FV_IN_NONE, FV_IN_NONE}},
    {.name = "one step",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 1, 2, 4), FV_IN(NORMAL, 4, 1), FV_IN_NONE, FV_IN(NORMAL, 2, 1)}},
    {.name = "no steps",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 0, 2, 4), FV_IN(NORMAL, 4, 1), FV_IN(NORMAL, 2, 1), FV_IN(NORMAL, 2, 1)}},
};

const fv_op_desc fv_op_lstm = {
    .id = FV_OP_LSTM,
    .name = "lstm",
    .formula = "h, c of every step from x_gates + h W^T",
    .min_in = 4,
    .max_in = 4,
    .n_out = 3,
    .params_bytes = sizeof(fv_sequence_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = TERMS,
    FV_CASES(cases),
};
