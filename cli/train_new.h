/*
 * fovea train --new FILE: a recipe for a user's own file.
 *
 *     train_new.c          the steps, messages, the run folder
 *     train_new_profile.c  what the columns hold, and which task fits them
 *     train_new_split.c    rows to training and validation files
 *     train_new_stream.c   data from a pipe
 *     train_new_recipe.c   sizes for the data and the machine; the recipe
 *     train_new_sample.c   an example at the end
 *     train_plan.c         the number of parameters
 *     train_cost.c         expected memory and time
 */
#ifndef FOVEA_CLI_TRAIN_NEW_H
#define FOVEA_CLI_TRAIN_NEW_H

#include "folder.h"
#include "fovea/data.h"
#include "fovea/recipe.h"
#include "options.h"

/* The choices of --task, in this order. */
#define CLI_NEW_TASKS "auto|translation|classify|pairs|language"
typedef enum new_task {
    NEW_AUTO,
    NEW_TRANSLATION, /* source, target */
    NEW_CLASSIFY,    /* text, class */
    NEW_PAIRS,       /* text, text, class */
    NEW_LANGUAGE     /* text */
} new_task;

typedef enum new_kind {
    NEW_EMPTY,  /* constant, or almost always empty */
    NEW_NUMBER, /* such as an id */
    NEW_LABEL,  /* short, with few distinct values */
    NEW_TEXT
} new_kind;

enum { NEW_SET = 4096, NEW_MOST_DISTINCT = 1000, NEW_LENGTHS = 1024 };

/* What a column holds. */
typedef struct new_column {
    new_kind kind;
    int64_t filled, numbers;
    double bytes;
    uint64_t seen[NEW_SET]; /* hashes of its values; 0: a free slot */
    int distinct;           /* at most NEW_MOST_DISTINCT + 1 */
} new_column;

/* A row that is used. */
typedef struct new_row {
    uint64_t text;  /* hash of its first text, which decides where it goes */
    uint64_t label; /* hash of its class; 0: none */
} new_row;

typedef struct new_data {
    fv_ctx *ctx;
    const char *path;           /* in messages */
    const char *file;           /* the same, or where data from a pipe were saved */
    char saved[CLI_PATH_BYTES]; /* that; else empty */
    fv_table *table;
    const fv_table_info *info;
    int64_t rows, left_out; /* rows of the file, and those that cannot be used */
    uint64_t digest;        /* of all values */
    new_column *columns;
    new_task task;
    int column[3], column_count; /* those of the task */
    /* the rows that are used */
    new_row *list;
    int64_t count, room;
    double share;                 /* of `valid`, by hash */
    int64_t train, valid;         /* rows of each */
    double bytes, words;          /* of their texts, both sides of a pair */
    int64_t lengths[NEW_LENGTHS]; /* rows by words of the longer side */
    int classes;
} new_data;

/* What data from a pipe are called, in the names of folders and recipes. */
#define CLI_NEW_STREAM "stdin"
/* The sample's picture, in the run folder. */
#define CLI_NEW_PICTURE "sample.svg"

/* The column of a pair's second text in the files that are written. */
#define CLI_NEW_SECOND "second"

/* All return an exit code; the error is already printed. */

/* Reads the file and chooses task and columns; `columns` is "A,B" or NULL. */
int cli_new_profile(new_data *data, new_task task, const char *columns);
/* Decides which rows are held out. */
int cli_new_split(new_data *data);
/* Calls `use` for every row that is used, until it returns false. */
typedef bool cli_new_row_fn(void *user, const fv_string use[3], bool held_out);
int cli_new_each_row(new_data *data, cli_new_row_fn *use, void *user);
/* Writes the rows into files in `folder`. */
int cli_new_write(new_data *data, const char *folder);
/* Chooses sizes, prints them with expected time and memory, and writes the recipe, unless
 * `path` is NULL; `folder` is that of the run, for the command in its comment. */
int cli_new_recipe(new_data *data, const char *path, const char *folder, int threads);

const char *cli_new_task_name(new_task task);
/* Hash of a text's letters and digits: those of "Go!" and "go." are equal. Never 0. */
uint64_t cli_new_hash(fv_string text);
/* The same of all its bytes. */
uint64_t cli_new_hash_exact(fv_string text);
/* Names of the columns, "en, fr, id". */
void cli_new_list_columns(const fv_table_info *info, char *out, size_t bytes);

/* Prepares `folder` for --new: writes data and recipe, or finds those of an earlier call. The path
 * of the recipe is in `recipe`. */
int cli_train_new(const cli_call *call, const char *folder, char recipe[CLI_PATH_BYTES]);
/* After training: shows what the model makes of a held-out text, draws its attention, and prints
 * the commands that do so for other texts. */
void cli_train_new_done(fv_ctx *ctx, const cli_call *train, const fv_recipe *recipe,
                        const char *folder);

/* True for "-", a pipe or a device: data that can be read only once. */
bool cli_new_is_stream(const char *path);
/* Saves them in the folder, with the path in `saved`. Refuses --check and folders of others. */
int cli_new_save_stream(const cli_call *call, const char *folder, char saved[CLI_PATH_BYTES]);
/* Removes what was saved, and the folders if they are empty. */
void cli_new_forget_stream(const char *folder, const char *saved);

/* If `path` looks like data and not like a recipe, prints the command for it and returns true. */
bool cli_is_data_file(const char *path);

/* Where a recipe for a Transformer sets no size at all, sets those that fit its training data, and
 * prints them; the sizes of the published models are for far more text. */
fv_status cli_default_sizes(fv_recipe *recipe, bool quiet);
/* True if the recipe trains a Transformer. */
bool cli_is_transformer(const fv_recipe *recipe);

/* ---- costs ------------------------------------------------------------------------------ */

typedef struct cli_cost {
    double parameters;
    double bytes;   /* memory at its peak */
    double seconds; /* of all steps; 0: not measured */
} cli_cost;

/* The model that a recipe for a user's file makes. */
typedef struct cli_plan {
    double parameters, source_tokens, target_tokens; /* the last two: of the vocabularies */
} cli_plan;

fv_status cli_new_plan(new_data *data, const fv_recipe *recipe, cli_plan *out);

/* What training a recipe costs on a machine of so many operations per second; 0: unknown. Without a
 * plan, of the largest vocabulary that the recipe allows. */
cli_cost cli_train_cost(const fv_recipe *recipe, const cli_plan *plan, double flops);
/* Floating-point operations per second of a matrix product on this machine. */
double cli_measure_flops(int threads);
/* Refuses a run that needs more memory than the cap (memory.h). Returns an exit code. */
int cli_check_memory(const fv_recipe *recipe);

#endif
