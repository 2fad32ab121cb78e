/* What the tables of hf_fields.c cannot express: values that follow from others, settings that are
 * not supported, heads. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/hf_fields.h"
#include "models/hf_labels.h"

/* ---- helpers ------------------------------------------------------------------------ */

/* A flag with only one supported value. */
static fv_status must_be(const fv_doc *doc, const char *key, bool wanted)
{
    bool flag = wanted;
    const fv_value *value = fv_value_get(&doc->root, key);
    if (!value || value->kind == FV_VALUE_NULL) return FV_OK;
    FV_TRY(fv_doc_bool(doc, value, &flag));
    if (flag != wanted)
        return fv_doc_fail(doc, value, FV_ERR_FORMAT, "'%s' that is %s is not supported", key,
                           flag ? "true" : "false");
    return FV_OK;
}

/* Whether an entry of "architectures" ends so. */
static bool is_named(const fv_doc *doc, const char *suffix)
{
    const fv_value *list = fv_value_get(&doc->root, "architectures");
    const size_t n = strlen(suffix);
    for (uint32_t i = 0; list && list->kind == FV_VALUE_ARRAY && i < list->count; i++) {
        const fv_value *v = &list->as.items[i];
        if (v->kind == FV_VALUE_STRING && v->count >= n &&
            memcmp(v->as.text + v->count - n, suffix, n) == 0)
            return true;
    }
    return false;
}

static void write_architecture(fv_json_writer *w, const char *name)
{
    fv_json_key(w, "architectures");
    fv_json_open(w, '[');
    fv_json_string(w, name);
    fv_json_close(w, ']');
}

static void write_flag(fv_json_writer *w, const char *key, bool value)
{
    fv_json_key(w, key);
    fv_json_bool(w, value);
}

static void write_real(fv_json_writer *w, const char *key, double value)
{
    fv_json_key(w, key);
    fv_json_real(w, value);
}

/* ---- GPT-2 -------------------------------------------------------------------------- */

static fv_status read_gpt2(const fv_doc *doc, fv_transformer_config *c)
{
    bool scaled = true;
    if (!fv_value_get(&doc->root, "n_inner") || c->hidden == 0) c->hidden = 4 * c->width;
    FV_TRY(must_be(doc, "scale_attn_by_inverse_layer_idx", false));
    FV_TRY(must_be(doc, "add_cross_attention", false));
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "scale_attn_weights", false, &scaled));
    c->unscaled = !scaled;
    return FV_OK;
}

static void write_gpt2(fv_json_writer *w, const fv_transformer_config *c)
{
    write_architecture(w, "GPT2LMHeadModel");
    write_real(w, "embd_pdrop", c->dropout);
    write_flag(w, "scale_attn_weights", !c->unscaled);
}

/* ---- BERT --------------------------------------------------------------------------- */

static fv_status read_labels(const fv_doc *doc, int64_t *labels)
{
    const fv_value *names = fv_value_get(&doc->root, "id2label");
    *labels = 2; /* the default of transformers */
    FV_TRY(fv_doc_get_int(doc, &doc->root, "num_labels", false, 1, 1 << 20, labels));
    if (names && names->kind == FV_VALUE_OBJECT && names->count > 0) *labels = names->count;
    return FV_OK;
}

static fv_status read_bert(const fv_doc *doc, fv_transformer_config *c)
{
    const char *positions = "absolute";
    FV_TRY(must_be(doc, "is_decoder", false));
    FV_TRY(must_be(doc, "add_cross_attention", false));
    FV_TRY(fv_doc_get_string(doc, &doc->root, "position_embedding_type", false, &positions));
    if (strcmp(positions, "absolute") != 0)
        return fv_doc_fail(doc, fv_value_get(&doc->root, "position_embedding_type"), FV_ERR_FORMAT,
                           "position_embedding_type '%.40s' is not supported", positions);
    const fv_value *dropout = fv_value_get(&doc->root, "classifier_dropout");
    c->label_dropout = c->dropout;
    if (dropout && dropout->kind != FV_VALUE_NULL)
        FV_TRY(fv_doc_real(doc, dropout, &c->label_dropout));
    const bool texts = is_named(doc, "ForSequenceClassification");
    const bool both = is_named(doc, "ForPreTraining");
    c->label_tokens = is_named(doc, "ForTokenClassification");
    c->mlm_head = c->logits_bias = both || is_named(doc, "ForMaskedLM");
    c->next_sentence = both || is_named(doc, "ForNextSentencePrediction");
    c->pooler = c->next_sentence || texts || is_named(doc, "BertModel");
    if (texts || c->label_tokens) FV_TRY(read_labels(doc, &c->labels));
    return FV_OK;
}

