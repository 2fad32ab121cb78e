#include "ops/sequence.h"

fv_status fv_sequence_infer(fv_op_run *run, int64_t n, int first_state, int n_out)
{
    FV_FORWARD(fv_need_same_real(run));
    FV_FORWARD(fv_need_rank(run, 0, 3, 3));
    FV_FORWARD(fv_need_rank(run, 1, 2, 2));
    const fv_tensor *x = run->in[0], *w = run->in[1];
    const int64_t hidden = w->shape[1];
    if (x->shape[2] != w->shape[0] || w->shape[0] % n != 0 || w->shape[0] / n != hidden)
        return fv_op_mismatch(run, 0, 1,
                              n == 4 ? "(gates and weight) must be [T, B, 4H] and [4H, H]"
                                     : "(gates and weight) must be [T, B, 3H] and [3H, H]");
    for (int i = first_state; i < run->n_in; i++) {
        const fv_tensor *state = run->in[i];
        if (state &&
            !fv_shape_equal(state->rank, state->shape, 2, (int64_t[]){x->shape[1], hidden}))
            return fv_op_mismatch(run, 0, i, "(gates and first state): the state must be [B, H]");
    }
    run->n_out = n_out;
    fv_spec_set(run, 0, x->dtype, 3, (int64_t[]){x->shape[0], x->shape[1], hidden});
    for (int k = 1; k < n_out; k++)
        fv_spec_set(run, k, x->dtype, 2, (int64_t[]){x->shape[1], hidden});
    for (int k = 0; k < n_out; k++)
        run->spec[k].view_of = -1;
    return FV_OK;
}

fv_sequence fv_sequence_of(fv_ctx *ctx, const void *params, const fv_tensor *h, int64_t n)
{
    return (fv_sequence){.ctx = ctx,
                         .dtype = h->dtype,
                         .steps = h->shape[0],
                         .batch = h->shape[1],
                         .hidden = h->shape[2],
                         .gates = n * h->shape[2],
                         .reverse = ((const fv_sequence_params *)params)->reverse};
}

void fv_sequence_launch(const fv_sequence *s, fv_kernel_id kernel, fv_matrix weight,
                        void *const *ptr)
{
    const fv_sequence_args args = {.steps = s->steps,
                                   .batch = s->batch,
                                   .hidden = s->hidden,
                                   .w_row = weight.row,
                                   .w_col = weight.col,
                                   .reverse = s->reverse,
                                   .element = fv_dtype_size(s->dtype)};
    fv_launch(s->ctx, kernel, s->dtype, ptr, &args, sizeof args);
}

void fv_sequence_pass(const fv_sequence *s, fv_tensor *out, fv_tensor *first)
{
    if (first)
        fv_copy_into(s->ctx, out, first);
    else
        fv_fill(s->ctx, out, 0.0);
}

fv_tensor *fv_sequence_grad(fv_op_back *back, int k)
{
    return back->grad[k] ? fv_contiguous_raw(back->ctx, back->grad[k]) : NULL;
}

/* The rows of step k in t, which holds `width` entries a row for every step. */
static char *step_at(const fv_sequence *s, const fv_tensor *t, int64_t k, int64_t width)
{
    const int64_t place = s->reverse ? s->steps - 1 - k : k;
    return t->data + place * s->batch * width * (int64_t)fv_dtype_size(s->dtype);
}

void fv_sequence_send_weight(fv_op_back *back, const fv_sequence *s, fv_tensor *dgates,
                             fv_tensor *h, fv_tensor *h0, int term)
{
    fv_ctx *ctx = back->ctx;
    bool accumulate;
    fv_tensor *dw = fv_back_dest(back, 1, &accumulate);
    if (ctx->error != FV_OK) return;
    /* Step k meets h of step k - 1. In memory that is one place earlier, or later in reverse, so
     * all pairs of rows lie in two runs. */
    int64_t rows = s->steps > 0 ? (s->steps - 1) * s->batch : 0;
    if (!fv_back_term(back, term)) rows = 0;
    char *d = dgates->data, *before = h->data;
    if (rows > 0) {
        d = step_at(s, dgates, s->reverse ? s->steps - 1 : 1, s->gates);
        before = step_at(s, h, s->reverse ? s->steps - 2 : 0, s->hidden);
    }
    const fv_matrix c = fv_matrix_at(dw->data, s->gates, s->hidden);
    fv_product(ctx, s->dtype, c, fv_matrix_flip(fv_matrix_at(d, rows, s->gates)),
               fv_matrix_at(before, rows, s->hidden), accumulate);
    if (h0 && s->steps > 0 && fv_back_term(back, term + 1))
        fv_product(
            ctx, s->dtype, c,
            fv_matrix_flip(fv_matrix_at(step_at(s, dgates, 0, s->gates), s->batch, s->gates)),
            fv_matrix_at(h0->data, s->batch, s->hidden), true);
    fv_back_sent(back, 1, dw, accumulate);
}
