#include "audio/fft.h"

#include <math.h>
#include <string.h>

/* Radix 4 saves the most work, so it comes first. */
bool fv_fft_factor(int64_t length, fv_fft_steps *out)
{
    static const int radices[] = {4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, FV_FFT_LARGEST_PRIME};
    *out = (fv_fft_steps){.length = length};
    for (size_t i = 0; i < sizeof radices / sizeof *radices; i++)
        for (; length % radices[i] == 0; length /= radices[i])
            out->radix[out->count++] = radices[i];
    return length == 1;
}

/* cos and sin of -2 pi k / n. */
static void unit_root(int64_t k, int64_t n, double out[2])
{
    const double angle = -2 * M_PI * (double)(k % n) / (double)n;
    out[0] = cos(angle);
    out[1] = sin(angle);
}

/* Elements of the tables of all steps. */
static size_t twiddle_count(const fv_fft_steps *steps)
{
    size_t count = 0;
    int64_t n = steps->length;
    for (int i = 0; i < steps->count; n /= steps->radix[i], i++)
        count += (size_t)(2 * (n / steps->radix[i]) * (steps->radix[i] - 1));
    return count;
}

static size_t root_count(const fv_fft_steps *steps)
{
    size_t count = 0;
    for (int i = 0; i < steps->count; i++)
        if (steps->radix[i] > 5) count += (size_t)(2 * steps->radix[i]);
    return count;
}

#define REAL    float
#define NAME(x) x##_f32
#define TYPE    fv_fft_f32
#define CREATE  fv_fft_f32_create
#define DESTROY fv_fft_f32_destroy
#define WORK    fv_fft_f32_work
#define RUN     fv_fft_f32_run
#include "audio/fft.inc"
#undef REAL
#undef NAME
#undef TYPE
#undef CREATE
#undef DESTROY
#undef WORK
#undef RUN

#define REAL    double
#define NAME(x) x##_f64
#define TYPE    fv_fft_f64
#define CREATE  fv_fft_f64_create
#define DESTROY fv_fft_f64_destroy
#define WORK    fv_fft_f64_work
#define RUN     fv_fft_f64_run
#include "audio/fft.inc"
