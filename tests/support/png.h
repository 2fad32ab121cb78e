/*
 * A PNG reader for tests, independent of the writer: bitwise CRC, its own inflate (stored blocks
 * and fixed codes), Adler-32, row filters. It reads only 8-bit RGB files without interlacing.
 *
 *     png_image image;
 *     const char *wrong = png_decode(data, bytes, &image);   // NULL: all right
 *     free(image.rgb);
 */
#ifndef FV_TESTS_PNG_H
#define FV_TESTS_PNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct png_image {
    int64_t width, height;
    unsigned char *rgb; /* malloc'ed */
} png_image;

/* What is wrong with the file, or NULL. */
const char *png_decode(const void *data, size_t bytes, png_image *out);

/* 0xRRGGBB of a pixel. */
uint32_t png_pixel(const png_image *image, int64_t x, int64_t y);

/* Decompresses a zlib stream into exactly `room` bytes. What is wrong, or NULL. */
const char *zlib_unpack(const unsigned char *data, size_t bytes, unsigned char *out, size_t room);

/* base64 text up to a quote; returns malloc'ed bytes. */
unsigned char *base64_decode(const char *text, size_t *bytes);

#endif
