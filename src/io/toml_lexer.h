/* The small parts of a TOML text: space, keys, strings, numbers. Each reader starts at scan->pos
 * and leaves it behind what it read. */
#ifndef FV_IO_TOML_TOKEN_H
#define FV_IO_TOML_TOKEN_H

#include "io/scan.h"

/* Spaces and tabs. */
void toml_skip_space(fv_scan *s);
/* Spaces, tabs, line ends and comments. */
fv_status toml_skip_lines(fv_scan *s);
/* What may stand behind a statement: space, a comment, then the end of the line or text. */
fv_status toml_end_of_line(fv_scan *s);

/* One part of a key: bare, "basic" or 'literal'. */
fv_status toml_key(fv_scan *s, fv_member *item);
/* A value that is neither array nor inline table. */
fv_status toml_scalar(fv_scan *s, fv_value *v);

#endif
