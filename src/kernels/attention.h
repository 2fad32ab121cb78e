/*
 * The attention kernels behind fovea/attention_kernels.h.
 *
 * q, k, v, o and their gradients have the dtype of the call; with bf16 and f16 everything else is
 * f32, sums are in float, and each result is rounded once.
 *
 * ATTENTION ptr: o, lse (or NULL), q, k, v, bias, visible, key_lengths, slopes, w,
 *   q_begin, k_begin, blocks (from bias on or NULL)
 * ATTENTION_GRAD ptr: grad_q, grad_k, grad_v, grad_bias, grad_w (each or NULL), grad_o, grad_lse
 *   (either or NULL), then the pointers of ATTENTION. grad_bias and grad_w are added to, and with
 *   adds_to_keys grad_k and grad_v; the others are written.
 *   With P the weights, D the dropout factors (0 or 1/(1-p)), delta_i = o_i . do_i - dlse_i:
 *     dP_ij = D_ij (do_i . v_j)        dS_ij = P_ij (dP_ij - delta_i)
 *     with a soft cap, dZ = scale dS (1 - (capped/c)^2), else dZ = scale dS
 *     dv_j = sum_i D_ij P_ij do_i      dbias_ij = dS_ij
 *   dot:      dq_i = sum_j dZ_ij k_j   dk_j = sum_i dZ_ij q_i
 *   additive, with t = tanh(q_ic + k_jc):
 *     dq_ic = w_c sum_j dZ_ij (1 - t^2), dk_jc likewise over i, dw_c = sum_ij dZ_ij t
 *   terms: 0 dP, 1 delta, 2 t^2 in 1 - t^2
 * args: fv_attn.
 */
#ifndef FV_KERNELS_ATTENTION_H
#define FV_KERNELS_ATTENTION_H

#include <math.h>

#include "base/rng.h"
#include "fovea/attention_kernels.h"
#include "kernels/kernel.h"

/* Pointer order of the two kernels. */
enum {
    FV_ATTN_O,
    FV_ATTN_LSE,
    FV_ATTN_Q,
    FV_ATTN_K,
    FV_ATTN_V,
    FV_ATTN_BIAS,
    FV_ATTN_VISIBLE,
    FV_ATTN_KEY_LENGTHS,
    FV_ATTN_SLOPES,
    FV_ATTN_W,
    FV_ATTN_Q_BEGIN,
    FV_ATTN_K_BEGIN,
    FV_ATTN_BLOCKS,
    FV_ATTN_POINTERS,
};
enum {
    FV_ATTN_GRAD_Q,
    FV_ATTN_GRAD_K,
    FV_ATTN_GRAD_V,
    FV_ATTN_GRAD_BIAS,
    FV_ATTN_GRAD_W,
    FV_ATTN_GRAD_O,
    FV_ATTN_GRAD_LSE,
    FV_ATTN_GRAD_INPUTS, /* from here the pointers of the forward pass, o first */
    FV_ATTN_GRAD_POINTERS = FV_ATTN_GRAD_INPUTS + FV_ATTN_POINTERS,
};

/* The dropout of batch row b draws by this key, for query i of head h from row fv_attn_draw. */
static inline uint64_t fv_attn_row_key(const fv_attn *a, int64_t b)
{
    return a->rule.dropout > 0 ? fv_rng_key(a->dropout_key, 0, a->first_row + (uint64_t)b) : 0;
}

static inline uint64_t fv_attn_draw(int64_t h, int64_t i)
{
    return (uint64_t)h << 32 | (uint64_t)i;
}

/* bf16 and f16 rows are converted to float before use and back at the end. */
static inline bool fv_attn_is_half(fv_dtype type) { return type == FV_BF16 || type == FV_F16; }

/* The factor of the scores: the rule's, or the default where that is 0. */
static inline double fv_attn_scale(const fv_attn *a)
{
    if (a->rule.scale != 0) return a->rule.scale;
    return a->score == FV_ATTN_SCORE_DOT ? 1.0 / sqrt((double)a->d) : 1;
}

/* The description with the scale resolved, as the kernels expect it. */
static inline fv_attn fv_attn_complete(const fv_attn *a)
{
    fv_attn full = *a;
    full.rule.scale = fv_attn_scale(a);
    return full;
}

/* Elements of a row of q and k that are read. */
static inline int64_t fv_attn_width(const fv_attn *a)
{
    return a->score == FV_ATTN_SCORE_NONE ? 0 : a->d;
}

/* The strides of a gradient: its own, or those of what it belongs to. */
static inline const fv_attn_layout *fv_attn_own_layout(const fv_attn_layout *own,
                                                       const fv_attn_layout *of)
{
    return own->batch || own->head || own->row ? own : of;
}
static inline const fv_attn_layout *fv_attn_layout_dq(const fv_attn *a)
{
    return fv_attn_own_layout(&a->grad_q, &a->q);
}
static inline const fv_attn_layout *fv_attn_layout_dk(const fv_attn *a)
{
    return fv_attn_own_layout(&a->grad_k, &a->k);
}
static inline const fv_attn_layout *fv_attn_layout_dv(const fv_attn *a)
{
    return fv_attn_own_layout(&a->grad_v, &a->v);
}
static inline const fv_attn_layout *fv_attn_layout_do(const fv_attn *a)
{
    return fv_attn_own_layout(&a->grad_o, &a->o);
}

