/* The recipe for a user's file: sizes for the data and the machine, written with reasons. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fovea/task.h"
#include "input.h"
#include "memory.h"
#include "output.h"
#include "train_new.h"

/* ---- entries ------------------------------------------------------------------------------- */

enum { MOST_ENTRIES = 48, VALUE_ROOM = CLI_PATH_BYTES };

typedef struct entry {
    const char *name; /* "section.key" */
    bool quoted;
    const char *why; /* NULL: no comment */
    char value[64];
} entry;

typedef struct draft {
    new_data *data;
    entry entries[MOST_ENTRIES];
    int count;
    char source[VALUE_ROOM]; /* absolute path of a plain text */
} draft;

static void put(draft *d, const char *name, bool quoted, const char *value, const char *why)
{
    entry *e = &d->entries[d->count++];
    *e = (entry){.name = name, .quoted = quoted, .why = why};
    cli_format(e->value, sizeof e->value, "%s", value);
}

static void put_text(draft *d, const char *name, const char *value, const char *why)
{
    put(d, name, true, value, why);
}

static void put_number(draft *d, const char *name, double value, const char *why)
{
    char text[32];
    cli_format(text, sizeof text, "%.10g", value);
    put(d, name, false, text, why);
}

static void put_true(draft *d, const char *name, const char *why)
{
    put(d, name, false, "true", why);
}

/* ---- sizes --------------------------------------------------------------------------------- */

/* From the smallest; the first whose `rows` (or KiB of a text) are not exceeded fits the data. */
static const struct size {
    const char *name;
    double rows, kilobytes;
    int width, layers, vocabulary;
    double dropout, epochs;
} sizes[] = {
    {"tiny", 3000, 300, 64, 2, 2000, 0.2, 40},
    {"small", 30000, 3000, 128, 2, 4000, 0.2, 25},
    {"medium", 200000, 30000, 256, 4, 8000, 0.1, 12},
    {"large", INFINITY, INFINITY, 512, 6, 16000, 0.1, 6},
};

enum { SIZES = sizeof sizes / sizeof *sizes, LEAST_STEPS = 300, MOST_STEPS = 100000 };

static int size_for_data(const new_data *data)
{
    const bool text = data->task == NEW_LANGUAGE;
    int i = 0;
    while (i < SIZES - 1 &&
           (text ? data->bytes / 1024 > sizes[i].kilobytes : (double)data->train > sizes[i].rows))
        i++;
    return i;
}

/* The words that 99 of 100 texts do not exceed. */
static int long_text(const new_data *data)
{
    int64_t seen = 0;
    for (int i = 0; i < NEW_LENGTHS; i++)
        if ((seen += data->lengths[i]) * 100 >= data->count * 99) return i;
    return NEW_LENGTHS;
}

/* The smallest of 32, 64, ... 512 tokens that holds most texts. */
static int length_for(const new_data *data)
{
    const int tokens = 2 * long_text(data) + 4; /* a word is 1.3 to 2 tokens */
    int length = 32;
    while (length < tokens && length < 512)
        length *= 2;
    return length;
}

/* ---- sections ------------------------------------------------------------------------------ */

/* Steps of so many epochs over `tokens`. */
static double steps_for(double tokens, double batch, double epochs)
{
    const double steps = ceil(tokens * epochs / batch / 100) * 100;
    return fmin(fmax(steps, LEAST_STEPS), MOST_STEPS);
}

static void put_loop(draft *d, double steps, double rate, double batch)
{
    put_number(d, "train.steps", steps, "updates; --train.steps N to try more or fewer");
    put_text(d, "train.optimizer", "adamw", NULL);
    put_number(d, "train.lr", rate, "highest learning rate");
    put_text(d, "train.schedule", "cosine", NULL);
    put_number(d, "train.warmup", fmin(ceil(steps / 20), 1000), NULL);
    put_number(d, "train.weight_decay", 0.01, NULL);
    put_number(d, "train.clip", 1, NULL);
    put_number(d, "train.batch_tokens", batch, "halve it if memory is short");
    put_number(d, "train.eval_every", ceil(steps / 10), "steps between evaluations");
    put_number(d, "train.save_every", ceil(steps / 20), "steps between states to resume from");
}

