/*
 * Hand-written scanners for split patterns that many tokenizers use. A scanner returns the end of
 * the match that begins at `at` of text[0, end). Matches leave no gaps.
 */
#ifndef FV_TEXT_SPLIT_SCANNERS_H
#define FV_TEXT_SPLIT_SCANNERS_H

#include "fovea/unicode.h"

typedef size_t (*fv_split_scanner)(const char *text, size_t at, size_t end);

/* GPT-2: contractions; letters, digits or others with an optional blank before them; white space,
 * except for the last blank before a word. */
size_t fv_split_gpt2(const char *text, size_t at, size_t end);
/* cl100k, Llama 3: contractions in any case, letters with one optional other character before them,
 * up to three digits, others with the line ends that follow, lines of white space. */
size_t fv_split_cl100k(const char *text, size_t at, size_t end);
/* Qwen: the same with single digits. */
size_t fv_split_qwen2(const char *text, size_t at, size_t end);

/* SentencePiece: up to the next U+2581. */
size_t fv_split_metaspace(const char *text, size_t at, size_t end);

/* The scanner of a pattern, or NULL. */
fv_split_scanner fv_split_scanner_find(fv_string pattern);

#endif
