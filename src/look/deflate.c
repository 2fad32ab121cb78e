#include "look/deflate.h"

#include <string.h>

enum {
    HASH_BITS = 15,
    MIN_MATCH = 3, /* shortest match */
    MAX_MATCH = 258,
    WINDOW = 32768,
    BUFFER_BYTES = 512, /* size of the output buffer */
};

typedef struct bit_writer {
    fv_writer *out;
    uint64_t bits;
    unsigned count; /* pending bits, below 8 between calls */
    unsigned char piece[BUFFER_BYTES];
    size_t used;
} bit_writer;

static void flush(bit_writer *w)
{
    fv_writer_bytes(w->out, w->piece, w->used);
    w->used = 0;
}

static void put_bits(bit_writer *w, uint32_t value, unsigned count)
{
    w->bits |= (uint64_t)value << w->count;
    for (w->count += count; w->count >= 8; w->count -= 8, w->bits >>= 8) {
        w->piece[w->used++] = (unsigned char)w->bits;
        if (w->used == BUFFER_BYTES) flush(w);
    }
}

/* Huffman codes are written highest bit first. */
static void put_code(bit_writer *w, uint32_t code, unsigned count)
{
    uint32_t reversed = 0;
    for (unsigned i = 0; i < count; i++)
        reversed |= (code >> i & 1) << (count - 1 - i);
    put_bits(w, reversed, count);
}

/* The fixed code of a literal (0 to 255), the end (256) or a length (257 to 285). */
static void put_symbol(bit_writer *w, unsigned symbol)
{
    if (symbol < 144)
        put_code(w, 0x30 + symbol, 8);
    else if (symbol < 256)
        put_code(w, 0x190 + symbol - 144, 9);
    else if (symbol < 280)
        put_code(w, symbol - 256, 7);
    else
        put_code(w, 0xC0 + symbol - 280, 8);
}

/* Lengths and distances use the same scheme: a class, and extra bits for the offset in it. `steps`
 * is the number of classes per doubling (4 or 2); the first `plain` classes hold one value each. */
static unsigned class_of(unsigned value, unsigned steps, unsigned plain, unsigned *extra,
                         unsigned *rest)
{
    *extra = *rest = 0;
    if (value < plain) return value;
    unsigned top = 0; /* index of the highest bit */
    while (value >> (top + 1))
        top++;
    const unsigned per = steps == 4 ? 2 : 1;
    *extra = top - per;
    *rest = value & ((1u << *extra) - 1);
    return steps * (*extra + 1) + ((value >> *extra) & (steps - 1));
}

static void put_match(bit_writer *w, unsigned length, unsigned distance)
{
    unsigned extra, rest;
    if (length == MAX_MATCH) {
        put_symbol(w, 285);
    } else {
        const unsigned cls = class_of(length - MIN_MATCH, 4, 8, &extra, &rest);
        put_symbol(w, 257 + cls);
        put_bits(w, rest, extra);
    }
    const unsigned cls = class_of(distance - 1, 2, 4, &extra, &rest);
    put_code(w, cls, 5);
    put_bits(w, rest, extra);
}

static uint32_t hash_at(const unsigned char *p)
{
    const uint32_t three = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return three * 0x9E3779B1u >> (32 - HASH_BITS);
}

static size_t match_length(const unsigned char *a, const unsigned char *b, size_t max)
{
    size_t n = 0;
    while (n < max && a[n] == b[n])
        n++;
    return n;
}

typedef struct match {
    size_t length, distance;
} match;

static match match_at(const unsigned char *data, size_t i, size_t n, size_t distance)
{
    const size_t max = n - i < MAX_MATCH ? n - i : MAX_MATCH;
    return (match){match_length(data + i - distance, data + i, max), distance};
}

/* The longest match among the likely distances and the last position with the same three bytes.
 * `last` holds 1 + the newest position of each hash; 0: none. */
static match best_match(const unsigned char *data, size_t i, size_t n, const size_t likely[2],
                        size_t *last)
{
    match best = {0, 0};
    if (n - i < MIN_MATCH) return best;
    size_t *slot = &last[hash_at(data + i)];
    const size_t distances[] = {likely[0], likely[1], *slot ? i + 1 - *slot : 0};
    for (int k = 0; k < 3 && best.length < MAX_MATCH; k++) {
        if (distances[k] == 0 || distances[k] > i || distances[k] > WINDOW) continue;
        const match other = match_at(data, i, n, distances[k]);
        if (other.length > best.length) best = other;
    }
    *slot = i + 1;
    return best;
}

static void compress(bit_writer *w, const unsigned char *data, size_t n, const size_t likely[2],
                     size_t *last)
{
    for (size_t i = 0; i < n;) {
        const match found = best_match(data, i, n, likely, last);
        if (found.length >= MIN_MATCH) {
            put_match(w, (unsigned)found.length, (unsigned)found.distance);
            i += found.length;
        } else {
            put_symbol(w, data[i++]);
        }
    }
}

static uint32_t adler32(const unsigned char *data, size_t n)
{
    enum { PRIME = 65521, RUN = 5552 }; /* this many bytes cannot overflow 32 bits */
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < RUN ? n : i + RUN;
        for (; i < end; i++) {
            a += data[i];
            b += a;
        }
        a %= PRIME;
        b %= PRIME;
    }
    return b << 16 | a;
}

void fv_deflate(fv_writer *o, const unsigned char *data, size_t n, const size_t likely[2])
{
    const size_t room = sizeof(size_t) << HASH_BITS;
    size_t *last = fv_mem_zalloc(&o->ctx->mem, room);
    if (!last) {
        o->failed = true;
        return;
    }
    bit_writer w = {.out = o};
    put_bits(&w, 0x0178, 16); /* zlib: a window of 32 KiB, fastest */
    put_bits(&w, 3, 3);       /* the last block, fixed codes */
    compress(&w, data, n, likely, last);
    put_symbol(&w, 256);
    if (w.count > 0) put_bits(&w, 0, 8 - w.count);
    const uint32_t sum = adler32(data, n);
    for (int shift = 24; shift >= 0; shift -= 8)
        put_bits(&w, sum >> shift & 255, 8);
    flush(&w);
    fv_mem_free(&o->ctx->mem, last, room);
}
