/* Implements fovea/kernels.h: checks the arguments, then calls the loop of the SIMD level. */
#include "fovea/kernels.h"

#include "kernels/level.h"
#include "kernels/ref/math.h"
#include "kernels/vmath.h"

typedef void (*array_fn)(int64_t n, const float *x, float *y);

#define SCALAR(name)                                                                               \
    static void name##_scalar(int64_t n, const float *x, float *y)                                 \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = fv_##name##f_ref(x[i]);                                                         \
    }
SCALAR(exp)
SCALAR(log)
SCALAR(tanh)
SCALAR(erf)

typedef struct levels {
    array_fn scalar, avx2, avx512;
} levels;

#if defined(__x86_64__)
#define LEVELS(scalar, avx2, avx512) ((levels){scalar, avx2, avx512})
#else
#define LEVELS(scalar, avx2, avx512) ((levels){scalar, NULL, NULL})
#endif

static fv_status run(levels fn, fv_simd level, int64_t n, const float *x, float *y)
{
    if (level < FV_SIMD_AUTO || level > FV_SIMD_AVX512) return FV_ERR_ARGUMENT;
    if (n < 0 || (n > 0 && (!x || !y))) return FV_ERR_ARGUMENT;
    const fv_simd best = fv_level_usable();
    if (level > best) return FV_ERR_UNSUPPORTED;
    if (level == FV_SIMD_AUTO) level = best;
    const array_fn chosen = level == FV_SIMD_AVX512 ? fn.avx512
                            : level == FV_SIMD_AVX2 ? fn.avx2
                                                    : fn.scalar;
    if (n > 0) chosen(n, x, y);
    return FV_OK;
}

fv_status fv_vexp(int64_t n, const float *x, fv_simd level, float *y)
{
    const levels fn = LEVELS(exp_scalar, fv_simd_vexp_avx2, fv_simd_vexp_avx512);
    return run(fn, level, n, x, y);
}

fv_status fv_vlog(int64_t n, const float *x, fv_simd level, float *y)
{
    const levels fn = LEVELS(log_scalar, fv_simd_vlog_avx2, fv_simd_vlog_avx512);
    return run(fn, level, n, x, y);
}

fv_status fv_vtanh(int64_t n, const float *x, fv_simd level, float *y)
{
    const levels fn = LEVELS(tanh_scalar, fv_simd_vtanh_avx2, fv_simd_vtanh_avx512);
    return run(fn, level, n, x, y);
}

fv_status fv_verf(int64_t n, const float *x, fv_simd level, float *y)
{
    const levels fn = LEVELS(erf_scalar, fv_simd_verf_avx2, fv_simd_verf_avx512);
    return run(fn, level, n, x, y);
}
