/*
 * Recorded encodings: lines of JSON with "text", perhaps "pair", and what a tokenizer must return
 * for them: "ids", and where given "offsets" in characters, "types" or "type_ids", "pieces",
 * "decoded".
 */
#ifndef FV_TEST_TOKENS_H
#define FV_TEST_TOKENS_H

#include "fovea/tokenizer.h"
#include "io/json.h"

/* Calls `use` with every line of a file, plain or compressed; returns their number. */
int tokens_each_line(fv_ctx *ctx, const char *path, void (*use)(const fv_doc *doc));

/* Writes what a plain or compressed file holds to another file. */
void tokens_unpack(fv_ctx *ctx, const char *packed, const char *plain);

/* What a line is compared with. */
typedef struct tokens_with {
    fv_ctx *ctx;
    const fv_tokenizer *tok;
    fv_tokenizer_encoder *enc;
    const char *name;      /* used in messages */
    const char *pair;      /* the second text where a line has none; NULL: none */
    unsigned decode_flags; /* for "decoded" */
} tokens_with;

/* A difference fails the test and returns false. */
bool tokens_compare(const tokens_with *with, const fv_doc *doc);

#endif
