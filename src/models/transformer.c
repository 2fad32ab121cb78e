/* Checks and parameters of Transformers. */
#include "models/transformer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/rotary.h"
#include "tensor/params.h"

/* ---- what follows from settings ---------------------------------------------------- */

bool fv_has_distance_vectors(const fv_transformer_config *c)
{
    return c->positions == FV_POSITION_RELATIVE_KEY ||
           c->positions == FV_POSITION_RELATIVE_KEY_QUERY;
}

bool fv_is_full_layer(const fv_transformer_config *c, int64_t layer)
{
    return layer < 128 && c->full_layers[layer / 64] >> (layer % 64) & 1;
}

/* yarn and dynamic scaling make `factor` times as many positions of those a model was trained with,
 * whatever max_positions says. */
static int64_t scaled_context(const fv_transformer_config *c)
{
    const double scaled = c->rotary.factor * c->rotary.original;
    return scaled > (double)c->max_positions && scaled < 1 << 30 ? (int64_t)scaled
                                                                 : c->max_positions;
}

int64_t fv_context_of(const fv_transformer_config *c)
{
    switch (c->positions) {
    case FV_POSITION_LEARNED:
    case FV_POSITION_RELATIVE_KEY:
    case FV_POSITION_RELATIVE_KEY_QUERY:
        return c->max_positions;
    case FV_POSITION_ROTARY:
        return c->rotary.scaling == FV_ROTARY_SCALING_YARN ||
                       c->rotary.scaling == FV_ROTARY_SCALING_DYNAMIC
                   ? scaled_context(c)
                   : c->max_positions;
    default:
        return FV_CONTEXT_UNBOUNDED;
    }
}

static void complete(fv_transformer_config *c)
{
    if (c->decoder_heads == 0) c->decoder_heads = c->heads;
    if (c->decoder_hidden == 0) c->decoder_hidden = c->hidden;
}

/* ---- checks ----------------------------------------------------------------------- */

