/* Properties of code points beyond the public header. */
#ifndef FV_TEXT_UNICODE_DATA_H
#define FV_TEXT_UNICODE_DATA_H

#include "fovea/unicode.h"

enum { FV_CODES = 0x110000 };

/* How a code point affects a final sigma: it ends the word, is skipped, or is a cased letter. */
typedef enum fv_sigma_view { FV_SIGMA_STOPS, FV_SIGMA_SKIPS, FV_SIGMA_CASED } fv_sigma_view;

fv_sigma_view fv_unicode_sigma_view(uint32_t code);

/* Whether it can compose with the code point before it. */
bool fv_unicode_can_compose(uint32_t code);

/* The full decomposition: returns its length, 0 if there is none; *form points to the code points.
 * Hangul syllables are not in the tables. */
int fv_unicode_decompose(uint32_t code, bool compatible, const uint32_t **form);

/* The canonical composition of two code points, or 0. */
uint32_t fv_unicode_compose(uint32_t first, uint32_t second);

#endif
