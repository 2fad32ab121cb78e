/*
 * Weights recomputed from q, k and the log-sum-exp of fv_attend: three ops without a gradient, over
 * the kernels of fovea/attention_kernels.h.
 *
 *     attend_weights  p_ij = exp(s_ij - lse_i), [batch, heads, n_q, n_k]
 *     attend_top      the largest of each row, and their keys
 *     attend_spread   -sum_j p ln p, sum_j p |pos_i - j|, sum_i p
 */
#include <math.h>

#include "kernels/attention_weights.h"
#include "ops/attend.h"

#define NO_GRADIENT                                                                                \
    "recomputed weights have no gradient; fv_attention_run with want_weights gives some that have"

typedef struct weights_params {
    fv_attention_rule rule;
    int64_t top;
    bool has_region; /* attend_weights: only this region of the map */
    fv_attention_region region;
} weights_params;

/* ---- shapes ----------------------------------------------------------------------- */

static fv_attn describe(const fv_attention_rule *rule, fv_tensor *const *in)
{
    const fv_tensor *lse = in[LSE], *bias = in[BIAS];
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.dtype = in[Q] ? in[Q]->dtype : lse->dtype;
    a.batch = lse->shape[0];
    a.heads = a.kv_heads = lse->shape[1];
    a.n_q = lse->shape[2];
    a.d_v = 1; /* no values are read */
    if (in[Q]) {
        a.d = in[Q]->shape[3];
        a.kv_heads = in[K]->shape[1];
        a.n_k = in[K]->shape[2];
    } else {
        a.n_k = bias->shape[bias->rank - 1];
    }
    fv_attend_describe(&a, rule, in);
    a.rule.dropout = 0; /* weights are those before it */
    return a;
}

static fv_status check_qkv_shapes(fv_op_run *run)
{
    const fv_tensor *q = run->in[Q], *k = run->in[K], *lse = run->in[LSE];
    if (!fv_attn_is_half(q->dtype)) FV_TRY(fv_need_real(run, Q));
    FV_TRY(fv_need_dtype(run, K, q->dtype));
    FV_TRY(fv_need_dtype(run, LSE, fv_attend_score_dtype(q->dtype)));
    FV_TRY(fv_need_rank(run, Q, 4, 4));
    FV_TRY(fv_need_rank(run, K, 4, 4));
    if (q->shape[0] != k->shape[0] || q->shape[3] != k->shape[3])
        return fv_op_mismatch(run, Q, K, "differ in batch or width");
    if (k->shape[1] < 1 || q->shape[1] % k->shape[1] != 0)
        return fv_op_mismatch(run, Q, K,
                              "differ in heads: those of q are not a multiple of those of k");
    for (int axis = 0; axis < 3; axis++)
        if (q->shape[axis] != lse->shape[axis])
            return fv_op_mismatch(run, Q, LSE, "differ in batch, heads or queries");
    return FV_OK;
}

/* Everything that the three have in common. */
static fv_status check(fv_op_run *run, fv_attn *a)
{
    const weights_params *params = run->params;
    FV_TRY(fv_need_real(run, LSE));
    FV_TRY(fv_need_rank(run, LSE, 3, 3));
    FV_TRY(fv_attend_check_presence(run));
    if (run->in[Q]) FV_TRY(check_qkv_shapes(run));
    static const int beside[] = {BIAS, SLOPES, W};
    for (int k = 0; k < 3; k++)
        if (run->in[beside[k]]) FV_TRY(fv_need_dtype(run, beside[k], run->in[LSE]->dtype));
    if (run->in[VISIBLE]) FV_TRY(fv_need_dtype(run, VISIBLE, FV_U8));
    if (run->in[BLOCKS]) FV_TRY(fv_need_dtype(run, BLOCKS, FV_U8));
    static const int counts[] = {KEY_LENGTHS, Q_BEGIN, K_BEGIN};
    for (int k = 0; k < 3; k++)
        if (run->in[counts[k]]) FV_TRY(fv_need_dtype(run, counts[k], FV_I64));
    FV_TRY(fv_attend_check_documents(run, run->in[LSE]->shape[0]));
    *a = describe(&params->rule, run->in);
    if (fv_attn_check(a) != FV_OK || params->top < 0)
        return fv_op_error(run, FV_ERR_ARGUMENT, "a setting is out of range");
    return fv_attend_check_extra(run, a);
}

