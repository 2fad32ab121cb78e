/*
 * The settings of an encoder-decoder by name: recipe keys and members of config.json come from one
 * list.
 */
#include <string.h>

#include "attention/score.h"
#include "base/config.h"
#include "io/choices.h"
#include "io/file.h"
#include "io/json.h"
#include "io/json_write.h"
#include "models/seq2seq.h"

#define MODEL_TYPE "fovea-seq2seq"
#define PREFIX     "model."

enum { WIDE = 1 << 24 };

/* X(field, how it is stored, type of key, default, min, max, choices, help). Choices are in the
 * order of their enums. */
#define SETTINGS(X)                                                                                \
    X(embedding, INT64, INT, "128", 1, WIDE, NULL, "width of a token's vector")                    \
    X(cell, CHOICE, CHOICE, "gru", 0, 0, "rnn|gru|lstm", "cell of encoder and decoder")            \
    X(layers, INT, INT, "1", 1, FV_RNN_LAYERS, NULL, "layers of encoder and decoder")              \
    X(encoder_hidden, INT64, INT, "128", 1, WIDE, NULL, "units of one direction of the encoder")   \
    X(bidirectional, BOOL, BOOL, "true", 0, 0, NULL, "read the source both ways")                  \
    X(reverse_source, BOOL, BOOL, "false", 0, 0, NULL, "feed the source from its end")             \
    X(decoder, CHOICE, CHOICE, "search", 0, 0, fv_decoder_choices + 1, "how the source is used")   \
    X(encoder, CHOICE, CHOICE, "rnn", 0, 0, fv_encoder_choices + 1, "how the source is read")      \
    X(hidden, INT64, INT, "256", 1, WIDE, NULL, "units of the decoder")                            \
    X(score, CHOICE, CHOICE, "additive", 0, 0, fv_score_choices + 1,                               \
      "how a query and a key are compared")                                                        \
    X(normaliser, NORMALISER, CHOICE, "softmax", 0, 0, "softmax|local-m|local-p|hard",             \
      "over the whole source, a window, or one position")                                          \
    X(half_width, REAL, REAL, "10", 0.5, 1e6, NULL, "reach of a local window")                     \
    X(attention_width, INT64, INT, "128", 1, WIDE, NULL, "width of additive scores and local-p")   \
    X(most_source, INT64, INT, "128", 1, WIDE, NULL, "positions that the location score knows")    \
    X(hard_reward, REAL, REAL, "1", 0, 1e6, NULL, "hard: weight of the reward")                    \
    X(hard_entropy, REAL, REAL, "0.01", 0, 1e6, NULL, "hard: weight of the choices' entropy")      \
    X(hard_decay, REAL, REAL, "0.9", 0, 0.9999, NULL,                                              \
      "hard: decay of the reward baseline; 0: the mean of each batch")                             \
    X(input_feeding, BOOL, BOOL, "true", 0, 0, NULL, "luong: feed a readout to the next step")     \
    X(readout, CHOICE, CHOICE, "tanh", 0, 0, "tanh|maxout", "activation of the readout")           \
    X(readout_width, INT64, INT, "128", 1, WIDE, NULL, "width of the readout")                     \
    X(tied, BOOL, BOOL, "false", 0, 0, NULL, "one matrix for target embedding and output")         \
    X(dropout, REAL, REAL, "0", 0, 0.99, NULL, "share of values dropped in training")              \
    X(smoothing, REAL, REAL, "0", 0, 0.99, NULL, "label smoothing of the training loss")           \
    X(coverage, REAL, REAL, "0", 0, 1e6, NULL,                                                     \
      "weight of the penalty for positions that are not looked at once")                           \
    X(grid_stages, INT, INT, "4", 1, FV_GRID_STAGES, NULL, "grid: convolutions")                   \
    X(grid_halvings, INT, INT, "2", 0, FV_GRID_STAGES, NULL,                                       \
      "grid: how many of them halve height and width, the first ones")                             \
    X(grid_channels, INT64, INT, "32", 1, FV_GRID_CHANNELS, NULL,                                  \
      "grid: channels of the first convolution; doubled with each further halving")                \
    X(grid_coordinates, BOOL, BOOL, "true", 0, 0, NULL, "grid: cells know their place")            \
    X(grid_rows, BOOL, BOOL, "false", 0, 0, NULL, "grid: the cell runs both ways along each row")  \
    X(grid_neighbours, BOOL, BOOL, "false", 0, 0, NULL,                                            \
      "grid: keys of additive attention see the eight cells around theirs")                        \
    X(pyramid_layers, INT, INT, "3", 1, FV_PYRAMID_LAYERS, NULL,                                   \
      "pyramid: layers, each of which halves the number of states")                                \
    X(conv_layers, INT, INT, "4", 1, FV_CONV_LAYERS, NULL, "conv: layers of the encoder")          \
    X(conv_window, INT64, INT, "3", 1, FV_CONV_WINDOW, NULL,                                       \
      "conv: positions that a result of one layer depends on")                                     \
    X(conv_dilated, BOOL, BOOL, "false", 0, 0, NULL, "conv: dilation 2^i in layer i, else 1")      \
    X(conv_causal, BOOL, BOOL, "false", 0, 0, NULL,                                                \
      "conv: windows end at their position, else they are centred")                                \
    X(conv_gated, BOOL, BOOL, "true", 0, 0, NULL, "conv: gated linear units, else tanh")           \
    X(self_layers, INT, INT, "2", 1, FV_RNN_LAYERS, NULL, "attention: layers of self-attention")   \
    X(self_heads, INT64, INT, "4", 1, 4096, NULL, "attention: heads of each layer")                \
    X(self_head_width, INT64, INT, "0", 0, WIDE, NULL,                                             \
      "attention: width of a query and a key; 0: the layer's width / heads")                       \
    X(self_value_width, INT64, INT, "0", 0, WIDE, NULL,                                            \
      "attention: width of a head's value; 0: as self_head_width")                                 \
    X(positions, CHOICE, CHOICE, "sinusoid", 0, 0, "none|sinusoid|learned|rotary|relative",        \
      "conv and attention: how a token's place is known (conv: the first three)")                  \
    X(positions_how, CHOICE, CHOICE, "add", 0, 0, "add|concat",                                    \
      "conv and attention: sinusoids and learned positions are added to tokens, or beside them")   \
    X(most_positions, INT64, INT, "256", 1, WIDE, NULL, "rows of the table of learned positions")

