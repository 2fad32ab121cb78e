/*
 * fovea/info.h: information about this build and the CPU it runs on.
 *
 *     fv_cpu_info cpu = {.struct_size = sizeof cpu};
 *     fv_cpu_info_get(&cpu);
 *     printf("libfovea %s on %s, kernels: %s\n", fv_version(), cpu.name, fv_simd_name(cpu.best));
 *
 *     fv_feature f = {.struct_size = sizeof f};
 *     for (int i = 0; fv_feature_get(i, &f); i++)
 *         printf("%s: %s\n", f.name, f.present ? f.description : "not built in");
 *
 * None of these calls needs a context, and all may be called from any thread. Each struct begins
 * with its size, set by the caller, so that fields unknown to an older caller are not written.
 */
#ifndef FOVEA_INFO_H
#define FOVEA_INFO_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the linked library, "major.minor.patch". Never NULL. */
FV_API const char *fv_version(void);

typedef struct fv_build_info {
    size_t struct_size;
    const char *version;
    const char *type;      /* "release" or "debug" */
    const char *compiler;  /* e.g. "gcc 12.2.0" */
    const char *target;    /* e.g. "x86_64 linux" */
    const char *sanitizer; /* "address", "thread", or "" */
} fv_build_info;

/* The strings are constants. */
FV_API void fv_build_info_get(fv_build_info *out);

/* CPU features, and the register state that the operating system saves on a context switch. */
typedef struct fv_cpu_info {
    size_t struct_size;
    char name[64];
    fv_simd best; /* the level that FV_SIMD_AUTO selects */
    int cpus;     /* CPUs this process may run on */
    bool avx2, fma, f16c;
    bool avx512f, avx512dq, avx512bw, avx512vl, avx512_bf16, avx512_vnni;
    bool os_ymm, os_zmm;                    /* the OS saves these registers */
    uint64_t l1d_bytes, l2_bytes, l3_bytes; /* per core, per core, shared; 0: unknown */
} fv_cpu_info;

FV_API void fv_cpu_info_get(fv_cpu_info *out);

/* An optional part of the library. */
typedef struct fv_feature {
    size_t struct_size;
    const char *name;
    const char *description; /* what it is for, one line */
    bool present;
} fv_feature;

/* Fills `out` with feature number `index`, from 0. Returns false past the last one. */
FV_API bool fv_feature_get(int index, fv_feature *out);

#ifdef __cplusplus
}
#endif
#endif
