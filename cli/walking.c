/* Walks on maps: the path, and the words that a walker looked at. */
#include <stdlib.h>
#include <string.h>

#include "example.h"
#include "fovea/file.h"
#include "fovea/walk.h"
#include "heatmap.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

/* The walk of the text on the map of --example. */
static int walk_one(const cli_call *call, const char *verb, fv_ctx *ctx, fv_model *model,
                    const char *text, fv_walk **out)
{
    if (!cli_given(call, "example")) {
        cli_error("%s: an instruction needs a map: add --example N", verb);
        return CLI_USAGE;
    }
    const fv_status status = fv_walk_example(model, (uint64_t)cli_int(call, "example"), text, out);
    return status == FV_OK ? CLI_DONE : cli_text_error(verb, ctx, status);
}

static const char *const headings[] = {"up", "right", "down", "left"};

static void print_json(const fv_walk *w)
{
    const fv_look_walk *d = &w->drawing;
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "instruction", w->instruction);
    cli_json_bool(&j, "stopped", w->stopped);
    if (w->has_goal) cli_json_bool(&j, "reached", w->reached);
    cli_json_open(&j, "map", '[');
    for (int64_t row = 0; row < d->rows; row++) {
        cli_json_open(&j, NULL, '[');
        for (int64_t col = 0; col < d->cols; col++) {
            const char *cell = d->cell[row * d->cols + col];
            cli_json_text(&j, NULL, cell ? cell : "");
        }
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, ']');
    cli_json_open(&j, "steps", '[');
    for (int64_t i = 0; i < d->step_count; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_int(&j, "row", d->step[i].row);
        cli_json_int(&j, "col", d->step[i].col);
        cli_json_text(&j, "heading", headings[d->step[i].heading & 3]);
        cli_json_text(&j, "action", d->step[i].action);
        if (d->weights) {
            cli_json_open(&j, "weights", '[');
            for (int64_t k = 0; k < d->word_count; k++)
                cli_json_real(&j, NULL, (double)d->weights[i * d->word_count + k]);
            cli_json_close(&j, ']');
        }
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

/* One line for each step, then how it ended. */
static void print_path(const fv_walk *w)
{
    const fv_look_walk *d = &w->drawing;
    cli_safe_text(stdout, w->instruction);
    printf("\n");
    for (int64_t i = 0; i < d->step_count; i++) {
        const char *cell = d->cell[d->step[i].row * d->cols + d->step[i].col];
        printf("%3lld  row %d col %d %-5s  %-7s%s%s\n", (long long)i + 1, d->step[i].row + 1,
               d->step[i].col + 1, headings[d->step[i].heading & 3], d->step[i].action,
               cell ? "  at the " : "", cell ? cell : "");
    }
    if (!w->stopped) printf("did not stop\n");
    if (w->has_goal) printf("%s\n", w->reached ? "reached the goal" : "missed the goal");
}

int cli_run_walk(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text)
{
    fv_walk *w = NULL;
    const int code = walk_one(call, "run", ctx, model, text, &w);
    if (!code && cli_flag(call, "json")) print_json(w);
    if (!code && !cli_flag(call, "json")) print_path(w);
    fv_walk_free(&w);
    return code;
}

static fv_status save_array(fv_ctx *ctx, const fv_look_walk *d, const char *path)
{
    const char *name = "walker";
    const int64_t shape[] = {d->step_count, d->word_count};
    fv_scope_begin(ctx);
    fv_tensor *weights = fv_from_host(ctx, FV_F32, 2, shape, d->weights);
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const fv_walk *w,
                      const fv_look_options *how, const char *path)
{
    fv_look_walk d = w->drawing;
    d.title = look_title(call, w->instruction);
    fv_look_format form = cli_colour(stdout) ? FV_LOOK_FORMAT_TERMINAL : FV_LOOK_FORMAT_TEXT;
    fv_picture *picture = NULL;
    fv_status status = path ? fv_look_format_from_path(ctx, path, &form) : FV_OK;
    if (status == FV_OK) status = fv_look_walk_draw(ctx, &d, form, how, &picture);
    if (status == FV_OK && path) status = fv_picture_save(picture, path);
    if (status == FV_OK && !path) fputs(fv_picture_data(picture, NULL), stdout);
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld steps, %lld words)", path, (long long)d.step_count,
                 (long long)d.word_count);
    fv_picture_free(&picture);
    return status;
}

int cli_look_walk(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const char *path)
{
    fv_walk *w = NULL;
    fv_look_options how;
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    int code = walk_one(call, "look", ctx, model, text, &w);
    if (code) return code;
    const bool array = cli_ends_with(path, ".npz");
    fv_status status = FV_OK;
    if (cli_flag(call, "json")) print_json(w);
    if (array && !w->drawing.weights) {
        cli_error("look: no attention weights: this walker has no attention");
        code = CLI_MISSING;
    } else if (path || !cli_flag(call, "json")) {
        status = array ? save_array(ctx, &w->drawing, path) : draw(call, ctx, w, &how, path);
    }
    if (status != FV_OK) code = cli_library_error("look", ctx, status);
    fv_walk_free(&w);
    return code;
}