static fv_status check_sizes(fv_ctx *ctx, const fv_transformer_config *c)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } sizes[] = {{"vocabulary", c->vocabulary, 1, 1 << 28},
                 {"target_vocabulary", c->target_vocabulary, 0, 1 << 28},
                 {"width", c->width, 1, 1 << 20},
                 {"encoder_layers", c->encoder_layers, 0, 1 << 12},
                 {"decoder_layers", c->decoder_layers, 0, 1 << 12},
                 {"heads", c->heads, 1, 1 << 16},
                 {"kv_heads", c->kv_heads, 0, 1 << 16},
                 {"decoder_heads", c->decoder_heads, 1, 1 << 16},
                 {"head_dim", c->head_dim, 0, 1 << 16},
                 {"hidden", c->hidden, 1, 1 << 24},
                 {"decoder_hidden", c->decoder_hidden, 1, 1 << 24},
                 {"max_positions", c->max_positions, 1, 1 << 28},
                 {"position_offset", c->position_offset, 0, 1 << 16},
                 {"types", c->types, 0, 1 << 16},
                 {"window", c->window, 0, 1 << 28},
                 {"labels", c->labels, 0, 1 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        FV_RETURN_IF(sizes[i].value < sizes[i].min || sizes[i].value > sizes[i].max, ctx,
                     FV_ERR_ARGUMENT, "transformer: %s is %lld, not %lld to %lld", sizes[i].name,
                     (long long)sizes[i].value, (long long)sizes[i].min, (long long)sizes[i].max);
    FV_RETURN_IF(c->encoder_layers + c->decoder_layers == 0, ctx, FV_ERR_ARGUMENT,
                 "transformer: needs encoder or decoder layers");
    FV_RETURN_IF(c->head_dim == 0 && (c->width % c->heads || c->width % c->decoder_heads), ctx,
                 FV_ERR_ARGUMENT, "transformer: %lld heads do not divide width %lld",
                 (long long)(c->width % c->heads ? c->heads : c->decoder_heads),
                 (long long)c->width);
    return FV_OK;
}

static fv_status check_numbers(fv_ctx *ctx, const fv_transformer_config *c)
{
    const struct {
        const char *name;
        double value;
    } shares[] = {{"dropout", c->dropout},
                  {"attention_dropout", c->attention_dropout},
                  {"hidden_dropout", c->hidden_dropout},
                  {"label_dropout", c->label_dropout},
                  {"smoothing", c->smoothing}};
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        FV_RETURN_IF(!(shares[i].value >= 0 && shares[i].value < 1), ctx, FV_ERR_ARGUMENT,
                     "transformer: %s is %g, not 0 to below 1", shares[i].name, shares[i].value);
    FV_RETURN_IF(!(c->init_std >= 0 && c->init_std < 1e3), ctx, FV_ERR_ARGUMENT,
                 "transformer: init_std is %g", c->init_std);
    FV_RETURN_IF(!(c->logits_scale > 0 && isfinite(c->logits_scale)), ctx, FV_ERR_ARGUMENT,
                 "transformer: logits_scale is %g", c->logits_scale);
    const int64_t vocabulary = c->target_vocabulary ? c->target_vocabulary : c->vocabulary;
    FV_RETURN_IF(c->bos < -1 || c->bos >= vocabulary || c->eos < -1 || c->eos >= vocabulary ||
                     c->pad < -1 || c->pad >= c->vocabulary || c->pad >= vocabulary,
                 ctx, FV_ERR_ARGUMENT, "transformer: BOS, EOS and pad must be tokens or -1");
    return FV_OK;
}

/* A setting that a family has no parameter names for is refused. */
static fv_status check_family(fv_ctx *ctx, const fv_transformer_config *c)
{
    const fv_family_names *n = fv_family_names_of(c->family);
    const fv_side_names *one = c->encoder_layers ? &n->encoder : &n->decoder;
    const fv_mha_names *heads = c->gated ? &one->gated.self : &one->block.self;
    const bool learned = c->positions == FV_POSITION_LEARNED;
    const struct {
        bool wanted;
        const char *name, *what;
    } parts[] = {{c->encoder_layers > 0, n->encoder.layer, "an encoder"},
                 {c->decoder_layers > 0, n->decoder.layer, "a decoder"},
                 {c->types > 0, one->types, "kinds of token"},
                 {learned, one->positions, "learned positions"},
                 {c->positions == FV_POSITION_RELATIVE, one->relative, "relative positions"},
                 {fv_has_distance_vectors(c), heads->relative_keys, "vectors of distances"},
                 {c->qk_norm, heads->q_norm, "norms of queries and keys"},
                 {c->embedding_norm, one->embedding_norm, "a norm of the embedding"},
                 {c->final_norm, one->final_norm, "a last norm"},
                 {c->gated, one->gated.ff.up, "gates"},
                 {!c->gated, one->block.ff.up, "feed-forward layers without gates"},
                 {c->logits_bias, n->logits_bias, "a bias of the logits"},
                 {c->mlm_head, n->words_dense, "a head for words"},
                 {c->pooler || c->next_sentence, n->pooler, "a pooler"},
                 {c->labels > 0, n->labels, "classes"},
                 {c->label_dense, n->labels_dense, "a layer before the classes"},
                 {c->spans, n->spans, "a head for spans"}};
    FV_RETURN_IF((unsigned)c->family >= FV_FAMILY_COUNT, ctx, FV_ERR_ARGUMENT,
                 "transformer: there is no family %d", (int)c->family);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        FV_RETURN_IF(parts[i].wanted && !parts[i].name, ctx, FV_ERR_ARGUMENT,
                     "transformer: %s models do not have %s", n->model_type, parts[i].what);
    return FV_OK;
}

static fv_status check_parts(fv_ctx *ctx, const fv_transformer_config *c)
{
    FV_RETURN_IF((unsigned)c->positions >= FV_POSITION_COUNT, ctx, FV_ERR_ARGUMENT,
                 "transformer: no such kind of positions");
    FV_RETURN_IF(c->decoder_layers &&
                     (c->mlm_head || c->pooler || c->next_sentence || c->labels || c->spans),
                 ctx, FV_ERR_ARGUMENT,
                 "transformer: words, pooler, classes and spans are heads of encoders");
    FV_RETURN_IF((c->next_sentence || (c->labels && !c->label_tokens && !c->label_dense)) &&
                     !c->pooler,
                 ctx, FV_ERR_ARGUMENT, "transformer: classes of a text need the pooler");
    FV_RETURN_IF(c->label_dense && (!c->labels || c->label_tokens), ctx, FV_ERR_ARGUMENT,
                 "transformer: label_dense is for classes of a text");
    FV_RETURN_IF(c->positions_skip_pad &&
                     (c->decoder_layers || c->pad < 0 || c->position_offset < 1),
                 ctx, FV_ERR_ARGUMENT,
                 "transformer: positions_skip_pad needs an encoder alone, pad and position_offset");
    FV_RETURN_IF((c->window || c->scale_by_layer) && !c->decoder_layers, ctx, FV_ERR_ARGUMENT,
                 "transformer: window and scale_by_layer need a decoder");
    FV_RETURN_IF((c->full_layers[0] || c->full_layers[1]) && !c->window, ctx, FV_ERR_ARGUMENT,
                 "transformer: full_layers needs a window");
    FV_RETURN_IF(fv_has_distance_vectors(c) && c->max_positions < 2, ctx, FV_ERR_ARGUMENT,
                 "transformer: vectors of distances need two positions");
    FV_RETURN_IF(c->target_vocabulary && !(c->encoder_layers && c->decoder_layers), ctx,
                 FV_ERR_ARGUMENT, "transformer: target_vocabulary needs an encoder and a decoder");
    FV_RETURN_IF(c->logits_bias && !c->decoder_layers && !c->mlm_head, ctx, FV_ERR_ARGUMENT,
                 "transformer: logits_bias needs logits");
    return FV_OK;
}

/* ---- one side ---------------------------------------------------------------------- */

static fv_block_config block_of(const fv_transformer_config *c, const fv_side_names *names,
                                bool encoder)
{
    const int64_t heads = encoder ? c->heads : c->decoder_heads;
    fv_block_config b;
    fv_block_config_init(&b, sizeof b, c->width, heads);
    b.names = c->gated ? &names->gated : &names->block;
    b.norm = c->norm;
    b.eps = c->eps;
    b.bias = c->bias;
    b.post_norm = c->post_norm;
    b.dropout = c->dropout;
    fv_mha_config *h = &b.self;
    if (c->head_dim > 0) h->d_k = c->head_dim;
    h->kv_heads = c->kv_heads;
    h->bias = c->attention_bias;
    h->bias_out = c->attention_bias && c->attention_out_bias;
    h->qk_norm = c->qk_norm;
    h->qk_norm_eps = c->eps;
    h->fused_qkv = b.names->self.qkv && !b.names->self.q;
    h->init_std = c->init_std;
    h->attention.score = c->unscaled ? FV_ATTENTION_DOT : FV_ATTENTION_SCALED;
    h->attention.rule.dropout = c->attention_dropout;
    if (!encoder && c->encoder_layers > 0) b.cross = *h;
    if (!encoder) h->attention.rule.causal = FV_CAUSAL_TOP_LEFT;
    if (c->positions == FV_POSITION_ROTARY) {
        h->rotary = c->rotary;
        if (h->rotary.width == 0) h->rotary.width = h->d_k;
    }
    if (fv_has_distance_vectors(c)) {
        h->relative = (fv_relative){
            .kind = FV_RELATIVE_CLIPPED, .max_distance = c->max_positions - 1, .reversed = true};
        h->relative_vectors = h->relative_no_values = true;
        h->relative_queries = c->positions == FV_POSITION_RELATIVE_KEY_QUERY;
    }
    b.ff.hidden = encoder ? c->hidden : c->decoder_hidden;
    b.ff.act = c->act;
    b.ff.gated = c->gated;
    b.ff.bias = c->ff_bias;
    b.ff.dropout = c->hidden_dropout;
    b.ff.init_std = c->init_std;
    if (c->family ==
        FV_FAMILY_GPT2) /* keeps the variance of the residual sum over 2 sublayers per layer */
        h->init_std_out = b.ff.init_std_out =
            c->init_std / sqrt(2.0 * (double)(c->decoder_layers ? c->decoder_layers : 1));
    return b;
}

/* What differs from layer to layer of a decoder. */
static void set_layer(const fv_transformer_config *c, int64_t layer, fv_mha_config *self)
{
    fv_attention_rule *rule = &self->attention.rule;
    rule->left = c->window > 0 && !fv_is_full_layer(c, layer) ? c->window - 1 : -1;
    if (!c->scale_by_layer) return;
    const double own = c->unscaled ? 1 : 1 / sqrt((double)self->d_k);
    rule->scale = own / (double)(layer + 1);
}

/* Matrices that the family's files hold transposed. */
static fv_status mark_transposed(fv_params *params, const char *prefix, const fv_block_names *n)
{
    const char *const parts[] = {n->self.qkv, n->self.out, n->ff.up, n->ff.down};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[FV_NN_NAME];
        snprintf(name, sizeof name, "%.200s.%.200s.weight", prefix, parts[i]);
        FV_TRY(fv_params_store_transposed(params, name));
    }
    return FV_OK;
}