static bool lies_within(int64_t first, int64_t count, int64_t all)
{
    return first >= 0 && count >= 0 && first <= all && count <= all - first;
}

static fv_attention_region region_of(const weights_params *params, const fv_attn *a)
{
    if (params->has_region) return params->region;
    return (fv_attention_region){.heads = a->heads, .rows = a->n_q, .cols = a->n_k};
}

static fv_status infer_weights(fv_op_run *run)
{
    fv_attn a;
    FV_TRY(check(run, &a));
    const fv_tensor *lse = run->in[LSE];
    const fv_attention_region p = region_of(run->params, &a);
    if (!lies_within(p.head, p.heads, a.heads) || !lies_within(p.row, p.rows, a.n_q) ||
        !lies_within(p.col, p.cols, a.n_k))
        return fv_op_error(run, FV_ERR_ARGUMENT, "the region lies beyond the map");
    fv_spec_set(run, 0, lse->dtype, 4, (int64_t[]){lse->shape[0], p.heads, p.rows, p.cols});
    return FV_OK;
}

static fv_status infer_top(fv_op_run *run)
{
    const weights_params *params = run->params;
    fv_attn a;
    FV_TRY(check(run, &a));
    const int64_t shape[4] = {run->in[LSE]->shape[0], a.heads, a.n_q, params->top};
    fv_spec_set(run, 0, run->in[LSE]->dtype, 4, shape);
    fv_spec_set(run, 1, FV_I64, 4, shape);
    return FV_OK;
}

static fv_status infer_spread(fv_op_run *run)
{
    fv_attn a;
    FV_TRY(check(run, &a));
    const fv_dtype dtype = run->in[LSE]->dtype;
    const int64_t rows = run->in[LSE]->shape[0];
    fv_spec_set(run, 0, dtype, 3, (int64_t[]){rows, a.heads, a.n_q});
    fv_spec_set(run, 1, dtype, 3, (int64_t[]){rows, a.heads, a.n_q});
    fv_spec_set(run, 2, dtype, 3, (int64_t[]){rows, a.heads, a.n_k});
    return FV_OK;
}

/* ---- passes ----------------------------------------------------------------------- */

/* The description, and the pointers of the forward kernel; false if memory was short. */
static bool prepare(fv_op_run *run, fv_attn *a, void **ptr)
{
    fv_ctx *ctx = run->ctx;
    const weights_params *params = run->params;
    fv_tensor *in[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        fv_tensor *t = run->in[i];
        if (t && i <= K)
            t = fv_attend_dense_rows(ctx, t);
        else if (t && i != VISIBLE && i != BLOCKS)
            t = fv_contiguous_raw(ctx, t);
        in[i] = t;
    }
    if (ctx->error != FV_OK) return false;
    *a = describe(&params->rule, in);
    if (in[Q]) {
        a->q = fv_attend_layout(in[Q]);
        a->k = fv_attend_layout(in[K]);
    }
    a->bias = fv_attend_grid(in[BIAS]);
    a->visible = fv_attend_grid(in[VISIBLE]);
    a->blocks = fv_attend_grid(in[BLOCKS]);
    for (int i = Q; i < INPUTS; i++)
        ptr[FV_ATTN_Q + i] = in[i] ? in[i]->data : NULL;
    ptr[FV_ATTN_LSE] = in[LSE]->data;
    ptr[FV_ATTN_O] = ptr[FV_ATTN_V] = NULL;
    return true;
}

