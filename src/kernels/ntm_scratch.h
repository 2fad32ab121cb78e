/* How the kernels of ntm.h divide a thread's scratch. Every part is a multiple of a cache line. */
#ifndef FV_KERNELS_NTM_SCRATCH_H
#define FV_KERNELS_NTM_SCRATCH_H

#include "kernels/ntm.h"

static inline int64_t fv_ntm_round(int64_t n) { return (n + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* A row over slots, with room for a circular copy of the first or last few. */
static inline int64_t fv_ntm_slot_row(const fv_ntm_args *a)
{
    return fv_ntm_round(a->slots + a->taps + 1);
}
static inline int64_t fv_ntm_width_row(const fv_ntm_args *a) { return fv_ntm_round(a->width); }

enum { FV_NTM_ROWS = 4 }; /* rows over slots beside those of each head */

/* Of one head: its unit key, two rows over slots, the weights of its shift. Of all: the numbers
 * kept and activated where the caller does not keep them. */
static inline int64_t fv_ntm_thread_numbers(const fv_ntm_args *a)
{
    return a->heads * (fv_ntm_width_row(a) + 2 * fv_ntm_slot_row(a)) +
           FV_NTM_ROWS * fv_ntm_slot_row(a) + fv_ntm_width_row(a) + fv_ntm_round(a->taps + 2) * 2 +
           fv_ntm_round(fv_ntm_kept(a)) + fv_ntm_round(fv_ntm_width(a));
}

#endif