static void put_translation(draft *d, const struct size *s)
{
    const double batch = 1500, tokens = 1.5 * d->data->words;
    put_text(d, "data.train_source", "train.source", "one text per line");
    put_text(d, "data.train_target", "train.target", NULL);
    put_text(d, "data.valid_source", "valid.source", "rows held out by hash of the source");
    put_text(d, "data.valid_target", "valid.target", NULL);
    put_number(d, "data.max_tokens", 2 * length_for(d->data), "longer pairs are left out");
    put_text(d, "tokens.kind", "bytes", "byte-level BPE: works for every language");
    put_number(d, "tokens.vocabulary", s->vocabulary, "at most, per side");
    put_number(d, "model.embedding", s->width, s->name);
    put_number(d, "model.encoder_hidden", s->width, "each direction of a bidirectional GRU");
    put_number(d, "model.hidden", 2 * s->width, "decoder GRU, with additive attention");
    put_number(d, "model.attention_width", s->width, NULL);
    put_number(d, "model.readout_width", s->width, NULL);
    put_true(d, "model.tied", "one matrix for target embeddings and outputs");
    put_number(d, "model.dropout", s->dropout, NULL);
    put_number(d, "model.smoothing", 0.1, NULL);
    put_text(d, "train.task", "translation", NULL);
    put_loop(d, steps_for(tokens, batch, s->epochs), 0.002, batch);
    put_text(d, "eval.metric", "bleu", "selects the best weights");
    put_number(d, "eval.max_texts", 500, "validation texts to translate");
    put_number(d, "eval.samples", 3, "translations to print at each evaluation");
}

static void put_transformer(draft *d, const struct size *s, const char *family, bool encoder)
{
    put_text(d, "transformer.family", family, NULL);
    put_number(d, encoder ? "transformer.encoder_layers" : "transformer.decoder_layers", s->layers,
               s->name);
    put_number(d, "transformer.width", s->width, NULL);
    put_number(d, "transformer.heads", s->width / 32, NULL);
    put_number(d, "transformer.hidden", 4 * s->width, "units of the feed-forward layers");
}

static void put_classes(draft *d, const struct size *s)
{
    const double batch = 2000, tokens = 1.5 * d->data->words;
    put_text(d, "data.train_csv", "train.csv", NULL);
    put_text(d, "data.valid_csv", "valid.csv", "rows held out by hash of the text");
    put_text(d, "data.text_column", "text", NULL);
    if (d->data->task == NEW_PAIRS)
        put_text(d, "data.second_column", CLI_NEW_SECOND, "the class is that of both texts");
    put_text(d, "data.label_column", "label", NULL);
    put_text(d, "tokens.kind", "bytes", "byte-level BPE: works for every language");
    put_number(d, "tokens.vocabulary", s->vocabulary, "at most");
    put_true(d, "tokens.lowercase", NULL);
    put_transformer(d, s, "bert", true);
    put_number(d, "transformer.length", length_for(d->data), "tokens; longer texts are cut");
    put_number(d, "transformer.dropout", s->dropout, NULL);
    put_text(d, "train.task", "classify", NULL);
    put_loop(d, steps_for(tokens, batch, s->epochs), 0.001, batch);
}

static void put_language(draft *d, const struct size *s)
{
    const bool plain = d->data->info->format == FV_TABLE_TEXT, chars = d->data->bytes < 2e6;
    const int length = plain ? 128 : length_for(d->data);
    const double batch = 16 * 128, tokens = chars ? d->data->bytes : d->data->bytes / 3.5;
    put_text(d, "data.train_text", plain ? d->source : "train.txt", NULL);
    if (plain) {
        put_number(d, "data.valid_share", 0.1, "the end of the text is held out");
        put_true(d, "data.skip_invalid", "leave out lines that are not UTF-8");
    } else {
        put_text(d, "data.valid_text", "valid.txt", "rows held out by hash");
        put_text(d, "data.documents", "lines", "each row is a text of its own");
    }
    put_text(d, "tokens.kind", chars ? "char" : "bytes",
             chars ? "characters: the text is short" : "byte-level BPE");
    put_number(d, "tokens.vocabulary", s->vocabulary, "at most");
    if (chars) put_text(d, "tokens.normalize", "none", NULL);
    put_transformer(d, s, "gpt2", false);
    put_number(d, "transformer.length", chars && !plain ? 4 * length : length, "context in tokens");
    put_number(d, "transformer.dropout", s->dropout, NULL);
    put_text(d, "train.task", "language", NULL);
    put_loop(d, steps_for(tokens, batch, chars ? s->epochs / 4 : s->epochs), 0.002, batch);
}

