/* The best SIMD level of this machine, at little cost, for calls that have no context to keep it.
 * Level amx is level avx512 with products on tiles and is asked for apart. */
#ifndef FV_KERNELS_LEVEL_H
#define FV_KERNELS_LEVEL_H

#include "base/cpu.h"

#if defined(__x86_64__) && defined(__has_include)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define FV_LIBC_KNOWS_CPU 1
#endif
#endif

/* CPUID can take microseconds under a hypervisor, more than a small product. Where this header
 * exists the C library has already queried it. Its own macro shifts into the sign bit of an int, so
 * the words are read here. */
#ifdef FV_LIBC_KNOWS_CPU
static inline bool fv_cpu_has(unsigned feature)
{
    enum { REGISTER_BITS = 32, LEAF_BITS = 4 * REGISTER_BITS };
    const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / LEAF_BITS);
    const unsigned word = leaf->active_array[feature % LEAF_BITS / REGISTER_BITS];
    return word >> feature % REGISTER_BITS & 1u;
}

static inline fv_simd fv_level_usable(void)
{
    if (!(fv_cpu_has(x86_cpu_AVX2) && fv_cpu_has(x86_cpu_FMA) && fv_cpu_has(x86_cpu_F16C)))
        return FV_SIMD_SCALAR;
    if (fv_cpu_has(x86_cpu_AVX512F) && fv_cpu_has(x86_cpu_AVX512DQ) &&
        fv_cpu_has(x86_cpu_AVX512BW) && fv_cpu_has(x86_cpu_AVX512VL))
        return FV_SIMD_AVX512;
    return FV_SIMD_AVX2;
}
/* Whether to use bf16 dot products on top of AVX-512. CPUs with AMX run them at half the rate of
 * float products (measured in attention: 76 against 137 GFLOP/s), so converting to float is faster
 * there. AMX counts even if the operating system has not enabled it. */
static inline bool fv_bf16_usable(void)
{
    enum { EDX = 3, AMX_BF16 = 22 };
    const bool tiles =
        __x86_get_cpuid_feature_leaf(CPUID_INDEX_7)->cpuid_array[EDX] >> AMX_BF16 & 1u;
    return fv_cpu_has(x86_cpu_AVX512_BF16) && !tiles;
}
static inline bool fv_vnni_usable(void) { return fv_cpu_has(x86_cpu_AVX512_VNNI); }
/* Whether the CPU has tiles. Level amx rounds with AVX512_BF16, which every CPU with AMX-BF16 has.
 */
static inline bool fv_tiles_present(void)
{
    return fv_cpu_has(x86_cpu_AMX_TILE) && fv_cpu_has(x86_cpu_AMX_BF16) &&
           fv_cpu_has(x86_cpu_AVX512_BF16) && fv_level_usable() == FV_SIMD_AVX512;
}
/* Whether tiles can be used. Asks the operating system, which takes a tenth of a small product's
 * time: ask only for calls that would use tiles. */
static inline bool fv_tiles_usable(void) { return fv_tiles_present() && fv_cpu_tiles_permitted(); }
#elif defined(__aarch64__)
static inline fv_simd fv_level_usable(void) { return FV_SIMD_NEON; }
static inline bool fv_tiles_present(void) { return false; }
static inline bool fv_tiles_usable(void) { return false; }
#else
static inline bool fv_tiles_usable(void) { return fv_simd_detect() == FV_SIMD_AMX; }
static inline bool fv_tiles_present(void) { return fv_tiles_usable(); }
static inline fv_simd fv_level_usable(void)
{
    const fv_simd best = fv_simd_detect();
    return best == FV_SIMD_AMX ? FV_SIMD_AVX512 : best;
}
static inline bool fv_bf16_usable(void)
{
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    return cpu.avx512_bf16 && !cpu.amx_bf16;
}
static inline bool fv_vnni_usable(void)
{
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    return cpu.avx512_vnni;
}
#endif

/* The level of vector kernels for a call that asks for level `wanted`: level avx512 for amx where
 * the CPU has tiles, else the level itself. */
static inline fv_simd fv_vector_level(fv_simd wanted)
{
    return wanted == FV_SIMD_AMX && fv_tiles_present() ? FV_SIMD_AVX512 : wanted;
}

#endif
