/*
 * What a recipe leaves out although its other keys decide it: the task, the kind of model and the
 * family of a Transformer.
 */
#include <string.h>

#include "output.h"
#include "train_new.h"
#include "train_recipe.h"

enum {
    TRANSLATION = 1,
    LANGUAGE = 2,
    MASKED = 4,
    CLASSIFY = 8,
    SPANS = 16,
    ALL = TRANSLATION | LANGUAGE | MASKED | CLASSIFY | SPANS
};

static const struct task {
    int bit;
    const char *name, *family; /* family NULL: the default */
} tasks[] = {{TRANSLATION, "translation", NULL},
             {LANGUAGE, "language", "gpt2"},
             {MASKED, "masked", "bert"},
             {CLASSIFY, "classify", "bert"},
             {SPANS, "spans", "t5"}};

/* The tasks that a key is for, if it is set; with `value`, if it is set to that. */
static const struct evidence {
    const char *key, *value;
    int tasks;
} evidence[] = {
    {"data.train_source", NULL, TRANSLATION},
    {"data.train_target", NULL, TRANSLATION},
    {"data.train_csv", NULL, CLASSIFY | MASKED},
    {"data.train_text", NULL, LANGUAGE | MASKED | SPANS},
    {"data.label_column", NULL, CLASSIFY},
    {"data.second_column", NULL, CLASSIFY},
    {"train.next_sentence", "true", MASKED},
    {"train.span_share", NULL, SPANS},
    {"train.span_length", NULL, SPANS},
    {"transformer.family", "gpt2", LANGUAGE},
    {"transformer.family", "llama", LANGUAGE},
    {"transformer.family", "bert", MASKED | CLASSIFY},
    {"transformer.family", "marian", TRANSLATION},
    {"transformer.family", "t5", SPANS | TRANSLATION},
    {"model.kind", "recurrent", TRANSLATION},
};

static bool holds(const fv_recipe *recipe, const struct evidence *e)
{
    if (!fv_recipe_is_set(recipe, e->key)) return false;
    if (e->value && strcmp(e->value, "true") == 0) return fv_recipe_bool(recipe, e->key);
    const char *text = fv_recipe_text(recipe, e->key);
    return e->value ? strcmp(text, e->value) == 0 : !text || *text;
}

/* ---- messages ------------------------------------------------------------------------------ */

static void add(char *list, size_t bytes, const char *between, const char *text)
{
    const size_t used = strlen(list);
    cli_format(list + used, bytes - used, "%s%s", used ? between : "", text);
}

static void list_tasks(int bits, char *out, size_t bytes)
{
    out[0] = '\0';
    for (int i = 0; i < CLI_COUNT(tasks); i++)
        if (bits & tasks[i].bit) add(out, bytes, " or ", tasks[i].name);
}

static int conflict(const char *path, const struct evidence *a, const struct evidence *b)
{
    char first[64], second[64];
    list_tasks(a->tasks, first, sizeof first);
    list_tasks(b->tasks, second, sizeof second);
    cli_error("train: %s: %s is for %s, %s for %s; remove one of them, or set train.task", path,
              a->key, first, b->key, second);
    return CLI_USAGE;
}

static int ambiguous(const char *path, int fitting)
{
    char names[96], deciding[256] = "";
    const bool table = fitting & CLASSIFY;
    list_tasks(fitting, names, sizeof names);
    if (fitting & LANGUAGE) add(deciding, sizeof deciding, ", ", "transformer.family = \"gpt2\"");
    if (fitting & MASKED && !table)
        add(deciding, sizeof deciding, ", ", "transformer.family = \"bert\"");
    if (fitting & SPANS) add(deciding, sizeof deciding, ", ", "train.span_share");
    if (table) add(deciding, sizeof deciding, ", ", "data.label_column");
    if (fitting & MASKED && table) add(deciding, sizeof deciding, ", ", "train.next_sentence");
    if (fitting & TRANSLATION) add(deciding, sizeof deciding, ", ", "data.train_source");
    cli_error("train: %s: the keys fit the tasks %s; set train.task, or a key that decides: %s",
              path, names, deciding);
    return CLI_USAGE;
}

