/*
 * One step of all heads of a Neural Turing Machine (kernels/ntm.h has the formulas). With G the
 * gradient of the next memory and x that of a vector read, the gradient of a head's weights is
 *   reader   dw_i = x . M_i:                                                        term 10
 *   writer   dw_i = sum_j G_ji (a_j - e_j M_ji P_ji):                               terms 11, 12
 * plus that of the weights themselves (term 13), where P is the product of what the other writers
 * leave. de_j = - sum_i G_ji M_ji P_ji w_i, da_j = sum_i G_ji w_i. The addressing passes dw on
 * (ops/ntm_address.c, terms 0 to 7), and
 *   dM_ji = G_ji prod (1 - w_i e_j):  term 8;   + sum over readers of w_i x_j:      term 9
 *         + the parts of the addressing.
 */
#include "kernels/ntm.h"
#include "ops/rows.h"

enum { PARAMS, BEFORE, MEMORY, INPUTS };
enum { READ, WEIGHTS, NEXT, RESULTS };
enum { SAVED_W = INPUTS, SAVED_ACTS, SAVED_KEPT };

static fv_ntm_args head_args(const fv_ntm_heads *heads, int64_t width)
{
    return (fv_ntm_args){.width = width,
                         .heads = heads->readers + heads->writers,
                         .writers = heads->writers,
                         .taps = heads->shifts > 0 ? heads->shifts : 1,
                         .uniform_shift = heads->shifts == 0};
}

int64_t fv_ntm_params(const fv_ntm_heads *heads, int64_t width)
{
    const fv_ntm_args args = head_args(heads, width);
    return fv_ntm_width(&args);
}

void fv_ntm_step(fv_ctx *ctx, fv_tensor *params, fv_tensor *before, fv_tensor *memory,
                 const fv_ntm_heads *heads, fv_tensor **read, fv_tensor **weights, fv_tensor **next)
{
    fv_tensor *out[RESULTS];
    fv_op_apply_many(ctx, FV_OP_NTM_STEP, INPUTS, (fv_tensor *[]){params, before, memory}, heads,
                     RESULTS, out);
    *read = out[READ];
    *weights = out[WEIGHTS];
    *next = out[NEXT];
}

static fv_ntm_args args_of(fv_tensor *const *in, const fv_ntm_heads *heads)
{
    const fv_tensor *memory = in[MEMORY];
    fv_ntm_args args = head_args(heads, memory->shape[1]);
    args.batch = memory->shape[0];
    args.slots = memory->shape[2];
    args.element = fv_dtype_size(memory->dtype);
    return args;
}

static fv_status check_heads(fv_op_run *run, const fv_ntm_heads *h)
{
    enum { MOST = 1 << 20 };
    if (h->readers < 0 || h->writers < 0 || h->readers > MOST || h->writers > MOST ||
        h->readers + h->writers < 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "%lld readers and %lld writers, expected a head",
                           (long long)h->readers, (long long)h->writers);
    if (h->shifts < 0 || h->shifts > MOST || (h->shifts > 0 && h->shifts % 2 == 0))
        return fv_op_error(run, FV_ERR_ARGUMENT,
                           "%lld shifts, expected an odd number, or 0 for one uniform shift",
                           (long long)h->shifts);
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    const fv_ntm_heads *heads = run->params;
    FV_TRY(check_heads(run, heads));
    FV_TRY(fv_need_real(run, PARAMS));
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, PARAMS, 2, 2));
    FV_TRY(fv_need_rank(run, BEFORE, 3, 3));
    FV_TRY(fv_need_rank(run, MEMORY, 3, 3));
    const fv_ntm_args args = args_of(run->in, heads);
    const fv_tensor *params = run->in[PARAMS], *before = run->in[BEFORE];
    if (args.slots < 1 || args.width < 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "a memory needs slots and a width");
    if (before->shape[0] != args.batch || before->shape[1] != args.heads ||
        before->shape[2] != args.slots)
        return fv_op_mismatch(run, BEFORE, MEMORY, "must be [B, heads, N] and [B, W, N]");
    if (params->shape[0] != args.batch || params->shape[1] != fv_ntm_width(&args))
        return fv_op_error(run, FV_ERR_SHAPE,
                           "parameters are [%lld, %lld], expected [%lld, %lld] for these heads",
                           (long long)params->shape[0], (long long)params->shape[1],
                           (long long)args.batch, (long long)fv_ntm_width(&args));
    run->n_out = RESULTS;
    fv_spec_set(run, READ, params->dtype, 2,
                (int64_t[]){args.batch, (args.heads - args.writers) * args.width});
    fv_spec_like(run, WEIGHTS, BEFORE);
    fv_spec_like(run, NEXT, MEMORY);
    run->spec[WEIGHTS].view_of = run->spec[NEXT].view_of = -1;
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *in[INPUTS], *acts = NULL, *kept = NULL, *const *out = run->out;
    const fv_ntm_args args = args_of(run->in, run->params);
    for (int i = 0; i < INPUTS; i++)
        in[i] = fv_contiguous_raw(ctx, run->in[i]);
    if (run->recording) {
        acts = fv_tensor_new(ctx, in[0]->dtype, 2, (int64_t[]){args.batch, fv_ntm_width(&args)});
        kept = fv_tensor_new(ctx, in[0]->dtype, 2, (int64_t[]){args.batch, fv_ntm_kept(&args)});
    }
    if (ctx->error != FV_OK) return;
    if (args.batch > 0)
        fv_launch(ctx, FV_KERNEL_NTM_STEP, in[0]->dtype,
                  (void *[]){out[READ]->data, out[WEIGHTS]->data, out[NEXT]->data,
                             acts ? acts->data : NULL, kept ? kept->data : NULL, in[PARAMS]->data,
                             in[BEFORE]->data, in[MEMORY]->data},
                  &args, sizeof args);
    for (int i = 0; i < INPUTS; i++) {
        fv_save(run, i, in[i]);
        if (!run->recording) fv_drop_copy(ctx, in[i], run->in[i]);
    }
    fv_save(run, SAVED_W, out[WEIGHTS]);
    fv_save(run, SAVED_ACTS, acts);
    fv_save(run, SAVED_KEPT, kept);
}

