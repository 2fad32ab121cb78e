/*
 * A GRU over a whole sequence: at each step h's gates are h W^T + bias, then the cell of
 * gru_cell.c with x_gates, which come from one product over all steps, outside.
 *
 * Back, from the last step to the first, E the gradient of h's gates of a step:
 *   dx, E, dh_before's direct part = the cell's backward:    terms 0 to 4
 *   dh_before = that + E W:                                  term 5
 *     + its own upstream:                                    terms 7 (h), 6 (h_last)
 *   dW = sum over steps of E^T h_before: terms 8, and 9 for the step that saw h0;
 *   dbias = sum of E over steps and rows;  dh0 = the first step's dh_before.
 */
#include "kernels/recurrent.h"
#include "ops/rows.h"
#include "ops/sequence.h"

enum { X, WEIGHT, BIAS, H0 };
enum { OUT_H, OUT_H_LAST };
enum { SAVED_WEIGHT, SAVED_H, SAVED_ACTS, SAVED_H0 };
enum { TERM_RECURRENT = 5, TERM_LAST = 6, TERM_UPSTREAM = 7, TERM_WEIGHT = 8, TERMS = 10 };

fv_tensor *fv_gru(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h_bias,
                  fv_tensor *h0, bool reverse, fv_tensor **h_last)
{
    const fv_sequence_params params = {reverse};
    fv_tensor *out[2];
    fv_op_apply_many(ctx, FV_OP_GRU, 4, (fv_tensor *[]){x_gates, weight, h_bias, h0}, &params, 2,
                     out);
    if (h_last) *h_last = out[OUT_H_LAST];
    return out[OUT_H];
}

static fv_status infer(fv_op_run *run)
{
    FV_FORWARD(fv_sequence_infer(run, 3, H0, 2));
    const fv_tensor *bias = run->in[BIAS];
    if (bias && (bias->rank != 1 || bias->shape[0] != run->in[WEIGHT]->shape[0]))
        return fv_op_mismatch(run, WEIGHT, BIAS, "(weight and bias): the bias must be [3H]");
    return FV_OK;
}

/* What a walk over the steps reads and writes. */
typedef struct gru_walk {
    fv_sequence s;
    fv_tensor *h, *acts, *h0;
} gru_walk;

static void *state_before(const gru_walk *w, int64_t k)
{
    return k > 0 ? fv_sequence_at(&w->s, w->h, k - 1, w->s.hidden) : w->h0->data;
}

static void run_steps(const gru_walk *w, fv_tensor *x, const fv_step_product *product, void *bias,
                      fv_tensor *room)
{
    const fv_sequence *s = &w->s;
    const fv_cell_args args = {.batch = s->batch, .hidden = s->hidden};
    for (int64_t k = 0; k < s->steps; k++) {
        void *before = state_before(w, k);
        fv_step_multiply(s, product, room->data, before, bias, NULL);
        fv_launch(s->ctx, FV_KERNEL_GRU_CELL, s->dtype,
                  (void *[]){fv_sequence_at(s, w->h, k, s->hidden),
                             w->acts ? fv_sequence_at(s, w->acts, k, 4 * s->hidden) : NULL,
                             fv_sequence_at(s, x, k, s->gates), room->data, before},
                  &args, sizeof args);
    }
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *last = run->out[OUT_H_LAST];
    gru_walk w = {.s = fv_sequence_of(ctx, run->params, run->out[OUT_H], 3), .h = run->out[OUT_H]};
    const fv_sequence *s = &w.s;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]), *weight = run->in[WEIGHT];
    const fv_matrix mw = fv_matrix_of(ctx, &weight);
    fv_tensor *bias = run->in[BIAS] ? fv_contiguous_raw(ctx, run->in[BIAS]) : NULL;
    w.h0 = run->in[H0] ? fv_contiguous_raw(ctx, run->in[H0]) : fv_tensor_like(ctx, last);
    if (run->recording)
        w.acts = fv_tensor_new(ctx, s->dtype, 3, (int64_t[]){s->steps, s->batch, 4 * s->hidden});
    fv_tensor *room = fv_tensor_new(ctx, s->dtype, 2, (int64_t[]){s->batch, s->gates});
    if (ctx->error != FV_OK) return;
    if (!run->in[H0]) fv_fill(ctx, w.h0, 0.0);
    fv_step_product product = fv_step_product_of(s, fv_matrix_flip(mw));
    if (ctx->error != FV_OK) return;

    run_steps(&w, x, &product, bias ? bias->data : NULL, room);
    if (s->steps > 0)
        fv_sequence_copy_step(s, last, w.h, s->steps - 1);
    else
        fv_copy_into(ctx, last, w.h0);

    fv_tensor_free(ctx, &room);
    fv_tensor_free(ctx, &product.packed);
    fv_drop_copy(ctx, x, run->in[X]);
    fv_drop_copy(ctx, bias, run->in[BIAS]);
    fv_save(run, SAVED_WEIGHT, weight);
    fv_save(run, SAVED_H, w.h);
    fv_save(run, SAVED_ACTS, w.acts);
    fv_save(run, SAVED_H0, w.h0);
    if (run->recording) return;
    fv_drop_copy(ctx, weight, run->in[WEIGHT]);
    fv_drop_copy(ctx, w.h0, run->in[H0]);
}

