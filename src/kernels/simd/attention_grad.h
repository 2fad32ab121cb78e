/* What the files of the backward share: attention_grad.c has the story. */
#ifndef FV_KERNELS_SIMD_ATTENTION_GRAD_H
#define FV_KERNELS_SIMD_ATTENTION_GRAD_H

#include "kernels/simd/attention_grad_order.h"
#include "kernels/simd/attention_pairs.h"

enum {
    BLOCK_ROWS = 96, /* queries, a multiple of the strip */
    STRIPS = BLOCK_ROWS / FV_ATTN_STRIP,
    MOST_KEYS = 192, /* a multiple of the panel and of the strip */
    WIDE_KEYS = 64,  /* for widths beyond WIDE: the panels must stay in the second-level cache */
    WIDE = 128,
    SPINS_BEFORE_YIELD = 64,
};

typedef struct backward_plan {
    int64_t row_items, keys, key_units, score_row;
    int64_t wide_row; /* floats of a widened row */
    bool alone;       /* one unit meets each query: it prepares them itself, block by block */
    int64_t pair_row; /* words of a row in pairs */
    size_t k_panels, v_panels, weights, products, slack, keep, slice, records, wide, pairs,
        additive;
    size_t thread_floats;
    size_t delta, shift, tickets, flags, wide_dq, sums_w, shared_floats;
} backward_plan;

/*
 * S and dP of bf16 rows by another instruction than the float tile's (attention_grad_bf16.c), whose
 * words hold two numbers: attention_pairs.h says what each function does. Both products have
 * operands that are rows as they are stored; the other three, of P and dS, which are not, stay with
 * the float tile. Widened rows and gradients on their way are split then.
 */
typedef struct fv_attn_grad_pairs {
    void (*pack)(const void *k, int64_t row, int64_t keys, int64_t width, void *panels);
    fv_attn_pair_rows (*rows_at)(const void *x, int64_t row, int64_t rows, int64_t width,
                                 uint32_t *room, int64_t room_row);
    bool (*split)(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                  int64_t to_row);
    void (*unite)(const float *split, int64_t row, int64_t rows, int64_t width, void *to,
                  int64_t to_row);
    void (*scores)(const void *x, int64_t x_row, int rows, const void *panels, int64_t width,
                   int64_t first, int64_t cols, float *s, int64_t s_row);
    void (*dots)(const void *x, const void *y, int64_t row, int64_t rows, int64_t width,
                 float *out);
} fv_attn_grad_pairs;

/* The backward; pairs NULL: by the float tile. Its scratch, as fv_attn_run_varlen wants it. */
size_t fv_attn_backward_bytes(const void *args, int threads);
void fv_attn_backward_by(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                         const fv_attn_grad_pairs *pairs);

typedef struct backward_job {
    fv_attn_job base;
    backward_plan plan;
    backward_order order;
    const fv_attn_grad_pairs *pairs; /* or NULL */
    float late;          /* what scores are yet to be multiplied with when they become weights */
    float *delta;        /* [batch][heads][n_q]: o . do - dlse */
    float *shift;        /* likewise: the log-sum-exp in base 2; 0 where no key is seen */
    atomic_int *tickets; /* [batch][heads][row_items] */
    uint8_t *finite;     /* likewise: no NaN or infinity in q and do */
    float *wide_dq;      /* [batch][heads][n_q] rows of wide_row: dQ while it grows */
    float *sums_w;       /* [batch][heads][key_units][d]: parts of w's gradient */
    float *threads;
    bool through_values; /* dP is wanted: there is a gradient of o */
} backward_job;

typedef struct workspace {
    float *k_panels, *v_panels;
    float *weights, *products, *slack; /* [BLOCK_ROWS][score_row]: P, then dP and dS, cap's slope */
    float *keep;
    float *slice; /* of a right side, for attention_grad_products.c */
    fv_attn_rows wide_q, wide_g, wide_dq, wide_k, wide_dk, wide_dv; /* where rows are not floats */
    uint32_t *pair_q, *pair_g; /* where rows are not whole words */
    fv_attn_row *row;
    float *ek, *eq;             /* additive scores: exponentials of the keys and of a query block */
    fv_attn_additive_sums sums; /* likewise; k for the whole unit, w for one of its heads */
} workspace;

/* Keys [first, first + count) of one key head. */
typedef struct key_block {
    int64_t b, h, first, count;
    int64_t number;
    fv_attn_rows k;
    bool begins_k, begins_v; /* their gradients are yet to be written to, not to be added to */
    bool finite;
    bool raised; /* additive scores: every key has an exponential */
} key_block;

