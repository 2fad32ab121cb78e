/*
 * Spoken digits: the Free Spoken Digit Dataset (fsdd), and generated words of the same form
 * (tones), for trying things out without files. An example is the SPEECH features of a recording
 * (fovea/audio.h), changed by SpecAugment where there is a draw. What each variant keeps apart:
 *
 *     random    all recordings are shuffled by the seed; the first 300 are `test`, the next 300
 *               `valid`, the other 2,400 `train`
 *     official  takes 0 to 4 of each speaker and digit are `test`, 5 to 9 `valid`, 10 to 49 `train`
 *     strings   3 to 7 digits of one speaker, generated from recordings of the official parts
 *     george .. yweweler
 *               all 500 recordings of that speaker are `test`; of the others, takes 0 to 4 are
 *               `valid`, 5 to 49 `train`
 *
 * The digits of a string are a function of (seed, part, number); so is how it is spoken, or else of
 * the draw: speaker, takes, the gaps before, between and after the digits (0.05 to 0.4 s), and
 * noise over all of it, 10 to 30 dB below the digits. Its places are the frames of the digits, one
 * word each.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "data/media.h"
#include "data/spoken.h"

/* Random sites that no op uses. */
#define SHUFFLE_SITE 0x73706C6974u
#define STRING_SITE  0x737472696E67u
#define VOICE_SITE   0x766F696365u
#define NOISE_SITE   0x6E6F697365u

enum {
    MELS = 40,
    HOP = 80,
    HELD_OUT = FV_SPOKEN_COUNT / 10, /* random */
    TEST_TAKES = 5,
    VALID_TAKES = 10,
    FEWEST = 3, /* digits of a string */
    MOST = 7,
    MIN_GAP = FV_SPOKEN_RATE / 20,
    MAX_GAP = 2 * FV_SPOKEN_RATE / 5,
    STRING_COUNT = 4000,
    STRING_VALID = 500,
    STRING_TEST = 1000,
    MOST_STRINGS = 1 << 30
};
typedef enum variant { RANDOM, OFFICIAL, STRINGS, SPEAKER /* and the other five */ } variant;

#define VARIANTS "random|official|strings|george|jackson|lucas|nicolas|theo|yweweler"

typedef struct digit_set {
    fv_ctx *ctx;
    fv_spoken bank;
    fv_features *front;
    int variant;
    uint64_t seed;
    int recording[FV_MEDIA_PARTS][FV_SPOKEN_COUNT]; /* numbers in the bank */
    int64_t count[FV_MEDIA_PARTS];
    float *samples; /* of a string */
    float *values;  /* [longest frames][MELS] */
    int64_t longest;
    size_t sample_bytes, value_bytes;
} digit_set;

