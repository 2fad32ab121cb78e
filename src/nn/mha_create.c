#include <string.h>

#include "attention/score.h"
#include "base/config.h"
#include "nn/mha.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

void fv_mha_config_init(fv_mha_config *cfg, size_t struct_size, int64_t width, int64_t heads)
{
    fv_mha_config defaults = {.struct_size = struct_size,
                              .width_q = width,
                              .heads = heads,
                              .d_k = heads > 0 ? width / heads : 0,
                              .bias = true,
                              .bias_out = true};
    fv_attention_init(&defaults.attention, sizeof defaults.attention);
    fv_rotary_config_init(&defaults.rotary, sizeof defaults.rotary, 0);
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

void fv_mha_sizes(const fv_mha_config *cfg, int64_t size[3])
{
    size[0] = cfg->heads * cfg->d_k;
    size[1] = cfg->kv_heads * cfg->d_k;
    size[2] = cfg->kv_heads * cfg->d_v;
}

static void complete(fv_mha_config *cfg)
{
    if (cfg->width_k == 0) cfg->width_k = cfg->width_q;
    if (cfg->width_v == 0) cfg->width_v = cfg->width_k;
    if (cfg->kv_heads == 0) cfg->kv_heads = cfg->heads;
    if (cfg->d_v == 0) cfg->d_v = cfg->d_k;
    if (cfg->width_out == 0) cfg->width_out = cfg->width_q;
}

/* Sizes small enough that none of their products can pass int64. */
static bool sizes_are_sound(const fv_mha_config *cfg)
{
    const int64_t all[] = {cfg->width_q,  cfg->width_k, cfg->width_v, cfg->heads,
                           cfg->kv_heads, cfg->d_k,     cfg->d_v,     cfg->width_out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < 1 || all[i] > (int64_t)1 << 28) return false;
    return cfg->heads % cfg->kv_heads == 0;
}

fv_status fv_mha_complete(fv_ctx *ctx, const fv_mha_config *given, fv_mha *heads)
{
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, 0, 0);
    FV_RETURN_IF(!fv_config_copy(&cfg, sizeof cfg, given), ctx, FV_ERR_ARGUMENT,
                 "heads: the config is not initialised");
    complete(&cfg);
    FV_RETURN_IF(!sizes_are_sound(&cfg), ctx, FV_ERR_ARGUMENT,
                 "heads: sizes out of range: %lld heads, %lld key heads, widths %lld and %lld",
                 (long long)cfg.heads, (long long)cfg.kv_heads, (long long)cfg.d_k,
                 (long long)cfg.d_v);
    FV_RETURN_IF(cfg.fused_qkv && (cfg.width_k != cfg.width_q || cfg.width_v != cfg.width_q), ctx,
                 FV_ERR_ARGUMENT, "heads: fused_qkv needs inputs of one width");
    FV_RETURN_IF(cfg.rotary.width > cfg.d_k, ctx, FV_ERR_ARGUMENT,
                 "heads: rotary positions of width %lld in heads of width %lld",
                 (long long)cfg.rotary.width, (long long)cfg.d_k);
    FV_RETURN_IF(cfg.relative.max_distance != 0 && fv_relative_rows(&cfg.relative) == 0, ctx,
                 FV_ERR_ARGUMENT, "heads: the relative positions have no rows");
    const fv_score_kind *score = fv_score_find(cfg.attention.score);
    FV_RETURN_IF(!score, ctx, FV_ERR_ARGUMENT, "heads: score %d does not exist",
                 (int)cfg.attention.score);
    FV_RETURN_IF(cfg.relative_vectors && !score->is_dot_product, ctx, FV_ERR_ARGUMENT,
                 "heads: relative vectors need a dot product, not the %s score", score->name);
    FV_RETURN_IF(score->w.axis[0] == FV_SCORE_SIZE_KEYS && cfg.location_keys < 1, ctx,
                 FV_ERR_ARGUMENT, "heads: the %s score needs location_keys", score->name);
    FV_RETURN_IF(cfg.relative_queries && cfg.kv_heads != cfg.heads, ctx, FV_ERR_ARGUMENT,
                 "heads: relative_queries with %lld heads and %lld key heads", (long long)cfg.heads,
                 (long long)cfg.kv_heads);
    *heads = (fv_mha){.cfg = cfg};
    return FV_OK;
}

static fv_status create_dense(fv_params *params, const char *prefix, const char *name, int64_t in,
                              int64_t out, bool bias, double init_std, fv_dense *dense)
{
    char full[FV_NN_NAME];
    fv_nn_name(full, prefix, name);
    return fv_dense_create(params, full, in, out, bias, init_std, dense);
}

static const fv_mha_names *names_of(const fv_mha_config *c)
{
    static const fv_mha_names ours = {"q_proj",   "k_proj", "v_proj", "qkv_proj",
                                      "out_proj", "q_norm", "k_norm", "relative.keys"};
    return c->names ? c->names : &ours;
}

