#include "base/cpu.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* XCR0: which register state the operating system saves. Needs OSXSAVE. */
static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static void read_name(char name[64])
{
    uint32_t word[12];
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &word[4 * i], &word[4 * i + 1], &word[4 * i + 2],
                    &word[4 * i + 3]);
    memcpy(name, word, sizeof word);
    name[sizeof word] = '\0';
    size_t skip = strspn(name, " ");
    memmove(name, name + skip, strlen(name + skip) + 1);
}

static void read_features(fv_cpu *out)
{
    enum { XCR0_YMM = 0x6, XCR0_ZMM = 0xe6 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    bool osxsave = c & (1u << 27);
    uint64_t xcr0 = osxsave ? read_xcr0() : 0;
    out->os_ymm = (xcr0 & XCR0_YMM) == XCR0_YMM;
    out->os_zmm = (xcr0 & XCR0_ZMM) == XCR0_ZMM;
    out->fma = c & (1u << 12);
    out->f16c = c & (1u << 29);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        out->avx2 = b & (1u << 5);
        out->avx512f = b & (1u << 16);
        out->avx512dq = b & (1u << 17);
        out->avx512bw = b & (1u << 30);
        out->avx512vl = b & (1u << 31);
        out->avx512_vnni = c & (1u << 11);
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) out->avx512_bf16 = a & (1u << 5);
}
#endif

static uint64_t cache_bytes(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

void fv_cpu_detect(fv_cpu *out)
{
    *out = (fv_cpu){.name = "unknown"};
#if defined(__x86_64__)
    read_name(out->name);
    read_features(out);
#endif
    out->l1d_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    out->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    out->l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
}

fv_simd fv_cpu_best(const fv_cpu *cpu)
{
    if (!(cpu->avx2 && cpu->fma && cpu->f16c && cpu->os_ymm)) return FV_SIMD_SCALAR;
    if (cpu->avx512f && cpu->avx512dq && cpu->avx512bw && cpu->avx512vl && cpu->os_zmm)
        return FV_SIMD_AVX512;
    return FV_SIMD_AVX2;
}

fv_simd fv_simd_detect(void)
{
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    return fv_cpu_best(&cpu);
}

const char *fv_simd_name(fv_simd level)
{
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512"};
    return (unsigned)level < sizeof names / sizeof *names ? names[level] : "unknown";
}

int fv_cpu_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n > 0) return n;
    }
    return 1;
}
