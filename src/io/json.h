/*
 * Strict JSON (RFC 8259): valid UTF-8 without a byte order mark, no duplicate keys, no unpaired
 * surrogates, numbers that fit a double. The parser is iterative: fv_limits.json_depth bounds the
 * depth, not the stack.
 *
 *     fv_doc *doc = NULL;
 *     fv_status s = fv_json_parse(ctx, "config.json", text, bytes, &doc);
 *     // s == FV_ERR_FORMAT: fv_ctx_message is "config.json:3:14: expected ':', found ','"
 *
 * io/document.h has the functions to read the result. `text` may be freed afterwards.
 */
#ifndef FV_IO_JSON_H
#define FV_IO_JSON_H

#include "io/document.h"

/* Messages use `name`. Fails: FORMAT, LIMIT (text_bytes, json_depth, string_bytes),
 * MEMORY; *out is then unchanged. */
fv_status fv_json_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes,
                        fv_doc **out);

/* Reads and parses a file. */
fv_status fv_json_load(fv_ctx *ctx, const char *path, fv_doc **out);

#endif
