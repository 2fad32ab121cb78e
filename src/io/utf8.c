#include "io/utf8.h"

#include <string.h>

size_t fv_utf8_length(const char *text, size_t n)
{
    if (n == 0) return 0;
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    size_t length;
    unsigned char low = 0x80, high = 0xBF; /* range of the second byte */
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        length = 2;
    } else if ((s[0] & 0xF0) == 0xE0) {
        length = 3;
        if (s[0] == 0xE0) low = 0xA0;  /* overlong below */
        if (s[0] == 0xED) high = 0x9F; /* surrogates above */
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        length = 4;
        if (s[0] == 0xF0) low = 0x90;
        if (s[0] == 0xF4) high = 0x8F; /* beyond U+10FFFF above */
    } else {
        return 0;
    }
    if (n < length || s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return length;
}

bool fv_utf8_valid(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t length = fv_utf8_length(text + i, n - i);
        if (length == 0) return false;
        i += length;
    }
    return true;
}

size_t fv_utf8_put(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

const char *fv_quote(const char *text, size_t n, char out[FV_QUOTED_BYTES])
{
    enum { KEPT = 64 };
    size_t used = 0, i = 0;
    while (i < n) {
        size_t length = fv_utf8_length(text + i, n - i);
        size_t step = length ? length : 1;
        if (used + step > KEPT) break;
        bool plain = length > 1 || (length == 1 && text[i] >= ' ' && text[i] != 0x7F);
        if (plain) {
            memcpy(out + used, text + i, step);
            used += step;
        } else {
            out[used++] = '?';
        }
        i += step;
    }
    memcpy(out + used, i < n ? "..." : "", i < n ? 4 : 1);
    return out;
}
