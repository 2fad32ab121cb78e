/*
 * The limits' loops for each kernel level. A function attribute enables the instructions of the
 * level, so that the program itself runs on any CPU; callers must choose a level that the CPU has.
 */
#include "bench.h"
#include "fovea/context.h"

#if defined(__x86_64__)

/* Separate multiply and add, 16 bytes wide: every such CPU has them. */
#define SET(name) name##_scalar
#define TARGET
#define LANES             4
#define FMA32(s, x, y)    __asm__ volatile("mulps %1, %0\n\taddps %2, %0" : "+x"(s) : "x"(x), "x"(y))
#define FMA64(s, x, y)    __asm__ volatile("mulpd %1, %0\n\taddpd %2, %0" : "+x"(s) : "x"(x), "x"(y))
#define STREAM(to, value) __asm__ volatile("movntps %1, %0" : "=m"(to) : "x"(value))
#define FENCE()           __asm__ volatile("sfence" ::: "memory")
#define KEEP(value)       __asm__ volatile("" : "+x"(value))
#include "bench_loops.inc"

#define SET(name)         name##_avx2
#define TARGET            __attribute__((target("avx2,fma")))
#define LANES             8
#define FMA32(s, x, y)    __asm__ volatile("vfmadd213ps %2, %1, %0" : "+x"(s) : "x"(x), "x"(y))
#define FMA64(s, x, y)    __asm__ volatile("vfmadd213pd %2, %1, %0" : "+x"(s) : "x"(x), "x"(y))
#define STREAM(to, value) __asm__ volatile("vmovntps %1, %0" : "=m"(to) : "x"(value))
#define FENCE()           __asm__ volatile("sfence" ::: "memory")
#define KEEP(value)       __asm__ volatile("" : "+x"(value))
#include "bench_loops.inc"

#define SET(name)         name##_avx512
#define TARGET            __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define LANES             16
#define FMA32(s, x, y)    __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(s) : "v"(x), "v"(y))
#define FMA64(s, x, y)    __asm__ volatile("vfmadd213pd %2, %1, %0" : "+v"(s) : "v"(x), "v"(y))
#define DOT16(s, x, y)    __asm__ volatile("vdpbf16ps %2, %1, %0" : "+v"(s) : "v"(x), "v"(y))
#define STREAM(to, value) __asm__ volatile("vmovntps %1, %0" : "=m"(to) : "v"(value))
#define FENCE()           __asm__ volatile("sfence" ::: "memory")
#define KEEP(value)       __asm__ volatile("" : "+v"(value))
#include "bench_loops.inc"

/* Four independent tiles of sums cover the latency of a tile's 16 cycles. The tiles hold zeros. */
__attribute__((target("amx-tile,amx-bf16"))) static double dot_bf16_amx(const bench_slice *slice)
{
    enum { PALETTE = 1, TILES = 7, ROWS = 16, ROW_BYTES = 64, SUMS = 4, PAIRS = 16, COLS = 16 };
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = PALETTE};
    for (int i = 0; i < TILES; i++) {
        shapes.rows[i] = ROWS;
        shapes.row_bytes[i] = ROW_BYTES;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
    for (int64_t i = 0; i < slice->repeats; i++)
        __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n\ttdpbf16ps %tmm6, %tmm5, %tmm1\n\t"
                         "tdpbf16ps %tmm6, %tmm4, %tmm2\n\ttdpbf16ps %tmm6, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
    return 4.0 * SUMS * ROWS * PAIRS * COLS * (double)slice->repeats;
}

#else

/* Other CPUs: plain C, and streamed stores are normal ones. */
#define SET(name) name##_scalar
#define TARGET
#define LANES             4
#define KEEP(value)       __asm__ volatile("" : "+m"(value))
#define FMA32(s, x, y)    (s = s * x + y)
#define FMA64(s, x, y)    (s = s * x + y)
#define STREAM(to, value) (to = (value))
#define FENCE()           (void)0
#include "bench_loops.inc"

#if defined(__aarch64__)
/* s + x y, which the instruction computes, is as good a limit as s x + y. */
#define SET(name) name##_neon
#define TARGET
#define LANES             4
#define KEEP(value)       __asm__ volatile("" : "+w"(value))
#define FMA32(s, x, y)    __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" : "+w"(s) : "w"(x), "w"(y))
#define FMA64(s, x, y)    __asm__ volatile("fmla %0.2d, %1.2d, %2.2d" : "+w"(s) : "w"(x), "w"(y))
#define STREAM(to, value) (to = (value))
#define FENCE()           (void)0
#include "bench_loops.inc"
#endif

#endif

#if defined(__x86_64__)
static bool has_bf16_dots(void)
{
    fv_cpu_info cpu = {.struct_size = sizeof cpu};
    fv_cpu_info_get(&cpu);
    return cpu.avx512_bf16;
}
#endif

#define ROW(set)                                                                                   \
    {                                                                                              \
        [BENCH_FMA_F32] = fma_f32_##set, [BENCH_FMA_F64] = fma_f64_##set,                          \
        [BENCH_DOT_BF16] = fma_f32_##set, [BENCH_READ] = read_##set, [BENCH_COPY] = copy_##set,    \
        [BENCH_COPY_NT] = copy_nt_##set, [BENCH_TRIAD] = triad_##set,                              \
        [BENCH_TRIAD_NT] = triad_nt_##set                                                          \
    }

bench_limit_fn bench_limit_loop(bench_limit limit, fv_simd level)
{
    static const bench_limit_fn loops[][BENCH_LIMIT_COUNT] = {
        ROW(scalar),
#if defined(__x86_64__)
        ROW(avx2),
        ROW(avx512),
#elif defined(__aarch64__)
        ROW(neon),
#endif
    };
#if defined(__x86_64__)
    if (limit == BENCH_DOT_BF16 && level == FV_SIMD_AMX) return dot_bf16_amx;
    if (level == FV_SIMD_AMX) level = FV_SIMD_AVX512; /* everything else is the same there */
    if (limit == BENCH_DOT_BF16 && level == FV_SIMD_AVX512 && has_bf16_dots())
        return dot_bf16_avx512;
#endif
    return loops[level - FV_SIMD_SCALAR][limit];
}
