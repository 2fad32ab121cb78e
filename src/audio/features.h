/*
 * What fv_features_create makes, and the parts it is made of. The steps are written once for f32
 * and f64 (features.inc).
 */
#ifndef FV_AUDIO_FEATURES_H
#define FV_AUDIO_FEATURES_H

#include "audio/fft.h"
#include "audio/sound.h"

/* One triangle: weights of the bins first .. first + count - 1. */
typedef struct fv_mel_filter {
    int64_t first, count;
    int64_t at; /* of its first weight in the list of all */
} fv_mel_filter;

#define FV_FEATURES_TABLES(suffix, real)                                                           \
    typedef struct fv_features_##suffix {                                                          \
        fv_fft_##suffix fft;                                                                       \
        real *window;  /* [fft] */                                                                 \
        real *weights; /* of all filters, without their zeros */                                   \
        real *dct;     /* [coefficients][mels] */                                                  \
    } fv_features_##suffix;

FV_FEATURES_TABLES(f32, float)
FV_FEATURES_TABLES(f64, double)

struct fv_features {
    fv_ctx *ctx;
    fv_features_config cfg; /* complete: no value that stands for a default */
    int64_t bins, width;
    fv_mel_filter *filters; /* [mels]; NULL where the output has none */
    size_t filters_bytes;
    fv_features_f32 f32; /* of the two, the one that cfg.compute names */
    fv_features_f64 f64;
    void *tables;
    size_t tables_bytes;
};

/* Copies the caller's config over defaults, completes and checks it. */
fv_status fv_features_complete(fv_ctx *ctx, const fv_features_config *cfg, fv_features_config *out);

/* Row m of the filter bank in double, [fft/2 + 1], as librosa rounds it to float. */
void fv_mel_filter_row(const fv_features_config *cfg, int64_t m, float *out);

/* The value at element i of a window of n elements. */
double fv_window_value(fv_window window, int64_t i, int64_t n);

static inline bool fv_features_has_mels(const fv_features_config *cfg)
{
    return cfg->output >= FV_FEATURES_OUTPUT_MEL;
}

#endif