#define AT(member) offsetof(fv_seq2seq_config, member)

static const fv_key keys[] = {
#define X(member, kept, kind, start, low, high, list, text)                                        \
    {.name = PREFIX #member,                                                                       \
     .type = FV_KEY_##kind,                                                                        \
     .default_value = start,                                                                       \
     .min = low,                                                                                   \
     .max = high,                                                                                  \
     .choices = list,                                                                              \
     .help = text},
    SETTINGS(X)
#undef X
};
enum { KEYS = (int)(sizeof keys / sizeof *keys) };

typedef enum kept { KEPT_INT, KEPT_INT64, KEPT_BOOL, KEPT_REAL, KEPT_CHOICE, KEPT_NORMALISER } kept;

static const struct {
    size_t at;
    kept as;
} places[KEYS] = {
#define X(member, kept, kind, start, low, high, list, text) {AT(member), KEPT_##kept},
    SETTINGS(X)
#undef X
};

/* These follow from the data: in a config.json, but not in a recipe. */
static const struct {
    const char *name;
    size_t at;
} counts[] = {{"source_tokens", AT(source_tokens)},
              {"target_tokens", AT(target_tokens)},
              {"start", AT(bos)},
              {"end", AT(eos)},
              {"channels", AT(input_channels)},
              {"height", AT(input_height)},
              {"width", AT(input_width)}};
enum { COUNTS = (int)(sizeof counts / sizeof *counts), TOKEN_COUNTS = 4 };

static const fv_attention_normaliser normalisers[] = {
    FV_ATTENTION_SOFTMAX, FV_ATTENTION_LOCAL_M, FV_ATTENTION_LOCAL_P, FV_ATTENTION_HARD_SAMPLE};
enum { NORMALISERS = (int)(sizeof normalisers / sizeof *normalisers) };

/* ---- one field --------------------------------------------------------------------- */

/* Whole numbers, flags and choices pass as `integer`. */
static void put(fv_seq2seq_config *cfg, int i, int64_t integer, double real)
{
    char *to = (char *)cfg + places[i].at;
    const int small = (int)integer;
    const bool flag = integer != 0;
    switch (places[i].as) {
    case KEPT_INT:
    case KEPT_CHOICE: /* enums are ints here */
        memcpy(to, &small, sizeof small);
        break;
    case KEPT_INT64:
        memcpy(to, &integer, sizeof integer);
        break;
    case KEPT_BOOL:
        memcpy(to, &flag, sizeof flag);
        break;
    case KEPT_REAL:
        memcpy(to, &real, sizeof real);
        break;
    case KEPT_NORMALISER:
        memcpy(to, &normalisers[small], sizeof normalisers[0]);
        break;
    }
}

