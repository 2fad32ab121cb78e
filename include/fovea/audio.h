/*
 * fovea/audio.h: recordings, and the numbers that a model hears: spectrograms, log-mel, MFCC.
 *
 *     fv_sound *word = NULL;
 *     fv_features *front = NULL;
 *     fv_features_config cfg;
 *     fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_WHISPER);     // 16 kHz, 80 mels
 *     s = fv_sound_load(ctx, "word.wav", FV_SOUND_MIX_MONO, &word);
 *     if (s == FV_OK) s = fv_sound_resample(ctx, &word, cfg.rate);
 *     if (s == FV_OK) s = fv_features_create(ctx, &cfg, &front);
 *     fv_tensor *mel = NULL;                                              // f32 [frames, 80]
 *     if (s == FV_OK) mel = fv_features_tensor(ctx, front, word, 0);
 *     fv_features_destroy(&front);
 *     fv_sound_free(&word);
 *
 * Samples are floats in host memory, with full scale at 1. Features are rows in time: [frames,
 * width], as sequence models take them; librosa, torchaudio and Whisper have the transposed matrix.
 * docs/audio.md has every formula. Results have the same bits for any number of threads.
 */
#ifndef FOVEA_AUDIO_H
#define FOVEA_AUDIO_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== sound ========================================================================= */

/*
 * sound: a recording in memory, read from WAV or FLAC, written as WAV.
 *
 *     fv_sound *sound = NULL;
 *     s = fv_sound_load(ctx, "stereo.flac", FV_SOUND_MIX_NONE, &sound);
 *     for (int64_t c = 0; s == FV_OK && c < fv_sound_channels(sound); c++) {
 *         const float *samples = fv_sound_samples(sound, c);
 *         float peak = 0;
 *         for (int64_t i = 0; i < fv_sound_length(sound); i++)
 *             peak = fmaxf(peak, fabsf(samples[i]));
 *         printf("channel %" PRId64 ": %" PRId64 " samples at %" PRId64 " Hz as %s, peak %.3f\n",
 *                c, fv_sound_length(sound), fv_sound_rate(sound), fv_sound_encoding(sound),
 *                (double)peak);
 *     }
 *     if (s == FV_OK && fv_sound_file_channels(sound) > 1) puts("these channels can be mixed");
 *     if (s == FV_OK) s = fv_sound_save(ctx, sound, FV_SOUND_FORMAT_PCM16, "copy.wav");
 *     fv_sound_free(&sound);
 *
 * Files are not trusted. Every size is checked against the file and fv_limits before memory is
 * taken: a file that ends early, sizes that contradict each other, damaged FLAC frames (CRC, MD5)
 * and samples that are not finite or above 2^40 fail with FV_ERR_FORMAT; more than
 * fv_limits.audio_seconds, or 64 channels, with FV_ERR_LIMIT.
 *
 * A sound belongs to its context: free it before the context is destroyed.
 */
typedef struct fv_sound fv_sound;

typedef enum fv_sound_mix {
    FV_SOUND_MIX_MONO, /* one channel: the mean of those in the file */
    FV_SOUND_MIX_NONE  /* every channel */
} fv_sound_mix;

enum { FV_SOUND_MAX_CHANNELS = 64, FV_SOUND_MAX_RATE = 1000000 };

/*
 * Reads a file; its first bytes decide the format, not its name. WAV: PCM of 1 to 32 bits, 32 and
 * 64-bit float, plain or WAVE_FORMAT_EXTENSIBLE, chunks of any kind in between. An integer x of b
 * bytes becomes x / 2^(8b-1), so 16-bit values are exact. FLAC: 4 to 32 bits, in builds with
 * libFLAC's headers and where the library is installed. Fails: IO, FORMAT, LIMIT, MEMORY,
 * CANCELLED, UNSUPPORTED (another encoding such as A-law or ADPCM, RF64, FLAC without libFLAC).
 */
FV_API FV_MUST_USE fv_status fv_sound_load(fv_ctx *ctx, const char *path, fv_sound_mix mix,
                                           fv_sound **out);

