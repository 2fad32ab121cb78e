/*
 * fovea look with a recording: a map with a row for each character of the output, or for each layer
 * of a classifier, above the spectrogram, on one axis of time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "input.h"
#include "look_model.h"
#include "media.h"
#include "output.h"
#include "sound.h"

/* Attention over a recording. */
typedef struct spoken {
    const cli_recording *r;
    int64_t rows, positions;
    float *weights; /* [rows][positions] */
    char **labels;  /* [rows] */
    char title[256];
    int64_t room; /* rows that fit */
} spoken;

static void spoken_free(spoken *s)
{
    for (int64_t i = 0; s->labels && i < s->rows; i++)
        free(s->labels[i]);
    free(s->labels);
    free(s->weights);
}

static fv_status spoken_room(fv_ctx *ctx, spoken *s, int64_t rows, int64_t positions)
{
    s->room = rows;
    s->positions = positions;
    s->weights = malloc((size_t)(rows * positions + 1) * sizeof *s->weights);
    s->labels = calloc((size_t)rows + 1, sizeof *s->labels);
    return s->weights && s->labels ? FV_OK : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
}

static fv_status add_row(fv_ctx *ctx, spoken *s, const char *label, const float *weights)
{
    s->labels[s->rows] = strdup(label);
    if (!s->labels[s->rows]) return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    memcpy(s->weights + s->rows * s->positions, weights, (size_t)s->positions * sizeof *weights);
    s->rows++;
    return FV_OK;
}

/* ---- what is drawn -------------------------------------------------------------------------- */

/* Frames of one position: an encoder may halve their number several times. */
static int64_t frames_of_position(const spoken *s)
{
    int64_t unit = 1;
    while (unit < s->r->frames && (s->r->frames + unit - 1) / unit > s->positions)
        unit *= 2;
    return unit;
}

/* A map of `columns` columns: the attention, an empty row, the spectrogram in `bands` rows. */
typedef struct layout {
    int64_t columns, bands, rows;
} layout;

/* On a terminal a column is wide, so several frames share one. */
static layout choose_layout(const spoken *s, const char *path)
{
    enum { BANDS = 20, TEXT_BANDS = 8, TEXT_COLUMNS = 32 };
    layout l = {.columns = s->r->frames, .bands = path ? BANDS : TEXT_BANDS};
    if (!path && l.columns > TEXT_COLUMNS) l.columns = TEXT_COLUMNS;
    if (l.bands > s->r->mels) l.bands = s->r->mels;
    l.rows = s->rows + 1 + l.bands;
    return l;
}

/* The strongest weight of a row among frames [from, to). */
static float strongest(const spoken *s, int64_t row, int64_t from, int64_t to)
{
    const int64_t unit = frames_of_position(s);
    float most = 0;
    for (int64_t t = from; t < to; t++)
        most = fmaxf(most, s->weights[row * s->positions + t / unit]);
    return most;
}

/* The loudest value of band `band` of `bands`, the highest first, among frames [from, to). */
static float loudest(const cli_recording *r, int64_t band, int64_t bands, int64_t from, int64_t to)
{
    float most = -INFINITY;
    const int64_t low = (bands - 1 - band) * r->mels / bands,
                  high = (bands - band) * r->mels / bands;
    for (int64_t t = from; t < to; t++)
        for (int64_t m = low; m < high; m++)
            most = fmaxf(most, r->spectrogram[t * r->mels + m]);
    return most;
}

/* Weights as they are; the spectrogram from 0 to `high`. */
static void fill_map(const spoken *s, const layout *l, double high, float *map)
{
    float low = INFINITY, top = -INFINITY, *bands = map + (s->rows + 1) * l->columns;
    for (int64_t c = 0; c < l->columns; c++) {
        const int64_t from = c * s->r->frames / l->columns,
                      to = (c + 1) * s->r->frames / l->columns;
        for (int64_t i = 0; i <= s->rows; i++)
            map[i * l->columns + c] = i < s->rows ? strongest(s, i, from, to) : 0;
        for (int64_t b = 0; b < l->bands; b++)
            bands[b * l->columns + c] = loudest(s->r, b, l->bands, from, to);
    }
    for (int64_t i = 0; i < l->bands * l->columns; i++) {
        low = fminf(low, bands[i]);
        top = fmaxf(top, bands[i]);
    }
    for (int64_t i = 0; i < l->bands * l->columns; i++)
        bands[i] = top > low ? (float)(high * (double)((bands[i] - low) / (top - low))) : 0;
}

static fv_status draw(const cli_call *call, fv_ctx *ctx, const spoken *s,
                      const fv_look_options *options, const char *path)
{
    const layout l = choose_layout(s, path);
    float *map = malloc((size_t)(l.rows * l.columns) * sizeof *map);
    const char **labels = calloc((size_t)l.rows, sizeof *labels);
    fv_look_options how = *options;
    double high = 0;
    for (int64_t i = 0; i < s->rows * s->positions; i++)
        high = fmax(high, (double)s->weights[i]);
    if (how.low == how.high) how.high = high > 0 ? high : 1;
    fv_status status = map && labels ? FV_OK : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    if (status == FV_OK) {
        fill_map(s, &l, how.high, map);
        for (int64_t i = 0; i < l.rows; i++)
            labels[i] = i < s->rows ? s->labels[i] : "";
        const fv_look_map picture = {.rows = l.rows,
                                     .cols = l.columns,
                                     .values = map,
                                     .row_labels = labels,
                                     .title = look_title(call, s->title)};
        status = look_draw_map(ctx, &picture, &how, path);
    }
    if (status == FV_OK && path)
        cli_note("wrote %s (%lld rows over %lld frames)", path, (long long)s->rows,
                 (long long)s->r->frames);
    free(map);
    free(labels);
    return status;
}

