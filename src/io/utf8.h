/* UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF. */
#ifndef FV_IO_UTF8_H
#define FV_IO_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the sequence at `text` (1 to 4), or 0 if it is not valid within n bytes. */
size_t fv_utf8_length(const char *text, size_t n);
bool fv_utf8_valid(const char *text, size_t n);
/* Writes a code point that is not a surrogate; returns its 1 to 4 bytes. */
size_t fv_utf8_put(uint32_t code, char out[4]);

enum { FV_QUOTED_BYTES = 96 };

/*
 * Text from a file, made fit for a message: at most 64 bytes are kept, control bytes become '?',
 * and a cut is shown by "...". Returns `out`.
 */
const char *fv_quote(const char *text, size_t n, char out[FV_QUOTED_BYTES]);

#endif
