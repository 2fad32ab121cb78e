/* Declarations shared by the files of the backward; see attention_grad.c. */
#ifndef FV_KERNELS_SIMD_ATTENTION_GRAD_H
#define FV_KERNELS_SIMD_ATTENTION_GRAD_H

#include "base/spin.h"
#include "kernels/simd/attention_bf16_dot.h"
#include "kernels/simd/attention_grad_order.h"

enum {
    BLOCK_ROWS = 96, /* queries, a multiple of the row tile */
    ROW_TILES = BLOCK_ROWS / FV_ATTN_TILE_ROWS,
    MAX_KEYS = 192, /* a multiple of the panel and of the row tile */
    WIDE_KEYS = 64, /* for widths beyond WIDE: the panels must stay in L2 */
    WIDE = 128,
};

typedef struct backward_plan {
    int64_t query_blocks, keys, key_blocks, score_row;
    int64_t wide_row;  /* floats per converted row */
    bool single_block; /* all keys are one block, which prepares the queries itself */
    int64_t bf16_row;  /* words per row of bf16 pairs */
    size_t k_panels, v_panels, weights, products, cap_grad, keep, slice, records, wide, bf16,
        additive;
    size_t thread_floats;
    size_t delta, shift, tickets, flags, wide_dq, sums_w, shared_floats;
} backward_plan;

/*
 * S and dP of bf16 rows with bf16 dot products (attention_grad_bf16.c); see attention_bf16_dot.h
 * for each function. The operands of both products are rows as stored; the other three products,
 * with P and dS, stay with the float tile. Converted rows and accumulated gradients are
 * deinterleaved then.
 */
typedef struct fv_attn_grad_products {
    void (*pack)(const void *k, int64_t row, int64_t keys, int64_t width, void *panels);
    fv_attn_bf16_rows (*rows_at)(const void *x, int64_t row, int64_t rows, int64_t width,
                                 uint32_t *buffer, int64_t buffer_row);
    bool (*deinterleave)(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                         int64_t to_row);
    void (*interleave)(const float *deinterleaved, int64_t row, int64_t rows, int64_t width,
                       void *to, int64_t to_row);
    void (*scores)(const void *x, int64_t x_row, int rows, const void *panels, int64_t width,
                   int64_t first, int64_t cols, float *s, int64_t s_row);
    void (*dots)(const void *x, int64_t x_row, const void *y, int64_t y_row, int64_t rows,
                 int64_t width, float *out);
} fv_attn_grad_products;

/* The backward; bf16 NULL: with the float tile. fv_attn_backward_bytes is its scratch, for
 * fv_attn_run_varlen. */
size_t fv_attn_backward_bytes(const void *args, int threads);
void fv_attn_backward_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                           const fv_attn_grad_products *bf16);

typedef struct backward_job {
    fv_attn_job base;
    backward_plan plan;
    backward_order order;
    const fv_attn_grad_products *bf16; /* or NULL */
    float deferred_scale;              /* factor applied to the scores when they become weights */
    float *delta;                      /* [batch][heads][n_q]: o . do - dlse */
    float *shift;        /* likewise: the log-sum-exp in base 2; 0 if no key is visible */
    atomic_int *tickets; /* [batch][heads][query_blocks]: next key block to add to dQ */
    uint8_t *finite;     /* likewise: no NaN or infinity in q and do */
    float *wide_dq;      /* [batch][heads][n_q] rows of wide_row: dQ while it accumulates */
    float *sums_w;       /* [batch][heads][key_blocks][d]: partial gradients of w */
    float *threads;
    bool has_value_grad; /* dP is needed: there is a gradient of o */
} backward_job;

typedef struct workspace {
    float *k_panels, *v_panels;
    float *weights, *products, *cap_grad; /* [rows][score_row]: P; dP, then dS; cap's slope */
    float *keep;
    float *slice; /* a packed slice of B, for attention_grad_products.c */
    fv_attn_rows wide_q, wide_g, wide_dq, wide_k, wide_dk, wide_dv; /* if rows are not floats */
    uint32_t *bf16_q, *bf16_g; /* if rows are not whole words */
    fv_attn_row *row;
    float *key_exp, *query_exp; /* additive scores: exponentials of the keys and of a query block */
    fv_attn_additive_sums sums; /* likewise; k for the whole work item, w for one of its heads */
} workspace;

/* Keys [first, first + count) of one key head. */
typedef struct key_block {
    int64_t b, h, first, count;
    int64_t number;
    fv_attn_rows k;
    bool overwrite_k, overwrite_v; /* the first product overwrites the gradient */
    bool finite;
    bool has_exp; /* additive scores: every key has an exponential in range */
} key_block;

/* Queries [first, first + rows) of one head, as processed with a key block. Visible keys are
 * relative to the key block. */
typedef struct query_block {
    int64_t h, first, rows;
    int64_t at;        /* first row in delta and shift */
    fv_attn_rows q, g; /* g: gradient of o */
    fv_attn_bf16_rows bf16_q, bf16_g;
    bool finite;
    bool has_exp; /* additive scores: every query has an exponential in range */
    fv_attn_visible_keys visible[ROW_TILES];
} query_block;

/* Floats per accumulated row of `width` elements. */
static inline int64_t sum_columns(const backward_job *job, int64_t width)
{
    return job->bf16 ? fv_attn_deinterleaved_row(width) : width;
}

