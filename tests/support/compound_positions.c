/* Positions that have parameters or take part in a gradient. */
#include "fovea/layers.h"
#include "support/compound.h"

static fv_tensor *absolute(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)params;
    const int64_t n = fv_tensor_size(in[0], -2);
    fv_tensor *table =
        n_in > 1 ? fv_positions_learned(ctx, in[1], 1, n)
                 : fv_sinusoid(ctx, fv_tensor_dtype(in[0]), 5, n, 3, 100, FV_SINUSOID_INTERLEAVED);
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, 2);
    fv_tensor *angles = fv_rotary_table(ctx, fv_tensor_dtype(in[0]), &cfg, 3, n);
    fv_tensor *both[2] = {fv_positions_apply(ctx, in[0], table, FV_POSITIONS_ADD),
                          fv_positions_apply(ctx, in[0], table, FV_POSITIONS_CONCAT)};
    both[0] = fv_rotary(ctx, both[0], angles, -2, cfg.pairs);
    return compound_join(ctx, 2, both);
}

static const fv_op_case absolute_cases[] = {
    {.name = "sinusoid, rotary", .n_in = 1, .in = {FV_IN(NORMAL, 2, 2, 3)}},
    {.name = "learned, rotary", .n_in = 2, .in = {FV_IN(NORMAL, 2, 2, 3), FV_IN(NORMAL, 4, 3)}},
};

const fv_op_desc compound_absolute =
    COMPOUND(4, "absolute positions", "x with positions", absolute, absolute_cases);

/* All three uses of one table. */
static fv_tensor *relative(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in;
    const int64_t n_q = fv_tensor_size(in[0], 2), n_k = fv_tensor_size(in[1], 3);
    fv_tensor *all[3] = {fv_relative_key_scores(ctx, in[0], in[2], params, 1, n_k),
                         fv_relative_value_sums(ctx, in[1], in[2], params, 1),
                         fv_relative_bias(ctx, in[2], params, 1, n_q, n_k)};
    return fv_ctx_error(ctx) == FV_OK ? compound_join(ctx, 3, all) : all[0];
}

static const fv_relative clipped = {.kind = FV_RELATIVE_CLIPPED, .max_distance = 1},
                         buckets = {.kind = FV_RELATIVE_T5,
                                    .buckets = 8,
                                    .max_distance = 5,
                                    .bidirectional = true};

static const fv_op_case relative_cases[] = {
    {.name = "clipped",
     .params = &clipped,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 2, 2, 3, 2), FV_IN(NORMAL, 2, 2, 3, 4), FV_IN(NORMAL, 3, 2)}},
    {.name = "buckets",
     .params = &buckets,
     .n_in = 3,
     .in = {FV_IN(NORMAL, 1, 2, 3, 2), FV_IN(NORMAL, 1, 2, 3, 7), FV_IN(NORMAL, 8, 2)}},
};

const fv_op_desc compound_relative =
    COMPOUND(5, "relative positions", "a row for every distance", relative, relative_cases);
