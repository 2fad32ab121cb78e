/* fovea look MODEL [WORD ...]: words of a model of word vectors in a plane. */
#include <stdio.h>
#include <string.h>

#include "fovea/words.h"
#include "input.h"
#include "look_model.h"
#include "output.h"
#include "run.h"

enum { MOST_WORDS = 400, DEFAULT_WORDS = 100, WORD_BYTES = 256 };

typedef struct plane {
    fv_ctx *ctx;
    fv_model *model;
    int64_t count;
    int64_t id[MOST_WORDS];
    double xy[2 * MOST_WORDS], x[MOST_WORDS], y[MOST_WORDS];
    const char *label[MOST_WORDS];
} plane;

static int add_word(plane *p, const char *text, size_t bytes)
{
    char word[WORD_BYTES];
    if (bytes >= sizeof word || p->count == MOST_WORDS) {
        cli_error("look: expected at most %d words of less than %d bytes", MOST_WORDS, WORD_BYTES);
        return CLI_USAGE;
    }
    cli_format(word, sizeof word, "%.*s", (int)bytes, text);
    const fv_status status = fv_words_find(p->model, word, &p->id[p->count]);
    if (status != FV_OK) {
        const int code = cli_library_error("look", p->ctx, status);
        return status == FV_ERR_ARGUMENT ? CLI_USAGE : code;
    }
    p->count++;
    return CLI_DONE;
}

/* A cli_texts_fn: words with blanks or commas between them. */
static int add_words(void *user, int64_t count, const fv_string *texts)
{
    int code = CLI_DONE;
    for (int64_t i = 0; i < count; i++) {
        const char *at = texts[i].text;
        while (!code && *(at += strspn(at, " \t,"))) {
            const size_t bytes = strcspn(at, " \t,");
            code = add_word(user, at, bytes);
            at += bytes;
        }
    }
    return code;
}

/* The words given, or else the most frequent ones. */
static int choose(const cli_call *call, plane *p)
{
    const int64_t all = fv_words_count(p->model);
    if (call->word_count > 1 || cli_given(call, "prompt") || cli_given(call, "file"))
        return cli_for_each_batch(call, p->ctx, 1, add_words, p);
    p->count = all < DEFAULT_WORDS ? all : DEFAULT_WORDS;
    for (int64_t i = 0; i < p->count; i++)
        p->id[i] = fv_words_first(p->model) + i;
    return CLI_DONE;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const plane *p, const char *path)
{
    fv_look_format form;
    fv_picture *picture = NULL;
    const fv_look_series words = {
        .x = p->x, .y = p->y, .count = p->count, .points_only = true, .labels = p->label};
    const fv_look_plot plot = {.title = look_title(call, "words by their vectors"),
                               .x = {.title = "first principal component"},
                               .y = {.title = "second"},
                               .series = &words,
                               .series_count = 1,
                               .width = 960,
                               .height = 720};
    fv_status status = fv_look_format_from_path(ctx, path, &form);
    if (status == FV_OK) status = fv_look_plot_draw(ctx, &plot, form, &picture);
    return look_save_picture(status, picture, path);
}

static void print_json(const plane *p)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_open(&j, "words", '[');
    for (int64_t i = 0; i < p->count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "word", p->label[i]);
        cli_json_exact(&j, "x", p->x[i]);
        cli_json_exact(&j, "y", p->y[i]);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static void print_text(const plane *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        printf("%8.4f %8.4f ", p->x[i], p->y[i]);
        cli_safe_text(stdout, p->label[i]);
        printf("\n");
    }
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const plane *p, const char *path)
{
    const bool json = cli_flag(call, "json");
    if (json) print_json(p);
    if (!path) {
        if (!json) print_text(p);
        return FV_OK;
    }
    const fv_status status = draw(call, ctx, p, path);
    if (status == FV_OK) cli_note("wrote %s (%lld words)", path, (long long)p->count);
    return status;
}

int cli_look_plane(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    static const char *const maps[] = {"pieces",  "no-special", "target", "beam", "pharaoh",
                                       "numbers", "palette",    "range",  "cell", "pixel",
                                       "invert",  "class",      NULL};
    static plane p;
    const char *path = cli_text(call, "output");
    if (!look_options_apply(call, model, maps)) return CLI_USAGE;
    if (path && cli_ends_with(path, ".npz")) {
        cli_error("look: -o FILE.npz is for attention weights; places of words: --json");
        return CLI_USAGE;
    }
    p = (plane){.ctx = ctx, .model = model};
    int code = choose(call, &p);
    if (code != CLI_DONE) return code;
    if (p.count < 3) {
        cli_error("look: %lld words, expected at least three for a plane", (long long)p.count);
        return CLI_USAGE;
    }
    fv_status status = fv_words_plane(model, p.id, p.count, p.xy);
    for (int64_t i = 0; status == FV_OK && i < p.count; i++) {
        p.x[i] = p.xy[2 * i];
        p.y[i] = p.xy[2 * i + 1];
        p.label[i] = fv_words_text(model, p.id[i]);
    }
    if (status == FV_OK) status = show(call, ctx, &p, path);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}
