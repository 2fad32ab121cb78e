/*
 * Random damage to a file: flipped bits, truncation, parts that are cut out, repeated or taken from
 * another file, and lying lengths. A case is a number; the same number does the same damage.
 *
 *     damage_rng rng = damage_begin(number);
 *     size_t n = damage_file(&rng, data, bytes, other, other_bytes, out, room);
 */
#ifndef FV_TEST_DAMAGE_H
#define FV_TEST_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct damage_rng {
    uint64_t state;
} damage_rng;

damage_rng damage_begin(uint64_t number);
/* A number below n, which is not 0. */
size_t damage_pick(damage_rng *rng, size_t n);

/* Copies `data` to `out` with one to four kinds of damage; `other` is a file to take parts from.
 * Returns the length, at most `room`, which is at least `bytes`. */
size_t damage_file(damage_rng *rng, const void *data, size_t bytes, const void *other,
                   size_t other_bytes, unsigned char *out, size_t room);

#endif
