/* Prefetching for reading, into L1 or L2. The address may be past the end of an array. */
#ifndef FV_KERNELS_SIMD_PREFETCH_H
#define FV_KERNELS_SIMD_PREFETCH_H

static inline __attribute__((always_inline)) void fv_prefetch_l1(const void *p)
{
    __builtin_prefetch(p, 0, 3);
}
static inline __attribute__((always_inline)) void fv_prefetch_l2(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

#endif
