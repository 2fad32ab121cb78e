/*
 * fovea/attention_kernels.h: streamed softmax attention over raw pointers. No context, no tensors,
 * no allocation, and memory linear in the sequence length: no queries x keys array is made.
 * The same kernels with tensors and gradients: fovea/attention.h.
 *
 *     // 8 heads, 1024 queries and keys of width 64, causal; q, k, v, o are [heads][1024][64]
 *     fv_attn a;
 *     fv_attn_init(&a, sizeof a);
 *     a.heads = a.kv_heads = 8;
 *     a.n_q = a.n_k = 1024;
 *     a.d = a.d_v = 64;
 *     a.rule.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_attn_dense(&a);                              // strides of the layout above
 *     fv_attn_data data = {.q = q, .k = k, .v = v, .o = o, .lse = lse};
 *     size_t need = 0;
 *     fv_status s = fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need);
 *     void *scratch = aligned_alloc(64, need);        // need is a multiple of 64, may be 0
 *     if (s == FV_OK) s = fv_attn_forward(&a, &data, NULL, scratch, need);
 *
 * The forward pass stores no weights. Any of them can be recomputed from its log-sum-exp, exactly
 * as it used them:
 *
 *     // after fv_attn_forward with data.lse: the attention map of head 3 ...
 *     fv_attn_region region;
 *     fv_attn_region_init(&region, sizeof region, &a);  // the whole map
 *     region.head = 3;
 *     region.heads = 1;
 *     fv_attn_region_dense(&region);                    // map is [batch][1][n_q][n_k]
 *     size_t bytes = 0;
 *     s = fv_attn_weights_scratch(&a, &region, 1, &bytes);
 *     void *room = aligned_alloc(64, bytes);
 *     if (s == FV_OK) s = fv_attn_weights(&a, &data, &region, NULL, room, bytes, map);
 *
 *     // ... or, without a queries x keys array, the 16 largest of each row and their entropy
 *     fv_attn_summary sum = {.struct_size = sizeof sum, .top = 16, .top_index = index,
 *                            .top_weight = weight, .entropy = entropy};
 *     s = fv_attn_summarise(&a, &data, &sum, NULL, room, bytes);
 *
 * examples/raw_attention.c is a complete program: interleaved q, k, v, threads of its own, weights,
 * decoding.
 *
 * For query i and key j of one head, over the keys that i may see:
 *
 *     x_ij = q_i . k_j                          FV_ATTN_SCORE_DOT
 *            sum_c w_c tanh(q_ic + k_jc)        FV_ATTN_SCORE_ADDITIVE: q and k already projected
 *            0                                  FV_ATTN_SCORE_NONE: the bias is the score; q and k
 *                                               are not read
 *     s_ij = cap(scale x_ij) + slope (pos_j - pos_i) + bias_ij      cap(x) = c tanh(x/c), c > 0
 *     p_ij = exp(s_ij - lse_i)                  lse_i = ln sum_j exp(s_ij)
 *     o_i  = sum_j drop(p_ij) v_j               drop: 0, or p/(1 - dropout)
 *
 * The additive score is streamed like the others: no queries x keys x width array. Its tanh is
 * within 3e-7 of the true one on the vector levels.
 *
 * q, k, v, o and their gradients may be bf16 or f16; bias, slopes and the log-sum-exp are f32 then.
 * Sums are made in float and a result is rounded once, to nearest even. Where the CPU has bf16 dot
 * products (AVX512_BF16), the forward pass over bf16 rounds the weights too: before it is stored, o
 * is off by up to 2^-8 sum_j p_j |v_j|, and lse is within 3e-6 of its f32 value. So it is at level
 * amx, whose backward pass over bf16 also rounds P and the gradients of the scores: before it is
 * stored, a gradient is off by up to 2^-8 of the sum of the sizes of its terms. Level AUTO is amx
 * only over bf16, and only if the process may use it (fv_ctx_config.request_amx).
 *
 * Masked positions are skipped, never added as -inf: NaN or infinity in a hidden key or value does
 * not matter. A query that sees no key gives o = 0, lse = -inf and no gradient. Scores are shifted
 * by their maximum before exp.
 *
 * Bits: a query's result depends on its own row, on the keys and values, and on the sizes per
 * sequence; not on the batch, the other queries or the threads. Up to eight queries over a cache
 * of keys (at most 32 with those of the heads that share a key head) take a path of their own,
 * bound by memory bandwidth, and up to sixteen process the keys in chunks of 2048 that threads
 * share. Sums run in another order there, so a query may differ in its last bits from the same
 * query among many. So may a single query with the additive score, the step of a recurrent decoder.
 *
 * Thread safety: calls are independent of each other; nothing is kept between them.
 */
