#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/config.h"

void fv_attention_init(fv_attention *how, size_t struct_size)
{
    fv_attention defaults = {.struct_size = struct_size,
                             .score = FV_ATTENTION_SCALED,
                             .normaliser = FV_ATTENTION_SOFTMAX,
                             .temperature = 1};
    fv_attention_rule_init(&defaults.rule);
    fv_config_set_defaults(how, struct_size, &defaults, sizeof defaults);
}

const char *fv_attention_path_name(fv_attention_path path)
{
    static const char *const names[] = {"streamed", "scored", "map"};
    return (unsigned)path < FV_ATTENTION_PATH_COUNT ? names[path] : "?";
}

static fv_status need(fv_ctx *ctx, bool present, const char *what)
{
    return present ? FV_OK : fv_poison(ctx, FV_ERR_ARGUMENT, "attention: needs %s", what);
}

static fv_status check_numbers(fv_ctx *ctx, const fv_attention *how)
{
    const fv_attention_rule *rule = &how->rule;
    if (how->score < 0 || how->score >= FV_ATTENTION_SCORE_COUNT || how->normaliser < 0 ||
        how->normaliser >= FV_ATTENTION_NORMALISER_COUNT)
        return fv_poison(ctx, FV_ERR_ARGUMENT,
                         "attention: score %d or normaliser %d does not exist", (int)how->score,
                         (int)how->normaliser);
    if (!(how->temperature > 0 && isfinite(how->temperature)))
        return fv_poison(ctx, FV_ERR_ARGUMENT,
                         "attention: the temperature is %g, expected a number above 0",
                         how->temperature);
    if (!isfinite(rule->scale))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: the scale is %g", rule->scale);
    if (rule->block_q < 0 || rule->block_k < 0)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: blocks of %lld x %lld",
                         (long long)rule->block_q, (long long)rule->block_k);
    const bool local =
        how->normaliser == FV_ATTENTION_LOCAL_M || how->normaliser == FV_ATTENTION_LOCAL_P;
    if (local && !(how->half_width > 0 && how->half_width <= 0x1p52))
        return fv_poison(ctx, FV_ERR_ARGUMENT,
                         "attention: half_width of a local window is %g, expected a number above 0",
                         how->half_width);
    const bool hard =
        how->normaliser == FV_ATTENTION_HARD_SAMPLE || how->normaliser == FV_ATTENTION_HARD_ARGMAX;
    if (hard && rule->dropout != 0)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: hard attention has no dropout");
    return FV_OK;
}

static fv_status check_param(const fv_attention_call *call, const fv_score_param *param,
                             const fv_tensor *given, const char *name)
{
    const int rank = fv_score_rank(param);
    if (rank == 0 || param->optional || given) return FV_OK;
    return fv_poison(call->ctx, FV_ERR_ARGUMENT, "attention: needs %s, the %s of the %s score",
                     name, rank == 1 ? "vector" : "matrix", call->score->name);
}

static fv_status check_parameters(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_score_kind *score = call->score;
    const fv_attention *how = &call->how;
    const fv_attention_input *in = call->in;
    FV_TRY(check_param(call, &score->w, in->w, "w"));
    FV_TRY(check_param(call, &score->w_q, in->w_q, "w_q"));
    FV_TRY(check_param(call, &score->w_k, in->w_k, "w_k"));
    if (score->has_function) FV_TRY(need(ctx, how->score_fn, "score_fn, the caller's score"));
    if (in->blocks)
        FV_TRY(need(ctx, how->rule.block_q > 0 && how->rule.block_k > 0, "block_q and block_k"));
    if (how->normaliser == FV_ATTENTION_LOCAL_P && !in->centre)
        FV_TRY(need(ctx, in->w_p && in->v_p, "w_p and v_p, or centre, for local-p"));
    return FV_OK;
}

/* Only the streamed kernel, which reads bf16 and f16, touches q, k and v. */
static bool takes_half(const fv_attention_call *call)
{
    const fv_attention *how = &call->how;
    return call->score->is_dot_product &&
           (how->normaliser == FV_ATTENTION_SOFTMAX || how->normaliser == FV_ATTENTION_LOCAL_M) &&
           !how->want_scores && !how->want_weights && !call->in->temperature;
}

