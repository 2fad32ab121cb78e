#include "support/png.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- inflate --------------------------------------------------------------------- */

typedef struct bits {
    const unsigned char *data;
    size_t bytes, at; /* at: in bits */
    bool over;
} bits;

static unsigned take(bits *b, unsigned count)
{
    unsigned value = 0;
    for (unsigned i = 0; i < count; i++, b->at++) {
        if (b->at / 8 >= b->bytes) {
            b->over = true;
            return 0;
        }
        value |= (unsigned)(b->data[b->at / 8] >> (b->at % 8) & 1) << i;
    }
    return value;
}

static unsigned take_code(bits *b, unsigned count, unsigned code)
{
    for (unsigned i = 0; i < count; i++)
        code = code << 1 | take(b, 1);
    return code;
}

/* RFC 1951, 3.2.6, bit by bit. */
static unsigned take_symbol(bits *b)
{
    unsigned code = take_code(b, 7, 0);
    if (code <= 0x17) return 256 + code;
    code = take_code(b, 1, code);
    if (code >= 0x30 && code <= 0xBF) return code - 0x30;
    if (code >= 0xC0 && code <= 0xC7) return 280 + code - 0xC0;
    code = take_code(b, 1, code);
    return 144 + code - 0x190;
}

static const unsigned short length_base[] = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                             15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                             67, 83, 99, 115, 131, 163, 195, 227, 258};
static const unsigned char length_extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                             2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const unsigned short distance_base[] = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};

static const char *fixed_block(bits *b, unsigned char *out, size_t room, size_t *used)
{
    for (;;) {
        const unsigned symbol = take_symbol(b);
        if (b->over) return "the stream ends early";
        if (symbol == 256) return NULL;
        if (symbol < 256) {
            if (*used == room) return "more data than expected";
            out[(*used)++] = (unsigned char)symbol;
            continue;
        }
        if (symbol > 285) return "a length that does not exist";
        const size_t length = length_base[symbol - 257] + take(b, length_extra[symbol - 257]);
        const unsigned code = take_code(b, 5, 0);
        if (code > 29) return "a distance that does not exist";
        const size_t distance = distance_base[code] + take(b, code < 4 ? 0 : code / 2 - 1);
        if (distance > *used) return "a match before the beginning";
        if (length > room - *used) return "more data than expected";
        for (size_t i = 0; i < length; i++, (*used)++)
            out[*used] = out[*used - distance];
    }
}

static const char *stored_block(bits *b, unsigned char *out, size_t room, size_t *used)
{
    b->at = (b->at + 7) / 8 * 8;
    const unsigned n = take(b, 16), not_n = take(b, 16);
    if (b->over || (n ^ not_n) != 0xFFFF) return "a stored block with a wrong length";
    for (unsigned i = 0; i < n; i++) {
        if (*used == room) return "more data than expected";
        out[(*used)++] = (unsigned char)take(b, 8);
    }
    return b->over ? "the stream ends early" : NULL;
}

const char *zlib_unpack(const unsigned char *data, size_t bytes, unsigned char *out, size_t room)
{
    if (bytes < 6 || data[0] != 0x78 || (data[0] * 256 + data[1]) % 31 != 0)
        return "no zlib header";
    bits b = {.data = data, .bytes = bytes, .at = 16};
    size_t used = 0;
    for (bool last = false; !last;) {
        last = take(&b, 1);
        const unsigned kind = take(&b, 2);
        const char *wrong = kind == 0   ? stored_block(&b, out, room, &used)
                            : kind == 1 ? fixed_block(&b, out, room, &used)
                                        : "a block type that this reader does not support";
        if (wrong) return wrong;
    }
    if (used != room) return "less data than expected";
    b.at = (b.at + 7) / 8 * 8;
    unsigned long sum = 0, low = 1, high = 0;
    for (int i = 0; i < 4; i++)
        sum = sum << 8 | take(&b, 8);
    for (size_t i = 0; i < room; i++) {
        low = (low + out[i]) % 65521;
        high = (high + low) % 65521;
    }
    if (b.over || sum != (high << 16 | low)) return "a wrong Adler-32";
    return b.at / 8 == bytes ? NULL : "extra bytes after the stream";
}

/* ---- PNG ------------------------------------------------------------------------- */

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t crc_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? 0xEDB88320u ^ crc >> 1 : crc >> 1;
    }
    return ~crc;
}

static const char *unpack_rows(const unsigned char *data, size_t bytes, png_image *out)
{
    const size_t row = 3 * (size_t)out->width, room = (row + 1) * (size_t)out->height;
    unsigned char *rows = malloc(room);
    const char *wrong = zlib_unpack(data, bytes, rows, room);
    for (int64_t y = 0; !wrong && y < out->height; y++) {
        if (rows[(size_t)y * (row + 1)] != 0) wrong = "a filter that this reader does not support";
        memcpy(out->rgb + (size_t)y * row, rows + (size_t)y * (row + 1) + 1, row);
    }
    free(rows);
    return wrong;
}

/* One chunk at *at, which moves on: its type, data and CRC. */
static const char *next_chunk(const unsigned char *p, size_t bytes, size_t *at, const char *type,
                              const unsigned char **data, size_t *length)
{
    if (bytes - *at < 12) return "the file ends in a chunk";
    *length = big_endian(p + *at);
    if (*length > bytes - *at - 12) return "a chunk longer than the file";
    if (memcmp(p + *at + 4, type, 4) != 0) return "unexpected chunk";
    *data = p + *at + 8;
    if (crc_of(p + *at + 4, *length + 4) != big_endian(*data + *length)) return "a wrong CRC";
    *at += *length + 12;
    return NULL;
}

const char *png_decode(const void *data, size_t bytes, png_image *out)
{
    const unsigned char *p = data, *chunk;
    size_t at = 8, length;
    *out = (png_image){0};
    if (bytes < 8 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0) return "no PNG signature";
    const char *wrong = next_chunk(p, bytes, &at, "IHDR", &chunk, &length);
    if (wrong) return wrong;
    if (length != 13 || memcmp(chunk + 8, "\x08\x02\0\0\0", 5) != 0) return "not plain 8-bit RGB";
    out->width = big_endian(chunk);
    out->height = big_endian(chunk + 4);
    if (out->width < 1 || out->height < 1 || out->width * out->height > 1 << 28) return "its size";
    wrong = next_chunk(p, bytes, &at, "IDAT", &chunk, &length);
    if (wrong) return wrong;
    out->rgb = malloc(3 * (size_t)(out->width * out->height));
    wrong = unpack_rows(chunk, length, out);
    if (!wrong) wrong = next_chunk(p, bytes, &at, "IEND", &chunk, &length);
    if (!wrong && (length != 0 || at != bytes)) wrong = "data after the end";
    if (wrong) {
        free(out->rgb);
        out->rgb = NULL;
    }
    return wrong;
}

uint32_t png_pixel(const png_image *image, int64_t x, int64_t y)
{
    const unsigned char *p = image->rgb + 3 * (y * image->width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

unsigned char *base64_decode(const char *text, size_t *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n = strcspn(text, "\"");
    unsigned char *out = malloc(n + 1);
    unsigned value = 0, held = 0;
    *bytes = 0;
    for (size_t i = 0; i < n && text[i] != '='; i++) {
        const char *digit = memchr(digits, text[i], 64);
        value = value << 6 | (unsigned)(digit ? digit - digits : 0);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[(*bytes)++] = (unsigned char)(value >> held);
        }
    }
    return out;
}
