/*
 * fovea/ops.h: differentiable operations on tensors.
 *
 *     // one softmax-attention layer, y = softmax(q k^T / sqrt(d)) v, and an activation
 *     fv_tensor *s = fv_matmul(ctx, q, fv_transpose(ctx, k, -1, -2));
 *     fv_tensor *a = fv_softmax(ctx, fv_scale(ctx, s, 1.0 / sqrt(d)), -1);
 *     fv_tensor *y = fv_matmul(ctx, a, v);
 *     y = fv_pad(ctx, y, (int64_t[]){0, 0}, (int64_t[]){0, 4}, 0);   // and four columns of zeros
 *     fv_tensor *z = fv_leaky_relu(ctx, y, 0.2);
 *     fv_tensor *loss = fv_mse(ctx, z, target);
 *     fv_status status = fv_backward(ctx, loss);       // fovea/autograd.h
 *
 * Common to all: inputs are not changed; results belong to the innermost scope; on failure the
 * result is the invalid tensor and the context holds the error. Shapes broadcast as in NumPy.
 * An axis may be negative (-1 is the last). "Real" means f32 or f64; all real inputs of one call
 * have one dtype. Where a sentence says "views", no data is copied.
 */
#ifndef FOVEA_OPS_H
#define FOVEA_OPS_H