static fv_status create_blocks(fv_transformer *m, fv_side *s, const fv_side_names *names)
{
    fv_ctx *ctx = m->ctx;
    s->blocks = fv_mem_zalloc(&ctx->mem, (size_t)s->layers * sizeof *s->blocks);
    s->calls = fv_mem_zalloc(&ctx->mem, 2 * (size_t)s->layers * sizeof *s->calls);
    FV_RETURN_IF(!s->blocks || !s->calls, ctx, FV_ERR_MEMORY, "no memory for %lld layers",
                 (long long)s->layers);
    fv_block_config cfg = block_of(&m->cfg, names, s->encoder);
    const bool transposed = fv_family_names_of(m->cfg.family)->transposed;
    for (int64_t i = 0; i < s->layers; i++) {
        char prefix[FV_NN_NAME];
        snprintf(prefix, sizeof prefix, "%s%lld", names->layer, (long long)i);
        if (!s->encoder) set_layer(&m->cfg, i, &cfg.self);
        FV_TRY(fv_block_create(m->params, prefix, &cfg, &s->blocks[i]));
        for (int k = 0; k < 2; k++)
            s->calls[2 * i + k] = (fv_side_call){.block = &s->blocks[i], .training = k > 0};
        if (transposed) FV_TRY(mark_transposed(m->params, prefix, cfg.names));
    }
    return FV_OK;
}

