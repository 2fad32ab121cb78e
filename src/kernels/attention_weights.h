/*
 * The kernels that recompute weights, behind fovea/attention_kernels.h.
 *
 * ATTENTION_MAP ptr: weights, then the pointers of ATTENTION with o and v NULL.
 * args: fv_attn_weights_args
 * ATTENTION_SUMMARY ptr: top_index, top_weight, entropy, distance, received (each or NULL), then
 * the pointers of ATTENTION with o and v NULL. args: fv_attn_summary_args
 */
#ifndef FV_KERNELS_ATTENTION_WEIGHTS_H
#define FV_KERNELS_ATTENTION_WEIGHTS_H

#include "kernels/attention.h"

enum { FV_ATTN_MAP_OUT, FV_ATTN_MAP_INPUTS };
enum {
    FV_ATTN_TOP_INDEX,
    FV_ATTN_TOP_WEIGHT,
    FV_ATTN_ENTROPY,
    FV_ATTN_DISTANCE,
    FV_ATTN_RECEIVED,
    FV_ATTN_SUMMARY_INPUTS
};

typedef struct fv_attn_weights_args {
    fv_attn a;
    fv_attn_region region;
} fv_attn_weights_args;

typedef struct fv_attn_summary_args {
    fv_attn a;
    int64_t top;
    /* Of a varlen document: strides between heads for arrays with one entry per query and per key
     * (0: n_q, n_k), and the number of its first key. */
    int64_t q_head, k_head, first_key;
} fv_attn_summary_args;

static inline int64_t fv_attn_summary_row(const fv_attn_summary_args *s, int64_t head, int64_t i)
{
    return head * (s->q_head > 0 ? s->q_head : s->a.n_q) + i;
}
static inline int64_t fv_attn_summary_key(const fv_attn_summary_args *s, int64_t head, int64_t j)
{
    return head * (s->k_head > 0 ? s->k_head : s->a.n_k) + j;
}

/*
 * Varlen documents (attention_weights_varlen.c): called by a kernel that gets a varlen description,
 * which is called back for each document. `scratch` takes a description, for its whole map.
 */
void fv_attn_weights_varlen(const fv_exec *exec, void *const *ptr, const fv_attn_weights_args *args,
                            fv_kernel_fn kernel, fv_attn_scratch_fn scratch);
void fv_attn_summary_varlen(const fv_exec *exec, void *const *ptr, const fv_attn_summary_args *args,
                            fv_kernel_fn kernel, fv_attn_scratch_fn scratch);

/* Inserts a weight among the sorted `top` of a row; the caller has checked that it is larger than
 * the last. Earlier keys stay before later ones of equal weight. */
#define FV_ATTN_INSERT(weight, index, top, p, key)                                                 \
    do {                                                                                           \
        int64_t at_ = (top)-1;                                                                     \
        for (; at_ > 0 && (p) > (weight)[at_ - 1]; at_--) {                                        \
            (weight)[at_] = (weight)[at_ - 1];                                                     \
            (index)[at_] = (index)[at_ - 1];                                                       \
        }                                                                                          \
        (weight)[at_] = (p);                                                                       \
        (index)[at_] = (key);                                                                      \
    } while (0)

#endif