static fv_status create_norms(fv_params *params, const char *prefix, fv_mha *h)
{
    const fv_mha_config *c = &h->cfg;
    char q[FV_NN_NAME], k[FV_NN_NAME];
    if (!c->qk_norm) return FV_OK;
    fv_nn_name(q, prefix, names_of(c)->q_norm);
    fv_nn_name(k, prefix, names_of(c)->k_norm);
    FV_TRY(fv_norm_layer_create(params, q, c->d_k, FV_NORM_RMS, false, c->qk_norm_eps, &h->q_norm));
    return fv_norm_layer_create(params, k, c->d_k, FV_NORM_RMS, false, c->qk_norm_eps, &h->k_norm);
}

static fv_status create_projections(fv_params *params, const char *prefix, fv_mha *h)
{
    const fv_mha_config *c = &h->cfg;
    const fv_mha_names *n = names_of(c);
    int64_t size[3];
    fv_mha_sizes(c, size);
    if (c->fused_qkv) {
        FV_TRY(create_dense(params, prefix, n->qkv, c->width_q, size[0] + size[1] + size[2],
                            c->bias, c->init_std, &h->qkv));
    } else {
        FV_TRY(
            create_dense(params, prefix, n->q, c->width_q, size[0], c->bias, c->init_std, &h->q));
        FV_TRY(
            create_dense(params, prefix, n->k, c->width_k, size[1], c->bias, c->init_std, &h->k));
        FV_TRY(
            create_dense(params, prefix, n->v, c->width_v, size[2], c->bias, c->init_std, &h->v));
    }
    return create_dense(params, prefix, n->out, c->heads * c->d_v, c->width_out, c->bias_out,
                        c->init_std_out > 0 ? c->init_std_out : c->init_std, &h->out);
}

static int64_t score_size(const fv_mha_config *c, fv_score_size size)
{
    return size == FV_SCORE_SIZE_KEYS ? c->location_keys : c->d_k;
}

/* One set per head. A vector, or a row for each key, makes one number of d; a matrix makes as many
 * as it has rows. */
static void create_score(fv_params *params, const char *prefix, fv_mha *h)
{
    const fv_mha_config *c = &h->cfg;
    const fv_score_kind *score = fv_score_find(c->attention.score);
    const fv_score_size *axis = score->w.axis;
    const int rank = fv_score_rank(&score->w);
    const int64_t shape[3] = {c->heads, score_size(c, axis[0]), score_size(c, axis[1])};
    const int64_t out = rank == 2 && axis[0] != FV_SCORE_SIZE_KEYS ? shape[1] : 1;
    if (rank > 0)
        h->score = fv_nn_weight(params, prefix, "score.weight", rank + 1, shape,
                                fv_init_xavier(shape[rank], out));
    if (score->has_beta)
        h->beta = fv_nn_weight(params, prefix, "score.strength", 1, &c->heads, fv_init_constant(1));
}

/* Parameters of the score, of the centre and of relative positions. */
static void create_attention_weights(fv_params *params, const char *prefix, fv_mha *h)
{
    const fv_mha_config *c = &h->cfg;
    const int64_t heads = c->heads, d = c->d_k;
    const fv_init square = fv_init_xavier(d, d), small = fv_init_xavier(d, 1);
    create_score(params, prefix, h);
    if (c->attention.normaliser == FV_ATTENTION_LOCAL_P) {
        h->centre = fv_nn_weight(params, prefix, "centre.weight", 2, (int64_t[]){d, d}, square);
        h->centre_vector = fv_nn_weight(params, prefix, "centre.vector", 1, &d, small);
    }
    if (c->relative.max_distance == 0) return;
    const int64_t rows = fv_relative_rows(&c->relative);
    const fv_init tiny = fv_init_normal(0.02);
    if (!c->relative_vectors) {
        h->relative_bias =
            fv_nn_weight(params, prefix, "relative.bias", 2, (int64_t[]){rows, heads}, tiny);
        return;
    }
    const char *name = names_of(c)->relative_keys;
    h->relative_keys = fv_nn_weight(params, prefix, name, 2, (int64_t[]){rows, d}, tiny);
    if (c->relative_no_values) return;
    h->relative_values =
        fv_nn_weight(params, prefix, "relative.values", 2, (int64_t[]){rows, c->d_v}, tiny);
}

fv_status fv_mha_create(fv_params *params, const char *prefix, const fv_mha_config *cfg,
                        fv_mha *heads)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_mha made;
    FV_TRY(fv_mha_complete(ctx, cfg, &made));
    FV_TRY(create_projections(params, prefix, &made));
    FV_TRY(create_norms(params, prefix, &made));
    create_attention_weights(params, prefix, &made);
    if (ctx->error == FV_OK) *heads = made;
    return ctx->error;
}
