/*
 * The weights of memory heads (kernels/ntm.h has the formula). With w' the weights before, k^ the
 * unit key, n_i = 1 / |M_i| and g the gradient of w:
 *   L = sum w g;   dq_i = y w_i / q_i (g_i - L),  dy = sum w_i (g_i - L) ln q_i:    terms 0 and 1
 *   ds_t = sum_i dq_i h_(i-o),   dh_i = sum_t s_t dq_(i+o)
 *   dgate = sum dh (c - w'),   dw' = (1 - gate) dh,   dc = gate dh
 *   dz_i = c_i (dc_i - sum c dc):  terms 2 and 3;   db = sum dz cos,   dcos = b dz
 *   u_i = dcos_i n_i;   dk = (x - k^ (k^ . x)) / |k|,  x = sum u_i M_i:               terms 4 and 5
 *   dM_i = sum over heads of u_i k^ - u_i cos_i n_i M_i:                              terms 6 and 7
 */
#include "kernels/ntm.h"
#include "ops/rows.h"

enum { KEY, STRENGTH, GATE, SHIFT, EXPONENT, BEFORE, MEMORY, INPUTS };
enum { SAVED_W = INPUTS, SAVED_KEPT };

typedef struct address_params {
    bool uniform_shift;
} address_params;

fv_tensor *fv_ntm_address(fv_ctx *ctx, fv_tensor *key, fv_tensor *strength, fv_tensor *gate,
                          fv_tensor *shift, fv_tensor *exponent, fv_tensor *before,
                          fv_tensor *memory, bool uniform_shift)
{
    const address_params params = {.uniform_shift = uniform_shift};
    return fv_op_apply(ctx, FV_OP_NTM_ADDRESS, INPUTS,
                       (fv_tensor *[]){key, strength, gate, shift, exponent, before, memory},
                       &params);
}

static fv_ntm_args args_of(fv_tensor *const *in, const address_params *params)
{
    const fv_tensor *key = in[KEY], *memory = in[MEMORY];
    return (fv_ntm_args){.batch = key->shape[0],
                         .slots = memory->shape[2],
                         .width = key->shape[2],
                         .heads = key->shape[1],
                         .taps = in[SHIFT]->shape[2],
                         .uniform_shift = params->uniform_shift,
                         .element = fv_dtype_size(key->dtype)};
}

/* Input i has the batch and the heads of the key, and `last` after them (-1: nothing). */
static fv_status need_heads(fv_op_run *run, int i, int64_t last)
{
    const fv_tensor *t = run->in[i], *key = run->in[KEY];
    const int rank = last < 0 ? 2 : 3;
    FV_TRY(fv_need_rank(run, i, rank, rank));
    if (t->shape[0] != key->shape[0] || t->shape[1] != key->shape[1] ||
        (last >= 0 && t->shape[2] != last))
        return fv_op_mismatch(run, KEY, i, "(the key and this input) must have the same heads");
    return FV_OK;
}

static fv_status infer(fv_op_run *run)
{
    const address_params *params = run->params;
    FV_TRY(fv_need_real(run, KEY));
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, KEY, 3, 3));
    FV_TRY(fv_need_rank(run, MEMORY, 3, 3));
    FV_TRY(fv_need_rank(run, SHIFT, 3, 3));
    const fv_tensor *key = run->in[KEY], *memory = run->in[MEMORY];
    if (memory->shape[0] != key->shape[0] || memory->shape[1] != key->shape[2])
        return fv_op_mismatch(run, KEY, MEMORY, "must be [B, H, W] and [B, W, N]");
    if (memory->shape[2] < 1 || key->shape[2] < 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "a memory needs slots and a width");
    const int64_t taps = run->in[SHIFT]->shape[2];
    if (params->uniform_shift ? taps != 1 : taps % 2 != 1)
        return fv_op_error(run, FV_ERR_ARGUMENT, "shift has %lld numbers, expected %s",
                           (long long)taps, params->uniform_shift ? "1" : "an odd number");
    FV_TRY(need_heads(run, STRENGTH, -1));
    FV_TRY(need_heads(run, GATE, -1));
    FV_TRY(need_heads(run, SHIFT, taps));
    FV_TRY(need_heads(run, EXPONENT, -1));
    FV_TRY(need_heads(run, BEFORE, memory->shape[2]));
    fv_spec_like(run, 0, BEFORE);
    return FV_OK;
}

