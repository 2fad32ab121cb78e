/*
 * o = softmax(scores) v over the visible keys; see fovea/attention_kernels.h. It is streamed:
 * computed block by block over the keys with an online softmax, as in FlashAttention; the n_q x n_k
 * matrix is never stored.
 *
 * With P the weights and upstream gradients do (of o) and dlse (of the log-sum-exp):
 *     o_i = sum_j P_ij v_j              =>  dv_j = sum_i P_ij do_i,   dP_ij = do_i . v_j
 *     P = softmax(S), lse = ln sum e^S  =>  dS_ij = P_ij (dP_ij - sum_k P_ik dP_ik + dlse_i)
 * and the inner sum is do_i . o_i, so no row of P has to be kept: P_ij = exp(S_ij - lse_i) is made
 * again, block by block. From S = scale q k^T (+ cap, slope, bias) follow dq, dk and dbias;
 * additive scores sum_c w_c tanh(q_ic + k_jc) send w_c (1 - tanh^2) to q and k, and tanh to w.
 */
#include "ops/attend.h"
#include "base/rng.h"

static const int gradient_inputs[] = {Q, K, V, BIAS, W};
enum { GRADIENTS = sizeof gradient_inputs / sizeof *gradient_inputs };
enum { SAVED_O = INPUTS, SAVED_LSE };

/* Sizes and strides are taken from the tensors. Which tensors are given decides the score: w means
 * additive, no q and k means bias only. */
typedef struct attend_params {
    fv_attention_rule rule;
    uint64_t dropout_key, first_row;
} attend_params;

fv_tensor *fv_attend(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *v,
                     const fv_attention_rule *rule, const fv_attend_extra *extra, fv_tensor **lse)
{
    fv_tensor *out[2] = {ctx->invalid, ctx->invalid};
    attend_params params = {.first_row = ctx->row_offset};
    fv_attention_rule_init(&params.rule);
    if (rule) params.rule = *rule;
    if (params.rule.dropout > 0) params.dropout_key = fv_rng_key(ctx->seed, ctx->step, ctx->site++);
    fv_tensor *in[INPUTS] = {[Q] = q, [K] = k, [V] = v};
    fv_attend_set_extra(in, extra);
    fv_op_apply_many(ctx, FV_OP_ATTEND, INPUTS, in, &params, 2, out);
    if (lse) *lse = out[1];
    return out[0];
}

/* ---- shapes ----------------------------------------------------------------------- */

static fv_status check_dtypes(fv_op_run *run)
{
    if (!run->in[V] || !fv_attn_is_half(run->in[V]->dtype)) FV_TRY(fv_need_real(run, V));
    for (int i = Q; i <= K; i++)
        if (run->in[i]) FV_TRY(fv_need_dtype(run, i, run->in[V]->dtype));
    static const int score_inputs[] = {BIAS, SLOPES, W};
    for (int k = 0; k < 3; k++)
        if (run->in[score_inputs[k]])
            FV_TRY(fv_need_dtype(run, score_inputs[k], fv_attend_score_dtype(run->in[V]->dtype)));
    if (run->in[VISIBLE]) FV_TRY(fv_need_dtype(run, VISIBLE, FV_U8));
    if (run->in[BLOCKS]) FV_TRY(fv_need_dtype(run, BLOCKS, FV_U8));
    static const int counts[] = {KEY_LENGTHS, Q_BEGIN, K_BEGIN};
    for (int k = 0; k < 3; k++)
        if (run->in[counts[k]]) FV_TRY(fv_need_dtype(run, counts[k], FV_I64));
    return FV_OK;
}

static fv_attn describe(const attend_params *params, fv_tensor *const *in)
{
    const fv_tensor *q = in[Q], *v = in[V], *bias = in[BIAS];
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.dropout_key = params->dropout_key;
    a.first_row = params->first_row;
    a.dtype = v->dtype;
    a.batch = v->shape[0];
    a.kv_heads = v->shape[1];
    a.n_k = v->shape[2];
    a.d_v = v->shape[3];
    if (q) {
        a.heads = q->shape[1];
        a.n_q = q->shape[2];
        a.d = q->shape[3];
    } else {
        const int64_t heads = bias->rank > 2 ? bias->shape[bias->rank - 3] : 1;
        a.heads = heads > 1 ? heads : a.kv_heads;
        a.n_q = bias->shape[bias->rank - 2];
    }
    fv_attend_describe(&a, &params->rule, in);
    return a;
}

