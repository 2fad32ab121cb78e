/*
 * Local attention with a predicted centre (Luong 2015, local-p). The weights are a softmax inside
 * the window, times a Gaussian that is not normalised again:
 *
 *     a_ij = softmax_j(s_ij) g_ij      ln g_ij = -(j - p_i)^2 / (2 (D/2)^2)     |j - p_i| <= D
 *
 * With L = ln sum exp(s) and L' = ln sum exp(s + ln g) over the window,
 *     a_ij = exp(s_ij - L) g_ij = exp(L' - L) softmax_j(s_ij + ln g_ij):
 * one streamed attention with ln g as its bias, times a factor a row. So p_i gets its gradient
 * through the bias and the two log-sum-exps; the window's edge has none, as in the paper.
 */
#include <math.h>

#include "attention/attention.h"

/* Keys of each sequence as a real [batch, 1, 1], or one number. */
static fv_tensor *source_length(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    if (!call->in->key_lengths) return fv_scalar(ctx, call->dtype, (double)call->n_k);
    fv_tensor *n = fv_reshape(ctx, call->in->key_lengths, 3, (int64_t[]){call->batch, 1, 1});
    return fv_cast(ctx, n, call->dtype);
}

/* p_i = S sigmoid(v_p . tanh(W_p q_i)), [batch, heads, n_q] */
static fv_tensor *predicted(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *t = fv_tanh(ctx, fv_attention_project(ctx, call->in->q, call->in->w_p));
    fv_tensor *share = fv_sigmoid(ctx, fv_attention_weigh(ctx, t, call->in->v_p));
    return fv_mul(ctx, share, source_length(call));
}

static fv_tensor *centre_of(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const int64_t shape[3] = {call->batch, call->heads, call->n_q};
    return fv_broadcast(ctx, call->in->centre ? call->in->centre : predicted(call), 3, shape);
}

/* j - p_i, [batch, heads, n_q, n_k] */
static fv_tensor *offsets(const fv_attention_call *call, fv_tensor *centre)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *keys = fv_attention_positions(ctx, call->dtype, call->n_k);
    return fv_sub(ctx, keys, fv_unsqueeze(ctx, centre, -1));
}

/* Inside the window and not hidden by the caller: u8. */
static fv_tensor *inside(const fv_attention_call *call, fv_tensor *offset)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *reach = fv_scalar(ctx, call->dtype, call->how.half_width);
    fv_tensor *near = fv_le(ctx, fv_abs(ctx, fv_detach(ctx, offset)), reach);
    if (!call->in->visible) return near;
    return fv_where(ctx, call->in->visible, near, fv_scalar(ctx, FV_U8, 0));
}

/* exp(more - less) of two log-sum-exps; 1 where both are -inf, since the row is zero anyway. */
static fv_tensor *ratio(fv_ctx *ctx, fv_tensor *more, fv_tensor *less)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *any = fv_gt(ctx, less, fv_scalar(ctx, less->dtype, -INFINITY));
    fv_tensor *zero = fv_scalar(ctx, less->dtype, 0.0);
    return fv_exp(ctx, fv_where(ctx, any, fv_sub(ctx, more, less), zero));
}

void fv_attention_local(fv_attention_call *call, fv_attention_result *out)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention *how = &call->how;
    const double sigma = how->half_width / 2;
    out->path = call->map ? FV_ATTENTION_SCORED : FV_ATTENTION_STREAMED;
    out->centre = centre_of(call);
    fv_tensor *offset = offsets(call, out->centre), *within = inside(call, offset);
    fv_tensor *log_gauss = fv_scale(ctx, fv_square(ctx, offset), -0.5 / (sigma * sigma));
    fv_tensor *lse_gauss = NULL;
    fv_tensor *column = fv_slice(ctx, call->in->v, -1, 0, 1, 1); /* only the sums are wanted */
    fv_attention_stream(call, fv_detach(ctx, column), NULL, within, 0, &out->lse);
    fv_tensor *c =
        fv_attention_stream(call, call->in->v, log_gauss, within, how->rule.dropout, &lse_gauss);
    fv_tensor *factor = fv_unsqueeze(ctx, ratio(ctx, lse_gauss, out->lse), -1);
    out->context = fv_mul(ctx, c, factor);
    if (!how->want_scores && !how->want_weights) return;
    out->path = FV_ATTENTION_MAP;
    fv_attention_input windowed = *call->in;
    windowed.visible = within;
    fv_attention_call sub = *call;
    sub.in = &windowed;
    fv_tensor *scores = fv_attention_scores(&sub);
    if (how->want_scores) out->scores = scores;
    if (how->want_weights)
        out->weights = fv_mul(ctx, fv_softmax(ctx, scores, -1), fv_exp(ctx, log_gauss));
}
