/*
 * What the tables of hf_fields.c cannot express, one pair of functions for each family: values that
 * follow from others, settings that are not supported, heads.
 *
 *     hf_config_special.c  GPT-2, T5, the list of families, shared helpers
 *     hf_config_bert.c     BERT, DistilBERT, RoBERTa
 *     hf_config_bart.c     Marian, BART
 *     hf_config_llama.c    Llama, Mistral, Qwen2, Qwen3
 */
#ifndef FV_MODELS_HF_CONFIG_PARTS_H
#define FV_MODELS_HF_CONFIG_PARTS_H

#include "models/hf_fields.h"

/* A flag with only one supported value. */
fv_status fv_hf_must_be(const fv_doc *doc, const char *key, bool wanted);
/* Whether an entry of "architectures" ends so. */
bool fv_hf_is_named(const fv_doc *doc, const char *suffix);

void fv_hf_write_architecture(fv_json_writer *w, const char *name);
void fv_hf_write_flag(fv_json_writer *w, const char *key, bool value);
void fv_hf_write_real(fv_json_writer *w, const char *key, double value);

fv_status fv_hf_read_bert(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_bert(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_distilbert(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_distilbert(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_roberta(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_roberta(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_marian(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_marian(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_bart(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_bart(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_llama(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_llama(fv_json_writer *w, const fv_transformer_config *c);
fv_status fv_hf_read_mistral(const fv_doc *doc, fv_transformer_config *c);
fv_status fv_hf_read_qwen(const fv_doc *doc, fv_transformer_config *c);
void fv_hf_write_qwen(fv_json_writer *w, const fv_transformer_config *c);
/* The factors of longrope, which have no room in a table; nothing if there are none. */
void fv_hf_write_factors(fv_json_writer *w, const fv_transformer_config *c);

#endif
