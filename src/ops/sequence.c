#include "ops/sequence.h"

#include "ops/rows.h"

/* From how many steps on packing a weight costs less than it saves. */
enum { STEPS_WORTH_PACKING = 4 };

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

static int64_t element_offset(const fv_sequence *s, int64_t k, int64_t width)
{
    return (s->reverse ? s->steps - 1 - k : k) * s->batch * width;
}

char *fv_sequence_at(const fv_sequence *s, const fv_tensor *t, int64_t k, int64_t width)
{
    return t->data + element_offset(s, k, width) * (int64_t)fv_dtype_size(s->dtype);
}

void fv_sequence_copy_step(const fv_sequence *s, fv_tensor *dst, const fv_tensor *h, int64_t k)
{
    fv_tensor *step =
        fv_tensor_view(s->ctx, h, 2, dst->shape, dst->stride, element_offset(s, k, s->hidden));
    if (s->ctx->error == FV_OK) fv_copy_into(s->ctx, dst, step);
    fv_tensor_free(s->ctx, &step);
}

fv_step_product fv_step_product_of(const fv_sequence *s, fv_matrix b)
{
    const fv_matrix rows = fv_matrix_at(NULL, s->batch, b.rows);
    fv_step_product p = {.b = b.data};
    p.gemm = fv_product_gemm(fv_matrix_at(NULL, s->batch, b.cols), rows, b);
    if (s->steps < STEPS_WORTH_PACKING || s->ctx->error != FV_OK) return p;
    p.packed = fv_product_pack(s->ctx, s->dtype, b);
    p.gemm.b_packed = 1;
    p.b = p.packed->data;
    return p;
}

void fv_step_multiply(const fv_sequence *s, const fv_step_product *p, void *c, void *a, void *bias,
                      void *residual)
{
    fv_product_launch(s->ctx, s->dtype, &p->gemm, (void *[]){c, a, p->b, bias, residual});
}

void fv_sequence_add(const fv_sequence *s, void *dst, void *src)
{
    fv_map_args args = {.op = FV_BINARY_ADD, .rank = 1};
    args.shape[0] = s->batch * s->hidden;
    for (int i = 0; i < 3; i++)
        args.stride[i][0] = 1;
    fv_launch(s->ctx, FV_KERNEL_BINARY, s->dtype, (void *[]){dst, dst, src}, &args, sizeof args);
}

void *fv_sequence_last_grad(fv_op_back *back, const fv_sequence *s, fv_tensor *room, fv_tensor *dh,
                            fv_tensor *dh_last, int term)
{
    if (!fv_back_term(back, term)) dh_last = NULL;
    char *step = NULL;
    if (dh && fv_back_term(back, term + 1)) step = fv_sequence_at(s, dh, s->steps - 1, s->hidden);
    if (!dh_last && step) return step;
    if (dh_last)
        fv_copy_into(s->ctx, room, dh_last);
    else
        fv_fill(s->ctx, room, 0.0);
    if (step) fv_sequence_add(s, room->data, step);
    return room->data;
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
        d = fv_sequence_at(s, dgates, s->reverse ? s->steps - 1 : 1, s->gates);
        before = fv_sequence_at(s, h, s->reverse ? s->steps - 2 : 0, s->hidden);
    }
    const fv_matrix c = fv_matrix_at(dw->data, s->gates, s->hidden);
    fv_product(ctx, s->dtype, c, fv_matrix_flip(fv_matrix_at(d, rows, s->gates)),
               fv_matrix_at(before, rows, s->hidden), accumulate);
    if (h0 && s->steps > 0 && fv_back_term(back, term + 1))
        fv_product(ctx, s->dtype, c,
                   fv_matrix_flip(
                       fv_matrix_at(fv_sequence_at(s, dgates, 0, s->gates), s->batch, s->gates)),
                   fv_matrix_at(h0->data, s->batch, s->hidden), true);
    fv_back_sent(back, 1, dw, accumulate);
}
