/*
 * y = m x / (1 - p), m = 1 with probability 1 - p, else 0, drawn from the key.
 *   dx = m g / (1 - p): the same kernel on g with the same key; no mask is saved.
 */
#include "kernels/random.h"
#include "ops/draw.h"
#include "ops/rows.h"

enum { X, NUMBERS };

typedef struct dropout_params {
    double p;
    fv_draw draw;
} dropout_params;

fv_tensor *fv_dropout(fv_ctx *ctx, fv_tensor *x, double p)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (!(p >= 0.0 && p < 1.0)) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "dropout: p is %g, expected [0, 1)", p);
        return ctx->invalid;
    }
    if (p == 0.0) return x;
    dropout_params params = {.p = p};
    fv_tensor *in[] = {[X] = x, [NUMBERS] = NULL};
    if (x) {
        params.draw = fv_draw_next(ctx, x->rank, x->shape);
        in[NUMBERS] = fv_draw_numbers(ctx, x->rank, x->shape);
    }
    return fv_op_apply(ctx, FV_OP_DROPOUT, 2, in, &params);
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, X));
    const fv_tensor *x = run->in[X];
    FV_TRY(fv_draw_check_numbers(run, NUMBERS, fv_draw_shape_of(x->rank, x->shape).rows));
    fv_spec_like(run, 0, X);
    return FV_OK;
}

static void drop(fv_ctx *ctx, const dropout_params *params, fv_tensor *y, fv_tensor *x,
                 fv_tensor *numbers)
{
    if (ctx->error != FV_OK || y->count == 0) return;
    fv_tensor *copy;
    void *table = fv_optional_data(ctx, numbers, &copy);
    if (ctx->error != FV_OK) return;
    const fv_draw_shape shape = fv_draw_shape_of(y->rank, y->shape);
    const fv_dropout_args args = {
        .rows = shape.rows, .cols = shape.cols, .draw = params->draw, .p = params->p};
    fv_launch(ctx, FV_KERNEL_DROPOUT, y->dtype, (void *[]){y->data, x->data, table}, &args,
              sizeof args);
    fv_drop_copy(ctx, copy, numbers);
}

static void forward(fv_op_run *run)
{
    fv_tensor *x = fv_contiguous_raw(run->ctx, run->in[X]);
    fv_tensor *numbers = fv_draw_numbers_in(run->in, run->n_in, NUMBERS);
    drop(run->ctx, run->params, run->out[0], x, numbers);
    fv_drop_copy(run->ctx, x, run->in[X]);
    fv_save(run, NUMBERS, numbers);
}

static void backward(fv_op_back *back)
{
    fv_tensor *g = fv_contiguous_raw(back->ctx, back->grad[0]), *dx = fv_back_new(back, X);
    drop(back->ctx, back->params, dx, g, back->saved[NUMBERS]);
    fv_back_send(back, X, dx);
}

static const dropout_params some = {.p = 0.3, .draw = {.key = 7}},
                            most = {.p = 0.8, .draw = {.key = 9, .first = 5, .entry_rows = 3}};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &some, .n_in = 1, .in = {FV_IN(NORMAL, 4, 6)}},
    {.name = "most", .params = &most, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 5)}},
    {.name = "vector", .params = &some, .n_in = 1, .in = {FV_IN(NORMAL, 9)}},
    {.name = "numbers", .params = &some, .n_in = 2, .in = {FV_IN(NORMAL, 2, 3, 4), FV_INDEX(9, 6)}},
    {.name = "empty", .params = &some, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};

const fv_op_desc fv_op_dropout = {
    .id = FV_OP_DROPOUT,
    .name = "dropout",
    .formula = "y = m x / (1 - p), m drawn from the key",
    .min_in = 1,
    .max_in = 2,
    .params_bytes = sizeof(dropout_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .bf16 = FV_BF16_FOLLOWS,
    .bf16_inputs = 1u << X,
    FV_CASES(cases),
};