static fv_tensor *widened(fv_ctx *ctx, fv_tensor *x)
{
    return x && x->dtype == FV_BF16 ? fv_cast(ctx, x, FV_F32) : x;
}

/* bf16 inputs of a path that has no bf16 form are cast to f32. */
static fv_status widen_inputs(fv_attention_call *call)
{
    const fv_attention_input *in = call->in;
    if (!in || takes_half(call)) return FV_OK;
    call->wide = *in;
    call->wide.q = widened(call->ctx, in->q);
    call->wide.k = widened(call->ctx, in->k);
    call->wide.v = widened(call->ctx, in->v);
    call->in = &call->wide;
    return call->ctx->error;
}

/* The ranks and sizes that this layer relies on; the ops check the rest. */
static fv_status check_tensors(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    FV_TRY(need(ctx, in && in->q && in->v, "q and v"));
    FV_TRY(need(ctx, in->k || call->score->ignores_keys, "k"));
    const fv_tensor *q = in->q, *v = in->v, *k = in->k ? in->k : in->v;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return fv_poison(
            ctx, FV_ERR_SHAPE,
            "attention: q, k and v have ranks %d, %d, %d, expected 4: [batch, heads, n, d]",
            q->rank, k->rank, v->rank);
    char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
    if (q->shape[0] != v->shape[0] || v->shape[1] < 1 || q->shape[1] % v->shape[1] != 0)
        return fv_poison(ctx, FV_ERR_SHAPE,
                         "attention: q %s and v %s differ in batch, or their heads do not divide",
                         fv_shape_text(a, 4, q->shape), fv_shape_text(b, 4, v->shape));
    if (memcmp(k->shape, v->shape, 3 * sizeof k->shape[0]) != 0)
        return fv_poison(ctx, FV_ERR_SHAPE,
                         "attention: k %s and v %s differ in batch, heads or keys",
                         fv_shape_text(a, 4, k->shape), fv_shape_text(b, 4, v->shape));
    const bool real = q->dtype == FV_F32 || q->dtype == FV_F64;
    if (!real && !takes_half(call))
        return fv_poison(ctx, FV_ERR_DTYPE,
                         "attention: q is %s, which only dot products without maps support",
                         fv_dtype_name(q->dtype));
    call->dtype = q->dtype;
    call->batch = q->shape[0];
    call->heads = q->shape[1];
    call->n_q = q->shape[2];
    call->kv_heads = v->shape[1];
    call->n_k = v->shape[2];
    return FV_OK;
}

/* Only the streamed kernel keeps documents apart; a map would mix them. */
static fv_status check_documents(const fv_attention_call *call)
{
    const fv_attention *how = &call->how;
    const fv_attention_input *in = call->in;
    if (!in->q_begin && !in->k_begin) return FV_OK;
    const bool streamed =
        call->score->streamed != FV_ATTN_SCORE_NONE && in->q->shape[3] <= FV_ATTN_MAX_WIDTH;
    const bool soft =
        how->normaliser == FV_ATTENTION_SOFTMAX || how->normaliser == FV_ATTENTION_LOCAL_M;
    if (streamed && soft && !how->want_scores && !how->want_weights) return FV_OK;
    return fv_poison(call->ctx, FV_ERR_UNSUPPORTED,
                     "attention: varlen documents need softmax or local-m, a streamed score and no "
                     "maps");
}

fv_status fv_attention_check(fv_attention_call *call, const fv_attention *how)
{
    fv_ctx *ctx = call->ctx;
    fv_attention_init(&call->how, sizeof call->how);
    if (how && !fv_config_copy(&call->how, sizeof call->how, how))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: the description is not initialised");
    FV_TRY(check_numbers(ctx, &call->how));
    call->score = fv_score_find(call->how.score);
    FV_TRY(widen_inputs(call));
    FV_TRY(check_tensors(call));
    FV_TRY(check_parameters(call));
    FV_TRY(check_documents(call));
    if (call->how.normaliser == FV_ATTENTION_LOCAL_M) {
        const int64_t reach = (int64_t)call->how.half_width;
        fv_attention_rule *rule = &call->how.rule;
        if (rule->left < 0 || rule->left > reach) rule->left = reach;
        if (rule->right < 0 || rule->right > reach) rule->right = reach;
    }
    return FV_OK;
}
