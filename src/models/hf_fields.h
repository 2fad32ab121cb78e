/*
 * How the settings of a Transformer are spelt in a family's config.json: a table for reading and
 * writing both, and functions for what a table cannot express.
 */
#ifndef FV_MODELS_HF_FIELDS_H
#define FV_MODELS_HF_FIELDS_H

#include "fovea/transformer.h"
#include "io/document.h"
#include "io/json_write.h"

typedef enum fv_hf_kind {
    FV_HF_SIZE,  /* int64, at least 1 */
    FV_HF_COUNT, /* int64, at least 0; null is 0 */
    FV_HF_TOKEN, /* int64 or null for -1; of a list, the first */
    FV_HF_REAL,
    FV_HF_FLAG,
    FV_HF_ACT,
    FV_HF_LAYERS, /* uint64[2], a bit for each layer of a list */
    FV_HF_CHOICE  /* an enum, by its place among `choices` */
} fv_hf_kind;

typedef struct fv_hf_field {
    const char *key;
    fv_hf_kind kind;
    bool required;
    size_t at; /* in fv_transformer_config */
    const char *choices;
} fv_hf_field;

typedef struct fv_hf_table {
    const fv_hf_field *fields;
    size_t count;
} fv_hf_table;

fv_hf_table fv_hf_fields(fv_family family);

/* Reads and writes what the table of a family cannot express. */
fv_status fv_hf_read_rest(const fv_doc *doc, fv_transformer_config *cfg);
void fv_hf_write_rest(fv_json_writer *w, const fv_transformer_config *cfg);

/* All settings of a document. */
fv_status fv_hf_read(const fv_doc *doc, fv_transformer_config *out);

/* Activations by their names in transformers; -1: not supported. */
int fv_hf_act(const char *name);
const char *fv_hf_act_name(fv_act act);

#endif
