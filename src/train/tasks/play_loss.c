#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "train/tasks/play.h"

/* A field of one number a move, flattened. */
static fv_tensor *flat(fv_ctx *ctx, const fv_batch *batch, const char *name)
{
    return fv_reshape(ctx, fv_batch_tensor(ctx, batch, name, NULL), 1, (int64_t[]){-1});
}

/* x [n, actions] at one action each, [n]. */
static fv_tensor *at_action(fv_ctx *ctx, fv_tensor *x, fv_tensor *action)
{
    return fv_squeeze(ctx, fv_gather(ctx, x, fv_unsqueeze(ctx, action, 1), 1), 1);
}

static fv_tensor *targets_of(fv_ctx *ctx, const fv_batch *batch, bool double_q, fv_tensor *q,
                             fv_tensor *copy)
{
    fv_tensor *best = fv_argmax(ctx, double_q ? q : copy, -1, false);
    fv_tensor *later =
        fv_index_select(ctx, at_action(ctx, copy, best), flat(ctx, batch, "next"), 0);
    fv_tensor *gain = fv_mul(ctx, flat(ctx, batch, "discount"), later);
    return fv_add(ctx, flat(ctx, batch, "reward"), gain);
}

fv_tensor *fv_q_loss(fv_ctx *ctx, const fv_batch *batch, bool double_q, fv_tensor *values,
                     fv_tensor *copy_values)
{
    if (fv_ctx_error(ctx) != FV_OK) return values;
    const int64_t shape[] = {-1, fv_tensor_size(values, 2)};
    fv_tensor *q = fv_reshape(ctx, values, 2, shape),
              *copy = fv_reshape(ctx, copy_values, 2, shape);
    fv_no_grad_begin(ctx);
    fv_tensor *y = targets_of(ctx, batch, double_q, q, copy);
    fv_no_grad_end(ctx);
    /* Huber: with c = d cut to [-1, 1], c (d - c / 2) is d^2 / 2 inside and |d| - 1/2 outside. */
    fv_tensor *d = fv_sub(ctx, at_action(ctx, q, flat(ctx, batch, "action")), y);
    fv_tensor *c = fv_clamp(ctx, d, -1, 1);
    fv_tensor *each = fv_mul(ctx, c, fv_sub(ctx, d, fv_scale(ctx, c, 0.5)));
    return fv_sum(ctx, fv_mul(ctx, flat(ctx, batch, "weight"), each), 0, NULL, false);
}
