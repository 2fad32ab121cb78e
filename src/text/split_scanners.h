/*
 * Patterns that very many tokenizers split with, written out: a scanner says where the match ends
 * that begins at `at` of text[0, end). Their matches follow each other without a gap.
 */
#ifndef FV_TEXT_SPLIT_SCANNERS_H
#define FV_TEXT_SPLIT_SCANNERS_H

#include "fovea/unicode.h"

typedef size_t (*fv_split_scanner)(const char *text, size_t at, size_t end);

/* GPT-2: contractions, then letters, digits or others with a blank before them, then white space,
 * whose last blank goes to the next word. */
size_t fv_split_gpt2(const char *text, size_t at, size_t end);
/* cl100k, Llama 3: contractions in any case, letters with any one sign before them, up to three
 * digits, others with the line ends behind them, lines of white space. */
size_t fv_split_cl100k(const char *text, size_t at, size_t end);
/* Qwen: the same with digits one by one. */
size_t fv_split_qwen2(const char *text, size_t at, size_t end);

/* SentencePiece: up to the next mark of a blank. */
size_t fv_split_metaspace(const char *text, size_t at, size_t end);

/* The scanner of a pattern, or NULL. */
fv_split_scanner fv_split_scanner_find(fv_string pattern);

#endif
