/*
 * fovea/recipe.h: the settings of a run. A recipe is a TOML file; every key of it can be set from
 * a command line too, and the whole is written back beside the run's results.
 *
 *     static const fv_key keys[] = {
 *         {.name = "train.lr", .type = FV_KEY_REAL, .fallback = "0.001", .least = 0, .most = 10,
 *          .help = "learning rate"},
 *         {.name = "model.cell", .type = FV_KEY_CHOICE, .fallback = "gru",
 *          .choices = "rnn|gru|lstm", .help = "recurrent unit"},
 *     };
 *     const fv_key_table tables[] = {{keys, 2}};
 *     fv_recipe *recipe = NULL;
 *     s = fv_recipe_create(ctx, tables, 1, &recipe);
 *     s = fv_recipe_load(recipe, "dates.toml");         // [train] lr = 0.002
 *     s = fv_recipe_set(recipe, "train.lr", "0.0005");  // the later one wins
 *     double lr = fv_recipe_real(recipe, "train.lr");
 *     s = fv_recipe_save(recipe, "run/recipe.toml");
 *     fv_recipe_destroy(&recipe);
 *
 * A key that does not exist, a value of another type or out of bounds is an error that names the
 * place and the nearest right spelling; the recipe is unchanged then.
 */
#ifndef FOVEA_RECIPE_H
#define FOVEA_RECIPE_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_key_type {
    FV_KEY_INT,   /* a whole number in [least, most] */
    FV_KEY_REAL,  /* a finite number in [least, most] */
    FV_KEY_BOOL,  /* true or false */
    FV_KEY_TEXT,  /* any text */
    FV_KEY_PATH,  /* a file; in a recipe file, relative to the recipe's folder unless it begins
                     with '/' or, for the program to replace, '$' */
    FV_KEY_CHOICE /* one of `choices` */
} fv_key_type;

/* One setting. Tables of them are constants of the program. */
typedef struct fv_key {
    const char *name; /* "section.key" */
    fv_key_type type;
    const char *fallback; /* as text; NULL: "" */
    double least, most;   /* least == most: no bounds */
    const char *choices;  /* "a|b|c" */
    const char *help;     /* one line, lower case, no full stop */
} fv_key;

/* Each part of a program brings its own. */
typedef struct fv_key_table {
    const fv_key *keys;
    size_t count;
} fv_key_table;

typedef struct fv_recipe fv_recipe;

/* Every key of the tables at its fallback. The texts of the keys must outlive the recipe. Fails:
 * ARGUMENT (a table whose own fallbacks do not pass, two keys of one name), MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_create(fv_ctx *ctx, const fv_key_table *tables, size_t count,
                                              fv_recipe **out);

/* The keys, for help texts: NULL past the last. */
FV_API const fv_key *fv_recipe_key(const fv_recipe *recipe, size_t i);
/* Before the context. NULL is fine; *recipe becomes NULL. */
FV_API void fv_recipe_destroy(fv_recipe **recipe);

/* Takes over every value of a TOML file, or none of them. Fails: IO, FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_load(fv_recipe *recipe, const char *path);
/* One value as text. Fails: ARGUMENT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_recipe_set(fv_recipe *recipe, const char *name, const char *text);
/* Everything, as TOML with the help lines as comments; atomic. Paths are written as they are, so
 * only absolute ones mean the same file when this is loaded from another folder. */
FV_API FV_MUST_USE fv_status fv_recipe_save(fv_recipe *recipe, const char *path);

/* Values. A name that is not in the tables reads as 0, false or "". */
FV_API int64_t fv_recipe_int(const fv_recipe *recipe, const char *name);
FV_API double fv_recipe_real(const fv_recipe *recipe, const char *name);
FV_API bool fv_recipe_bool(const fv_recipe *recipe, const char *name);
FV_API const char *fv_recipe_text(const fv_recipe *recipe, const char *name);
/* Whether the value came from a file or a call, not from the fallback. */
FV_API bool fv_recipe_given(const fv_recipe *recipe, const char *name);
/* Which of the key's choices it is, from 0; -1 if it has none. */
FV_API int fv_recipe_choice(const fv_recipe *recipe, const char *name);

#ifdef __cplusplus
}
#endif
#endif