static void forward_weights(fv_op_run *run)
{
    fv_attn_weights_args args;
    void *ptr[FV_ATTN_MAP_INPUTS + FV_ATTN_POINTERS] = {[FV_ATTN_MAP_OUT] = run->out[0]->data};
    if (!prepare(run, &args.a, ptr + FV_ATTN_MAP_INPUTS) || run->out[0]->count == 0) return;
    const fv_attention_region p = region_of(run->params, &args.a);
    fv_attn_region_init(&args.region, sizeof args.region, &args.a);
    args.region.head = p.head;
    args.region.heads = p.heads;
    args.region.row = p.row;
    args.region.rows = p.rows;
    args.region.col = p.col;
    args.region.cols = p.cols;
    fv_attn_region_dense(&args.region);
    fv_launch(run->ctx, FV_KERNEL_ATTENTION_MAP, args.a.dtype, ptr, &args, sizeof args);
}

static void summarise(fv_op_run *run, int64_t top, void **ptr)
{
    fv_attn_summary_args args = {.top = top};
    if (!prepare(run, &args.a, ptr + FV_ATTN_SUMMARY_INPUTS)) return;
    fv_launch(run->ctx, FV_KERNEL_ATTENTION_SUMMARY, args.a.dtype, ptr, &args, sizeof args);
}

static void forward_top(fv_op_run *run)
{
    const weights_params *params = run->params;
    void *ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_POINTERS] = {
        [FV_ATTN_TOP_WEIGHT] = run->out[0]->data, [FV_ATTN_TOP_INDEX] = run->out[1]->data};
    if (run->out[0]->count > 0) summarise(run, params->top, ptr);
}

static void forward_spread(fv_op_run *run)
{
    void *ptr[FV_ATTN_SUMMARY_INPUTS + FV_ATTN_POINTERS] = {[FV_ATTN_ENTROPY] = run->out[0]->data,
                                                            [FV_ATTN_DISTANCE] = run->out[1]->data,
                                                            [FV_ATTN_RECEIVED] = run->out[2]->data};
    if (run->out[0]->count > 0 || run->out[2]->count > 0) summarise(run, 0, ptr);
}

/* ---- calls ------------------------------------------------------------------------ */

static void apply(fv_ctx *ctx, fv_op_id id, const fv_attention_saved *view, weights_params params,
                  int n_out, fv_tensor **out)
{
    params.rule = view->rule;
    fv_tensor *in[INPUTS] = {[Q] = view->q, [K] = view->k, [LSE] = view->lse};
    fv_attend_set_extra(in, &view->extra);
    fv_op_apply_many(ctx, id, INPUTS, in, &params, n_out, out);
}

fv_tensor *fv_attention_weights(fv_ctx *ctx, const fv_attention_saved *view,
                                const fv_attention_region *region)
{
    fv_tensor *out = ctx->invalid;
    weights_params params = {.has_region = region != NULL};
    if (region) params.region = *region;
    apply(ctx, FV_OP_ATTEND_WEIGHTS, view, params, 1, &out);
    return out;
}

fv_tensor *fv_attention_top(fv_ctx *ctx, const fv_attention_saved *view, int64_t top,
                            fv_tensor **indices)
{
    fv_tensor *out[2] = {ctx->invalid, ctx->invalid};
    apply(ctx, FV_OP_ATTEND_TOP, view, (weights_params){.top = top}, 2, out);
    if (indices) *indices = out[1];
    return out[0];
}

fv_attention_summary fv_attention_summarise(fv_ctx *ctx, const fv_attention_saved *view)
{
    fv_tensor *out[3] = {ctx->invalid, ctx->invalid, ctx->invalid};
    fv_tensor *lse = view->lse;
    apply(ctx, FV_OP_ATTEND_SPREAD, view, (weights_params){.top = 0}, 3, out);
    /* Rows that see no key have entropy 0 and distance 0; the means do not count them. */
    fv_tensor *blind = fv_full(ctx, lse->dtype, 0, NULL, -(double)INFINITY);
    fv_tensor *seeing = fv_cast(ctx, fv_gt(ctx, lse, blind), lse->dtype);
    fv_tensor *count = fv_clamp(ctx, fv_sum(ctx, seeing, 1, (int[]){2}, false), 1, INFINITY);
    return (fv_attention_summary){
        .entropy = out[0],
        .distance = out[1],
        .received = out[2],
        .head_entropy = fv_div(ctx, fv_sum(ctx, out[0], 1, (int[]){2}, false), count),
        .head_distance = fv_div(ctx, fv_sum(ctx, out[1], 1, (int[]){2}, false), count)};
}

