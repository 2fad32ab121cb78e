/*
 * fovea/attention.h: streamed softmax attention, as a differentiable op and over raw pointers.
 * Linear memory either way: no queries x keys matrix is made.
 *
 * The op (tensors, gradients):
 *
 *     fv_attend_config cfg;
 *     fv_attend_config_init(&cfg, sizeof cfg);
 *     cfg.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_tensor *y = fv_attend(ctx, q, k, v, &cfg, NULL, NULL);   // [batch, heads, n, d]
 *
 * The kernels alone (no context, no allocation):
 *
 *     // 8 heads, 1024 queries and keys of width 64, causal; q, k, v, o are [heads][1024][64]
 *     fv_attn a;
 *     fv_attn_init(&a, sizeof a);
 *     a.heads = a.kv_heads = 8;
 *     a.n_q = a.n_k = 1024;
 *     a.d = a.d_v = 64;
 *     a.scale = 0.125f;
 *     a.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_attn_dense(&a);                              // strides of the layout above
 *     fv_attn_data data = {.q = q, .k = k, .v = v, .o = o, .lse = lse};
 *     size_t need = 0;
 *     fv_status s = fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need);
 *     void *scratch = aligned_alloc(64, need);        // need is a multiple of 64, may be 0
 *     if (s == FV_OK) s = fv_attn_forward(&a, &data, NULL, scratch, need);
 *
 * examples/raw_attention.c is a complete program: packed q, k, v, threads of its own, weights,
 * decoding.
 *
 * For query i and key j of one head, over the keys that i may see:
 *
 *     x_ij = q_i . k_j                          FV_SCORE_DOT
 *            sum_c w_c tanh(q_ic + k_jc)        FV_SCORE_ADDITIVE: q and k are already projected
 *            0                                  FV_SCORE_NONE: the bias is the score, q and k are
 *                                               not looked at (location scores, your own function)
 *     s_ij = cap(scale x_ij) + slope (pos_j - pos_i) + bias_ij      cap(x) = c tanh(x/c), c > 0
 *     p_ij = exp(s_ij - lse_i)                  lse_i = ln sum_j exp(s_ij)
 *     o_i  = sum_j drop(p_ij) v_j               drop: 0, or p/(1 - dropout)
 *
 * The additive score is streamed like the others: no queries x keys x width array. Its tanh is
 * within 3e-7 of the true one on the vector levels.
 *
 * q, k, v, o and their gradients may be stored in 16 bits, bf16 or f16; bias, slopes and the
 * log-sum-exp are f32 then. Sums are made in float and a result is rounded once, to nearest even.
 * Where the CPU multiplies pairs of bf16 itself (AVX512_BF16), the forward pass over bf16 rounds
 * the weights too: before it is stored o is off by up to 2^-8 sum_j p_j |v_j| then, and lse is
 * within 3e-6 of what it is in f32.
 *
 * Masked positions are skipped, never added as -inf: NaN or infinity in a hidden key or value does
 * not matter. A query that sees no key gives o = 0, lse = -inf and no gradient. Large scores are
 * shifted by their maximum.
 *
 * Bits: a query's result depends on its own row, on the keys and values, and on the sizes per
 * sequence; not on the batch, the other queries or the threads. Up to eight queries over a cache
 * of keys (at most 32 with those of the heads that share a key head) take a path of their own,
 * bound by the memory, and up to sixteen meet the keys in chunks of 2048, which threads share; sums
 * run in another order there, so a query may differ in its last bits from itself among many. So may
 * a lone query with the additive score, the step of a recurrent decoder.
 */
#ifndef FOVEA_ATTENTION_H
#define FOVEA_ATTENTION_H

#include <stdbool.h>

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FV_ATTN_MAX_WIDTH = 512 };

/* Element strides; the elements of a row are contiguous. */
typedef struct fv_attn_layout {
    int64_t batch, head, row;
} fv_attn_layout;

/* Element strides of a [batch][head][query][key] array; 0 where it repeats. */
typedef struct fv_attn_grid {
    int64_t batch, head, row, col;
} fv_attn_grid;

typedef enum fv_causal {
    FV_CAUSAL_NONE,
    FV_CAUSAL_TOP_LEFT,    /* query i stands at position i */
    FV_CAUSAL_BOTTOM_RIGHT /* query i stands at i + n_k - n_q: the last one sees every key */
} fv_causal;

typedef enum fv_score { FV_SCORE_DOT, FV_SCORE_ADDITIVE, FV_SCORE_NONE } fv_score;

