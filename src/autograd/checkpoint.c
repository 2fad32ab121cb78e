/*
 * y = block(inputs), with the block's activations dropped and computed again in backward.
 *
 * Forward runs the block unrecorded and puts one node on the tape that saves the inputs. Backward
 * runs the block again, now recorded, on detached leaves in place of the inputs, runs backward over
 * those new nodes only, and sends the gradients of the leaves to the inputs. Leaves that the block
 * uses by itself (parameters) collect theirs directly. Random ops draw the same numbers, because
 * step, site and the numbers of rows are restored.
 */
#include <string.h>

#include "autograd/tape.h"
#include "fovea/autograd.h"

typedef struct random_state {
    uint64_t step, row_offset, site;
    fv_tensor *numbers;
} random_state;

typedef struct checkpoint_params {
    fv_block_fn fn;
    void *user;
    random_state random;
    int compute; /* the dtype of fv_ctx_set_compute in forward */
    int kept;    /* tensors saved after the inputs and the numbers of rows */
} checkpoint_params;

/* ---- kept results ------------------------------------------------------------------ */

bool fv_kept_take(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_kept *kept = ctx->kept;
    if (!kept->replay || kept->next + run->n_out > kept->count) return false;
    for (int k = 0; k < run->n_out; k++) {
        const fv_tensor *t = kept->t[kept->next++];
        const fv_spec *spec = &run->spec[k];
        if (ctx->error == FV_OK && (!fv_shape_equal(t->rank, t->shape, spec->rank, spec->shape) ||
                                    t->dtype != spec->dtype))
            fv_poison(ctx, FV_ERR_STATE, "checkpoint: the block ran other ops the second time");
        run->out[k] = ctx->error == FV_OK ? fv_tensor_view(ctx, t, t->rank, t->shape, t->stride, 0)
                                          : ctx->invalid;
    }
    return true;
}

void fv_kept_add(fv_op_run *run)
{
    fv_kept *kept = run->ctx->kept;
    if (kept->replay || run->ctx->error != FV_OK) return;
    /* Keepable ops all have two results: after a call that does not fit, no other fits. */
    if (kept->count + run->n_out > kept->room) return;
    for (int k = 0; k < run->n_out; k++) {
        fv_tensor_ref(run->out[k]);
        kept->t[kept->count++] = run->out[k];
    }
}

static void drop_kept(fv_kept *kept)
{
    for (int i = 0; i < kept->count; i++)
        fv_tensor_unref(kept->t[i]);
}

/* ---- forward ----------------------------------------------------------------------- */

static random_state random_get(const fv_ctx *ctx)
{
    return (random_state){ctx->step, ctx->row_offset, ctx->site, ctx->draw_numbers};
}

static void random_set(fv_ctx *ctx, random_state state)
{
    ctx->step = state.step;
    ctx->row_offset = state.row_offset;
    ctx->site = state.site;
    ctx->draw_numbers = state.numbers;
}

/* The block's result as a new handle in the caller's scope. */
static fv_tensor *run_unrecorded(fv_ctx *ctx, fv_block_fn fn, void *user, fv_tensor *const *inputs)
{
    fv_no_grad_begin(ctx);
    fv_scope_begin(ctx);
    fv_tensor *y = fv_scope_keep(ctx, fv_detach(ctx, fn(ctx, user, inputs)));
    fv_scope_end(ctx);
    fv_no_grad_end(ctx);
    return y;
}

fv_tensor *fv_checkpoint(fv_ctx *ctx, fv_block_fn fn, void *user, int n, fv_tensor *const *inputs)
{
    return fv_checkpoint_keeping(ctx, fn, user, n, inputs, FV_CHECKPOINT_KEEP_NOTHING);
}

