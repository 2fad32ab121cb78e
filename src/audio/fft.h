/*
 * Fourier transforms of real signals, of any length, FV_FFT_LANES signals at once: element i of
 * signal l is x[i * FV_FFT_LANES + l]. All lanes do the same, so every loop is over whole vectors,
 * and a lane's result does not depend on the others.
 *
 *     fv_fft_f32 fft;
 *     FV_TRY(fv_fft_f32_create(ctx, 400, &fft));
 *     fv_fft_f32_run(&fft, x, work, re, im);      // x: [n][lanes], re, im: [n/2 + 1][lanes]
 *     fv_fft_f32_destroy(ctx, &fft);
 *
 * X[k] = sum_i x[i] exp(-2 pi j i k / n). An even length n is a complex transform of n/2. That is
 * done by Stockham's algorithm in steps of 4, 2, 3, 5 or a prime up to 31; a length with a larger
 * prime is a convolution of a power of two (Bluestein). Tables are computed in double. f32 and f64
 * come from one source, fft.inc.
 */
#ifndef FV_AUDIO_FFT_H
#define FV_AUDIO_FFT_H

#include "base/ctx.h"

enum { FV_FFT_LANES = 8, FV_FFT_STEPS = 32, FV_FFT_LARGEST_PRIME = 31 };

/* The steps of a complex transform of `length`. */
typedef struct fv_fft_steps {
    int64_t length;
    int count;
    int radix[FV_FFT_STEPS];
} fv_fft_steps;

/* False: the length has a prime above FV_FFT_LARGEST_PRIME. */
bool fv_fft_factor(int64_t length, fv_fft_steps *out);

#define FV_FFT_DECLARE(suffix, real)                                                               \
    typedef struct fv_fft_##suffix {                                                               \
        int64_t length;                                                                            \
        int64_t complex_length; /* n/2 for an even length, else n */                               \
        fv_fft_steps steps;     /* of complex_length, or of the convolution */                     \
        real *twiddles;         /* of all steps: cos, sin */                                       \
        real *roots;            /* of each radix that is a large prime: cos, sin */                \
        real *halves;           /* exp(-2 pi j k / n), which join the halves of an even length */  \
        real *chirp;            /* Bluestein: exp(-pi j k^2 / n); NULL: steps are enough */        \
        real *filter;           /* Bluestein: the transform of the conjugate chirp */              \
        void *tables;           /* the memory of all of them */                                    \
        size_t bytes;                                                                              \
    } fv_fft_##suffix;                                                                             \
    fv_status fv_fft_##suffix##_create(fv_ctx *ctx, int64_t length, fv_fft_##suffix *out);         \
    void fv_fft_##suffix##_destroy(fv_ctx *ctx, fv_fft_##suffix *fft); /* a zeroed one is fine */  \
    /* Elements of `work` for a run. */                                                            \
    size_t fv_fft_##suffix##_work(const fv_fft_##suffix *fft);                                     \
    void fv_fft_##suffix##_run(const fv_fft_##suffix *fft, const real *x, real *work, real *re,    \
                               real *im);

FV_FFT_DECLARE(f32, float)
FV_FFT_DECLARE(f64, double)

#endif