/* Stride between the log-sum-exps of two heads. */
static inline int64_t fv_attn_lse_head(const fv_attn *a)
{
    return a->lse_head > 0 ? a->lse_head : a->n_q;
}

/* Bytes of an element of lse, bias, slopes and w. */
static inline size_t fv_attn_lse_size(const fv_attn *a)
{
    return a->dtype == FV_F64 ? sizeof(double) : sizeof(float);
}

/* Advances a pointer that may be NULL. */
static inline void fv_attn_advance(void **ptr, int64_t elements, size_t size)
{
    if (*ptr) *ptr = (char *)*ptr + elements * (int64_t)size;
}

/*
 * Varlen documents (attention_varlen.c). A kernel that gets a varlen description calls
 *
 *     if (a->varlen) {
 *         fv_attn_run_varlen(exec, ptr, a, false, forward, forward_bytes);
 *         return;
 *     }
 *
 * which calls it back for each document with a plain description. Offsets that do not ascend from 0
 * to the total raise a fault. Scratch: what `scratch` returns for a varlen description with batch 1
 * must be enough for any document that is not longer.
 */
typedef size_t (*fv_attn_scratch_fn)(const void *args, int threads);
void fv_attn_run_varlen(const fv_exec *exec, void *const *ptr, const fv_attn *a, bool backward,
                        fv_kernel_fn kernel, fv_attn_scratch_fn scratch);
/* Scratch bytes of any description, varlen or not. */
size_t fv_attn_whole_scratch(const fv_attn *a, int threads, fv_attn_scratch_fn scratch);
bool fv_attn_offsets_are_valid(const int64_t *begin, int64_t documents, int64_t total);

/* The same for any other call: run(user, b, exec) processes document b. Long documents run one
 * after the other with all threads, then short ones in parallel, one thread each; in_order: all one
 * after the other. Raises a fault and returns false if the offsets do not ascend from 0 to the
 * totals. */
typedef struct fv_attn_documents {
    const int64_t *q_begin, *k_begin;
    void (*run)(const void *user, int64_t b, const fv_exec *exec);
    const void *user;
    bool in_order;
} fv_attn_documents;
bool fv_attn_each_document(const fv_exec *exec, const fv_attn *a, const fv_attn_documents *all,
                           fv_attn_scratch_fn scratch);
/* Document b as a plain description; advances the pointers of the forward pass to its rows. */
fv_attn fv_attn_document(const fv_attn *a, int64_t b, void **in);

/* Check sizes, widths and the rule; the offsets of varlen documents. Kernels rely on both. */
fv_status fv_attn_check(const fv_attn *a);
/* The description of a caller, whose struct may be older and smaller, completed and checked. */
fv_status fv_attn_read(const fv_attn *given, fv_attn *full);
fv_status fv_attn_check_documents(const fv_attn *a, const fv_attn_data *data);

/* Runs a kernel of the attention family over raw pointers. Fails: ARGUMENT, UNSUPPORTED. */
fv_status fv_attn_run(fv_kernel_id kernel, fv_dtype dtype, const void *args,
                      const fv_attn_exec *exec, void *const *ptr, void *scratch,
                      size_t scratch_bytes);
/* The maximum over all usable levels, so that the level can be chosen later. */
fv_status fv_attn_kernel_scratch(fv_kernel_id kernel, const void *args, int threads, size_t *bytes);
/* The pointers of the forward pass. */
void fv_attn_fill_inputs(void **ptr, const fv_attn_data *data);

/*
 * The keys that query i of sequence b can see by position: [0, prefix) and [low, high), disjoint
 * and clipped to the sequence's length. The mask `visible` is applied in addition.
 */
typedef struct fv_attn_range {
    int64_t prefix, low, high;
} fv_attn_range;

static inline int64_t fv_attn_position(const fv_attn *a, int64_t i)
{
    return i + a->rule.q_offset + (a->rule.causal == FV_CAUSAL_BOTTOM_RIGHT ? a->n_k - a->n_q : 0);
}

static inline fv_attn_range fv_attn_visible_range(const fv_attn *a, int64_t n_keys, int64_t i)
{
    int64_t position = fv_attn_position(a, i);
    int64_t low = 0, high = n_keys;
    if (a->rule.causal != FV_CAUSAL_NONE && position + 1 < high) high = position + 1;
    /* compared so that no window, however wide, overflows */
    if (a->rule.right >= 0 && a->rule.right < high - position - 1)
        high = position + a->rule.right + 1;
    if (a->rule.left >= 0 && a->rule.left < position - low) low = position - a->rule.left;
    int64_t prefix = a->rule.prefix < n_keys ? a->rule.prefix : n_keys;
    if (low < prefix) low = prefix;
    if (high < low) high = low;
    return (fv_attn_range){prefix, low, high};
}

/* The row of the block mask for query i, or NULL; key blocks have stride a->blocks.col. */
static inline const uint8_t *fv_attn_block_row(const fv_attn *a, const uint8_t *blocks, int64_t b,
                                               int64_t h, int64_t i)
{
    const fv_attn_grid *g = &a->blocks;
    return blocks ? blocks + b * g->batch + h * g->head + i / a->rule.block_q * g->row : NULL;
}

/* The number of keys of sequence b. */
static inline int64_t fv_attn_keys(const fv_attn *a, const int64_t *n_keys, int64_t b)
{
    if (!n_keys) return a->n_k;
    int64_t n = n_keys[b];
    return n < 0 ? 0 : n > a->n_k ? a->n_k : n;
}

#endif
