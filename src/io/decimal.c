#include "io/decimal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool fv_decimal_to_i64(const char *text, size_t n, int64_t *out)
{
    size_t i = 0;
    bool negative = n && text[0] == '-';
    if (n && (text[0] == '-' || text[0] == '+')) i++;
    if (i == n) return false;
    int64_t value = 0;
    for (; i < n; i++) {
        if (!is_digit(text[i])) return false;
        int64_t digit = text[i] - '0';
        if (!fv_checked_mul_i64(value, 10, &value)) return false;
        if (!fv_checked_add_i64(value, negative ? -digit : digit, &value)) return false;
    }
    *out = value;
    return true;
}

/* With an exponent beyond this, the number is zero or too large whatever its digits: no accepted
 * text has 2^40 of them. */
static const int64_t EXPONENT_BOUND = (int64_t)1 << 40;

static int64_t read_exponent(const char *text, size_t n)
{
    int64_t value = 0;
    bool negative = n && text[0] == '-';
    for (size_t i = n && !is_digit(text[0]); i < n; i++)
        if (value < EXPONENT_BOUND) value = value * 10 + (text[i] - '0');
    if (value > EXPONENT_BOUND) value = EXPONENT_BOUND;
    return negative ? -value : value;
}

bool fv_decimal_to_double(const char *text, size_t n, double *out)
{
    /* Rounding never needs more than 767 digits and whether any later digit is not zero; a final 1
     * represents those. */
    enum { DIGITS = 770 };
    char plain[DIGITS + 32];
    size_t used = 0, kept = 0, i = 0;
    int64_t exponent = 0;
    bool point = false, tail = false;

    if (n && (text[0] == '-' || text[0] == '+')) {
        if (text[0] == '-') plain[used++] = '-';
        i++;
    }
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            point = true;
            continue;
        }
        bool leading = kept == 0 && text[i] == '0';
        if (leading) {
            exponent -= point;
        } else if (kept < DIGITS) {
            plain[used++] = text[i];
            kept++;
            exponent -= point;
        } else {
            tail = tail || text[i] != '0';
            exponent += !point;
        }
    }
    if (i < n) exponent += read_exponent(text + i + 1, n - i - 1);
    if (kept == 0) plain[used++] = '0';
    if (tail) {
        plain[used++] = '1';
        exponent--;
    }
    /* Even with 770 digits, 10^-1200 is zero and 10^1200 too large. */
    if (exponent < -1200) exponent = -1200;
    if (exponent > 1200) exponent = 1200;
    snprintf(plain + used, sizeof plain - used, "e%d", (int)exponent);

    int saved = errno;
    double value = strtod(plain, NULL);
    errno = saved;
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

/* Splits "%.*e" into digits (no point, no trailing zeros) and exponent, for any decimal point. */
static size_t split(const char *text, char *digits, int *exponent)
{
    size_t count = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++)
        if (is_digit(*p)) digits[count++] = *p;
    *exponent = *p ? (int)read_exponent(p + 1, strlen(p + 1)) : 0;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return count;
}

size_t fv_double_to_decimal(double value, char out[FV_DECIMAL_BYTES])
{
    char text[48], digits[24];
    size_t count = 0;
    int exponent = 0;
    for (int precision = 14; precision <= 16; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(value));
        count = split(text, digits, &exponent);
        int scaled = exponent - (int)count + 1;
        int n = snprintf(text, sizeof text, "%.*se%d", (int)count, digits, scaled);
        double back = 0.0;
        if (n > 0 && fv_decimal_to_double(text, (size_t)n, &back) && back == fabs(value)) break;
    }
    const char *sign = signbit(value) ? "-" : "";
    int n;
    if (exponent >= -5 && exponent < 0) {
        n = snprintf(out, FV_DECIMAL_BYTES, "%s0.%.*s%.*s", sign, -exponent - 1, "0000", (int)count,
                     digits);
    } else if (exponent >= 0 && exponent < 17) {
        int whole = exponent + 1, have = (int)count < whole ? (int)count : whole;
        bool fraction = (int)count > whole;
        n = snprintf(out, FV_DECIMAL_BYTES, "%s%.*s%.*s.%.*s", sign, have, digits, whole - have,
                     "0000000000000000", fraction ? (int)count - whole : 1,
                     fraction ? digits + whole : "0");
    } else {
        n = snprintf(out, FV_DECIMAL_BYTES, "%s%c%s%.*se%d", sign, digits[0], count > 1 ? "." : "",
                     (int)count - 1, digits + 1, exponent);
    }
    return n > 0 ? (size_t)n : 0;
}