/*
 * A sound made of samples: copies channels x length floats, one channel after the other. NULL:
 * silence.
 *
 *     static const float click[4] = {0, 1, -1, 0};
 *     fv_sound *sound = NULL;
 *     s = fv_sound_create(ctx, 8000, 1, 4, click, &sound);
 */
FV_API FV_MUST_USE fv_status fv_sound_create(fv_ctx *ctx, int64_t rate, int64_t channels,
                                             int64_t length, const float *samples, fv_sound **out);
/* Accepts NULL; sets *sound to NULL. */
FV_API void fv_sound_free(fv_sound **sound);

FV_API int64_t fv_sound_rate(const fv_sound *sound);     /* samples a second */
FV_API int64_t fv_sound_channels(const fv_sound *sound); /* channels in memory */
FV_API int64_t fv_sound_length(const fv_sound *sound);   /* samples of each channel */
/* The samples of one channel, which may be changed; NULL for a channel that is not there. */
FV_API float *fv_sound_samples(fv_sound *sound, int64_t channel);
/* How the file stores it: "16-bit PCM", "32-bit float", "16-bit FLAC"; "" if it is from no file. */
FV_API const char *fv_sound_encoding(const fv_sound *sound);
FV_API int64_t fv_sound_file_channels(const fv_sound *sound); /* channels of the file */

/*
 * Converts to another rate, band-limited: y[j] = sum over i of x[i] h(i / from - j / to), where h
 * is a sinc with its cutoff at 0.99 of the lower Nyquist rate, under a Hann window of 6 zero
 * crossings to either side. That is torchaudio.functional.resample with its defaults; sums are in
 * double. The new length is ceil(length to / from). On failure *sound is unchanged. Fails: ARGUMENT
 * (rate), LIMIT, MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_sound_resample(fv_ctx *ctx, fv_sound **sound, int64_t rate);

typedef enum fv_sound_format {
    FV_SOUND_FORMAT_PCM16, /* round(32768 x), limited to 16 bits: a 16-bit file is written as it was
                            */
    FV_SOUND_FORMAT_FLOAT32 /* the samples, bit for bit */
} fv_sound_format;

/* Writes a WAV file atomically. Fails: ARGUMENT (4 GiB and more), IO, MEMORY. */
FV_API FV_MUST_USE fv_status fv_sound_save(fv_ctx *ctx, const fv_sound *sound,
                                           fv_sound_format format, const char *path);

/* ==== features ====================================================================== */

/*
 * features: short-time spectra of a signal and what is computed from them.
 *
 *     fv_features_config cfg;
 *     fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_TORCHAUDIO);
 *     cfg.output = FV_FEATURES_OUTPUT_MFCC;
 *     cfg.mels = 64;
 *     fv_features *front = NULL;
 *     s = fv_features_create(ctx, &cfg, &front);
 *     const int64_t frames = fv_features_frames(front, count);
 *     float *out = malloc((size_t)(frames * fv_features_width(front)) * sizeof *out);
 *     if (s == FV_OK && out) s = fv_features_run(ctx, front, first, count, out);
 *     free(out);
 *     fv_features_destroy(&front);
 *
 * The steps, each with settings below:
 *   frame t     x[t hop + i - fft/2] (centred) or x[t hop + i], i = 0 .. fft-1, times the window
 *   spectrum    X[t][k] = sum_i frame[i] exp(-2 pi j i k / fft), k = 0 .. fft/2
 *   power       P = |X|^power
 *   mel         M[t][m] = sum_k filter[m][k] P[t][k]
 *   log-mel     L = one of fv_mel_log, of M
 *   MFCC        C[t][c] = DCT-II, orthonormal, of L[t][.], the first `coefficients`
 *   standardise the result, over all its values: how loud a recording is no longer shows
 */
typedef struct fv_features fv_features;

