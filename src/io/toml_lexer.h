/* TOML tokens: white space, keys, strings, numbers. Each function starts at parser->pos and
 * advances it past what it read. */
#ifndef FV_IO_TOML_LEXER_H
#define FV_IO_TOML_LEXER_H

#include "io/parser.h"

/* Spaces and tabs. */
void toml_skip_space(fv_parser *s);
/* Spaces, tabs, line ends and comments. */
fv_status toml_skip_lines(fv_parser *s);
/* The end of a statement: white space, a comment, then the end of the line or of the text. */
fv_status toml_expect_end_of_line(fv_parser *s);

/* One part of a key: bare, "basic" or 'literal'. */
fv_status toml_read_key(fv_parser *s, fv_member *item);
/* Any value except arrays and inline tables. */
fv_status toml_read_scalar(fv_parser *s, fv_value *v);

#endif
