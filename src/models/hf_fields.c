/* The tables of settings. */
#include "models/hf_fields.h"

#include <stddef.h>
#include <string.h>

#define AT(member) offsetof(fv_transformer_config, member)
/* clang-format off */
#define NEED(text, what, member) {.key = text, .kind = FV_HF_##what, .required = true, .at = AT(member)}
#define MAY(text, what, member)  {.key = text, .kind = FV_HF_##what, .at = AT(member)}
#define ONE_OF(text, member, list) \
    {.key = text, .kind = FV_HF_CHOICE, .at = AT(member), .choices = list}

static const fv_hf_field gpt2[] = {
    NEED("vocab_size", SIZE, vocabulary),
    NEED("n_embd", SIZE, width),
    NEED("n_layer", SIZE, decoder_layers),
    NEED("n_head", SIZE, heads),
    MAY("n_inner", COUNT, hidden),
    NEED("n_positions", SIZE, max_positions),
    MAY("activation_function", ACT, act),
    MAY("scale_attn_by_inverse_layer_idx", FLAG, scale_by_layer),
    MAY("layer_norm_epsilon", REAL, eps),
    MAY("resid_pdrop", REAL, dropout),
    MAY("attn_pdrop", REAL, attention_dropout),
    MAY("initializer_range", REAL, init_std),
    MAY("tie_word_embeddings", FLAG, tied),
    MAY("bos_token_id", TOKEN, bos),
    MAY("eos_token_id", TOKEN, eos),
    MAY("pad_token_id", TOKEN, pad),
};

#define BERT_FIELDS                                             \
    NEED("vocab_size", SIZE, vocabulary),                       \
    NEED("hidden_size", SIZE, width),                           \
    NEED("num_hidden_layers", SIZE, encoder_layers),            \
    NEED("num_attention_heads", SIZE, heads),                   \
    NEED("intermediate_size", SIZE, hidden),                    \
    MAY("hidden_act", ACT, act),                                \
    MAY("type_vocab_size", SIZE, types),                        \
    MAY("layer_norm_eps", REAL, eps),                           \
    MAY("hidden_dropout_prob", REAL, dropout),                  \
    MAY("attention_probs_dropout_prob", REAL, attention_dropout), \
    MAY("initializer_range", REAL, init_std),                   \
    MAY("tie_word_embeddings", FLAG, tied),                     \
    MAY("bos_token_id", TOKEN, bos),                            \
    MAY("eos_token_id", TOKEN, eos),                            \
    MAY("pad_token_id", TOKEN, pad)

static const fv_hf_field bert[] = {
    BERT_FIELDS,
    NEED("max_position_embeddings", SIZE, max_positions),
};

/* max_position_embeddings is the number of rows of its table: see hf_config_bert.c. */
static const fv_hf_field roberta[] = { BERT_FIELDS };

static const fv_hf_field distilbert[] = {
    NEED("vocab_size", SIZE, vocabulary),
    NEED("dim", SIZE, width),
    NEED("n_layers", SIZE, encoder_layers),
    NEED("n_heads", SIZE, heads),
    NEED("hidden_dim", SIZE, hidden),
    NEED("max_position_embeddings", SIZE, max_positions),
    MAY("activation", ACT, act),
    MAY("dropout", REAL, dropout),
    MAY("attention_dropout", REAL, attention_dropout),
    MAY("seq_classif_dropout", REAL, label_dropout),
    MAY("initializer_range", REAL, init_std),
    MAY("tie_word_embeddings", FLAG, tied),
    MAY("bos_token_id", TOKEN, bos),
    MAY("eos_token_id", TOKEN, eos),
    MAY("pad_token_id", TOKEN, pad),
};

/* Marian and BART. */
static const fv_hf_field marian[] = {
    NEED("vocab_size", SIZE, vocabulary),
    NEED("d_model", SIZE, width),
    NEED("encoder_layers", SIZE, encoder_layers),
    NEED("decoder_layers", SIZE, decoder_layers),
    NEED("encoder_attention_heads", SIZE, heads),
    NEED("decoder_attention_heads", SIZE, decoder_heads),
    NEED("encoder_ffn_dim", SIZE, hidden),
    NEED("decoder_ffn_dim", SIZE, decoder_hidden),
    MAY("max_position_embeddings", SIZE, max_positions),
    MAY("activation_function", ACT, act),
    MAY("scale_embedding", FLAG, scale_embedding),
    MAY("dropout", REAL, dropout),
    MAY("attention_dropout", REAL, attention_dropout),
    MAY("activation_dropout", REAL, hidden_dropout),
    MAY("init_std", REAL, init_std),
    MAY("tie_word_embeddings", FLAG, tied),
    NEED("decoder_start_token_id", TOKEN, bos),
    NEED("eos_token_id", TOKEN, eos),
    MAY("pad_token_id", TOKEN, pad),
};