/* ---- test cases ------------------------------------------------------------------- */

#define SETTINGS(many, ...)                                                                        \
    (&(const weights_params){.top = (many), .rule = {.left = -1, .right = -1, __VA_ARGS__}})

/* The log-sum-exps are any numbers: then weights are, too. */
static const fv_op_case cases[] = {
    {.name = "plain",
     .params = SETTINGS(2, .scale = 0),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 2, 3, 4),
            [K] = FV_IN(NORMAL, 2, 2, 5, 4),
            [LSE] = FV_IN(NORMAL, 2, 2, 3)}},
    {.name = "grouped heads, bias, pattern, causal from the end, soft cap",
     .params = SETTINGS(3, .scale = 0.7, .causal = FV_CAUSAL_BOTTOM_RIGHT, .soft_cap = 2),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 4, 3, 2),
            [K] = FV_IN(NORMAL, 1, 2, 4, 2),
            [LSE] = FV_IN(NORMAL, 1, 4, 3),
            [BIAS] = FV_IN(NORMAL, 4, 3, 4),
            [VISIBLE] = FV_IN(MASK, 3, 4)}},
    {.name = "lengths, more than there are",
     .params = SETTINGS(9, .scale = 1.5),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 1, 3, 2),
            [K] = FV_IN(NORMAL, 2, 1, 6, 2),
            [LSE] = FV_IN(NORMAL, 2, 1, 3),
            [KEY_LENGTHS] = FV_INDEX(7, 2)}},
    {.name = "varlen documents, causal from the end",
     .params = SETTINGS(2, .scale = 0.9, .causal = FV_CAUSAL_BOTTOM_RIGHT),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 7, 3),
            [K] = FV_IN(NORMAL, 1, 1, 9, 3),
            [LSE] = FV_IN(NORMAL, 1, 2, 7),
            [Q_BEGIN] = FV_OFFSETS(7, 4),
            [K_BEGIN] = FV_OFFSETS(9, 4)}},
    {.name = "a region of the map, causal from the end",
     .params =
         &(const weights_params){
             .top = 2,
             .has_region = true,
             .region = {1, 2, 1, 2, 2, 3},
             .rule = {.left = -1, .right = -1, .scale = 0.8, .causal = FV_CAUSAL_BOTTOM_RIGHT}},
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 4, 4, 3),
            [K] = FV_IN(NORMAL, 2, 2, 6, 3),
            [LSE] = FV_IN(NORMAL, 2, 4, 4)}},
    {.name = "no keys",
     .params = SETTINGS(1, .scale = 1.0),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 3, 2),
            [K] = FV_IN(NORMAL, 1, 2, 0, 2),
            [LSE] = FV_IN(NORMAL, 1, 2, 3)}},
};

#define DESCRIPTOR(ID, word, results, text)                                                        \
    const fv_op_desc fv_op_attend_##word = {                                                       \
        .id = FV_OP_ATTEND_##ID,                                                                   \
        .name = "attend_" #word,                                                                   \
        .formula = text,                                                                           \
        .min_in = INPUTS,                                                                          \
        .max_in = INPUTS,                                                                          \
        .n_out = results,                                                                          \
        .params_bytes = sizeof(weights_params),                                                    \
        .infer = infer_##word,                                                                     \
        .forward = forward_##word,                                                                 \
        .no_backward = NO_GRADIENT,                                                                \
        .simd_levels_differ = "the streamed kernels take 2^x from scores in base 2",               \
        .bf16 = FV_BF16_SUMS,                                                                      \
        .bf16_inputs = 1u << Q | 1u << K,                                                          \
        .bf16_uniform = true,                                                                      \
        FV_CASES(cases),                                                                           \
    }

DESCRIPTOR(WEIGHTS, weights, 1, "p = exp(scale q k^T + bias - lse) over the visible keys");
DESCRIPTOR(TOP, top, 2, "the largest of attend_weights in each row");
DESCRIPTOR(SPREAD, spread, 3, "entropy, mean distance and sums over queries of attend_weights");
