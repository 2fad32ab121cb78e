/*
 * What the kernels of batch norm have in common. Work items are channels, whose elements are in
 * every image:
 *
 *     FV_EACH_IMAGE(args, channel, sum += x[from]; ...)
 */
#ifndef FV_KERNELS_BATCH_NORM_H
#define FV_KERNELS_BATCH_NORM_H

#include "kernels/image.h"

typedef struct fv_batch_norm_job {
    const fv_exec *exec;
    const fv_batch_norm_args *args;
    void *const *ptr;
} fv_batch_norm_job;

/* Runs the body for each image's part of a channel, in order; `from` is its first element. */
#define FV_EACH_IMAGE(a, channel, ...)                                                             \
    for (int64_t n_ = 0; n_ < (a)->batch; n_++) {                                                  \
        const int64_t from = (n_ * (a)->channels + (channel)) * (a)->inner;                        \
        __VA_ARGS__;                                                                               \
    }

/* Elements of a channel, by which its sums are divided; an empty one divides by 1. */
static inline int64_t fv_batch_norm_count(const fv_batch_norm_args *a)
{
    const int64_t n = a->batch * a->inner;
    return n > 0 ? n : 1;
}

#endif
