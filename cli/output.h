/*
 * Everything the program prints. Results go to stdout; messages and progress to stderr, each line
 * prefixed with "fovea: ". Text from files is escaped, so that it cannot control the terminal.
 */
#ifndef FOVEA_CLI_OUTPUT_H
#define FOVEA_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fovea/context.h"

/* An error, and a note that adds to an error or to a result. */
void cli_error(const char *fmt, ...) FV_PRINTF(1, 2);
void cli_note(const char *fmt, ...) FV_PRINTF(1, 2);

/* Prints the library's warnings; for fv_ctx_config.log. */
void cli_log(void *user, fv_log_level level, const char *text);

/* snprintf that always terminates the text and returns nothing. */
void cli_format(char *out, size_t bytes, const char *fmt, ...) FV_PRINTF(3, 4);

/* Seconds of a monotonic clock. */
double cli_now(void);

/* The exit code for a status. */
int cli_exit_code(fv_status status);

/* ---- colour --------------------------------------------------------------------- */

typedef enum cli_style { CLI_PLAIN, CLI_BOLD, CLI_DIM, CLI_GREEN, CLI_YELLOW, CLI_RED } cli_style;

/* True on a terminal unless NO_COLOR is set or TERM is "dumb". */
bool cli_colour(FILE *to);

/* True if the locale's encoding is UTF-8. Read from LC_ALL, LC_CTYPE and LANG as they are: a locale
 * need not be installed for a terminal to show its characters. */
bool cli_utf8(void);

/* Prints text in a style where colours are on, padded with blanks to `width` columns. */
void cli_styled(FILE *to, cli_style style, const char *text, int width);

/* ---- text from outside ---------------------------------------------------------- */

/* Prints UTF-8 text with control characters and broken bytes as \xNN. Returns its columns,
 * counting one for each code point. */
int cli_safe_text(FILE *to, const char *text);

/* "1.5 MiB" and the like. */
void cli_bytes_text(char out[24], uint64_t bytes);

/* ---- JSON ----------------------------------------------------------------------- */

/*
 *     cli_json j = {.to = stdout};
 *     cli_json_open(&j, NULL, '{');
 *     cli_json_text(&j, "name", name);
 *     cli_json_close(&j, '}');        // the outermost one ends the line
 *
 * key is NULL inside arrays. Broken UTF-8 becomes U+FFFD; numbers that are not finite, null.
 */
typedef struct cli_json {
    FILE *to;
    bool comma; /* the next entry needs one before it */
    int depth;
} cli_json;

void cli_json_open(cli_json *j, const char *key, char bracket);
void cli_json_close(cli_json *j, char bracket);
void cli_json_text(cli_json *j, const char *key, const char *text); /* NULL text: null */
void cli_json_int(cli_json *j, const char *key, int64_t value);
void cli_json_size(cli_json *j, const char *key, uint64_t value);
void cli_json_real(cli_json *j, const char *key, double value);  /* six significant digits */
void cli_json_exact(cli_json *j, const char *key, double value); /* reads back bit for bit */
void cli_json_bool(cli_json *j, const char *key, bool value);

#endif
