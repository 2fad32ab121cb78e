/* Recordings for models that read sound. */
#include "sound.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

static int64_t number(const fv_model *model, const char *name)
{
    return fv_data_spec_get(fv_model_spec(model), name, 0);
}

void cli_recording_close(cli_recording *r)
{
    free(r->spectrogram);
    free(r->samples);
    *r = (cli_recording){0};
}

int64_t cli_recording_tokens(const cli_recording *r) { return 10 + r->frames / 4; }

/* The middle of the recording, or the recording in the middle of zeros. */
static bool take_samples(const float *from, int64_t length, cli_recording *r)
{
    const int64_t shift = (length - r->length) / 2;
    r->samples = calloc((size_t)r->length, sizeof *r->samples);
    for (int64_t i = 0; r->samples && i < r->length; i++)
        if (i + shift >= 0 && i + shift < length) r->samples[i] = from[i + shift];
    return r->samples != NULL;
}

/* The spectrogram of a model with a front end of its own: log-mel, frame by frame as there. */
static void front_settings(const fv_model *model, fv_features_config *cfg)
{
    enum { SHOWN = 40 };
    fv_features_config_init(cfg, sizeof *cfg, FV_FEATURES_PRESET_SPEECH);
    cfg->rate = number(model, "rate");
    cfg->fft = cfg->window_length = number(model, "window");
    cfg->hop = number(model, "hop");
    cfg->centered = false;
    cfg->mels = SHOWN;
}

static fv_status make_spectrogram(fv_ctx *ctx, const fv_features_config *cfg, const float *samples,
                                  int64_t length, cli_recording *r)
{
    fv_features *front = NULL;
    fv_status status = fv_features_create(ctx, cfg, &front);
    if (status != FV_OK) return status;
    r->mels = fv_features_width(front);
    r->frames = fv_features_frames(front, length);
    r->spectrogram = malloc((size_t)(r->frames * r->mels + 1) * sizeof *r->spectrogram);
    status = r->spectrogram ? fv_features_run(ctx, front, samples, length, r->spectrogram)
                            : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    fv_features_destroy(&front);
    return status;
}

/* A model with a bounded number of frames reads those in the middle. */
static void cut_frames(fv_model *model, const char *path, cli_recording *r)
{
    const fv_model_kind *kind = fv_model_kind_of(model);
    const int64_t max = kind->max_length ? kind->max_length(fv_model_self(model)) : 0;
    if (max < 1 || r->frames <= max) return;
    cli_note("%s: the model reads %lld frames: those in the middle of %lld", path, (long long)max,
             (long long)r->frames);
    memmove(r->spectrogram, r->spectrogram + (r->frames - max) / 2 * r->mels,
            (size_t)(max * r->mels) * sizeof *r->spectrogram);
    r->frames = max;
}

static fv_status read_sound(fv_model *model, fv_sound *sound, const char *path, cli_recording *r)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_features_config cfg;
    const float *samples = fv_sound_samples(sound, 0);
    int64_t length = fv_sound_length(sound);
    r->length = number(model, "samples");
    if (r->length > 0) {
        front_settings(model, &cfg);
        if (!take_samples(samples, length, r))
            return fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
        samples = r->samples;
        length = r->length;
    } else {
        fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_SPEECH);
        cfg.mels = number(model, "frame");
    }
    const fv_status status = make_spectrogram(ctx, &cfg, samples, length, r);
    if (r->samples) return status;
    if (status == FV_OK) cut_frames(model, path, r);
    r->length = r->frames;
    return status;
}

fv_status cli_recording_open(fv_model *model, const char *path, cli_recording *out)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_sound *sound = NULL;
    fv_features_config usual;
    fv_features_config_init(&usual, sizeof usual, FV_FEATURES_PRESET_SPEECH);
    const bool front = number(model, "samples") > 0;
    *out = (cli_recording){0};
    fv_status status = fv_sound_load(ctx, path, FV_SOUND_MIX_MONO, &sound);
    if (status == FV_OK && fv_sound_length(sound) < 1)
        status = fv_ctx_fail(ctx, FV_ERR_FORMAT, "%.200s: a recording without samples", path);
    if (status == FV_OK)
        status = fv_sound_resample(ctx, &sound, front ? number(model, "rate") : usual.rate);
    if (status == FV_OK) status = read_sound(model, sound, path, out);
    fv_sound_free(&sound);
    out->row = front ? out->samples : out->spectrogram;
    fv_batch_init(&out->batch, 1);
    fv_batch_add(&out->batch, (fv_field){.name = front ? "samples" : "frames",
                                         .dtype = FV_F32,
                                         .rank = front ? 0 : 1,
                                         .shape = {out->mels},
                                         .row = &out->row,
                                         .length = &out->length});
    return status;
}