static void forward(fv_op_run *run)
{
    fv_ctx *ctx = run->ctx;
    fv_tensor *in[INPUTS], *kept = NULL, *w = run->out[0];
    const fv_ntm_args args = args_of(run->in, run->params);
    for (int i = 0; i < INPUTS; i++)
        in[i] = fv_contiguous_raw(ctx, run->in[i]);
    if (run->recording)
        kept = fv_tensor_new(ctx, w->dtype, 2, (int64_t[]){args.batch, fv_ntm_kept(&args)});
    if (ctx->error != FV_OK) return;
    void *ptr[2 + INPUTS] = {w->data, kept ? kept->data : NULL};
    for (int i = 0; i < INPUTS; i++)
        ptr[2 + i] = in[i]->data;
    if (w->count > 0) fv_launch(ctx, FV_KERNEL_NTM_ADDRESS, w->dtype, ptr, &args, sizeof args);
    for (int i = 0; i < INPUTS; i++) {
        fv_save(run, i, in[i]);
        if (!run->recording) fv_drop_copy(ctx, in[i], run->in[i]);
    }
    fv_save(run, SAVED_W, w);
    fv_save(run, SAVED_KEPT, kept);
}

static void backward(fv_op_back *back)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]), *d[INPUTS];
    void *ptr[INPUTS + 3 + INPUTS];
    for (int i = 0; i < INPUTS; i++)
        d[i] = fv_back_new(back, i);
    if (ctx->error != FV_OK) return;
    const fv_ntm_args args = args_of(back->saved, back->params);
    for (int i = 0; i < INPUTS; i++) {
        ptr[i] = d[i]->data;
        ptr[INPUTS + 3 + i] = back->saved[i]->data;
    }
    ptr[INPUTS] = g->data;
    ptr[INPUTS + 1] = back->saved[SAVED_W]->data;
    ptr[INPUTS + 2] = back->saved[SAVED_KEPT]->data;
    if (g->count > 0)
        fv_launch(ctx, FV_KERNEL_NTM_ADDRESS_GRAD, g->dtype, ptr, &args, sizeof args);
    else
        fv_fill(ctx, d[MEMORY], 0);
    for (int i = 0; i < INPUTS; i++)
        fv_back_send(back, i, d[i]);
}

#define INPUTS_OF(B, H, W, N, S)                                                                   \
    {                                                                                              \
        FV_IN(NORMAL, B, H, W), FV_IN(POSITIVE, B, H), FV_IN(UNIT, B, H),                          \
            FV_IN(POSITIVE, B, H, S), FV_IN(POSITIVE, B, H), FV_IN(UNIT, B, H, N),                 \
            FV_IN(NORMAL, B, W, N)                                                                 \
    }

static const address_params weights = {.uniform_shift = false}, uniform = {.uniform_shift = true};

static const fv_op_case cases[] = {
    {.name = "two heads", .params = &weights, .n_in = INPUTS, .in = INPUTS_OF(2, 2, 3, 5, 3)},
    {.name = "many slots", .params = &weights, .n_in = INPUTS, .in = INPUTS_OF(1, 1, 2, 19, 1)},
    {.name = "wide shift", .params = &weights, .n_in = INPUTS, .in = INPUTS_OF(1, 1, 2, 3, 7)},
    {.name = "uniform", .params = &uniform, .n_in = INPUTS, .in = INPUTS_OF(2, 1, 3, 4, 1)},
    {.name = "three heads", .params = &weights, .n_in = INPUTS, .in = INPUTS_OF(1, 3, 4, 4, 3)},
    {.name = "empty", .params = &weights, .n_in = INPUTS, .in = INPUTS_OF(0, 1, 2, 3, 3)},
};

const fv_op_desc fv_op_ntm_address = {
    .id = FV_OP_NTM_ADDRESS,
    .name = "ntm_address",
    .formula = "w = sharpen(shift(g softmax(b cos(k, M)) + (1 - g) w'))",
    .min_in = INPUTS,
    .max_in = INPUTS,
    .params_bytes = sizeof(address_params),
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .terms = 8,
    FV_CASES(cases),
};