static void close_set(void *self)
{
    digit_set *d = self;
    fv_ctx *ctx = d->ctx;
    if (d->values) fv_mem_free(&ctx->mem, d->values, d->value_bytes);
    if (d->samples) fv_mem_free(&ctx->mem, d->samples, d->sample_bytes);
    fv_features_destroy(&d->front);
    fv_spoken_free(&d->bank);
    fv_mem_free(&ctx->mem, d, sizeof *d);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void put(digit_set *d, fv_media_part part, int number)
{
    d->recording[part][d->count[part]++] = number;
}

/* A whole number below `below`. */
static int64_t pick(uint32_t word, int64_t below)
{
    return (int64_t)((uint64_t)word * (uint64_t)below >> 32);
}

static void split_at_random(digit_set *d)
{
    int order[FV_SPOKEN_COUNT];
    const uint64_t key = fv_rng_key(d->seed, 0, SHUFFLE_SITE);
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        order[i] = i;
    for (int i = FV_SPOKEN_COUNT - 1; i > 0; i--) {
        uint32_t r[4];
        fv_rng_draw(key, (uint64_t)i, 0, r);
        const int64_t other = pick(r[0], i + 1);
        const int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        put(d,
            i < HELD_OUT       ? FV_MEDIA_TEST
            : i < 2 * HELD_OUT ? FV_MEDIA_VALID
                               : FV_MEDIA_TRAIN,
            order[i]);
}

/* By the speaker and the take; `held_out` is a speaker, or -1. */
static fv_media_part part_of(int number, int held_out)
{
    const int take = fv_spoken_take(number);
    if (held_out >= 0 && fv_spoken_speaker(number) == held_out) return FV_MEDIA_TEST;
    if (take < TEST_TAKES) return held_out >= 0 ? FV_MEDIA_VALID : FV_MEDIA_TEST;
    return take < VALID_TAKES && held_out < 0 ? FV_MEDIA_VALID : FV_MEDIA_TRAIN;
}

static void split(digit_set *d)
{
    if (d->variant == RANDOM) {
        split_at_random(d);
        return;
    }
    for (int i = 0; i < FV_SPOKEN_COUNT; i++)
        put(d, part_of(i, d->variant >= SPEAKER ? d->variant - SPEAKER : -1), i);
}

/* ---- opening -------------------------------------------------------------------------------- */

static fv_status make_front(digit_set *d)
{
    fv_features_config cfg;
    fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_SPEECH);
    return fv_features_create(d->ctx, &cfg, &d->front);
}

/* Places for the longest example. */
static fv_status make_room(digit_set *d)
{
    fv_ctx *ctx = d->ctx;
    const int64_t samples = d->variant == STRINGS
                                ? MOST * d->bank.longest + (MOST + 1) * (int64_t)MAX_GAP
                                : d->bank.longest;
    d->longest = fv_features_frames(d->front, samples);
    d->value_bytes = (size_t)(d->longest * MELS) * sizeof *d->values;
    d->values = fv_mem_alloc(&ctx->mem, d->value_bytes);
    if (d->variant == STRINGS) {
        d->sample_bytes = (size_t)samples * sizeof *d->samples;
        d->samples = fv_mem_alloc(&ctx->mem, d->sample_bytes);
    }
    FV_RETURN_IF(!d->values || (d->variant == STRINGS && !d->samples), ctx, FV_ERR_MEMORY,
                 "no memory for a recording");
    return FV_OK;
}

static fv_status count_strings(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts)
{
    static const int64_t usual[FV_MEDIA_PARTS] = {STRING_COUNT, STRING_VALID, STRING_TEST};
    for (int part = 0; part < FV_MEDIA_PARTS; part++) {
        FV_RETURN_IF(cfg->count[part] < 0 || cfg->count[part] > MOST_STRINGS, ctx, FV_ERR_ARGUMENT,
                     "media set %s: %lld examples, expected 0 to %d", cfg->name,
                     (long long)cfg->count[part], (int)MOST_STRINGS);
        facts->count[part] = cfg->count[part] ? cfg->count[part] : usual[part];
    }
    return FV_OK;
}

static fv_status open_in(digit_set *d, const fv_media_config *cfg, bool made, fv_media_facts *facts)
{
    fv_ctx *ctx = d->ctx;
    FV_RETURN_IF(!made && (!cfg->folder || !*cfg->folder), ctx, FV_ERR_ARGUMENT,
                 "media set fsdd needs a folder: that of the files 0_george_0.wav and so on");
    FV_TRY(made ? fv_spoken_make(ctx, &d->bank) : fv_spoken_read(ctx, cfg->folder, &d->bank));
    FV_TRY(make_front(d));
    FV_TRY(make_room(d));
    split(d);
    const bool strings = d->variant == STRINGS;
    *facts = (fv_media_facts){.field = "frames",
                              .rank = 1,
                              .shape = {MELS},
                              .longest = d->longest,
                              .labels = strings ? NULL : fv_spoken_words,
                              .label_count = strings ? 0 : FV_SPOKEN_WORDS,
                              .has_text = true};
    return strings ? count_strings(ctx, cfg, facts)
                   : fv_media_set_counts(ctx, cfg, d->count, facts);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, bool made, fv_media_facts *facts,
                          void **self)
{
    digit_set *d = fv_mem_zalloc(&ctx->mem, sizeof *d);
    FV_RETURN_IF(!d, ctx, FV_ERR_MEMORY, "no memory for media set %s", cfg->name);
    *self = d;
    d->ctx = ctx;
    d->seed = cfg->seed;
    d->variant = fv_media_variant(cfg, VARIANTS);
    return open_in(d, cfg, made, facts);
}

static fv_status open_files(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                            void **self)
{
    return open_set(ctx, cfg, false, facts, self);
}

static fv_status open_tones(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                            void **self)
{
    return open_set(ctx, cfg, true, facts, self);
}

/* ---- strings -------------------------------------------------------------------------------- */

/* Noise of about a normal distribution: the sum of four even ones. */
static void add_noise(uint64_t key, uint64_t row, double size, float *samples, int64_t length)
{
    const double scale = size * sqrt(3);
    for (int64_t i = 0; i < length; i++) {
        uint32_t r[4];
        fv_rng_draw(key, row, (uint64_t)i, r);
        const double sum = (double)fv_rng_unit(r[0]) + (double)fv_rng_unit(r[1]) +
                           (double)fv_rng_unit(r[2]) + (double)fv_rng_unit(r[3]);
        samples[i] += (float)(scale * (sum - 2));
    }
}

static int64_t gap(uint32_t word) { return MIN_GAP + pick(word, MAX_GAP - MIN_GAP); }

/* How a string is spoken: all draws of it are from (key, row). */
typedef struct voice {
    uint64_t key, noise, row;
} voice;

static voice voice_of(const digit_set *d, fv_media_part part, int64_t number,
                      const fv_media_draw *draw)
{
    if (!draw)
        return (voice){fv_rng_key(d->seed, (uint64_t)part, VOICE_SITE),
                       fv_rng_key(d->seed, (uint64_t)part, NOISE_SITE), (uint64_t)number};
    return (voice){fv_rng_key(draw->seed, FV_MEDIA_PARTS + draw->step, VOICE_SITE),
                   fv_rng_key(draw->seed, FV_MEDIA_PARTS + draw->step, NOISE_SITE), draw->row};
}

/* The digits of a string, which its text says; returns how many. */
static int choose_digits(const digit_set *d, fv_media_part part, int64_t number, int digit[MOST],
                         fv_media_example *out)
{
    const uint64_t key = fv_rng_key(d->seed, (uint64_t)part, STRING_SITE);
    uint32_t r[4];
    fv_rng_draw(key, (uint64_t)number, 0, r);
    const int words = FEWEST + (int)pick(r[0], MOST - FEWEST + 1);
    size_t used = 0;
    for (int w = 0; w < words; w++) {
        fv_rng_draw(key, (uint64_t)number, (uint64_t)w + 1, r);
        digit[w] = (int)pick(r[0], FV_SPOKEN_WORDS);
        used += (size_t)snprintf(out->text + used, sizeof out->text - used, "%s%s", w ? " " : "",
                                 fv_spoken_words[digit[w]]);
    }
    return words;
}

/* Writes the samples of a string; returns their number. */
static int64_t say_string(digit_set *d, fv_media_part part, int64_t number,
                          const fv_media_draw *draw, fv_media_example *out)
{
    static const int begin[FV_MEDIA_PARTS] = {VALID_TAKES, TEST_TAKES, 0},
                     end[FV_MEDIA_PARTS] = {FV_SPOKEN_TAKES, VALID_TAKES, TEST_TAKES};
    const voice v = voice_of(d, part, number, draw);
    int digit[MOST];
    uint32_t r[4];
    const int words = choose_digits(d, part, number, digit, out);
    fv_rng_draw(v.key, v.row, 0, r);
    const int speaker = (int)pick(r[0], FV_SPOKEN_SPEAKERS);
    const double decibels = 10 + 20 * (double)fv_rng_unit(r[1]);
    int64_t length = gap(r[2]), spoken = 0;
    double power = 0;
    memset(d->samples, 0, d->sample_bytes);
    for (int w = 0; w < words; w++) {
        fv_rng_draw(v.key, v.row, (uint64_t)w + 1, r);
        const int take = begin[part] + (int)pick(r[0], end[part] - begin[part]);
        fv_sound *sound = d->bank.sound[fv_spoken_number(digit[w], speaker, take)];
        const float *from = fv_sound_samples(sound, 0);
        const int64_t n = fv_sound_length(sound);
        for (int64_t i = 0; i < n; i++) {
            d->samples[length + i] = from[i];
            power += (double)from[i] * (double)from[i];
        }
        out->place[out->places++] = (fv_media_place){
            .word = w, .x0 = (float)(length / HOP), .x1 = (float)((length + n) / HOP + 1)};
        length += n + gap(r[1]);
        spoken += n;
    }
    const double size = sqrt(power / (double)spoken) * pow(10, -decibels / 20);
    add_noise(v.noise, v.row, size, d->samples, length);
    return length;
}

/* ---- examples ------------------------------------------------------------------------------- */

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    const digit_set *d = self;
    int digit[MOST];
    if (d->variant == STRINGS)
        choose_digits(d, part, number, digit, out);
    else
        snprintf(out->text, sizeof out->text, "%s",
                 fv_spoken_words[fv_spoken_word(d->recording[part][number])]);
    return FV_OK;
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    digit_set *d = self;
    const float *samples = d->samples;
    int64_t length = 0;
    if (d->variant == STRINGS) {
        length = say_string(d, part, number, draw, out);
    } else {
        const int recording = d->recording[part][number];
        samples = fv_sound_samples(d->bank.sound[recording], 0);
        length = fv_sound_length(d->bank.sound[recording]);
        out->label = fv_spoken_word(recording);
        FV_TRY(get_text(self, part, number, out));
    }
    out->length = fv_features_frames(d->front, length);
    FV_TRY(fv_features_run(d->ctx, d->front, samples, length, d->values));
    if (d->variant != STRINGS)
        out->place[out->places++] = (fv_media_place){.x1 = (float)out->length};
    out->values = d->values;
    return fv_media_hide_bands(d->ctx, draw, out->length, MELS, d->values);
}

const fv_media_kind fv_media_fsdd = {
    .name = "fsdd",
    .summary =
        "spoken digits, and strings of them, from the files of the Free Spoken Digit Dataset",
    .variants = VARIANTS,
    .open = open_files,
    .get = get,
    .text = get_text,
    .close = close_set,
};

const fv_media_kind fv_media_tones = {
    .name = "tones",
    .summary = "generated words of two tones, in the form of fsdd",
    .variants = VARIANTS,
    .open = open_tones,
    .get = get,
    .text = get_text,
    .close = close_set,
};
