#include "fovea/context.h"

#include <string.h>

#include "base/config.h"
#include "base/cpu.h"

#ifndef FV_VERSION
#error "the build defines FV_VERSION"
#endif

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

#if defined(__clang__)
#define COMPILER                                                                                   \
    "clang " TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#elif defined(__GNUC__)
#define COMPILER "gcc " TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__)
#else
#define COMPILER "unknown"
#endif

#if defined(__x86_64__)
#define MACHINE "x86_64"
#elif defined(__aarch64__)
#define MACHINE "aarch64"
#else
#define MACHINE "unknown"
#endif

#if defined(__linux__)
#define SYSTEM "linux"
#elif defined(__APPLE__)
#define SYSTEM "macos"
#else
#define SYSTEM "unknown"
#endif

#if defined(__has_feature)
#define CLANG_HAS(x) __has_feature(x)
#else
#define CLANG_HAS(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || CLANG_HAS(address_sanitizer)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__) || CLANG_HAS(thread_sanitizer)
#define SANITIZER "thread"
#else
#define SANITIZER ""
#endif

#ifdef NDEBUG
#define BUILD_TYPE "release"
#else
#define BUILD_TYPE "debug"
#endif

const char *fv_version(void) { return FV_VERSION; }

void fv_build_info_get(fv_build_info *out)
{
    const fv_build_info full = {.version = FV_VERSION,
                                .type = BUILD_TYPE,
                                .compiler = COMPILER,
                                .target = MACHINE " " SYSTEM,
                                .sanitizer = SANITIZER};
    fv_config_give(out, &full, sizeof full);
}

void fv_cpu_info_get(fv_cpu_info *out)
{
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    fv_cpu_info full = {.best = fv_cpu_best(&cpu),
                        .cpus = fv_cpu_count(),
                        .avx2 = cpu.avx2,
                        .fma = cpu.fma,
                        .f16c = cpu.f16c,
                        .avx512f = cpu.avx512f,
                        .avx512dq = cpu.avx512dq,
                        .avx512bw = cpu.avx512bw,
                        .avx512vl = cpu.avx512vl,
                        .avx512_bf16 = cpu.avx512_bf16,
                        .avx512_vnni = cpu.avx512_vnni,
                        .os_ymm = cpu.os_ymm,
                        .os_zmm = cpu.os_zmm,
                        .l1d_bytes = cpu.l1d_bytes,
                        .l2_bytes = cpu.l2_bytes,
                        .l3_bytes = cpu.l3_bytes,
                        .amx_tile = cpu.amx_tile,
                        .amx_bf16 = cpu.amx_bf16,
                        .amx_int8 = cpu.amx_int8,
                        .os_tiles = cpu.os_tiles,
                        .tiles_permitted = cpu.tiles_permitted};
    memcpy(full.name, cpu.name, sizeof full.name);
    full.name[sizeof full.name - 1] = '\0';
    fv_config_give(out, &full, sizeof full);
}

/* ---- features ------------------------------------------------------------------- */

#if defined(__x86_64__)
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif

#if defined(__aarch64__)
#define LEVELS                                                                                     \
    {                                                                                              \
        0, "neon", "kernels for 64-bit ARM CPUs", true                                             \
    }
#else
#define LEVELS                                                                                     \
    {0, "avx2", "kernels for CPUs with AVX2, FMA and F16C", HAVE_X86},                             \
        {0, "avx512", "kernels for CPUs with AVX-512 (F, DQ, BW, VL)", HAVE_X86},                  \
    {                                                                                              \
        0, "amx", "bf16 products on the tiles of AMX", HAVE_X86                                    \
    }
#endif

#if defined(__linux__)
#define HAVE_GUARDED 1
#else
#define HAVE_GUARDED 0
#endif

/* An optional library is in the build when its FV_HAVE_ macro is defined by the build files. */
#ifdef FV_HAVE_ZLIB
#define HAVE_ZLIB 1
#else
#define HAVE_ZLIB 0
#endif
#ifdef FV_HAVE_LibLZMA
#define HAVE_LZMA 1
#else
#define HAVE_LZMA 0
#endif
#ifdef FV_HAVE_FLAC
#define HAVE_FLAC 1
#else
#define HAVE_FLAC 0
#endif
#ifdef FV_HAVE_CUDA
#define HAVE_CUDA 1
#else
#define HAVE_CUDA 0
#endif

bool fv_feature_get(int index, fv_feature *out)
{
    static const fv_feature features[] = {
        LEVELS,
        {0, "guarded", "a device that proves that no code touches device memory by itself",
         HAVE_GUARDED},
        {0, "zlib", "compressed npz files, .gz texts", HAVE_ZLIB},
        {0, "lzma", ".xz texts", HAVE_LZMA},
        {0, "flac", "FLAC recordings, where libFLAC is installed", HAVE_FLAC},
        {0, "cuda", "NVIDIA GPUs", HAVE_CUDA},
    };
    if (index < 0 || (size_t)index >= sizeof features / sizeof features[0]) return false;
    fv_config_give(out, &features[index], sizeof features[index]);
    return true;
}
