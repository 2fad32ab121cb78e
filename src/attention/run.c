/* The choice of the path. */
#include "attention/attention.h"
#include "fovea/attention_weights.h"

static fv_tensor *sum_of(fv_ctx *ctx, fv_tensor *a, fv_tensor *b)
{
    return a && b ? fv_add(ctx, a, b) : a ? a : b;
}

static fv_attend_config settings_of(const fv_attention_call *call, double dropout)
{
    const fv_attention *how = &call->how;
    fv_attend_config cfg;
    fv_attend_config_init(&cfg, sizeof cfg);
    cfg.score = call->map ? FV_SCORE_NONE : call->w ? FV_SCORE_ADDITIVE : FV_SCORE_DOT;
    cfg.scale = call->scale;
    cfg.soft_cap = call->map ? 0 : how->soft_cap;
    cfg.causal = how->causal;
    cfg.left = how->left;
    cfg.right = how->right;
    cfg.prefix = how->prefix;
    cfg.q_offset = how->q_offset;
    cfg.block_q = how->block_q;
    cfg.block_k = how->block_k;
    cfg.dropout = dropout;
    return cfg;
}

/* Values wider than the kernel takes, in parts that draw the same dropout. */
static fv_tensor *attend_in_parts(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *v,
                                  const fv_attend_config *cfg, const fv_attend_extra *extra,
                                  fv_tensor **lse)
{
    const int64_t width = v->shape[3];
    const uint64_t site = ctx->site;
    fv_tensor *joined = NULL;
    for (int64_t from = 0; from < width && ctx->error == FV_OK; from += FV_ATTN_MAX_WIDTH) {
        const int64_t to = from + FV_ATTN_MAX_WIDTH < width ? from + FV_ATTN_MAX_WIDTH : width;
        ctx->site = site;
        fv_tensor *part = fv_attend(ctx, q, k, fv_slice(ctx, v, 3, from, to, 1), cfg, extra,
                                    from == 0 ? lse : NULL);
        joined = joined ? fv_concat(ctx, 2, (fv_tensor *[]){joined, part}, 3) : part;
    }
    return ctx->error == FV_OK ? joined : ctx->invalid;
}

/* What the kernel is given for this call. */
typedef struct streamed {
    fv_tensor *q, *k;
    fv_attend_config cfg;
    fv_attend_extra extra;
} streamed;

static streamed for_kernel(const fv_attention_call *call, fv_tensor *bias, fv_tensor *visible,
                           double dropout)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_input *in = call->in;
    return (streamed){.q = call->map ? NULL : call->q,
                      .k = call->map ? NULL : call->k,
                      .cfg = settings_of(call, dropout),
                      .extra = {.bias = sum_of(ctx, sum_of(ctx, in->bias, bias), call->map),
                                .visible = visible,
                                .n_keys = in->n_keys,
                                .blocks = in->blocks,
                                .slopes = in->slopes,
                                .w = call->map ? NULL : call->w,
                                .q_begin = in->q_begin,
                                .k_begin = in->k_begin}};
}

fv_tensor *fv_attention_stream(const fv_attention_call *call, fv_tensor *v, fv_tensor *bias,
                               fv_tensor *visible, double dropout, fv_tensor **lse)
{
    fv_ctx *ctx = call->ctx;
    const streamed s = for_kernel(call, bias, visible, dropout);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (v->shape[3] > FV_ATTN_MAX_WIDTH)
        return attend_in_parts(ctx, s.q, s.k, v, &s.cfg, &s.extra, lse);
    return fv_attend(ctx, s.q, s.k, v, &s.cfg, &s.extra, lse);
}

/* Looks at the weights from beside the kernel. */
static void look(const fv_attention_call *call, fv_tensor *lse, fv_attention_seen *seen)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention_look *at = &call->how.look;
    if (!at->weights && at->top == 0 && !at->summary && !at->view) return;
    const streamed s = for_kernel(call, NULL, call->in->visible, 0);
    if (ctx->error != FV_OK) return;
    if (at->weights) seen->weights = fv_attend_weights(ctx, s.q, s.k, lse, &s.cfg, &s.extra);
    if (at->top > 0)
        seen->top_weights =
            fv_attend_top(ctx, s.q, s.k, lse, at->top, &s.cfg, &s.extra, &seen->top_index);
    if (at->summary) seen->summary = fv_attend_summarise(ctx, s.q, s.k, lse, &s.cfg, &s.extra);
    if (at->view)
        seen->view = (fv_attention_view){.q = s.q,
                                         .k = s.k,
                                         .lse = lse,
                                         .cfg = s.cfg,
                                         .extra = s.extra,
                                         .heads = call->heads,
                                         .n_q = call->n_q,
                                         .n_k = call->n_k};
}

fv_tensor *fv_attention_part(fv_ctx *ctx, const fv_attention_view *view, const fv_attend_part *part)
{
    return fv_attend_weights_part(ctx, view->q, view->k, view->lse, part, &view->cfg, &view->extra);
}

static void attend_softly(fv_attention_call *call, fv_attention_result *out)
{
    fv_ctx *ctx = call->ctx;
    const fv_attention *how = &call->how;
    out->path = call->map ? FV_ATTENTION_SCORED : FV_ATTENTION_STREAMED;
    out->context =
        fv_attention_stream(call, call->in->v, NULL, call->in->visible, how->dropout, &out->lse);
    look(call, out->lse, &out->seen);
    if (!how->want_scores && !how->want_weights) return;
    if (!how->want_scores && ctx->error == FV_OK && !fv_tensor_tracked(out->context)) {
        const streamed s = for_kernel(call, NULL, call->in->visible, 0);
        out->weights = fv_attend_weights(ctx, s.q, s.k, out->lse, &s.cfg, &s.extra);
        return;
    }
    out->path = FV_ATTENTION_MAP;
    fv_tensor *scores = fv_attention_scores(call);
    if (how->want_scores) out->scores = scores;
    if (how->want_weights) out->weights = fv_softmax(ctx, scores, -1);
}

static void report(const fv_attention_call *call, fv_attention_path path)
{
    static const char *const scores[FV_ATTENTION_SCORE_COUNT] = {
        "scaled dot", "dot", "general", "additive", "cosine", "location", "caller's"};
    static const char *const normalisers[FV_ATTENTION_NORMALISER_COUNT] = {
        "softmax", "hard sample", "hard argmax", "local-m", "local-p"};
    fv_report(call->ctx, FV_LOG_DEBUG, "attention: %s score, %s, %lld x %lld, %lld heads: %s",
              scores[call->how.score], normalisers[call->how.normaliser], (long long)call->n_q,
              (long long)call->n_k, (long long)call->heads, fv_attention_path_name(path));
}

fv_tensor *fv_attention_run(fv_ctx *ctx, const fv_attention *how, const fv_attention_input *in,
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
