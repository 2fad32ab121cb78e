/* The man page, made from the option tables: fovea help --man. */
#include <string.h>

#include "fovea/context.h"
#include "help.h"
#include "output.h"

/* Text for roff: a backslash, a dash and a leading dot or quote would mean something else. */
static void roff(FILE *to, const char *text)
{
    bool line_start = true;
    for (const char *at = text; *at; at++) {
        if (line_start && (*at == '.' || *at == '\'')) fputs("\\&", to);
        if (*at == '\\')
            fputs("\\e", to);
        else if (*at == '-')
            fputs("\\-", to);
        else
            fputc(*at, to);
        line_start = *at == '\n';
    }
}

/* Paragraphs are separated by an empty line; lines that begin with a blank are examples and are not
 * wrapped. */
static void paragraphs(FILE *to, const char *text)
{
    bool example = false;
    fputs(".PP\n", to);
    while (*text) {
        const char *end = strchr(text, '\n');
        int length = end ? (int)(end - text) : (int)strlen(text);
        char line[256];
        cli_format(line, sizeof line, "%.*s", length, text);
        if (length > 0 && (line[0] == ' ') != example) {
            fputs(example ? ".fi\n" : ".nf\n", to);
            example = !example;
        }
        if (length == 0)
            fputs(".PP\n", to);
        else
            roff(to, line);
        if (length > 0) fputc('\n', to);
        text += length + (end ? 1 : 0);
    }
    if (example) fputs(".fi\n", to);
}

static void tagged(FILE *to, const char *term, const char *meaning)
{
    fputs(".TP\n.B ", to);
    roff(to, term);
    fputc('\n', to);
    roff(to, meaning);
    fputc('\n', to);
}

static void option_entry(FILE *to, const cli_option *option)
{
    char head[128], meaning[512];
    help_option_head(head, sizeof head, option);
    bool choices = option->type == CLI_CHOICE && option->metavar;
    cli_format(meaning, sizeof meaning, "%s%s%s%s%s%s", option->help, choices ? ": " : "",
               choices ? option->choices : "", option->default_value ? " (default " : "",
               option->default_value ? option->default_value : "",
               option->default_value ? ")" : "");
    tagged(to, head + strspn(head, " "), meaning);
}

static void verb_entry(FILE *to, const cli_verb *verb)
{
    char usage[256];
    help_usage(usage, sizeof usage, verb);
    fputs(".SS ", to);
    roff(to, usage);
    fputc('\n', to);
    roff(to, verb->about);
    fputs(".\n", to);
    if (verb->words.help) tagged(to, verb->words.metavar, verb->words.help);
    for (int i = 0; i < verb->option_count; i++)
        option_entry(to, &verb->options[i]);
    if (verb->notes) paragraphs(to, verb->notes);
}

void help_manual(FILE *to)
{
    fprintf(to, ".TH FOVEA 1 \"\" \"fovea %s\" \"User commands\"\n", fv_version());
    fprintf(to, ".SH NAME\nfovea \\- %s\n", help_tagline);
    fputs(".SH SYNOPSIS\n.B fovea\n.I COMMAND\n[\\fIOPTION\\fR]... [\\fIWORD\\fR]...\n", to);
    fputs(".SH DESCRIPTION\n", to);
    fputs("Results go to standard output, messages and progress to standard error.\n", to);
    fputs("Colours appear on a terminal only. Every command has \\fB\\-\\-help\\fR.\n", to);
    fputs(".SH COMMANDS\n", to);
    for (int i = 0; cli_verbs[i]; i++)
        verb_entry(to, cli_verbs[i]);
    fputs(".SH EXIT STATUS\n", to);
    for (const help_row *row = help_exit_codes; row->term; row++)
        tagged(to, row->term, row->meaning);
    fputs(".SH ENVIRONMENT\n", to);
    for (const help_row *row = help_environment; row->term; row++)
        tagged(to, row->term, row->meaning);
}
