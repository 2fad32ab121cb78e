#include "look/display_text.h"

#include <string.h>

#include "io/utf8.h"
#include "look/font.h"
#include "look/helvetica.h"

enum { REPLACEMENT = 0xFFFD };

static uint32_t decode(const unsigned char *s, size_t length)
{
    static const unsigned char lead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = s[0] & lead[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (s[i] & 0x3Fu);
    return code;
}

/* Code points that must not be displayed unchanged. */
static bool is_unsafe(uint32_t code)
{
    return (code >= 0x7F && code < 0xA0) || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || (code >= 0xFDD0 && code <= 0xFDEF) ||
           (code & 0xFFFE) == 0xFFFE;
}

uint32_t fv_display_next(const char **text)
{
    const char *s = *text;
    if (*s == '\0') return 0;
    const size_t length = fv_utf8_length(s, strnlen(s, 4));
    *text = s + (length ? length : 1);
    if (length == 0) return REPLACEMENT;
    const uint32_t code = decode((const unsigned char *)s, length);
    if (code < 0x20) return 0x2400 + code;
    if (code == 0x7F) return 0x2421;
    return is_unsafe(code) ? REPLACEMENT : code;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool in_ranges(const range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

#define IN_RANGES(ranges, code) in_ranges(ranges, sizeof(ranges) / sizeof(ranges)[0], code)

/* By block, not by character: an error of one column only shifts a label. */
int fv_display_char_columns(uint32_t code)
{
    static const range marks[] = {
        {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
        {0x0670, 0x0670}, {0x06D6, 0x06DC}, {0x0900, 0x0902}, {0x093C, 0x093C}, {0x0941, 0x0948},
        {0x094D, 0x094D}, {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},
        {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    };
    static const range wide[] = {
        {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
        {0xF900, 0xFAFF},   {0xFE30, 0xFE4F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
        {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
    };
    if (code < 0x0300) return 1;
    return IN_RANGES(marks, code) ? 0 : IN_RANGES(wide, code) ? 2 : 1;
}

int64_t fv_display_columns(const char *text)
{
    int64_t columns = 0;
    for (uint32_t code; (code = fv_display_next(&text)) != 0;)
        columns += fv_display_char_columns(code);
    return columns;
}

bool fv_display_is_rtl(uint32_t code)
{
    static const range leftward[] = {{0x0590, 0x08FF},
                                     {0xFB1D, 0xFDFF},
                                     {0xFE70, 0xFEFC},
                                     {0x10800, 0x10FFF},
                                     {0x1E800, 0x1EFFF}};
    return IN_RANGES(leftward, code);
}

bool fv_display_has_rtl(const char *text)
{
    for (uint32_t code; (code = fv_display_next(&text)) != 0;)
        if (fv_display_is_rtl(code)) return true;
    return false;
}

bool fv_display_is_wide(const char *text)
{
    bool any = false;
    for (uint32_t code; (code = fv_display_next(&text)) != 0; any = true)
        if (fv_display_char_columns(code) != 2) return false;
    return any;
}

/* ---- clusters ---------------------------------------------------------------------- */

enum { ZERO_WIDTH_JOINER = 0x200D };

/* Each Indic script has 128 code points, with the same kinds of signs at the same offsets. */
static bool is_indic(uint32_t code) { return code >= 0x0900 && code <= 0x0D7F; }

static bool is_virama(uint32_t code) { return is_indic(code) && (code & 0x7F) == 0x4D; }

static bool is_indic_sign(uint32_t code)
{
    const uint32_t place = code & 0x7F;
    return is_indic(code) && (place <= 0x03 || place == 0x3C || (place >= 0x3E && place <= 0x4D) ||
                              (place >= 0x55 && place <= 0x57) || place == 0x62 || place == 0x63);
}

int fv_display_next_cluster(const char **text, char letter[FV_CLUSTER_BYTES])
{
    size_t used = 0;
    int columns = 0;
    uint32_t last = 0;
    for (const char *next = *text;; *text = next) {
        const uint32_t code = fv_display_next(&next);
        const int width = code ? fv_display_char_columns(code) : 0;
        const bool joined = width == 0 || is_indic_sign(code) || last == ZERO_WIDTH_JOINER ||
                            (is_virama(last) && is_indic(code));
        if (code == 0 || used + 4 >= FV_CLUSTER_BYTES) break;
        if (columns > 0 && (!joined || columns + width > 2)) break;
        used += fv_utf8_put(code, letter + used);
        columns += width;
        last = code;
    }
    letter[used] = '\0';
    return used > 0 && columns == 0 ? 1 : columns; /* a lone mark is displayed on a blank */
}

/* Width in ems in browsers' default fonts, of which DejaVu Sans is the widest. */
static double ems(uint32_t code)
{
    if (fv_display_char_columns(code) == 2) return FV_STACK_PITCH;
    if (fv_display_char_columns(code) == 0) return 0;
    if (code < 0x80 && strchr("iIjl.,:;'|!", (int)code)) return 0.37;
    if (code < 0x80 && strchr("frt()[]{}-/\\\" ", (int)code)) return 0.43;
    if (code < 0x80 && strchr("mwMW@%", (int)code)) return 1.0;
    if (code >= 'A' && code <= 'Z') return 0.76;
    return code < 0x0300 ? 0.64 : 0.8;
}

fv_status fv_typeface_open(fv_ctx *ctx, fv_look_format format, const char *path, fv_typeface *out)
{
    *out = (fv_typeface){.format = format};
    return path && format == FV_LOOK_FORMAT_PNG ? fv_font_file_open(ctx, path, &out->file) : FV_OK;
}

double fv_display_width(const fv_typeface *face, const char *text, double size)
{
    if (face->file) return fv_font_file_width(face->file, text, size);
    if (face->format == FV_LOOK_FORMAT_PNG) return fv_font_width(text, size);
    if (face->format == FV_LOOK_FORMAT_PDF) return fv_helvetica_text_width(text, size);
    double width = 0;
    for (uint32_t code; (code = fv_display_next(&text)) != 0;)
        width += ems(code);
    return width * size;
}

const char *fv_display_fit(const fv_typeface *face, const char *text, double size, double max,
                           char label[FV_LABEL_BYTES])
{
    static const char ellipsis[] = "\xE2\x80\xA6";
    const double room = max - fv_display_width(face, ellipsis, size);
    double width = 0;
    size_t used = 0, cut = 0;
    for (uint32_t code; (code = fv_display_next(&text)) != 0;) {
        char one[8] = "";
        const size_t bytes = fv_utf8_put(code, one);
        width += fv_display_width(face, one, size);
        if (width > max || used + bytes + sizeof ellipsis > FV_LABEL_BYTES) {
            memcpy(label + cut, ellipsis, sizeof ellipsis);
            return label;
        }
        memcpy(label + used, one, bytes);
        used += bytes;
        if (width <= room) cut = used;
    }
    label[used] = '\0';
    return label;
}

const char *fv_display_label(const char *text, char label[FV_LABEL_BYTES])
{
    /* Marks take no columns, so the bytes are bounded as well. */
    const size_t last = FV_LABEL_BYTES - 8;
    size_t used = 0, cut = 0;
    int64_t columns = 0;
    for (uint32_t code; text && (code = fv_display_next(&text)) != 0;) {
        columns += fv_display_char_columns(code);
        if (columns > FV_LABEL_COLUMNS || used > last - 4) {
            memcpy(label + cut, "\xE2\x80\xA6", 3);
            used = cut + 3;
            break;
        }
        used += fv_utf8_put(code, label + used);
        if (columns < FV_LABEL_COLUMNS) cut = used;
    }
    label[used] = '\0';
    return label;
}
