/* Chooses the path and runs the streamed kernel. */
#include "attention/attention.h"

static fv_tensor *add_bias(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return a && b ? fv_add(ctx, a, b) : a ? a : b;
}

/* Values wider than the kernel takes, some columns at a time, with the same dropout. */
static fv_tensor *attend_wide(fv_ctx *ctx, const fv_attention_saved *in, fv_tensor *v,
                              fv_tensor **lse)
{
    const int64_t width = v->shape[3];
    const uint64_t site = ctx->site;
    fv_tensor *joined = NULL;
    for (int64_t from = 0; from < width && ctx->error == FV_OK; from += FV_ATTN_MAX_WIDTH) {
        const int64_t to = from + FV_ATTN_MAX_WIDTH < width ? from + FV_ATTN_MAX_WIDTH : width;
        ctx->site = site;
        fv_tensor *columns = fv_attend(ctx, in->q, in->k, fv_slice(ctx, v, 3, from, to, 1),
                                       &in->rule, &in->extra, from == 0 ? lse : NULL);
        joined = joined ? fv_concat(ctx, 2, (fv_tensor *[]){joined, columns}, 3) : columns;
    }
    return ctx->error == FV_OK ? joined : ctx->invalid;
}

/* What the kernel gets for this call: everything but the values. */
static fv_attention_saved kernel_inputs(const fv_attention_call *call, fv_tensor *bias,
                                        fv_tensor *visible, double dropout)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    fv_attention_saved view = {
        .q = call->map ? NULL : call->q,
        .k = call->map ? NULL : call->k,
        .rule = call->rule,
        .extra = {.bias = add_bias(ctx, add_bias(ctx, in->bias, bias), call->map),
                  .visible = visible,
                  .key_lengths = in->key_lengths,
                  .blocks = in->blocks,
                  .slopes = in->slopes,
                  .w = call->map ? NULL : call->w,
                  .q_begin = in->q_begin,
                  .k_begin = in->k_begin}};
    view.rule.dropout = dropout;
    return view;
}

fv_tensor *fv_attention_stream(const fv_attention_call *call, fv_tensor *v, fv_tensor *bias,
                               fv_tensor *visible, double dropout, fv_tensor **lse)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_saved in = kernel_inputs(call, bias, visible, dropout);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (v->shape[3] > FV_ATTN_MAX_WIDTH) return attend_wide(ctx, &in, v, lse);
    return fv_attend(ctx, in.q, in.k, v, &in.rule, &in.extra, lse);
}

/* Recomputes what the description wants captured; the context is already there. */
static void capture(const fv_attention_call *call, fv_tensor *lse, fv_attention_captured *out)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_capture *what = &call->how.capture;
    if (!what->weights && what->top == 0 && !what->summary && !what->saved) return;
    fv_attention_saved view = kernel_inputs(call, NULL, call->in->visible, 0);
    view.lse = lse;
    if (ctx->error != FV_OK) return;
    out->heads = call->heads;
    out->n_q = call->n_q;
    out->n_k = call->n_k;
    if (what->weights) out->weights = fv_attention_weights(ctx, &view, NULL);
    if (what->top > 0) out->top_weights = fv_attention_top(ctx, &view, what->top, &out->top_index);
    if (what->summary) out->summary = fv_attention_summarise(ctx, &view);
    if (what->saved) out->saved = view;
}

static void attend_softly(fv_attention_call *call, fv_attention_result *out)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention *how = &call->how;
    out->path = call->map ? FV_ATTENTION_SCORED : FV_ATTENTION_STREAMED;
    out->context = fv_attention_stream(call, call->in->v, NULL, call->in->visible,
                                       how->rule.dropout, &out->lse);
    capture(call, out->lse, &out->captured);
    if (!how->want_scores && !how->want_weights) return;
    if (!how->want_scores && ctx->error == FV_OK && !fv_tensor_tracked(out->context)) {
        fv_attention_saved view = kernel_inputs(call, NULL, call->in->visible, 0);
        view.lse = out->lse;
        out->weights = fv_attention_weights(ctx, &view, NULL);
        return;
    }
    out->path = FV_ATTENTION_MAP;
    fv_tensor *scores = fv_attention_scores(call);
    if (how->want_scores) out->scores = scores;
    if (how->want_weights) out->weights = fv_softmax(ctx, scores, -1);
}

static void report(const fv_attention_call *call, fv_attention_path path)
{
    static const char *const normalisers[FV_ATTENTION_NORMALISER_COUNT] = {
        "softmax", "hard sample", "hard argmax", "local-m", "local-p"};
    fv_report(call->ctx, FV_LOG_DEBUG, "attention: %s score, %s, %lld x %lld, %lld heads: %s",
              call->score->name, normalisers[call->how.normaliser], (long long)call->n_q,
              (long long)call->n_k, (long long)call->heads, fv_attention_path_name(path));
}

fv_tensor *fv_attention_run(fv_ctx *ctx, const fv_attention_input *in, const fv_attention *how,
                            fv_attention_result *result)
{
    fv_attention_result out = {.context = ctx->invalid};
    fv_attention_call call = {.ctx = ctx, .in = in};
    if (ctx->error == FV_OK && fv_attention_check(&call, how) == FV_OK) {
        fv_attention_prepare(&call);
        switch (call.how.normaliser) {
        case FV_ATTENTION_HARD_SAMPLE:
        case FV_ATTENTION_HARD_ARGMAX:
            fv_attention_hard(&call, &out);
            break;
        case FV_ATTENTION_LOCAL_P:
            fv_attention_local(&call, &out);
            break;
        default:
            attend_softly(&call, &out);
            break;
        }
        if (ctx->error == FV_OK) report(&call, out.path);
    }
    if (result) *result = out;
    return ctx->error == FV_OK ? out.context : ctx->invalid;
}
