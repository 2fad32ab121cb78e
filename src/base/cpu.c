#include "base/cpu.h"

#include <sched.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    enum { XCR0_YMM = 0x6, XCR0_ZMM = 0xe6, XCR0_TILES = 3 << 17 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    bool osxsave = c & (1u << 27);
    uint64_t xcr0 = osxsave ? read_xcr0() : 0;
    out->os_ymm = (xcr0 & XCR0_YMM) == XCR0_YMM;
    out->os_zmm = (xcr0 & XCR0_ZMM) == XCR0_ZMM;
    out->os_tiles = (xcr0 & XCR0_TILES) == XCR0_TILES;
    out->fma = c & (1u << 12);
    out->f16c = c & (1u << 29);
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        out->avx2 = b & (1u << 5);
        out->avx512f = b & (1u << 16);
        out->avx512dq = b & (1u << 17);
        out->avx512bw = b & (1u << 30);
        out->avx512vl = b & (1u << 31);
        out->avx512_vnni = c & (1u << 11);
        out->amx_bf16 = d & (1u << 22);
        out->amx_tile = d & (1u << 24);
        out->amx_int8 = d & (1u << 25);
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) out->avx512_bf16 = a & (1u << 5);
    out->tiles_permitted = out->os_tiles && fv_cpu_tiles_permitted();
}

/* Intel lists its caches in leaf 4, AMD in leaf 0x8000001d, in one format. */
static void read_caches(fv_cpu *out)
{
    enum { DATA = 1, UNIFIED = 3, MOST = 16 };
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    const bool amd = b == signature_AMD_ebx;
    const unsigned leaf = amd ? 0x8000001du : 4u;
    if ((unsigned)__get_cpuid_max(leaf & 0x80000000u, NULL) < leaf) return;
    for (unsigned i = 0; i < MOST; i++) {
        __cpuid_count(leaf, i, a, b, c, d);
        const unsigned type = a & 31u, level = a >> 5 & 7u;
        if (type == 0) return;
        if (type != DATA && type != UNIFIED) continue;
        const uint64_t ways = (b >> 22) + 1, parts = (b >> 12 & 0x3ffu) + 1;
        const uint64_t line = (b & 0xfffu) + 1, sets = (uint64_t)c + 1;
        const uint64_t bytes = ways * parts * line * sets;
        if (level == 1) out->l1d_bytes = bytes;
        if (level == 2) out->l2_bytes = bytes;
        if (level == 3) out->l3_bytes = bytes;
    }
}

/* Requests of arch_prctl about register state that a process asks for, and the number of the tiles'
 * data among them; a C library may not have the names. */
enum { GET_PERMISSION = 0x1022, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

bool fv_cpu_tiles_permitted(void)
{
    uint64_t states = 0;
    return syscall(SYS_arch_prctl, GET_PERMISSION, &states) == 0 && (states >> TILE_DATA & 1u);
}

bool fv_cpu_request_tiles(void)
{
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 && fv_cpu_tiles_permitted();
}
#else
bool fv_cpu_tiles_permitted(void) { return false; }
bool fv_cpu_request_tiles(void) { return false; }
#endif

void fv_cpu_detect(fv_cpu *out)
{
    *out = (fv_cpu){.name = "unknown"};
#if defined(__x86_64__)
    read_name(out->name);
    read_features(out);
    read_caches(out);
#elif defined(__aarch64__)
    out->neon = true; /* part of the architecture */
#endif
}

fv_simd fv_cpu_best(const fv_cpu *cpu)
{
    if (cpu->neon) return FV_SIMD_NEON;
    if (!(cpu->avx2 && cpu->fma && cpu->f16c && cpu->os_ymm)) return FV_SIMD_SCALAR;
    if (!(cpu->avx512f && cpu->avx512dq && cpu->avx512bw && cpu->avx512vl && cpu->os_zmm))
        return FV_SIMD_AVX2;
    const bool tiles =
        cpu->amx_tile && cpu->amx_bf16 && cpu->avx512_bf16 && cpu->os_tiles && cpu->tiles_permitted;
    return tiles ? FV_SIMD_AMX : FV_SIMD_AVX512;
}

fv_simd fv_simd_detect(void)
{
    fv_cpu cpu = {0};
#if defined(__x86_64__)
    read_features(&cpu); /* name and caches take longer: CPUID traps in a virtual machine */
#elif defined(__aarch64__)
    cpu.neon = true;
#endif
    return fv_cpu_best(&cpu);
}

const char *fv_simd_name(fv_simd level)
{
#if defined(__aarch64__)
    static const char *const names[] = {"auto", "scalar", "neon"};
#else
    static const char *const names[] = {"auto", "scalar", "avx2", "avx512", "amx"};
#endif
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