static fv_status check_qkv_shapes(fv_op_run *run)
{
    const fv_tensor *q = run->in[Q], *k = run->in[K], *v = run->in[V];
    FV_TRY(fv_need_rank(run, Q, 4, 4));
    FV_TRY(fv_need_rank(run, K, 4, 4));
    if (q->shape[0] != k->shape[0] || q->shape[3] != k->shape[3])
        return fv_op_mismatch(run, Q, K, "differ in batch or width");
    if (k->shape[0] != v->shape[0] || k->shape[1] != v->shape[1] || k->shape[2] != v->shape[2])
        return fv_op_mismatch(run, K, V, "differ in batch, heads or keys");
    if (k->shape[1] < 1 || q->shape[1] % k->shape[1] != 0)
        return fv_op_mismatch(run, Q, K,
                              "differ in heads: those of q are not a multiple of those of k");
    return FV_OK;
}

/* o is stored as [batch, n, heads, d], so that merging its heads is a view. */
static void set_head_strides(fv_spec *spec)
{
    const int64_t row = spec->shape[1] * spec->shape[3];
    spec->is_strided = true;
    spec->stride[0] = spec->shape[2] * row;
    spec->stride[1] = spec->shape[3];
    spec->stride[2] = row;
    spec->stride[3] = 1;
}

static fv_status infer(fv_op_run *run)
{
    const attend_params *params = run->params;
    FV_TRY(check_dtypes(run));
    FV_TRY(fv_attend_check_presence(run));
    FV_TRY(fv_need_rank(run, V, 4, 4));
    if (run->in[Q]) FV_TRY(check_qkv_shapes(run));
    FV_TRY(fv_attend_check_documents(run, run->in[V]->shape[0]));
    fv_attn a = describe(params, run->in);
    if (fv_attn_check(&a) != FV_OK)
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "a setting is out of range (widths %lld and %lld, at most %d)",
                           (long long)a.d, (long long)a.d_v, (int)FV_ATTN_MAX_WIDTH);
    FV_TRY(fv_attend_check_extra(run, &a));
    const int64_t batch = run->in[V]->shape[0]; /* 1 with varlen documents: a.batch counts those */
    fv_spec_set(run, 0, a.dtype, 4, (int64_t[]){batch, a.heads, a.n_q, a.d_v});
    set_head_strides(&run->spec[0]);
    fv_spec_set(run, 1, fv_attend_score_dtype(run->in[V]->dtype), 3,
                (int64_t[]){batch, a.heads, a.n_q});
    return FV_OK;
}

/* ---- strides ---------------------------------------------------------------------- */

static void set_strides(fv_attn *a, fv_tensor *const *in, const fv_tensor *o)
{
    if (in[Q]) a->q = fv_attend_layout(in[Q]);
    if (in[K]) a->k = fv_attend_layout(in[K]);
    a->v = fv_attend_layout(in[V]);
    a->o = fv_attend_layout(o);
    a->bias = fv_attend_grid(in[BIAS]);
    a->visible = fv_attend_grid(in[VISIBLE]);
    a->blocks = fv_attend_grid(in[BLOCKS]);
}

static void fill_pointers(void **ptr, fv_tensor *const *in, const fv_tensor *o,
                          const fv_tensor *lse)
{
    ptr[FV_ATTN_O] = o->data;
    ptr[FV_ATTN_LSE] = lse->data;
    for (int i = Q; i < INPUTS; i++)
        ptr[FV_ATTN_Q + i] = in[i] ? in[i]->data : NULL;
}

