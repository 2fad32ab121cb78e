/*
 * Recordings from files: a TSV list "file<TAB>text or class", the files (WAV or FLAC, of any rate
 * and number of channels) relative to the list's folder or to the folder that is given. An example
 * is the SPEECH features of a file (fovea/audio.h), changed by SpecAugment where there is a draw.
 * The variant "texts" has the second column as a text to predict, "classes" as a class. Which part
 * a line belongs to depends on its file name alone (fv_media_part_of_name).
 */
#include <stdio.h>
#include <string.h>

#include "data/media.h"
#include "fovea/audio.h"
#include "fovea/data.h"
#include "io/file.h"

enum { MELS = 40, MAX_SECONDS = 60 };
enum { TEXTS, CLASSES };

typedef struct recording_set {
    fv_ctx *ctx;
    fv_pictures *list; /* of files and labels of any kind */
    fv_features *front;
    size_t folder; /* bytes of a file's path that are not its name in the list */
    int64_t *line[FV_MEDIA_PARTS], count[FV_MEDIA_PARTS], lines;
    const char **labels;
    int64_t classes, rate, longest;
    int variant;
    float *values;
    size_t value_bytes;
} recording_set;

static void close_set(void *self)
{
    recording_set *p = self;
    fv_mem *mem = &p->ctx->mem;
    for (int part = 0; part < FV_MEDIA_PARTS; part++)
        if (p->line[part]) fv_mem_free(mem, p->line[part], (size_t)p->lines * sizeof **p->line);
    if (p->labels) fv_mem_free(mem, p->labels, (size_t)p->classes * sizeof *p->labels);
    if (p->values) fv_mem_free(mem, p->values, p->value_bytes);
    fv_features_destroy(&p->front);
    fv_pictures_close(&p->list);
    fv_mem_free(mem, p, sizeof *p);
}

/* ---- opening -------------------------------------------------------------------------------- */

static fv_status split(recording_set *p, const char *list)
{
    fv_ctx *ctx = p->ctx;
    for (int part = 0; part < FV_MEDIA_PARTS; part++) {
        p->line[part] = fv_mem_alloc(&ctx->mem, (size_t)p->lines * sizeof **p->line);
        FV_RETURN_IF(!p->line[part], ctx, FV_ERR_MEMORY, "no memory for %lld lines",
                     (long long)p->lines);
    }
    for (int64_t i = 0; i < p->lines; i++) {
        const fv_media_part part = fv_media_part_of_name(fv_pictures_file(p->list, i) + p->folder);
        p->line[part][p->count[part]++] = i;
    }
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        FV_RETURN_IF(p->count[part] == 0, ctx, FV_ERR_FORMAT,
                     "%.200s: none of its %lld files is for %s; more files are needed", list,
                     (long long)p->lines, fv_media_part_name(part));
    return FV_OK;
}

static fv_status name_classes(recording_set *p)
{
    p->classes = fv_pictures_classes(p->list);
    p->labels = fv_mem_alloc(&p->ctx->mem, (size_t)p->classes * sizeof *p->labels);
    FV_RETURN_IF(!p->labels, p->ctx, FV_ERR_MEMORY, "no memory for %lld classes",
                 (long long)p->classes);
    for (int64_t i = 0; i < p->classes; i++)
        p->labels[i] = fv_pictures_class(p->list, i);
    return FV_OK;
}

