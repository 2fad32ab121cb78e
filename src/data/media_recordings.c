/*
 * Recordings from files: a TSV list "file<TAB>text or class", the files (WAV or FLAC, of any rate
 * and number of channels) relative to the list's folder or to the folder that is given. An example
 * is the SPEECH features of a file (fovea/audio.h), changed by SpecAugment where there is a draw.
 * The variant "texts" has the second column as a text to predict, "classes" as a class. Which part
 * a line belongs to depends on its file name alone (fv_media_part_of_name).
 */
#include "data/media_list.h"
#include "fovea/audio.h"
#include "fovea/data.h"

enum { MELS = 40, MAX_SECONDS = 60 };
enum { TEXTS }; /* of the variants */

typedef struct recording_set {
    fv_ctx *ctx;
    fv_media_list list;
    fv_features *front;
    int64_t rate, longest;
    float *values;
    size_t value_bytes;
} recording_set;

static void close_set(void *self)
{
    recording_set *p = self;
    fv_mem *mem = &p->ctx->mem;
    if (p->values) fv_mem_free(mem, p->values, p->value_bytes);
    fv_features_destroy(&p->front);
    fv_media_list_close(&p->list);
    fv_mem_free(mem, p, sizeof *p);
}

/* ---- opening -------------------------------------------------------------------------------- */

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
    const bool texts = fv_media_variant(cfg, fv_media_kind_find(cfg->name)->variants) == TEXTS;
    FV_TRY(make_front(p));
    FV_TRY(fv_media_list_open(ctx, cfg, "recording", !texts, &p->list));
    *facts = (fv_media_facts){.field = "frames",
                              .rank = 1,
                              .shape = {MELS},
                              .longest = p->longest,
                              .labels = p->list.labels,
                              .label_count = p->list.label_count,
                              .has_text = texts};
    return fv_media_set_counts(ctx, cfg, p->list.count, facts);
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
    const char *file;
    FV_TRY(fv_media_list_get(&p->list, part, number, out, &file));
    FV_TRY(read_frames(p, file, &out->length));
    out->values = p->values;
    return fv_media_hide_bands(p->ctx, draw, out->length, MELS, p->values);
}

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    const char *file;
    return fv_media_list_get(&((recording_set *)self)->list, part, number, out, &file);
}

const fv_media_kind fv_media_recordings = {
    .name = "recordings",
    .summary = "recordings that a TSV lists with their texts or classes",
    .variants = "texts|classes",
    .open = open_set,
    .get = get,
    .text = get_text,
    .close = close_set,
};
