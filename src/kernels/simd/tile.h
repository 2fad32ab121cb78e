/*
 * The operations on Intel AMX tiles that kernels use: registers of up to 16 rows of 64 bytes that
 * multiply as matrices. A file that defines TILE_EMULATED before including this header gets plain C
 * with the arithmetic of the instructions (tile_emulated.h, tests only); any other file gets the
 * instructions, and must be compiled for and run only on CPUs that have them.
 *
 *     tile_state state;
 *     tile_begin(&state);
 *     tile_configure(&state, &config);        // shapes; clears every tile
 *     tile_zero(&state, 0);                   // tile numbers are constants
 *     tile_load(&state, 4, a, a_bytes);       // rows a_bytes apart, in bytes
 *     tile_load(&state, 6, b, b_bytes);
 *     tile_dot_bf16(&state, 0, 4, 6);         // tile 0 += tile 4 tile 6
 *     tile_store(&state, 0, c, c_bytes);
 *     tile_end(&state);                       // this thread's tiles are unused again
 *
 * tile_dot_bf16(c, a, b): a holds M rows of K pairs of bf16, b holds K rows of N pairs, that is,
 * two consecutive k of each column side by side, c holds M x N floats. With every operation fused,
 * rounded to nearest even, and numbers below 2^-126 taken and given as zero,
 *
 *     even = sum over k of a(m, 2k) b(2k, n),  odd = sum over k of a(m, 2k+1) b(2k+1, n)
 *     c(m, n) = c(m, n) + (even + odd)
 *
 * each sum starting at zero, in ascending k. Rows and columns padded with zeros do not change it.
 *
 * Tiles belong to a thread. Between tile_begin and tile_end the operating system saves up to 8 KiB
 * more on a context switch, so a kernel ends its use before its work on a thread ends.
 */
#ifndef FV_KERNELS_SIMD_TILE_H
#define FV_KERNELS_SIMD_TILE_H

#include <stdint.h>

enum { TILE_COUNT = 8, TILE_ROWS = 16, TILE_ROW_BYTES = 64, TILE_PALETTE = 1 };

/* What LDTILECFG reads. A tile with 0 rows must not be used. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

#ifdef TILE_EMULATED
#include "kernels/simd/tile_emulated.h"
#else

/* The state is in registers, which compilers do not assign. Written as assembly because gcc 12's
 * intrinsics do not tell the compiler that they read and write memory. */
typedef struct tile_state {
    char unused;
} tile_state;

#define tile_begin(s) ((void)(s))
#define tile_configure(s, config)                                                                  \
    __asm__ volatile("ldtilecfg %0" : : "m"(*(config)), "r"(s) : "memory")
#define tile_zero(s, t) __asm__ volatile("tilezero %%tmm" #t : : "r"(s))
#define tile_load(s, t, from, step)                                                                \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t                                               \
                     :                                                                             \
                     : "r"(from), "r"((int64_t)(step)), "r"(s)                                     \
                     : "memory")
#define tile_store(s, t, to, step)                                                                 \
    __asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)"                                           \
                     :                                                                             \
                     : "r"(to), "r"((int64_t)(step)), "r"(s)                                       \
                     : "memory")
#define tile_dot_bf16(s, c, a, b)                                                                  \
    __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : : "r"(s))
#define tile_end(s) __asm__ volatile("tilerelease" : : "r"(s))
#endif

#endif
