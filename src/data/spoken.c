/* The recordings of spoken digits, from files or generated. */
#include "data/spoken.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "io/file.h"

/* A random site that no op uses. */
#define TONE_SITE 0x746F6E6573u

const char *const fv_spoken_words[FV_SPOKEN_WORDS] = {"zero", "one", "two",   "three", "four",
                                                      "five", "six", "seven", "eight", "nine"};
const char *const fv_spoken_speakers[FV_SPOKEN_SPEAKERS] = {"george",  "jackson", "lucas",
                                                            "nicolas", "theo",    "yweweler"};

static void add(fv_spoken *bank, int number, fv_sound *sound)
{
    bank->sound[number] = sound;
    if (fv_sound_length(sound) > bank->longest) bank->longest = fv_sound_length(sound);
}

void fv_spoken_free(fv_spoken *bank)
{
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        fv_sound_free(&bank->sound[i]);
}

/* ---- files ---------------------------------------------------------------------------------- */

static fv_status read_one(fv_ctx *ctx, const char *folder, int number, fv_spoken *bank)
{
    char name[64], path[FV_PATH_BYTES];
    fv_sound *sound = NULL;
    snprintf(name, sizeof name, "%d_%s_%d.wav", fv_spoken_word(number),
             fv_spoken_speakers[fv_spoken_speaker(number)], fv_spoken_take(number));
    FV_TRY(fv_path_join(ctx, path, folder, name));
    FV_TRY(fv_sound_load(ctx, path, FV_SOUND_MIX_MONO, &sound));
    const fv_status status = fv_sound_resample(ctx, &sound, FV_SPOKEN_RATE);
    add(bank, number, sound);
    FV_TRY(status);
    const int64_t length = fv_sound_length(sound);
    FV_RETURN_IF(length < 1 || length > FV_SPOKEN_RATE * FV_SPOKEN_SECONDS, ctx, FV_ERR_FORMAT,
                 "%.200s: %.3f seconds of one digit, expected 0 to %d", path,
                 (double)length / FV_SPOKEN_RATE, (int)FV_SPOKEN_SECONDS);
    return FV_OK;
}

fv_status fv_spoken_read(fv_ctx *ctx, const char *folder, fv_spoken *out)
{
    *out = (fv_spoken){.longest = 0};
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        FV_TRY(read_one(ctx, folder, i, out));
    return FV_OK;
}

/* ---- tones ---------------------------------------------------------------------------------- */

static double unit(uint32_t word) { return (double)fv_rng_unit(word); }

/* Tone `which` of ten, for the speaker: a fifth of an octave apart. */
static double tone(int which, int speaker)
{
    return 320 * pow(2, which / 5.0) * (1 + 0.01 * (speaker - 2));
}

/* One half of a word: the tone and an overtone, rising and falling. */
static void add_tone(double hertz, double loud, int64_t length, float *out)
{
    for (int64_t i = 0; i < length; i++) {
        const double t = (double)i / FV_SPOKEN_RATE,
                     shape = sin(M_PI * ((double)i + 0.5) / (double)length);
        out[i] =
            (float)(loud * shape * (sin(2 * M_PI * hertz * t) + 0.4 * sin(4 * M_PI * hertz * t)));
    }
}

static fv_status make_one(fv_ctx *ctx, int number, fv_spoken *bank)
{
    enum { SHORTEST = 600, MORE = 300 };
    const int word = fv_spoken_word(number), speaker = fv_spoken_speaker(number);
    uint32_t r[4];
    fv_rng_draw(fv_rng_key(0, 0, TONE_SITE), (uint64_t)number, 0, r);
    const int64_t first = SHORTEST + (int64_t)(MORE * unit(r[0])),
                  second = SHORTEST + (int64_t)(MORE * unit(r[1]));
    const double loud = 0.1 + 0.3 * unit(r[2]);
    fv_sound *sound = NULL;
    FV_TRY(fv_sound_create(ctx, FV_SPOKEN_RATE, 1, first + second, NULL, &sound));
    add_tone(tone(word, speaker), loud, first, fv_sound_samples(sound, 0));
    add_tone(tone((word * 3 + 5) % FV_SPOKEN_WORDS, speaker), loud, second,
             fv_sound_samples(sound, 0) + first);
    add(bank, number, sound);
    return FV_OK;
}

fv_status fv_spoken_make(fv_ctx *ctx, fv_spoken *out)
{
    *out = (fv_spoken){.longest = 0};
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        FV_TRY(make_one(ctx, i, out));
    return FV_OK;
}