/* Leaves in dh[0] the gradient of the state before the first step. The cell reads one of the two
 * and writes the other. */
static void walk_back(fv_op_back *back, const gru_walk *w, fv_tensor *dx, fv_tensor *dgates,
                      fv_tensor *dh_all, fv_tensor *dh[2])
{
    const fv_sequence *s = &w->s;
    const fv_cell_args args = {.batch = s->batch, .hidden = s->hidden};
    fv_tensor *weight = back->saved[SAVED_WEIGHT];
    fv_step_product product = fv_step_product_of(s, fv_matrix_of(s->ctx, &weight));
    void *now = fv_sequence_last_grad(back, s, dh[0], dh_all, back->grad[OUT_H_LAST], TERM_LAST);
    for (int64_t k = s->steps - 1; k >= 0 && s->ctx->error == FV_OK; k--) {
        char *step = fv_sequence_at(s, dgates, k, s->gates);
        void *before = dh[1]->data;
        fv_launch(s->ctx, FV_KERNEL_GRU_CELL_GRAD, s->dtype,
                  (void *[]){fv_sequence_at(s, dx, k, s->gates), step, before, now,
                             fv_sequence_at(s, w->acts, k, 4 * s->hidden), state_before(w, k), NULL,
                             NULL},
                  &args, sizeof args);
        if (fv_back_term(back, TERM_RECURRENT))
            fv_step_multiply(s, &product, before, step, NULL, before);
        if (k > 0 && dh_all && fv_back_term(back, TERM_UPSTREAM))
            fv_sequence_add(s, before, fv_sequence_at(s, dh_all, k - 1, s->hidden));
        now = before;
        fv_tensor *written = dh[1];
        dh[1] = dh[0];
        dh[0] = written;
    }
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    gru_walk w = {.s = fv_sequence_of(ctx, back->params, back->saved[SAVED_H], 3),
                  .h = back->saved[SAVED_H],
                  .acts = back->saved[SAVED_ACTS],
                  .h0 = back->saved[SAVED_H0]};
    fv_tensor *dh_all = back->grad[OUT_H] ? fv_contiguous_raw(ctx, back->grad[OUT_H]) : NULL;
    fv_tensor *dx = fv_back_new(back, X), *dgates = fv_back_new(back, X);
    fv_tensor *dh[2] = {fv_tensor_like(ctx, w.h0), fv_tensor_like(ctx, w.h0)};
    if (ctx->error != FV_OK) return;
    if (w.s.steps > 0)
        walk_back(back, &w, dx, dgates, dh_all, dh);
    else if (back->grad[OUT_H_LAST])
        fv_copy_into(ctx, dh[0], back->grad[OUT_H_LAST]);
    if (ctx->error != FV_OK) return;
    fv_back_send(back, X, dx);
    if (fv_back_wants(back, WEIGHT))
        fv_sequence_send_weight(back, &w.s, dgates, w.h, w.h0, TERM_WEIGHT);
    if (fv_back_wants(back, BIAS)) {
        fv_tensor *db = fv_back_new(back, BIAS);
        if (ctx->error != FV_OK) return;
        fv_column_sum(ctx, w.s.dtype, db->data,
                      fv_matrix_at(dgates->data, w.s.steps * w.s.batch, w.s.gates));
        fv_back_send(back, BIAS, db);
    }
    if (fv_back_wants(back, H0) && (w.s.steps > 0 || back->grad[OUT_H_LAST]))
        fv_back_send(back, H0, dh[0]);
}

static const fv_sequence_params ahead = {false}, backwards = {true};

static const fv_op_case cases[] = {
    {.name = "state",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 3, 2, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 2, 2)}},
    {.name = "reverse",
     .params = &backwards,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 3, 2, 6), FV_IN(NORMAL, 6, 2), FV_IN(NORMAL, 6), FV_IN(NORMAL, 2, 2)}},
    {.name = "from zero",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 5, 1, 6), FV_IN(NORMAL, 6, 2), FV_IN_NONE, FV_IN_NONE}},
    {.name = "one step",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 1, 2, 3), FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 3), FV_IN_NONE}},
    {.name = "no steps",
     .params = &ahead,
     .n_in = 4,
     .in = {FV_IN(NORMAL, 0, 2, 3), FV_IN(NORMAL, 3, 1), FV_IN(NORMAL, 3), FV_IN(NORMAL, 2, 1)}},
};

const fv_op_desc fv_op_gru = {
    .id = FV_OP_GRU,
    .name = "gru",
    .formula = "h of every step from x_gates and h W^T + b",
    .min_in = 4,
    .max_in = 4,
    .n_out = 2,
    .params_bytes = sizeof(fv_sequence_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = TERMS,
    FV_CASES(cases),
};