/* ---- task, family and kind ------------------------------------------------------------------ */

/* The task that the keys decide, or the default if none of them says anything. */
static int find_task(const fv_recipe *recipe, const char *path, const char **out)
{
    int fitting = ALL;
    const struct evidence *last = NULL;
    for (int i = 0; i < CLI_COUNT(evidence); i++) {
        const struct evidence *e = &evidence[i];
        if (!holds(recipe, e)) continue;
        if ((fitting & e->tasks) == 0) return conflict(path, last, e);
        if ((fitting & e->tasks) != fitting) last = e;
        fitting &= e->tasks;
    }
    *out = fv_recipe_text(recipe, "train.task");
    if (fitting == ALL) return CLI_DONE;
    for (int i = 0; i < CLI_COUNT(tasks); i++)
        if (fitting == tasks[i].bit) *out = tasks[i].name;
    return fitting & (fitting - 1) ? ambiguous(path, fitting) : CLI_DONE;
}

/* A set key of a section other than `but`; NULL: there is none. */
static const char *set_key(const fv_recipe *recipe, const char *section, const char *but)
{
    const fv_key *key;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)); i++)
        if (strncmp(key->name, section, strlen(section)) == 0 && strcmp(key->name, but) != 0 &&
            fv_recipe_is_set(recipe, key->name))
            return key->name;
    return NULL;
}

/* A translator with keys of [transformer] is one; NULL: the task's default kind. */
static int find_kind(const fv_recipe *recipe, const char *path, const char **out)
{
    const char *recurrent = set_key(recipe, "model.", "model.kind"),
               *transformer = set_key(recipe, "transformer.", "");
    if (recurrent && transformer) {
        cli_error("train: %s: %s is for recurrent models, %s for Transformers; set model.kind to "
                  "recurrent or transformer",
                  path, recurrent, transformer);
        return CLI_USAGE;
    }
    *out = transformer ? "transformer" : NULL;
    return CLI_DONE;
}

static const char *family_of(const char *task)
{
    for (int i = 0; i < CLI_COUNT(tasks); i++)
        if (strcmp(task, tasks[i].name) == 0) return tasks[i].family;
    return NULL;
}

int cli_train_imply(fv_recipe *recipe, const char *path, bool quiet, fv_status *status)
{
    const char *task = fv_recipe_text(recipe, "train.task"), *kind = NULL, *family = NULL;
    int code = CLI_DONE;
    char implied[128] = "";
    if (!fv_recipe_is_set(recipe, "train.task")) code = find_task(recipe, path, &task);
    const bool translates = strcmp(task, "translation") == 0;
    if (code == CLI_DONE && translates && !fv_recipe_is_set(recipe, "model.kind"))
        code = find_kind(recipe, path, &kind);
    if (code) return code;
    const bool other = fv_recipe_is_set(recipe, "model.kind") &&
                       strcmp(fv_recipe_text(recipe, "model.kind"), "transformer") != 0;
    if (!fv_recipe_is_set(recipe, "transformer.family") && !other) family = family_of(task);
    const struct {
        const char *key, *value;
    } found[] = {{"train.task", task}, {"model.kind", kind}, {"transformer.family", family}};
    *status = FV_OK;
    for (int i = 0; i < CLI_COUNT(found) && *status == FV_OK; i++) {
        if (!found[i].value || strcmp(fv_recipe_text(recipe, found[i].key), found[i].value) == 0)
            continue;
        add(implied, sizeof implied, ", ", found[i].key);
        add(implied, sizeof implied, " ", found[i].value);
        *status = fv_recipe_set(recipe, found[i].key, found[i].value);
    }
    if (*status == FV_OK && *implied && !quiet) cli_note("train: the keys imply %s", implied);
    return CLI_DONE;
}