static int64_t get_integer(const fv_seq2seq_config *cfg, int i)
{
    const char *from = (const char *)cfg + places[i].at;
    int small = 0;
    int64_t integer = 0;
    bool flag = false;
    switch (places[i].as) {
    case KEPT_INT64:
        memcpy(&integer, from, sizeof integer);
        return integer;
    case KEPT_BOOL:
        memcpy(&flag, from, sizeof flag);
        return flag;
    case KEPT_NORMALISER:
        for (int n = 0; n < NORMALISERS; n++)
            if (normalisers[n] == cfg->normaliser) return n;
        return 0;
    default:
        memcpy(&small, from, sizeof small);
        return small;
    }
}

fv_key_table fv_seq2seq_keys(void) { return (fv_key_table){keys, KEYS}; }

void fv_seq2seq_config_from(const fv_recipe *recipe, fv_seq2seq_config *cfg)
{
    for (int i = 0; i < KEYS; i++)
        put(cfg, i, fv_recipe_int(recipe, keys[i].name), fv_recipe_real(recipe, keys[i].name));
}

/* ---- config.json ------------------------------------------------------------------- */

static const char *short_name(int i) { return keys[i].name + sizeof PREFIX - 1; }

/* Settings that came later (hard attention's, the encoder, its input and its own settings, the
 * penalty) are written only by models that use them, so that the files of all others stay the same;
 * where they are missing, the default holds. */
static bool is_hard(int i) { return strncmp(short_name(i), "hard_", 5) == 0; }

static bool is_grid(int i) { return strncmp(short_name(i), "grid_", 5) == 0; }

static bool is_encoder(int i) { return places[i].at == AT(encoder); }

static bool is_pyramid(int i) { return places[i].at == AT(pyramid_layers); }

static bool is_coverage(int i) { return places[i].at == AT(coverage); }

static bool is_conv(int i) { return strncmp(short_name(i), "conv_", 5) == 0; }

static bool is_self(int i) { return strncmp(short_name(i), "self_", 5) == 0; }

static bool is_positions(int i)
{
    return strncmp(short_name(i), "positions", 9) == 0 || places[i].at == AT(most_positions);
}

static bool attends_to_itself(const fv_seq2seq_config *cfg)
{
    return cfg->encoder == FV_ENCODER_ATTENTION || cfg->decoder == FV_DECODER_ATTENTION;
}

static bool may_be_missing(int i)
{
    return is_hard(i) || is_grid(i) || is_pyramid(i) || is_encoder(i) || is_coverage(i) ||
           is_conv(i) || is_self(i) || is_positions(i);
}

static bool applies(const fv_seq2seq_config *cfg, int i)
{
    if (is_encoder(i)) return cfg->encoder != FV_ENCODER_RNN;
    if (is_grid(i)) return cfg->encoder == FV_ENCODER_GRID;
    if (is_pyramid(i)) return cfg->encoder == FV_ENCODER_PYRAMID;
    if (is_coverage(i)) return cfg->coverage > 0;
    if (is_conv(i)) return cfg->encoder == FV_ENCODER_CONV;
    if (is_self(i)) return attends_to_itself(cfg);
    if (is_positions(i)) return cfg->encoder == FV_ENCODER_CONV || attends_to_itself(cfg);
    return !is_hard(i) || cfg->normaliser == FV_ATTENTION_HARD_SAMPLE;
}

/* Numbers of an encoder that reads no tokens. */
static bool count_applies(const fv_seq2seq_config *cfg, int i)
{
    return i < TOKEN_COUNTS || cfg->input_width > 0;
}

static void write_field(fv_json_writer *w, const fv_seq2seq_config *cfg, int i)
{
    size_t length;
    double real;
    fv_json_key(w, short_name(i));
    switch (keys[i].type) {
    case FV_KEY_REAL:
        memcpy(&real, (const char *)cfg + places[i].at, sizeof real);
        fv_json_real(w, real);
        break;
    case FV_KEY_BOOL:
        fv_json_bool(w, get_integer(cfg, i) != 0);
        break;
    case FV_KEY_CHOICE: {
        const char *text = fv_choice_at(keys[i].choices, get_integer(cfg, i), &length);
        fv_json_string_n(w, text, length);
        break;
    }
    default:
        fv_json_int(w, get_integer(cfg, i));
    }
}