/* What to compute: numbers only, so that it can be copied to any device. */
typedef struct fv_attn {
    size_t struct_size;
    fv_dtype dtype; /* of q, k, v, o: f32, bf16, f16, or f64 for proofs */
    fv_score score;
    int64_t batch, heads, kv_heads; /* head h reads key head h / (heads / kv_heads) */
    int64_t n_q, n_k;               /* either may be 0 */
    int64_t d, d_v;                 /* 1 .. FV_ATTN_MAX_WIDTH; d is ignored by FV_SCORE_NONE */
    double scale, soft_cap;         /* soft_cap 0: none */
    fv_attn_layout q, k, v, o;      /* gradients lie like what they belong to */
    fv_attn_grid bias, visible;     /* of the optional arrays in fv_attn_data */
    int64_t lse_head;               /* from one head's log-sum-exps to the next; 0: n_q */

    /* `batch` documents stand one after the other in one long row: document b has the queries
     * q_begin[b] .. q_begin[b + 1] and the keys k_begin[b] .. k_begin[b + 1]. n_q and n_k are the
     * totals, batch strides are ignored, positions begin anew in each document. Nothing is computed
     * across documents; a document has the bits of a call of its own, but for dropout: document b
     * draws with a key of its own. Not together with bias and visible. */
    bool packed;

    /* Who sees whom. Key j stands at position j. A key must pass every rule, but keys below
     * `prefix` pass the causal rule and the window. */
    fv_causal causal;
    int64_t left, right; /* a window: positions pos_i - left .. pos_i + right; -1: no bound */
    int64_t prefix;
    int64_t q_offset; /* added to the position of every query: decoding, split sequences */

    /* A list of blocks: query i sees key j only where blocks[i / block_q][j / block_k] is not 0.
     * What no query of a block sees is not computed. block_k is a multiple of 16; both 0: none. Not
     * together with packed. */
    int64_t block_q, block_k;
    fv_attn_grid blocks; /* strides of [batch][head][block of queries][block of keys] */

    double dropout; /* 0: none */
    uint64_t dropout_key;

    /* Backward: grad_k and grad_v are added to, not written: several calls share keys. f32 and f64.
     */
    bool adds_to_keys;
} fv_attn;

/* Sizes 1, scale 1, dot products, no mask, f32, no window. */
FV_API void fv_attn_init(fv_attn *a, size_t struct_size);
/* Strides of [batch][heads][rows][width] without gaps, from the sizes already set. */
FV_API void fv_attn_dense(fv_attn *a);

/* The arrays. Inputs and outputs must not overlap. */
typedef struct fv_attn_data {
    const void *q, *k, *v; /* q and k may be NULL with FV_SCORE_NONE */
    void *o;
    void *lse; /* [batch][heads][n_q], packed [heads][n_q], or NULL in forward; like bias and slopes
                  it is f32, f64 with f64 */
    const void *bias;                 /* or NULL */
    const uint8_t *visible;           /* 0 hides; or NULL */
    const uint8_t *blocks;            /* where block_q and block_k are set */
    const int64_t *n_keys;            /* [batch]: keys from this on are hidden; or NULL */
    const void *slopes;               /* [heads]; or NULL */
    const void *w;                    /* [heads][d], for FV_SCORE_ADDITIVE alone */
    const int64_t *q_begin, *k_begin; /* [batch + 1], rising from 0 to n_q, n_k; where packed */
    /* backward: gradients of o and lse in (either may be NULL: zero) ... */
    const void *grad_o, *grad_lse;
    /* ... and of the inputs out (each may be NULL: not wanted) */
    void *grad_q, *grad_k, *grad_v;
    void *grad_bias; /* lies like bias, is added to, and sums over what repeats */
    void *grad_w;    /* likewise added to */
} fv_attn_data;

/* Does units [begin, end) of a call's work as thread number `thread`. */
typedef void (*fv_attn_work)(const void *arg, int64_t begin, int64_t end, int thread);

/* Who does the work: a pool, or threads of your own, or the calling thread. */
typedef struct fv_attn_exec {
    fv_simd level; /* FV_SIMD_AUTO: detect */
    fv_pool *pool; /* or NULL */
    /*
     * Instead of a pool: hands [0, units) to your threads in parts, calls work(arg, begin, end,
     * thread) for each, and returns when all are done. `thread` lies below `threads`, and no two
     * parts have the same at one time. Parts begin in ascending order, since a part of the backward
     * pass may wait for lower ones; `grain` is how many units are worth a part. A call may come
     * here several times, or not at all where there is little to do.
     */
    void (*parallel)(void *user, int64_t units, int64_t grain, fv_attn_work work, const void *arg);
    void *user;
    int threads;
} fv_attn_exec;

