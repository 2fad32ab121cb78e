/*
 * Text from outside, made fit to be shown, and how much room it takes.
 */
#ifndef FV_LOOK_DISPLAY_TEXT_H
#define FV_LOOK_DISPLAY_TEXT_H

#include <stdint.h>

#include "fovea/look.h"

/*
 * The next code point of *text, which moves on; 0 at its end. Control characters become their
 * symbols (U+2400 ...); broken bytes, non-characters, C1 controls and marks that turn the writing
 * direction become U+FFFD. What comes out is safe in XML, in HTML and on a terminal.
 */
uint32_t fv_display_next(const char **text);

/* Columns of a code point on a terminal: 0 for combining marks, 2 for wide ones, else 1. */
int fv_display_char_columns(uint32_t code);

/* Columns of a whole text. */
int64_t fv_display_columns(const char *text);

/* Whether a letter is written from right to left (Hebrew, Arabic and their neighbours), and whether
 * a text has one. */
bool fv_display_is_rtl(uint32_t code);
bool fv_display_has_rtl(const char *text);

/* Distance of wide letters that stand below each other, in font sizes. */
#define FV_STACK_PITCH 1.05

/* Whether all of a text is of wide letters, which can stand below each other: "\u56fe\u4e66". False
 * for "". */
bool fv_display_is_wide(const char *text);

enum { FV_CLUSTER_BYTES = 36 };

/*
 * The next letter of *text with the marks that belong to it, so that a text can be taken apart
 * without losing any; *text moves on. Indic vowel signs and consonants joined by a virama stay with
 * the letter before them as far as they fit in two columns. Returns its columns, 0 at the end.
 */
int fv_display_next_cluster(const char **text, char letter[FV_CLUSTER_BYTES]);

/* Pixels a text is wide at a font size. PNG: exactly, as its font has it; else an estimate for
 * common sans-serif fonts that is rather too large than too small. */
double fv_display_width(fv_look_format format, const char *text, double size);

/* Labels longer than this many columns are cut, with an ellipsis as the last of them. */
enum { FV_LABEL_COLUMNS = 64, FV_LABEL_BYTES = 4 * FV_LABEL_COLUMNS * 4 + 8 };

/* `text` made fit to be shown, and cut with an ellipsis where it is wider than `most` pixels.
 * Returns `label`. */
const char *fv_display_fit(fv_look_format format, const char *text, double size, double max,
                           char label[FV_LABEL_BYTES]);

/* `text` (NULL: nothing) made fit to be shown, and cut. Returns `label`. */
const char *fv_display_label(const char *text, char label[FV_LABEL_BYTES]);

#endif
