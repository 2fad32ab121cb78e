/*
 * The text on its way to the model: where it is now, which bytes of the original each byte stands
 * for, and the pieces it is split into so far.
 */
#ifndef FV_TEXT_WORK_H
#define FV_TEXT_WORK_H

#include "text/pipeline.h"

/* Bytes of the text as it is now. */
typedef struct fv_piece {
    uint32_t begin, end;
    int32_t token; /* an added token, which no splitter looks into; -1: text */
    bool match;    /* while a splitter works: a separator */
} fv_piece;

typedef struct fv_work {
    fv_ctx *ctx;
    const char *text;
    size_t bytes;
    uint32_t base;         /* without spans: where text[0] lies in the original */
    fv_token_span *span;   /* by byte; NULL: the text is the original's own bytes */
    fv_text own, next_own; /* changed text lives here */
    fv_token_span *spans, *next_spans;
    size_t span_room, next_span_room;
    fv_piece *pieces, *made;
    size_t count, room, made_count, made_room;
    fv_runes runes;
    fv_regex_run regex;
} fv_work;

void fv_work_init(fv_work *w, fv_ctx *ctx);
void fv_work_free(fv_work *w);

/* Begins with valid UTF-8 that lies at byte `base` of the original; one piece. */
fv_status fv_work_begin(fv_work *w, const char *text, size_t bytes, uint32_t base);
/* Normalizes the whole text. */
fv_status fv_work_normalize(fv_work *w, const fv_tokenizer *tok);
/* Splits every piece further. */
fv_status fv_work_split(fv_work *w, const fv_split *split);

/* The bytes of the original that bytes [begin, end) of the text stand for: whole characters. */
fv_token_span fv_work_span(const fv_work *w, uint32_t begin, uint32_t end);

/* ---- for splitters --------------------------------------------------------------- */

/* Puts a piece of the next division, unless it is empty; then takes the division over. */
fv_status fv_work_put(fv_work *w, size_t begin, size_t end, bool match);
fv_status fv_work_put_piece(fv_work *w, fv_piece piece);
void fv_work_take(fv_work *w);

#endif
