/* The functions of fovea/kernels.h for each level. y may be x. */
#ifndef FV_KERNELS_VMATH_H
#define FV_KERNELS_VMATH_H

#include <stdint.h>

void fv_simd_vexp_neon(int64_t n, const float *x, float *y);
void fv_simd_vlog_neon(int64_t n, const float *x, float *y);
void fv_simd_vtanh_neon(int64_t n, const float *x, float *y);
void fv_simd_verf_neon(int64_t n, const float *x, float *y);

void fv_simd_vexp_avx2(int64_t n, const float *x, float *y);
void fv_simd_vlog_avx2(int64_t n, const float *x, float *y);
void fv_simd_vtanh_avx2(int64_t n, const float *x, float *y);
void fv_simd_verf_avx2(int64_t n, const float *x, float *y);

void fv_simd_vexp_avx512(int64_t n, const float *x, float *y);
void fv_simd_vlog_avx512(int64_t n, const float *x, float *y);
void fv_simd_vtanh_avx512(int64_t n, const float *x, float *y);
void fv_simd_verf_avx512(int64_t n, const float *x, float *y);

#endif
