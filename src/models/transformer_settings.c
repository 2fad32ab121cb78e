/* The settings of a typical model of each family. */
#include <math.h>

#include "base/config.h"
#include "models/transformer.h"

/* The paper's base model. */
static const fv_transformer_config base = {.family = FV_FAMILY_FOVEA,
                                           .width = 512,
                                           .encoder_layers = 6,
                                           .decoder_layers = 6,
                                           .heads = 8,
                                           .hidden = 2048,
                                           .act = FV_ACT_RELU,
                                           .norm = FV_NORM_LAYER,
                                           .eps = 1e-5,
                                           .post_norm = true,
                                           .positions = FV_POSITION_SINUSOID,
                                           .max_positions = 512,
                                           .sinusoid = FV_SINUSOID_INTERLEAVED,
                                           .scale_embedding = true,
                                           .bias = true,
                                           .attention_bias = true,
                                           .ff_bias = true,
                                           .attention_out_bias = true,
                                           .tied = true,
                                           .logits_scale = 1,
                                           .dropout = 0.1,
                                           .smoothing = 0.1,
                                           .bos = -1,
                                           .eos = -1,
                                           .pad = -1};

static void settings_gpt2(fv_transformer_config *c)
{
    c->width = 768;
    c->encoder_layers = 0;
    c->decoder_layers = 12;
    c->heads = 12;
    c->hidden = 3072;
    c->act = FV_ACT_GELU_TANH;
    c->post_norm = false;
    c->final_norm = true;
    c->positions = FV_POSITION_LEARNED;
    c->max_positions = 1024;
    c->scale_embedding = false;
    c->attention_dropout = 0.1;
    c->init_std = 0.02;
    c->smoothing = 0;
}

static void settings_bert(fv_transformer_config *c)
{
    c->width = 768;
    c->encoder_layers = 12;
    c->decoder_layers = 0;
    c->heads = 12;
    c->hidden = 3072;
    c->act = FV_ACT_GELU;
    c->eps = 1e-12;
    c->embedding_norm = true;
    c->positions = FV_POSITION_LEARNED;
    c->scale_embedding = false;
    c->types = 2;
    c->mlm_head = true;
    c->logits_bias = true;
    c->attention_dropout = 0.1;
    c->label_dropout = 0.1;
    c->init_std = 0.02;
    c->smoothing = 0;
    c->pad = 0;
}

static void settings_distilbert(fv_transformer_config *c)
{
    settings_bert(c);
    c->encoder_layers = 6;
    c->types = 0;
    c->label_act = FV_ACT_RELU;
    c->label_dropout = 0.2;
}

static void settings_roberta(fv_transformer_config *c)
{
    settings_bert(c);
    c->types = 1;
    c->eps = 1e-5;
    c->position_offset = 2;
    c->positions_skip_pad = true;
    c->mlm_act = FV_ACT_GELU;
    c->label_act = FV_ACT_TANH;
    c->bos = 0;
    c->pad = 1;
    c->eos = 2;
}

static void settings_bart(fv_transformer_config *c)
{
    c->width = 768;
    c->heads = 12;
    c->hidden = 3072;
    c->act = FV_ACT_GELU;
    c->embedding_norm = true;
    c->positions = FV_POSITION_LEARNED;
    c->position_offset = 2;
    c->max_positions = 1024;
    c->scale_embedding = false;
    c->logits_bias = true;
    c->init_std = 0.02;
    c->bos = c->eos = 2;
    c->pad = 1;
}

static void settings_marian(fv_transformer_config *c)
{
    c->act = FV_ACT_SILU;
    c->sinusoid = FV_SINUSOID_HALVES;
    c->logits_bias = true;
    c->init_std = 0.02;
}

static void settings_t5(fv_transformer_config *c)
{
    c->head_dim = 64;
    c->norm = FV_NORM_RMS;
    c->eps = 1e-6;
    c->post_norm = false;
    c->final_norm = true;
    c->positions = FV_POSITION_RELATIVE;
    c->relative_buckets = 32;
    c->relative_max_distance = 128;
    c->scale_embedding = false;
    c->bias = c->attention_bias = c->ff_bias = false;
    c->unscaled = true;
    c->logits_scale = 1 / sqrt(512);
    c->attention_dropout = c->hidden_dropout = 0.1;
    c->smoothing = 0;
    c->bos = c->pad = 0;
    c->eos = 1;
}

static void settings_llama(fv_transformer_config *c)
{
    c->width = 4096;
    c->encoder_layers = 0;
    c->decoder_layers = 32;
    c->heads = 32;
    c->hidden = 11008;
    c->act = FV_ACT_SILU;
    c->gated = true;
    c->norm = FV_NORM_RMS;
    c->eps = 1e-6;
    c->post_norm = false;
    c->final_norm = true;
    c->positions = FV_POSITION_ROTARY;
    c->max_positions = 2048;
    c->scale_embedding = false;
    c->attention_bias = c->ff_bias = false;
    c->tied = false;
    c->dropout = 0;
    c->init_std = 0.02;
    c->smoothing = 0;
    c->bos = 1;
    c->eos = 2;
}

static void settings_mistral(fv_transformer_config *c)
{
    settings_llama(c);
    c->kv_heads = 8;
    c->hidden = 14336;
    c->max_positions = 131072;
    c->window = 4096;
}

static void settings_qwen2(fv_transformer_config *c)
{
    settings_llama(c);
    c->hidden = 22016;
    c->max_positions = 32768;
    c->attention_bias = true;
    c->attention_out_bias = false;
    c->bos = c->eos = -1;
}

static void settings_qwen3(fv_transformer_config *c)
{
    settings_qwen2(c);
    c->attention_bias = false;
    c->attention_out_bias = true;
    c->qk_norm = true;
}

void fv_transformer_config_init(fv_transformer_config *cfg, size_t struct_size, fv_family family)
{
    static void (*const settings[FV_FAMILY_COUNT])(fv_transformer_config *) = {
        [FV_FAMILY_GPT2] = settings_gpt2,       [FV_FAMILY_BERT] = settings_bert,
        [FV_FAMILY_MARIAN] = settings_marian,   [FV_FAMILY_T5] = settings_t5,
        [FV_FAMILY_LLAMA] = settings_llama,     [FV_FAMILY_DISTILBERT] = settings_distilbert,
        [FV_FAMILY_ROBERTA] = settings_roberta, [FV_FAMILY_XLM_ROBERTA] = settings_roberta,
        [FV_FAMILY_BART] = settings_bart,       [FV_FAMILY_MISTRAL] = settings_mistral,
        [FV_FAMILY_QWEN2] = settings_qwen2,     [FV_FAMILY_QWEN3] = settings_qwen3};
    fv_transformer_config made = base;
    made.struct_size = struct_size;
    made.family = family;
    fv_rotary_config_init(&made.rotary, sizeof made.rotary, 0);
    if ((unsigned)family < FV_FAMILY_COUNT && settings[family]) settings[family](&made);
    fv_config_set_defaults(cfg, struct_size, &made, sizeof made);
}

fv_status fv_transformer_config_read(fv_ctx *ctx, const fv_transformer_config *given,
                                     fv_transformer_config *full)
{
    fv_transformer_config_init(full, sizeof *full, FV_FAMILY_FOVEA);
    FV_RETURN_IF(!fv_config_copy(full, sizeof *full, given), ctx, FV_ERR_ARGUMENT,
                 "transformer: the config is not initialised");
    /* Settings that an older caller does not have take the value of its family. */
    fv_transformer_config_init(full, sizeof *full, full->family);
    fv_config_copy(full, sizeof *full, given);
    return FV_OK;
}
