/*
 * fovea/autograd.h: gradients.
 *
 *     fv_tensor *w = fv_leaf(ctx, fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){4, 3}, 0, 1));
 *     fv_scope_begin(ctx);
 *     fv_tensor *loss = fv_mse(ctx, fv_linear(ctx, x, w, NULL), y);
 *     if (fv_backward(ctx, loss) == FV_OK)
 *         use(fv_grad(ctx, w));          // adds up over backward calls until fv_zero_grad
 *     fv_scope_end(ctx);
 *
 * Calling an op runs it and, if any input has a gradient to receive, records it. fv_backward
 * goes through the recorded ops from the loss to the leaves and consumes them: their results are
 * freed as soon as they are no longer needed. Reading such a result later is an error
 * (FV_ERR_STATE); fv_retain() before backward keeps its value and its gradient:
 *
 *     fv_tensor *h = fv_retain(ctx, fv_linear(ctx, x, w, NULL));
 *     fv_tensor *goal = fv_detach(ctx, fv_tanh(ctx, h));    // a constant from here on
 *     if (fv_backward(ctx, fv_mse(ctx, h, goal)) == FV_OK) use(fv_grad(ctx, h));
 *
 * Where another library computes the loss, its gradient is where backward starts:
 *
 *     fv_tensor *y = fv_tanh(ctx, fv_linear(ctx, x, w, NULL));
 *     fv_tensor *dy = fv_from_host(ctx, FV_F32, 2, fv_tensor_shape(y), gradient);
 *     fv_status s = fv_backward_from(ctx, y, dy);
 */
#ifndef FOVEA_AUTOGRAD_H
#define FOVEA_AUTOGRAD_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks t (real, not the result of a recorded op) as something to differentiate by; returns it. */
FV_API fv_tensor *fv_leaf(fv_ctx *ctx, fv_tensor *t);

/* Keeps t's value and gradient through backward; returns it. */
FV_API fv_tensor *fv_retain(fv_ctx *ctx, fv_tensor *t);

/* t's gradient, in t's shape; NULL while there is none. Owned by t: ask again after a backward,
 * a step or fv_zero_grad. */
FV_API fv_tensor *fv_grad(fv_ctx *ctx, const fv_tensor *t);
FV_API void fv_zero_grad(fv_ctx *ctx, fv_tensor *t);

/* A view of t that carries no gradient. */
FV_API fv_tensor *fv_detach(fv_ctx *ctx, fv_tensor *t);

/* Between these, ops are not recorded. They nest. */
FV_API void fv_no_grad_begin(fv_ctx *ctx);
FV_API void fv_no_grad_end(fv_ctx *ctx);

/*
 * Computes the gradients of a one-element loss and adds them to those of every leaf it depends on.
 * Fails: SHAPE (not one element), STATE (nothing recorded, or part of it was consumed by an earlier
 * backward), both before anything has changed; MEMORY, CANCELLED or the error of an op's
 * backward, which become the sticky error and leave gradients half added up: zero them. A result of
 * consumed ops that is used again (the loss, a retained tensor) counts as a constant.
 */
FV_API FV_MUST_USE fv_status fv_backward(fv_ctx *ctx, fv_tensor *loss);
/* From any result, with its gradient given (same shape and dtype; it is not changed). */
FV_API FV_MUST_USE fv_status fv_backward_from(fv_ctx *ctx, fv_tensor *y, fv_tensor *grad);

/*
 * Runs `fn` without keeping its inside, and runs it again during backward: memory for time.
 * fn makes one tensor from `inputs` by ordinary ops; random ops inside draw the same numbers both
 * times. Parameters that fn uses besides the inputs get their gradients too. `user` must stay
 * valid until backward is done.
 *
 *     static fv_tensor *block(fv_ctx *ctx, void *user, fv_tensor *const *in) {
 *         return fv_tanh(ctx, fv_linear(ctx, in[0], ((my_layer *)user)->w, NULL));
 *     }
 *     y = fv_checkpoint(ctx, block, &layer, 1, &x);
 */
typedef fv_tensor *(*fv_block_fn)(fv_ctx *ctx, void *user, fv_tensor *const *inputs);
FV_API fv_tensor *fv_checkpoint(fv_ctx *ctx, fv_block_fn fn, void *user, int n,
                                fv_tensor *const *inputs);

/* Results inside a checkpointed block that stay in memory, so that backward does not compute them
 * again. */
typedef enum fv_checkpoint_kept {
    FV_CHECKPOINT_KEEP_NOTHING,
    FV_CHECKPOINT_KEEP_ATTENTION, /* outputs and log-sum-exps of fv_attend */
} fv_checkpoint_kept;

/*
 * The same, keeping chosen results. Attention over n tokens takes n^2 work to compute and n rows to
 * keep, so that long sequences are trained without running attention forward twice:
 *
 *     y = fv_checkpoint_keeping(ctx, my_block, &layer, 1, &x, FV_CHECKPOINT_KEEP_ATTENTION);
 *
 * Gradients have the bits of fv_checkpoint. A block's first results are kept, up to 15 tensors
 * together with the inputs; others are computed again. Checkpoints inside such a block keep all.
 */
FV_API fv_tensor *fv_checkpoint_keeping(fv_ctx *ctx, fv_block_fn fn, void *user, int n,
                                        fv_tensor *const *inputs, fv_checkpoint_kept keep);

#ifdef __cplusplus
}
#endif
#endif
