/*
 * TOML 1.0 for recipes. Dates and arrays of tables ("[[x]]") are not supported. The result is a
 * document (io/document.h) with an object as its root.
 *
 *     fv_doc *doc = NULL;
 *     fv_status s = fv_toml_parse(ctx, "date.toml", text, bytes, &doc);
 *     s = fv_doc_get_real(doc, fv_value_get(&doc->root, "train"), "rate", true, &rate);
 *
 * Duplicate keys and tables are errors; messages have line and column. Nesting is bounded by
 * fv_limits.json_depth and uses no recursion. `text` may be freed afterwards.
 */
#ifndef FV_IO_TOML_H
#define FV_IO_TOML_H

#include "io/document.h"

/* Messages use `name`. Fails: FORMAT, LIMIT, UNSUPPORTED (dates, arrays of tables), MEMORY; *out is
 * then unchanged. */
fv_status fv_toml_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes,
                        fv_doc **out);

/* Reads and parses a file. */
fv_status fv_toml_load(fv_ctx *ctx, const char *path, fv_doc **out);

#endif
