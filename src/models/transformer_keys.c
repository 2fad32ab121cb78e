/*
 * A Transformer's settings as recipe keys. Keys left at their default take the family's value, so a
 * recipe that is written back means the same as the one it came from.
 */
#include <math.h>
#include <stddef.h>

#include "models/transformer.h"

#define AT(member) offsetof(fv_transformer_config, member)

/* The value that means "as in the family". */
enum { AS_FAMILY = -1 };
#define WIDE 16777216.0

static const fv_key keys[] = {
    {"transformer.family", FV_KEY_CHOICE, "marian", 0, 0,
     "fovea|gpt2|bert|marian|t5|llama|mistral|qwen2|qwen3",

     "architecture family, as in Hugging Face; keys left at -1 or \"family\" take its value"},
    {"transformer.width", FV_KEY_INT, "-1", -1, WIDE, NULL, "of a token's vector"},
    {"transformer.encoder_layers", FV_KEY_INT, "-1", -1, 1000, NULL, "blocks that read the source"},
    {"transformer.decoder_layers", FV_KEY_INT, "-1", -1, 1000, NULL, "blocks that write"},
    {"transformer.heads", FV_KEY_INT, "-1", -1, 65536, NULL, "of each attention"},
    {"transformer.head_width", FV_KEY_INT, "-1", -1, 65536, NULL,
     "of a head's query, key and value; 0: width / heads, equal to width: wide heads"},
    {"transformer.kv_heads", FV_KEY_INT, "-1", -1, 65536, NULL, "keys and values in groups"},
    {"transformer.hidden", FV_KEY_INT, "-1", -1, WIDE, NULL, "units of the feed-forward layers"},
    {"transformer.length", FV_KEY_INT, "-1", -1, WIDE, NULL, "longest sequence"},
    {"transformer.positions", FV_KEY_CHOICE, "family", 0, 0,
     "family|none|learned|sinusoid|rotary|relative|relative_key|relative_key_query",
     "how a token's place is known; family fovea can have all of them"},
    {"transformer.act", FV_KEY_CHOICE, "family", 0, 0, "family|relu|gelu|gelu_tanh|silu|quick_gelu",
     "of the feed-forward layers"},
    {"transformer.order", FV_KEY_CHOICE, "family", 0, 0, "family|pre|post",
     "norms before each sublayer, or after the residual sum"},
    {"transformer.dropout", FV_KEY_REAL, "-1", -1, 0.99, NULL, "of embeddings and results"},
    {"transformer.attention_dropout", FV_KEY_REAL, "-1", -1, 0.99, NULL, "of the weights"},
    {"transformer.hidden_dropout", FV_KEY_REAL, "-1", -1, 0.99, NULL, "of the hidden units"},
    {"transformer.init_std", FV_KEY_REAL, "-1", -1, 10, NULL,
     "standard deviation of initial weights; 0: Xavier's rule"},
    {"transformer.smoothing", FV_KEY_REAL, "-1", -1, 0.99, NULL,
     "label smoothing of the training loss"},
};

static const struct {
    const char *name;
    size_t at;
} sizes[] = {{"transformer.width", AT(width)},
             {"transformer.encoder_layers", AT(encoder_layers)},
             {"transformer.decoder_layers", AT(decoder_layers)},
             {"transformer.heads", AT(heads)},
             {"transformer.head_width", AT(head_dim)},
             {"transformer.kv_heads", AT(kv_heads)},
             {"transformer.hidden", AT(hidden)},
             {"transformer.length", AT(max_positions)}},
  rates[] = {{"transformer.dropout", AT(dropout)},
             {"transformer.attention_dropout", AT(attention_dropout)},
             {"transformer.hidden_dropout", AT(hidden_dropout)},
             {"transformer.init_std", AT(init_std)},
             {"transformer.smoothing", AT(smoothing)}};

fv_key_table fv_transformer_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

void fv_transformer_config_from(const fv_recipe *recipe, fv_transformer_config *cfg)
{
    static const fv_act acts[] = {FV_ACT_NONE,      FV_ACT_RELU, FV_ACT_GELU,
                                  FV_ACT_GELU_TANH, FV_ACT_SILU, FV_ACT_QUICK_GELU};
    static const fv_family families[] = {FV_FAMILY_FOVEA,   FV_FAMILY_GPT2,  FV_FAMILY_BERT,
                                         FV_FAMILY_MARIAN,  FV_FAMILY_T5,    FV_FAMILY_LLAMA,
                                         FV_FAMILY_MISTRAL, FV_FAMILY_QWEN2, FV_FAMILY_QWEN3};
    fv_transformer_config_init(cfg, sizeof *cfg,
                               families[fv_recipe_choice(recipe, "transformer.family")]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int64_t value = fv_recipe_int(recipe, sizes[i].name);
        if (value != AS_FAMILY) *(int64_t *)(void *)((char *)cfg + sizes[i].at) = value;
    }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const double value = fv_recipe_real(recipe, rates[i].name);
        if (value >= 0) *(double *)(void *)((char *)cfg + rates[i].at) = value;
    }
    const int positions = fv_recipe_choice(recipe, "transformer.positions");
    if (positions > 0) cfg->positions = (fv_position_kind)(positions - 1);
    if (cfg->positions == FV_POSITION_RELATIVE && cfg->relative_buckets == 0) { /* as in T5 */
        cfg->relative_buckets = 32;
        cfg->relative_max_distance = 128;
    }
    const int act = fv_recipe_choice(recipe, "transformer.act"),
              order = fv_recipe_choice(recipe, "transformer.order");
    if (cfg->logits_scale != 1) cfg->logits_scale = 1 / sqrt((double)cfg->width); /* T5's rule */
    if (act > 0) cfg->act = acts[act];
    if (order > 0) cfg->post_norm = order == 2;
}