static const fv_hf_field t5[] = {
    NEED("vocab_size", SIZE, vocabulary),
    NEED("d_model", SIZE, width),
    NEED("d_kv", SIZE, head_dim),
    NEED("d_ff", SIZE, hidden),
    NEED("num_layers", SIZE, encoder_layers),
    NEED("num_heads", SIZE, heads),
    MAY("relative_attention_num_buckets", SIZE, relative_buckets),
    MAY("relative_attention_max_distance", SIZE, relative_max_distance),
    MAY("dropout_rate", REAL, dropout),
    MAY("layer_norm_epsilon", REAL, eps),
    MAY("tie_word_embeddings", FLAG, tied),
    MAY("decoder_start_token_id", TOKEN, bos),
    MAY("eos_token_id", TOKEN, eos),
    MAY("pad_token_id", TOKEN, pad),
};

#define LLAMA_FIELDS                                        \
    NEED("vocab_size", SIZE, vocabulary),                   \
    NEED("hidden_size", SIZE, width),                       \
    NEED("intermediate_size", SIZE, hidden),                \
    NEED("num_hidden_layers", SIZE, decoder_layers),        \
    NEED("num_attention_heads", SIZE, heads),               \
    MAY("num_key_value_heads", COUNT, kv_heads),            \
    MAY("head_dim", COUNT, head_dim),                       \
    NEED("max_position_embeddings", SIZE, max_positions),   \
    MAY("hidden_act", ACT, act),                            \
    MAY("rms_norm_eps", REAL, eps),                         \
    MAY("attention_dropout", REAL, attention_dropout),      \
    MAY("initializer_range", REAL, init_std),               \
    MAY("tie_word_embeddings", FLAG, tied),                 \
    MAY("bos_token_id", TOKEN, bos),                        \
    MAY("eos_token_id", TOKEN, eos),                        \
    MAY("pad_token_id", TOKEN, pad)

static const fv_hf_field llama[] = {
    LLAMA_FIELDS,
    MAY("attention_bias", FLAG, attention_bias),
    MAY("mlp_bias", FLAG, ff_bias),
};

static const fv_hf_field mistral[] = {
    LLAMA_FIELDS,
    MAY("sliding_window", COUNT, window),
};

static const fv_hf_field qwen2[] = { LLAMA_FIELDS };

static const fv_hf_field qwen3[] = {
    LLAMA_FIELDS,
    MAY("attention_bias", FLAG, attention_bias),
};

