/*
 * TOML 1.0 for recipes, without dates and arrays of tables ("[[x]]"): both are refused by name.
 * The result is the tree of io/document.h with an object at the root.
 *
 *     fv_doc *doc = NULL;
 *     fv_status s = fv_toml_parse(ctx, "date.toml", text, bytes, &doc);
 *     s = fv_doc_get_real(doc, fv_value_get(&doc->root, "train"), "rate", true, &rate);
 *
 * Keys given twice and tables defined twice are refused; errors name line and column; nesting is
 * bounded by fv_limits.json_depth and needs no stack. `text` is not needed afterwards.
 */
#ifndef FV_IO_TOML_H
#define FV_IO_TOML_H

#include "io/document.h"

/* `name` stands in messages only. Fails: FORMAT, LIMIT, UNSUPPORTED (dates, arrays of tables),
 * MEMORY; *out is untouched then. */
fv_status fv_toml_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes,
                        fv_doc **out);

/* Reads and parses a file. */
fv_status fv_toml_load(fv_ctx *ctx, const char *path, fv_doc **out);

#endif
