/*
 * Hard attention: the context is the value of one key, s ~ Cat(a) or argmax a. Nothing flows back
 * through the choice; ln a_s and the entropy of a carry the gradient to the scores (fv_reinforce).
 */
#include <math.h>

#include "attention/attention.h"

/* The row of v, seen as [batch kv_heads n_k, d_v], at which each query's keys begin:
 * i64 [batch, heads, 1]. */
static fv_tensor *first_rows(const fv_attention_call *call)
{
    fv_ctx *ctx = call->ctx;
    const int64_t group = call->heads / call->kv_heads;
    const int64_t shape[4] = {call->batch, call->kv_heads, group, 1};
    fv_tensor *heads = fv_attention_positions(ctx, FV_I64, call->batch * call->kv_heads);
    heads = fv_mul(ctx, heads, fv_scalar(ctx, FV_I64, (double)call->n_k));
    heads = fv_reshape(ctx, heads, 4, (int64_t[]){call->batch, call->kv_heads, 1, 1});
    heads = fv_contiguous(ctx, fv_broadcast(ctx, heads, 4, shape));
    return fv_reshape(ctx, heads, 3, (int64_t[]){call->batch, call->heads, 1});
}

/* v_s for every query; zeros where there was nothing to choose from. */
static fv_tensor *chosen_values(const fv_attention_call *call, fv_tensor *choice, fv_tensor *any)
{
    fv_ctx *ctx = call->ctx;
    fv_tensor *v = call->in->v;
    if (call->n_k == 0)
        return fv_zeros(ctx, call->dtype, 4,
                        (int64_t[]){call->batch, call->heads, call->n_q, v->shape[3]});
    fv_tensor *rows = fv_reshape(ctx, v, 2, (int64_t[]){-1, v->shape[3]});
    fv_tensor *values = fv_embedding(ctx, rows, fv_add(ctx, choice, first_rows(call)), -1);
    return fv_where(ctx, fv_unsqueeze(ctx, any, -1), values, fv_scalar(ctx, call->dtype, 0.0));
}

static fv_tensor *choose(const fv_attention_call *call, fv_tensor *weights, fv_tensor *any)
{
    fv_ctx *ctx = call->ctx;
    weights = fv_detach(ctx, weights);
    if (call->n_k == 0)
        return fv_zeros(ctx, FV_I64, 3, (int64_t[]){call->batch, call->heads, call->n_q});
    if (call->how.normaliser == FV_ATTENTION_HARD_ARGMAX) return fv_argmax(ctx, weights, -1, false);
    /* A row without visible keys draws from all of them; the result is replaced below. */
    fv_tensor *one = fv_scalar(ctx, call->dtype, 1.0);
    weights = fv_where(ctx, fv_unsqueeze(ctx, any, -1), weights, one);
    fv_tensor *drawn = fv_squeeze(ctx, fv_multinomial(ctx, weights, 1), -1);
    return fv_where(ctx, any, drawn, fv_scalar(ctx, FV_I64, 0));
}

/* -sum a ln a, where 0 ln 0 is 0. Its derivative by a is -(ln a + 1), and the 1 is lost on weights
 * that always sum to one: ln a may stand as a constant. */
static fv_tensor *entropy_of(fv_ctx *ctx, fv_tensor *weights)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *a = fv_detach(ctx, weights), *one = fv_scalar(ctx, weights->dtype, 1.0);
    fv_tensor *some = fv_gt(ctx, a, fv_scalar(ctx, weights->dtype, 0.0));
    fv_tensor *terms = fv_mul(ctx, weights, fv_log(ctx, fv_where(ctx, some, a, one)));
    return fv_neg(ctx, fv_sum(ctx, terms, 1, (int[]){-1}, false));
}

/* ln a_s; 0 where there was nothing to choose from. */
static fv_tensor *log_prob_of(const fv_attention_call *call, fv_tensor *weights, fv_tensor *choice,
                              fv_tensor *any)
{
    fv_ctx *ctx = call->ctx;
    if (call->n_k == 0)
        return fv_zeros(ctx, call->dtype, 3, (int64_t[]){call->batch, call->heads, call->n_q});
    fv_tensor *p = fv_squeeze(ctx, fv_gather(ctx, weights, fv_unsqueeze(ctx, choice, -1), -1), -1);
    return fv_log(ctx, fv_where(ctx, any, p, fv_scalar(ctx, call->dtype, 1.0)));
}

void fv_attention_hard(fv_attention_call *call, fv_attention_result *out)
{
    fv_ctx *ctx = call->ctx;
    out->path = FV_ATTENTION_MAP;
    fv_tensor *scores = fv_attention_scores(call);
    fv_tensor *weights = fv_softmax(ctx, scores, -1);
    /* A row of weights sums to one or, without a key, to zero. */
    fv_tensor *total = fv_sum(ctx, fv_detach(ctx, weights), 1, (int[]){-1}, false);
    fv_tensor *any = fv_ne(ctx, total, fv_scalar(ctx, call->dtype, 0.0));
    out->choice = choose(call, weights, any);
    out->context = chosen_values(call, out->choice, any);
    out->log_prob = log_prob_of(call, weights, out->choice, any);
    out->entropy = entropy_of(ctx, weights);
    if (call->how.want_scores) out->scores = scores;
    if (call->how.want_weights) out->weights = weights;
}

/* ---- the estimator ---------------------------------------------------------------- */

static void learn_baseline(fv_ctx *ctx, fv_baseline *baseline, fv_tensor *log_likelihood)
{
    double mean = 0;
    fv_no_grad_begin(ctx);
    fv_tensor *t = fv_mean(ctx, log_likelihood, 0, NULL, false);
    fv_no_grad_end(ctx);
    if (ctx->error != FV_OK) return;
    const fv_status status = fv_tensor_item(ctx, t, &mean);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return;
    }
    baseline->value = baseline->decay * baseline->value + (1 - baseline->decay) * mean;
    baseline->updates++;
}

fv_tensor *fv_reinforce(fv_ctx *ctx, fv_baseline *baseline, fv_tensor *log_likelihood,
                        fv_tensor *log_prob, fv_tensor *entropy, double lambda,
                        double lambda_entropy)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const double b = baseline ? baseline->value : 0;
    fv_tensor *advantage = fv_affine(ctx, fv_detach(ctx, log_likelihood), lambda, -lambda * b);
    fv_tensor *gain = fv_add(ctx, log_likelihood, fv_mul(ctx, advantage, log_prob));
    if (entropy) gain = fv_add(ctx, gain, fv_scale(ctx, entropy, lambda_entropy));
    fv_tensor *loss = fv_neg(ctx, fv_mean(ctx, gain, 0, NULL, false));
    if (baseline) learn_baseline(ctx, baseline, log_likelihood);
    return loss;
}
