/*
 * fovea look at a Neural Turing Machine: what its heads did at each step of one sequence. One map
 * with time from left to right: inputs and answers, and below them for each head its weights over
 * the slots that were used, its gate, the weights of its shifts and its sharpness, as 1 - 1 / y.
 * --at memory shows the memory before the last step's write.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "fovea/file.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

enum { MOST_SITES = 512 };

/* One captured site: `rows` x `cols` numbers, of the memory the last step's. */
typedef struct track {
    char name[48];
    int64_t rows, cols;
    float *values;
} track;

typedef struct tracks {
    track list[MOST_SITES];
    int count;
} tracks;

static void free_tracks(tracks *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->list[i].values);
    free(t);
}

/* An fv_capture.on_weights: copies [1, 1, T, n], and of the memory [1, T, W, N] the last W x N. */
static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    tracks *t = user;
    const fv_tensor *w = site->captured.weights;
    const int64_t *shape = fv_tensor_shape(w), count = fv_tensor_count(w);
    if (t->count == MOST_SITES) return FV_OK;
    track *out = &t->list[t->count];
    const int64_t kept = shape[2] * shape[3];
    float *all = malloc((size_t)count * sizeof *all);
    if (!all) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    const fv_status status = fv_tensor_read(ctx, w, all, (size_t)count * sizeof *all);
    memmove(all, all + (count - kept), (size_t)kept * sizeof *all);
    *out = (track){.rows = shape[2], .cols = shape[3], .values = all};
    cli_format(out->name, sizeof out->name, "%s", site->name);
    t->count++;
    return status;
}

static bool is_weights(const track *t)
{
    const char *dot = strchr(t->name, '.');
    return dot && !strchr(dot + 1, '.');
}

/* ---- the map -------------------------------------------------------------------------------- */

typedef struct picture {
    int64_t rows, cols;
    float *values;
    char **labels;
} picture;

static void free_picture(picture *p)
{
    for (int64_t i = 0; p->labels && i < p->rows; i++)
        free(p->labels[i]);
    free(p->labels);
    free(p->values);
}

/* Whether a head ever put a tenth of its weight on a slot. */
static bool is_used(const track *t, int64_t slot)
{
    for (int64_t i = 0; i < t->rows; i++)
        if (t->values[i * t->cols + slot] > 0.1f) return true;
    return false;
}

/* Appends a row of zeros. */
static bool add_row(picture *p, const char *label)
{
    float *values = realloc(p->values, (size_t)((p->rows + 1) * p->cols) * sizeof *values);
    if (values) p->values = values;
    char **labels = realloc(p->labels, (size_t)(p->rows + 1) * sizeof *labels);
    if (labels) p->labels = labels;
    if (!values || !labels) return false;
    labels[p->rows] = strdup(label);
    if (!labels[p->rows]) return false;
    for (int64_t i = 0; i < p->cols; i++)
        values[p->rows * p->cols + i] = 0;
    p->rows++;
    return true;
}

static float *last_row(const picture *p) { return p->values + (p->rows - 1) * p->cols; }

/* Channels of inputs or answers; answers belong to the last steps. */
static bool add_channels(picture *p, const char *name, const float *x, int64_t steps, int64_t width,
                         bool logits)
{
    for (int64_t k = 0; k < width; k++) {
        char label[48];
        cli_format(label, sizeof label, "%s %lld", name, (long long)k);
        if (!add_row(p, label)) return false;
        for (int64_t i = 0; i < steps; i++) {
            const double v = (double)x[i * width + k];
            last_row(p)[p->cols - steps + i] = (float)(logits ? 1 / (1 + exp(-v)) : fabs(v));
        }
    }
    return true;
}

/* How many slots the head has whose track this is; 0: unknown. */
static int64_t slots_of(const tracks *all, const track *t)
{
    const char *dot = strrchr(t->name, '.');
    const size_t bytes = dot ? (size_t)(dot - t->name) : 0;
    for (int i = 0; i < all->count; i++)
        if (strlen(all->list[i].name) == bytes && strncmp(all->list[i].name, t->name, bytes) == 0)
            return all->list[i].cols;
    return 0;
}