/* Settings as other libraries have them; each may be changed afterwards.
 *   WHISPER     log-mel of openai/whisper: 16 kHz, fft 400, hop 160, 80 mels
 *   TORCHAUDIO  transforms.MelSpectrogram and MFCC: 16 kHz, fft 400, hop 200, 128 mels
 *   LIBROSA     feature.melspectrogram and mfcc: 22,050 Hz, fft 2048, hop 512, 128 mels
 *   SPEECH      what the speech models trained by this library read: 8 kHz, frames of 25 ms every
 *               10 ms, 40 mels, Whisper's logarithm, standardised */
typedef enum fv_features_preset {
    FV_FEATURES_PRESET_WHISPER,
    FV_FEATURES_PRESET_TORCHAUDIO,
    FV_FEATURES_PRESET_LIBROSA,
    FV_FEATURES_PRESET_SPEECH
} fv_features_preset;

typedef enum fv_features_output {
    FV_FEATURES_OUTPUT_COMPLEX, /* the spectrum: re and im of each bin, width 2 (fft/2 + 1) */
    FV_FEATURES_OUTPUT_POWER,   /* width fft/2 + 1 */
    FV_FEATURES_OUTPUT_MEL,     /* width mels */
    FV_FEATURES_OUTPUT_LOG_MEL, /* width mels */
    FV_FEATURES_OUTPUT_MFCC     /* width coefficients */
} fv_features_output;

/* Periodic windows, as torch.hann_window: element i has the angle 2 pi i / window_length. */
typedef enum fv_window { FV_WINDOW_HANN, FV_WINDOW_HAMMING, FV_WINDOW_NONE } fv_window;

/* What is before the first sample and after the last one, where frames are centred. */
typedef enum fv_edge { FV_EDGE_REFLECT, FV_EDGE_ZERO } fv_edge;

/* From Hz to mel: linear up to 1 kHz and logarithmic above (Slaney), or 2595 log10(1 + f / 700). */
typedef enum fv_mel_scale { FV_MEL_SCALE_SLANEY, FV_MEL_SCALE_HTK } fv_mel_scale;

typedef enum fv_mel_log {
    FV_MEL_LOG_LN,      /* ln max(M, floor) */
    FV_MEL_LOG_LN_PLUS, /* ln(M + floor): torchaudio's log_mels, with floor 1e-6 */
    FV_MEL_LOG_DB,      /* 20/power log10 max(M, floor), then at least the largest value - top_db */
    FV_MEL_LOG_WHISPER  /* L = log10 max(M, floor); (max(L, largest - 8) + 4) / 4 */
} fv_mel_log;

typedef struct fv_features_config {
    size_t struct_size;
    fv_features_output output;
    int64_t rate;          /* of the signal, in Hz */
    int64_t fft;           /* length of the transform: any from 2 to 65,536 */
    int64_t window_length; /* at most fft, in the middle of the frame; 0: fft */
    int64_t hop;           /* samples from frame to frame */
    fv_window window;
    bool centered;  /* frame t around sample t hop; frames 1 + length / hop */
    bool drop_last; /* without the last frame, as Whisper has it */
    fv_edge edge;   /* reflecting needs a signal longer than fft/2 */
    int power;      /* 1 (magnitude) or 2 */
    int64_t mels;   /* filters, 1 to 4,096 */
    fv_mel_scale scale;
    bool mel_area;    /* Slaney's norm: each filter has the area 1 / Hz; false: the height 1 */
    double low, high; /* Hz, of the first and the last filter's ends; high 0: rate / 2 */
    fv_mel_log log;
    double floor;
    double top_db;        /* with FV_MEL_LOG_DB; 0: no limit */
    int64_t coefficients; /* of an MFCC, at most mels */
    fv_dtype compute;     /* FV_F32, or FV_F64 for a reference: samples and results are floats */
    bool standardise;     /* (x - mean) / sqrt(variance + 1e-5), of all values of a call [false] */
} fv_features_config;

FV_API void fv_features_config_init(fv_features_config *cfg, size_t struct_size,
                                    fv_features_preset preset);

/* Makes the tables. They are only read afterwards. Fails: ARGUMENT (says which setting), MEMORY. */
FV_API FV_MUST_USE fv_status fv_features_create(fv_ctx *ctx, const fv_features_config *cfg,
                                                fv_features **out);
