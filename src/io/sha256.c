#include "io/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void add_block(uint32_t state[8], const unsigned char *data)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++, data += 4)
        w[i] = (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        const uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        const uint32_t t =
            s[7] + (rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25)) +
            choice + rounds[i] + w[i];
        const uint32_t u =
            (rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22)) + majority;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void fv_sha256_init(fv_sha256 *sum)
{
    /* The same of the square roots of the first eight primes. */
    *sum = (fv_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void fv_sha256_add(fv_sha256 *sum, const void *data, size_t n)
{
    const unsigned char *next = data;
    while (n > 0) {
        const size_t held = (size_t)(sum->bytes % 64);
        const size_t take = n < 64 - held ? n : 64 - held;
        memcpy(sum->block + held, next, take);
        if (held + take == 64) add_block(sum->state, sum->block);
        sum->bytes += take;
        next += take;
        n -= take;
    }
}

void fv_sha256_end(fv_sha256 *sum, unsigned char out[FV_SHA256_BYTES])
{
    static const unsigned char one_then_zeros[64] = {0x80};
    const uint64_t bits = sum->bytes * 8;
    const size_t held = (size_t)(sum->bytes % 64);
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    fv_sha256_add(sum, one_then_zeros, held < 56 ? 56 - held : 120 - held);
    fv_sha256_add(sum, length, sizeof length);
    for (int i = 0; i < FV_SHA256_BYTES; i++)
        out[i] = (unsigned char)(sum->state[i / 4] >> (24 - 8 * (i % 4)));
}

void fv_sha256_text(fv_sha256 *sum, char out[FV_SHA256_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[FV_SHA256_BYTES];
    fv_sha256_end(sum, bytes);
    for (int i = 0; i < FV_SHA256_BYTES; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * FV_SHA256_BYTES] = '\0';
}
