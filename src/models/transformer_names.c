/* Parameter names of each family, as in its files. */
#include "models/transformer.h"

#define OUR_HEADS(part)                                                                            \
    {                                                                                              \
        .q = part ".q_proj", .k = part ".k_proj", .v = part ".v_proj", .qkv = part ".qkv_proj",    \
        .out = part ".out_proj", .q_norm = part ".q_norm", .k_norm = part ".k_norm",               \
        .relative_keys = part ".relative.keys"                                                     \
    }
#define OUR_BLOCK                                                                                  \
    {                                                                                              \
        .self = OUR_HEADS("self"), .cross = OUR_HEADS("cross"),                                    \
        .ff = {"ff.up", "ff.gate", "ff.down"}, .self_norm = "self_norm",                           \
        .cross_norm = "cross_norm", .ff_norm = "ff_norm"                                           \
    }
#define OUR_STACK(side)                                                                            \
    {                                                                                              \
        .embedding = side ".embedding", .positions = side ".positions", .types = side ".types",    \
        .embedding_norm = side ".embedding_norm", .layer = side ".", .block = OUR_BLOCK,           \
        .gated = OUR_BLOCK, .relative = side ".relative", .final_norm = side ".norm"               \
    }

#define MARIAN_HEADS(part)                                                                         \
    {                                                                                              \
        .q = part ".q_proj", .k = part ".k_proj", .v = part ".v_proj", .out = part ".out_proj"     \
    }
/* `norm`: of the embedding, or NULL. */
#define MARIAN_STACK(side, norm)                                                                   \
    {                                                                                              \
        .embedding = "model." side ".embed_tokens", .positions = "model." side ".embed_positions", \
        .embedding_norm = norm, .layer = "model." side ".layers.", .block = {                      \
            .self = MARIAN_HEADS("self_attn"),                                                     \
            .cross = MARIAN_HEADS("encoder_attn"),                                                 \
            .ff = {"fc1", NULL, "fc2"},                                                            \
            .self_norm = "self_attn_layer_norm",                                                   \
            .cross_norm = "encoder_attn_layer_norm",                                               \
            .ff_norm = "final_layer_norm"                                                          \
        }                                                                                          \
    }

#define BERT_STACK(model)                                                                          \
    {                                                                                              \
        .embedding = model ".embeddings.word_embeddings",                                          \
        .positions = model ".embeddings.position_embeddings",                                      \
        .types = model ".embeddings.token_type_embeddings",                                        \
        .embedding_norm = model ".embeddings.LayerNorm", .layer = model ".encoder.layer.",         \
        .block = {                                                                                 \
            .self = {.q = "attention.self.query",                                                  \
                     .k = "attention.self.key",                                                    \
                     .v = "attention.self.value",                                                  \
                     .out = "attention.output.dense",                                              \
                     .relative_keys = "attention.self.distance_embedding.weight"},                 \
            .ff = {"intermediate.dense", NULL, "output.dense"},                                    \
            .self_norm = "attention.output.LayerNorm",                                             \
            .ff_norm = "output.LayerNorm"                                                          \
        }                                                                                          \
    }
/* RoBERTa and XLM-RoBERTa differ in model_type and class names only. */
#define ROBERTA(type, class)                                                                       \
    {                                                                                              \
        .model_type = type, .class_name = class, .prefix = "roberta.",                             \
        .encoder = BERT_STACK("roberta"), .logits = "lm_head.decoder",                             \
        .logits_bias = "lm_head.bias", .untied_bias = "lm_head.decoder.bias",                      \
        .words_dense = "lm_head.dense", .words_norm = "lm_head.layer_norm",                        \
        .pooler = "roberta.pooler.dense", .spans = "qa_outputs", .labels = "classifier",           \
        .labels_dense = "classifier.dense", .labels_out = "classifier.out_proj"                    \
    }

#define T5_HEADS(part)                                                                             \
    {                                                                                              \
        .q = part ".q", .k = part ".k", .v = part ".v", .out = part ".o"                           \
    }
/* `ff_at` is the number of the feed-forward sublayer. */
#define T5_BLOCK(ff_at, ...)                                                                       \
    {                                                                                              \
        .self = T5_HEADS("layer.0.SelfAttention"), .cross = T5_HEADS("layer.1.EncDecAttention"),   \
        .ff = {__VA_ARGS__, "layer." ff_at ".DenseReluDense.wo"},                                  \
        .self_norm = "layer.0.layer_norm", .cross_norm = "layer.1.layer_norm",                     \
        .ff_norm = "layer." ff_at ".layer_norm"                                                    \
    }
#define T5_STACK(side, ff_at)                                                                      \
    {                                                                                              \
        .embedding = side ".embed_tokens", .layer = side ".block.",                                \
        .block = T5_BLOCK(ff_at, "layer." ff_at ".DenseReluDense.wi", NULL),                       \
        .gated = T5_BLOCK(ff_at, "layer." ff_at ".DenseReluDense.wi_1",                            \
                          "layer." ff_at ".DenseReluDense.wi_0"),                                  \
        .relative = side ".block.0.layer.0.SelfAttention.relative_attention_bias",                 \
        .final_norm = side ".final_layer_norm"                                                     \
    }