/* Both ways, as transformers keeps them. */
static void write_labels(fv_json_writer *w, const fv_transformer_config *c)
{
    for (int back = 0; back < 2; back++) {
        fv_json_key(w, back ? "label2id" : "id2label");
        fv_json_open(w, '{');
        for (int64_t i = 0; i < c->labels; i++) {
            char number[32], plain[FV_LABEL_BYTES];
            snprintf(number, sizeof number, "%lld", (long long)i);
            const char *name = c->label_names ? c->label_names[i] : fv_hf_label_plain(i, plain);
            fv_json_key(w, back ? name : number);
            if (back)
                fv_json_int(w, i);
            else
                fv_json_string(w, name);
        }
        fv_json_close(w, '}');
    }
}

static void write_bert(fv_json_writer *w, const fv_transformer_config *c)
{
    write_architecture(w, c->labels ? c->label_tokens ? "BertForTokenClassification"
                                                      : "BertForSequenceClassification"
                          : c->next_sentence
                              ? c->mlm_head ? "BertForPreTraining" : "BertForNextSentencePrediction"
                          : c->mlm_head ? "BertForMaskedLM"
                                        : "BertModel");
    write_real(w, "classifier_dropout", c->label_dropout);
    fv_json_key(w, "position_embedding_type");
    fv_json_string(w, "absolute");
    if (c->labels) write_labels(w, c);
}

/* ---- Marian ------------------------------------------------------------------------- */

static fv_status read_marian(const fv_doc *doc, fv_transformer_config *c)
{
    static const char *const never[] = {"normalize_before", "normalize_embedding",
                                        "add_final_layer_norm"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        FV_TRY(must_be(doc, never[i], false));
    bool shared = true, fixed = true;
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "share_encoder_decoder_embeddings", false, &shared));
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "static_position_embeddings", false, &fixed));
    if (!fixed) c->positions = FV_POSITION_LEARNED;
    if (shared) return FV_OK;
    c->target_vocabulary = c->vocabulary;
    return fv_doc_get_int(doc, &doc->root, "decoder_vocab_size", false, 1, 1 << 28,
                          &c->target_vocabulary);
}

static void write_marian(fv_json_writer *w, const fv_transformer_config *c)
{
    write_architecture(w, "MarianMTModel");
    write_flag(w, "is_encoder_decoder", true);
    write_flag(w, "static_position_embeddings", c->positions == FV_POSITION_SINUSOID);
    write_flag(w, "share_encoder_decoder_embeddings", c->target_vocabulary == 0);
    fv_json_key(w, "decoder_vocab_size");
    fv_json_int(w, c->target_vocabulary ? c->target_vocabulary : c->vocabulary);
    fv_json_key(w, "forced_eos_token_id");
    fv_json_null(w);
}

/* ---- T5 ----------------------------------------------------------------------------- */

static fv_status read_feed_forward(const fv_doc *doc, fv_transformer_config *c)
{
    const char *name = "relu";
    FV_TRY(fv_doc_get_string(doc, &doc->root, "feed_forward_proj", false, &name));
    c->gated = strncmp(name, "gated-", 6) == 0;
    if (c->gated) name += 6;
    /* "gated-gelu" has always meant the approximation. */
    const int act = c->gated && strcmp(name, "gelu") == 0 ? (int)FV_ACT_GELU_TANH : fv_hf_act(name);
    if (act < 0)
        return fv_doc_fail(doc, fv_value_get(&doc->root, "feed_forward_proj"), FV_ERR_FORMAT,
                           "activation '%.40s' is not supported", name);
    c->act = (fv_act)act;
    return FV_OK;
}

static fv_status read_t5(const fv_doc *doc, fv_transformer_config *c)
{
    const fv_value *layers = fv_value_get(&doc->root, "num_decoder_layers");
    c->decoder_layers = c->encoder_layers;
    if (layers && layers->kind != FV_VALUE_NULL)
        FV_TRY(fv_doc_int(doc, layers, 1, 1 << 12, &c->decoder_layers));
    FV_TRY(read_feed_forward(doc, c));
    bool scaled = c->tied;
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "scale_decoder_outputs", false, &scaled));
    c->logits_scale = scaled ? 1 / sqrt((double)c->width) : 1;
    c->attention_dropout = c->hidden_dropout = c->dropout;
    return FV_OK;
}

