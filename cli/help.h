/* Help made from the option tables: text, man page, shell completion. */
#ifndef FOVEA_CLI_HELP_H
#define FOVEA_CLI_HELP_H

#include <stdio.h>

#include "options.h"

void help_overview(FILE *to);
void help_verb(FILE *to, const cli_verb *verb);

/* manual.c: the man page, in roff. completion.c: a script for "bash", "zsh" or "fish". */
void help_manual(FILE *to);
void help_completion(FILE *to, const char *shell);
/* help_recipe.c: the keys of a recipe, for a terminal or as the tables of docs/recipes.md. Returns
 * an exit code. */
int help_recipe(FILE *to, bool markdown);

/* Texts of both the overview and the manual. */
extern const char *const help_tagline;
typedef struct help_row {
    const char *term, *meaning;
} help_row;
extern const help_row help_exit_codes[];  /* ended by a NULL term */
extern const help_row help_environment[]; /* likewise */

/* "fovea bench [OPTION]... peak|gemm|ops" without the leading "fovea". */
void help_usage(char *out, size_t bytes, const cli_verb *verb);

/* "-t, --threads N": the left column of an option. */
void help_option_head(char *out, size_t bytes, const cli_option *option);

/* The value's name for the reader: the metavar, or the choices; "" for a flag. */
const char *help_value(const cli_option *option);

#endif
