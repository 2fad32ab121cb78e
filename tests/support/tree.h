/* A parsed JSON or TOML tree as JSON text, to compare what a reader parsed. */
#ifndef FV_TESTS_TREE_H
#define FV_TESTS_TREE_H

#include "io/document.h"
#include "io/json_write.h"

/* Infinities and NaN, which TOML has, as strings. Depth is bounded by fv_limits.json_depth. */
void tree_write(fv_json_writer *w, const fv_value *v);

#endif
