/* fovea help recipe: every key of a recipe, from the tables that read it. */
#include <string.h>

#include "help.h"
#include "input.h"
#include "model.h"
#include "output.h"

static const help_row sections[] = {
    {"data", "Data for training and validation"},
    {"tokens",
     "The tokenizer, learned from the training texts when a run starts for the first time"},
    {"model", "The kind of model; settings of recurrent encoder-decoders"},
    {"transformer", "Settings of Transformers (model.kind)"},
    {"cnn", "Settings of convolutional classifiers of pictures (model.kind)"},
    {"vit", "Settings of Vision Transformers (model.kind)"},
    {"kwt", "Settings of Keyword Transformers (model.kind)"},
    {"lstmn", "Settings of LSTMs that attend over their earlier states (model.kind)"},
    {"ntm", "Settings of Neural Turing Machines (model.kind)"},
    {"agent", "Settings of agents that play games (model.kind)"},
    {"vqa", "Settings of models that answer questions about pictures (model.kind)"},
    {"sagan", "Settings of GANs with self-attention (model.kind)"},
    {"pointer", "Settings of pointer networks (model.kind)"},
    {"tsp", "Settings of the attention model for routes (model.kind attention-tsp)"},
    {"reader", "Settings of readers of stories (model.kind)"},
    {"walker", "Settings of agents that follow instructions (model.kind)"},
    {"recommender", "Settings of recommenders (model.kind)"},
    {"snail", "Settings of SNAIL models (model.kind)"},
    {"few-shot", "Settings of classifiers that learn from examples (model.kind)"},
    {"word2vec", "Settings of word vectors and their training (model.kind, train.task)"},
    {"bits", "Generated sequences of bits (train.task bit-sequences)"},
    {"play", "Games and Q-learning (train.task)"},
    {"questions", "Questions about pictures (train.task)"},
    {"gan", "Training of a generator and a discriminator (train.task)"},
    {"points", "Problems over points (train.task)"},
    {"ratings", "Generated ratings of movies (train.task)"},
    {"trials", "Bandits and decision processes (train.task)"},
    {"episodes", "Classes learned from a few examples (train.task)"},
    {"train", "The training loop: task, batches, optimizer, schedule, states"},
    {"eval", "Validation during training"},
    {NULL, NULL},
};

static const char *about_section(const char *name, size_t length)
{
    for (int i = 0; sections[i].term; i++)
        if (strlen(sections[i].term) == length && strncmp(sections[i].term, name, length) == 0)
            return sections[i].meaning;
    return "";
}

/* "a|b|c" -> "a, b, c", each between quotes. */
static void put_choices(char *out, size_t bytes, const char *choices)
{
    size_t used = 0;
    int length;
    const char *at;
    for (int i = 0; (at = cli_choice_at(choices, i, &length)) != NULL && used < bytes; i++) {
        cli_format(out + used, bytes - used, "%s\"%.*s\"", i ? ", " : "", length, at);
        used += strlen(out + used);
    }
}

/* The valid values. Very large upper bounds are not printed. */
static void put_values(char *out, size_t bytes, const fv_key *key)
{
    const char *kind = key->type == FV_KEY_INT ? "whole number" : "number";
    const bool bounded = key->min < key->max, high = bounded && key->max < 1e6;
    switch (key->type) {
    case FV_KEY_CHOICE:
        put_choices(out, bytes, key->choices);
        break;
    case FV_KEY_BOOL:
        cli_format(out, bytes, "true or false");
        break;
    case FV_KEY_TEXT:
        cli_format(out, bytes, "text");
        break;
    case FV_KEY_PATH:
        cli_format(out, bytes, "file");
        break;
    case FV_KEY_INT:
    case FV_KEY_REAL:
        if (high)
            cli_format(out, bytes, "%s, %g to %g", kind, key->min, key->max);
        else if (bounded)
            cli_format(out, bytes, "%s from %g", kind, key->min);
        else
            cli_format(out, bytes, "%s", kind);
    }
}

static void put_key(FILE *to, const fv_key *key, const char *name, bool markdown)
{
    char values[256];
    put_values(values, sizeof values, key);
    const char *start = key->default_value ? key->default_value : "";
    const bool quoted =
        key->type == FV_KEY_CHOICE || key->type == FV_KEY_TEXT || key->type == FV_KEY_PATH;
    const char *quote = quoted ? "\"" : "";
    if (markdown) {
        fprintf(to, "| `%s` | %s | `%s%s%s` | %s |\n", name, values, quote, start, quote,
                key->help);
        return;
    }
    fprintf(to, "  %-17s %s [%s%s%s]\n", name, key->help, quote, start, quote);
    if (key->type != FV_KEY_BOOL && key->type != FV_KEY_TEXT) fprintf(to, "%20s%s\n", "", values);
}

static void put_section(FILE *to, const char *name, int length, bool markdown)
{
    const char *about = about_section(name, (size_t)length);
    if (markdown) {
        fprintf(to, "\n### [%.*s]\n\n%s.\n\n", length, name, about);
        fputs("| key | value | default | meaning |\n|---|---|---|---|\n", to);
        return;
    }
    char head[64];
    cli_format(head, sizeof head, "[%.*s]", length, name);
    fputc('\n', to);
    cli_styled(to, CLI_BOLD, head, 0);
    fprintf(to, "  %s\n", about);
}

/* Sections in the order in which they first appear; keys of one section may come from several
 * tables. */
static void put_keys(FILE *to, const fv_recipe *recipe, bool markdown)
{
    const fv_key *key, *other;
    for (size_t i = 0; (key = fv_recipe_key(recipe, i)) != NULL; i++) {
        const int length = (int)(strchr(key->name, '.') - key->name);
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++)
            seen = strncmp(fv_recipe_key(recipe, j)->name, key->name, (size_t)length + 1) == 0;
        if (seen) continue;
        put_section(to, key->name, length, markdown);
        for (size_t j = i; (other = fv_recipe_key(recipe, j)) != NULL; j++)
            if (strncmp(other->name, key->name, (size_t)length + 1) == 0)
                put_key(to, other, other->name + length + 1, markdown);
    }
}

int help_recipe(FILE *to, bool markdown)
{
    fv_ctx *ctx = NULL;
    fv_recipe *recipe = NULL;
    int code = cli_plain_context("help", &ctx);
    if (code != CLI_DONE) return code;
    const fv_status status = fv_run_recipe(ctx, &recipe);
    if (status != FV_OK) {
        code = cli_library_error("help", ctx, status);
    } else {
        if (!markdown)
            fputs("A recipe is a TOML file for 'fovea train'. Every key can be set on the command "
                  "line\ntoo: --train.lr 0.002. Defaults are in brackets.\n",
                  to);
        put_keys(to, recipe, markdown);
    }
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return code;
}
