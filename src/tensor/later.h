/*
 * Reading a tensor without waiting for it: the values arrive while the device computes.
 *
 *     fv_later later = {0};
 *     s = fv_later_begin(ctx, loss, &later);
 *     ... the next step ...
 *     bool done = false;
 *     s = fv_later_end(ctx, &later, true, &value, sizeof value, &done);
 *
 * The values are those at the call of fv_later_begin; the tensor may be freed or written at once.
 */
#ifndef FV_TENSOR_LATER_H
#define FV_TENSOR_LATER_H

#include "tensor/tensor.h"

/* A read that is under way, or zeroed: none. */
typedef struct fv_later {
    fv_ticket ticket;
    size_t bytes;
} fv_later;

/* t is contiguous and has at most FV_READ_BYTES. Fails: ARGUMENT, STATE (too many reads are under
 * way). Works in a context that holds an error. */
fv_status fv_later_begin(fv_ctx *ctx, const fv_tensor *t, fv_later *out);

/* Whether the values have arrived; with `wait`, when they have. Once *done they are in out, and
 * *later is none. Fails with a fault of work that was launched before fv_later_begin; *later is
 * none then too. Works in a context that holds an error, so that a read is never lost. */
fv_status fv_later_end(fv_ctx *ctx, fv_later *later, bool wait, void *out, size_t bytes,
                       bool *done);

static inline bool fv_later_is_none(const fv_later *later) { return later->ticket == 0; }

/* Waits for a read whose values are not needed any more. None is fine. */
void fv_later_drop(fv_ctx *ctx, fv_later *later);

#endif
