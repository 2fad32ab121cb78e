/* How every op runs: check the inputs, infer, create the results, launch, record. */
#include "autograd/tape.h"

static bool is_usable(fv_ctx *ctx, const fv_op_desc *desc, int i, const fv_tensor *t)
{
    if (!t) return true; /* optional, or infer refuses it */
    if (t->ctx != ctx) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "%s: input %d belongs to another context", desc->name, i);
        return false;
    }
    if (t->flags & FV_TENSOR_INVALID) {
        fv_poison(ctx, FV_ERR_STATE, "%s: input %d is not valid", desc->name, i);
        return false;
    }
    if (t->flags & FV_TENSOR_PACKED_ONLY) {
        if (desc->packed_only_inputs >> i & 1u) return true;
        fv_poison(ctx, FV_ERR_STATE,
                  "%s: input %d is a packed-only weight, which only linear and embedding can read",
                  desc->name, i);
        return false;
    }
    if (t->flags & FV_TENSOR_RELEASED) {
        fv_poison(ctx, FV_ERR_STATE,
                  "%s: input %d was released by an earlier backward; call fv_retain() on it first",
                  desc->name, i);
        return false;
    }
    return true;
}

static bool is_ready(fv_ctx *ctx, const fv_op_desc *desc, int n_in, fv_tensor *const *in, int n_out)
{
    if (ctx->error != FV_OK) return false;
    if (fv_cancelled(ctx)) {
        fv_poison(ctx, FV_ERR_CANCELLED, "%s: cancelled by the caller", desc->name);
        return false;
    }
    if (n_in < desc->min_in || n_in > desc->max_in) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "%s: expected %d to %d inputs, got %d", desc->name,
                  desc->min_in, desc->max_in, n_in);
        return false;
    }
    if (n_out != (desc->n_out ? desc->n_out : 1)) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "%s: expected %d results, got %d", desc->name,
                  desc->n_out ? desc->n_out : 1, n_out);
        return false;
    }
    for (int i = 0; i < n_in; i++)
        if (!is_usable(ctx, desc, i, in[i])) return false;
    return true;
}

static bool has_bf16(int n_in, fv_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->dtype == FV_BF16) return true;
    return false;
}

static bool needs_gradient(const fv_ctx *ctx, const fv_op_desc *desc, int n_in,
                           fv_tensor *const *in)
{
    if (ctx->no_grad > 0 || !desc->backward) return false;
    for (int i = 0; i < n_in; i++)
        if (in[i] && fv_tensor_tracked(in[i])) return true;
    return false;
}

/* Fresh memory in the order that the spec's strides say. */
static fv_tensor *make_strided(fv_ctx *ctx, const fv_spec *spec)
{
    fv_tensor *t = fv_tensor_new(ctx, spec->dtype, spec->rank, spec->shape);
    for (int i = 0; i < spec->rank && ctx->error == FV_OK; i++)
        t->stride[i] = spec->stride[i];
    return t;
}

/* Whether the op's rule for bf16 casts input i to f32. */
static bool is_widened(const fv_op_desc *desc, int n_in, fv_tensor *const *in, int i)
{
    if (!in[i] || in[i]->dtype != FV_BF16) return false;
    if (desc->bf16 == FV_BF16_MOVES) return false;
    if (!(desc->bf16_inputs >> i & 1u)) return true;
    for (int k = 0; desc->bf16_uniform && k < n_in; k++)
        if (in[k] && in[k]->dtype == FV_F32 && desc->bf16_inputs >> k & 1u) return true;
    return false;
}

/* The inputs as the op's rule takes them: `in` itself, or `room` with some of them cast. */
static fv_tensor *const *take_inputs(fv_ctx *ctx, const fv_op_desc *desc, int n_in,
                                     fv_tensor *const *in, fv_tensor **room)
{
    bool casts = false;
    for (int i = 0; i < n_in; i++)
        casts |= is_widened(desc, n_in, in, i);
    if (!casts || n_in > FV_OP_MAX_CAST) return in;
    for (int i = 0; i < n_in; i++)
        room[i] = is_widened(desc, n_in, in, i) ? fv_cast(ctx, in[i], FV_F32) : in[i];
    return room;
}

static void make_results(fv_op_run *run)
{
    for (int k = 0; k < run->n_out; k++) {
        fv_spec *spec = &run->spec[k];
        run->out[k] =
            spec->view_of >= 0 ? fv_tensor_view(run->ctx, run->in[spec->view_of], spec->rank,
                                                spec->shape, spec->stride, spec->offset)
            : spec->is_strided ? make_strided(run->ctx, spec)
                               : fv_tensor_new(run->ctx, spec->dtype, spec->rank, spec->shape);
    }
}

/* After a failure the caller gets no handle to the results. */
static void drop_results(fv_op_run *run)
{
    for (int k = 0; k < run->n_out; k++)
        fv_tensor_free(run->ctx, &run->out[k]);
}

void fv_op_apply_many(fv_ctx *ctx, fv_op_id id, int n_in, fv_tensor *const *in, const void *params,
                      int n_out, fv_tensor **out)
{
    for (int k = 0; k < n_out; k++)
        out[k] = ctx->invalid;
    const fv_op_desc *desc = fv_op_table[id];
    if (!is_ready(ctx, desc, n_in, in, n_out)) return;
    fv_tensor *room[FV_OP_MAX_CAST];
    bool bf16 = has_bf16(n_in, in);
    if (bf16) {
        in = take_inputs(ctx, desc, n_in, in, room);
        if (ctx->error != FV_OK) return;
        bf16 = has_bf16(n_in, in);
    }

    fv_op_run run; /* not zeroed as a whole, to keep the overhead of small ops low */
    run.ctx = ctx;
    run.desc = desc;
    run.params = params;
    run.n_in = n_in;
    run.n_out = n_out;
    run.in = in;
    run.n_saved = 0;
    run.has_bf16 = bf16;
    run.recording = needs_gradient(ctx, desc, n_in, in);
    for (int k = 0; k < n_out; k++) {
        run.spec[k].view_of = -1;
        run.spec[k].is_strided = false;
    }
    if (desc->infer(&run) != FV_OK) return;
    run.kept = ctx->kept && desc->keepable && fv_kept_take(&run);
    if (!run.kept) make_results(&run);
    if (ctx->error == FV_OK && desc->forward) desc->forward(&run);
    if (ctx->kept && desc->keepable) fv_kept_add(&run);
    if (ctx->error == FV_OK && run.recording) fv_tape_record(&run);
    if (ctx->error != FV_OK) {
        drop_results(&run);
        return;
    }
    for (int k = 0; k < n_out; k++)
        out[k] = run.out[k];
}

fv_tensor *fv_op_apply(fv_ctx *ctx, fv_op_id id, int n_in, fv_tensor *const *in, const void *params)
{
    fv_tensor *out;
    fv_op_apply_many(ctx, id, n_in, in, params, 1, &out);
    return out;
}

void fv_save(fv_op_run *run, int slot, fv_tensor *t)
{
    if (!run->recording) return;
    while (run->n_saved <= slot)
        run->saved[run->n_saved++] = NULL;
    run->saved[slot] = t;
}
