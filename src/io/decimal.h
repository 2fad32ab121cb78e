/*
 * Decimal numbers, independent of the locale. The C library rounds correctly but uses the decimal
 * point of its locale, so it is only ever given an integer and an exponent.
 */
#ifndef FV_IO_DECIMAL_H
#define FV_IO_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [+-]digits. Returns false if it does not fit. */
bool fv_decimal_to_i64(const char *text, size_t n, int64_t *out);

/* [+-]digits[.digits][(e|E)[+-]digits], already validated. Returns false if it is too large for a
 * double. */
bool fv_decimal_to_double(const char *text, size_t n, double *out);

enum { FV_DECIMAL_BYTES = 32 };

/* The shortest of 15 to 17 digits that reads back as the same finite double, always with a '.' or
 * an exponent. Returns its length; `out` is NUL-terminated. */
size_t fv_double_to_decimal(double value, char out[FV_DECIMAL_BYTES]);

#endif
