/*
 * SHA-256 (FIPS 180-4), the checksum of published data sets.
 *
 *     fv_sha256 sum;
 *     fv_sha256_init(&sum);
 *     fv_sha256_add(&sum, data, n);         // any number of times
 *     char text[FV_SHA256_TEXT];
 *     fv_sha256_text(&sum, text);           // 64 lower-case hex digits; the sum cannot be reused
 */
#ifndef FV_IO_SHA256_H
#define FV_IO_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { FV_SHA256_BYTES = 32, FV_SHA256_TEXT = 65 };

typedef struct fv_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* added so far */
    unsigned char block[64];
} fv_sha256;

void fv_sha256_init(fv_sha256 *sum);
void fv_sha256_add(fv_sha256 *sum, const void *data, size_t n);
void fv_sha256_end(fv_sha256 *sum, unsigned char out[FV_SHA256_BYTES]);
void fv_sha256_text(fv_sha256 *sum, char out[FV_SHA256_TEXT]);

#endif
