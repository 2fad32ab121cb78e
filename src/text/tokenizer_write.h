/*
 * Builds a tokenizer from a description, as training and other file formats provide it: the
 * description is written as a tokenizer.json and read back, so that there is only one reader.
 */
#ifndef FV_TEXT_TOKENIZER_WRITE_H
#define FV_TEXT_TOKENIZER_WRITE_H

#include "io/json_write.h"
#include "text/tokenizer_pipeline.h"

typedef struct fv_id_pair {
    int32_t first, second;
} fv_id_pair;

typedef struct fv_tokenizer_spec {
    fv_token_model_kind model;
    const fv_vocab *vocab;
    const fv_id_pair *merges;
    size_t merge_count;
    const char *unk;             /* NULL: none */
    const char *suffix;          /* BPE: of a word's last piece; NULL: none */
    const char *const *specials; /* tokens of the vocabulary */
    size_t special_count;
    bool lowercase, normalize;
    fv_normal_form form;
    bool bert; /* use BertNormalizer instead */
    enum { FV_SPEC_WHOLE, FV_SPEC_BYTES, FV_SPEC_WORDS, FV_SPEC_METASPACE, FV_SPEC_BERT } split;
    const char *begin, *end; /* added around each text; NULL: nothing */
    bool trim_offsets;       /* FV_SPEC_BYTES */
} fv_tokenizer_spec;

/* Messages use `name`. Fails: MEMORY, LIMIT, FORMAT (inconsistent description). */
fv_status fv_tokenizer_build(fv_ctx *ctx, const char *name, const fv_tokenizer_spec *spec,
                             fv_tokenizer **out);

/* ---- helpers to write a tokenizer.json -------------------------------------------- */

void fv_json_bool_member(fv_json_writer *w, const char *key, bool value);
void fv_json_string_member(fv_json_writer *w, const char *key, const char *value); /* NULL: null */
/* Writes {"type": type and leaves the object open. */
void fv_json_open_typed(fv_json_writer *w, const char *type);
/* In a template: a "Sequence" or "SpecialToken", and the definition of such a token. */
void fv_json_template_piece(fv_json_writer *w, const char *kind, const char *id, int type);
void fv_json_special_token(fv_json_writer *w, const char *token, int64_t id);
/* An added token, matched in the original text. */
void fv_json_added_token(fv_json_writer *w, fv_string token, int64_t id, bool special);

#endif
