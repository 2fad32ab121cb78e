/*
 * What the CPU offers and the operating system saves (CPUID and XCR0).
 *
 * AMX needs one thing more: Linux makes room for its registers, 8 KiB per thread, only in processes
 * that have asked for it. The permission is the process's, lasts until it ends and is inherited by
 * its threads; the request fails if a signal stack is too small for the larger frame.
 *
 *     fv_cpu cpu;
 *     if (config.request_amx) fv_cpu_request_tiles();
 *     fv_cpu_detect(&cpu);
 *     if (fv_cpu_best(&cpu) == FV_SIMD_AMX) ...
 */
#ifndef FV_BASE_CPU_H
#define FV_BASE_CPU_H

#include "fovea/context.h"

typedef struct fv_cpu {
    char name[64];
    bool avx2, fma, f16c;
    bool avx512f, avx512dq, avx512bw, avx512vl, avx512_bf16, avx512_vnni;
    bool amx_tile, amx_bf16, amx_int8;
    bool neon;
    bool os_ymm, os_zmm, os_tiles;          /* register state saved on a context switch */
    bool tiles_permitted;                   /* to this process */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0 if unknown */
} fv_cpu;

void fv_cpu_detect(fv_cpu *out);
fv_simd fv_cpu_best(const fv_cpu *cpu);
/* Whether Linux lets this process use tiles; the second one asks for it first. False where the CPU
 * or the kernel has none. */
bool fv_cpu_tiles_permitted(void);
bool fv_cpu_request_tiles(void);
/* CPUs in this process's affinity mask, at least 1. */
int fv_cpu_count(void);

#endif
