/*
 * One table per verb gives its parsing, its --help, its page of the manual and its shell
 * completion. A verb is one file, which defines one constant:
 *
 *     static const cli_option options[] = {
 *         {.name = "steps", .letter = 's', .type = CLI_INT, .default_value = "400", .min = 1,
 *          .max = 1e6, .metavar = "N", .help = "training steps"},
 *         {.name = "json", .type = CLI_FLAG, .help = "print one JSON object per line"},
 *     };
 *
 *     static int run(const cli_call *call)
 *     {
 *         int64_t steps = cli_int(call, "steps");
 *         if (cli_flag(call, "json")) ...
 *         return CLI_DONE;
 *     }
 *
 *     const cli_verb verb_demo = {.name = "demo", .about = "train a small sorter and show it",
 *                                 .options = options, .option_count = CLI_COUNT(options),
 *                                 .run = run};
 *
 * and has a line in cli/verbs.def. Every verb has --help (-h).
 */
#ifndef FOVEA_CLI_OPTIONS_H
#define FOVEA_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fovea/recipe.h"

#define CLI_COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* Exit codes of the program; part of its interface. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_BAD_FILE = 3,
    CLI_MISSING = 4, /* a feature or device this build or machine does not have */
    CLI_DIVERGED = 5,
    CLI_INTERRUPTED = 130
};

typedef enum cli_type {
    CLI_FLAG,   /* takes no value */
    CLI_INT,    /* a whole number in [min, max] */
    CLI_FLOAT,  /* a finite number in [min, max] */
    CLI_STRING, /* any text */
    CLI_CHOICE, /* one of `choices` */
    CLI_PATH    /* a file or folder: like text, but completed from the disk */
} cli_type;

enum { CLI_MAX_OPTIONS = 48, CLI_MAX_WORDS = 64, CLI_MAX_SETTINGS = 64 };

typedef struct cli_option {
    const char *name; /* long name without dashes */
    char letter;      /* short name, or 0 */
    bool writes;      /* CLI_PATH: a file or folder that the verb writes */
    cli_type type;
    const char *default_value; /* as text; NULL: none */
    double min, max;           /* bounds of numbers; min == max: none */
    const char *choices;       /* "a|b|c" for CLI_CHOICE */
    const char *metavar;       /* what --help calls the value */
    const char *help;          /* one line, lower case, no full stop */
} cli_option;

/* The words after the options. */
typedef struct cli_words {
    const char *metavar; /* e.g. "FILE"; NULL: the verb takes none */
    const char *choices; /* "a|b|c", or NULL: any text */
    cli_type type;       /* CLI_STRING, CLI_PATH or CLI_CHOICE */
    int min, max;
    const char *help;
} cli_words;

struct cli_call;

typedef struct cli_verb {
    const char *name;
    const char *about; /* one line, lower case, no full stop */
    const char *notes; /* paragraphs for --help and the manual, or NULL */
    cli_words words;
    const cli_option *options;
    int option_count;
    bool takes_settings; /* "--section.key value" is kept in the call, unchecked */
    /* True if --name, without a section, is a setting too; NULL: none is. */
    bool (*is_setting)(const char *name);
    int (*run)(const struct cli_call *call); /* returns an exit code */
} cli_verb;

/* One parsed command line. Texts point into argv and the tables. */
typedef struct cli_call {
    const cli_verb *verb;
    const char *value[CLI_MAX_OPTIONS]; /* text of option i or NULL; flags: "" when given */
    bool given[CLI_MAX_OPTIONS];        /* on the command line */
    const char *words[CLI_MAX_WORDS];
    int word_count;
    bool help; /* --help was given */
    struct {
        char name[64];
        const char *value;
    } settings[CLI_MAX_SETTINGS]; /* of a recipe, in the order given */
    int setting_count;
} cli_call;

/* The list of verbs, ended by NULL, in the order in which help shows them. */
extern const cli_verb *const cli_verbs[];

const cli_verb *cli_find_verb(const char *name); /* NULL: no such verb */

/* Prints that there is no such verb, with the nearest one, or with ours if it is the command of
 * another program; returns CLI_USAGE. */
int cli_unknown_verb(const char *word);

/* Whether `path` can be a model's folder: CLI_DONE, or the exit code after a message that says what
 * it is instead and how to get a model. */
int cli_check_model(const char *verb, const char *path);

/*
 * Reads the words after the verb: `--name value`, `--name=value`, `-x value`, `-xvalue`,
 * joined short flags, `--` to end the options. Checks every value against its option.
 * An error is printed with the nearest valid spelling; the result is then CLI_USAGE.
 */
FV_MUST_USE int cli_parse(const cli_verb *verb, int argc, char *const *argv, cli_call *call);

/* Checks the paths of a parsed call: none is empty, and no output is the same file as an input, by
 * whatever name. Prints an error; returns an exit code. */
FV_MUST_USE int cli_check_paths(const cli_call *call);
/* Refuses one output, of the option `name`, that is also an input or a file of another kind than
 * what would be written: for names that a verb derives. */
FV_MUST_USE int cli_check_output(const cli_call *call, const char *name, const char *path);

/* Values by option name. The verb's table must have that option with that type. */
bool cli_flag(const cli_call *call, const char *name);
bool cli_given(const cli_call *call, const char *name);
int64_t cli_int(const cli_call *call, const char *name);      /* 0 without a value */
double cli_float(const cli_call *call, const char *name);     /* 0 without a value */
const char *cli_text(const cli_call *call, const char *name); /* NULL without a value */

/* The i-th entry of an "a|b|c" list: its start and its length; NULL past the end. */
const char *cli_choice_at(const char *choices, int i, int *length);
bool cli_choice_has(const char *choices, const char *text);

/* True if the text ends with `end`; false for NULL. */
bool cli_ends_with(const char *text, const char *end);

/* Prints that `text`, given as `what`, is not one of the choices, with the nearest one; returns
 * CLI_USAGE. */
int cli_bad_choice(const cli_verb *verb, const char *what, const char *text, const char *choices);

/* Set by SIGUSR1: training saves its state and continues. */
extern volatile int cli_save_request;

/* Set by SIGINT, SIGTERM, SIGHUP and SIGXCPU; pass it to fv_ctx_config.cancel and poll it in long
 * loops. */
extern volatile int cli_cancelled;

#endif
