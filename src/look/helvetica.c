#include "look/helvetica.h"

#include <stddef.h>

#include "look/display_text.h"
#include "look/font.h"

/* Bytes 0x80 to 0x9F that have a character, and their widths in 1/1000 of the font size. */
static const struct {
    uint16_t code;
    unsigned char byte;
    uint16_t width;
} others[] = {{0x20AC, 0x80, 556},  {0x201A, 0x82, 222},  {0x0192, 0x83, 556}, {0x201E, 0x84, 333},
              {0x2026, 0x85, 1000}, {0x2020, 0x86, 556},  {0x2021, 0x87, 556}, {0x02C6, 0x88, 333},
              {0x2030, 0x89, 1000}, {0x0160, 0x8A, 667},  {0x2039, 0x8B, 333}, {0x0152, 0x8C, 1000},
              {0x017D, 0x8E, 611},  {0x2018, 0x91, 222},  {0x2019, 0x92, 222}, {0x201C, 0x93, 333},
              {0x201D, 0x94, 333},  {0x2022, 0x95, 350},  {0x2013, 0x96, 556}, {0x2014, 0x97, 1000},
              {0x02DC, 0x98, 333},  {0x2122, 0x99, 1000}, {0x0161, 0x9A, 500}, {0x203A, 0x9B, 333},
              {0x0153, 0x9C, 944},  {0x017E, 0x9E, 500},  {0x0178, 0x9F, 667}};

/* Widths of the bytes 0x20 to 0x7E and 0xA0 to 0xFF. */
static const uint16_t ascii[] = {
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333,  278, 278, 556, 556, 556,
    556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667,
    611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722, 667,  611, 722, 667, 944, 667,
    667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278,  556, 556, 222, 222, 500,
    222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500,  500, 334, 260, 334, 584};
static const uint16_t latin[] = {
    278, 333, 556, 556, 556, 556, 260,  556, 333, 737, 370, 556, 584, 333, 737, 333,
    400, 584, 333, 333, 333, 556, 537,  278, 333, 333, 365, 556, 834, 834, 834, 611,
    667, 667, 667, 667, 667, 667, 1000, 722, 667, 667, 667, 667, 278, 278, 278, 278,
    722, 722, 778, 778, 778, 778, 778,  584, 778, 722, 722, 722, 722, 667, 667, 611,
    556, 556, 556, 556, 556, 556, 889,  500, 556, 556, 556, 556, 278, 278, 278, 278,
    556, 556, 556, 556, 556, 556, 556,  584, 611, 556, 556, 556, 556, 500, 556, 500};

unsigned char fv_helvetica_byte(uint32_t code)
{
    if ((code >= 0x20 && code <= 0x7E) || (code >= 0xA0 && code <= 0xFF))
        return (unsigned char)code;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].code == code) return others[i].byte;
    return 0;
}

double fv_helvetica_width(unsigned char byte)
{
    if (byte >= 0x20 && byte <= 0x7E) return ascii[byte - 0x20] / 1000.0;
    if (byte >= 0xA0) return latin[byte - 0xA0] / 1000.0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].byte == byte) return others[i].width / 1000.0;
    return 0;
}

double fv_helvetica_text_width(const char *text, double size)
{
    const double pixel = FV_HELVETICA_CAPITAL / (FV_GLYPH_BASE - FV_GLYPH_CAPITAL);
    double width = 0;
    for (uint32_t code; (code = fv_display_next(&text)) != 0;) {
        const unsigned char byte = fv_helvetica_byte(code);
        fv_glyph g;
        if (byte) {
            width += fv_helvetica_width(byte);
            continue;
        }
        fv_font_glyph_or_code(code, &g);
        if (!g.combining) width += (g.width + 1) * pixel;
    }
    return width * size;
}