/* The part of the weight that a uniform shift moves by `offset` of `slots` slots: shift 6.7 moves
 * 0.3 by 6 and 0.7 by 7. */
static float moved_by(float shift, int64_t offset, int64_t slots)
{
    const double lower = floor((double)shift), upper_share = (double)shift - lower;
    double part = 0;
    for (int k = 0; k < 2; k++) {
        const double at =
            fmod(fmod(lower + k - (double)offset, (double)slots) + (double)slots, (double)slots);
        if (at == 0) part += k ? upper_share : 1 - upper_share;
    }
    return (float)part;
}

/* The offsets by which a uniform shift ever moved a tenth of the weight. */
static bool add_uniform_shift(picture *p, const track *t, int64_t slots)
{
    for (int64_t offset = -((slots - 1) / 2); offset <= slots / 2; offset++) {
        char label[80];
        float most = 0;
        for (int64_t i = 0; i < t->rows; i++)
            most = fmaxf(most, moved_by(t->values[i], offset, slots));
        if (most <= 0.1f) continue;
        cli_format(label, sizeof label, "%s %+lld", t->name, (long long)offset);
        if (!add_row(p, label)) return false;
        for (int64_t i = 0; i < t->rows; i++)
            last_row(p)[i] = moved_by(t->values[i], offset, slots);
    }
    return true;
}

static bool add_track(picture *p, const tracks *all, const track *t)
{
    const bool weights = is_weights(t), sharp = strstr(t->name, ".sharpness") != NULL;
    const int64_t slots = slots_of(all, t);
    if (strstr(t->name, ".strength")) return true;
    if (strstr(t->name, ".shift") && t->cols == 1 && slots > 0)
        return add_uniform_shift(p, t, slots);
    for (int64_t k = 0; k < t->cols; k++) {
        char label[80];
        const int64_t offset = k - t->cols / 2;
        if (weights && !is_used(t, k)) continue;
        if (weights)
            cli_format(label, sizeof label, "%s slot %lld", t->name, (long long)k);
        else if (t->cols > 1)
            cli_format(label, sizeof label, "%s %+lld", t->name, (long long)offset);
        else
            cli_format(label, sizeof label, "%s", t->name);
        if (!add_row(p, label)) return false;
        for (int64_t i = 0; i < t->rows; i++) {
            const float v = t->values[i * t->cols + k];
            last_row(p)[i] = sharp ? 1 - 1 / v : v;
        }
    }
    return true;
}

static fv_status draw_heads(const cli_call *call, fv_ctx *ctx, const tracks *t, const cli_bits *b,
                            const char *path)
{
    const fv_bits_example *e = &b->example;
    picture p = {.cols = e->steps};
    bool made = add_channels(&p, "input", e->inputs, e->steps, e->input_width, false) &&
                add_channels(&p, "output", b->logits, e->answers, e->output_width, true);
    for (int i = 0; i < t->count && made; i++)
        if (strcmp(t->list[i].name, "memory") != 0) made = add_track(&p, t, &t->list[i]);
    fv_look_options how;
    fv_status status = made ? FV_OK : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    if (status == FV_OK && !look_picture_options(call, &how)) status = FV_ERR_ARGUMENT;
    if (status == FV_OK) {
        const fv_look_map map = {.rows = p.rows,
                                 .cols = p.cols,
                                 .values = p.values,
                                 .row_labels = (const char *const *)p.labels,
                                 .title = look_title(call, "heads over time"),
                                 .col_title = "step"};
        status = look_draw_map(ctx, &map, &how, path);
        if (status == FV_OK && path) cli_note("wrote %s (%lld steps)", path, (long long)e->steps);
    }
    free_picture(&p);
    return status;
}

