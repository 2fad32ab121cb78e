/*
 * Grapheme clusters: a letter with its marks (UAX 29). Only clusters of less than six bytes matter
 * here, so there are no rules for Hangul syllables, flags, emoji sequences and Indic conjuncts,
 * which are longer.
 */
#ifndef FV_TEXT_GRAPHEMES_H
#define FV_TEXT_GRAPHEMES_H

#include "text/codepoints.h"

/* The index after the cluster that begins at `begin`; *bytes is its length in UTF-8. */
size_t fv_grapheme_end(const fv_codepoints *r, size_t begin, size_t *bytes);

#endif
