/*
 * fovea/attention_weights.h: where attention looks, beside the fast kernel. The forward pass keeps
 * no weights, but from its log-sum-exp any of them can be had again, exactly as it used them:
 *
 *     // after fv_attn_forward(&a, &data, ...) with data.lse: the map of one head ...
 *     fv_attn_window w;
 *     fv_attn_window_init(&a, &w, sizeof w);          // everything
 *     w.head = 3;
 *     w.heads = 1;
 *     fv_attn_window_dense(&w);                       // map is [batch][1][n_q][n_k]
 *     size_t need = 0;
 *     fv_status s = fv_attn_map_scratch(&a, &w, 1, &need);
 *     void *scratch = aligned_alloc(64, need);
 *     if (s == FV_OK) s = fv_attn_map(&a, &data, &w, map, NULL, scratch, need);
 *
 *     // ... or, without a queries x keys array, the 16 strongest of each row and their spread
 *     fv_attn_summary sum = {.struct_size = sizeof sum, .top = 16, .top_index = index,
 *                            .top_weight = weight, .entropy = entropy};
 *     s = fv_attn_summarise(&a, &data, &sum, NULL, scratch, need);
 *
 * A weight is p_ij = exp(s_ij - lse_i) of fovea/attention.h, before dropout. Hidden positions give
 * exactly 0, and so does every position of a query that sees no key.
 *
 * Of the data, q, k and lse are read, and bias, visible, n_keys, slopes and w where they are given;
 * v and o are not looked at. Results have the dtype of lse (indices are int64_t). Nothing is
 * allocated; bits do not depend on the threads, the batch or the window.
 *
 * Documents packed in one row are one sequence here: the map is that of the long row, zero where a
 * query and a key belong to different documents. So is everything else: batch is 1 in the shapes
 * below, and keys are numbered along the row; but positions, and with them distances, begin anew in
 * each document. The window of document b alone has row = q_begin[b] and col = k_begin[b].
 */
#ifndef FOVEA_ATTENTION_WEIGHTS_H
#define FOVEA_ATTENTION_WEIGHTS_H

#include "fovea/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A part of the map: which sequences, heads, queries and keys, and where their weights go. */
typedef struct fv_attn_window {
    size_t struct_size;
    int64_t batch, batches; /* the first sequence, and how many */
    int64_t head, heads;
    int64_t row, rows;
    int64_t col, cols;
    fv_attn_grid out; /* element strides of the result; it begins with the window's first weight */
} fv_attn_window;

/* The whole map, [batch][heads][n_q][n_k] without gaps. */
FV_API void fv_attn_window_init(const fv_attn *a, fv_attn_window *w, size_t struct_size);
/* Strides of [batches][heads][rows][cols] without gaps, from the sizes already set. */
FV_API void fv_attn_window_dense(fv_attn_window *w);

/* Scratch bytes with that many threads. Fails: ARGUMENT (a window beyond the map). */
FV_API FV_MUST_USE fv_status fv_attn_map_scratch(const fv_attn *a, const fv_attn_window *w,
                                                 int threads, size_t *bytes);

/* Writes the window's weights. exec may be NULL. Fails: ARGUMENT, UNSUPPORTED (level, dtype). */
FV_API FV_MUST_USE fv_status fv_attn_map(const fv_attn *a, const fv_attn_data *data,
                                         const fv_attn_window *w, void *weights,
                                         const fv_attn_exec *exec, void *scratch,
                                         size_t scratch_bytes);

/* What to tell about the weights; pointers that are NULL are not computed. */
typedef struct fv_attn_summary {
    size_t struct_size;
    /* The `top` largest weights above 0 of each query, falling, the lower key first where two are
     * equal; -1 and 0 where there are no more. Both [batch][heads][n_q][top]. */
    int64_t top;
    int64_t *top_index;
    void *top_weight;
    /* [batch][heads][n_q]: -sum_j p_ij ln p_ij, and sum_j p_ij |pos_i - j| */
    void *entropy, *distance;
    void *received; /* [batch][heads][n_k]: what each key got of all queries, sum_i p_ij */
} fv_attn_summary;

