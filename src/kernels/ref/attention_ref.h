/* What the plain attention kernels share. */
#ifndef FV_KERNELS_REF_ATTENTION_REF_H
#define FV_KERNELS_REF_ATTENTION_REF_H

#include "kernels/attention.h"
#include "kernels/ref/real.h"

/* Reals of a thread's scratch for single rows, widened or summed. */
enum { FV_REF_ATTN_ROOM = 7 * FV_ATTN_MAX_WIDTH };

/* The weights of query i with all n_k keys, before dropout, from the log-sum-exp among the pointers
 * of ATTENTION; 0 where hidden, whatever the key holds. */
void FV_NAME(fv_ref_attn_weights)(const fv_attn *a, void *const *ptr, int64_t b, int64_t h,
                                  int64_t i, real *rooms, real *weights);

#endif
