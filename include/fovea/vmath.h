/*
 * fovea/vmath.h: exp, log, tanh and erf over arrays of floats, for programs that want
 * them alone. Raw pointers, no context, no allocation, one thread.
 *
 *     float x[1000] = {0.5f, -1, 3}, y[1000];
 *     fv_status s = fv_vexp(FV_SIMD_AUTO, 1000, x, y);    // y[i] = e^x[i]
 *     s = fv_vtanh(FV_SIMD_AUTO, 1000, y, y);             // in place is allowed
 *
 * The result has the same bits at every level and at any place in the array. Largest errors
 * over all 2^32 arguments against the exact value, in units of the last place of the result:
 *
 *     fv_vexp   1.95    underflows gradually, overflows to inf above 88.7228
 *     fv_vlog   0.82    log(+-0) = -inf, log(x < 0) = NaN
 *     fv_vtanh  1.61    odd, keeps -0, exactly +-1 from |x| = 9.0109 on
 *     fv_verf   1.73    odd, keeps -0, exactly +-1 from |x| = 3.9192 on
 *
 * NaN gives NaN; infinities give the limits.
 */
#ifndef FOVEA_VMATH_H
#define FOVEA_VMATH_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * y[i] = f(x[i]) for 0 <= i < n. x and y are n floats each: the same array or ones that do not
 * overlap; no alignment is asked for. FV_SIMD_AUTO takes the best level the machine has.
 *
 * FV_ERR_ARGUMENT: n < 0, or a NULL pointer with n > 0, or no such level.
 * FV_ERR_UNSUPPORTED: a level above the machine's. Nothing is written then.
 */
FV_API fv_status fv_vexp(fv_simd level, int64_t n, const float *x, float *y);
FV_API fv_status fv_vlog(fv_simd level, int64_t n, const float *x, float *y);
FV_API fv_status fv_vtanh(fv_simd level, int64_t n, const float *x, float *y);
FV_API fv_status fv_verf(fv_simd level, int64_t n, const float *x, float *y);

#ifdef __cplusplus
}
#endif
#endif
