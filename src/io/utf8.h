/* Strict UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef FV_IO_UTF8_H
#define FV_IO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at `text` (1 to 4 bytes), or 0 if it is invalid or longer than n bytes. */
size_t fv_utf8_length(const char *text, size_t n);
bool fv_utf8_valid(const char *text, size_t n);
/* Writes a code point that is not a surrogate; returns its length, 1 to 4 bytes. */
size_t fv_utf8_put(uint32_t code, char out[4]);

enum { FV_QUOTED_BYTES = 96 };

/*
 * Copies text from a file for use in a message: control bytes become '?', and text over 64 bytes is
 * truncated with "...". Returns `out`.
 */
const char *fv_quote(const char *text, size_t n, char out[FV_QUOTED_BYTES]);

#endif
