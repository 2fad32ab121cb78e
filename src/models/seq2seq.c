/* Creates encoder-decoders from parts, and checks which settings go together. */
#include "models/seq2seq.h"

#include "attention/score.h"
#include "base/config.h"

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
        .grid_stages = 4,
        .grid_halvings = 2,
        .grid_channels = 32,
        .grid_coordinates = true,
        .pyramid_layers = 3,
        .conv_layers = 4,
        .conv_window = 3,
        .conv_gated = true,
        .self_layers = 2,
        .self_heads = 4,
        .positions = FV_SEQ2SEQ_POSITIONS_SINUSOID,
        .positions_how = FV_POSITIONS_ADD,
        .most_positions = 256,
    };
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
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
                 ctx, FV_ERR_ARGUMENT, "seq2seq: BOS and EOS must be target tokens");
    FV_RETURN_IF(c->layers < 1 || c->layers > FV_RNN_LAYERS, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: 1 to %d layers", (int)FV_RNN_LAYERS);
    FV_RETURN_IF(!(c->dropout >= 0 && c->dropout < 1) || !(c->smoothing >= 0 && c->smoothing < 1),
                 ctx, FV_ERR_ARGUMENT, "seq2seq: dropout and smoothing are 0 to below 1");
    return FV_OK;
}

static fv_status check_kinds(fv_ctx *ctx, const fv_seq2seq_config *c)
{
    FV_RETURN_IF(c->cell < FV_CELL_RNN || c->cell >= FV_CELL_COUNT ||
                     !fv_encoder_part_at((int)c->encoder) || !fv_decoder_part_at((int)c->decoder) ||
                     c->readout < FV_READOUT_TANH || c->readout >= FV_READOUT_COUNT,
                 ctx, FV_ERR_ARGUMENT, "seq2seq: no such cell, encoder, decoder or readout");
    const fv_score_kind *score = fv_score_find(c->score);
    FV_RETURN_IF(!score || score->has_function, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: score %d does not exist, or needs a function", (int)c->score);
    FV_RETURN_IF(c->normaliser != FV_ATTENTION_SOFTMAX && c->normaliser != FV_ATTENTION_LOCAL_M &&
                     c->normaliser != FV_ATTENTION_LOCAL_P &&
                     c->normaliser != FV_ATTENTION_HARD_SAMPLE,
                 ctx, FV_ERR_ARGUMENT,
                 "seq2seq: attention is softmax, local-m, local-p or hard with sampling");
    FV_RETURN_IF(!(c->hard_reward >= 0 && c->hard_entropy >= 0), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: hard attention's weights are 0 or more");
    FV_RETURN_IF(!(c->hard_decay >= 0 && c->hard_decay < 1), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: hard attention's decay is 0 to below 1");
    FV_RETURN_IF(!(c->coverage >= 0 && c->coverage <= 1e6), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: coverage is 0 to 1e6");
    FV_RETURN_IF(c->coverage > 0 && (!fv_decoder_part_at((int)c->decoder)->attends ||
                                     c->normaliser == FV_ATTENTION_HARD_SAMPLE),
                 ctx, FV_ERR_ARGUMENT,
                 "seq2seq: coverage needs a decoder with soft attention, whose weights have "
                 "gradients");
    const int64_t memory = fv_encoder_part_at((int)c->encoder)->width(c);
    FV_RETURN_IF(fv_decoder_part_at((int)c->decoder)->attends &&
                     fv_score_needs_equal_widths(score) && memory != c->hidden,
                 ctx, FV_ERR_ARGUMENT,
                 "seq2seq: the %s score of decoder states (width %lld) and encoder states (width "
                 "%lld) needs equal widths",
                 score->name, (long long)c->hidden, (long long)memory);
    FV_RETURN_IF(c->tied && c->readout_width != c->embedding, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: tied embeddings need readout_width %lld to equal embedding %lld",
                 (long long)c->readout_width, (long long)c->embedding);
    return FV_OK;
}

/* ---- creation --------------------------------------------------------------------- */

static fv_status create_parts(fv_params *params, fv_seq2seq *m)
{
    const fv_seq2seq_config *c = &m->cfg;
    FV_TRY(m->x->create_self_and_embedding(params, c, &m->encoder));
    FV_TRY(m->y->create_self_and_embedding(params, c, &m->decoder));
    FV_TRY(m->x->create(params, c, m->encoder));
    return m->y->create(params, c, m->x->width(c), m->decoder);
}

fv_status fv_seq2seq_create(fv_params *params, const fv_seq2seq_config *given, fv_seq2seq **out)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_seq2seq_config full, *cfg = &full;
    fv_seq2seq_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: the config is not initialised");
    FV_TRY(check_sizes(ctx, cfg));
    FV_TRY(check_kinds(ctx, cfg));
    fv_seq2seq *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    m->ctx = ctx;
    m->cfg = *cfg;
    m->x = fv_encoder_part_at((int)cfg->encoder);
    m->y = fv_decoder_part_at((int)cfg->decoder);
    m->baseline = fv_mem_zalloc(&ctx->mem, sizeof *m->baseline);
    if (!m->baseline) {
        fv_seq2seq_destroy(&m);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for a model");
    }
    fv_status status = create_parts(params, m);
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
    if (m->encoder) m->x->destroy(m->ctx, m->encoder);
    if (m->decoder) m->y->destroy(m->ctx, m->decoder);
    fv_mem_free(&m->ctx->mem, m->baseline, sizeof *m->baseline);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
    *model = NULL;
}

const fv_seq2seq_config *fv_seq2seq_settings(const fv_seq2seq *model) { return &model->cfg; }