static void write_t5(fv_json_writer *w, const fv_transformer_config *c)
{
    char name[48];
    const char *act = c->gated && c->act == FV_ACT_GELU_TANH ? "gelu" : fv_hf_act_name(c->act);
    snprintf(name, sizeof name, "%s%s", c->gated ? "gated-" : "", act);
    write_architecture(w, "T5ForConditionalGeneration");
    write_flag(w, "is_encoder_decoder", true);
    write_flag(w, "is_gated_act", c->gated);
    fv_json_key(w, "dense_act_fn");
    fv_json_string(w, fv_hf_act_name(c->act));
    fv_json_key(w, "feed_forward_proj");
    fv_json_string(w, name);
    fv_json_key(w, "num_decoder_layers");
    fv_json_int(w, c->decoder_layers);
    write_flag(w, "scale_decoder_outputs", c->logits_scale != 1);
}

/* ---- Llama -------------------------------------------------------------------------- */

static fv_status read_stretching(const fv_doc *doc, const fv_value *rope, fv_rotary_config *r)
{
    const char *type = "default";
    FV_TRY(fv_doc_get_string(doc, rope, "type", false, &type));
    FV_TRY(fv_doc_get_string(doc, rope, "rope_type", false, &type));
    if (strcmp(type, "default") == 0) return FV_OK;
    if (strcmp(type, "linear") == 0)
        return fv_doc_get_real(doc, rope, "factor", true, &r->linear_factor);
    if (strcmp(type, "llama3") != 0)
        return fv_doc_fail(doc, rope, FV_ERR_FORMAT, "rope_type '%.40s' is not supported", type);
    FV_TRY(fv_doc_get_real(doc, rope, "factor", true, &r->llama3_factor));
    FV_TRY(fv_doc_get_real(doc, rope, "low_freq_factor", true, &r->low_freq));
    FV_TRY(fv_doc_get_real(doc, rope, "high_freq_factor", true, &r->high_freq));
    return fv_doc_get_real(doc, rope, "original_max_position_embeddings", true, &r->original);
}

static fv_status read_llama(const fv_doc *doc, fv_transformer_config *c)
{
    static const char *const sections[] = {"rope_scaling", "rope_parameters"};
    FV_TRY(fv_doc_get_real(doc, &doc->root, "rope_theta", false, &c->rotary.base));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const fv_value *rope = fv_value_get(&doc->root, sections[i]);
        if (!rope || rope->kind == FV_VALUE_NULL) continue;
        FV_TRY(fv_doc_kind(doc, rope, FV_VALUE_OBJECT));
        FV_TRY(fv_doc_get_real(doc, rope, "rope_theta", false, &c->rotary.base));
        FV_TRY(read_stretching(doc, rope, &c->rotary));
    }
    return FV_OK;
}

static void write_llama(fv_json_writer *w, const fv_transformer_config *c)
{
    const fv_rotary_config *r = &c->rotary;
    write_architecture(w, "LlamaForCausalLM");
    write_real(w, "rope_theta", r->base);
    fv_json_key(w, "rope_parameters");
    fv_json_open(w, '{');
    write_real(w, "rope_theta", r->base);
    fv_json_key(w, "rope_type");
    fv_json_string(w, r->llama3_factor > 0    ? "llama3"
                      : r->linear_factor != 1 ? "linear"
                                              : "default");
    if (r->llama3_factor > 0) {
        write_real(w, "factor", r->llama3_factor);
        write_real(w, "low_freq_factor", r->low_freq);
        write_real(w, "high_freq_factor", r->high_freq);
        fv_json_key(w, "original_max_position_embeddings");
        fv_json_int(w, (int64_t)r->original);
    } else if (r->linear_factor != 1) {
        write_real(w, "factor", r->linear_factor);
    }
    fv_json_close(w, '}');
}

/* ---- by family ---------------------------------------------------------------------- */

static const struct {
    fv_status (*read)(const fv_doc *doc, fv_transformer_config *c);
    void (*write)(fv_json_writer *w, const fv_transformer_config *c);
} rest[FV_FAMILY_COUNT] = {
    [FV_FAMILY_GPT2] = {read_gpt2, write_gpt2},       [FV_FAMILY_BERT] = {read_bert, write_bert},
    [FV_FAMILY_MARIAN] = {read_marian, write_marian}, [FV_FAMILY_T5] = {read_t5, write_t5},
    [FV_FAMILY_LLAMA] = {read_llama, write_llama},
};

fv_status fv_hf_read_rest(const fv_doc *doc, fv_transformer_config *cfg)
{
    return rest[cfg->family].read ? rest[cfg->family].read(doc, cfg) : FV_OK;
}

void fv_hf_write_rest(fv_json_writer *w, const fv_transformer_config *cfg)
{
    if (rest[cfg->family].write) rest[cfg->family].write(w, cfg);
}
