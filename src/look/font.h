/*
 * The built-in font: small bitmaps of Latin, Greek and Cyrillic letters, drawn for this library.
 * Letters with accents are put together from a letter and a mark; other characters are shown by
 * their number.
 *
 * A glyph stands in 12 rows: 0 to 2 for marks over capitals, 3 to 9 for capitals (small letters
 * begin at 5), the base line under row 9, 10 and 11 for what hangs below it.
 */
#ifndef FV_LOOK_FONT_H
#define FV_LOOK_FONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FV_GLYPH_ROWS = 12, FV_GLYPH_BASE = 10, FV_GLYPH_CAPITAL = 3 };

typedef struct fv_glyph {
    int width;                    /* pixels, without the gap of one to the next */
    uint16_t rows[FV_GLYPH_ROWS]; /* bit x is pixel x from the left */
    bool combining;               /* a combining mark: drawn over the glyph before it */
} fv_glyph;

/* Rows from the top of the capitals down, parted by '/'; '#' is ink, anything else is not. */
typedef struct fv_glyph_drawing {
    uint32_t code;
    const char *rows;
} fv_glyph_drawing;

/* font_scripts.c: letters that are not Latin, and the letter that another one looks like, or it
 * itself. */
extern const fv_glyph_drawing fv_font_scripts[];
extern const size_t fv_font_script_count;
uint32_t fv_font_lookalike(uint32_t code);

/* False if the font lacks the character. */
bool fv_font_glyph(uint32_t code, fv_glyph *out);

/* font_code.c: the glyph, or else the character's number as a block of small hexadecimal digits, so
 * that nothing is ever left out; marks without a format of their own, such as joiners, have no ink.
 */
void fv_font_glyph_or_code(uint32_t code, fv_glyph *out);

/* How many times the bitmaps are enlarged for a font size in pixels: 1 at least. */
int fv_font_scale(double size);

/* Width of a text in pixels at a font size. */
double fv_font_width(const char *text, double size);

#endif
