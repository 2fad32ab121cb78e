/*
 * The text on its way to the model: where it is now, which bytes of the original each byte stands
 * for, and the pieces it is split into so far.
 */
#ifndef FV_TEXT_PRETOKENIZED_H
#define FV_TEXT_PRETOKENIZED_H

#include "text/tokenizer_pipeline.h"

/* Bytes of the text as it is now. */
typedef struct fv_piece {
    uint32_t begin, end;
    int32_t token; /* an added token, which no splitter looks into; -1: text */
    bool match;    /* while a splitter works: a separator */
} fv_piece;

typedef struct fv_pretokenized {
    fv_ctx *ctx;
    const char *text;
    size_t bytes;
    uint32_t base;         /* without spans: where text[0] lies in the original */
    fv_token_span *span;   /* by byte; NULL: the text is the original's own bytes */
    fv_text own, next_own; /* changed text lives here */
    fv_token_span *spans, *next_spans;
    size_t span_room, next_span_room;
    fv_piece *pieces, *next_pieces;
    size_t count, room, next_count, next_room;
    fv_codepoints codepoints;
    fv_regex_run regex;
} fv_pretokenized;

void fv_pretokenized_init(fv_pretokenized *w, fv_ctx *ctx);
void fv_pretokenized_free(fv_pretokenized *w);

/* Begins with valid UTF-8 that lies at byte `base` of the original; one piece. */
fv_status fv_pretokenized_begin(fv_pretokenized *w, const char *text, size_t bytes, uint32_t base);
/* Normalizes the whole text. */
fv_status fv_pretokenized_normalize(fv_pretokenized *w, const fv_tokenizer *tok);
/* Splits every piece further. */
fv_status fv_pretokenized_split(fv_pretokenized *w, const fv_pre_tokenizer *split);

/* The bytes of the original that bytes [begin, end) of the text stand for: whole characters. */
fv_token_span fv_pretokenized_span(const fv_pretokenized *w, uint32_t begin, uint32_t end);

/* ---- for splitters --------------------------------------------------------------- */

/* Puts a piece of the next division, unless it is empty; then takes the division over. */
fv_status fv_pretokenized_push(fv_pretokenized *w, size_t begin, size_t end, bool match);
fv_status fv_pretokenized_push_piece(fv_pretokenized *w, fv_piece piece);
void fv_pretokenized_swap(fv_pretokenized *w);

#endif
