/*
 * The letters of Helvetica, one of the fonts that every PDF viewer has: which characters it can
 * write, in the encoding WinAnsi, and how wide they are.
 */
#ifndef FV_LOOK_HELVETICA_H
#define FV_LOOK_HELVETICA_H

#include <stdint.h>

/* Height of a capital letter, in font sizes. */
#define FV_HELVETICA_CAPITAL 0.72

/* How much wider than the regular letters bold ones are, about. */
#define FV_HELVETICA_BOLD 1.07

/* The byte of a character; 0: the font lacks it. */
unsigned char fv_helvetica_byte(uint32_t code);

/* Width of the character of a byte, in font sizes. */
double fv_helvetica_width(unsigned char byte);

/* Width of a text in pixels at a font size, with the built-in font's glyphs for what Helvetica
 * lacks. */
double fv_helvetica_text_width(const char *text, double size);

#endif