static fv_status save_array(fv_ctx *ctx, const spoken *s, const char *path)
{
    const char *name = "attention";
    fv_scope_begin(ctx);
    fv_tensor *weights =
        fv_from_host(ctx, FV_F32, 2, (int64_t[]){s->rows, s->positions}, s->weights);
    const fv_status status = fv_npz_save(ctx, &name, &weights, 1, path);
    fv_scope_end(ctx);
    if (status == FV_OK) cli_note("wrote %s (1 array)", path);
    return status;
}

static void print_json(const spoken *s, const char *file)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", file);
    cli_json_text(&j, "text", s->title);
    cli_json_int(&j, "frames", s->r->frames);
    cli_json_open(&j, "rows", '[');
    for (int64_t i = 0; i < s->rows; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", s->labels[i]);
        cli_json_open(&j, "weights", '[');
        for (int64_t k = 0; k < s->positions; k++)
            cli_json_real(&j, NULL, (double)s->weights[i * s->positions + k]);
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static fv_status show(const cli_call *call, fv_ctx *ctx, const spoken *s, const char *file,
                      const fv_look_options *how, const char *path)
{
    if (cli_flag(call, "json")) print_json(s, file);
    if (cli_ends_with(path, ".npz")) return save_array(ctx, s, path);
    return path || !cli_flag(call, "json") ? draw(call, ctx, s, how, path) : FV_OK;
}

/* ---- characters ----------------------------------------------------------------------------- */

static fv_status take_text(const cli_call *call, fv_ctx *ctx, fv_model *model, spoken *s)
{
    fv_search_config how;
    fv_translations *texts = NULL;
    fv_search_config_init(&how, sizeof how);
    how.beam = (int)cli_int(call, "beam");
    how.want_weights = true;
    fv_status status = fv_describe(model, &s->r->batch, cli_recording_tokens(s->r), &how, &texts);
    const fv_translation *t = status == FV_OK ? fv_translations_get(texts, 0, 0) : NULL;
    if (status == FV_OK && !(t && t->weights))
        status = fv_ctx_fail(ctx, FV_ERR_UNSUPPORTED, "this model has no attention");
    if (status == FV_OK) status = spoken_room(ctx, s, t->target_count, t->source_count);
    for (int64_t i = 0; status == FV_OK && i < t->target_count; i++) {
        const char *token = t->target_tokens[i];
        status = add_row(ctx, s, strcmp(token, " ") == 0 ? "(blank)" : token,
                         t->weights + i * t->source_count);
    }
    if (status == FV_OK) cli_format(s->title, sizeof s->title, "%s", t->text);
    fv_translations_free(&texts);
    return status;
}

/* ---- layers --------------------------------------------------------------------------------- */

/* The mean of the heads of a site that has one query. */
static fv_status take_site(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    spoken *s = user;
    char label[32];
    fv_tensor *w = fv_mean(ctx, site->captured.weights, 2, (int[]){0, 1}, false);
    const int64_t positions = fv_tensor_count(w);
    fv_status status = FV_OK;
    if (!s->weights) status = spoken_room(ctx, s, s->room, positions);
    if (status == FV_OK && (positions != s->positions || s->rows == s->room))
        status = fv_ctx_fail(ctx, FV_ERR_UNSUPPORTED, "attention of several queries");
    float *row = status == FV_OK ? malloc((size_t)positions * sizeof *row) : NULL;
    if (status == FV_OK)
        status = row ? fv_tensor_read(ctx, w, row, (size_t)positions * sizeof *row)
                     : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    cli_format(label, sizeof label, "layer %lld", (long long)s->rows);
    if (status == FV_OK) status = add_row(ctx, s, label, row);
    free(row);
    return status;
}

static fv_status take_layers(fv_model *model, spoken *s)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    const fv_capture capture = {.options = {.weights = true}, .on_weights = take_site, .user = s};
    cli_class best;
    s->room = kind->attention_sites ? kind->attention_sites(fv_model_self(model), NULL, 0) : 0;
    fv_status status =
        fv_model_capture_attention(model, &s->r->batch, &(fv_pass){.capture = &capture});
    if (status != FV_OK) return status;
    if (cli_classify(model, &s->r->batch, &best, 1, &status) > 0)
        cli_format(s->title, sizeof s->title, "%s", best.label);
    return status;
}

int cli_look_sound(const cli_call *call, fv_ctx *ctx, fv_model *model, const char *file,
                   const char *path)
{
    static const char *const other[] = {"pharaoh", "target", "pixel", "invert"};
    const char *unfit = look_inside_option(call);
    fv_look_options how;
    for (int i = 0; !unfit && i < 4; i++)
        if (cli_given(call, other[i])) unfit = other[i];
    if (unfit) {
        cli_error("look: --%s does not apply to a recording", unfit);
        return CLI_USAGE;
    }
    if (!look_picture_options(call, &how)) return CLI_USAGE;
    cli_recording r;
    spoken s = {.r = &r};
    fv_status status = cli_recording_open(model, file, &r);
    if (status == FV_OK)
        status = fv_model_can(model, FV_CAN_CLASSIFY) ? take_layers(model, &s)
                                                      : take_text(call, ctx, model, &s);
    if (status == FV_OK) status = show(call, ctx, &s, file, &how, path);
    spoken_free(&s);
    cli_recording_close(&r);
    return status == FV_OK ? CLI_DONE : cli_library_error("look", ctx, status);
}
