/* fovea/vmath.h: checks, then the loop of the level. */
#include "fovea/vmath.h"

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
#define LEVELS(name) ((levels){name##_scalar, fv_simd_v##name##_avx2, fv_simd_v##name##_avx512})
#else
#define LEVELS(name) ((levels){name##_scalar, NULL, NULL})
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
    chosen(n, x, y);
    return FV_OK;
}

fv_status fv_vexp(fv_simd level, int64_t n, const float *x, float *y)
{
    return run(LEVELS(exp), level, n, x, y);
}

fv_status fv_vlog(fv_simd level, int64_t n, const float *x, float *y)
{
    return run(LEVELS(log), level, n, x, y);
}

fv_status fv_vtanh(fv_simd level, int64_t n, const float *x, float *y)
{
    return run(LEVELS(tanh), level, n, x, y);
}

fv_status fv_verf(fv_simd level, int64_t n, const float *x, float *y)
{
    return run(LEVELS(erf), level, n, x, y);
}