static void *grad_data(fv_op_back *back, int k)
{
    if (!back->grad[k] || back->ctx->error != FV_OK) return NULL;
    return fv_contiguous_raw(back->ctx, back->grad[k])->data;
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *const *saved = back->saved, *d[INPUTS];
    const fv_ntm_args args = args_of(saved, back->params);
    for (int i = 0; i < INPUTS; i++)
        d[i] = fv_back_new(back, i);
    void *read = grad_data(back, READ), *w = grad_data(back, WEIGHTS),
         *next = grad_data(back, NEXT);
    if (ctx->error != FV_OK) return;
    if (args.batch > 0)
        fv_launch(ctx, FV_KERNEL_NTM_STEP_GRAD, d[0]->dtype,
                  (void *[]){d[PARAMS]->data, d[BEFORE]->data, d[MEMORY]->data, read, w, next,
                             saved[SAVED_W]->data, saved[SAVED_ACTS]->data, saved[SAVED_KEPT]->data,
                             saved[PARAMS]->data, saved[BEFORE]->data, saved[MEMORY]->data},
                  &args, sizeof args);
    for (int i = 0; i < INPUTS; i++)
        fv_back_send(back, i, d[i]);
}

static const fv_ntm_heads pair = {.readers = 1, .writers = 1, .shifts = 3},
                          several = {.readers = 2, .writers = 3, .shifts = 1},
                          uniform = {.readers = 1, .writers = 1, .shifts = 0},
                          reader = {.readers = 1, .writers = 0, .shifts = 3},
                          writer = {.readers = 0, .writers = 1, .shifts = 3};

static const fv_op_case cases[] = {
    {.name = "pair",
     .params = &pair,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 2, 24), FV_IN(UNIT, 2, 2, 5), FV_IN(NORMAL, 2, 3, 5)}},
    {.name = "several",
     .params = &several,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 42), FV_IN(UNIT, 1, 5, 4), FV_IN(NORMAL, 1, 2, 4)}},
    {.name = "uniform",
     .params = &uniform,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 16), FV_IN(UNIT, 1, 2, 18), FV_IN(NORMAL, 1, 2, 18)}},
    {.name = "reader",
     .params = &reader,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 8), FV_IN(UNIT, 1, 1, 4), FV_IN(NORMAL, 1, 2, 4)}},
    {.name = "writer",
     .params = &writer,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 1, 12), FV_IN(UNIT, 1, 1, 4), FV_IN(NORMAL, 1, 2, 4)}},
    {.name = "empty",
     .params = &reader,
     .n_in = INPUTS,
     .in = {FV_IN(NORMAL, 0, 8), FV_IN(UNIT, 0, 1, 4), FV_IN(NORMAL, 0, 2, 4)}},
};

const fv_op_desc fv_op_ntm_step = {
    .id = FV_OP_NTM_STEP,
    .name = "ntm_step",
    .formula = "r = sum w M, M' = M prod (1 - w e) + sum w a",
    .min_in = INPUTS,
    .max_in = INPUTS,
    .n_out = RESULTS,
    .params_bytes = sizeof(fv_ntm_heads),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 14,
    FV_CASES(cases),
};