static fv_status create_relative(fv_transformer *m, fv_side *s, const fv_side_names *names)
{
    const fv_transformer_config *c = &m->cfg;
    s->relative = (fv_relative){.kind = FV_RELATIVE_T5,
                                .max_distance = c->relative_max_distance,
                                .buckets = c->relative_buckets,
                                .bidirectional = s->encoder};
    const int64_t rows = fv_relative_rows(&s->relative);
    FV_RETURN_IF(rows == 0, m->ctx, FV_ERR_ARGUMENT,
                 "transformer: %lld buckets for distances to %lld", (long long)c->relative_buckets,
                 (long long)c->relative_max_distance);
    return fv_embedding_create(m->params, names->relative, rows,
                               s->encoder ? c->heads : c->decoder_heads, 0.02, &s->relative_table);
}

static fv_status create_embedding(fv_transformer *m, fv_side *s, const fv_side_names *names)
{
    const fv_transformer_config *c = &m->cfg;
    const char *shared = fv_family_names_of(c->family)->shared;
    const bool both = c->encoder_layers > 0 && c->decoder_layers > 0 && c->target_vocabulary == 0;
    const int64_t rows = !s->encoder && c->target_vocabulary ? c->target_vocabulary : c->vocabulary;
    const double start = c->init_std > 0 ? c->init_std : 1 / sqrt((double)c->width);
    FV_TRY(fv_embedding_create(m->params, both ? shared : names->embedding, rows, c->width, start,
                               &s->embedding));
    if (c->positions == FV_POSITION_LEARNED)
        FV_TRY(fv_embedding_create(m->params, names->positions,
                                   c->max_positions + c->position_offset, c->width, start,
                                   &s->positions));
    if (c->types > 0 && names->types)
        FV_TRY(fv_embedding_create(m->params, names->types, c->types, c->width, start, &s->types));
    if (c->embedding_norm)
        FV_TRY(fv_norm_layer_create(m->params, names->embedding_norm, c->width, c->norm, c->bias,
                                    c->eps, &s->embedding_norm));
    return FV_OK;
}

