/*
 * Text as code points with their byte ranges in the original, the form in which it is normalized.
 * Every step rewrites the whole text; `begin` and `end` always refer to the original.
 *
 *     fv_codepoints r;
 *     fv_codepoints_init(&r, ctx);
 *     s = fv_codepoints_decode(&r, text, bytes);
 *     if (s == FV_OK) s = fv_codepoints_normalize(&r, FV_NORMAL_FORM_NFC);
 *     if (s == FV_OK) s = fv_codepoints_encode(&r, &out);
 *     fv_codepoints_free(&r);
 *
 * All calls except init and free fail with MEMORY; decode also with FORMAT and LIMIT, push with
 * LIMIT.
 */
#ifndef FV_TEXT_CODEPOINTS_H
#define FV_TEXT_CODEPOINTS_H

#include "base/ctx.h"
#include "fovea/unicode.h"
#include "text/budget.h"

typedef struct fv_codepoint {
    uint32_t code;
    uint32_t begin, end; /* byte range in the original */
} fv_codepoint;

typedef struct fv_codepoints {
    fv_ctx *ctx;
    fv_codepoint *items;
    size_t count, room;
    fv_codepoint *next; /* the next text, while a step writes it */
    size_t next_count, next_room;
    fv_text_budget *budget; /* of the call, bounds the next text; NULL: none */
    /* Code points that normalization leaves as they are though our tables decompose them; NULL:
     * none. */
    bool (*keeps)(uint32_t code, bool compatible);
} fv_codepoints;

void fv_codepoints_init(fv_codepoints *r, fv_ctx *ctx);
void fv_codepoints_free(fv_codepoints *r);

/* Decodes valid UTF-8 of less than 4 GiB. */
fv_status fv_codepoints_decode(fv_codepoints *r, const char *text, size_t bytes);
fv_status fv_codepoints_encode(const fv_codepoints *r, fv_text *out);

/* A step pushes each code point of the next text, then swaps to make it the current one. */
fv_status fv_codepoints_push(fv_codepoints *r, fv_codepoint point);
void fv_codepoints_swap(fv_codepoints *r);

fv_status fv_codepoints_normalize(fv_codepoints *r, fv_normal_form form);
/* `whole`: a final sigma depends on the letters around it; otherwise code points are mapped one by
 * one, as Hugging Face's library does. */
fv_status fv_codepoints_lower(fv_codepoints *r, bool whole);

/* Reserves memory for `bytes` and a NUL. */
fv_status fv_text_reserve(fv_ctx *ctx, fv_text *text, size_t bytes);
/* Appends bytes and a terminating NUL. */
fv_status fv_text_append(fv_ctx *ctx, fv_text *text, const char *bytes, size_t n);

/* True if the text is already normalized, as far as a check of single code points can tell. */
bool fv_text_is_normal(const char *text, size_t bytes, fv_normal_form form);

/* The code point of a valid sequence of `length` bytes. */
static inline uint32_t fv_code_of(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 1) return s[0];
    if (length == 2) return (uint32_t)(s[0] & 0x1F) << 6 | (s[1] & 0x3Fu);
    if (length == 3)
        return (uint32_t)(s[0] & 0x0F) << 12 | (uint32_t)(s[1] & 0x3F) << 6 | (s[2] & 0x3Fu);
    return (uint32_t)(s[0] & 0x07) << 18 | (uint32_t)(s[1] & 0x3F) << 12 |
           (uint32_t)(s[2] & 0x3F) << 6 | (s[3] & 0x3Fu);
}

/* Length of a code point in UTF-8. */
static inline size_t fv_code_bytes(uint32_t code)
{
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/* Length of the sequence that starts with this byte, in valid UTF-8. */
static inline size_t fv_lead_length(char lead)
{
    unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

#endif