#include "fovea/kernels.h"
#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise, two inputs ------------------------------------------------------ */
/* Real, i32 or i64 (pow: real). Division of integers truncates, x/0 = 0. */
FV_API fv_tensor *fv_add(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_sub(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_mul(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_div(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_pow(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_maximum(fv_ctx *ctx, fv_tensor *a, fv_tensor *b); /* ties: gradient to a */
FV_API fv_tensor *fv_minimum(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
/* u8 results of 0 and 1; any dtype but f16 and bf16; no gradient. */
FV_API fv_tensor *fv_eq(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_ne(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_lt(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_le(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_gt(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
FV_API fv_tensor *fv_ge(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);

/* ---- elementwise, one input (real) ------------------------------------------------ */
FV_API fv_tensor *fv_neg(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_exp(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_log(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_sqrt(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_rsqrt(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_square(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_reciprocal(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_pow_scalar(fv_ctx *ctx, fv_tensor *x, double exponent);
FV_API fv_tensor *fv_affine(fv_ctx *ctx, fv_tensor *x, double scale,
                            double shift); /* scale x + shift */
FV_API fv_tensor *fv_scale(fv_ctx *ctx, fv_tensor *x, double scale);
FV_API fv_tensor *fv_abs(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_clamp(fv_ctx *ctx, fv_tensor *x, double low, double high);
FV_API fv_tensor *fv_sin(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_cos(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_erf(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_tanh(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_sigmoid(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_relu(fv_ctx *ctx, fv_tensor *x);
/* x where x > 0, else slope x. */
FV_API fv_tensor *fv_leaky_relu(fv_ctx *ctx, fv_tensor *x, double slope);
FV_API fv_tensor *fv_gelu(fv_ctx *ctx, fv_tensor *x);      /* x Phi(x) */
FV_API fv_tensor *fv_gelu_tanh(fv_ctx *ctx, fv_tensor *x); /* the tanh approximation */
FV_API fv_tensor *fv_silu(fv_ctx *ctx, fv_tensor *x);
FV_API fv_tensor *fv_quick_gelu(fv_ctx *ctx, fv_tensor *x); /* x sigmoid(1.702 x) */
FV_API fv_tensor *fv_softplus(fv_ctx *ctx, fv_tensor *x);

/* ---- choice ----------------------------------------------------------------------- */
/* cond (u8) ? a : b, all three broadcast. No gradient to cond. */
FV_API fv_tensor *fv_where(fv_ctx *ctx, fv_tensor *cond, fv_tensor *a, fv_tensor *b);
/* mask (u8, broadcast to x) ? value : x. */
FV_API fv_tensor *fv_masked_fill(fv_ctx *ctx, fv_tensor *x, fv_tensor *mask, double value);

/* ---- reductions over any axes ----------------------------------------------------- */
/* n_axes 0 reduces everything. `keep` leaves reduced axes with size 1. */
FV_API fv_tensor *fv_sum(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep);
FV_API fv_tensor *fv_mean(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep);
/* An empty reduction is an error. NaN wins. Ties: the gradient goes to the first. */
FV_API fv_tensor *fv_max(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep);
FV_API fv_tensor *fv_min(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep);
FV_API fv_tensor *fv_logsumexp(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep);
FV_API fv_tensor *fv_norm(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes,
                          bool keep); /* L2 */
/* i64 index along one axis of the first maximum / minimum; no gradient. */
FV_API fv_tensor *fv_argmax(fv_ctx *ctx, fv_tensor *x, int axis, bool keep);
FV_API fv_tensor *fv_argmin(fv_ctx *ctx, fv_tensor *x, int axis, bool keep);
FV_API fv_tensor *fv_cumsum(fv_ctx *ctx, fv_tensor *x, int axis);

/* ---- matrices --------------------------------------------------------------------- */
/* [..., m, k] x [..., k, n] -> [..., m, n], leading axes broadcast. Transposed views cost nothing.
 */
FV_API fv_tensor *fv_matmul(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);
/* x [..., in], weight [out, in], bias [out] or NULL -> [..., out]. */
FV_API fv_tensor *fv_linear(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias);
/* act(x W^T + b) + residual in one pass; bias and residual (of the result's shape) may be NULL. */
FV_API fv_tensor *fv_linear_act(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                                fv_act act, fv_tensor *residual);
/*
 * What layers compute in: FV_F32 [the default], or FV_BF16 for mixed precision. Then fv_linear,
 * fv_linear_act and fv_embedding give bf16 tensors, and what follows them works on those: sums and
 * products of elements, activations, norms, dropout, rotary positions and attention take bf16 and
 * give bf16, computing in float and rounding once, to nearest even. This halves the memory of
 * activations; products take about half the time where the CPU has AVX512_BF16, and elsewhere
 * multiply the same numbers as floats. Parameters stay f32, with a bf16 copy of each weight that
 * products read; so do the gradients of parameters, statistics of norms, the log-sum-exp and
 * losses. The gradient of a bf16 tensor is bf16. A sum of bf16 and f32 is bf16.
 *
 * Weights that were packed in place as bf16 or int8 take part where products are faster in bf16
 * (AVX512_BF16, AMX): read as they are, times bf16 activations. Elsewhere, and packed as floats,
 * they are multiplied in f32, and the result is f32. So are logits of packed models everywhere.
 *
 * Any other op takes a bf16 tensor as if it had been cast to f32, and its result is f32. Backward
 * computes as forward did, whatever is set by then. f64 tensors are multiplied as they are.
 *
 *     fv_status s = fv_ctx_set_compute(ctx, FV_BF16);
 *
 * Fails: DTYPE (neither of the two).
 */
FV_API FV_MUST_USE fv_status fv_ctx_set_compute(fv_ctx *ctx, fv_dtype dtype);
FV_API fv_dtype fv_ctx_compute(const fv_ctx *ctx);
/* Keeps a packed copy of a linear layer's weight (f32 [out, in]) beside it: faster products with
 * few rows. Not used any more once the weight's memory was written or stepped: pack again. */
FV_API FV_MUST_USE fv_status fv_linear_pack(fv_ctx *ctx, fv_tensor *weight);
/*
 * For running only: the panels take the place of the weight's memory, which is given back, in as
 * many bits as `form` has (fovea/kernels.h). From now on it has no gradient, and all that can read
 * it are fv_linear and, a row at a time, fv_embedding; anything else is FV_ERR_STATE. Fails: DTYPE
 * (not f32), SHAPE (not [out, in]), STATE (not valid, or packed in place already), ARGUMENT (form),
 * MEMORY; it then is what it was.
 */
FV_API FV_MUST_USE fv_status fv_linear_pack_in_place(fv_ctx *ctx, fv_tensor *weight,
                                                     fv_weight_form form);

/* ---- normalisers ------------------------------------------------------------------ */
FV_API fv_tensor *fv_softmax(fv_ctx *ctx, fv_tensor *x, int axis); /* all -inf gives zeros */
FV_API fv_tensor *fv_log_softmax(fv_ctx *ctx, fv_tensor *x, int axis);
/* Over the last axis; gamma, beta [D] or NULL. */
FV_API fv_tensor *fv_layer_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, fv_tensor *beta,
                                double eps);
FV_API fv_tensor *fv_rms_norm(fv_ctx *ctx, fv_tensor *x, fv_tensor *gamma, double eps);
/* x / |x| over the last axis; a row of zeros stays zero and gets no gradient. */
FV_API fv_tensor *fv_unit(fv_ctx *ctx, fv_tensor *x);

/* ---- rotary positions --------------------------------------------------------------- */
typedef enum fv_pairs {
    FV_PAIRS_HALVES,     /* columns m and m + r/2, as in GPT-NeoX and Llama */
    FV_PAIRS_INTERLEAVED /* columns 2m and 2m + 1, as in the RoFormer paper and GPT-J */
} fv_pairs;
/*
 * Turns pair m of the row at position p by the angle t_pm:
 *     (x1, x2) -> (x1 cos t - x2 sin t, x2 cos t + x1 sin t)
 * x [..., n, ..., d] with the positions along `axis` (not the last one); table [2, n, r/2], r <= d,
 * holds the cosines and then the sines of t (fv_rotary_table() makes one). Columns from r on stay
 * as they are. No gradient to the table.
 */
FV_API fv_tensor *fv_rotary(fv_ctx *ctx, fv_tensor *x, fv_tensor *table, int axis, fv_pairs pairs);

/* ---- indices (i64) ---------------------------------------------------------------- */
/* table [V, D], index [...] -> [..., D]. Rows equal to `padding` (or -1: none) get no gradient. */
FV_API fv_tensor *fv_embedding(fv_ctx *ctx, fv_tensor *table, fv_tensor *index, int64_t padding);
/* Like torch.gather: index has x's rank and, off the axis, x's sizes. */
FV_API fv_tensor *fv_gather(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, int axis);
/* x + scatter of src to index along axis; index and src have one shape. */
FV_API fv_tensor *fv_scatter_add(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, fv_tensor *src,
                                 int axis);
/* x real or i64, index i64 of rank 1. */
FV_API fv_tensor *fv_index_select(fv_ctx *ctx, fv_tensor *x, fv_tensor *index, int axis);
FV_API fv_tensor *fv_one_hot(fv_ctx *ctx, fv_tensor *index, int64_t classes, fv_dtype dtype);
/*
 * The k largest along the last axis, descending; indices may be NULL. Gradient to the values.
 *
 *     fv_tensor *which = NULL;
 *     fv_tensor *best = fv_topk(ctx, fv_softmax(ctx, x, -1), 5, &which);   // [..., 5] both
 */
FV_API fv_tensor *fv_topk(fv_ctx *ctx, fv_tensor *x, int64_t k, fv_tensor **indices);

/* ---- layout ----------------------------------------------------------------------- */
/* One size may be -1. Views when the strides allow it, else copies. */
FV_API fv_tensor *fv_reshape(fv_ctx *ctx, fv_tensor *x, int rank, const int64_t *shape);
FV_API fv_tensor *fv_permute(fv_ctx *ctx, fv_tensor *x, const int *axes); /* views */
FV_API fv_tensor *fv_transpose(fv_ctx *ctx, fv_tensor *x, int a, int b);  /* views */
FV_API fv_tensor *fv_broadcast(fv_ctx *ctx, fv_tensor *x, int rank,
                               const int64_t *shape); /* views */
/* Elements begin, begin+step, ... below end of one axis; begin and end as in Python, step >= 1.
 * Views. */
FV_API fv_tensor *fv_slice(fv_ctx *ctx, fv_tensor *x, int axis, int64_t begin, int64_t end,
                           int64_t step);
/* n views of the given sizes along an axis; they must add up to it. */
FV_API void fv_split(fv_ctx *ctx, fv_tensor *x, int axis, int n, const int64_t *sizes,
                     fv_tensor **out);
FV_API fv_tensor *fv_squeeze(fv_ctx *ctx, fv_tensor *x, int axis);   /* drop an axis of size 1 */
FV_API fv_tensor *fv_unsqueeze(fv_ctx *ctx, fv_tensor *x, int axis); /* new axis of size 1 */
FV_API fv_tensor *fv_concat(fv_ctx *ctx, int n, fv_tensor *const *x, int axis);
FV_API fv_tensor *fv_stack(fv_ctx *ctx, int n, fv_tensor *const *x,
                           int axis); /* along a new axis */
/* before[i] and after[i] elements of `value` around axis i (rank entries each, >= 0). */
FV_API fv_tensor *fv_pad(fv_ctx *ctx, fv_tensor *x, const int64_t *before, const int64_t *after,
                         double value);
FV_API fv_tensor *fv_roll(fv_ctx *ctx, fv_tensor *x, int axis, int64_t shift); /* circular */
FV_API fv_tensor *fv_contiguous(fv_ctx *ctx, fv_tensor *x); /* x itself if it is already */
FV_API fv_tensor *fv_cast(fv_ctx *ctx, fv_tensor *x,
                          fv_dtype dtype); /* gradient between floats only */

/* ---- random (keyed by seed, step, site, row, column) ------------------------------- */
/* 0 <= p < 1; with p 0 it returns x. Training or not is the caller's choice. */
FV_API fv_tensor *fv_dropout(fv_ctx *ctx, fv_tensor *x, double p);
FV_API fv_tensor *fv_rand_uniform(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                                  double low, double high);
FV_API fv_tensor *fv_rand_normal(fv_ctx *ctx, fv_dtype dtype, int rank, const int64_t *shape,
                                 double mean, double deviation);
/* weights [..., n] >= 0, need not sum to one -> i64 [..., samples], with replacement. */
FV_API fv_tensor *fv_multinomial(fv_ctx *ctx, fv_tensor *weights, int64_t samples);

/* ---- losses ----------------------------------------------------------------------- */
typedef enum fv_reduction { FV_REDUCTION_MEAN, FV_REDUCTION_SUM } fv_reduction;
/* logits [..., C], target i64 [...]; rows with target == ignore do not count (mean over the rest;
 * no row left: 0). smoothing in [0, 1). */
FV_API fv_tensor *fv_cross_entropy(fv_ctx *ctx, fv_tensor *logits, fv_tensor *target,
                                   int64_t ignore, double smoothing, fv_reduction reduction);
/* p in (0,1), target real of the same shape; ln is held at >= -100. Mean. No gradient to target. */
FV_API fv_tensor *fv_bce(fv_ctx *ctx, fv_tensor *p, fv_tensor *target);
FV_API fv_tensor *fv_bce_logits(fv_ctx *ctx, fv_tensor *x, fv_tensor *target);
/* Mean squared difference, equal shapes. Gradient to both. */
FV_API fv_tensor *fv_mse(fv_ctx *ctx, fv_tensor *a, fv_tensor *b);

/* ---- recurrent and convolution ---------------------------------------------------- */
/* gates [B, 4H] (i f g o, before the nonlinearity), c [B, H] -> *h_out, *c_out [B, H]. */
FV_API void fv_lstm_cell(fv_ctx *ctx, fv_tensor *gates, fv_tensor *c, fv_tensor **h_out,
                         fv_tensor **c_out);
/* x_gates, h_gates [B, 3H] (r z n), h [B, H] -> [B, H]. */
FV_API fv_tensor *fv_gru_cell(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *h_gates, fv_tensor *h);
/*
 * A whole sequence at once. x_gates [T, B, 4H] = x W_ih^T + b (one product for all steps),
 * weight [4H, H], h0 and c0 [B, H] or NULL for zeros -> returns h [T, B, H]; the last states
 * through h_last, c_last (each may be NULL). `reverse` runs from the end.
 */
FV_API fv_tensor *fv_lstm(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h0,
                          fv_tensor *c0, bool reverse, fv_tensor **h_last, fv_tensor **c_last);
/* Likewise: x_gates [T, B, 3H], weight [3H, H], h_bias [3H] or NULL (added to h W^T). */
FV_API fv_tensor *fv_gru(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *weight, fv_tensor *h_bias,
                         fv_tensor *h0, bool reverse, fv_tensor **h_last);

/* ---- the memory of a Neural Turing Machine -------------------------------------------- */
/*
 * Where H heads of each batch row look in a memory of N slots with W numbers each. The memory is
 * [B, W, N]: slots are the last axis. key [B, H, W], strength and gate [B, H], shift [B, H, S],
 * exponent [B, H], before [B, H, N] -> weights [B, H, N], non-negative with sum 1:
 *
 *     c = softmax(strength cos(key, M_i))          by content
 *     h = gate c + (1 - gate) before               or from where the head was
 *     q_i = sum over o of shift_o h_(i - o)        o = -(S - 1) / 2 .. (S - 1) / 2, modulo N; S odd
 *     w_i = q_i^exponent / sum_j q_j^exponent      exponent >= 1
 *
 * With uniform_shift S is 1, and shift is the lower bound of a uniform distribution of width one:
 * 6.7 moves 0.3 of a weight by 6 slots and 0.7 by 7. A key or slot whose squared length is zero,
 * subnormal or infinite has cosine 0 with everything and gets no gradient from it. No finite
 * strength or exponent overflows; 0 stays 0. If no q is positive, w is 1 / N, without a gradient.
 */
FV_API fv_tensor *fv_ntm_address(fv_ctx *ctx, fv_tensor *key, fv_tensor *strength, fv_tensor *gate,
                                 fv_tensor *shift, fv_tensor *exponent, fv_tensor *before,
                                 fv_tensor *memory, bool uniform_shift);

typedef struct fv_ntm_heads {
    int64_t readers, writers;
    int64_t shifts; /* offsets of a head's shift, odd; 0: one uniform shift */
} fv_ntm_heads;

/* Numbers of all heads' raw parameters for slots of `width` numbers: for each reader and then each
 * writer key, strength, gate, shift and exponent, then erase and add of each writer. */
FV_API int64_t fv_ntm_params(const fv_ntm_heads *heads, int64_t width);

/*
 * One step of all heads, readers first: addressing as above, on the memory before this step's
 * write. params [B, fv_ntm_params(heads, W)] are as a linear layer makes them: strength = softplus,
 * gate = sigmoid, shift = softmax, exponent = 1 + softplus, erase = sigmoid, add = tanh of them.
 *
 *     *read [B, readers W]:       sum_i w_i M_i of each reader
 *     *weights [B, H, N]:         of all heads; the next step's `before`
 *     *next [B, W, N]:            M_i * prod (1 - w_i erase) + sum w_i add, over the writers
 */
FV_API void fv_ntm_step(fv_ctx *ctx, fv_tensor *params, fv_tensor *before, fv_tensor *memory,
                        const fv_ntm_heads *heads, fv_tensor **read, fv_tensor **weights,
                        fv_tensor **next);

/*
 * Sequences of different lengths, packed: longest first, all first steps, then all second ones of
 * those that are longer, ... (fovea/recurrent.h packs). x_gates [total, 4H] or [total, 3H], lengths
 * i64 [B], falling and of sum total -> h [total, H]; last states [B, H] are those of each
 * sequence's own end, or of its beginning in reverse. lengths NULL: fv_lstm and fv_gru.
 */
FV_API fv_tensor *fv_lstm_varlen(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths,
                                 fv_tensor *weight, fv_tensor *h0, fv_tensor *c0, bool reverse,
                                 fv_tensor **h_last, fv_tensor **c_last);
FV_API fv_tensor *fv_gru_varlen(fv_ctx *ctx, fv_tensor *x_gates, fv_tensor *lengths,
                                fv_tensor *weight, fv_tensor *h_bias, fv_tensor *h0, bool reverse,
                                fv_tensor **h_last);
/* x [B, C, T], weight [O, C, K], bias [O] or NULL -> [B, O, T]: output t sees inputs t, t-d, ... */
FV_API fv_tensor *fv_conv1d_causal(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight, fv_tensor *bias,
                                   int64_t dilation);

#ifdef __cplusplus
}
#endif
#endif
