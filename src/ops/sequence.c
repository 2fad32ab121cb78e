#include "ops/sequence.h"

static fv_status check_gates(fv_op_run *run, int64_t n)
{
    FV_TRY(fv_need_rank(run, 1, 2, 2));
    const fv_tensor *x = run->in[0], *w = run->in[1];
    if (x->shape[x->rank - 1] == w->shape[0] && w->shape[0] % n == 0 &&
        w->shape[0] / n == w->shape[1])
        return FV_OK;
    return fv_op_mismatch(run, 0, 1,
                          n == 4 ? "(gates and weight) must be [T, B, 4H] and [4H, H]"
                                 : "(gates and weight) must be [T, B, 3H] and [3H, H]");
}

static fv_status check_lengths(fv_op_run *run, int lengths)
{
    FV_TRY(fv_need_dtype(run, lengths, FV_I64));
    FV_TRY(fv_need_rank(run, lengths, 1, 1));
    FV_TRY(fv_need_rank(run, 0, 2, 2));
    if (run->in[lengths]->shape[0] > run->in[0]->shape[0])
        return fv_op_mismatch(run, 0, lengths,
                              "(gates and lengths): each sequence needs at least one step");
    return FV_OK;
}

/* Of all inputs but the lengths. */
static fv_status check_dtypes(fv_op_run *run, int lengths)
{
    const int n = run->n_in;
    run->n_in = lengths;
    const fv_status status = fv_need_same_real(run);
    run->n_in = n;
    return status;
}

fv_status fv_sequence_infer(fv_op_run *run, int64_t n, int first_state, int lengths, int n_out)
{
    const fv_tensor *packed = run->in[lengths];
    FV_TRY(check_dtypes(run, lengths));
    if (packed)
        FV_TRY(check_lengths(run, lengths));
    else
        FV_TRY(fv_need_rank(run, 0, 3, 3));
    FV_TRY(check_gates(run, n));
    const fv_tensor *x = run->in[0];
    const int64_t hidden = run->in[1]->shape[1], batch = packed ? packed->shape[0] : x->shape[1];
    for (int i = first_state; i < lengths; i++) {
        const fv_tensor *state = run->in[i];
        if (state && !fv_shape_equal(state->rank, state->shape, 2, (int64_t[]){batch, hidden}))
            return fv_op_mismatch(run, 0, i, "(gates and first state): expected a state of [B, H]");
    }
    run->n_out = n_out;
    fv_spec_like(run, 0, 0);
    run->spec[0].shape[x->rank - 1] = hidden;
    for (int k = 1; k < n_out; k++)
        fv_spec_set(run, k, x->dtype, 2, (int64_t[]){batch, hidden});
    for (int k = 0; k < n_out; k++)
        run->spec[k].view_of = -1;
    return FV_OK;
}

fv_sequence fv_sequence_of(fv_ctx *ctx, const void *params, const fv_tensor *h, int64_t n,
                           const fv_tensor *lengths)
{
    const fv_sequence_params *how = params;
    const int64_t hidden = h->shape[h->rank - 1];
    fv_sequence s = {.ctx = ctx,
                     .dtype = h->dtype,
                     .batch = lengths ? lengths->shape[0] : h->shape[1],
                     .hidden = hidden,
                     .gates = n * hidden,
                     .total = lengths ? h->shape[0] : h->shape[0] * h->shape[1],
                     .reverse = how->reverse};
    if (lengths && !how->equal_lengths)
        s.lengths = lengths->data;
    else
        s.steps = lengths ? s.total / s.batch : h->shape[0];
    return s;
}

fv_tensor *fv_sequence_rows(const fv_sequence *s, int64_t width)
{
    return fv_tensor_new(s->ctx, s->dtype, 2, (int64_t[]){s->total, width * s->hidden});
}

void fv_sequence_launch(const fv_sequence *s, fv_kernel_id kernel, fv_matrix weight,
                        void *const *ptr)
{
    const fv_sequence_args args = {.steps = s->steps,
                                   .batch = s->batch,
                                   .hidden = s->hidden,
                                   .total = s->total,
                                   .w_row = weight.row,
                                   .w_col = weight.col,
                                   .reverse = s->reverse,
                                   .element = fv_dtype_size(s->dtype)};
    fv_launch(s->ctx, kernel, s->dtype, ptr, &args, sizeof args);
}

void fv_sequence_copy_state(const fv_sequence *s, fv_tensor *out, fv_tensor *first)
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

enum { WEIGHT = 1 };

fv_tensor *fv_sequence_before(fv_op_back *back, const fv_sequence *s)
{
    return s->lengths && fv_back_wants(back, WEIGHT) ? fv_sequence_rows(s, 1) : NULL;
}

/* Sends the product of `rows` rows of dgates from row `at` on and of `before`. */
static void send_rows(fv_op_back *back, const fv_sequence *s, fv_tensor *dgates, int64_t at,
                      const fv_tensor *before, int64_t from, int64_t rows)
{
    const int64_t size = (int64_t)fv_dtype_size(s->dtype);
    fv_back_send_product(
        back, WEIGHT,
        fv_matrix_transpose(
            fv_matrix_at((char *)dgates->data + at * s->gates * size, rows, s->gates)),
        fv_matrix_at((char *)before->data + from * s->hidden * size, rows, s->hidden));
}

/* The rows in the order in which they are stored, as if they were one product. */
void fv_sequence_send_weight(fv_op_back *back, const fv_sequence *s, fv_tensor *dgates,
                             fv_tensor *before, fv_tensor *h, fv_tensor *h0, int term)
{
    if (!fv_back_wants(back, WEIGHT)) return;
    if (before) {
        send_rows(back, s, dgates, 0, before, 0, s->total);
        return;
    }
    const int64_t first = s->steps > 0 ? s->batch : 0, others = s->total - first;
    const int64_t starting = h0 && fv_back_term(back, term + 1) ? first : 0;
    const int64_t continued = fv_back_term(back, term) ? others : 0;
    if (h0 && !s->reverse) send_rows(back, s, dgates, 0, h0, 0, starting);
    if (s->reverse)
        send_rows(back, s, dgates, 0, h, continued > 0 ? first : 0, continued);
    else
        send_rows(back, s, dgates, continued > 0 ? first : 0, h, 0, continued);
    if (h0 && s->reverse) send_rows(back, s, dgates, starting > 0 ? others : 0, h0, 0, starting);
}
