/*
 * (y1, y2) = (x1 c - x2 s, x2 c + x1 s) for every pair of columns, c and s by the row's position.
 *   The transpose of a rotation is its inverse: (dx1, dx2) = (g1 c + g2 s, g2 c - g1 s).
 */
#include "kernels/rows.h"
#include "ops/rows.h"

enum { X, TABLE };

typedef struct rotary_params {
    int axis;
    fv_pairs pairs;
} rotary_params;

fv_tensor *fv_rotary(fv_ctx *ctx, fv_tensor *x, fv_tensor *table, int axis, fv_pairs pairs)
{
    const rotary_params params = {axis, pairs};
    return fv_op_apply(ctx, FV_OP_ROTARY, 2, (fv_tensor *[]){x, table}, &params);
}

static fv_status infer(fv_op_run *run)
{
    const rotary_params *params = run->params;
    int axis = 0;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, X, 2, FV_MAX_RANK));
    FV_TRY(fv_need_rank(run, TABLE, 3, 3));
    FV_TRY(fv_need_axis(run, X, params->axis, &axis));
    const fv_tensor *x = run->in[X], *table = run->in[TABLE];
    if (axis == x->rank - 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "the axis of positions cannot be the last axis");
    if (params->pairs != FV_PAIRS_HALVES && params->pairs != FV_PAIRS_INTERLEAVED)
        return fv_op_error(run, FV_ERR_ARGUMENT, "unknown layout of rotary pairs %d",
                           (int)params->pairs);
    if (table->shape[0] != 2 || table->shape[1] != x->shape[axis] ||
        table->shape[2] > x->shape[x->rank - 1] / 2)
        return fv_op_mismatch(run, X, TABLE,
                              "(x and table): expected a table of [2, positions, <= d/2]");
    fv_spec_like(run, 0, X);
    return FV_OK;
}

static void rotate(fv_ctx *ctx, const rotary_params *params, fv_tensor *y, fv_tensor *x,
                   fv_tensor *table, bool back)
{
    if (ctx->error != FV_OK || y->count == 0) return;
    const int axis = params->axis < 0 ? params->axis + x->rank : params->axis;
    const int64_t width = x->shape[x->rank - 1];
    const fv_rotary_args args = {.outer = fv_outer_count(x, axis),
                                 .n = x->shape[axis],
                                 .inner = fv_inner_count(x, axis) / width,
                                 .width = width,
                                 .rotated = 2 * table->shape[2],
                                 .interleaved = params->pairs == FV_PAIRS_INTERLEAVED,
                                 .inverse = back};
    fv_launch(ctx, FV_KERNEL_ROTARY, x->dtype, (void *[]){y->data, x->data, table->data}, &args,
              sizeof args);
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *x = fv_contiguous_raw(ctx, run->in[X]);
    fv_tensor *table = fv_contiguous_raw(ctx, run->in[TABLE]);
    rotate(ctx, run->params, run->out[0], x, table, false);
    if (ctx->error != FV_OK) return;
    fv_save(run, 0, table);
    fv_drop_copy(ctx, x, run->in[X]);
}

static void backward(fv_op_back *back)
{
    if (!fv_back_wants(back, X)) return;
    fv_tensor *g = fv_contiguous_raw(back->ctx, back->grad[0]), *dx = fv_back_new(back, X);
    rotate(back->ctx, back->params, dx, g, back->saved[0], true);
    if (back->ctx->error != FV_OK) return;
    fv_back_send(back, X, dx);
}

static const rotary_params halves = {-2, FV_PAIRS_HALVES}, inter = {1, FV_PAIRS_INTERLEAVED};

#define TABLE_IN(...)                                                                              \
    {                                                                                              \
        .gen = FV_GEN_NORMAL, .rank = 3, .shape = {__VA_ARGS__}, .constant = true                  \
    }

static const fv_op_case cases[] = {
    {.name = "halves",
     .params = &halves,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 3, 4), TABLE_IN(2, 3, 2)}},
    {.name = "interleaved, an axis behind the positions, columns left over",
     .params = &inter,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 2, 3, 2, 5), TABLE_IN(2, 3, 1)}},
    {.name = "no rows",
     .params = &halves,
     .n_in = 2,
     .in = {FV_IN(NORMAL, 0, 2, 4), TABLE_IN(2, 2, 2)}},
};

const fv_op_desc fv_op_rotary = {
    .id = FV_OP_ROTARY,
    .name = "rotary",
    .formula = "pairs (x1, x2) rotated by the angle of their position",
    .min_in = 2,
    .max_in = 2,
    .params_bytes = sizeof(rotary_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_FOLLOWS,
    .bf16_inputs = 1u << X,
    FV_CASES(cases),
};