fv_tensor *fv_checkpoint_keeping(fv_ctx *ctx, fv_block_fn fn, void *user, int n,
                                 fv_tensor *const *inputs, fv_checkpoint_kept keep)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (n < 0 || n >= FV_OP_MAX_SAVED) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "checkpoint: expected at most %d inputs, got %d",
                  (int)FV_OP_MAX_SAVED - 1, n);
        return ctx->invalid;
    }
    if (ctx->no_grad > 0 || ctx->kept) return fn(ctx, user, inputs);
    checkpoint_params params = {
        .fn = fn, .user = user, .random = random_get(ctx), .compute = ctx->compute};
    fv_op_run run = {.ctx = ctx,
                     .desc = fv_op_table[FV_OP_CHECKPOINT],
                     .params = &params,
                     .n_in = n,
                     .n_out = 1,
                     .in = inputs,
                     .recording = true};
    fv_kept kept = {.room = FV_OP_MAX_SAVED - 1 - n};
    if (keep == FV_CHECKPOINT_KEEP_ATTENTION) ctx->kept = &kept;
    run.out[0] = run_unrecorded(ctx, fn, user, inputs);
    ctx->kept = NULL;
    for (int i = 0; i < n; i++)
        fv_save(&run, i, inputs[i]);
    fv_save(&run, n, ctx->draw_numbers); /* kept alive until backward has used it */
    for (int i = 0; i < kept.count; i++)
        fv_save(&run, n + 1 + i, kept.t[i]);
    params.kept = kept.count;
    if (ctx->error == FV_OK) fv_tape_record(&run);
    drop_kept(&kept); /* the tape holds them */
    return ctx->error == FV_OK ? run.out[0] : ctx->invalid;
}

/* The block's result as a node newer than ours, whatever the block returns: an input, a parameter
 * or a tensor made long before it. */
static fv_tensor *run_recorded(fv_ctx *ctx, const checkpoint_params *params, fv_tensor **leaves)
{
    int axes[FV_MAX_RANK];
    for (int i = 0; i < FV_MAX_RANK; i++)
        axes[i] = i;
    return fv_permute(ctx, params->fn(ctx, params->user, leaves), axes);
}

static void replay(fv_op_back *back, fv_tensor **leaves)
{
    fv_ctx *ctx = back->ctx;
    const checkpoint_params *params = back->params;
    for (int i = 0; i < back->n_in; i++) {
        leaves[i] = back->saved[i] ? fv_detach(ctx, back->saved[i]) : NULL;
        if (ctx->error == FV_OK && leaves[i] && fv_back_wants(back, i))
            leaves[i]->flags |= FV_TENSOR_LEAF;
    }
    random_state now = random_get(ctx), then = params->random;
    const int no_grad = ctx->no_grad, compute = ctx->compute;
    then.numbers = back->saved[back->n_in];
    random_set(ctx, then);
    ctx->no_grad = 0; /* backward records nothing; this must be recorded */
    ctx->compute = params->compute;
    fv_kept kept = {.replay = true, .count = params->kept};
    for (int i = 0; i < kept.count; i++)
        kept.t[i] = back->saved[back->n_in + 1 + i];
    if (kept.count > 0) ctx->kept = &kept;
    fv_tensor *y = ctx->error == FV_OK ? run_recorded(ctx, params, leaves) : ctx->invalid;
    ctx->kept = NULL;
    ctx->no_grad = no_grad;
    ctx->compute = compute;
    random_set(ctx, now);
    if (ctx->error != FV_OK || !y->node) return;
    const fv_tensor *g = back->grad[0];
    if (!fv_shape_equal(y->rank, y->shape, g->rank, g->shape) || y->dtype != g->dtype) {
        fv_poison(ctx, FV_ERR_STATE,
                  "checkpoint: the block returned another shape or dtype the second time");
        return;
    }
    /* The result is the newest node of the tape; the block's other nodes come after ours. */
    fv_tape_backward(ctx, y, back->grad[0], back->node);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *leaves[FV_OP_MAX_SAVED];
    fv_scope_begin(ctx);
    replay(back, leaves);
    for (int i = 0; i < back->n_in && ctx->error == FV_OK; i++)
        if (leaves[i] && leaves[i]->grad) fv_back_send(back, i, leaves[i]->grad);
    fv_scope_end(ctx);
}

/* ---- checks ----------------------------------------------------------------------- */

static fv_tensor *example_block(fv_ctx *ctx, void *user, fv_tensor *const *in)
{
    (void)user;
    return fv_tanh(ctx, fv_dropout(ctx, fv_mul(ctx, in[0], in[1]), 0.25));
}

static fv_tensor *apply_example(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)params;
    return fv_checkpoint(ctx, example_block, NULL, n_in, in);
}

static const fv_op_case cases[] = {
    {.name = "tanh of a dropped-out product",
     .n_in = 2,
     .in = {FV_IN(NORMAL, 3, 4), FV_IN(NORMAL, 4)}},
};

const fv_op_desc fv_op_checkpoint = {
    .id = FV_OP_CHECKPOINT,
    .name = "checkpoint",
    .formula = "y = block(x...), recomputed in backward",
    .min_in = 0,
    .max_in = FV_OP_MAX_SAVED,
    .params_bytes = sizeof(checkpoint_params),
    .backward = backward,
    .apply = apply_example,
    FV_CASES(cases),
};
