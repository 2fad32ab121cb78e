/* Parameters of the recurrent encoder-decoders, and what may be combined with what. */
#include "models/seq2seq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/score.h"
#include "base/config.h"
#include "nn/weights.h"

void fv_seq2seq_config_init(fv_seq2seq_config *cfg, size_t struct_size)
{
    const fv_seq2seq_config defaults = {
        .struct_size = struct_size,
        .bos = 0,
        .eos = 1,
        .embedding = 128,
        .cell = FV_CELL_GRU,
        .layers = 1,
        .encoder_hidden = 128,
        .bidirectional = true,
        .decoder = FV_DECODER_SEARCH,
        .hidden = 256,
        .score = FV_ATTENTION_ADDITIVE,
        .normaliser = FV_ATTENTION_SOFTMAX,
        .half_width = 10,
        .attention_width = 128,
        .most_source = 128,
        .hard_reward = 1,
        .hard_entropy = 0.01,
        .hard_decay = 0.9,
        .input_feeding = true,
        .readout = FV_READOUT_TANH,
        .readout_width = 128,
    };
    fv_config_fill(cfg, struct_size, &defaults, sizeof defaults);
}

/* ---- checks ----------------------------------------------------------------------- */

static fv_status check_sizes(fv_ctx *ctx, const fv_seq2seq_config *c)
{
    const int64_t most = 1 << 24;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"source_tokens", c->source_tokens},
                 {"target_tokens", c->target_tokens},
                 {"embedding", c->embedding},
                 {"encoder_hidden", c->encoder_hidden},
                 {"hidden", c->hidden},
                 {"attention_width", c->attention_width},
                 {"most_source", c->most_source},
                 {"readout_width", c->readout_width}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        FV_RETURN_IF(sizes[i].value < 1 || sizes[i].value > most, ctx, FV_ERR_ARGUMENT,
                     "seq2seq: %s is %lld, not 1 to %lld", sizes[i].name, (long long)sizes[i].value,
                     (long long)most);
    FV_RETURN_IF(c->bos < 0 || c->bos >= c->target_tokens || c->eos < 0 ||
                     c->eos >= c->target_tokens,
                 ctx, FV_ERR_ARGUMENT, "seq2seq: start and end must be target tokens");
    FV_RETURN_IF(c->layers < 1 || c->layers > FV_RNN_LAYERS, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: 1 to %d layers", (int)FV_RNN_LAYERS);
    FV_RETURN_IF(!(c->dropout >= 0 && c->dropout < 1) || !(c->smoothing >= 0 && c->smoothing < 1),
                 ctx, FV_ERR_ARGUMENT, "seq2seq: dropout and smoothing are 0 to below 1");
    return FV_OK;
}

