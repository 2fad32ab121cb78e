/*
 * y = x repeated to another shape by the rules of broadcasting: a view whose repeated axes have
 * stride 0.
 *   A repeated element contributes to each of its copies: dx = g summed over those axes.
 */
#include "ops/layout.h"

fv_tensor *fv_broadcast(fv_ctx *ctx, fv_tensor *x, int rank, const int64_t *shape)
{
    fv_shape_params params = fv_shape_params_of(rank, shape);
    return fv_op_apply(ctx, FV_OP_BROADCAST, 1, &x, &params);
}

static fv_status mismatch(fv_op_run *run, const fv_shape_params *p)
{
    char from[FV_SHAPE_TEXT], to[FV_SHAPE_TEXT];
    const fv_tensor *x = run->in[0];
    return fv_op_error(run, FV_ERR_SHAPE, "%s does not broadcast to %s",
                       fv_shape_text(from, x->rank, x->shape),
                       fv_shape_text(to, p->rank, p->shape));
}

static fv_status infer(fv_op_run *run)
{
    const fv_shape_params *p = run->params;
    FV_TRY(fv_shape_check(run, p));
    const fv_tensor *x = run->in[0];
    const int lead = p->rank - x->rank;
    int64_t count = 0;
    if (lead < 0 || !fv_shape_count(p->rank, p->shape, &count)) return mismatch(run, p);
    fv_spec *spec = &run->spec[0];
    fv_spec_set(run, 0, x->dtype, p->rank, p->shape);
    spec->view_of = 0;
    spec->offset = 0;
    for (int i = 0; i < p->rank; i++) {
        const bool same = i >= lead && x->shape[i - lead] == p->shape[i];
        if (!same && i >= lead && x->shape[i - lead] != 1) return mismatch(run, p);
        spec->stride[i] = same ? x->stride[i - lead] : 0;
    }
    return FV_OK;
}

static void backward(fv_op_back *back) { fv_back_send_reduced(back, 0, back->grad[0]); }

static const fv_shape_params wide = {.rank = 3, .shape = {2, 3, 4}};
static const fv_shape_params none = {.rank = 2, .shape = {0, 4}};

static const fv_op_case cases[] = {
    {.name = "row", .params = &wide, .n_in = 1, .in = {FV_IN(NORMAL, 4)}},
    {.name = "column", .params = &wide, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 1)}},
    {.name = "same", .params = &wide, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "scalar", .params = &wide, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &none, .n_in = 1, .in = {FV_IN(NORMAL, 4)}},
};

const fv_op_desc fv_op_broadcast = {
    .id = FV_OP_BROADCAST,
    .name = "broadcast",
    .formula = "y = x repeated to a shape",
    .min_in = 1,
    .max_in = 1,
    .params_bytes = sizeof(fv_shape_params),
    .infer = infer,
    .backward = backward,
    .bf16 = FV_BF16_MOVES,
    FV_CASES(cases),
};
