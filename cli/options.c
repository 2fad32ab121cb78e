#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "help.h"
#include "output.h"

const char *cli_choice_at(const char *choices, int i, int *length)
{
    const char *at = choices;
    while (at) {
        const char *end = strchr(at, '|');
        if (i-- == 0) {
            *length = end ? (int)(end - at) : (int)strlen(at);
            return at;
        }
        at = end ? end + 1 : NULL;
    }
    return NULL;
}

bool cli_choice_has(const char *choices, const char *text)
{
    int length;
    for (int i = 0;; i++) {
        const char *entry = cli_choice_at(choices, i, &length);
        if (!entry) return false;
        if ((size_t)length == strlen(text) && memcmp(entry, text, (size_t)length) == 0) return true;
    }
}

enum { NAME_BYTES = 63 };

/* ---- nearest spelling ----------------------------------------------------------- */

static const char *nearest_choice(const char *choices, const char *word, fv_nearest *nearest)
{
    fv_nearest_init(nearest, word);
    int length;
    const char *entry;
    for (int i = 0; (entry = cli_choice_at(choices, i, &length)); i++)
        fv_nearest_add(nearest, entry, (size_t)length);
    return fv_nearest_best(nearest);
}

/* ---- parsing -------------------------------------------------------------------- */

static int usage_error(const cli_verb *verb)
{
    cli_note("see 'fovea %s --help'", verb->name);
    return CLI_USAGE;
}

static int unknown_option(const cli_verb *verb, const char *word, const char *name)
{
    fv_nearest nearest;
    fv_nearest_init(&nearest, name);
    for (int i = 0; i < verb->option_count; i++)
        fv_nearest_add(&nearest, verb->options[i].name, strlen(verb->options[i].name));
    fv_nearest_add(&nearest, "help", 4);
    const char *found = fv_nearest_best(&nearest);
    if (found)
        cli_error("%s: unknown option '%s'; did you mean '--%s'?", verb->name, word, found);
    else
        cli_error("%s: unknown option '%s'", verb->name, word);
    return usage_error(verb);
}

int cli_bad_choice(const cli_verb *verb, const char *what, const char *text, const char *choices)
{
    fv_nearest nearest;
    const char *found = nearest_choice(choices, text, &nearest);
    if (found)
        cli_error("%s: %s: '%s' is not one of %s; did you mean '%s'?", verb->name, what, text,
                  choices, found);
    else
        cli_error("%s: %s: '%s' is not one of %s", verb->name, what, text, choices);
    return usage_error(verb);
}

static int check_number(const cli_verb *verb, const cli_option *option, const char *text)
{
    char *end = NULL;
    double value;
    errno = 0;
    if (option->type == CLI_INT)
        value = (double)strtoll(text, &end, 10);
    else
        value = strtod(text, &end);
    if (end == text || *end || errno == ERANGE || !isfinite(value)) {
        cli_error("%s: --%s: expected a %snumber, got '%s'", verb->name, option->name,
                  option->type == CLI_INT ? "whole " : "", text);
        return usage_error(verb);
    }
    if (option->min < option->max && (value < option->min || value > option->max)) {
        cli_error("%s: --%s: expected a number from %.12g to %.12g, got %s", verb->name,
                  option->name, option->min, option->max, text);
        return usage_error(verb);
    }
    return CLI_DONE;
}

static int set_option(cli_call *call, int index, const char *text)
{
    const cli_option *option = &call->verb->options[index];
    int code = CLI_DONE;
    if (option->type == CLI_INT || option->type == CLI_FLOAT) {
        code = check_number(call->verb, option, text);
    } else if (option->type == CLI_CHOICE && !cli_choice_has(option->choices, text)) {
        char what[NAME_BYTES];
        cli_format(what, sizeof what, "--%s", option->name);
        code = cli_bad_choice(call->verb, what, text, option->choices);
    }
    call->value[index] = text;
    call->given[index] = true;
    return code;
}

static int find_long(const cli_verb *verb, const char *name, size_t length)
{
    for (int i = 0; i < verb->option_count; i++)
        if (strlen(verb->options[i].name) == length &&
            memcmp(verb->options[i].name, name, length) == 0)
            return i;
    return -1;
}

static int find_letter(const cli_verb *verb, char letter)
{
    for (int i = 0; i < verb->option_count; i++)
        if (verb->options[i].letter == letter) return i;
    return -1;
}

/* The parser's position; `next` is the first word not yet used. */
typedef struct reader {
    int argc, next;
    char *const *argv;
} reader;

/* Whether a word is one of the verb's options, or in place of anything but a free text looks like
 * one: then a value before it was forgotten. */
static bool is_option(const cli_verb *verb, const char *word, bool text)
{
    if (word[0] != '-' || !word[1]) return false;
    if (word[1] != '-') return !word[2] && find_letter(verb, word[1]) >= 0;
    return find_long(verb, word + 2, strcspn(word + 2, "=")) >= 0 || (word[2] && !text);
}

static int missing_value(const cli_verb *verb, const char *name, const char *value,
                         const char *next)
{
    if (next)
        cli_error("%s: --%s needs a value (%s) before '%s'; write --%s=%s if that is the value",
                  verb->name, name, value, next, name, next);
    else
        cli_error("%s: --%s needs a value (%s)", verb->name, name, value);
    return usage_error(verb);
}

static int take_value(cli_call *call, reader *in, int index)
{
    const cli_option *option = &call->verb->options[index];
    const char *next = in->next < in->argc ? in->argv[in->next] : NULL;
    if (!next || is_option(call->verb, next, option->type == CLI_STRING))
        return missing_value(call->verb, option->name, help_value(option), next);
    return set_option(call, index, in->argv[in->next++]);
}