FV_API FV_MUST_USE fv_status fv_attn_summary_scratch(const fv_attn *a, const fv_attn_summary *s,
                                                     int threads, size_t *bytes);
/* exec may be NULL. Fails: ARGUMENT, UNSUPPORTED (level, dtype). */
FV_API FV_MUST_USE fv_status fv_attn_summarise(const fv_attn *a, const fv_attn_data *data,
                                               const fv_attn_summary *s, const fv_attn_exec *exec,
                                               void *scratch, size_t scratch_bytes);

/* One number a head from one a query: means[batch][heads] of rows [batch][heads][n_q] over the
 * queries that see a key; 0 where none does. All of the dtype of lse. Fails: ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_attn_head_means(const fv_attn *a, const void *lse, const void *rows,
                                                void *means);

/* ---- the ops ----------------------------------------------------------------------- */

/*
 * The same with tensors, on any device: q, k, cfg and extra as they were given to fv_attend, and
 * the log-sum-exp it returned.
 *
 *     fv_tensor *lse, *y = fv_attend(ctx, q, k, v, &cfg, NULL, &lse);
 *     fv_tensor *p = fv_attend_weights(ctx, q, k, lse, &cfg, NULL);     // [batch, heads, n_q, n_k]
 *
 * Results have the dtype of lse and no gradient. Documents packed in one row are told about as
 * above: fv_attend_weights gives [1, heads, all queries, all keys].
 */
FV_API fv_tensor *fv_attend_weights(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *lse,
                                    const fv_attend_config *cfg, const fv_attend_extra *extra);

/* A rectangle of every sequence's maps: which heads, queries and keys. */
typedef struct fv_attend_part {
    int64_t head, heads; /* the first, and how many */
    int64_t row, rows;
    int64_t col, cols;
} fv_attend_part;

/*
 * A part of fv_attend_weights, [batch, part->heads, part->rows, part->cols], bit for bit: a long
 * map can be met piece by piece, in the memory of a piece. A document of a packed row has its own
 * map at row = q_begin[b], col = k_begin[b]. Poisons, besides: ARGUMENT (a part beyond the map).
 *
 *     fv_attend_part band = {.head = 3, .heads = 1, .row = 512, .rows = 64, .cols = n_k};
 *     // [batch, 1, 64, n_k]
 *     fv_tensor *p = fv_attend_weights_part(ctx, q, k, lse, &band, &cfg, NULL);
 */
FV_API fv_tensor *fv_attend_weights_part(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *lse,
                                         const fv_attend_part *part, const fv_attend_config *cfg,
                                         const fv_attend_extra *extra);

/* The `top` largest weights of each row, [batch, heads, n_q, top], as fv_attn_summary has them; the
 * keys they belong to (i64) through `indices`, unless NULL. */
FV_API fv_tensor *fv_attend_top(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *lse,
                                int64_t top, const fv_attend_config *cfg,
                                const fv_attend_extra *extra, fv_tensor **indices);

/* How widely attention is spread; see fv_attn_summary. */
typedef struct fv_attend_summary {
    fv_tensor *entropy, *distance;           /* [batch, heads, n_q] */
    fv_tensor *received;                     /* [batch, heads, n_k] */
    fv_tensor *head_entropy, *head_distance; /* [batch, heads]: means over queries that see a key */
} fv_attend_summary;

FV_API fv_attend_summary fv_attend_summarise(fv_ctx *ctx, fv_tensor *q, fv_tensor *k,
                                             fv_tensor *lse, const fv_attend_config *cfg,
                                             const fv_attend_extra *extra);

#ifdef __cplusplus
}
#endif
#endif