static fv_status create_stack(fv_transformer *m, bool encoder)
{
    const fv_transformer_config *c = &m->cfg;
    fv_side *s = encoder ? &m->encoder : &m->decoder;
    const fv_family_names *all = fv_family_names_of(c->family);
    const fv_side_names *names = encoder ? &all->encoder : &all->decoder;
    s->encoder = encoder;
    s->layers = encoder ? c->encoder_layers : c->decoder_layers;
    if (s->layers == 0) return FV_OK;
    FV_TRY(create_embedding(m, s, names));
    if (c->positions == FV_POSITION_RELATIVE) FV_TRY(create_relative(m, s, names));
    FV_TRY(create_blocks(m, s, names));
    if (c->final_norm)
        FV_TRY(fv_norm_layer_create(m->params, names->final_norm, c->width, c->norm, c->bias,
                                    c->eps, &s->final_norm));
    return FV_OK;
}

/* ---- heads ------------------------------------------------------------------------- */

static fv_status create_logits(fv_transformer *m, const fv_family_names *n)
{
    const fv_transformer_config *c = &m->cfg;
    const fv_side *s = c->decoder_layers ? &m->decoder : &m->encoder;
    if (!c->decoder_layers && !c->mlm_head) return FV_OK;
    const int64_t rows = s->embedding->shape[0];
    m->logits = s->embedding;
    if (!c->tied)
        FV_TRY(fv_embedding_create(m->params, n->logits, rows, c->width,
                                   c->init_std > 0 ? c->init_std : 1 / sqrt((double)c->width),
                                   &m->logits));
    if (c->logits_bias) {
        const int64_t shape[2] = {1, rows};
        const int skip = n->logits_bias_row ? 0 : 1;
        const char *name = c->tied || !n->untied_bias ? n->logits_bias : n->untied_bias;
        m->logits_bias =
            fv_nn_weight(m->params, "", name, 2 - skip, shape + skip, fv_init_constant(0));
    }
    if (!c->mlm_head) return m->ctx->error;
    FV_TRY(fv_dense_create(m->params, n->words_dense, c->width, c->width, c->bias, c->init_std,
                           &m->words_dense));
    return fv_norm_layer_create(m->params, n->words_norm, c->width, c->norm, c->bias, c->eps,
                                &m->words_norm);
}

static fv_status create_heads(fv_transformer *m)
{
    const fv_transformer_config *c = &m->cfg;
    const fv_family_names *n = fv_family_names_of(c->family);
    FV_TRY(create_logits(m, n));
    if (c->pooler)
        FV_TRY(fv_dense_create(m->params, n->pooler, c->width, c->width, c->bias, c->init_std,
                               &m->pooler));
    if (c->next_sentence)
        FV_TRY(fv_dense_create(m->params, n->next_sentence, c->width, 2, c->bias, c->init_std,
                               &m->next_sentence));
    if (c->label_dense)
        FV_TRY(fv_dense_create(m->params, n->labels_dense, c->width, c->width, c->bias, c->init_std,
                               &m->labels_dense));
    if (c->labels)
        FV_TRY(fv_dense_create(m->params, c->label_dense ? n->labels_out : n->labels, c->width,
                               c->labels, c->bias, c->init_std, &m->labels));
    if (c->spans)
        FV_TRY(fv_dense_create(m->params, n->spans, c->width, 2, c->bias, c->init_std, &m->spans));
    return m->ctx->error;
}

