/* The best level of this machine, cheaply: for calls that have no context to remember it. */
#ifndef FV_KERNELS_LEVEL_H
#define FV_KERNELS_LEVEL_H

#include "fovea/context.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define FV_LIBC_KNOWS_CPU 1
#endif
#endif

/* CPUID can cost microseconds under a hypervisor, more than a short array; the C library has
 * asked it already where this header exists. */
static inline fv_simd fv_level_usable(void)
{
#ifdef FV_LIBC_KNOWS_CPU
    if (!(CPU_FEATURE_ACTIVE(AVX2) && CPU_FEATURE_ACTIVE(FMA) && CPU_FEATURE_ACTIVE(F16C)))
        return FV_SIMD_SCALAR;
    if (CPU_FEATURE_ACTIVE(AVX512F) && CPU_FEATURE_ACTIVE(AVX512DQ) &&
        CPU_FEATURE_ACTIVE(AVX512BW) && CPU_FEATURE_ACTIVE(AVX512VL))
        return FV_SIMD_AVX512;
    return FV_SIMD_AVX2;
#else
    return fv_simd_detect();
#endif
}

#endif