typedef enum fv_attn_pass { FV_ATTN_FORWARD, FV_ATTN_BACKWARD } fv_attn_pass;

/* Scratch bytes for a pass with that many threads. Fails: ARGUMENT (sizes, strides, widths). */
FV_API FV_MUST_USE fv_status fv_attn_scratch(const fv_attn *a, fv_attn_pass pass, int threads,
                                             size_t *bytes);

/*
 * exec may be NULL: the calling thread, the best level. scratch: at least the bytes that
 * fv_attn_scratch tells for this pass and exec->threads (a pool's fv_pool_threads), aligned as
 * malloc does it, better to 64; what it holds does not matter, before or afterwards.
 * Fails: ARGUMENT (sizes, a missing array, scratch), UNSUPPORTED (level, dtype).
 */
FV_API FV_MUST_USE fv_status fv_attn_forward(const fv_attn *a, const fv_attn_data *data,
                                             const fv_attn_exec *exec, void *scratch,
                                             size_t scratch_bytes);
/* Needs o and lse of the forward pass with the same description; the rest as there. */
FV_API FV_MUST_USE fv_status fv_attn_backward(const fv_attn *a, const fv_attn_data *data,
                                              const fv_attn_exec *exec, void *scratch,
                                              size_t scratch_bytes);

/*
 * Joins the results of the same `rows` queries over two disjoint sets of keys: o and lse become
 * what one pass over both would give. f32. Rows of o have `width` elements, `o_row` apart. Where a
 * side's lse is -inf (it saw no key), its row of o is not looked at.
 */
FV_API void fv_attention_merge(int64_t rows, int64_t width, float *o, int64_t o_row, float *lse,
                               const float *other_o, int64_t other_row, const float *other_lse);

/* ---- the op ------------------------------------------------------------------------ */

typedef struct fv_attend_config {
    size_t struct_size;
    double scale;    /* 0: 1 / sqrt(d) for dot products, else 1 */
    double soft_cap; /* 0: none */
    fv_causal causal;
    int64_t left, right, prefix, q_offset; /* as in fv_attn */
    double dropout;
    fv_score score;
    int64_t block_q, block_k; /* as in fv_attn */
} fv_attend_config;

/* Dot products, scale 1/sqrt(d), no mask, no window, no dropout. */
FV_API void fv_attend_config_init(fv_attend_config *cfg, size_t struct_size);

/* Optional arrays, each may be NULL. */
typedef struct fv_attend_extra {
    fv_tensor *bias;    /* broadcasts to [batch, heads, n_q, n_k]; gets a gradient */
    fv_tensor *visible; /* u8, broadcasts likewise: 0 hides */
    fv_tensor *n_keys;  /* i64 [batch]: keys from this on are hidden */
    fv_tensor *slopes;  /* [heads]: linear position bias; no gradient */
    fv_tensor *w;       /* [heads, d]: of FV_SCORE_ADDITIVE, which needs it; gets a gradient */
    fv_tensor *blocks;  /* u8, broadcasts to [batch, heads, blocks of queries, blocks of keys] */
    /* i64 [documents + 1]: documents packed in one row, see fv_attn; both or neither. q is then
     * [1, heads, all queries, d], likewise k, v and the results; n_keys has an entry a document. */
    fv_tensor *q_begin, *k_begin;
} fv_attend_extra;

/*
 * q [batch, heads, n_q, d], k [batch, kv_heads, n_k, d], v [batch, kv_heads, n_k, d_v]
 * -> [batch, heads, n_q, d_v]. Any strides whose last one is 1 are used as they are. The
 * log-sum-exp [batch, heads, n_q] through `lse` (or NULL): weights of any row follow from it.
 * Gradients to q, k, v, bias, w, and through the log-sum-exp. extra may be NULL.
 * q, k, v of one dtype: f32, f64, bf16 or f16; with the last two, bias, slopes, w and the
 * log-sum-exp are f32.
 *
 * FV_SCORE_NONE: q and k are NULL, batch and n_k are those of v, n_q and heads those of the bias
 * (heads those of v where the bias repeats over them).
 */
FV_API fv_tensor *fv_attend(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *v,
                            const fv_attend_config *cfg, const fv_attend_extra *extra,
                            fv_tensor **lse);

#ifdef __cplusplus
}
#endif
#endif