/* Queries [first, first + rows) of one head, as a key block meets them. What is in sight is
 * relative to the key block. */
typedef struct query_block {
    int64_t h, first, rows;
    int64_t at;        /* of its first row in delta and shift */
    fv_attn_rows q, g; /* g: gradient of o */
    fv_attn_pair_rows pair_q, pair_g;
    bool finite;
    bool raised; /* additive scores: every query has an exponential */
    fv_attn_sight sight[STRIPS];
} query_block;

/* Floats of a row of `width` numbers that products add to. */
static inline int64_t sum_columns(const backward_job *job, int64_t width)
{
    return job->pairs ? fv_attn_split_row(width) : width;
}

/* Of packed documents: enough for any of them (attention_grad_plan.c). */
backward_plan fv_attn_backward_plan(const fv_attn *a);
workspace fv_attn_workspace_of(const backward_job *job, int thread);

/* Goes from run to run of rows whose strips see one of the keys [first, end) of the block: *rows
 * begins as {0, 0}. */
static inline bool next_rows_in_sight(const query_block *block, int64_t first, int64_t end,
                                      fv_attn_span *rows)
{
    const uint32_t groups = fv_attn_group_bits(first, end);
    int64_t begin = block->rows, r = fv_attn_round(rows->end, FV_ATTN_STRIP);
    for (; r < block->rows; r += FV_ATTN_STRIP) {
        const fv_attn_sight *sight = &block->sight[r / FV_ATTN_STRIP];
        const bool sees =
            sight->span.begin < end && sight->span.end > first && (sight->groups & groups) != 0;
        if (sees && begin == block->rows) begin = r;
        if (!sees && begin < block->rows) break;
    }
    *rows = (fv_attn_span){begin, fv_attn_min(r, block->rows)};
    return begin < block->rows;
}

/* Where the rows from r on end whose strips have the same in sight; `most` of them at most, a
 * multiple of the strip. */
static inline int64_t end_of_rows_alike(const query_block *block, int64_t r, int64_t most)
{
    const fv_attn_sight *x = &block->sight[r / FV_ATTN_STRIP];
    const int64_t limit = fv_attn_min(block->rows, r + most);
    for (r += FV_ATTN_STRIP; r < limit; r += FV_ATTN_STRIP) {
        const fv_attn_sight *y = &block->sight[r / FV_ATTN_STRIP];
        if (x->span.begin != y->span.begin || x->span.end != y->span.end || x->groups != y->groups)
            return r;
    }
    return limit;
}

/* ---- the products with P and dS (attention_grad_products.c) ------------------------ */

/* grad += weights^T x: P and dO, or dS and q. begins: all of it is written instead. */
void fv_attn_add_to_keys(const backward_job *job, const workspace *w, const key_block *keys,
                         const query_block *block, const float *weights, fv_attn_rows x,
                         int64_t width, bool begins, fv_attn_rows grad);
/* grad += dS k; begins: likewise. */
void fv_attn_add_to_queries(const backward_job *job, const workspace *w, const key_block *keys,
                            const query_block *block, bool begins, fv_attn_rows grad);

/* ---- additive scores (attention_grad_additive.c) ----------------------------------- */

/* Floats of a thread's share, and where they lie. */
int64_t fv_attn_additive_floats(const fv_attn *a, int64_t keys);
void fv_attn_additive_room(const fv_attn *a, int64_t keys, float *base, workspace *w);

/* Exponentials of the packed keys, of a block of queries; the former begin the sums of a unit. */
void fv_attn_raise_keys(const backward_job *job, const workspace *w, key_block *keys);
void fv_attn_raise_queries(const backward_job *job, const workspace *w, query_block *block);

/* Both sides of the strip that begins at row r. */
fv_attn_sides fv_attn_sides_of(const backward_job *job, const workspace *w, const key_block *keys,
                               const query_block *block, int64_t r);

/* All of a block's gradients of q, k and w into the sums of the workspace. */
void fv_attn_sum_block(const backward_job *job, const workspace *w, const key_block *keys,
                       const query_block *block);

/* The sums go where they belong: those of a block to its queries, of a unit to its keys, of a unit
 * and head to w's parts; and the parts, in the order of sequences and key blocks, to w. */
void fv_attn_query_sums(const backward_job *job, const workspace *w, const query_block *block,
                        fv_attn_rows grad);
void fv_attn_key_sums(const backward_job *job, const workspace *w, const key_block *keys,
                      fv_attn_rows grad);
void fv_attn_w_sums(const backward_job *job, const workspace *w, const key_block *keys, int64_t h);
void fv_attn_join_w(const backward_job *job);

#endif
