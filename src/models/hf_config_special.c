/* What the tables of hf_fields.c cannot express, for GPT-2 and T5. */
#include "models/hf_config_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- helpers ------------------------------------------------------------------------ */

fv_status fv_hf_must_be(const fv_doc *doc, const char *key, bool wanted)
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

bool fv_hf_is_named(const fv_doc *doc, const char *suffix)
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

void fv_hf_write_architecture(fv_json_writer *w, const char *name)
{
    fv_json_key(w, "architectures");
    fv_json_open(w, '[');
    fv_json_string(w, name);
    fv_json_close(w, ']');
}

void fv_hf_write_flag(fv_json_writer *w, const char *key, bool value)
{
    fv_json_key(w, key);
    fv_json_bool(w, value);
}

void fv_hf_write_real(fv_json_writer *w, const char *key, double value)
{
    fv_json_key(w, key);
    fv_json_real(w, value);
}

/* ---- GPT-2 -------------------------------------------------------------------------- */

static fv_status read_gpt2(const fv_doc *doc, fv_transformer_config *c)
{
    bool scaled = true;
    if (!fv_value_get(&doc->root, "n_inner") || c->hidden == 0) c->hidden = 4 * c->width;
    FV_TRY(fv_hf_must_be(doc, "add_cross_attention", false));
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "scale_attn_weights", false, &scaled));
    c->unscaled = !scaled;
    return FV_OK;
}

static void write_gpt2(fv_json_writer *w, const fv_transformer_config *c)
{
    fv_hf_write_architecture(w, "GPT2LMHeadModel");
    fv_hf_write_real(w, "embd_pdrop", c->dropout);
    fv_hf_write_flag(w, "scale_attn_weights", !c->unscaled);
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
    fv_hf_write_architecture(w, "T5ForConditionalGeneration");
    fv_hf_write_flag(w, "is_encoder_decoder", true);
    fv_hf_write_flag(w, "is_gated_act", c->gated);
    fv_json_key(w, "dense_act_fn");
    fv_json_string(w, fv_hf_act_name(c->act));
    fv_json_key(w, "feed_forward_proj");
    fv_json_string(w, name);
    fv_json_key(w, "num_decoder_layers");
    fv_json_int(w, c->decoder_layers);
    fv_hf_write_flag(w, "scale_decoder_outputs", c->logits_scale != 1);
}

/* ---- by family ---------------------------------------------------------------------- */

static const struct {
    fv_status (*read)(const fv_doc *doc, fv_transformer_config *c);
    void (*write)(fv_json_writer *w, const fv_transformer_config *c);
} rest[FV_FAMILY_COUNT] = {
    [FV_FAMILY_GPT2] = {read_gpt2, write_gpt2},
    [FV_FAMILY_BERT] = {fv_hf_read_bert, fv_hf_write_bert},
    [FV_FAMILY_MARIAN] = {fv_hf_read_marian, fv_hf_write_marian},
    [FV_FAMILY_T5] = {read_t5, write_t5},
    [FV_FAMILY_LLAMA] = {fv_hf_read_llama, fv_hf_write_llama},
    [FV_FAMILY_DISTILBERT] = {fv_hf_read_distilbert, fv_hf_write_distilbert},
    [FV_FAMILY_ROBERTA] = {fv_hf_read_roberta, fv_hf_write_roberta},
    [FV_FAMILY_XLM_ROBERTA] = {fv_hf_read_roberta, fv_hf_write_roberta},
    [FV_FAMILY_BART] = {fv_hf_read_bart, fv_hf_write_bart},
    [FV_FAMILY_MISTRAL] = {fv_hf_read_mistral, fv_hf_write_llama},
    [FV_FAMILY_QWEN2] = {fv_hf_read_qwen, fv_hf_write_qwen},
    [FV_FAMILY_QWEN3] = {fv_hf_read_qwen, fv_hf_write_qwen},
    [FV_FAMILY_FOVEA] = {NULL, fv_hf_write_factors},
};

fv_status fv_hf_read_rest(const fv_doc *doc, fv_transformer_config *cfg)
{
    return rest[cfg->family].read ? rest[cfg->family].read(doc, cfg) : FV_OK;
}

void fv_hf_write_rest(fv_json_writer *w, const fv_transformer_config *cfg)
{
    if (rest[cfg->family].write) rest[cfg->family].write(w, cfg);
}