static void fill(draft *d, const struct size *s)
{
    d->count = 0;
    if (d->data->task == NEW_TRANSLATION)
        put_translation(d, s);
    else if (d->data->task == NEW_LANGUAGE)
        put_language(d, s);
    else
        put_classes(d, s);
}

/* ---- recipes without sizes ------------------------------------------------------------------- */

/* KiB of the training files. Compressed text is about three times as long. */
static double training_data(const fv_recipe *recipe)
{
    static const char *const names[] = {"data.train_source", "data.train_target",
                                        "data.train_csv",    "data.train_text",
                                        "data.train_text2",  "data.train_text3"};
    double bytes = 0;
    for (int i = 0; i < CLI_COUNT(names); i++) {
        struct stat st;
        const char *path = fv_recipe_text(recipe, names[i]);
        if (!*path || stat(path, &st) != 0) continue;
        const bool packed = cli_ends_with(path, ".gz") || cli_ends_with(path, ".xz");
        bytes += (double)st.st_size * (packed ? 3 : 1);
    }
    return bytes / 1024;
}

fv_status cli_default_sizes(fv_recipe *recipe, bool quiet)
{
    static const char *const keys[] = {"transformer.width",          "transformer.encoder_layers",
                                       "transformer.decoder_layers", "transformer.heads",
                                       "transformer.hidden",         "train.init_from"};
    const double have = training_data(recipe);
    const struct size *s = sizes;
    for (int i = 0; i < CLI_COUNT(keys); i++)
        if (fv_recipe_is_set(recipe, keys[i])) return FV_OK;
    if (!cli_is_transformer(recipe) || have <= 0) return FV_OK;
    while (have > s->kilobytes)
        s++;
    const char *family = fv_recipe_text(recipe, "transformer.family");
    const bool reads = strcmp(family, "gpt2") != 0 && strcmp(family, "llama") != 0,
               writes = strcmp(family, "bert") != 0;
    const int values[] = {s->width, reads ? s->layers : 0, writes ? s->layers : 0, s->width / 32,
                          4 * s->width};
    fv_status status = FV_OK;
    for (int i = 0; i < CLI_COUNT(values) && status == FV_OK; i++) {
        char text[16];
        if (values[i] == 0) continue;
        cli_format(text, sizeof text, "%d", values[i]);
        status = fv_recipe_set(recipe, keys[i], text);
    }
    if (status == FV_OK && !quiet)
        cli_note("train: the recipe sets no model size; for %.0f KiB of data: width %d, %d layers "
                 "(transformer.width, ...)",
                 have, s->width, s->layers);
    return status;
}

/* ---- choice -------------------------------------------------------------------------------- */

#define MOST_SECONDS (4 * 3600.0)
#define MEMORY_SHARE 0.6 /* of the cap */

static fv_status cost_of(const draft *d, double flops, cli_cost *out)
{
    fv_recipe *recipe = NULL;
    fv_status status = fv_run_recipe(d->data->ctx, &recipe);
    for (int i = 0; i < d->count && status == FV_OK; i++)
        status = fv_recipe_set(recipe, d->entries[i].name, d->entries[i].value);
    cli_plan plan;
    if (status == FV_OK) status = cli_new_plan(d->data, recipe, &plan);
    if (status == FV_OK) *out = cli_train_cost(recipe, &plan, flops);
    fv_recipe_destroy(&recipe);
    return status;
}

static void time_text(char out[32], double seconds)
{
    if (seconds < 90)
        cli_format(out, 32, "%.0f seconds", fmax(ceil(seconds / 10) * 10, 10));
    else if (seconds < 5400)
        cli_format(out, 32, "%.0f minutes", ceil(seconds / 60));
    else
        cli_format(out, 32, "%.1f hours", seconds / 3600);
}

