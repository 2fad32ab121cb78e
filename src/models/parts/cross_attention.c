#include "models/parts/cross_attention.h"

#include <math.h>

#include "attention/score.h"
#include "nn/weights.h"

/* ---- parameters ----------------------------------------------------------------------------- */

static int64_t score_size(const fv_seq2seq_config *cfg, const fv_cross_attention *a,
                          fv_score_size size)
{
    switch (size) {
    case FV_SCORE_SIZE_QUERY:
        return a->query_width;
    case FV_SCORE_SIZE_KEY:
        return a->memory_width;
    case FV_SCORE_SIZE_KEYS:
        return cfg->most_source;
    default:
        return cfg->attention_width;
    }
}

static fv_tensor *matrix(fv_params *params, const char *name, int64_t out, int64_t in)
{
    return fv_nn_weight(params, "attention", name, 2, (int64_t[]){out, in},
                        fv_init_xavier(in, out));
}

static fv_tensor *vector(fv_params *params, const char *name, int64_t n)
{
    return fv_nn_weight(params, "attention", name, 1, &n, fv_init_uniform(1.0 / sqrt((double)n)));
}

/* A vector, a matrix, or nothing where the score has no such parameter. */
static fv_tensor *score_param(fv_params *params, const fv_seq2seq_config *cfg,
                              const fv_cross_attention *a, const char *name,
                              const fv_score_param *p)
{
    const int64_t rows = score_size(cfg, a, p->axis[0]);
    switch (fv_score_rank(p)) {
    case 1:
        return vector(params, "score", rows);
    case 2:
        return matrix(params, name, rows, score_size(cfg, a, p->axis[1]));
    default:
        return NULL;
    }
}

void fv_cross_attention_create(fv_params *params, const fv_seq2seq_config *cfg, int64_t query_width,
                               int64_t memory_width, fv_cross_attention *out)
{
    const fv_score_kind *score = fv_score_find(cfg->score);
    fv_cross_attention a = {.query_width = query_width, .memory_width = memory_width};
    fv_attention_init(&a.how, sizeof a.how);
    a.how.score = cfg->score;
    a.how.normaliser = cfg->normaliser;
    a.how.half_width = cfg->half_width;
    a.w_q = score_param(params, cfg, &a, "query.weight", &score->w_q);
    a.w_k = score_param(params, cfg, &a, "key.weight", &score->w_k);
    a.w = score_param(params, cfg, &a, "weight", &score->w);
    if (cfg->normaliser == FV_ATTENTION_LOCAL_P) {
        a.w_p = matrix(params, "position.weight", cfg->attention_width, query_width);
        a.v_p = vector(params, "position.score", cfg->attention_width);
    }
    *out = a;
}

fv_tensor *fv_cross_attention_keys(fv_ctx *ctx, const fv_cross_attention *a, fv_tensor *values)
{
    return a->w_k ? fv_linear(ctx, values, a->w_k, NULL) : NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

fv_tensor *fv_cross_attention_run(fv_ctx *ctx, const fv_cross_attention *a,
                                  const fv_decoder_call *call, fv_tensor *query,
                                  fv_decoder_step *step)
{
    const fv_memory *memory = call->memory;
    const bool hard = a->how.normaliser == FV_ATTENTION_HARD_SAMPLE;
    const int64_t n = fv_tensor_size(query, 0), map[2] = {n, memory->positions};
    fv_attention how = a->how;
    if (hard && !call->training) how.normaliser = FV_ATTENTION_HARD_ARGMAX;
    how.rule.q_offset = call->t; /* local-m: target token t attends around source token t */
    how.want_weights = call->want_weights && !hard;
    const fv_attention_input in = {
        .q = fv_reshape(ctx, query, 4, (int64_t[]){n, 1, 1, a->query_width}),
        .k = memory->k,
        .v = memory->v,
        .w = a->w,
        .w_q = a->w_q,
        .w_p = a->w_p,
        .v_p = a->v_p,
        .key_lengths = memory->lengths,
    };
    fv_attention_result result;
    fv_tensor *context = fv_attention_run(ctx, &in, &how, &result);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (call->want_weights) {
        fv_tensor *weights =
            hard ? fv_one_hot(ctx, result.choice, memory->positions, fv_tensor_dtype(context))
                 : result.weights;
        step->weights = fv_reshape(ctx, weights, 2, map);
    }
    if (hard && call->training) {
        step->log_prob = fv_reshape(ctx, result.log_prob, 1, &n);
        step->entropy = fv_reshape(ctx, result.entropy, 1, &n);
    }
    return fv_reshape(ctx, context, 2, (int64_t[]){n, a->memory_width});
}
