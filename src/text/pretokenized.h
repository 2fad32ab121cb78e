/*
 * The text between normalization and model (PreTokenizedString in Hugging Face's library): its
 * current bytes, their byte ranges in the original, and the pieces it is split into so far.
 */
#ifndef FV_TEXT_PRETOKENIZED_H
#define FV_TEXT_PRETOKENIZED_H

#include "text/tokenizer_pipeline.h"

/* A range of the current text. */
typedef struct fv_piece {
    uint32_t begin, end;
    int32_t token; /* an added token, which is never split; -1: text */
    bool match;    /* during a split: a separator */
} fv_piece;

typedef struct fv_pretokenized {
    fv_ctx *ctx;
    fv_text_budget budget; /* of the call */
    const char *text;
    size_t bytes;
    uint32_t base;         /* without spans: offset of text[0] in the original */
    fv_token_span *span;   /* by byte; NULL: the text is unchanged */
    fv_text own, next_own; /* changed text */
    fv_token_span *spans, *next_spans;
    size_t span_room, next_span_room;
    fv_piece *pieces, *next_pieces;
    size_t count, room, next_count, next_room;
    fv_codepoints codepoints;
    fv_regex_run regex;
} fv_pretokenized;

void fv_pretokenized_init(fv_pretokenized *w, fv_ctx *ctx);
void fv_pretokenized_free(fv_pretokenized *w);

/* Starts a call with `bytes` of text, in one or several parts. */
void fv_pretokenized_begin_call(fv_pretokenized *w, const fv_tokenizer *tok, size_t bytes);
/* Starts with one piece of valid UTF-8, which is at byte `base` of the original. */
fv_status fv_pretokenized_begin(fv_pretokenized *w, const char *text, size_t bytes, uint32_t base);
/* Normalizes the whole text. */
fv_status fv_pretokenized_normalize(fv_pretokenized *w, const fv_tokenizer *tok);
/* Splits every piece further. */
fv_status fv_pretokenized_split(fv_pretokenized *w, const fv_pre_tokenizer *split);

/* The range of the original, in whole characters, for bytes [begin, end) of the text. */
fv_token_span fv_pretokenized_span(const fv_pretokenized *w, uint32_t begin, uint32_t end);

/* ---- for pre-tokenizers ------------------------------------------------------------ */

/* Push pieces of the next split, ignoring empty ones; swap then makes it the current one. */
fv_status fv_pretokenized_push(fv_pretokenized *w, size_t begin, size_t end, bool match);
fv_status fv_pretokenized_push_piece(fv_pretokenized *w, fv_piece piece);
void fv_pretokenized_swap(fv_pretokenized *w);

#endif