/* The size for the data, or a smaller one that this machine trains in hours. */
static fv_status choose_size(draft *d, int threads, int *size, cli_cost *cost)
{
    const double flops = cli_measure_flops(threads), cap = (double)cli_memory_cap();
    fv_status status = FV_OK;
    for (*size = size_for_data(d->data); status == FV_OK; --*size) {
        fill(d, &sizes[*size]);
        status = cost_of(d, flops, cost);
        const bool fits =
            cost->seconds <= MOST_SECONDS && (cap <= 0 || cost->bytes <= MEMORY_SHARE * cap);
        if (status != FV_OK || fits || *size == 0) break;
    }
    return status;
}

static void print_choice(const new_data *data, const struct size *s, const cli_cost *cost)
{
    char time[32], bytes[24], cap[24], needed[128];
    time_text(time, cost->seconds);
    cli_bytes_text(bytes, (uint64_t)cost->bytes);
    cli_bytes_text(cap, cli_memory_cap());
    cli_note("model: %s, %s, %d wide, about %.3g million parameters", s->name,
             data->task == NEW_TRANSLATION ? "recurrent encoder-decoder with attention"
             : data->task == NEW_LANGUAGE  ? "GPT-2"
                                           : "BERT",
             s->width, cost->parameters / 1e6);
    cli_format(needed, sizeof needed, "expected: about %s and %s of memory", time, bytes);
    if (cli_memory_cap() > 0)
        cli_note("%s (the cap is %s)", needed, cap);
    else
        cli_note("%s", needed);
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_entries(FILE *to, const draft *d)
{
    const char *section = "";
    size_t length = 0;
    for (int i = 0; i < d->count; i++) {
        const entry *e = &d->entries[i];
        const char *dot = strchr(e->name, '.');
        if ((size_t)(dot - e->name) != length || strncmp(section, e->name, length) != 0) {
            section = e->name;
            length = (size_t)(dot - e->name);
            fprintf(to, "\n[%.*s]\n", (int)length, section);
        }
        fprintf(to, "%s = ", dot + 1);
        if (strcmp(e->name, "data.train_text") == 0 && *d->source) {
            putc('"', to);
            for (const char *c = d->source; *c; c++) {
                if (*c == '"' || *c == '\\') putc('\\', to);
                putc(*c, to);
            }
            putc('"', to);
        } else {
            fprintf(to, e->quoted ? "\"%s\"" : "%s", e->value);
        }
        fprintf(to, e->why ? " # %s\n" : "\n", e->why);
    }
}

static void write_head(FILE *to, const new_data *data, const char *path, const char *folder)
{
    fprintf(to, "# %s, made by: fovea train --new\n", cli_new_task_name(data->task));
    fprintf(to, "# digest %016llx\n", (unsigned long long)data->digest);
    if (data->info->format != FV_TABLE_TEXT)
        fprintf(to, "# %lld rows to train on, %lld for validation, %lld left out\n",
                (long long)data->train, (long long)data->valid, (long long)data->left_out);
    fprintf(to, "# Edit this file and run, in another folder if sizes change:\n");
    fprintf(to, "#     fovea train %s -o %s\n", path, folder);
    fprintf(to, "# 'fovea help recipe' lists all keys; %s/recipe.toml has their values.\n", folder);
}

int cli_new_recipe(new_data *data, const char *path, const char *folder, int threads)
{
    draft d = {.data = data};
    cli_cost cost = {0};
    int size = 0;
    if (data->info->format == FV_TABLE_TEXT) {
        char *real = realpath(data->file, NULL);
        cli_format(d.source, sizeof d.source, "%s", real ? real : data->file);
        free(real);
    }
    const fv_status status = choose_size(&d, threads, &size, &cost);
    if (status != FV_OK) return cli_library_error("train", data->ctx, status);
    print_choice(data, &sizes[size], &cost);
    if (!path) return CLI_DONE;
    FILE *to = fopen(path, "we");
    if (to) {
        write_head(to, data, path, folder);
        write_entries(to, &d);
    }
    const bool written = to && !ferror(to) && fflush(to) == 0 && fsync(fileno(to)) == 0;
    if ((to && fclose(to) != 0) || !written) {
        cli_error("train: %s: cannot write the recipe", path);
        return CLI_FAILED;
    }
    return CLI_DONE;
}
