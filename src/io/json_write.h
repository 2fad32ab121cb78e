/*
 * Writes compact JSON into memory. The single calls do not fail: the writer keeps the first error,
 * and fv_json_end returns it.
 *
 *     fv_json_writer w;
 *     fv_json_begin(&w, ctx);
 *     fv_json_open(&w, '{');
 *     fv_json_key(&w, "step");
 *     fv_json_int(&w, 12);
 *     fv_json_close(&w, '}');
 *     s = fv_json_save(&w, "states.json");   // or fv_json_end: FV_OK: w.text, w.bytes
 *     fv_json_free(&w);
 */
#ifndef FV_IO_JSON_WRITE_H
#define FV_IO_JSON_WRITE_H

#include "base/ctx.h"

typedef struct fv_json_writer {
    fv_ctx *ctx;
    char *text; /* not NUL-terminated */
    size_t bytes, room;
    bool comma; /* write one before the next item */
    fv_status status;
} fv_json_writer;

void fv_json_begin(fv_json_writer *w, fv_ctx *ctx);
/* Returns the first error: MEMORY, or ARGUMENT for invalid UTF-8 or a number that is not finite. */
fv_status fv_json_end(fv_json_writer *w);
/* Ends the document and writes it to a file, atomically. Also fails with IO. */
fv_status fv_json_save(fv_json_writer *w, const char *path);
void fv_json_free(fv_json_writer *w);

void fv_json_open(fv_json_writer *w, char bracket);  /* '{' or '[' */
void fv_json_close(fv_json_writer *w, char bracket); /* '}' or ']' */
void fv_json_key(fv_json_writer *w, const char *key);
void fv_json_key_n(fv_json_writer *w, const char *key, size_t n);
void fv_json_string(fv_json_writer *w, const char *text);
void fv_json_string_n(fv_json_writer *w, const char *text, size_t n);
void fv_json_int(fv_json_writer *w, int64_t value);
void fv_json_real(fv_json_writer *w, double value); /* finite; reads back exactly */
void fv_json_bool(fv_json_writer *w, bool value);
void fv_json_null(fv_json_writer *w);
/* Writes bytes unchanged, e.g. padding. */
void fv_json_raw(fv_json_writer *w, const char *text, size_t n);

#endif
