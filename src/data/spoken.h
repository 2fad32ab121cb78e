/*
 * Recordings of ten digits by six speakers, fifty takes each, at 8 kHz: those of the Free Spoken
 * Digit Dataset, or generated ones of the same form.
 *
 *     fv_spoken bank;
 *     s = fv_spoken_read(ctx, "fsdd/recordings", &bank);        // or fv_spoken_make
 *     fv_sound *seven = bank.sound[fv_spoken_number(7, 2, 31)]; // by the third speaker
 *     fv_spoken_free(&bank);
 */
#ifndef FV_DATA_SPOKEN_H
#define FV_DATA_SPOKEN_H

#include "base/ctx.h"
#include "fovea/audio.h"

enum {
    FV_SPOKEN_WORDS = 10,
    FV_SPOKEN_SPEAKERS = 6,
    FV_SPOKEN_TAKES = 50,
    FV_SPOKEN_COUNT = FV_SPOKEN_WORDS * FV_SPOKEN_SPEAKERS * FV_SPOKEN_TAKES,
    FV_SPOKEN_RATE = 8000,
    FV_SPOKEN_SECONDS = 5 /* of one recording at most */
};

extern const char *const fv_spoken_words[FV_SPOKEN_WORDS]; /* "zero" .. "nine" */
extern const char *const fv_spoken_speakers[FV_SPOKEN_SPEAKERS];

typedef struct fv_spoken {
    fv_sound *sound[FV_SPOKEN_COUNT];
    int64_t longest; /* samples */
} fv_spoken;

/* The number of a recording, and what it says. */
static inline int fv_spoken_number(int word, int speaker, int take)
{
    return (word * FV_SPOKEN_SPEAKERS + speaker) * FV_SPOKEN_TAKES + take;
}
static inline int fv_spoken_word(int number)
{
    return number / (FV_SPOKEN_SPEAKERS * FV_SPOKEN_TAKES);
}
static inline int fv_spoken_speaker(int number)
{
    return number / FV_SPOKEN_TAKES % FV_SPOKEN_SPEAKERS;
}
static inline int fv_spoken_take(int number) { return number % FV_SPOKEN_TAKES; }

/* All files {digit}_{speaker}_{take}.wav of a folder, resampled where they have another rate.
 * Fails: as fv_sound_load; FORMAT (an empty or too long recording). *out is to be freed even then.
 */
fv_status fv_spoken_read(fv_ctx *ctx, const char *folder, fv_spoken *out);
/* Generated ones: a word is two tones and their overtones one after the other, a speaker a pitch, a
 * take its length and loudness. No word shares both tones with another. */
fv_status fv_spoken_make(fv_ctx *ctx, fv_spoken *out);
void fv_spoken_free(fv_spoken *bank);

#endif
