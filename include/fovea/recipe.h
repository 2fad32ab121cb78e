/*
 * fovea/recipe.h: the settings of a run. A recipe is a TOML file. Every key can also be set on the
 * command line, and the resulting recipe is saved with the run's results.
 *
 *     static const fv_key keys[] = {
 *         {.name = "train.lr", .type = FV_KEY_REAL, .default_value = "0.001", .min = 0,
 *          .max = 10, .help = "learning rate"},
 *         {.name = "model.cell", .type = FV_KEY_CHOICE, .default_value = "gru",
 *          .choices = "rnn|gru|lstm", .help = "recurrent unit"},
 *     };
 *     const fv_key_table tables[] = {{keys, 2}};
 *     fv_recipe *recipe = NULL;
 *     s = fv_recipe_create(ctx, tables, 1, &recipe);
 *     s = fv_recipe_load(recipe, "dates.toml");         // [train] lr = 0.002
 *     s = fv_recipe_set(recipe, "train.lr", "0.0005");  // the later one wins
 *     double lr = fv_recipe_real(recipe, "train.lr");
 *     if (!fv_recipe_is_set(recipe, "train.lr")) lr /= sqrt((double)width);  // a default of ours
 *     const fv_cell cells[] = {FV_CELL_RNN, FV_CELL_GRU, FV_CELL_LSTM};      // as the choices
 *     fv_cell cell = cells[fv_recipe_choice(recipe, "model.cell")];
 *     s = fv_recipe_save(recipe, "run/recipe.toml");
 *     fv_recipe_destroy(&recipe);
 *
 * A recipe may have a small form, for trying it out: sections [small.data], [small.train] and so
 * on, whose values replace those of [data] and [train] when it is loaded with fv_recipe_load_small.
 * fv_recipe_load checks them and ignores them.
 *
 * An unknown key, a value of the wrong type or one out of range is an error; the message has the
 * position and the closest valid spelling. The recipe is then unchanged.
 */
#ifndef FOVEA_RECIPE_H
#define FOVEA_RECIPE_H

#include <stddef.h>

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_key_type {
    FV_KEY_INT,  /* an integer in [min, max] */
    FV_KEY_REAL, /* a finite number in [min, max] */
    FV_KEY_BOOL, /* true or false */
    FV_KEY_TEXT, /* any text */
    FV_KEY_PATH, /* a file. In a recipe file it is relative to the recipe's folder, unless it begins
                    with
                    '/', or with '$' (a variable that the program expands) */
    FV_KEY_CHOICE /* one of `choices` */
} fv_key_type;

/* One setting. Programs define constant tables of them. */
typedef struct fv_key {
    const char *name; /* "section.key" */
    fv_key_type type;
    const char *default_value; /* as a string; NULL: "" */
    double min, max;           /* min == max: any value */
    const char *choices;       /* "a|b|c" */
    const char *help;          /* one line, lower case, no full stop */
} fv_key;

/* A table of keys. Each part of a program can have its own. */
typedef struct fv_key_table {
    const fv_key *keys;
    size_t count;
} fv_key_table;

typedef struct fv_recipe fv_recipe;

/* Creates a recipe in which every key has its default. The tables' strings must outlive the recipe.
 * Fails: ARGUMENT (an invalid default, a duplicate key), MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_create(fv_ctx *ctx, const fv_key_table *tables, size_t count,
                                              fv_recipe **out);

/* Key number i, for help texts; NULL past the last. */
FV_API const fv_key *fv_recipe_key(const fv_recipe *recipe, size_t i);
/* Call before destroying the context. Accepts NULL; sets *recipe to NULL. */
FV_API void fv_recipe_destroy(fv_recipe **recipe);

/* Sets every value of a TOML file, or on failure none. Fails: IO, FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_load(fv_recipe *recipe, const char *path);
/* The same for the file's small form. Fails also: UNSUPPORTED (it has none). */
FV_API FV_MUST_USE fv_status fv_recipe_load_small(fv_recipe *recipe, const char *path);
/* Sets one value, given as a string. Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_set(fv_recipe *recipe, const char *name, const char *text);
/* Writes all keys as TOML, with their help as comments. The write is atomic. Paths are written
 * unchanged, so only absolute ones name the same file when loaded from another folder. */
FV_API FV_MUST_USE fv_status fv_recipe_save(fv_recipe *recipe, const char *path);

/* Values. An unknown name gives 0, false or "". */
FV_API int64_t fv_recipe_int(const fv_recipe *recipe, const char *name);
FV_API double fv_recipe_real(const fv_recipe *recipe, const char *name);
FV_API bool fv_recipe_bool(const fv_recipe *recipe, const char *name);
FV_API const char *fv_recipe_text(const fv_recipe *recipe, const char *name);
/* True if the value was set by a file or a call, false if it is the default. */
FV_API bool fv_recipe_is_set(const fv_recipe *recipe, const char *name);
/* The index of the value among the key's choices; -1 if the key has none. */
FV_API int fv_recipe_choice(const fv_recipe *recipe, const char *name);

/* ==== nearest ======================================================================= */

/*
 * nearest: the closest spelling, for "did you mean ...?" in messages about unknown names.
 *
 *     fv_nearest n;
 *     fv_nearest_init(&n, "trian");
 *     for (int i = 0; i < count; i++)
 *         fv_nearest_add(&n, names[i], strlen(names[i]));
 *     if (fv_nearest_best(&n)) printf("did you mean '%s'?\n", fv_nearest_best(&n));
 *
 * Needs no context and allocates nothing.
 */

typedef struct fv_nearest {
    const char *word; /* not owned */
    char best[64];
    int distance;
} fv_nearest;

FV_API void fv_nearest_init(fv_nearest *nearest, const char *word);
/* Considers a candidate. Candidates longer than 63 bytes are ignored. */
FV_API void fv_nearest_add(fv_nearest *nearest, const char *candidate, size_t length);
/* The closest candidate, or NULL if none is close enough. */
FV_API const char *fv_nearest_best(const fv_nearest *nearest);

#ifdef __cplusplus
}
#endif
#endif
