/* Shared by the reference attention kernels. */
#ifndef FV_KERNELS_REF_ATTENTION_REF_H
#define FV_KERNELS_REF_ATTENTION_REF_H

#include "kernels/attention.h"
#include "kernels/ref/real.h"

/* Reals per thread for single rows, converted or accumulated. */
enum { FV_REF_ATTN_BUFFERS = 7 * FV_ATTN_MAX_WIDTH };

/* The weights of query i with all n_k keys, before dropout, from the log-sum-exp among the pointers
 * of ATTENTION; 0 where hidden. */
void FV_NAME(fv_ref_attn_weights)(const fv_attn *a, void *const *ptr, int64_t b, int64_t h,
                                  int64_t i, real *buffers, real *weights);

#endif
