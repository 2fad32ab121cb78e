#include "help.h"

#include <string.h>

#include "output.h"

const char *const help_tagline = "attention in C";

const help_row help_exit_codes[] = {
    {"0", "done"},
    {"1", "failed"},
    {"2", "the command line is wrong"},
    {"3", "a file is missing, damaged or over a limit"},
    {"4", "a feature, device or data set is not available"},
    {"5", "training diverged"},
    {"130", "interrupted"},
    {NULL, NULL},
};

const help_row help_environment[] = {
    {"FOVEA_DATA", "the folder that holds public data sets (see 'fovea data list')"},
    {"NO_COLOR", "if set, output has no colours"},
    {NULL, NULL},
};

const char *help_value(const cli_option *option)
{
    if (option->type == CLI_FLAG) return "";
    if (option->metavar) return option->metavar;
    return option->choices ? option->choices : "VALUE";
}

void help_option_head(char *out, size_t bytes, const cli_option *option)
{
    char letter[8] = "    ";
    if (option->letter) cli_format(letter, sizeof letter, "-%c, ", option->letter);
    const char *value = help_value(option);
    cli_format(out, bytes, "%s--%s%s%s", letter, option->name, value[0] ? " " : "", value);
}

void help_usage(char *out, size_t bytes, const cli_verb *verb)
{
    const cli_words *words = &verb->words;
    const char *value = words->choices ? words->choices : words->metavar;
    bool optional = value && words->min == 0;
    cli_format(out, bytes, "%s [OPTION]...%s%s%s%s%s", verb->name, value ? " " : "",
               optional ? "[" : "", value ? value : "",
               value && words->max > 1 && !strchr(value, ' ') ? "..." : "", optional ? "]" : "");
}

void help_overview(FILE *to)
{
    fprintf(to, "fovea: %s\n\nUsage: fovea COMMAND [OPTION]... [WORD]...\n\n", help_tagline);
    cli_styled(to, CLI_BOLD, "Commands", 0);
    fputc('\n', to);
    for (int i = 0; cli_verbs[i]; i++)
        fprintf(to, "  %-10s %s\n", cli_verbs[i]->name, cli_verbs[i]->about);
    fputc('\n', to);
    cli_styled(to, CLI_BOLD, "Exit codes", 0);
    fputc('\n', to);
    for (const help_row *row = help_exit_codes; row->term; row++)
        fprintf(to, "  %-10s %s\n", row->term, row->meaning);
    fputs("\n'fovea COMMAND --help' explains a command.\n", to);
}

/* Prints one line of text that begins at a column; text past the width of a terminal continues in
 * the next line, indented by `indent`. */
static void print_folded(FILE *to, const char *text, int length, int column, int indent)
{
    enum { WIDTH = 80 };
    while (length > WIDTH - column) {
        int part = WIDTH - column;
        while (part > 0 && text[part] != ' ')
            part--;
        const bool blank = part > 0; /* else one long word, or a long list of choices */
        for (int i = WIDTH - column; part == 0 && i > 0; i--)
            if (text[i - 1] == '|') part = i;
        if (part == 0) break;
        fprintf(to, "%.*s\n%*s", part, text, indent, "");
        text += part + blank;
        length -= part + blank;
        column = indent;
    }
    fprintf(to, "%.*s\n", length, text);
}

/* Paragraphs are folded to the width of a terminal, whatever lines they are written in; a line that
 * begins with a blank is part of a table and is printed unchanged. */
static void print_notes(FILE *to, const char *notes)
{
    char paragraph[2048];
    while (*notes) {
        int length = (int)strcspn(notes, "\n");
        if (*notes == ' ' || length == 0) {
            fprintf(to, "%.*s\n", length, notes);
        } else {
            /* The next line belongs to it too, unless it is empty or indented. */
            while (notes[length] == '\n' && !strchr("\n ", notes[length + 1]))
                length += 1 + (int)strcspn(notes + length + 1, "\n");
            cli_format(paragraph, sizeof paragraph, "%.*s", length, notes);
            for (char *c = paragraph; (c = strchr(c, '\n'));)
                *c = ' ';
            print_folded(to, paragraph, (int)strlen(paragraph), 0, 0);
        }
        notes += length + (notes[length] == '\n');
    }
}

static void option_row(FILE *to, const cli_option *option)
{
    enum { COLUMN = 30 };
    char head[128], about[512];
    help_option_head(head, sizeof head, option);
    fprintf(to, "  %-*s", COLUMN - 2, head);
    if (strlen(head) > COLUMN - 4) fprintf(to, "\n%*s", COLUMN, "");
    const bool list = option->type == CLI_CHOICE && option->metavar, value = option->default_value;
    cli_format(about, sizeof about, "%s%s%s%s%s%s", option->help, list ? ": " : "",
               list ? option->choices : "", value ? " [" : "", value ? option->default_value : "",
               value ? "]" : "");
    print_folded(to, about, (int)strlen(about), COLUMN, COLUMN);
}

void help_verb(FILE *to, const cli_verb *verb)
{
    char usage[256];
    help_usage(usage, sizeof usage, verb);
    char line[512];
    fprintf(to, "fovea %s: %s\n\n", verb->name, verb->about);
    cli_format(line, sizeof line, "Usage: fovea %s", usage);
    print_folded(to, line, (int)strlen(line), 0, 13);
    if (verb->words.help) {
        cli_format(line, sizeof line, "%s: %s", verb->words.metavar, verb->words.help);
        fputs("\n  ", to);
        print_folded(to, line, (int)strlen(line), 2, 4);
    }
    if (verb->notes) {
        fputc('\n', to);
        print_notes(to, verb->notes);
    }
    fputc('\n', to);
    cli_styled(to, CLI_BOLD, "Options", 0);
    fputc('\n', to);
    static const cli_option help = {
        .name = "help", .letter = 'h', .type = CLI_FLAG, .help = "print this and exit"};
    for (int i = 0; i < verb->option_count; i++)
        option_row(to, &verb->options[i]);
    option_row(to, &help);
}

/* ---- the verb ------------------------------------------------------------------- */

static const cli_option options[] = {
    {.name = "man",
     .type = CLI_FLAG,
     .help = "print the man page (try 'fovea help --man | man -l -')"},
    {.name = "markdown", .type = CLI_FLAG, .help = "'help recipe' as tables for a page"},
    {.name = "completion",
     .type = CLI_CHOICE,
     .choices = "bash|zsh|fish",
     .metavar = "SHELL",
     .help = "print a completion script"},
};

static int run(const cli_call *call)
{
    const char *shell = cli_text(call, "completion");
    if (cli_flag(call, "man")) {
        help_manual(stdout);
        return CLI_DONE;
    }
    if (shell) {
        help_completion(stdout, shell);
        return CLI_DONE;
    }
    if (call->word_count == 0) {
        help_overview(stdout);
        return CLI_DONE;
    }
    if (strcmp(call->words[0], "recipe") == 0)
        return help_recipe(stdout, cli_flag(call, "markdown"));
    const cli_verb *verb = cli_find_verb(call->words[0]);
    if (!verb) return cli_unknown_verb(call->words[0]);
    help_verb(stdout, verb);
    return CLI_DONE;
}

const cli_verb verb_help = {
    .name = "help",
    .about = "explain a command; print the man page or shell completion",
    .words = {.metavar = "COMMAND",
              .type = CLI_STRING,
              .max = 1,
              .help = "a command to explain, or 'recipe' for every key of a recipe"},
    .options = options,
    .option_count = CLI_COUNT(options),
    .run = run,
};