static fv_status draw_memory(const cli_call *call, fv_ctx *ctx, const track *memory,
                             const char *path)
{
    fv_look_options how;
    if (!look_picture_options(call, &how)) return FV_ERR_ARGUMENT;
    if (!cli_given(call, "palette")) how.colours = FV_COLOUR_MAP_DIVERGING;
    const fv_look_map map = {.rows = memory->rows,
                             .cols = memory->cols,
                             .values = memory->values,
                             .title = look_title(call, "memory before the last step"),
                             .row_title = "number",
                             .col_title = "slot"};
    const fv_status status = look_draw_map(ctx, &map, &how, path);
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld slots of %lld numbers)", path, (long long)memory->cols,
                 (long long)memory->rows);
    return status;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static fv_status save_arrays(fv_ctx *ctx, const tracks *t, const char *path)
{
    const char *names[MOST_SITES];
    fv_tensor *arrays[MOST_SITES];
    fv_scope_begin(ctx);
    for (int i = 0; i < t->count; i++) {
        names[i] = t->list[i].name;
        arrays[i] = fv_from_host(ctx, FV_F32, 2, (int64_t[]){t->list[i].rows, t->list[i].cols},
                                 t->list[i].values);
    }
    const fv_status status = fv_npz_save(ctx, names, arrays, (size_t)t->count, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (%d arrays)", path, t->count);
    return status;
}

static void print_json(const tracks *t, const cli_bits *b)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_int(&j, "steps", b->example.steps);
    cli_json_int(&j, "wrong", b->wrong);
    for (int i = 0; i < t->count; i++) {
        cli_json_open(&j, t->list[i].name, '[');
        for (int64_t r = 0; r < t->list[i].rows; r++) {
            cli_json_open(&j, NULL, '[');
            for (int64_t c = 0; c < t->list[i].cols; c++)
                cli_json_real(&j, NULL, (double)t->list[i].values[r * t->list[i].cols + c]);
            cli_json_close(&j, ']');
        }
        cli_json_close(&j, ']');
    }
    cli_json_close(&j, '}');
}

/* ---- the verb ------------------------------------------------------------------------------- */

static int show(const cli_call *call, fv_ctx *ctx, const tracks *t, const cli_bits *b,
                const char *path)
{
    const bool numbers = cli_ends_with(path, ".npz"), nothing = cli_flag(call, "json") && !path,
               memory = !numbers && strcmp(cli_text(call, "at"), "memory") == 0;
    fv_status status = FV_OK;
    if (cli_flag(call, "json")) print_json(t, b);
    if (nothing) return CLI_DONE;
    if (numbers)
        status = save_arrays(ctx, t, path);
    else if (!memory)
        status = draw_heads(call, ctx, t, b, path);
    for (int i = 0; i < t->count && memory && status == FV_OK; i++)
        if (strcmp(t->list[i].name, "memory") == 0)
            status = draw_memory(call, ctx, &t->list[i], path);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}

int cli_look_bits(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *text,
                  const char *path)
{
    fv_look_options how;
    cli_bits b;
    const char *at = cli_text(call, "at"), *inside = look_inside_option(call);
    const bool sided = strcmp(at, "auto") != 0 && strcmp(at, "memory") != 0;
    if (!inside || strcmp(inside, "at") == 0) inside = sided ? "at" : look_text_option(call);
    if (inside) {
        cli_error("look: --%s%s%s does not apply to a %s model", inside, sided ? " " : "",
                  sided ? at : "", fv_model_type(model));
        return CLI_USAGE;
    }
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    tracks *t = calloc(1, sizeof *t);
    if (!t) {
        cli_error("look: out of memory");
        return CLI_FAILED;
    }
    const fv_capture capture = {.on_weights = take, .user = t};
    int code = cli_bits_run(call, ctx, model, text, &capture, &b);
    if (!code && t->count == 0) {
        cli_error("look: the model has no memory: it was trained with ntm.slots = 0");
        code = CLI_USAGE;
    }
    if (!code) code = show(call, ctx, t, &b, path);
    cli_bits_free(ctx, &b);
    free_tracks(t);
    return code;
}