#ifndef FOVEA_ATTENTION_KERNELS_H
#define FOVEA_ATTENTION_KERNELS_H

#include <stdbool.h>

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the rule --------------------------------------------------------------------- */

typedef enum fv_causal {
    FV_CAUSAL_NONE,
    FV_CAUSAL_TOP_LEFT,    /* query i stands at position i */
    FV_CAUSAL_BOTTOM_RIGHT /* query i stands at i + n_k - n_q: the last one sees every key */
} fv_causal;

/*
 * Which keys a query sees by position, and what is done to scores and weights. Every description of
 * attention holds one as `rule`, from the kernels below to whole layers, and it is copied whole
 * from one to the next. Numbers only, so that it can be copied to any device.
 *
 * Key j stands at position j. A key must pass the causal rule, the window, the block mask, the
 * lengths and the pattern; keys below `prefix` pass the causal rule and the window.
 */
typedef struct fv_attention_rule {
    fv_causal causal; /* [none] */
    int64_t left,
        right;        /* window: positions pos_i - left .. pos_i + right; -1: no bound [-1, -1] */
    int64_t prefix;   /* [0] */
    int64_t q_offset; /* added to the position of every query: decoding, split sequences [0] */
    /* Sizes of the blocks in a block mask, where one is given: query i sees key j only where
     * blocks[i / block_q][j / block_k] is not 0. Hidden blocks are not computed. block_k is a
     * multiple of 16; both 0: no list. Not together with varlen documents. [0, 0] */
    int64_t block_q, block_k;
    double scale;         /* of the scores; 0: the score's own, for dot products 1 / sqrt(d),
                             else 1 [0] */
    double soft_cap;      /* c of c tanh(x/c); 0: none [0] */
    double dropout;       /* of the weights, 0 to below 1 [0] */
    uint64_t reserved[4]; /* zero: for later settings, whose default will be zero */
} fv_attention_rule;

/* The defaults in brackets. */
FV_API void fv_attention_rule_init(fv_attention_rule *rule);

/* ---- the description -------------------------------------------------------------- */

enum { FV_ATTN_MAX_WIDTH = 512 };

/* Element strides; the elements of a row are contiguous. */
typedef struct fv_attn_layout {
    int64_t batch, head, row;
} fv_attn_layout;

/* Element strides of a [batch][head][query][key] array; 0 where it repeats. */
typedef struct fv_attn_grid {
    int64_t batch, head, row, col;
} fv_attn_grid;

typedef enum fv_attn_score {
    FV_ATTN_SCORE_DOT,
    FV_ATTN_SCORE_ADDITIVE,
    FV_ATTN_SCORE_NONE
} fv_attn_score;

/* What to compute: numbers only. */
typedef struct fv_attn {
    size_t struct_size;
    fv_dtype dtype;                 /* of q, k, v, o: f32, bf16, f16, or f64 for proofs [f32] */
    fv_attn_score score;            /* [dot] */
    int64_t batch, heads, kv_heads; /* head h reads key head h / (heads / kv_heads) */
    int64_t n_q, n_k;               /* either may be 0 */
    int64_t d, d_v;                 /* 1 .. FV_ATTN_MAX_WIDTH; d is ignored by FV_ATTN_SCORE_NONE */
    fv_attention_rule rule;
    uint64_t dropout_key; /* seed of the dropout */
    fv_attn_layout q, k, v, o;
    fv_attn_grid bias, visible, blocks; /* of the optional arrays in fv_attn_data */
    int64_t lse_head;                   /* from one head's log-sum-exps to the next; 0: n_q */

    /* Varlen: `batch` documents are stored one after the other in one long row. Document b has the
     * queries q_begin[b] .. q_begin[b + 1] and the keys k_begin[b] .. k_begin[b + 1]. n_q and n_k
     * are the totals, batch strides are ignored, positions start at 0 in each document. Nothing is
     * computed across documents; a document has the bits of a call of its own (with its number as
     * first_row, where there is dropout). Not together with bias and visible. */
    bool varlen;

    /* Backward: grad_k and grad_v are added to, not overwritten: several calls share keys. f32 and
     * f64. */
    bool adds_to_keys;

    /* Number of the first batch row or document among all that belong together: the dropout of a
     * weight depends on dropout_key, on its row's number, head, query and key, and on no size. So a
     * batch that is split, padded or stored as varlen documents drops the same weights. [0] */
    uint64_t first_row;

    /* Backward: strides of the gradients, for example those of q, k and v as parts of one array
     * [batch][n][3][heads][d]. All zero: those of what the gradient belongs to. [0] */
    fv_attn_layout grad_q, grad_k, grad_v, grad_o;
} fv_attn;

