/* fovea inspect of a recording: rate, channels, seconds, peak, and a log-mel spectrogram. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/audio.h"
#include "heatmap.h"
#include "inspect.h"
#include "output.h"

enum {
    PICTURE_MELS = 80,
    TEXT_ROWS = 16,
    TEXT_CELLS = 39,
    TEXT_COLUMNS = 76,
    MOST_FRAMES = 8000,
    RANGE_DB = 60
};

bool inspect_is_sound(const char *path, const unsigned char *start, size_t bytes)
{
    if (bytes >= 12 && memcmp(start, "RIFF", 4) == 0 && memcmp(start + 8, "WAVE", 4) == 0)
        return true;
    if (bytes >= 4 && memcmp(start, "fLaC", 4) == 0) return true;
    return cli_ends_with(path, ".wav") || cli_ends_with(path, ".flac");
}

static double peak_of(fv_sound *sound)
{
    float peak = 0;
    for (int64_t c = 0; c < fv_sound_channels(sound); c++)
        for (int64_t i = 0; i < fv_sound_length(sound); i++)
            peak = fmaxf(peak, fabsf(fv_sound_samples(sound, c)[i]));
    return (double)peak;
}

static double seconds_of(const fv_sound *sound)
{
    return (double)fv_sound_length(sound) / (double)fv_sound_rate(sound);
}

static void print_facts(const char *path, fv_sound *sound)
{
    const long long channels = fv_sound_channels(sound);
    const double peak = peak_of(sound);
    cli_safe_text(stdout, path);
    printf(": %s, %lld Hz, %lld channel%s, %.3f s (%lld samples), peak %.4f",
           fv_sound_encoding(sound), (long long)fv_sound_rate(sound), channels,
           channels == 1 ? "" : "s", seconds_of(sound), (long long)fv_sound_length(sound), peak);
    if (peak > 0) printf(" (%.1f dB)", 20 * log10(peak));
    fputc('\n', stdout);
}

static void print_json(const char *path, fv_sound *sound)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "file", path);
    cli_json_text(&j, "encoding", fv_sound_encoding(sound));
    cli_json_int(&j, "rate", fv_sound_rate(sound));
    cli_json_int(&j, "channels", fv_sound_channels(sound));
    cli_json_int(&j, "samples", fv_sound_length(sound));
    cli_json_real(&j, "seconds", seconds_of(sound));
    cli_json_real(&j, "peak", peak_of(sound));
    cli_json_close(&j, '}');
}

/* ---- spectrogram ------------------------------------------------------------------ */

/* Mel filters over frames of 25 ms, every 10 ms or, in a long recording, less often. As text, a
 * frame has a cell of two columns if 80 columns allow that; else two filters share a row. */
static void choose_settings(const fv_sound *sound, bool picture, fv_features_config *out)
{
    const int64_t rate = fv_sound_rate(sound), sparse = fv_sound_length(sound) / MOST_FRAMES + 1;
    fv_features_config_init(out, sizeof *out, FV_FEATURES_PRESET_LIBROSA);
    out->output = FV_FEATURES_OUTPUT_LOG_MEL;
    out->rate = rate;
    out->fft = rate / 40 < 32 ? 32 : rate / 40;
    out->hop = rate / 100 > sparse ? rate / 100 : sparse;
    const bool wide = fv_sound_length(sound) / out->hop < TEXT_CELLS;
    out->mels = picture ? PICTURE_MELS : wide ? TEXT_ROWS : 2 * TEXT_ROWS;
    out->top_db = RANGE_DB;
}

/* Rows in time become rows of frequency, the highest first, of `columns` cells: each has the
 * largest value of its frames. */
static void transpose(const float *from, int64_t frames, int64_t mels, int64_t columns, float *to)
{
    for (int64_t m = 0; m < mels; m++)
        for (int64_t c = 0; c < columns; c++) {
            float *cell = &to[(mels - 1 - m) * columns + c];
            *cell = -INFINITY;
            for (int64_t t = c * frames / columns; t < (c + 1) * frames / columns; t++)
                *cell = fmaxf(*cell, from[t * mels + m]);
        }
}

static fv_status draw(fv_ctx *ctx, const float *values, int64_t columns, int64_t mels,
                      const char *title, const char *picture)
{
    const fv_look_map map = {.rows = mels,
                             .cols = columns,
                             .values = values,
                             .title = picture ? title : NULL,
                             .row_title = picture ? "mel filter, high to low" : NULL,
                             .col_title = picture ? "time" : NULL};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.high = -INFINITY;
    for (int64_t i = 0; i < columns * mels; i++)
        options.high = fmax(options.high, (double)values[i]);
    options.low = options.high - RANGE_DB;
    if (picture) return fv_look_map_save(ctx, &map, &options, picture);
    return cli_heatmap_print(ctx, stdout, &map, &options);
}

static fv_status show_spectrogram(fv_ctx *ctx, fv_sound *sound, const char *title,
                                  const char *picture)
{
    fv_features_config cfg;
    fv_features *front = NULL;
    choose_settings(sound, picture != NULL, &cfg);
    const int64_t mels = cfg.mels;
    fv_status status = fv_features_create(ctx, &cfg, &front);
    if (status != FV_OK) return status;
    const int64_t frames = fv_features_frames(front, fv_sound_length(sound));
    float *rows = malloc(2 * (size_t)(frames * mels) * sizeof *rows),
          *by_filter = rows + frames * mels;
    status =
        rows ? fv_features_run(ctx, front, fv_sound_samples(sound, 0), fv_sound_length(sound), rows)
             : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
    if (status == FV_OK) {
        const int64_t columns = picture || frames < TEXT_COLUMNS ? frames : TEXT_COLUMNS;
        transpose(rows, frames, mels, columns, by_filter);
        status = draw(ctx, by_filter, columns, mels, title, picture);
    }
    free(rows);
    fv_features_destroy(&front);
    return status;
}

int inspect_sound(fv_ctx *ctx, const char *path, bool json, const char *picture)
{
    fv_sound *sound = NULL;
    fv_look_format format;
    if (picture && fv_look_format_from_path(ctx, picture, &format) != FV_OK) {
        cli_error("inspect: %s", fv_ctx_message(ctx));
        return CLI_USAGE;
    }
    fv_status status = fv_sound_load(ctx, path, FV_SOUND_MIX_NONE, &sound);
    if (status == FV_OK && json) print_json(path, sound);
    if (status == FV_OK && !json) print_facts(path, sound);
    const bool drawn = picture || !json;
    if (status == FV_OK && drawn && fv_sound_length(sound) > 0)
        status = show_spectrogram(ctx, sound, path, picture);
    fv_sound_free(&sound);
    if (status == FV_OK) return CLI_DONE;
    cli_error("inspect: %s", fv_ctx_message(ctx));
    return cli_exit_code(status);
}