/* ---- passes ----------------------------------------------------------------------- */

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    const attend_params *params = run->params;
    fv_tensor *in[INPUTS];
    /* q, k, v: contiguous rows are enough. visible is read with its strides. All others are made
     * contiguous. */
    for (int i = 0; i < INPUTS; i++)
        in[i] = run->in[i] && i <= V         ? fv_attend_dense_rows(ctx, run->in[i])
                : run->in[i] && i != VISIBLE ? fv_contiguous_raw(ctx, run->in[i])
                                             : run->in[i];
    if (ctx->error != FV_OK) return;
    fv_attn a = describe(params, in);
    set_strides(&a, in, run->out[0]);
    void *ptr[FV_ATTN_POINTERS];
    fill_pointers(ptr, in, run->out[0], run->out[1]);
    if (run->out[0]->count > 0 && !run->kept)
        fv_launch(ctx, FV_KERNEL_ATTENTION, a.dtype, ptr, &a, sizeof a);
    for (int i = 0; i < INPUTS; i++)
        fv_save(run, i, in[i]);
    fv_save(run, SAVED_O, run->out[0]);
    fv_save(run, SAVED_LSE, run->out[1]);
}

/* Gradients that the kernel writes, and what remains to be done with them. */
typedef struct gradients {
    fv_tensor *of[INPUTS]; /* NULL: not requested */
    bool is_sent[INPUTS];  /* written in place: nothing is to be sent */
    bool adds_to_keys;
} gradients;

static fv_tensor *new_gradient(fv_op_back *back, int i, bool zeroed)
{
    fv_tensor *t = fv_back_new(back, i);
    if (zeroed && back->ctx->error == FV_OK) fv_fill(back->ctx, t, 0.0);
    return t;
}

/* The place of a gradient in that of the tensor which the input is a view of, or one that other ops
 * have started, or a new one. */
static fv_tensor *destination(fv_op_back *back, int i, bool *in_place, bool *accumulate)
{
    fv_tensor *t = fv_back_place(back, i, accumulate);
    *in_place = t != NULL;
    if (!t && back->ctx->error == FV_OK) t = fv_back_dest(back, i, accumulate);
    return t;
}

/* The kernel overwrites dq; it can add to dk and dv, but only to both (adds_to_keys). */
static void place_gradients(fv_op_back *back, gradients *all)
{
    const bool can_add =
        back->saved[K] != back->saved[V] && !fv_attn_is_half(back->saved[V]->dtype);
    bool accumulate[INPUTS] = {false};
    int wanted = 0, added = 0;
    for (int i = Q; i <= V; i++) {
        if (!fv_back_wants(back, i)) continue;
        all->of[i] = destination(back, i, &all->is_sent[i], &accumulate[i]);
        wanted += i != Q;
        added += i != Q && accumulate[i];
    }
    all->adds_to_keys = can_add && wanted > 0 && added == wanted;
    for (int i = Q; i <= V; i++) {
        if (!accumulate[i] || back->ctx->error != FV_OK) continue;
        all->is_sent[i] = i != Q && all->adds_to_keys;
        if (!all->is_sent[i]) all->of[i] = fv_back_new(back, i);
    }
}

/* The gradient of o with contiguous rows and strides that say so: all zero means others. */
static fv_tensor *readable(fv_ctx *ctx, fv_tensor *g)
{
    const bool repeats = g->stride[0] == 0 && g->stride[1] == 0 && g->stride[2] == 0;
    return repeats && g->count > 1 ? fv_contiguous_raw(ctx, g) : fv_attend_dense_rows(ctx, g);
}