/* Sizes 1, dot products, the default rule, f32. */
FV_API void fv_attn_init(fv_attn *a, size_t struct_size);
/* Strides of [batch][heads][rows][width] without gaps, from the sizes already set. */
FV_API void fv_attn_dense(fv_attn *a);

/* The arrays, owned by the caller. Inputs and outputs must not overlap. */
typedef struct fv_attn_data {
    const void *q, *k, *v; /* q and k may be NULL with FV_ATTN_SCORE_NONE */
    void *o;
    void *lse; /* [batch][heads][n_q], varlen [heads][n_q], or NULL in forward; like bias and slopes
                  it is f32, f64 with f64 */
    const void *bias;                 /* or NULL */
    const uint8_t *visible;           /* 0 hides; or NULL */
    const uint8_t *blocks;            /* [batch][head][block of queries][block of keys]: 0 hides;
                                         where block_q and block_k are set */
    const int64_t *key_lengths;       /* [batch]: keys from this on are hidden; or NULL */
    const void *slopes;               /* [heads]; or NULL */
    const void *w;                    /* [heads][d], for FV_ATTN_SCORE_ADDITIVE only */
    const int64_t *q_begin, *k_begin; /* [batch + 1], rising from 0 to n_q, n_k; with varlen */
    /* backward: gradients of o and lse in (either may be NULL: zero) ... */
    const void *grad_o, *grad_lse;
    /* ... and of the inputs out (each may be NULL: not requested) */
    void *grad_q, *grad_k, *grad_v;
    void *grad_bias; /* strides of bias; added to, and summed over repeated axes */
    void *grad_w;    /* likewise added to */
} fv_attn_data;

/* ---- threads ---------------------------------------------------------------------- */

/* Does work items [begin, end) of a call as thread number `thread`. */
typedef void (*fv_attn_work)(const void *arg, int64_t begin, int64_t end, int thread);

/* Who does the work: a pool, or threads of your own, or the calling thread. */
typedef struct fv_attn_exec {
    fv_simd level; /* FV_SIMD_AUTO: detect */
    fv_pool *pool; /* or NULL */
    /*
     * Instead of a pool: splits [0, units) into parts for your threads, calls work(arg, begin, end,
     * thread) for each, and returns when all are done. `thread` is below `threads`, and no two
     * parts have the same at one time. Parts start in ascending order, since a part of the backward
     * pass may wait for lower ones; `grain` is the smallest useful part. A call may use this
     * several times, or not at all where there is little to do.
     */
    void (*parallel)(void *user, int64_t units, int64_t grain, fv_attn_work work, const void *arg);
    void *user;
    int threads;
} fv_attn_exec;

/* ---- passes ----------------------------------------------------------------------- */

typedef enum fv_attn_pass { FV_ATTN_FORWARD, FV_ATTN_BACKWARD } fv_attn_pass;

/* Scratch bytes for a pass with that many threads. Fails: ARGUMENT (sizes, strides, widths, a
 * setting of the rule out of range). */
FV_API FV_MUST_USE fv_status fv_attn_scratch(const fv_attn *a, fv_attn_pass pass, int threads,
                                             size_t *bytes);

/*
 * exec may be NULL: the calling thread, the best level. scratch: at least the bytes that
 * fv_attn_scratch returns for this pass and exec->threads (a pool's fv_pool_threads), aligned as
 * by malloc, better to 64; its contents do not matter, before or afterwards.
 * Fails: ARGUMENT (sizes, a missing array, scratch), UNSUPPORTED (level, dtype).
 */
FV_API FV_MUST_USE fv_status fv_attn_forward(const fv_attn *a, const fv_attn_data *data,
                                             const fv_attn_exec *exec, void *scratch,
                                             size_t scratch_bytes);
/* Needs o and lse of the forward pass with the same description; otherwise as forward. */
FV_API FV_MUST_USE fv_status fv_attn_backward(const fv_attn *a, const fv_attn_data *data,
                                              const fv_attn_exec *exec, void *scratch,
                                              size_t scratch_bytes);

