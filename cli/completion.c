/*
 * Completion scripts, made from the option tables: fovea help --completion SHELL. The scripts do
 * not run the program: they contain all options and choices.
 */
#include <ctype.h>
#include <string.h>

#include "help.h"
#include "output.h"

/* "a|b|c" as "a b c". */
static void choices_spaced(FILE *to, const char *choices)
{
    for (const char *at = choices; *at; at++)
        fputc(*at == '|' ? ' ' : *at, to);
}

static void verbs_spaced(FILE *to)
{
    for (int i = 0; cli_verbs[i]; i++)
        fprintf(to, "%s%s", i ? " " : "", cli_verbs[i]->name);
}

/* Text inside single quotes of a shell: the quote itself must be closed and escaped. */
static void quoted(FILE *to, const char *text, const char *also_escaped)
{
    for (const char *at = text; *at; at++) {
        if (*at == '\'')
            fputs("'\\''", to);
        else if (strchr(also_escaped, *at))
            fprintf(to, "\\%c", *at);
        else
            fputc(*at, to);
    }
}

/* `help` completes to verbs; other words to their choices or to files. */
static bool completes_verbs(const cli_verb *verb) { return strcmp(verb->name, "help") == 0; }

/* ---- bash ----------------------------------------------------------------------- */

static void bash_option_values(FILE *to, const cli_verb *verb)
{
    for (int i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];
        if (option->type == CLI_FLAG) continue;
        fprintf(to, "        %s:--%s", verb->name, option->name);
        if (option->letter) fprintf(to, "|%s:-%c", verb->name, option->letter);
        fputs(") ", to);
        if (option->type == CLI_CHOICE) {
            fputs("COMPREPLY=($(compgen -W '", to);
            choices_spaced(to, option->choices);
            fputs("' -- \"$cur\"))", to);
        } else if (option->type == CLI_PATH) {
            fputs("COMPREPLY=($(compgen -f -- \"$cur\"))", to);
        } else {
            fputs("COMPREPLY=()", to);
        }
        fputs("; return ;;\n", to);
    }
}

static void bash_words(FILE *to, const cli_verb *verb)
{
    fprintf(to, "        %s) options='--help", verb->name);
    for (int i = 0; i < verb->option_count; i++)
        fprintf(to, " --%s", verb->options[i].name);
    fputs("'; words='", to);
    if (completes_verbs(verb))
        verbs_spaced(to);
    else if (verb->words.choices)
        choices_spaced(to, verb->words.choices);
    fprintf(to, "'; files=%d ;;\n", verb->words.type == CLI_PATH && verb->words.metavar ? 1 : 0);
}

static void bash(FILE *to)
{
    fputs("# bash completion for fovea: source it, or put it into\n"
          "# ~/.local/share/bash-completion/completions/fovea\n"
          "_fovea() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local verb=${COMP_WORDS[1]} options= words= files=0\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '",
          to);
    verbs_spaced(to);
    fputs("' -- \"$cur\"))\n        return\n    fi\n    case $verb:$prev in\n", to);
    for (int i = 0; cli_verbs[i]; i++)
        bash_option_values(to, cli_verbs[i]);
    fputs("    esac\n    case $verb in\n", to);
    for (int i = 0; cli_verbs[i]; i++)
        bash_words(to, cli_verbs[i]);
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
          "    elif ((files)); then\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "    else\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    fi\n"
          "}\n"
          "complete -o filenames -F _fovea fovea\n",
          to);
}

/* ---- zsh ------------------------------------------------------------------------ */

static void zsh_action(FILE *to, cli_type type, const char *choices)
{
    if (choices) {
        fputc('(', to);
        choices_spaced(to, choices);
        fputc(')', to);
    } else if (type == CLI_PATH) {
        fputs("_files", to);
    }
}

static void zsh_verb(FILE *to, const cli_verb *verb)
{
    fprintf(to, "        %s) _arguments '(-h --help)'{-h,--help}'[print help]'", verb->name);
    for (int i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];
        fprintf(to, " \\\n            '--%s[", option->name);
        quoted(to, option->help, "[]:");
        fputc(']', to);
        if (option->type != CLI_FLAG) {
            fprintf(to, ":%s:", option->metavar ? option->metavar : "value");
            zsh_action(to, option->type, option->choices);
        }
        fputc('\'', to);
    }
    if (completes_verbs(verb)) {
        fputs(" \\\n            '1:command:(", to);
        verbs_spaced(to);
        fputs(")'", to);
    } else if (verb->words.metavar) {
        fprintf(to, " \\\n            '%s:%s:", verb->words.max > 1 ? "*" : "1",
                verb->words.metavar);
        zsh_action(to, verb->words.type, verb->words.choices);
        fputc('\'', to);
    }
    fputs(" ;;\n", to);
}

static void zsh(FILE *to)
{
    fputs("#compdef fovea\n"
          "# zsh completion for fovea: put it as _fovea into a folder of $fpath\n"
          "_fovea() {\n"
          "    local -a verbs=(\n",
          to);
    for (int i = 0; cli_verbs[i]; i++) {
        fprintf(to, "        '%s:", cli_verbs[i]->name);
        quoted(to, cli_verbs[i]->about, ":");
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    if ((CURRENT == 2)); then\n"
          "        _describe command verbs\n"
          "        return\n"
          "    fi\n"
          "    local verb=$words[2]\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $verb in\n",
          to);
    for (int i = 0; cli_verbs[i]; i++)
        zsh_verb(to, cli_verbs[i]);
    fputs("    esac\n}\n_fovea \"$@\"\n", to);
}

/* ---- fish ----------------------------------------------------------------------- */

static void fish_verb(FILE *to, const cli_verb *verb)
{
    const char *name = verb->name;
    fprintf(to, "complete -c fovea -n __fish_use_subcommand -a %s -d '", name);
    quoted(to, verb->about, "");
    fputs("'\n", to);
    for (int i = 0; i < verb->option_count; i++) {
        const cli_option *option = &verb->options[i];
        fprintf(to, "complete -c fovea -n '__fish_seen_subcommand_from %s' -l %s", name,
                option->name);
        if (option->letter) fprintf(to, " -s %c", option->letter);
        if (option->type != CLI_FLAG) fputs(option->type == CLI_PATH ? " -r -F" : " -x", to);
        if (option->type == CLI_CHOICE) {
            fputs(" -a '", to);
            choices_spaced(to, option->choices);
            fputc('\'', to);
        }
        fputs(" -d '", to);
        quoted(to, option->help, "");
        fputs("'\n", to);
    }
    if (!verb->words.metavar) return;
    fprintf(to, "complete -c fovea -n '__fish_seen_subcommand_from %s'", name);
    if (completes_verbs(verb)) {
        fputs(" -a '", to);
        verbs_spaced(to);
        fputs("'\n", to);
    } else if (verb->words.choices) {
        fputs(" -a '", to);
        choices_spaced(to, verb->words.choices);
        fputs("'\n", to);
    } else {
        fputs(verb->words.type == CLI_PATH ? " -F\n" : " -f\n", to);
    }
}

static void fish(FILE *to)
{
    fputs("# fish completion for fovea: put it as fovea.fish into ~/.config/fish/completions\n"
          "complete -c fovea -f\n"
          "complete -c fovea -s h -l help -d 'print help'\n",
          to);
    for (int i = 0; cli_verbs[i]; i++)
        fish_verb(to, cli_verbs[i]);
}

void help_completion(FILE *to, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        bash(to);
    else if (strcmp(shell, "zsh") == 0)
        zsh(to);
    else
        fish(to);
}
