/* What the CPU offers and the operating system saves (CPUID and XCR0). */
#ifndef FV_BASE_CPU_H
#define FV_BASE_CPU_H

#include "fovea/context.h"

typedef struct fv_cpu {
    char name[64];
    bool avx2, fma, f16c;
    bool avx512f, avx512dq, avx512bw, avx512vl, avx512_bf16, avx512_vnni, amx_bf16;
    bool neon;
    bool os_ymm, os_zmm;                    /* register state saved on a context switch */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0 if unknown */
} fv_cpu;

void fv_cpu_detect(fv_cpu *out);
fv_simd fv_cpu_best(const fv_cpu *cpu);
/* CPUs in this process's affinity mask, at least 1. */
int fv_cpu_count(void);

#endif