static void set_gradient_strides(fv_attn *a, const gradients *all, const fv_tensor *g)
{
    if (all->of[Q]) a->grad_q = fv_attend_layout(all->of[Q]);
    if (all->of[K]) a->grad_k = fv_attend_layout(all->of[K]);
    if (all->of[V]) a->grad_v = fv_attend_layout(all->of[V]);
    if (g) a->grad_o = fv_attend_layout(g);
    a->adds_to_keys = all->adds_to_keys;
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *const *in = back->saved, *o = back->saved[SAVED_O];
    gradients all = {.adds_to_keys = false};
    if (o->count > 0) place_gradients(back, &all);
    for (int k = 0; k < GRADIENTS; k++) {
        const int i = gradient_inputs[k];
        if (fv_back_wants(back, i) && !all.of[i]) all.of[i] = new_gradient(back, i, true);
    }
    fv_tensor *g = back->grad[0] ? readable(ctx, back->grad[0]) : NULL;
    fv_tensor *g_lse = back->grad[1] ? fv_contiguous_raw(ctx, back->grad[1]) : NULL;
    if (ctx->error != FV_OK) return;
    fv_attn a = describe(back->params, in);
    set_strides(&a, in, o);
    set_gradient_strides(&a, &all, g);
    void *ptr[FV_ATTN_GRAD_POINTERS] = {
        [FV_ATTN_GRAD_O] = g ? g->data : NULL,
        [FV_ATTN_GRAD_LSE] = g_lse ? g_lse->data : NULL,
    };
    for (int k = 0; k < GRADIENTS; k++) {
        const fv_tensor *t = all.of[gradient_inputs[k]];
        ptr[FV_ATTN_GRAD_Q + k] = t ? t->data : NULL;
    }
    fill_pointers(ptr + FV_ATTN_GRAD_INPUTS, in, o, back->saved[SAVED_LSE]);
    if (o->count > 0) fv_launch(ctx, FV_KERNEL_ATTENTION_GRAD, a.dtype, ptr, &a, sizeof a);
    for (int i = 0; i < INPUTS; i++)
        if (all.of[i]) fv_back_commit(back, i, all.of[i], all.is_sent[i]);
}

/* ---- test cases ------------------------------------------------------------------- */

#define RULE(...)   (&(const attend_params){.rule = {.left = -1, .right = -1, __VA_ARGS__}})
#define WINDOW(...) (&(const attend_params){.rule = {.right = -1, __VA_ARGS__}})

