/*
 * Text from outside, made fit to be shown, and how much room it takes.
 */
#ifndef FV_LOOK_TEXT_H
#define FV_LOOK_TEXT_H

#include <stdint.h>

#include "fovea/look.h"

/*
 * The next code point of *text, which moves on; 0 at its end. Control characters become their
 * symbols (U+2400 ...); broken bytes, non-characters, C1 controls and marks that turn the writing
 * direction become U+FFFD. What comes out is safe in XML, in HTML and on a terminal.
 */
uint32_t fv_text_next(const char **text);

/* Columns of a code point on a terminal: 0 for combining marks, 2 for wide ones, else 1. */
int fv_text_columns(uint32_t code);

/* Columns of a whole text. */
int64_t fv_text_span(const char *text);

/* Whether a letter is written from right to left (Hebrew, Arabic and their neighbours), and whether
 * a text has one. */
bool fv_text_leftward(uint32_t code);
bool fv_text_any_leftward(const char *text);

/* Distance of wide letters that stand below each other, in font sizes. */
#define FV_STACK_PITCH 1.05

/* Whether all of a text is of wide letters, which can stand below each other: "\u56fe\u4e66". False
 * for "". */
bool fv_text_all_wide(const char *text);

enum { FV_LETTER_BYTES = 36 };

/*
 * The next letter of *text with the marks that belong to it, so that a text can be taken apart
 * without losing any; *text moves on. Indic vowel signs and consonants joined by a virama stay with
 * the letter before them as far as they fit in two columns. Returns its columns, 0 at the end.
 */
int fv_text_letter(const char **text, char letter[FV_LETTER_BYTES]);

/* Pixels a text is wide at a font size. PNG: exactly, as its font has it; else an estimate for
 * common sans-serif fonts that is rather too large than too small. */
double fv_text_width(fv_look_form form, const char *text, double size);

/* Labels longer than this many columns are cut, with an ellipsis as the last of them. */
enum { FV_LABEL_COLUMNS = 64, FV_LABEL_BYTES = 4 * FV_LABEL_COLUMNS * 4 + 8 };

/* `text` made fit to be shown, and cut with an ellipsis where it is wider than `most` pixels.
 * Returns `label`. */
const char *fv_text_fit(fv_look_form form, const char *text, double size, double most,
                        char label[FV_LABEL_BYTES]);

/* `text` (NULL: nothing) made fit to be shown, and cut. Returns `label`. */
const char *fv_text_label(const char *text, char label[FV_LABEL_BYTES]);

#endif
