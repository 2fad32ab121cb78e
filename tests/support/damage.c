#include "support/damage.h"

#include <stdbool.h>
#include <string.h>

static uint64_t next(damage_rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

damage_rng damage_begin(uint64_t number)
{
    damage_rng rng = {number * 0xD1342543DE82EF95u + 1};
    return rng;
}

size_t damage_pick(damage_rng *rng, size_t n) { return (size_t)(next(rng) % n); }

/* Mostly short, now and then long. */
static size_t pick_length(damage_rng *rng, size_t most)
{
    const size_t n = 1 + damage_pick(rng, damage_pick(rng, 4) ? 16 : 4096);
    return n < most ? n : most;
}

static void flip_bits(damage_rng *rng, unsigned char *out, size_t n)
{
    for (size_t i = 1 + damage_pick(rng, 8); i > 0; i--)
        out[damage_pick(rng, n)] ^= (unsigned char)(1u << damage_pick(rng, 8));
}

static void set_bytes(damage_rng *rng, unsigned char *out, size_t n)
{
    static const unsigned char values[] = {0x00, 0x7F, 0x80, 0xFF, '"', '{', '[', '\n'};
    for (size_t i = 1 + damage_pick(rng, 4); i > 0; i--)
        out[damage_pick(rng, n)] = values[damage_pick(rng, sizeof values)];
}

/* A binary length or offset: two, four or eight bytes become a large, small or nearby number. */
static void lie_binary(damage_rng *rng, unsigned char *out, size_t n)
{
    static const uint64_t values[] = {0,
                                      1,
                                      0x7F,
                                      0xFFFF,
                                      0x7FFFFFFF,
                                      0xFFFFFFFF,
                                      0x100000000u,
                                      0x4000000000000000u,
                                      UINT64_MAX,
                                      UINT64_MAX - 7};
    const size_t width = (size_t)2 << damage_pick(rng, 3);
    if (n < width) return;
    const size_t at = damage_pick(rng, n - width + 1);
    uint64_t value = values[damage_pick(rng, sizeof values / sizeof *values)];
    if (damage_pick(rng, 3) == 0) { /* what is there, a little more or less */
        value = 0;
        memcpy(&value, out + at, width);
        value += damage_pick(rng, 33) - 16;
    }
    memcpy(out + at, &value, width);
}

static size_t move_tail(unsigned char *out, size_t n, size_t at, size_t cut, size_t grow,
                        size_t room)
{
    if (n - cut + grow > room) grow = room - (n - cut);
    memmove(out + at + grow, out + at + cut, n - at - cut);
    return n - cut + grow;
}

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }

/* The same for a number in a text: the run of digits that follows a random place. */
static size_t lie_decimal(damage_rng *rng, unsigned char *out, size_t n, size_t room)
{
    static const char *const values[] = {"0",          "1",         "65536",
                                         "2147483648", "-1",        "9223372036854775807",
                                         "1e308",      "999999999", "18446744073709551616"};
    const char *text = values[damage_pick(rng, sizeof values / sizeof *values)];
    size_t at = damage_pick(rng, n), cut = 0, length = strlen(text);
    while (at < n && !is_digit(out[at]))
        at++;
    while (at + cut < n && is_digit(out[at + cut]))
        cut++;
    if (cut == 0 || n - cut + length > room) return n;
    n = move_tail(out, n, at, cut, length, room);
    memcpy(out + at, text, length);
    return n;
}

/* Cuts a part out, repeats it, or puts a part of another file in its place. */
static size_t splice(damage_rng *rng, unsigned char *out, size_t n, size_t room,
                     const unsigned char *other, size_t other_bytes)
{
    unsigned char part[4096];
    const bool foreign = other_bytes > 0 && damage_pick(rng, 2) == 0;
    const unsigned char *from = foreign ? other : out;
    const size_t all = foreign ? other_bytes : n, start = damage_pick(rng, all);
    size_t length = pick_length(rng, all - start);
    const size_t at = damage_pick(rng, n), cut = damage_pick(rng, 2) ? pick_length(rng, n - at) : 0;
    memcpy(part, from + start, length);
    if (damage_pick(rng, 3) == 0) length = 0;
    if (n - cut + length > room) length = room - (n - cut);
    n = move_tail(out, n, at, cut, length, room);
    memcpy(out + at, part, length);
    return n;
}

size_t damage_file(damage_rng *rng, const void *data, size_t bytes, const void *other,
                   size_t other_bytes, unsigned char *out, size_t room)
{
    size_t n = bytes;
    memcpy(out, data, n);
    const size_t kinds = damage_pick(rng, 2) ? 1 : 1 + damage_pick(rng, 4);
    for (size_t i = kinds; i > 0 && n > 0; i--) {
        switch (damage_pick(rng, 8)) {
        case 0:
        case 1:
            flip_bits(rng, out, n);
            break;
        case 2:
            set_bytes(rng, out, n);
            break;
        case 3:
            lie_binary(rng, out, n);
            break;
        case 4:
            n = lie_decimal(rng, out, n, room);
            break;
        case 5:
        case 6:
            n = splice(rng, out, n, room, other, other_bytes);
            break;
        default:
            n = damage_pick(rng, n);
            break;
        }
    }
    /* The damage may have undone itself. */
    if (n == bytes && n > 0 && memcmp(out, data, n) == 0) out[damage_pick(rng, n)] ^= 1;
    return n;
}