/* Llama and its relatives; `norm_q` and `norm_k`: of each head, or NULL. */
#define LLAMA(type, class, norm_q, norm_k)                                                         \
    {                                                                                              \
        .model_type = type, .class_name = class, .prefix = "model.",                               \
        .decoder = {.embedding = "model.embed_tokens",                                             \
                    .layer = "model.layers.",                                                      \
                    .gated = {.self = {.q = "self_attn.q_proj",                                    \
                                       .k = "self_attn.k_proj",                                    \
                                       .v = "self_attn.v_proj",                                    \
                                       .out = "self_attn.o_proj",                                  \
                                       .q_norm = norm_q,                                           \
                                       .k_norm = norm_k},                                          \
                              .ff = {"mlp.up_proj", "mlp.gate_proj", "mlp.down_proj"},             \
                              .self_norm = "input_layernorm",                                      \
                              .ff_norm = "post_attention_layernorm"},                              \
                    .final_norm = "model.norm"},                                                   \
        .logits = "lm_head"                                                                        \
    }

static const fv_family_names families[FV_FAMILY_COUNT] = {
    [FV_FAMILY_FOVEA] = {.model_type = "fovea-transformer",
                         .shared = "embedding",
                         .encoder = OUR_STACK("encoder"),
                         .decoder = OUR_STACK("decoder"),
                         .logits = "logits",
                         .logits_bias = "logits.bias",
                         .words_dense = "words.dense",
                         .words_norm = "words.norm",
                         .pooler = "pooler",
                         .next_sentence = "next_sentence",
                         .spans = "spans",
                         .labels = "labels",
                         .labels_dense = "labels.dense",
                         .labels_out = "labels"},
    [FV_FAMILY_GPT2] = {.model_type = "gpt2",
                        .prefix = "transformer.",
                        .decoder = {.embedding = "transformer.wte",
                                    .positions = "transformer.wpe",
                                    .layer = "transformer.h.",
                                    .block = {.self = {.qkv = "attn.c_attn", .out = "attn.c_proj"},
                                              .ff = {"mlp.c_fc", NULL, "mlp.c_proj"},
                                              .self_norm = "ln_1",
                                              .ff_norm = "ln_2"},
                                    .final_norm = "transformer.ln_f"},
                        .logits = "lm_head",
                        .transposed = true,
                        .pad_learns = true},
    [FV_FAMILY_BERT] = {.model_type = "bert",
                        .class_name = "Bert",
                        .prefix = "bert.",
                        .encoder = BERT_STACK("bert"),
                        .logits = "cls.predictions.decoder",
                        .logits_bias = "cls.predictions.bias",
                        .untied_bias = "cls.predictions.decoder.bias",
                        .words_dense = "cls.predictions.transform.dense",
                        .words_norm = "cls.predictions.transform.LayerNorm",
                        .pooler = "bert.pooler.dense",
                        .next_sentence = "cls.seq_relationship",
                        .spans = "qa_outputs",
                        .labels = "classifier"},
    [FV_FAMILY_MARIAN] = {.model_type = "marian",
                          .prefix = "model.",
                          .shared = "model.shared",
                          .encoder = MARIAN_STACK("encoder", NULL),
                          .decoder = MARIAN_STACK("decoder", NULL),
                          .logits = "lm_head",
                          .logits_bias = "final_logits_bias",
                          .logits_bias_row = true},
    [FV_FAMILY_T5] = {.model_type = "t5",
                      .shared = "shared",
                      .pad_learns = true,
                      .encoder = T5_STACK("encoder", "1"),
                      .decoder = T5_STACK("decoder", "2"),
                      .logits = "lm_head"},
    [FV_FAMILY_LLAMA] = LLAMA("llama", "Llama", NULL, NULL),
    [FV_FAMILY_DISTILBERT] = {.model_type = "distilbert",
                              .class_name = "DistilBert",
                              .prefix = "distilbert.",
                              .encoder = {.embedding = "distilbert.embeddings.word_embeddings",
                                          .positions = "distilbert.embeddings.position_embeddings",
                                          .embedding_norm = "distilbert.embeddings.LayerNorm",
                                          .layer = "distilbert.transformer.layer.",
                                          .block = {.self = {.q = "attention.q_lin",
                                                             .k = "attention.k_lin",
                                                             .v = "attention.v_lin",
                                                             .out = "attention.out_lin"},
                                                    .ff = {"ffn.lin1", NULL, "ffn.lin2"},
                                                    .self_norm = "sa_layer_norm",
                                                    .ff_norm = "output_layer_norm"}},
                              .logits = "vocab_projector",
                              .logits_bias = "vocab_projector.bias",
                              .words_dense = "vocab_transform",
                              .words_norm = "vocab_layer_norm",
                              .spans = "qa_outputs",
                              .labels = "classifier",
                              .labels_dense = "pre_classifier",
                              .labels_out = "classifier"},
    [FV_FAMILY_ROBERTA] = ROBERTA("roberta", "Roberta"),
    [FV_FAMILY_XLM_ROBERTA] = ROBERTA("xlm-roberta", "XLMRoberta"),
    [FV_FAMILY_BART] = {.model_type = "bart",
                        .class_name = "Bart",
                        .prefix = "model.",
                        .shared = "model.shared",
                        .encoder = MARIAN_STACK("encoder", "model.encoder.layernorm_embedding"),
                        .decoder = MARIAN_STACK("decoder", "model.decoder.layernorm_embedding"),
                        .logits = "lm_head",
                        .logits_bias = "final_logits_bias",
                        .logits_bias_row = true},
    [FV_FAMILY_MISTRAL] = LLAMA("mistral", "Mistral", NULL, NULL),
    [FV_FAMILY_QWEN2] = LLAMA("qwen2", "Qwen2", NULL, NULL),
    [FV_FAMILY_QWEN3] = LLAMA("qwen3", "Qwen3", "self_attn.q_norm", "self_attn.k_norm"),
};

const fv_family_names *fv_family_names_of(fv_family family)
{
    return (unsigned)family < FV_FAMILY_COUNT ? &families[family] : &families[FV_FAMILY_FOVEA];
}

const char *fv_family_name(fv_family family) { return fv_family_names_of(family)->model_type; }
