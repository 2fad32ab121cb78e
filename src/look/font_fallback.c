/*
 * Shows characters that the built-in font lacks as their code point in hexadecimal: small digits in
 * two lines, two and two (three and three beyond U+FFFF).
 */
#include "look/font.h"

enum { DIGIT_ROWS = 5, DIGIT_STEP = 4, LOWER = 6, TOP = 1 };

/* 0 to F in 3 x 5 pixels; bit x of a row is pixel x from the left. */
static const uint8_t digits[16][DIGIT_ROWS] = {
    {7, 5, 5, 5, 7}, {2, 3, 2, 2, 7}, {7, 4, 7, 1, 7}, {7, 4, 6, 4, 7},
    {5, 5, 7, 4, 4}, {7, 1, 7, 4, 7}, {7, 1, 7, 5, 7}, {7, 4, 4, 2, 2},
    {7, 5, 7, 5, 7}, {7, 5, 7, 4, 7}, {2, 5, 7, 5, 5}, {3, 5, 3, 5, 3},
    {6, 1, 1, 1, 6}, {3, 5, 5, 5, 3}, {7, 1, 3, 1, 7}, {7, 1, 3, 1, 1},
};

/* Format characters that have no shape. */
static bool is_invisible(uint32_t code)
{
    return (code >= 0x200B && code <= 0x200F) || (code >= 0x2060 && code <= 0x2064) ||
           (code >= 0xFE00 && code <= 0xFE0F) || code == 0xFEFF;
}

static void draw_number(uint32_t code, fv_glyph *out)
{
    const int across = code > 0xFFFF ? 3 : 2;
    *out = (fv_glyph){.width = across * DIGIT_STEP - 1};
    for (int i = 0; i < 2 * across; i++) {
        const uint8_t *digit = digits[code >> (4 * (2 * across - 1 - i)) & 15];
        const int left = i % across * DIGIT_STEP, top = TOP + i / across * LOWER;
        for (int row = 0; row < DIGIT_ROWS; row++)
            out->rows[top + row] |= (uint16_t)(digit[row] << left);
    }
}

void fv_font_glyph_or_code(uint32_t code, fv_glyph *out)
{
    if (fv_font_glyph(code, out)) return;
    *out = (fv_glyph){.combining = true};
    if (!is_invisible(code)) draw_number(code, out);
}
