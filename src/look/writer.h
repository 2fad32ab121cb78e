/*
 * A growing output buffer. The single calls do not fail: `failed` is set once memory runs out, and
 * the end of the picture reports it.
 *
 *     fv_writer o = {.ctx = ctx};
 *     fv_writer_format(&o, "<text x='%n' fill='%c'>%t</text>", x, colour, label);
 *     if (o.failed) ...
 *     fv_writer_free(&o);
 *
 * Numbers do not depend on the locale, so that every machine writes the same bytes.
 */
#ifndef FV_LOOK_WRITER_H
#define FV_LOOK_WRITER_H

#include "base/ctx.h"

typedef struct fv_writer {
    fv_ctx *ctx;
    char *data;
    size_t bytes, room;
    bool failed; /* out of memory */
} fv_writer;

void fv_writer_free(fv_writer *o);
void fv_writer_bytes(fv_writer *o, const void *data, size_t n);
void fv_writer_text(fv_writer *o, const char *text); /* unchanged */
void fv_writer_markup(fv_writer *o,
                      const char *text); /* sanitised (display_text.h), escaped for XML */
void fv_writer_plain(fv_writer *o, const char *text);  /* sanitised (display_text.h) */
void fv_writer_script(fv_writer *o, const char *text); /* a JavaScript string inside <script> */
void fv_writer_base64(fv_writer *o, const void *data, size_t n);
void fv_writer_repeat(fv_writer *o, const char *text, int64_t times);

/* Copies `format`: %n formats a double (at most two decimals), %d an int, %c a colour, %s text
 * unchanged, %t text escaped as markup, %% a percent sign. */
void fv_writer_format(fv_writer *o, const char *format, ...);

enum { FV_FIXED_BYTES = 48 };

/* A decimal with `digits` (0 to 9) digits after the point; `trim` drops trailing zeros. Values from
 * 1e15 on become "inf" or "-inf", NaN "nan". Returns `text`. */
char *fv_fixed(double value, int digits, bool trim, char text[FV_FIXED_BYTES]);

/* A short decimal of about four digits: "0.031", "12.5", "4096", "2.5e-7". */
char *fv_short_number(double value, char text[FV_FIXED_BYTES]);

#endif