/* ---- entry points------------------------------------------------------------------- */

/* Checks rotary positions, and keeps a copy of the factors of longrope. */
static fv_status set_rotary(fv_transformer *m)
{
    const fv_transformer_config *c = &m->cfg;
    fv_rotary_config *r = &m->cfg.rotary, whole = *r;
    if (c->positions != FV_POSITION_ROTARY) return FV_OK;
    FV_RETURN_IF(
        r->scaling == FV_ROTARY_SCALING_LONGROPE && (!r->short_factors || !r->long_factors), m->ctx,
        FV_ERR_ARGUMENT, "transformer: longrope needs short_factors and long_factors");
    if (r->width == 0) whole.width = c->head_dim ? c->head_dim : c->width / c->decoder_heads;
    FV_RETURN_IF(!fv_rotary_is_sound(&whole), m->ctx, FV_ERR_ARGUMENT,
                 "transformer: rotary positions of width %lld, base %g, scaling %d, factor %g, "
                 "original length %g, attention factor %g",
                 (long long)whole.width, r->base, (int)r->scaling,
                 r->llama3_factor > 0 ? r->llama3_factor : r->factor, r->original,
                 r->attention_factor);
    if (r->scaling != FV_ROTARY_SCALING_LONGROPE) return FV_OK;
    m->factor_count = (size_t)(whole.width / 2);
    m->factors = fv_mem_alloc(&m->ctx->mem, 2 * m->factor_count * sizeof *m->factors);
    FV_RETURN_IF(!m->factors, m->ctx, FV_ERR_MEMORY, "no memory for a model");
    memcpy(m->factors, r->short_factors, m->factor_count * sizeof *m->factors);
    memcpy(m->factors + m->factor_count, r->long_factors, m->factor_count * sizeof *m->factors);
    r->short_factors = m->factors;
    r->long_factors = m->factors + m->factor_count;
    return FV_OK;
}

static fv_status build(fv_transformer *m)
{
    FV_TRY(fv_position_tables_create(m));
    FV_TRY(set_rotary(m));
    FV_TRY(create_stack(m, true));
    FV_TRY(create_stack(m, false));
    return create_heads(m);
}

fv_status fv_transformer_create(fv_params *params, const fv_transformer_config *cfg,
                                fv_transformer **out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_transformer_config own;
    FV_TRY(fv_transformer_config_read(ctx, cfg, &own));
    if (ctx->error != FV_OK) return ctx->error;
    complete(&own);
    FV_TRY(check_sizes(ctx, &own));
    FV_TRY(check_numbers(ctx, &own));
    FV_TRY(check_family(ctx, &own));
    FV_TRY(check_parts(ctx, &own));
    fv_transformer *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    m->ctx = ctx;
    m->params = params;
    m->cfg = own;
    const fv_status status = build(m);
    if (status == FV_OK)
        *out = m;
    else
        fv_transformer_destroy(&m);
    return status;
}

static void free_blocks(fv_ctx *ctx, fv_side *s)
{
    const size_t n = (size_t)s->layers;
    if (s->blocks) fv_mem_free(&ctx->mem, s->blocks, n * sizeof *s->blocks);
    if (s->calls) fv_mem_free(&ctx->mem, s->calls, 2 * n * sizeof *s->calls);
}

void fv_transformer_destroy(fv_transformer **model)
{
    fv_transformer *m = *model;
    if (!m) return;
    fv_position_tables_destroy(m);
    free_blocks(m->ctx, &m->encoder);
    free_blocks(m->ctx, &m->decoder);
    if (m->factors) fv_mem_free(&m->ctx->mem, m->factors, 2 * m->factor_count * sizeof *m->factors);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
    *model = NULL;
}

const fv_transformer_config *fv_transformer_settings(const fv_transformer *model)
{
    return &model->cfg;
}

fv_params *fv_transformer_params(const fv_transformer *model) { return model->params; }

int64_t fv_transformer_context(const fv_transformer *model) { return fv_context_of(&model->cfg); }
