/* Encoders: BERT, DistilBERT, RoBERTa and XLM-RoBERTa. */
#include "models/hf_config_parts.h"

#include <stdio.h>
#include <string.h>

#include "models/hf_labels.h"
#include "models/transformer.h"

/* ---- heads ------------------------------------------------------------------------- */

static fv_status read_labels(const fv_doc *doc, int64_t *labels)
{
    const fv_value *names = fv_value_get(&doc->root, "id2label");
    *labels = 2; /* the default of transformers */
    FV_TRY(fv_doc_get_int(doc, &doc->root, "num_labels", false, 1, 1 << 20, labels));
    if (names && names->kind == FV_VALUE_OBJECT && names->count > 0) *labels = names->count;
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

/* Those that "architectures" names. */
static fv_status read_heads(const fv_doc *doc, fv_transformer_config *c)
{
    const fv_family_names *n = fv_family_names_of(c->family);
    const bool texts = fv_hf_is_named(doc, "ForSequenceClassification");
    const bool both = fv_hf_is_named(doc, "ForPreTraining");
    c->label_tokens = fv_hf_is_named(doc, "ForTokenClassification");
    c->label_dense = texts && n->labels_dense;
    c->spans = fv_hf_is_named(doc, "ForQuestionAnswering");
    c->mlm_head = c->logits_bias = both || fv_hf_is_named(doc, "ForMaskedLM");
    c->next_sentence = both || fv_hf_is_named(doc, "ForNextSentencePrediction");
    c->pooler = c->next_sentence || (texts && !c->label_dense) ||
                (n->pooler && fv_hf_is_named(doc, "Model"));
    if (texts || c->label_tokens) FV_TRY(read_labels(doc, &c->labels));
    return fv_doc_get_bool(doc, &doc->root, "text_pairs", false, &c->text_pairs);
}

static void write_heads(fv_json_writer *w, const fv_transformer_config *c)
{
    char name[64];
    const char *head =
        c->labels  ? c->label_tokens ? "ForTokenClassification" : "ForSequenceClassification"
        : c->spans ? "ForQuestionAnswering"
        : c->next_sentence ? c->mlm_head ? "ForPreTraining" : "ForNextSentencePrediction"
        : c->mlm_head      ? "ForMaskedLM"
                           : "Model";
    snprintf(name, sizeof name, "%s%s", fv_family_names_of(c->family)->class_name, head);
    fv_hf_write_architecture(w, name);
    if (c->labels) write_labels(w, c);
    if (c->text_pairs) fv_hf_write_flag(w, "text_pairs", true); /* a key of our own */
}

/* ---- BERT -------------------------------------------------------------------------- */

/* By fv_position_kind. */
static const char *const position_types[FV_POSITION_COUNT] = {
    [FV_POSITION_LEARNED] = "absolute",
    [FV_POSITION_RELATIVE_KEY] = "relative_key",
    [FV_POSITION_RELATIVE_KEY_QUERY] = "relative_key_query"};

static fv_status read_position_type(const fv_doc *doc, fv_transformer_config *c)
{
    const char *name = position_types[FV_POSITION_LEARNED];
    FV_TRY(fv_doc_get_string(doc, &doc->root, "position_embedding_type", false, &name));
    for (int i = 0; i < FV_POSITION_COUNT; i++) {
        if (!position_types[i] || strcmp(position_types[i], name) != 0) continue;
        if (i != FV_POSITION_LEARNED && c->family != FV_FAMILY_BERT) break;
        c->positions = (fv_position_kind)i;
        return FV_OK;
    }
    return fv_doc_fail(doc, fv_value_get(&doc->root, "position_embedding_type"), FV_ERR_FORMAT,
                       "position_embedding_type '%.40s' is not supported", name);
}

fv_status fv_hf_read_bert(const fv_doc *doc, fv_transformer_config *c)
{
    FV_TRY(fv_hf_must_be(doc, "is_decoder", false));
    FV_TRY(fv_hf_must_be(doc, "add_cross_attention", false));
    FV_TRY(read_position_type(doc, c));
    const fv_value *dropout = fv_value_get(&doc->root, "classifier_dropout");
    c->label_dropout = c->dropout;
    if (dropout && dropout->kind != FV_VALUE_NULL)
        FV_TRY(fv_doc_real(doc, dropout, &c->label_dropout));
    return read_heads(doc, c);
}

void fv_hf_write_bert(fv_json_writer *w, const fv_transformer_config *c)
{
    write_heads(w, c);
    fv_hf_write_real(w, "classifier_dropout", c->label_dropout);
    fv_json_key(w, "position_embedding_type");
    const char *name = position_types[c->positions];
    fv_json_string(w, name ? name : position_types[FV_POSITION_LEARNED]);
}

/* ---- DistilBERT -------------------------------------------------------------------- */

/* Its sinusoids, where it has them, are in the file like a learned table. */
fv_status fv_hf_read_distilbert(const fv_doc *doc, fv_transformer_config *c)
{
    return read_heads(doc, c);
}

void fv_hf_write_distilbert(fv_json_writer *w, const fv_transformer_config *c)
{
    write_heads(w, c);
    fv_hf_write_flag(w, "sinusoidal_pos_embds", false);
}

/* ---- RoBERTa ----------------------------------------------------------------------- */

/* The first rows of the table of positions, up to that of the padding token, belong to no token. */
static fv_status read_positions(const fv_doc *doc, fv_transformer_config *c)
{
    int64_t rows = 0;
    if (c->pad < 0)
        return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT,
                           "'pad_token_id' is null, and positions are counted from it");
    c->position_offset = c->pad + 1;
    FV_TRY(fv_doc_get_int(doc, &doc->root, "max_position_embeddings", true, c->position_offset + 1,
                          1 << 28, &rows));
    c->max_positions = rows - c->position_offset;
    return FV_OK;
}

fv_status fv_hf_read_roberta(const fv_doc *doc, fv_transformer_config *c)
{
    /* Where a file leaves them out, transformers takes BERT's and not those of RoBERTa base. */
    if (!fv_value_get(&doc->root, "layer_norm_eps")) c->eps = 1e-12;
    if (!fv_value_get(&doc->root, "type_vocab_size")) c->types = 2;
    FV_TRY(read_positions(doc, c));
    return fv_hf_read_bert(doc, c);
}

void fv_hf_write_roberta(fv_json_writer *w, const fv_transformer_config *c)
{
    fv_hf_write_bert(w, c);
    fv_json_key(w, "max_position_embeddings");
    fv_json_int(w, c->max_positions + c->position_offset);
}
