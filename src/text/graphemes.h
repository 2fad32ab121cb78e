/*
 * Characters as a reader sees them: a letter and the marks on it (UAX 29, as far as characters of
 * less than six bytes need it: no rule for Hangul syllables, flags, emoji sequences and Indic
 * conjuncts, all of which are longer).
 */
#ifndef FV_TEXT_GRAPHEMES_H
#define FV_TEXT_GRAPHEMES_H

#include "text/codepoints.h"

/* The rune behind the character that begins at `begin`; *bytes is its length in UTF-8. */
size_t fv_grapheme_end(const fv_codepoints *r, size_t begin, size_t *bytes);

#endif
