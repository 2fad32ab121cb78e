/* fovea look MODEL [WORD ...]: words of a model of word vectors in a plane. */
#include <stdio.h>
#include <string.h>

#include "fovea/words.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

enum { MOST_WORDS = 400, DEFAULT_WORDS = 100 };

typedef struct plane {
    int64_t count;
    int64_t id[MOST_WORDS];
    double xy[2 * MOST_WORDS], x[MOST_WORDS], y[MOST_WORDS];
    const char *label[MOST_WORDS];
} plane;

/* The words given, or else the most frequent ones. */
static int choose(const cli_call *call, fv_ctx *ctx, fv_model *model, plane *p)
{
    const int64_t all = fv_words_count(model);
    if (call->word_count - 1 > MOST_WORDS) {
        cli_error("look: %d words, expected at most %d", call->word_count - 1, MOST_WORDS);
        return CLI_USAGE;
    }
    for (int i = 1; i < call->word_count; i++) {
        const fv_status status = fv_words_find(model, call->words[i], &p->id[p->count++]);
        if (status == FV_ERR_ARGUMENT) {
            cli_error("look: %s", fv_ctx_message(ctx));
            return CLI_USAGE;
        }
        if (status != FV_OK) return cli_library_error("look", ctx, status);
    }
    if (call->word_count > 1) return CLI_DONE;
    p->count = all < DEFAULT_WORDS ? all : DEFAULT_WORDS;
    for (int64_t i = 0; i < p->count; i++)
        p->id[i] = fv_words_first(model) + i;
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

int cli_look_plane(const cli_call *call, fv_ctx *ctx, fv_model *model)
{
    static plane p;
    const char *path = cli_text(call, "output");
    int code = choose(call, ctx, model, &p);
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
        if (path) continue;
        printf("%8.4f %8.4f ", p.x[i], p.y[i]);
        cli_safe_text(stdout, p.label[i]);
        printf("\n");
    }
    if (status == FV_OK && path) status = draw(call, ctx, &p, path);
    if (status != FV_OK) return cli_library_error("look", ctx, status);
    if (path) cli_note("wrote %s (%lld words)", path, (long long)p.count);
    return CLI_DONE;
}