/* Accepts NULL; sets *features to NULL. */
FV_API void fv_features_destroy(fv_features **features);

/* Rows that a signal of this length gives, and floats in a row. 0 frames: shorter than a frame. */
FV_API int64_t fv_features_frames(const fv_features *features, int64_t length);
FV_API int64_t fv_features_width(const fv_features *features);

/*
 * Fills out[frames][width] from `length` samples. What is relative to the largest value
 * (FV_MEL_LOG_DB, FV_MEL_LOG_WHISPER) is relative to that of this call. Fails: ARGUMENT (a signal
 * too short to reflect), MEMORY, CANCELLED; `out` then holds no result.
 */
FV_API FV_MUST_USE fv_status fv_features_run(fv_ctx *ctx, const fv_features *features,
                                             const float *samples, int64_t length, float *out);

/* The same for a channel of a sound, as a tensor f32 [frames, width] of the innermost scope. This
 * is a tensor op: on failure it sets the sticky error; also ARGUMENT where the rates differ. */
FV_API fv_tensor *fv_features_tensor(fv_ctx *ctx, const fv_features *features, fv_sound *sound,
                                     int64_t channel);

/*
 * The filter bank of a config, float [mels][fft/2 + 1]: triangles between neighbouring points that
 * are equally far apart in mel. Equal to librosa.filters.mel in every float.
 *
 *     fv_features_config cfg;
 *     fv_features_config_init(&cfg, sizeof cfg, FV_FEATURES_PRESET_WHISPER);
 *     static float filters[80][201];
 *     s = fv_mel_filters(ctx, &cfg, &filters[0][0]);
 */
FV_API FV_MUST_USE fv_status fv_mel_filters(fv_ctx *ctx, const fv_features_config *cfg, float *out);

/*
 * First differences over time, as torchaudio.functional.compute_deltas: d[t] = sum over k = -n .. n
 * of k x[t + k] / (n (n + 1) (2 n + 1) / 3), the first and last row standing for those outside. n
 * is `reach`, 1 or more; in and out are float [frames][width] and do not overlap.
 *
 *     static float mfcc[50][13], slope[50][13];
 *     s = fv_deltas(ctx, &mfcc[0][0], 50, 13, 2, &slope[0][0]);
 */
FV_API FV_MUST_USE fv_status fv_deltas(fv_ctx *ctx, const float *in, int64_t frames, int64_t width,
                                       int64_t reach, float *out);

/* ==== augment ======================================================================= */

/*
 * augment: SpecAugment (Park et al. 2019) hides bands of frequency and stretches of time while a
 * model trains.
 *
 *     fv_spec_augment_config cfg;
 *     fv_spec_augment_config_init(&cfg, sizeof cfg);
 *     fv_ctx_set_step(ctx, 12, 0);
 *     static float mel[3][500][80];                                // three recordings of a batch
 *     for (int64_t row = 0; row < 3 && s == FV_OK; row++)
 *         s = fv_spec_augment(ctx, &cfg, row, 500, 80, &mel[row][0][0]);
 *
 * A mask has a width drawn from 0 .. its maximum and a place drawn among all where it fits. Draws
 * are keyed by the context's seed and step and by the row's number in the step (row offset + row),
 * so they do not depend on how a step is divided into batches or what else is drawn.
 */
typedef struct fv_spec_augment_config {
    size_t struct_size;
    int64_t time_masks, time_width;           /* [2] of at most [100] frames */
    double time_part;                         /* and of at most this part of all frames [1] */
    int64_t frequency_masks, frequency_width; /* [2] of at most [27] columns */
    double fill;                              /* what masks write [0] */
} fv_spec_augment_config;

FV_API void fv_spec_augment_config_init(fv_spec_augment_config *cfg, size_t struct_size);
/* Changes features[frames][width] in place. Fails: ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_spec_augment(fv_ctx *ctx, const fv_spec_augment_config *cfg,
                                             int64_t row, int64_t frames, int64_t width,
                                             float *features);

#ifdef __cplusplus
}
#endif
#endif