fv_status fv_seq2seq_config_save(fv_ctx *ctx, const fv_seq2seq_config *given, const char *path)
{
    fv_seq2seq_config full, *cfg = &full;
    fv_seq2seq_config_init(cfg, sizeof *cfg);
    FV_RETURN_IF(!fv_config_copy(cfg, sizeof *cfg, given), ctx, FV_ERR_ARGUMENT,
                 "seq2seq: the config is not initialised");
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    fv_json_key(&w, "model_type");
    fv_json_string(&w, MODEL_TYPE);
    for (int i = 0; i < COUNTS; i++) {
        int64_t value;
        if (!count_applies(cfg, i)) continue;
        memcpy(&value, (const char *)cfg + counts[i].at, sizeof value);
        fv_json_key(&w, counts[i].name);
        fv_json_int(&w, value);
    }
    for (int i = 0; i < KEYS; i++)
        if (applies(cfg, i)) write_field(&w, cfg, i);
    fv_json_close(&w, '}');
    fv_json_raw(&w, "\n", 1);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}

static fv_status read_field(const fv_doc *doc, int i, fv_seq2seq_config *cfg)
{
    const fv_key *key = &keys[i];
    const fv_value *value = fv_value_get(&doc->root, short_name(i));
    if (!value && may_be_missing(i)) return FV_OK;
    if (!value)
        return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT, "'%s' is missing", short_name(i));
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    switch (key->type) {
    case FV_KEY_REAL:
        FV_TRY(fv_doc_real(doc, value, &real));
        if (!(real >= key->min && real <= key->max))
            return fv_doc_fail(doc, value, FV_ERR_FORMAT, "%s is out of range", short_name(i));
        break;
    case FV_KEY_BOOL:
        FV_TRY(fv_doc_bool(doc, value, &flag));
        integer = flag;
        break;
    case FV_KEY_CHOICE:
        FV_TRY(fv_doc_choice(doc, value, key->choices, &integer));
        break;
    default:
        FV_TRY(fv_doc_int(doc, value, (int64_t)key->min, (int64_t)key->max, &integer));
    }
    put(cfg, i, integer, real);
    return FV_OK;
}

static bool is_known(const char *name)
{
    if (strcmp(name, "model_type") == 0) return true;
    for (int i = 0; i < COUNTS; i++)
        if (strcmp(name, counts[i].name) == 0) return true;
    for (int i = 0; i < KEYS; i++)
        if (strcmp(name, short_name(i)) == 0) return true;
    return false;
}

static fv_status read_config(const fv_doc *doc, fv_seq2seq_config *cfg)
{
    const char *type = NULL;
    FV_TRY(fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_string(doc, &doc->root, "model_type", true, &type));
    if (strcmp(type, MODEL_TYPE) != 0)
        return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT, "model_type is '%.60s', not '%s'", type,
                           MODEL_TYPE);
    for (uint32_t i = 0; i < doc->root.count; i++)
        if (!is_known(doc->root.as.members[i].key))
            return fv_doc_fail(doc, &doc->root.as.members[i].value, FV_ERR_FORMAT,
                               "'%.60s' is not a setting of this model",
                               doc->root.as.members[i].key);
    for (int i = 0; i < COUNTS; i++) {
        int64_t value = 0;
        FV_TRY(fv_doc_get_int(doc, &doc->root, counts[i].name, i < TOKEN_COUNTS, 0, WIDE, &value));
        memcpy((char *)cfg + counts[i].at, &value, sizeof value);
    }
    for (int i = 0; i < KEYS; i++)
        FV_TRY(read_field(doc, i, cfg));
    return FV_OK;
}

fv_status fv_seq2seq_config_load(fv_ctx *ctx, const char *path, fv_seq2seq_config *out)
{
    fv_doc *doc = NULL;
    FV_RETURN_IF(out->struct_size < sizeof out->struct_size, ctx, FV_ERR_ARGUMENT,
                 "seq2seq: struct_size of the config to load is not set");
    FV_TRY(fv_json_load(ctx, path, &doc));
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    fv_status status = read_config(doc, &cfg);
    if (status == FV_OK) fv_config_give(out, &cfg, sizeof cfg);
    fv_doc_free(&doc);
    return status;
}
