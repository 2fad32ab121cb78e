#include "fovea/ops.h"
#include "train/tasks/trials_rows.h"

static fv_tensor *sum_of(fv_ctx *ctx, fv_tensor *x) { return fv_sum(ctx, x, 0, NULL, false); }

fv_tensor *fv_trial_loss(fv_ctx *ctx, const fv_batch *batch, const fv_trial_weights *weights,
                         fv_tensor *logits, fv_tensor *values)
{
    fv_tensor *log_p = fv_log_softmax(ctx, logits, -1);
    fv_tensor *action = fv_unsqueeze(ctx, fv_batch_tensor(ctx, batch, "action", NULL), -1);
    fv_tensor *chosen = fv_squeeze(ctx, fv_gather(ctx, log_p, action, -1), -1);
    fv_tensor *gain = fv_batch_tensor(ctx, batch, "advantage", NULL);
    fv_tensor *ratio = fv_exp(ctx, fv_sub(ctx, chosen, fv_batch_tensor(ctx, batch, "log_p", NULL)));
    fv_tensor *held = fv_clamp(ctx, ratio, 1 - weights->clip, 1 + weights->clip);
    fv_tensor *gained =
        sum_of(ctx, fv_minimum(ctx, fv_mul(ctx, ratio, gain), fv_mul(ctx, held, gain)));
    fv_tensor *off = fv_sub(ctx, values, fv_batch_tensor(ctx, batch, "target", NULL));
    fv_tensor *wrong = fv_scale(ctx, sum_of(ctx, fv_square(ctx, off)), weights->value);
    fv_tensor *order = sum_of(ctx, fv_mul(ctx, fv_exp(ctx, log_p), log_p)); /* minus H */
    return fv_add(ctx, fv_sub(ctx, wrong, gained), fv_scale(ctx, order, weights->entropy));
}
