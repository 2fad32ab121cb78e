/*
 * A recording, and the readers that fill it. A reader finds the facts of a file, calls
 * fv_sound_begin once with them, and then hands over blocks of samples; mixing and limits are in
 * one place.
 */
#ifndef FV_AUDIO_SOUND_H
#define FV_AUDIO_SOUND_H

#include "fovea/audio.h"
#include "io/file.h"

enum { FV_SOUND_LIMIT_RATE = 384000 }; /* samples of all channels in a second of the limit */
/* Full scale is 1, or 2^31 in files that have integers as floats. Sums over a frame of samples up
 * to this one can still be squared in a float; above it a spectrum would be infinite. */
#define FV_SOUND_MAX_SAMPLE 0x1p40f

struct fv_sound {
    fv_ctx *ctx;
    int64_t rate, channels, length;
    int64_t file_channels;
    float *data; /* [channels][room] */
    size_t bytes;
    int64_t room; /* samples that a channel has space for; `length` once it is read */
    char encoding[24];
};

/* What a reader knows before it has read a sample. */
typedef struct fv_sound_facts {
    int64_t rate, channels;
    int64_t length; /* 0: unknown, the blocks say it */
    int bits;
    const char *encoding; /* "PCM", "float", "FLAC" */
} fv_sound_facts;

/* Checks rate, channels and length against what is allowed; names the file. */
fv_status fv_sound_check(const fv_file *file, const fv_sound_facts *facts);
/* Makes a sound for checked facts, with room for `length` samples. */
fv_status fv_sound_begin(const fv_file *file, const fv_sound_facts *facts, fv_sound_mix mix,
                         fv_sound **out);
/* Appends `count` samples of every channel of the file: in[c][i]. Grows, within the limit. */
fv_status fv_sound_append(const fv_file *file, fv_sound *sound, const float *const *in,
                          int64_t count);

/* The readers of fv_sound_load. */
fv_status fv_wav_read(const fv_file *file, fv_sound_mix mix, fv_sound **out);
fv_status fv_flac_read(const fv_file *file, fv_sound_mix mix, fv_sound **out);

#endif
