/*
 * fovea/unicode.h: categories of code points, lower case and the four normal forms (Unicode 15.1).
 * The tables are part of the library; nothing depends on the locale.
 *
 *     fv_text out = {0};                                   // empty; each call reuses its memory
 *     s = fv_text_normalize(ctx, "ﬁn", strlen("ﬁn"), FV_NORMAL_FORM_NFKC, &out);
 *     // FV_OK: out.data is "fin", out.bytes is 3
 *     s = fv_text_lower(ctx, out.data, out.bytes, &other);
 *     fv_text_free(ctx, &out);
 *
 *     puts(fv_category_name(fv_unicode_category(0x3B1)));         // "Ll": a lower-case letter
 *
 * Texts are UTF-8 and need not be NUL-terminated; invalid UTF-8 fails with FV_ERR_FORMAT. The
 * functions of one code point need no context and may be called from any thread; they treat numbers
 * past U+10FFFF as unassigned.
 */
#ifndef FOVEA_UNICODE_H
#define FOVEA_UNICODE_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- strings -------------- ---------------------------------------------------- */

/*
 * A string buffer owned by the context. Initialise it with {0}. A call that fills it replaces the
 * content and reuses the memory; release it with fv_text_free before the context is destroyed.
 * `data` is NUL-terminated.
 */
typedef struct fv_text {
    char *data;
    size_t bytes;
    size_t capacity; /* of `data`, in bytes */
} fv_text;

FV_API void fv_text_free(fv_ctx *ctx, fv_text *text);

/* A string view: not owned, not modified, not necessarily NUL-terminated. */
typedef struct fv_string {
    const char *text;
    size_t bytes;
} fv_string;

/* ---- code points -------------------------------------------------------------- */

/* The general categories of Unicode; the first letter of a name is the group: letter, mark, number,
 * punctuation, symbol, separator (Z) and other (C). */
typedef enum fv_category {
    FV_CATEGORY_CN, /* unassigned */
    FV_CATEGORY_CC,
    FV_CATEGORY_CF,
    FV_CATEGORY_CO,
    FV_CATEGORY_CS,
    FV_CATEGORY_LL,
    FV_CATEGORY_LM,
    FV_CATEGORY_LO,
    FV_CATEGORY_LT,
    FV_CATEGORY_LU,
    FV_CATEGORY_MC,
    FV_CATEGORY_ME,
    FV_CATEGORY_MN,
    FV_CATEGORY_ND,
    FV_CATEGORY_NL,
    FV_CATEGORY_NO,
    FV_CATEGORY_PC,
    FV_CATEGORY_PD,
    FV_CATEGORY_PE,
    FV_CATEGORY_PF,
    FV_CATEGORY_PI,
    FV_CATEGORY_PO,
    FV_CATEGORY_PS,
    FV_CATEGORY_SC,
    FV_CATEGORY_SK,
    FV_CATEGORY_SM,
    FV_CATEGORY_SO,
    FV_CATEGORY_ZL,
    FV_CATEGORY_ZP,
    FV_CATEGORY_ZS,
    FV_CATEGORY_COUNT
} fv_category;

/*
 * A search key: words in lower case, without accents, one blank between them.
 *
 *     for (int64_t i = 0; i < count; i++) {                       // decomposed (NFD) code points
 *         uint32_t lower[2];
 *         const uint32_t c = codes[i];
 *         if (fv_unicode_is_letter(c) || fv_unicode_is_number(c)) {
 *             const int n = fv_unicode_lower(c, lower);
 *             for (int j = 0; j < n; j++) append(lower[j]);
 *         } else if (fv_unicode_is_space(c) || fv_unicode_is_punctuation(c)) {
 *             append(' ');
 *         } else if (!(fv_unicode_is_mark(c) && fv_unicode_combining(c) == 230)) {
 *             append(c);                                          // 230: a mark above the letter
 *         }
 *     }
 */
FV_API fv_category fv_unicode_category(uint32_t code);
/* "Lu", "Nd", ...; "Cn" for a value outside the enum. Never NULL. */
FV_API const char *fv_category_name(fv_category category);

FV_API bool fv_unicode_is_letter(uint32_t code);      /* L* */
FV_API bool fv_unicode_is_mark(uint32_t code);        /* M* */
FV_API bool fv_unicode_is_number(uint32_t code);      /* N* */
FV_API bool fv_unicode_is_punctuation(uint32_t code); /* P* */
FV_API bool fv_unicode_is_space(uint32_t code);       /* White_Space: Z*, U+9 to U+D, U+85 */

/* The canonical combining class: 0 for starters. */
FV_API int fv_unicode_combining(uint32_t code);

/* Lower case of a code point without context: one code point, or two for U+0130. Returns how many.
 */
FV_API int fv_unicode_lower(uint32_t code, uint32_t out[2]);

/* ---- whole texts ----------------------------------------------------------------- */

typedef enum fv_normal_form {
    FV_NORMAL_FORM_NFC,  /* composed: what most text already is */
    FV_NORMAL_FORM_NFD,  /* decomposed: letters and marks are separate code points */
    FV_NORMAL_FORM_NFKC, /* composed, with ligatures, full width and superscripts replaced */
    FV_NORMAL_FORM_NFKD
} fv_normal_form;

/*
 * Writes the normal form of `text`. `out` must not overlap `text`.
 * Fails: FORMAT, LIMIT (4 GiB or more), ARGUMENT (unknown form), MEMORY; *out is then unchanged.
 */
FV_API FV_MUST_USE fv_status fv_text_normalize(fv_ctx *ctx, const char *text, size_t bytes,
                                               fv_normal_form form, fv_text *out);

/* Writes `text` in lower case; a capital sigma at the end of a word becomes a final sigma. Fails
 * like fv_text_normalize. */
FV_API FV_MUST_USE fv_status fv_text_lower(fv_ctx *ctx, const char *text, size_t bytes,
                                           fv_text *out);

#ifdef __cplusplus
}
#endif
#endif
