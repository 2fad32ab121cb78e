#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/config.h"

void fv_attention_init(fv_attention *how, size_t struct_size)
{
    const fv_attention defaults = {.struct_size = struct_size,
                                   .score = FV_ATTENTION_SCALED,
                                   .normaliser = FV_ATTENTION_SOFTMAX,
                                   .temperature = 1,
                                   .strength = 1,
                                   .left = -1,
                                   .right = -1};
    fv_config_fill(how, struct_size, &defaults, sizeof defaults);
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
    if (how->score < 0 || how->score >= FV_ATTENTION_SCORE_COUNT || how->normaliser < 0 ||
        how->normaliser >= FV_ATTENTION_NORMALISER_COUNT)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: there is no score %d or normaliser %d",
                         (int)how->score, (int)how->normaliser);
    if (!(how->temperature > 0 && isfinite(how->temperature)))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: the temperature is %g, not above 0",
                         how->temperature);
    if (!isfinite(how->strength) || how->strength == 0)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: the strength is %g", how->strength);
    if (how->block_q < 0 || how->block_k < 0)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: blocks of %lld x %lld",
                         (long long)how->block_q, (long long)how->block_k);
    const bool local =
        how->normaliser == FV_ATTENTION_LOCAL_M || how->normaliser == FV_ATTENTION_LOCAL_P;
    if (local && !(how->half_width > 0 && how->half_width <= 0x1p52))
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: a local window has half_width > 0");
    const bool hard =
        how->normaliser == FV_ATTENTION_HARD_SAMPLE || how->normaliser == FV_ATTENTION_HARD_ARGMAX;
    if (hard && how->dropout != 0)
        return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: hard attention has no dropout");
    return FV_OK;
}

static fv_status check_parameters(fv_ctx *ctx, const fv_attention *how,
                                  const fv_attention_input *in)
{
    switch (how->score) {
    case FV_ATTENTION_GENERAL:
        FV_FORWARD(need(ctx, in->w, "w, the matrix of the general score"));
        break;
    case FV_ATTENTION_ADDITIVE:
        FV_FORWARD(need(ctx, in->w, "w, the vector of the additive score"));
        break;
    case FV_ATTENTION_LOCATION:
        FV_FORWARD(need(ctx, in->w, "w, the matrix of the location score"));
        break;
    case FV_ATTENTION_CALLER:
        FV_FORWARD(need(ctx, how->score_fn, "score_fn, the caller's score"));
        break;
    default:
        break;
    }
    if (in->blocks)
        FV_FORWARD(need(ctx, how->block_q > 0 && how->block_k > 0, "block_q and block_k"));
    if (how->normaliser == FV_ATTENTION_LOCAL_P && !in->centre)
        FV_FORWARD(need(ctx, in->w_p && in->v_p, "w_p and v_p, or centre, for local-p"));
    return FV_OK;
}

/* Nothing but the streamed kernel, which reads 16-bit numbers as they are, touches q, k and v. */
static bool half_will_do(const fv_attention *how)
{
    return (how->score == FV_ATTENTION_SCALED || how->score == FV_ATTENTION_DOT) &&
           (how->normaliser == FV_ATTENTION_SOFTMAX || how->normaliser == FV_ATTENTION_LOCAL_M) &&
           !how->want_scores && !how->want_weights;
}

/* The ranks and sizes that this layer relies on; the ops check the rest. */
static fv_status check_tensors(fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    FV_FORWARD(need(ctx, in && in->q && in->v, "q and v"));
    FV_FORWARD(need(ctx, in->k || call->how.score == FV_ATTENTION_LOCATION, "k"));
    const fv_tensor *q = in->q, *v = in->v, *k = in->k ? in->k : in->v;
    if (q->rank != 4 || k->rank != 4 || v->rank != 4)
        return fv_poison(
            ctx, FV_ERR_SHAPE,
            "attention: q, k and v have ranks %d, %d, %d; each is [batch, heads, n, d]", q->rank,
            k->rank, v->rank);
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
    if (!real && !(half_will_do(&call->how) && !in->temperature))
        return fv_poison(ctx, FV_ERR_DTYPE,
                         "attention: q is %s: only plain products go without maps in 16 bits",
                         fv_dtype_name(q->dtype));
    call->dtype = q->dtype;
    call->batch = q->shape[0];
    call->heads = q->shape[1];
    call->n_q = q->shape[2];
    call->kv_heads = v->shape[1];
    call->n_k = v->shape[2];
    return FV_OK;
}

/* Documents are known to the streamed kernel alone; maps would mix them. */
static fv_status check_documents(fv_ctx *ctx, const fv_attention *how, const fv_attention_input *in)
{
    if (!in->q_begin && !in->k_begin) return FV_OK;
    const bool streamed = how->score != FV_ATTENTION_LOCATION &&
                          how->score != FV_ATTENTION_CALLER && in->q->shape[3] <= FV_ATTN_MAX_WIDTH;
    const bool soft =
        how->normaliser == FV_ATTENTION_SOFTMAX || how->normaliser == FV_ATTENTION_LOCAL_M;
    if (streamed && soft && !how->want_scores && !how->want_weights) return FV_OK;
    return fv_poison(
        ctx, FV_ERR_UNSUPPORTED,
        "attention: packed documents have no maps: softmax or local-m, streamed scores");
}

fv_status fv_attention_check(fv_attention_call *call, const fv_attention *how)
{
    fv_ctx *ctx = call->ctx;
    fv_attention_init(&call->how, sizeof call->how);
    if (how) {
        if (how->struct_size < sizeof how->struct_size || how->struct_size > sizeof *how)
            return fv_poison(ctx, FV_ERR_ARGUMENT, "attention: the description is not initialised");
        memcpy(&call->how, how, how->struct_size);
    }
    FV_FORWARD(check_numbers(ctx, &call->how));
    FV_FORWARD(check_tensors(call));
    FV_FORWARD(check_parameters(ctx, &call->how, call->in));
    FV_FORWARD(check_documents(ctx, &call->how, call->in));
    if (call->how.normaliser == FV_ATTENTION_LOCAL_M) {
        const int64_t reach = (int64_t)call->how.half_width;
        fv_attention *h = &call->how;
        if (h->left < 0 || h->left > reach) h->left = reach;
        if (h->right < 0 || h->right > reach) h->right = reach;
    }
    return FV_OK;
}