/* For varlen documents: enough for any of them (attention_grad_plan.c). */
backward_plan fv_attn_backward_plan(const fv_attn *a);
workspace fv_attn_workspace_of(const backward_job *job, int thread);

/* Iterates over the row intervals whose row tiles see one of the keys [first, end) of the block;
 * *rows starts as {0, 0}. */
static inline bool next_rows_seeing(const query_block *block, int64_t first, int64_t end,
                                    fv_attn_interval *rows)
{
    const uint32_t groups = fv_attn_group_bits(first, end);
    int64_t begin = block->rows, r = fv_attn_round(rows->end, FV_ATTN_TILE_ROWS);
    for (; r < block->rows; r += FV_ATTN_TILE_ROWS) {
        const fv_attn_visible_keys *visible = &block->visible[r / FV_ATTN_TILE_ROWS];
        const bool sees = visible->interval.begin < end && visible->interval.end > first &&
                          (visible->groups & groups) != 0;
        if (sees && begin == block->rows) begin = r;
        if (!sees && begin < block->rows) break;
    }
    *rows = (fv_attn_interval){begin, fv_attn_min(r, block->rows)};
    return begin < block->rows;
}

/* The end of the rows from r on whose row tiles have equal visible keys; at most `max_rows`, a
 * multiple of the row tile. */
static inline int64_t end_of_equal_rows(const query_block *block, int64_t r, int64_t max_rows)
{
    const fv_attn_visible_keys *x = &block->visible[r / FV_ATTN_TILE_ROWS];
    const int64_t limit = fv_attn_min(block->rows, r + max_rows);
    for (r += FV_ATTN_TILE_ROWS; r < limit; r += FV_ATTN_TILE_ROWS) {
        const fv_attn_visible_keys *y = &block->visible[r / FV_ATTN_TILE_ROWS];
        if (x->interval.begin != y->interval.begin || x->interval.end != y->interval.end ||
            x->groups != y->groups)
            return r;
    }
    return limit;
}

/* ---- shared with the backward on tiles (attention_tiles_grad.h) -------------------- */

/* What depends on the pointers and settings; plan, order and shared memory are left to the caller.
 */
backward_job fv_attn_backward_job_of(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                                     const fv_attn_grad_products *bf16);

/* Log-sum-exps in base 2, and o_i . do_i - dlse_i. */
void fv_attn_prepare_queries(const backward_job *job, int64_t b, int64_t h, int64_t first,
                             int64_t count);

/* The numbers of the key blocks that these queries can see by position. No other block contributes;
 * a mask may still hide all of one. */
fv_attn_interval fv_attn_visible_key_blocks(const backward_job *job, int64_t b, int64_t first,
                                            int64_t count);

static inline void fv_attn_wait_for_ticket(atomic_int *ticket, int64_t number)
{
    for (int spins = 0; atomic_load_explicit(ticket, memory_order_acquire) != (int)number;)
        fv_spin(&spins);
}

/* Turns raw scores p and dP of rows [r, r + rows) over a key range, relative to the key block, into
 * P and dS; both are 0 where hidden. Uses row, cap_grad and keep of the workspace. */
void fv_attn_form_weights(const backward_job *job, const workspace *w, const key_block *keys,
                          const query_block *block, int64_t r, int rows, fv_attn_interval range,
                          float *p, float *ds, int64_t stride);

/* ---- the products with P and dS (attention_grad_products.c) ------------------------ */

/* grad += weights^T x: P and dO, or dS and q. overwrite: all of grad is written instead. */
void fv_attn_add_to_keys(const backward_job *job, const workspace *w, const key_block *keys,
                         const query_block *block, const float *weights, fv_attn_rows x,
                         int64_t width, bool overwrite, fv_attn_rows grad);
/* grad += dS k; overwrite: likewise. */
void fv_attn_add_to_queries(const backward_job *job, const workspace *w, const key_block *keys,
                            const query_block *block, bool overwrite, fv_attn_rows grad);

/* ---- additive scores (attention_grad_additive.c) ----------------------------------- */

/* Floats per thread, and their layout. */
int64_t fv_attn_additive_floats(const fv_attn *a, int64_t keys);
void fv_attn_additive_buffers(const fv_attn *a, int64_t keys, float *base, workspace *w);

/* Exponentials of the packed keys and of a query block; the former also clears the sums of the work
 * item. */
void fv_attn_exp_keys(const backward_job *job, const workspace *w, key_block *keys);
void fv_attn_exp_queries(const backward_job *job, const workspace *w, query_block *block);

/* The operands of the row tile that starts at row r. */
fv_attn_additive_operands fv_attn_operands_of(const backward_job *job, const workspace *w,
                                              const key_block *keys, const query_block *block,
                                              int64_t r);

/* Adds all gradients of a block for q, k and w to the sums of the workspace. */
void fv_attn_sum_block(const backward_job *job, const workspace *w, const key_block *keys,
                       const query_block *block);

/* Stores the sums: those of a block to its queries, of a work item to its keys, of a work item and
 * head to the partial gradients of w; then merges the latter in the order of sequences and key
 * blocks. */
void fv_attn_add_query_sums(const backward_job *job, const workspace *w, const query_block *block,
                            fv_attn_rows grad);
void fv_attn_add_key_sums(const backward_job *job, const workspace *w, const key_block *keys,
                          fv_attn_rows grad);
void fv_attn_store_partial_w(const backward_job *job, const workspace *w, const key_block *keys,
                             int64_t h);
void fv_attn_merge_partial_w(const backward_job *job);

#endif