/* fovea-transformer has a key for every setting. */
#define SAME(what, member) MAY(#member, what, member)
static const fv_hf_field fovea[] = {
    NEED("vocabulary", SIZE, vocabulary),
    SAME(COUNT, target_vocabulary),
    NEED("width", SIZE, width),
    NEED("encoder_layers", COUNT, encoder_layers),
    NEED("decoder_layers", COUNT, decoder_layers),
    NEED("heads", SIZE, heads),
    SAME(COUNT, kv_heads),
    SAME(COUNT, head_dim),
    NEED("hidden", SIZE, hidden),
    SAME(COUNT, decoder_heads),
    SAME(COUNT, decoder_hidden),
    SAME(ACT, act),
    SAME(FLAG, gated),
    ONE_OF("norm", norm, "layer|rms"),
    SAME(REAL, eps),
    MAY("post", FLAG, post_norm),
    SAME(FLAG, final_norm),
    SAME(FLAG, embedding_norm),
    ONE_OF("positions", positions, "none|learned|sinusoid|rotary|relative|relative_key|relative_key_query"),
    MAY("most_positions", SIZE, max_positions),
    SAME(COUNT, position_offset),
    SAME(FLAG, positions_skip_pad),
    ONE_OF("sinusoid", sinusoid, "interleaved|halves"),
    MAY("rotary_width", COUNT, rotary.width),
    MAY("rotary_base", REAL, rotary.base),
    ONE_OF("rotary_pairs", rotary.pairs, "halves|interleaved"),
    MAY("rotary_stretch", REAL, rotary.linear_factor),
    MAY("rotary_factor", REAL, rotary.llama3_factor),
    MAY("rotary_low_freq", REAL, rotary.low_freq),
    MAY("rotary_high_freq", REAL, rotary.high_freq),
    MAY("rotary_original", REAL, rotary.original),
    ONE_OF("rotary_scaling", rotary.scaling, "none|yarn|dynamic|longrope"),
    MAY("rotary_fractional", FLAG, rotary.fractional),
    MAY("rotary_scaling_factor", REAL, rotary.factor),
    MAY("rotary_attention_factor", REAL, rotary.attention_factor),
    SAME(COUNT, window),
    MAY("full_layers", LAYERS, full_layers),
    SAME(COUNT, relative_buckets),
    SAME(COUNT, relative_max_distance),
    SAME(FLAG, scale_embedding),
    SAME(COUNT, types),
    SAME(FLAG, bias),
    SAME(FLAG, attention_bias),
    SAME(FLAG, ff_bias),
    SAME(FLAG, attention_out_bias),
    SAME(FLAG, qk_norm),
    SAME(FLAG, unscaled),
    SAME(FLAG, scale_by_layer),
    SAME(FLAG, tied),
    SAME(FLAG, logits_bias),
    SAME(REAL, logits_scale),
    MAY("words", FLAG, mlm_head),
    SAME(ACT, mlm_act),
    SAME(FLAG, pooler),
    SAME(FLAG, next_sentence),
    SAME(COUNT, labels),
    SAME(FLAG, label_tokens),
    SAME(FLAG, label_dense),
    SAME(FLAG, text_pairs),
    SAME(ACT, label_act),
    SAME(FLAG, spans),
    SAME(REAL, dropout),
    SAME(REAL, attention_dropout),
    SAME(REAL, hidden_dropout),
    SAME(REAL, label_dropout),
    MAY("start_deviation", REAL, init_std),
    SAME(REAL, smoothing),
    MAY("start", TOKEN, bos),
    MAY("end", TOKEN, eos),
    SAME(TOKEN, pad),
};
/* clang-format on */

#define TABLE(list)                                                                                \
    {                                                                                              \
        list, sizeof(list) / sizeof *(list)                                                        \
    }
static const fv_hf_table tables[FV_FAMILY_COUNT] = {
    [FV_FAMILY_FOVEA] = TABLE(fovea),
    [FV_FAMILY_GPT2] = TABLE(gpt2),
    [FV_FAMILY_BERT] = TABLE(bert),
    [FV_FAMILY_MARIAN] = TABLE(marian),
    [FV_FAMILY_T5] = TABLE(t5),
    [FV_FAMILY_LLAMA] = TABLE(llama),
    [FV_FAMILY_DISTILBERT] = TABLE(distilbert),
    [FV_FAMILY_ROBERTA] = TABLE(roberta),
    [FV_FAMILY_XLM_ROBERTA] = TABLE(roberta),
    [FV_FAMILY_BART] = TABLE(marian),
    [FV_FAMILY_MISTRAL] = TABLE(mistral),
    [FV_FAMILY_QWEN2] = TABLE(qwen2),
    [FV_FAMILY_QWEN3] = TABLE(qwen3),
};

fv_hf_table fv_hf_fields(fv_family family) { return tables[family]; }

/* Of several names of an activation the first is written. */
static const struct {
    const char *name;
    fv_act act;
} acts[] = {
    {"relu", FV_ACT_RELU},
    {"gelu", FV_ACT_GELU},
    {"gelu_new", FV_ACT_GELU_TANH},
    {"silu", FV_ACT_SILU},
    {"tanh", FV_ACT_TANH},
    {"sigmoid", FV_ACT_SIGMOID},
    {"swish", FV_ACT_SILU},
    {"gelu_pytorch_tanh", FV_ACT_GELU_TANH},
    {"gelu_python", FV_ACT_GELU},
    {"gelu_fast", FV_ACT_GELU_TANH},
    {"quick_gelu", FV_ACT_QUICK_GELU},
    {"gelu_python_tanh", FV_ACT_GELU_TANH},
    {"linear", FV_ACT_NONE},
};
enum { ACTS = (int)(sizeof acts / sizeof *acts) };

int fv_hf_act(const char *name)
{
    for (int i = 0; i < ACTS; i++)
        if (strcmp(acts[i].name, name) == 0) return (int)acts[i].act;
    return -1;
}

const char *fv_hf_act_name(fv_act act)
{
    for (int i = 0; i < ACTS; i++)
        if (acts[i].act == act) return acts[i].name;
    return "linear";
}
