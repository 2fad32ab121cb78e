/* The functions of fovea/vmath.h, one set a level. y may be x. */
#ifndef FV_KERNELS_VMATH_H
#define FV_KERNELS_VMATH_H

#include <stdint.h>

#define FV_VMATH_LEVEL(suffix)                                                                     \
    void fv_simd_vexp_##suffix(int64_t n, const float *x, float *y);                               \
    void fv_simd_vlog_##suffix(int64_t n, const float *x, float *y);                               \
    void fv_simd_vtanh_##suffix(int64_t n, const float *x, float *y);                              \
    void fv_simd_verf_##suffix(int64_t n, const float *x, float *y)

FV_VMATH_LEVEL(avx2);
FV_VMATH_LEVEL(avx512);

#endif
