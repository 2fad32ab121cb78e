/*
 * A table of texts and their numbers, both ways.
 *
 *     fv_vocab v;
 *     fv_vocab_init(&v, ctx);
 *     s = fv_vocab_put(&v, "the", 3, 17);
 *     fv_vocab_find(&v, "the", 3) == 17;   // -1: not there
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
    fv_string *tokens; /* by id; text NULL: no such id */
    size_t size, room; /* one more than the largest id */
    size_t count;      /* tokens that are there */
    int32_t *table;    /* id + 1; 0: free */
    size_t slots;
    uint64_t limit; /* ids stay below it; fv_limits.vocabulary unless it is set */
} fv_vocab;

void fv_vocab_init(fv_vocab *v, fv_ctx *ctx);
void fv_vocab_free(fv_vocab *v);

int32_t fv_vocab_find(const fv_vocab *v, const char *text, size_t bytes);

/* Copies the text. A text or an id that is there already is FV_ERR_FORMAT; an id outside
 * [0, limit) is FV_ERR_LIMIT; the text must be valid UTF-8 or raw bytes, as the
 * caller likes. */
fv_status fv_vocab_put(fv_vocab *v, const char *text, size_t bytes, int64_t id);
/* All of a JSON object of texts and their ids, as in a vocab.json. Fails: IO, FORMAT, LIMIT,
 * MEMORY.
 */
fv_status fv_vocab_load(fv_vocab *v, const char *path);
/* The id of a text, put behind the last one if it is new. */
fv_status fv_vocab_add(fv_vocab *v, const char *text, size_t bytes, int32_t *id);

#endif