static const fv_op_case cases[] = {
    {.name = "plain",
     .params = RULE(.scale = 0),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 2, 3, 4),
            [K] = FV_IN(NORMAL, 2, 2, 5, 4),
            [V] = FV_IN(NORMAL, 2, 2, 5, 3)}},
    {.name = "grouped heads, bias, causal from the end",
     .params = RULE(.scale = 0.7, .causal = FV_CAUSAL_BOTTOM_RIGHT),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 4, 3, 2),
            [K] = FV_IN(NORMAL, 1, 2, 4, 2),
            [V] = FV_IN(NORMAL, 1, 2, 4, 2),
            [BIAS] = FV_IN(NORMAL, 4, 3, 4)}},
    {.name = "window, prefix, shared bias row, slopes",
     .params = WINDOW(.left = 2, .scale = 1.1, .causal = FV_CAUSAL_TOP_LEFT, .prefix = 1),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 1, 5, 3),
            [K] = FV_IN(NORMAL, 2, 1, 5, 3),
            [V] = FV_IN(NORMAL, 2, 1, 5, 1),
            [BIAS] = FV_IN(NORMAL, 1, 5),
            [SLOPES] = {.gen = FV_GEN_POSITIVE, .rank = 1, .shape = {1}, .constant = true}}},
    {.name = "pattern, lengths, soft cap, dropout",
     .params =
         &(const attend_params){
             .rule = {.left = -1, .right = -1, .scale = 1.5, .soft_cap = 2.0, .dropout = 0.3},
             .dropout_key = 77},
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 2, 3, 2),
            [K] = FV_IN(NORMAL, 2, 2, 6, 2),
            [V] = FV_IN(NORMAL, 2, 2, 6, 2),
            [VISIBLE] = FV_IN(MASK, 2, 1, 3, 6),
            [KEY_LENGTHS] = FV_INDEX(7, 2)}},
    {.name = "queries before every key",
     .params = RULE(.scale = 1.0, .causal = FV_CAUSAL_TOP_LEFT, .q_offset = -2),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 1, 4, 2),
            [K] = FV_IN(NORMAL, 1, 1, 3, 2),
            [V] = FV_IN(NORMAL, 1, 1, 3, 2)}},
    {.name = "additive",
     .params = RULE(.scale = 1.2),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 2, 2, 3, 4),
            [K] = FV_IN(NORMAL, 2, 2, 5, 4),
            [V] = FV_IN(NORMAL, 2, 2, 5, 3),
            [W] = FV_IN(NORMAL, 2, 4)}},
    {.name = "additive, one query, lengths",
     .params = RULE(.scale = 0.8),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 3, 2, 1, 4),
            [K] = FV_IN(NORMAL, 3, 2, 5, 4),
            [V] = FV_IN(NORMAL, 3, 2, 5, 3),
            [KEY_LENGTHS] = FV_INDEX(6, 3),
            [W] = FV_IN(NORMAL, 2, 4)}},
    {.name = "additive, grouped heads, bias, pattern, soft cap",
     .params = RULE(.causal = FV_CAUSAL_BOTTOM_RIGHT, .soft_cap = 1.5),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 4, 3),
            [K] = FV_IN(NORMAL, 1, 1, 5, 3),
            [V] = FV_IN(NORMAL, 1, 1, 5, 2),
            [BIAS] = FV_IN(NORMAL, 2, 4, 5),
            [VISIBLE] = FV_IN(MASK, 4, 5),
            [W] = FV_IN(NORMAL, 2, 3)}},
    {.name = "no score but the bias",
     .params = RULE(.scale = 0),
     .n_in = INPUTS,
     .in = {[V] = FV_IN(NORMAL, 2, 1, 5, 3),
            [BIAS] = FV_IN(NORMAL, 2, 2, 4, 5),
            [KEY_LENGTHS] = FV_INDEX(6, 2)}},
    {.name = "varlen documents, causal from the end, slopes",
     .params = RULE(.scale = 0.9, .causal = FV_CAUSAL_BOTTOM_RIGHT, .q_offset = 1),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 7, 3),
            [K] = FV_IN(NORMAL, 1, 1, 9, 3),
            [V] = FV_IN(NORMAL, 1, 1, 9, 2),
            [SLOPES] = {.gen = FV_GEN_POSITIVE, .rank = 1, .shape = {2}, .constant = true},
            [Q_BEGIN] = FV_OFFSETS(7, 4),
            [K_BEGIN] = FV_OFFSETS(9, 4)}},
    {.name = "varlen documents, additive",
     .params = &(const attend_params){.rule = {.left = -1, .right = -1, .dropout = 0.2},
                                      .dropout_key = 5},
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 6, 3),
            [K] = FV_IN(NORMAL, 1, 2, 7, 3),
            [V] = FV_IN(NORMAL, 1, 2, 7, 2),
            [W] = FV_IN(NORMAL, 2, 3),
            [Q_BEGIN] = FV_OFFSETS(6, 3),
            [K_BEGIN] = FV_OFFSETS(7, 3)}},
    {.name = "block mask",
     .params = RULE(.scale = 0.8, .block_q = 2, .block_k = 16),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 4, 2),
            [K] = FV_IN(NORMAL, 1, 1, 32, 2),
            [V] = FV_IN(NORMAL, 1, 1, 32, 1),
            [BLOCKS] = FV_IN(MASK, 2, 2, 2)}},
    {.name = "no keys",
     .params = RULE(.scale = 1.0),
     .n_in = INPUTS,
     .in = {[Q] = FV_IN(NORMAL, 1, 2, 3, 2),
            [K] = FV_IN(NORMAL, 1, 2, 0, 2),
            [V] = FV_IN(NORMAL, 1, 2, 0, 2)}},
};

const fv_op_desc fv_op_attend = {
    .id = FV_OP_ATTEND,
    .name = "attend",
    .formula = "o = softmax(score(q, k) + bias) v over the visible keys",
    .keepable = true,
    .min_in = INPUTS,
    .max_in = INPUTS,
    .n_out = 2,
    .params_bytes = sizeof(attend_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 3,
    .simd_levels_differ =
        "the streamed kernels shift by running maxima and sum in their own blocks",
    .bf16 = FV_BF16_FOLLOWS,
    .bf16_inputs = 1u << Q | 1u << K | 1u << V,
    .bf16_uniform = true,
    FV_CASES(cases),
};