static fv_status check_kinds(fv_ctx *ctx, const fv_seq2seq_config *c)
{
    FV_RETURN_IF(c->cell < FV_CELL_RNN || c->cell >= FV_CELL_COUNT ||
                     c->decoder < FV_DECODER_FIXED || c->decoder >= FV_DECODER_COUNT ||
                     c->readout < FV_READOUT_TANH || c->readout >= FV_READOUT_COUNT,
                 ctx, FV_ERR_ARGUMENT, "seq2seq: no such cell, decoder or readout");
    const fv_score_kind *score = fv_score_find(c->score);
    FV_RETURN_IF(!score || score->has_function, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: score %d does not exist, or needs a function", (int)c->score);
    FV_RETURN_IF(
        c->normaliser != FV_ATTENTION_SOFTMAX && c->normaliser != FV_ATTENTION_LOCAL_M &&
            c->normaliser != FV_ATTENTION_LOCAL_P && c->normaliser != FV_ATTENTION_HARD_SAMPLE,
        ctx, FV_ERR_ARGUMENT, "seq2seq: attention is softmax, local-m, local-p or hard by drawing");
    FV_RETURN_IF(!(c->hard_reward >= 0 && c->hard_entropy >= 0), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: hard attention's weights are 0 or more");
    FV_RETURN_IF(!(c->hard_decay >= 0 && c->hard_decay < 1), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: hard attention's decay is 0 to below 1");
    FV_RETURN_IF(c->decoder != FV_DECODER_FIXED && fv_score_needs_equal_widths(score) &&
                     fv_seq2seq_memory_width(c) != c->hidden,
                 ctx, FV_ERR_ARGUMENT,
                 "seq2seq: the %s score of decoder states (width %lld) and encoder states (width "
                 "%lld) needs equal widths",
                 score->name, (long long)c->hidden, (long long)fv_seq2seq_memory_width(c));
    FV_RETURN_IF(c->tied && c->readout_width != c->embedding, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: tied embeddings need readout_width %lld to equal embedding %lld",
                 (long long)c->readout_width, (long long)c->embedding);
    return FV_OK;
}

/* ---- parameters ------------------------------------------------------------------- */

static fv_tensor *matrix(fv_params *params, const char *name, int64_t out, int64_t in)
{
    return fv_nn_weight(params, "", name, 2, (int64_t[]){out, in}, fv_init_xavier(in, out));
}

static fv_tensor *zeros(fv_params *params, const char *name, int64_t n)
{
    return fv_nn_weight(params, "", name, 1, &n, fv_init_constant(0));
}

static void make_embeddings(fv_params *params, fv_seq2seq *m)
{
    const fv_seq2seq_config *c = &m->cfg;
    const fv_init start = fv_init_normal(1.0 / sqrt((double)c->embedding));
    m->source_embedding = fv_nn_weight(params, "encoder", "embedding.weight", 2,
                                       (int64_t[]){c->source_tokens, c->embedding}, start);
    m->target_embedding = fv_nn_weight(params, "decoder", "embedding.weight", 2,
                                       (int64_t[]){c->target_tokens, c->embedding}, start);
}

static fv_status make_networks(fv_params *params, fv_seq2seq *m)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = c->cell;
    rnn.layers = c->layers;
    rnn.input = c->embedding;
    rnn.dropout = c->dropout;
    rnn.hidden = c->encoder_hidden;
    rnn.bidirectional = c->bidirectional;
    FV_FORWARD(fv_rnn_create(params, "encoder.rnn", &rnn, &m->encoder));
    rnn.hidden = c->hidden;
    rnn.bidirectional = false;
    FV_FORWARD(fv_rnn_create(params, "decoder.rnn", &rnn, &m->decoder));
    for (int l = 0; l < c->layers; l++) {
        char name[64];
        for (int part = 0; part < (c->cell == FV_CELL_LSTM ? 2 : 1); part++) {
            fv_tensor **to = part ? m->first_c[l] : m->first_h[l];
            snprintf(name, sizeof name, "decoder.first_%s.%d.weight", part ? "c" : "h", l);
            to[0] = matrix(params, name, c->hidden, fv_seq2seq_memory_width(c));
            snprintf(name, sizeof name, "decoder.first_%s.%d.bias", part ? "c" : "h", l);
            to[1] = zeros(params, name, c->hidden);
        }
    }
    return FV_OK;
}

static int64_t score_size(const fv_seq2seq_config *c, fv_score_size size)
{
    switch (size) {
    case FV_SCORE_SIZE_QUERY:
        return c->hidden;
    case FV_SCORE_SIZE_KEY:
        return fv_seq2seq_memory_width(c);
    case FV_SCORE_SIZE_KEYS:
        return c->most_source;
    default:
        return c->attention_width;
    }
}

/* A vector, a matrix, or nothing where the score has no such parameter. */
static fv_tensor *score_param(fv_params *params, const fv_seq2seq_config *c, const char *name,
                              const fv_score_param *p)
{
    const int64_t rows = score_size(c, p->axis[0]);
    switch (fv_score_rank(p)) {
    case 1:
        return fv_nn_weight(params, "attention", "score", 1, &rows,
                            fv_init_uniform(1.0 / sqrt((double)rows)));
    case 2:
        return matrix(params, name, rows, score_size(c, p->axis[1]));
    default:
        return NULL;
    }
}

static void make_attention(fv_params *params, fv_seq2seq *m)
{
    const fv_seq2seq_config *c = &m->cfg;
    const fv_score_kind *score = fv_score_find(c->score);
    const int64_t a = c->attention_width;
    m->w_q = score_param(params, c, "attention.query.weight", &score->w_q);
    m->w_k = score_param(params, c, "attention.key.weight", &score->w_k);
    m->w = score_param(params, c, "attention.weight", &score->w);
    if (c->normaliser == FV_ATTENTION_LOCAL_P) {
        m->w_p = matrix(params, "attention.position.weight", a, c->hidden);
        m->v_p = fv_nn_weight(params, "attention", "position.score", 1, &a,
                              fv_init_uniform(1.0 / sqrt((double)a)));
    }
}

static void make_output(fv_params *params, fv_seq2seq *m)
{
    const fv_seq2seq_config *c = &m->cfg;
    const int64_t memory = fv_seq2seq_memory_width(c);
    const int64_t wide = c->readout_width * (c->readout == FV_READOUT_MAXOUT ? 2 : 1);
    static const int gates[FV_CELL_COUNT] = {1, 3, 4};
    const bool luong = c->decoder == FV_DECODER_LUONG;
    if (!luong || c->input_feeding)
        m->feed = matrix(params, "decoder.feed.weight", gates[c->cell] * c->hidden,
                         luong ? c->readout_width : memory);
    m->read_state = matrix(params, "readout.state.weight", wide, c->hidden);
    m->read_context = matrix(params, "readout.context.weight", wide, memory);
    if (!luong) m->read_token = matrix(params, "readout.token.weight", wide, c->embedding);
    m->read_bias = zeros(params, "readout.bias", wide);
    m->output = c->tied ? m->target_embedding
                        : matrix(params, "output.weight", c->target_tokens, c->readout_width);
    m->output_bias = zeros(params, "output.bias", c->target_tokens);
}

fv_status fv_seq2seq_create(fv_params *params, const fv_seq2seq_config *cfg, fv_seq2seq **out)
{
    fv_ctx *ctx = fv_params_context(params);
    FV_RETURN_IF(cfg->struct_size != sizeof *cfg, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: the config was not initialised");
    FV_FORWARD(check_sizes(ctx, cfg));
    FV_FORWARD(check_kinds(ctx, cfg));
    fv_seq2seq *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    m->ctx = ctx;
    m->cfg = *cfg;
    m->baseline = fv_mem_zalloc(&ctx->mem, sizeof *m->baseline);
    if (!m->baseline) {
        fv_seq2seq_destroy(&m);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for a model");
    }
    make_embeddings(params, m);
    fv_status status = make_networks(params, m);
    if (status == FV_OK && cfg->decoder != FV_DECODER_FIXED) make_attention(params, m);
    if (status == FV_OK) make_output(params, m);
    if (status == FV_OK) status = ctx->error;
    if (status == FV_OK)
        *out = m;
    else
        fv_seq2seq_destroy(&m);
    return status;
}

void fv_seq2seq_destroy(fv_seq2seq **model)
{
    fv_seq2seq *m = *model;
    if (!m) return;
    fv_seq2seq_search_free(m);
    fv_seq2seq_ready_free(m);
    fv_mem_free(&m->ctx->mem, m->baseline, sizeof *m->baseline);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
    *model = NULL;
}

const fv_seq2seq_config *fv_seq2seq_settings(const fv_seq2seq *model) { return &model->cfg; }
