/*
 * Folders of small encoders with a tokenizer of letters, as Hugging Face and sentence-transformers
 * keep them.
 *
 *     encoder_folder_write(folder_sub("model"), 3, names);   // a classifier of three classes
 *     sentence_files_write(folder_path("model"), pooling, lengths);
 */
#ifndef FV_TESTS_ENCODERS_H
#define FV_TESTS_ENCODERS_H

#include "fovea/model.h"

enum { ENCODER_WIDTH = 16, ENCODER_POSITIONS = 24 };

typedef enum encoder_head {
    ENCODER_BARE,
    ENCODER_CLASSIFIES,
    ENCODER_CLASSIFIES_TOKENS,
    ENCODER_ANSWERS,
    ENCODER_FILLS /* and its tokenizer has [MASK] */
} encoder_head;

/* config.json, model.safetensors and tokenizer.json ([CLS] letters [SEP]) into a folder that
 * exists; names may be NULL. */
void encoder_head_write(const char *folder, encoder_head head, int64_t labels,
                        const char *const *names);
/* The same; labels 0: an encoder without a head. */
void encoder_folder_write(const char *folder, int64_t labels, const char *const *names);

/* modules.json with three modules, 1_Pooling/config.json and sentence_bert_config.json. */
void sentence_files_write(const char *folder, const char *pooling, const char *lengths);

#endif
