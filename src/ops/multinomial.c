/*
 * For each row of weights w >= 0: indices drawn with probability w_j / sum(w), with replacement.
 */
#include "kernels/rows.h"
#include "ops/draw.h"
#include "ops/rows.h"

enum { WEIGHTS, NUMBERS };

typedef struct multinomial_params {
    int64_t samples;
    fv_draw draw;
} multinomial_params;

fv_tensor *fv_multinomial(fv_ctx *ctx, fv_tensor *weights, int64_t samples)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    multinomial_params params = {.samples = samples};
    fv_tensor *in[] = {[WEIGHTS] = weights, [NUMBERS] = NULL};
    if (weights) {
        params.draw = fv_draw_next(ctx, weights->rank, weights->shape);
        in[NUMBERS] = fv_draw_numbers(ctx, weights->rank, weights->shape);
    }
    return fv_op_apply(ctx, FV_OP_MULTINOMIAL, 2, in, &params);
}

static fv_status infer(fv_op_run *run)
{
    const multinomial_params *params = run->params;
    FV_TRY(fv_need_real(run, WEIGHTS));
    FV_TRY(fv_need_rank(run, WEIGHTS, 1, FV_MAX_RANK));
    const fv_tensor *w = run->in[WEIGHTS];
    if (params->samples < 0)
        return fv_op_error(run, FV_ERR_ARGUMENT, "expected a number of samples >= 0, got %lld",
                           (long long)params->samples);
    if (w->shape[w->rank - 1] == 0)
        return fv_op_error(run, FV_ERR_SHAPE, "rows have no weights to draw from");
    FV_TRY(fv_draw_check_numbers(run, NUMBERS, fv_row_count(w)));
    fv_spec_like(run, 0, WEIGHTS);
    run->spec[0].dtype = FV_I64;
    run->spec[0].shape[w->rank - 1] = params->samples;
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const multinomial_params *params = run->params;
    fv_tensor *w = fv_contiguous_raw(ctx, run->in[WEIGHTS]), *out = run->out[0];
    if (ctx->error != FV_OK) return;
    const fv_multinomial_args args = {.rows = fv_row_count(w),
                                      .cols = w->shape[w->rank - 1],
                                      .samples = params->samples,
                                      .draw = params->draw};
    fv_tensor *numbers = fv_draw_numbers_in(run->in, run->n_in, NUMBERS), *copy;
    void *table = fv_optional_data(ctx, numbers, &copy);
    if (ctx->error == FV_OK && out->count > 0)
        fv_launch(ctx, FV_KERNEL_MULTINOMIAL, w->dtype, (void *[]){out->data, w->data, table},
                  &args, sizeof args);
    fv_drop_copy(ctx, copy, numbers);
    fv_drop_copy(ctx, w, run->in[WEIGHTS]);
}

static const multinomial_params nine = {.samples = 9, .draw = {.key = 3}}, none = {.samples = 0};

static const fv_op_case cases[] = {
    {.name = "rows", .params = &nine, .n_in = 1, .in = {FV_IN(POSITIVE, 3, 5)}},
    {.name = "one row", .params = &nine, .n_in = 1, .in = {FV_IN(UNIT, 4)}},
    {.name = "numbers", .params = &nine, .n_in = 2, .in = {FV_IN(POSITIVE, 3, 5), FV_INDEX(9, 3)}},
    {.name = "none", .params = &none, .n_in = 1, .in = {FV_IN(UNIT, 2, 4)}},
};

const fv_op_desc fv_op_multinomial = {
    .id = FV_OP_MULTINOMIAL,
    .name = "multinomial",
    .formula = "indices drawn with probability w / sum(w)",
    .min_in = 1,
    .max_in = 2,
    .params_bytes = sizeof(multinomial_params),
    .infer = infer,
    .forward = forward,
    .no_backward = "its result is an index",
    FV_CASES(cases),
};