/*
 * Merges the results of the same `rows` queries over two disjoint sets of keys: o and lse become
 * what one pass over both would give. f32. Rows of o have `width` elements, `o_row` apart. Where a
 * side's lse is -inf (it saw no key), its row of o is not read. So keys can come in pieces that do
 * not fit into memory together:
 *
 *     float near_o[8 * 64], near_lse[8], far_o[8 * 64], far_lse[8];   // 8 queries, width 64
 *     fv_attn_data far = data;                                        // as data, other keys
 *     data.o = near_o, data.lse = near_lse;
 *     far.o = far_o, far.lse = far_lse, far.k = far_keys, far.v = far_values;
 *     s = fv_attn_forward(&a, &data, NULL, scratch, need);
 *     s = fv_attn_forward(&a, &far, NULL, scratch, need);
 *     fv_attn_merge(8, 64, near_o, 64, near_lse, far_o, 64, far_lse); // near_o: over all keys
 */
FV_API void fv_attn_merge(int64_t rows, int64_t width, float *o, int64_t o_row, float *lse,
                          const float *other_o, int64_t other_row, const float *other_lse);

/* ---- weights ---------------------------------------------------------------------- */

/*
 * A weight is p_ij of the formula above, before dropout. Hidden positions give exactly 0, and so
 * does every position of a query that sees no key.
 *
 * Of the data, q, k and lse are read, and bias, visible, key_lengths, slopes and w where they are
 * given; v and o are not. Results have the dtype of lse (indices are int64_t). Bits do not depend
 * on the threads, the batch or the region.
 *
 * Varlen documents are one sequence here: the map is that of the long row, zero where a query and a
 * key belong to different documents. So is everything else: batch is 1 in the shapes below, and
 * keys are numbered along the row; but positions, and with them distances, start at 0 in each
 * document. The region of document b alone starts at row q_begin[b], column k_begin[b].
 */

/* A region of the attention map: sequences, heads, queries and keys, and where the weights go. */
typedef struct fv_attn_region {
    size_t struct_size;
    int64_t batch, batches; /* the first sequence, and how many */
    int64_t head, heads;
    int64_t row, rows;
    int64_t col, cols;
    fv_attn_grid
        out; /* element strides of the result, which starts with the region's first weight */
} fv_attn_region;

/* The whole map, [batch][heads][n_q][n_k] without gaps. */
FV_API void fv_attn_region_init(fv_attn_region *region, size_t struct_size, const fv_attn *a);
/* Strides of [batches][heads][rows][cols] without gaps, from the sizes already set. */
FV_API void fv_attn_region_dense(fv_attn_region *region);

/* Scratch bytes with that many threads. Fails: ARGUMENT (a region beyond the map). */
FV_API FV_MUST_USE fv_status fv_attn_weights_scratch(const fv_attn *a, const fv_attn_region *region,
                                                     int threads, size_t *bytes);

/* Writes the region's weights. exec may be NULL. Fails: ARGUMENT, UNSUPPORTED (level, dtype). */
FV_API FV_MUST_USE fv_status fv_attn_weights(const fv_attn *a, const fv_attn_data *data,
                                             const fv_attn_region *region, const fv_attn_exec *exec,
                                             void *scratch, size_t scratch_bytes, void *weights);

/* Summaries of the weights; those whose pointer is NULL are not computed. */
typedef struct fv_attn_summary {
    size_t struct_size;
    /* The `top` largest weights above 0 of each query, descending, the lower key first where two
     * are equal; -1 and 0 where there are no more. Both [batch][heads][n_q][top]. */
    int64_t top;
    int64_t *top_index;
    void *top_weight;
    /* [batch][heads][n_q]: -sum_j p_ij ln p_ij, and sum_j p_ij |pos_i - j| */
    void *entropy, *distance;
    void *received; /* [batch][heads][n_k]: what each key receives from all queries, sum_i p_ij */
} fv_attn_summary;

FV_API FV_MUST_USE fv_status fv_attn_summary_scratch(const fv_attn *a, const fv_attn_summary *s,
                                                     int threads, size_t *bytes);
/* exec may be NULL. Fails: ARGUMENT, UNSUPPORTED (level, dtype). */
FV_API FV_MUST_USE fv_status fv_attn_summarise(const fv_attn *a, const fv_attn_data *data,
                                               const fv_attn_summary *s, const fv_attn_exec *exec,
                                               void *scratch, size_t scratch_bytes);

/* One number per head from one per query: means[batch][heads] of rows [batch][heads][n_q] over the
 * queries that see a key; 0 where none does. All of the dtype of lse. Fails: ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_attn_head_means(const fv_attn *a, const void *lse, const void *rows,
                                                void *means);

#ifdef __cplusplus
}
#endif
#endif
