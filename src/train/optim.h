/*
 * Optimizer steps whose outcome the host learns later. fv_optim_step() does all of this in a row
 * and waits.
 *
 *     fv_tensor *block;
 *     fv_tensor *all = fv_step_blocks_create(ctx, 1, &block);  // device memory
 *     fv_step_block_clear(ctx, block);
 *     fv_step_block_add_loss(ctx, block, loss);                // of each part, before its backward
 *     s = fv_optim_launch(optim, lr, block);                   // norm, gate, updates; no wait
 *     fv_params_zero_grad(params);
 *     ... the block is read, a step later (tensor/later.h), into `record` ...
 *     s = fv_optim_settle(optim, &record, &report);
 *
 * The device decides whether the step is made (kernels/optim.h): a gradient or loss that is not
 * finite, or a fault of an earlier kernel, closes the gate, and the launched updates change
 * nothing. Adam's corrections need the number of steps made, so a launched step is settled before
 * the next launch of the same optimizer.
 */
#ifndef FV_TRAIN_OPTIM_H
#define FV_TRAIN_OPTIM_H

#include "kernels/optim.h"
#include "tensor/params.h"

/* Step blocks that belong to no scope: block[i] is a view of number i of the result. Free all of
 * them with fv_tensor_unref. On failure (poisons) the result and those of block[] that were made
 * are freed the same way. */
fv_tensor *fv_step_blocks_create(fv_ctx *ctx, int count, fv_tensor **block);
void fv_step_block_clear(fv_ctx *ctx, fv_tensor *block);
/* Adds a loss of one element to the sum, in double. Poisons on another shape. */
void fv_step_block_add_loss(fv_ctx *ctx, fv_tensor *block, fv_tensor *loss);

/* Launches the update of every parameter of the group that has a gradient; the gradients stay.
 * Fails: ARGUMENT (learning rate), STATE (parameters were added, or a step is not settled), and the
 * context's error. */
fv_status fv_optim_launch(fv_optim *optim, double lr, fv_tensor *block);

/* Counts a launched step, or that it was skipped, from its block. Fails: NONFINITE (max_skipped in
 * a row). A step whose block could not be read is dropped with record NULL: it changed nothing. */
fv_status fv_optim_settle(fv_optim *optim, const fv_step_block *record, fv_step_report *report);

#endif
