/*
 * Checked arithmetic. Every size that comes from a file, a shape or a caller is
 * computed here; each function returns false on overflow and leaves *out alone.
 */
#ifndef FV_BASE_CHECK_H
#define FV_BASE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool fv_checked_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool fv_checked_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Rounds up to a multiple of `align`, a power of two. */
static inline bool fv_checked_round_up(size_t a, size_t align, size_t *out)
{
    size_t r;
    if (!fv_checked_add_size(a, align - 1, &r)) return false;
    *out = r & ~(align - 1);
    return true;
}

static inline bool fv_checked_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool fv_checked_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

#endif
