/*
 * A vocabulary: maps tokens to ids and back.
 *
 *     fv_vocab v;
 *     fv_vocab_init(&v, ctx);
 *     s = fv_vocab_put(&v, "the", 3, 17);
 *     fv_vocab_find(&v, "the", 3) == 17;   // -1: unknown
 *     fv_vocab_free(&v);
 */
#ifndef FV_TEXT_VOCAB_H
#define FV_TEXT_VOCAB_H

#include "base/ctx.h"
#include "fovea/unicode.h"
#include "io/arena.h"

typedef struct fv_vocab {
    fv_ctx *ctx;
    fv_arena arena;
    fv_string *tokens; /* by id; text NULL: unused id */
    size_t size, room; /* one more than the largest id */
    size_t count;      /* number of tokens */
    int32_t *table;    /* id + 1; 0: free */
    size_t slots;
    uint64_t limit; /* ids must be below it; fv_limits.vocabulary unless set */
} fv_vocab;

void fv_vocab_init(fv_vocab *v, fv_ctx *ctx);
void fv_vocab_free(fv_vocab *v);

int32_t fv_vocab_find(const fv_vocab *v, const char *text, size_t bytes);

/* Adds a token and copies its text, which may be any bytes. Fails: FORMAT (duplicate text or id),
 * LIMIT (id outside [0, limit)), MEMORY. */
fv_status fv_vocab_put(fv_vocab *v, const char *text, size_t bytes, int64_t id);
/* Adds all tokens of a vocab.json, a JSON object of texts and ids. Fails: IO, FORMAT, LIMIT,
 * MEMORY. */
fv_status fv_vocab_load(fv_vocab *v, const char *path);
/* The id of a token; a new one gets the next free id. */
fv_status fv_vocab_add(fv_vocab *v, const char *text, size_t bytes, int32_t *id);

#endif