/* The list's path: the list itself, in the folder where one is given. */
static fv_status read_list(recording_set *p, const fv_media_config *cfg)
{
    char path[FV_PATH_BYTES];
    fv_ctx *ctx = p->ctx;
    FV_RETURN_IF(!cfg->list || !*cfg->list, ctx, FV_ERR_ARGUMENT,
                 "media set recordings needs a list: a TSV of files and their texts or classes");
    const bool inside = cfg->folder && *cfg->folder && cfg->list[0] != '/';
    if (inside) FV_TRY(fv_path_join(ctx, path, cfg->folder, cfg->list));
    const char *list = inside ? path : cfg->list, *slash = strrchr(list, '/');
    p->folder = slash ? (size_t)(slash - list) + 1 : 0;
    FV_TRY(fv_pictures_open(ctx, list, &p->list));
    p->lines = fv_pictures_count(p->list);
    FV_RETURN_IF(p->lines < 1, ctx, FV_ERR_FORMAT, "%.200s: no line with a recording", list);
    FV_TRY(split(p, list));
    return p->variant == CLASSES ? name_classes(p) : FV_OK;
}

static fv_status make_front(recording_set *p)
{
    fv_features_config cfg;
    fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_SPEECH);
    FV_TRY(fv_features_create(p->ctx, &cfg, &p->front));
    p->rate = cfg.rate;
    p->longest = fv_features_frames(p->front, cfg.rate * MAX_SECONDS);
    p->value_bytes = (size_t)(p->longest * MELS) * sizeof *p->values;
    p->values = fv_mem_alloc(&p->ctx->mem, p->value_bytes);
    FV_RETURN_IF(!p->values, p->ctx, FV_ERR_MEMORY, "no memory for a recording");
    return FV_OK;
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    recording_set *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for media set recordings");
    *self = p;
    p->ctx = ctx;
    p->variant = fv_media_variant(cfg, fv_media_kind_find(cfg->name)->variants);
    FV_TRY(make_front(p));
    FV_TRY(read_list(p, cfg));
    *facts = (fv_media_facts){.field = "frames",
                              .rank = 1,
                              .shape = {MELS},
                              .longest = p->longest,
                              .labels = p->labels,
                              .label_count = p->classes,
                              .has_text = p->variant == TEXTS};
    return fv_media_set_counts(ctx, cfg, p->count, facts);
}

/* ---- examples ------------------------------------------------------------------------------- */

static fv_status read_frames(recording_set *p, const char *file, int64_t *frames)
{
    fv_ctx *ctx = p->ctx;
    fv_sound *sound = NULL;
    FV_TRY(fv_sound_load(ctx, file, FV_SOUND_MIX_MONO, &sound));
    fv_status status = fv_sound_resample(ctx, &sound, p->rate);
    const int64_t length = fv_sound_length(sound);
    if (status == FV_OK && (length < 1 || length > p->rate * MAX_SECONDS))
        status = fv_fail(ctx, length < 1 ? FV_ERR_FORMAT : FV_ERR_LIMIT,
                         "%.200s: %.3f seconds, expected more than 0 and at most %d", file,
                         (double)length / (double)p->rate, (int)MAX_SECONDS);
    if (status == FV_OK) {
        *frames = fv_features_frames(p->front, length);
        status = fv_features_run(ctx, p->front, fv_sound_samples(sound, 0), length, p->values);
    }
    fv_sound_free(&sound);
    return status;
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    recording_set *p = self;
    const int64_t line = p->line[part][number], label = fv_pictures_label(p->list, line);
    const char *file = fv_pictures_file(p->list, line), *text = fv_pictures_class(p->list, label);
    FV_TRY(read_frames(p, file, &out->length));
    FV_RETURN_IF(strlen(text) >= sizeof out->text, p->ctx, FV_ERR_LIMIT,
                 "%.200s: its text has %zu bytes, expected at most %zu", file, strlen(text),
                 sizeof out->text - 1);
    snprintf(out->text, sizeof out->text, "%s", text);
    out->values = p->values;
    if (p->variant == CLASSES) out->label = label;
    return fv_media_hide_bands(p->ctx, draw, out->length, MELS, p->values);
}

const fv_media_kind fv_media_recordings = {
    .name = "recordings",
    .summary = "recordings that a TSV lists with their texts or classes",
    .variants = "texts|classes",
    .open = open_set,
    .get = get,
    .close = close_set,
};