/* --section.key value, or --section.key=value; also --key without its section. */
static int take_setting(cli_call *call, reader *in, const char *name, size_t length,
                        const char *equals)
{
    if (length >= sizeof call->settings[0].name || call->setting_count == CLI_MAX_SETTINGS) {
        cli_error("%s: too many settings, or a name that is too long", call->verb->name);
        return usage_error(call->verb);
    }
    const char *next = in->next < in->argc ? in->argv[in->next] : NULL;
    if (!equals && (!next || is_option(call->verb, next, false)))
        return missing_value(call->verb, name, "VALUE", next);
    const int i = call->setting_count++;
    memcpy(call->settings[i].name, name, length);
    call->settings[i].name[length] = '\0';
    call->settings[i].value = equals ? equals + 1 : in->argv[in->next++];
    return CLI_DONE;
}

/* "section.key", or a key that the verb knows without its section. */
static bool is_setting(const cli_verb *verb, const char *name, size_t length)
{
    char bare[NAME_BYTES];
    if (memchr(name, '.', length)) return true;
    if (!verb->is_setting || length >= sizeof bare) return false;
    memcpy(bare, name, length);
    bare[length] = '\0';
    return verb->is_setting(bare);
}

static int parse_long(cli_call *call, reader *in, const char *word)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    if (length == 4 && memcmp(name, "help", 4) == 0 && !equals) {
        call->help = true;
        return CLI_DONE;
    }
    int index = find_long(call->verb, name, length);
    if (index < 0 && call->verb->takes_settings && is_setting(call->verb, name, length))
        return take_setting(call, in, name, length, equals);
    if (index < 0) {
        char bare[NAME_BYTES];
        cli_format(bare, sizeof bare, "%.*s", (int)(length < NAME_BYTES ? length : NAME_BYTES - 1),
                   name);
        return unknown_option(call->verb, word, bare);
    }
    if (call->verb->options[index].type != CLI_FLAG)
        return equals ? set_option(call, index, equals + 1) : take_value(call, in, index);
    if (equals) {
        cli_error("%s: --%s takes no value", call->verb->name, call->verb->options[index].name);
        return usage_error(call->verb);
    }
    return set_option(call, index, "");
}

static int parse_short(cli_call *call, reader *in, const char *word)
{
    for (const char *at = word + 1; *at; at++) {
        if (*at == 'h') {
            call->help = true;
            continue;
        }
        int index = find_letter(call->verb, *at), code;
        if (index < 0) {
            char letter[2] = {*at, '\0'};
            return unknown_option(call->verb, word, at == word + 1 && !at[1] ? letter : at);
        }
        if (call->verb->options[index].type != CLI_FLAG)
            return at[1] ? set_option(call, index, at + 1) : take_value(call, in, index);
        if ((code = set_option(call, index, ""))) return code;
    }
    return CLI_DONE;
}

static int take_word(cli_call *call, const char *word)
{
    const cli_words *words = &call->verb->words;
    if (!words->metavar || call->word_count >= words->max) {
        if (call->word_count > 0 && !*call->words[0])
            cli_error("%s: %s is empty", call->verb->name, words->metavar);
        else if (!words->metavar)
            cli_error("%s: unexpected word '%s'; this command takes options only", call->verb->name,
                      word);
        else
            cli_error("%s: unexpected word '%s' after '%s'", call->verb->name, word,
                      call->words[call->word_count - 1]);
        return usage_error(call->verb);
    }
    if (words->choices && !cli_choice_has(words->choices, word))
        return cli_bad_choice(call->verb, words->metavar, word, words->choices);
    call->words[call->word_count++] = word;
    return CLI_DONE;
}

int cli_parse(const cli_verb *verb, int argc, char *const *argv, cli_call *call)
{
    memset(call, 0, sizeof *call);
    call->verb = verb;
    for (int i = 0; i < verb->option_count; i++)
        call->value[i] = verb->options[i].default_value;

    reader in = {argc, 0, argv};
    bool options_ended = false;
    while (in.next < argc && !call->help) {
        const char *word = argv[in.next++];
        int code;
        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
            continue;
        }
        if (options_ended || word[0] != '-' || !word[1])
            code = take_word(call, word);
        else if (word[1] == '-')
            code = parse_long(call, &in, word);
        else
            code = parse_short(call, &in, word);
        if (code) return code;
    }
    if (!call->help && call->word_count < verb->words.min) {
        if (call->word_count > 0)
            cli_error("%s: expected %s, got only '%s'", verb->name, verb->words.metavar,
                      call->words[0]);
        else
            cli_error("%s: %s is missing: %s%s", verb->name, verb->words.metavar,
                      verb->words.choices ? "one of " : "",
                      verb->words.choices ? verb->words.choices : verb->words.help);
        return usage_error(verb);
    }
    return CLI_DONE;
}

/* ---- values --------------------------------------------------------------------- */

static const char *value_of(const cli_call *call, const char *name)
{
    int index = find_long(call->verb, name, strlen(name));
    return index < 0 ? NULL : call->value[index];
}

bool cli_flag(const cli_call *call, const char *name) { return value_of(call, name) != NULL; }

bool cli_given(const cli_call *call, const char *name)
{
    int index = find_long(call->verb, name, strlen(name));
    return index >= 0 && call->given[index];
}

int64_t cli_int(const cli_call *call, const char *name)
{
    const char *text = value_of(call, name);
    return text ? (int64_t)strtoll(text, NULL, 10) : 0;
}

double cli_float(const cli_call *call, const char *name)
{
    const char *text = value_of(call, name);
    return text ? strtod(text, NULL) : 0;
}

const char *cli_text(const cli_call *call, const char *name) { return value_of(call, name); }

bool cli_ends_with(const char *text, const char *end)
{
    const size_t n = text ? strlen(text) : 0, m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}
