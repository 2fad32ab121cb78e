/*
 * The built-in font: small bitmaps of Latin, Greek and Cyrillic letters, drawn for this library.
 * Accented letters are composed of a letter and a mark; other characters appear as their code
 * point.
 *
 * A glyph has 12 rows: 0 to 2 for marks above capitals, 3 to 9 for capitals (small letters begin at
 * 5), the baseline below row 9, and 10 and 11 for descenders.
 */
#ifndef FV_LOOK_FONT_H
#define FV_LOOK_FONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FV_GLYPH_ROWS = 12, FV_GLYPH_BASE = 10, FV_GLYPH_CAPITAL = 3 };

typedef struct fv_glyph {
    int width;                    /* pixels, without the gap of one pixel after it */
    uint16_t rows[FV_GLYPH_ROWS]; /* bit x is pixel x from the left */
    bool combining;               /* a combining mark: drawn over the previous glyph */
} fv_glyph;

/* Rows from the top of the capitals down, separated by '/'; '#' is ink, anything else is not. */
typedef struct fv_glyph_drawing {
    uint32_t code;
    const char *rows;
} fv_glyph_drawing;

/* font_scripts.c: letters that are not Latin; and the letter that `code` looks like, or `code`
 * itself. */
extern const fv_glyph_drawing fv_font_scripts[];
extern const size_t fv_font_script_count;
uint32_t fv_font_lookalike(uint32_t code);

/* False if the font lacks the character. */
bool fv_font_glyph(uint32_t code, fv_glyph *out);

/* font_fallback.c: the glyph, or the code point as a block of small hexadecimal digits if the font
 * lacks it. Marks without a shape, such as joiners, have no ink. */
void fv_font_glyph_or_code(uint32_t code, fv_glyph *out);

/* The integer factor, at least 1, that enlarges the bitmaps to a font size in pixels. */
int fv_font_scale(double size);

/* Width of a text in pixels at a font size. */
double fv_font_width(const char *text, double size);

#endif
