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

/* By level, from scalar on. */
typedef struct levels {
    array_fn fn[3];
} levels;

#if defined(__x86_64__)
#define LEVELS(name) ((levels){{name##_scalar, fv_simd_v##name##_avx2, fv_simd_v##name##_avx512}})
#elif defined(__aarch64__)
#define LEVELS(name) ((levels){{name##_scalar, fv_simd_v##name##_neon}})
#else
#define LEVELS(name) ((levels){{name##_scalar}})
#endif

static fv_status run(levels of, fv_simd level, int64_t n, const float *x, float *y)
{
    if (level < FV_SIMD_AUTO || level > FV_SIMD_AMX) return FV_ERR_ARGUMENT;
    if (n < 0 || (n > 0 && (!x || !y))) return FV_ERR_ARGUMENT;
    const fv_simd best = fv_level_usable();
    level = fv_vector_level(level);
    if (level > best) return FV_ERR_UNSUPPORTED;
    if (level == FV_SIMD_AUTO) level = best;
    if (n > 0) of.fn[level - FV_SIMD_SCALAR](n, x, y);
    return FV_OK;
}

fv_status fv_vexp(int64_t n, const float *x, fv_simd level, float *y)
{
    return run(LEVELS(exp), level, n, x, y);
}

fv_status fv_vlog(int64_t n, const float *x, fv_simd level, float *y)
{
    return run(LEVELS(log), level, n, x, y);
}

fv_status fv_vtanh(int64_t n, const float *x, fv_simd level, float *y)
{
    return run(LEVELS(tanh), level, n, x, y);
}

fv_status fv_verf(int64_t n, const float *x, fv_simd level, float *y)
{
    return run(LEVELS(erf), level, n, x, y);
}
