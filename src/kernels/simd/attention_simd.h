/*
 * Declarations shared by the SIMD attention kernels; docs/kernels.md shows how they work together.
 * They are built on the GEMM register tile (gemm_simd.h), which computes each element as one chain
 * of multiply-adds, so that neither the tile shape nor the division into blocks affects a result.
 *
 *   attention.c                forward: query blocks x key blocks, online softmax
 *   attention_decode.c         forward for up to eight queries over a long KV cache
 *   attention_single_query.c   additive scores with one query per sequence, forward and backward
 *   attention_grad.c           backward: key blocks x query blocks
 *   attention_grad_order.h     the order of its work items
 *   attention_grad_products.c  its products with P and dS
 *   attention_merge.c          merges partial results over chunks of keys
 *   attention_score.c          one row of scores: cap, slope, bias, mask, dropout
 *   attention_softmax.c        scores to weights, with a running maximum
 *   attention_rows.c           f32, bf16 and f16 rows to floats and back
 *   attention_additive.c       sum_c w_c tanh(q_c + k_c) and its gradients
 *   attention_grad_additive.c  the backward with these
 *   attention_bf16.c           bf16 dot products in the forward pass
 *   attention_decode_bf16.c    in decoding
 *   attention_grad_bf16.c      in two of the five products of the backward
 *   attention_bf16_dot.c       shared by these three
 *   attention_tiles.h          bf16 products on AMX tiles, forward and backward
 *
 * Scores are kept in base 2, multiplied by log2(e), so that a weight is 2^(s - row_max).
 *
 * Hidden keys. Key blocks that no query of a row tile sees are skipped. Elsewhere a hidden score
 * becomes -inf and its weight exactly 0; a weight of 0 leaves every finite sum unchanged, so the
 * bits of a query do not depend on other queries. Only NaN and infinity would leak through 0 x NaN:
 * blocks that contain one are multiplied by fv_attn_product with skip_zeros.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_SIMD_H
#define FV_KERNELS_SIMD_ATTENTION_SIMD_H

#include "kernels/attention.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/vmath.h"

#define FV_ATTN_LOG2E 1.44269504088896340736
#define FV_ATTN_LN2   0.69314718055994530942

enum {
    FV_ATTN_PANEL = FV_TILE_COLS,          /* keys of a packed panel: contiguous for one tile */
    FV_ATTN_TILE_ROWS = FV_GEMM_TILE_ROWS, /* query rows processed together by a tile, */
    FV_ATTN_MAX_TILE_ROWS = 32,            /* ... by AMX tiles */
    FV_ATTN_DECODE_QUERIES = 8,            /* queries per sequence in decoding, at most, */
    FV_ATTN_DECODE_ROWS = 32,              /* ... and rows with all heads that share a key head */
    FV_ATTN_CHUNK_QUERIES = 16, /* queries per sequence, at most, for splitting keys into chunks */
    FV_ATTN_CHUNK = 2048,       /* keys per chunk, a multiple of the blocks */
    FV_ATTN_BLOCK = 256,        /* keys between two updates of the running maximum, */
    FV_ATTN_LONG_BLOCK = 512,   /* ... if rows are narrow */
    FV_ATTN_KEY_STEP = 8,       /* keys: half a vector, which makes a tile that much cheaper */
    /* Row strides of scores: an odd number of cache lines, so that rows spread over the cache
     * sets. */
    FV_ATTN_SCORE_ROW = FV_ATTN_BLOCK + FV_LANES,
    FV_ATTN_LONG_SCORE_ROW = FV_ATTN_LONG_BLOCK + FV_LANES,
    FV_ATTN_WEIGHT_ROW = FV_ATTN_LONG_BLOCK / 2 + FV_LANES, /* the same for weights in pairs */
};

typedef struct fv_attn_job {
    const fv_exec *exec;
    const fv_attn *a;
    void *const *ptr;  /* of the forward pass */
    void *const *grad; /* of the backward pass, or NULL */
    float factor;      /* of the products: scale, times log2(e) if nothing is added to the score */
    float operand;     /* the part of it applied to an operand of the product: all, or 1 */
    bool plain;        /* no cap, slope or bias */
    bool list_applied; /* key ranges already exclude what the block mask hides */
} fv_attn_job;

/* What the scores of one query need. */
typedef struct fv_attn_row {
    fv_attn_range range;
    int64_t position;
    const float *bias;      /* or NULL; stride a->bias.col */
    const uint8_t *visible; /* or NULL; stride a->visible.col */
    const uint8_t *blocks;  /* or NULL; stride a->blocks.col */
    const float *w;         /* of the additive score, or NULL */
    float slope;
    uint64_t key, draw; /* of the dropout */
} fv_attn_row;

static inline int64_t fv_attn_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fv_attn_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fv_attn_round(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Rounds up to whole cache lines. */
static inline size_t fv_attn_lines(size_t floats) { return (floats + 15) / 16 * 16; }

/* Address of row i of an array of the call's dtype. */
static inline const void *fv_attn_at(const fv_attn *a, const void *base, const fv_attn_layout *l,
                                     int64_t b, int64_t h, int64_t i)
{
    return (const char *)base +
           (b * l->batch + h * l->head + i * l->row) * (int64_t)fv_dtype_size(a->dtype);
}

/* The same in an output array; NULL if it is not requested. */
static inline void *fv_attn_out(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                                int64_t h, int64_t i)
{
    return base ? (void *)(uintptr_t)fv_attn_at(a, base, l, b, h, i) : NULL;
}

static inline int64_t fv_attn_kv_head(const fv_attn *a, int64_t h)
{
    return h / (a->heads / a->kv_heads);
}

/* Keys of [first, end) that some row of a row tile may see: the smallest such interval, starting at
 * a multiple of the lanes. Empty: begin = end. */
typedef struct fv_attn_interval {
    int64_t begin, end;
} fv_attn_interval;

static inline fv_attn_interval fv_attn_visible_interval(const fv_attn_row *row, int rows,
                                                        int64_t first, int64_t end)
{
    const int64_t prefix = row->range.prefix;
    int64_t low = INT64_MAX, high = 0;
    for (int r = 0; r < rows; r++) {
        if (row[r].range.low >= row[r].range.high) continue;
        low = fv_attn_min(low, row[r].range.low);
        high = fv_attn_max(high, row[r].range.high);
    }
    if (prefix > first) low = 0;
    high = fv_attn_max(high, prefix);
    if (low >= end || high <= first) return (fv_attn_interval){first, first};
    return (fv_attn_interval){fv_attn_max(first, low / FV_LANES * FV_LANES),
                              fv_attn_min(end, high)};
}

/* The same with holes, where the block mask hides keys. Bit g of `groups` stands for the keys
 * [first + 16 g, first + 16 g + 16); first is a multiple of 16, and there are at most 512 keys. */
typedef struct fv_attn_visible_keys {
    fv_attn_interval interval;
    uint32_t groups;
} fv_attn_visible_keys;

static inline uint32_t fv_attn_group_bits(int64_t begin, int64_t end)
{
    return (uint32_t)(((uint64_t)1 << (end + FV_LANES - 1) / FV_LANES) -
                      ((uint64_t)1 << begin / FV_LANES));
}

static inline fv_attn_visible_keys fv_attn_find_visible_keys(const fv_attn *a,
                                                             const fv_attn_row *row, int rows,
                                                             int64_t first, int64_t end)
{
    const fv_attn_interval interval = fv_attn_visible_interval(row, rows, first, end);
    fv_attn_visible_keys visible = {
        interval, fv_attn_group_bits(interval.begin - first, interval.end - first)};
    if (!row->blocks) return visible;
    uint32_t seen = 0;
    for (int r = 0; r < rows; r++) {
        if (r > 0 && row[r].blocks == row[r - 1].blocks) continue;
        for (int64_t j = interval.begin, next; j < interval.end; j = next) {
            const int64_t block = j / a->rule.block_k;
            next = fv_attn_min(interval.end, (block + 1) * a->rule.block_k);
            if (row[r].blocks[block * a->blocks.col])
                seen |= fv_attn_group_bits(j - first, next - first);
        }
    }
    visible.groups &= seen;
    if (visible.groups == 0) return (fv_attn_visible_keys){{first, first}, 0};
    const int64_t low = __builtin_ctz(visible.groups), high = 32 - __builtin_clz(visible.groups);
    visible.interval.begin = fv_attn_max(interval.begin, first + low * FV_LANES);
    visible.interval.end = fv_attn_min(interval.end, first + high * FV_LANES);
    return visible;
}

/* Makes the key ranges start and end at multiples of 32 keys from `first`, itself such a multiple.
 * The keys that this adds are hidden from some rows or all. */
static inline void fv_attn_widen_visible_keys(fv_attn_visible_keys *visible, int64_t first)
{
    const uint32_t even = 0x55555555u, either = (visible->groups | visible->groups >> 1) & even;
    visible->groups = either | either << 1;
    if (either == 0) return;
    const int64_t low = __builtin_ctz(visible->groups), high = 32 - __builtin_clz(visible->groups);
    visible->interval = (fv_attn_interval){first + low * FV_LANES, first + high * FV_LANES};
}

/* Queries from i on that use the same row of the block mask, at most `left`. */
static inline int64_t fv_attn_rows_of_mask(const fv_attn *a, int64_t i, int64_t left)
{
    return a->rule.block_q > 0 ? fv_attn_min(left, a->rule.block_q - i % a->rule.block_q) : left;
}

/* Rows of the row tile that starts at query i, with `left` queries remaining: all use the same row
 * of the block mask. The last two tiles divide the remainder evenly, since with AVX2 a tile of one
 * to three rows takes as long as one of four. */
static inline int fv_attn_tile_rows(const fv_attn *a, int64_t i, int64_t left)
{
    left = fv_attn_rows_of_mask(a, i, left);
    return (int)(left >= 2 * FV_ATTN_TILE_ROWS ? FV_ATTN_TILE_ROWS
                 : left > FV_ATTN_TILE_ROWS    ? (left + 1) / 2
                                               : left);
}

/* Iterates over contiguous key ranges; *range starts as {first, first}. */
static inline bool fv_attn_next_key_range(const fv_attn_visible_keys *visible, int64_t first,
                                          fv_attn_interval *range)
{
    const int64_t done = (range->end - first + FV_LANES - 1) / FV_LANES;
    const uint64_t groups = visible->groups, left = groups >> done; /* done may be all 32 */
    if (left == 0) return false;
    const int64_t begin = done + __builtin_ctzll(left);
    const int64_t count = __builtin_ctzll(~(groups >> begin));
    range->begin = first + begin * FV_LANES;
    range->end = fv_attn_min(visible->interval.end, range->begin + count * FV_LANES);
    return true;
}

/*
 * Whether the call is decoding: few queries, whose dot products are computed from rows of K in
 * place. Depends only on sizes per sequence, since its sums run in another order than those of the
 * tile. Beyond these sizes (measured) packing K pays.
 */
static inline bool fv_attn_is_decode(const fv_attn *a)
{
    return a->score == FV_ATTN_SCORE_DOT && a->rule.block_k == 0 &&
           a->n_q <= FV_ATTN_DECODE_QUERIES &&
           a->heads / a->kv_heads <= FV_ATTN_DECODE_ROWS / fv_attn_max(1, a->n_q);
}
void fv_attn_decode(const fv_exec *exec, void *const *ptr, const fv_attn *a);
size_t fv_attn_decode_scratch(const fv_attn *a, int threads);

/*
 * Few queries over many keys: the keys are split into chunks of FV_ATTN_CHUNK, so that threads can
 * share a head. A chunk gives a partial result for each query: its own maximum, sum and weighted
 * sum of values. fv_attn_merge_partials merges them in index order. The number of chunks depends
 * only on the sizes of a sequence, so neither threads nor batch affect the bits.
 */
typedef struct fv_attn_partials {
    const fv_attn *a;
    float *at; /* [batch][heads][n_q][chunks] rows: o, then the maximum in base 2 and the sum */
    int64_t chunks, o_row, row;
} fv_attn_partials;

/* 1 if there are more queries, or too few keys to split. */
static inline int64_t fv_attn_chunks(const fv_attn *a)
{
    const bool few =
        a->score == FV_ATTN_SCORE_DOT && a->rule.block_k == 0 && a->n_q <= FV_ATTN_CHUNK_QUERIES;
    return few ? fv_attn_max(1, (a->n_k + FV_ATTN_CHUNK - 1) / FV_ATTN_CHUNK) : 1;
}
static inline fv_attn_partials fv_attn_partials_of(const fv_attn *a, float *at)
{
    const int64_t o_row = fv_attn_round(a->d_v, FV_LANES);
    return (fv_attn_partials){a, at, fv_attn_chunks(a), o_row, o_row + FV_LANES};
}
static inline float *fv_attn_partial(const fv_attn_partials *p, int64_t b, int64_t h, int64_t i,
                                     int64_t chunk)
{
    const int64_t row = (b * p->a->heads + h) * p->a->n_q + i;
    return p->at + (row * p->chunks + chunk) * p->row;
}
/* Floats of all partial results; SIZE_MAX on overflow, which is possible since K may be broadcast
 * over heads. */
size_t fv_attn_partial_floats(const fv_attn *a);
/* Writes o, and lse unless NULL. */
void fv_attn_merge_partials(const fv_exec *exec, const fv_attn_partials *partials, void *o,
                            float *lse);

/*
 * Whether the call has one query per sequence and additive scores, modified by nothing but hidden
 * keys. This too depends on the description alone. Uses no more scratch than the general kernel.
 */
static inline bool fv_attn_is_single_query(const fv_attn *a, void *const *ptr)
{
    return a->score == FV_ATTN_SCORE_ADDITIVE && a->dtype == FV_F32 && a->n_q == 1 && a->n_k > 0 &&
           a->heads == a->kv_heads && a->rule.block_k == 0 && a->rule.soft_cap == 0 &&
           a->rule.dropout == 0 && !ptr[FV_ATTN_BIAS] && !ptr[FV_ATTN_SLOPES];
}
void fv_attn_single_query(const fv_exec *exec, void *const *ptr, const fv_attn *a);
void fv_attn_single_query_grad(const fv_exec *exec, void *const *ptr, const fv_attn *a);

/* Registers the backward; the forward's fill function calls it. */
void fv_simd_attention_grad_register(fv_kernel_table *t);

fv_attn_job fv_attn_job_of(const fv_exec *exec, const fv_attn *a, void *const *ptr);
/* Queries [first, first + count) of one head. */
void fv_attn_fill_rows(const fv_attn_job *job, int64_t b, int64_t h, int64_t first, int64_t count,
                       fv_attn_row *row);

/*
 * Turns the products factor q . k of one row with keys first .. first + cols into scores in base 2,
 * -inf where hidden. first and cols are multiples of 16; keys may end before. cap_grad, unless
 * NULL, receives d score / d product of the soft cap.
 */
void fv_attn_finish_scores(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                           int64_t cols, float *s, float *cap_grad);

/* The dropout factors of those keys: 0 or 1 / (1 - p). */
void fv_attn_dropout_factors(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                             int64_t cols, float *keep);

/* Multiplies the weights p of those keys by their dropout factors; keep is scratch of cols
 * floats. */
void fv_attn_apply_dropout(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                           int64_t cols, float *keep, float *p);

/*
 * Turns the scores of at most 16 rows (stride s_row) into weights 2^(s - row_max) and updates the
 * running maximum and sum of each row. rescale[16] receives the factors for the previous sums of
 * each row.
 */
void fv_attn_softmax(float *s, int64_t s_row, int rows, int64_t cols, float *row_max, float *sum,
                     float *rescale);

/* 1 / sum of every row (1 if the sum is 0), and the log-sum-exp unless NULL. `inverse` is written
 * in whole vectors: sixteen rows at a time, since one by one these operations would matter for
 * short sequences. */
void fv_attn_finish_sums(const float *row_max, const float *sum, int64_t rows, float deferred_scale,
                         float *inverse, float *lse);

/* The larger of row_max and the largest score of a row. NaN is ignored. */
float fv_attn_row_max(const float *s, int64_t cols, float row_max);

V_INLINE void fv_attn_scale_row(float *o, int64_t width, float by)
{
    const vf factor = v_set(by);
    for (int64_t c = 0; c < width; c += FV_LANES)
        v_store(o + c, FV_LANES, v_mul(v_load(o + c, FV_LANES), factor));
}

/* Prefetches `bytes` of each of some rows, `stride` bytes apart, into L1 or only into L2. The
 * address need not be valid. */
V_INLINE void fv_attn_prefetch(uintptr_t at, int64_t stride, int64_t rows, int64_t bytes,
                               bool first)
{
    for (int64_t r = 0; r < rows; r++, at += (uintptr_t)stride)
        for (int64_t b = 0; b < bytes; b += 64) {
            if (first)
                fv_prefetch_l1((const char *)(at + (uintptr_t)b));
            else
                fv_prefetch_l2((const char *)(at + (uintptr_t)b));
        }
}

/* to = factor x from, from rows of `type`. */
void fv_attn_widen(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                   float factor, float *to, int64_t to_row);
/* Converts back, rounding to nearest even: row r times by[r]; by NULL: unchanged. A product of -0
 * becomes 0, so that a sum does not depend on how many zero weights were added to it. */
void fv_attn_narrow(fv_dtype type, const float *from, int64_t row, int64_t rows, int64_t width,
                    const float *by, void *to, int64_t to_row);
/* Converts rows unchanged; returns whether every element is finite. */
bool fv_attn_widen_rows(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                        float *to, int64_t to_row);

/* Rows of floats: the caller's own, or a buffer holding converted bf16 or f16 rows. */
typedef struct fv_attn_rows {
    float *at; /* NULL: not given, or not requested */
    int64_t row;
} fv_attn_rows;

/* Rows [i, i + count) of an array as floats: in place, or converted into `buffer`. */
fv_attn_rows fv_attn_rows_at(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                             int64_t h, int64_t i, int64_t count, int64_t width,
                             fv_attn_rows buffer);
/* The same; *finite: whether every element is finite. */
fv_attn_rows fv_attn_rows_checked(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                                  int64_t h, int64_t i, int64_t count, int64_t width,
                                  fv_attn_rows buffer, bool *finite);
/* Where the gradient rows from i on are accumulated: in place, or in `buffer`. */
fv_attn_rows fv_attn_accumulator_at(const fv_attn *a, void *base, const fv_attn_layout *l,
                                    int64_t b, int64_t h, int64_t i, fv_attn_rows buffer);
/* Sets accumulated rows to 0. Rows without gaps, or with scratch in their gaps, are cleared at
 * once. */
void fv_attn_clear_rows(const fv_attn *a, fv_attn_rows sums, int64_t count, int64_t width);
/* Stores accumulated rows that are not in place. */
void fv_attn_store_rows(const fv_attn *a, fv_attn_rows sums, void *base, const fv_attn_layout *l,
                        int64_t b, int64_t h, int64_t i, int64_t count, int64_t width);

/* Whether every element is finite. */
bool fv_attn_finite(fv_dtype type, const void *x, int64_t stride, int64_t rows, int64_t width);

/* Packs rows of `type` (row stride `row`) into panels [keys/P][width][P] of floats, P =
 * FV_ATTN_PANEL. Missing keys become 0 up to the next multiple of 16; fv_attn_pack_zeros clears the
 * rest of the last panel for callers that read whole panels. */
void fv_attn_pack(fv_dtype type, const void *k, int64_t row, int64_t keys, int64_t width,
                  float *panels);
void fv_attn_pack_zeros(int64_t keys, int64_t width, float *panels);

/* x_r . y_r for rows of `type`, each one chain of multiply-adds. Rows are
 * processed in parallel, since a single chain would wait for itself. */
void fv_attn_dots(fv_dtype type, const void *x, int64_t x_row, const void *y, int64_t y_row,
                  int64_t rows, int64_t width, float *out);

/* How a kind of products divides the forward pass. */
typedef struct fv_attn_tiling {
    bool pairs;                 /* rows are words of two bf16 */
    bool ahead;                 /* products are deferred and run during the softmax */
    int rows;                   /* per row tile, at most FV_ATTN_MAX_TILE_ROWS */
    int64_t max_rows, min_rows; /* queries per work item; multiples of `rows` */
    int64_t key_step;           /* key ranges start and end at multiples of it: 16 or 32 */
    int64_t pair_step;          /* the words of a packed row of K are a multiple of it */
    int64_t block;              /* keys between two updates of the running maximum; 0: by width */
    size_t state_bytes;         /* per thread, for the products */
} fv_attn_tiling;

/*
 * bf16 products that replace the float tile in the forward pass, over words of two bf16. Rows of
 * scores are FV_ATTN_LONG_SCORE_ROW words apart, rows of weights FV_ATTN_WEIGHT_ROW.
 */
typedef struct fv_attn_bf16_products {
    fv_attn_tiling tiling;
    /* Called before and after all calls with a thread's state; NULL: there is none. */
    void (*begin)(void *state);
    void (*end)(void *state);
    /* With tiling.ahead, scores and add_values may wait until the next softmax or flush, so that
     * their products run on another part of the CPU than the exponentials. Until then their
     * operands must stay as they are. */
    void (*flush)(void *state);
    /* Packs k and v into panels [keys/64][words][64], words = ceil(d/2) in whole pair steps, and
     * values [ceil(keys/2)][ceil16(d_v)]; returns whether all values are finite. */
    bool (*pack)(const fv_attn *a, const void *k, const void *v, int64_t keys, void *panels,
                 void *values);
    /* Copies query rows unchanged, ceil(d/2) words each, row stride to_row words. */
    void (*load_queries)(const void *q, int64_t row, int64_t rows, int64_t d, void *to,
                         int64_t to_row);
    /* As fv_attn_scores, but unscaled: q . k. */
    void (*scores)(void *state, const void *q, int64_t q_row, int rows, const void *panels,
                   int64_t d, int64_t first, int64_t cols, float *s);
    /* As fv_attn_softmax, of up to tiling.rows rows: rounded weights 2^(factor s - scaled_max) and
     * the sums of the unrounded ones; factor > 0, and scaled_max is factor row_max rounded to
     * float. The row after an odd last one is overwritten too. */
    void (*softmax)(void *state, const float *s, int rows, int64_t cols, float factor,
                    float *row_max, float *sum, float *rescale, void *weights);
    /* o += weights values. raw: the values as stored, row stride raw_row, if one of them is not
     * finite, else NULL; then values with weight 0 are skipped, as in fv_attn_product. */
    void (*add_values)(void *state, void *weights, int rows, const void *values, int64_t keys,
                       int64_t d_v, const void *raw, int64_t raw_row, float *o);
} fv_attn_bf16_products;

static inline int64_t fv_attn_pair_count(int64_t n) { return (n + 1) / 2; }

/* The forward pass; bf16 NULL: with the float tile. fv_attn_forward_bytes is its scratch with the
 * float tile or bf16 dot products, for fv_attn_run_varlen; fv_attn_forward_bytes_with with the
 * given ones if those need more. */
size_t fv_attn_forward_bytes(const void *args, int threads);
size_t fv_attn_forward_bytes_with(const fv_attn *a, int threads, const fv_attn_tiling *tiling);
void fv_attn_forward_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                          const fv_attn_bf16_products *bf16);

/* C = from + A B for any number of rows and columns, tile by tile. skip_zeros: zero elements of A
 * are skipped, so that NaN or infinity in B does not matter there. */
void fv_attn_product(const fv_tile *t, int64_t rows, int64_t cols, bool skip_zeros);

/* Products of `rows` rows of q with keys [first, first + cols) of packed panels; first is a
 * multiple of 16, cols of FV_ATTN_KEY_STEP; columns up to the next multiple of 16 become 0. */
void fv_attn_scores(const float *q, int64_t q_row, int rows, const float *panels, int64_t width,
                    int64_t first, int64_t cols, float *s, int64_t s_row);

/* ---- additive scores -------------------------------------------------------------- */

/* Query rows and packed panels of keys, each with their exponentials. */
typedef struct fv_attn_additive_operands {
    const float *q, *query_exp;
    int64_t q_row, query_exp_row;
    const float *k, *key_exp;
    const float *w;
    int64_t width;
    bool missing; /* some exponential is out of range */
} fv_attn_additive_operands;

/* e^2x of n numbers; NaN where x is NaN or out of range. Returns whether there is none. */
bool fv_attn_exp_2x(const float *x, int64_t n, float *e);

/* factor sum_c w_c tanh(q_c + k_c) of `rows` rows and keys [first, first + cols). */
void fv_attn_additive(const fv_attn_additive_operands *x, int rows, float factor, int64_t first,
                      int64_t cols, float *s, int64_t s_row);

/* 1/e for e >= 1. */
V_INLINE vf fv_attn_reciprocal(vf e)
{
#if FV_SIMD_LEVEL == 3
    const vf guess = _mm512_rcp14_ps(e); /* error 2^-14; 2^-24 after a Newton step */
    return v_fma(guess, _mm512_fnmadd_ps(e, guess, v_set(1.0f)), guess);
#else
    return v_div(v_set(1.0f), e);
#endif
}

/* The raw scores of a row tile with keys [first, first + cols) of its panels, before
 * fv_attn_finish_scores: dot products, additive sums, or zeros. Exponentials are used by the
 * additive score only. */
void fv_attn_score_tile(const fv_attn_job *job, const fv_attn_additive_operands *x, int rows,
                        int64_t first, int64_t cols, float *s, int64_t s_row);

enum { FV_ATTN_VISIBLE_STEP = 64 }; /* keys, a multiple of those processed together */

/* Score gradients dZ, 0 where hidden; keys in whole vectors. */
typedef struct fv_attn_score_grads {
    const float *dz;
    int64_t row, rows, keys;
    const fv_attn_interval
        *visible; /* for each FV_ATTN_VISIBLE_STEP keys: the rows that see one of them */
} fv_attn_score_grads;

/* What they are accumulated into: q [rows][width] is overwritten, the others are added to. */
typedef struct fv_attn_additive_sums {
    float *q, *k;    /* k in panels */
    float *w;        /* [width + 1][16]: for fv_attn_additive_w */
    float *row_sums; /* [rows][16] of scratch */
} fv_attn_additive_sums;

/* terms: 2 t^2 in 1 - t^2 */
void fv_attn_additive_grad(const fv_exec *exec, const fv_attn_additive_operands *x,
                           const fv_attn_score_grads *p, const fv_attn_additive_sums *to);
/* The gradient of w from its sums. */
void fv_attn_additive_w(const float *lanes, int64_t width, float *out);

/* 2^x for x <= 0, 1 for 0, flushed to 0 below 2^-126; NaN stays NaN. Relative error below 1.8e-7. A
 * polynomial of x - floor(x); AVX-512 has instructions for this and for the scaling, which takes
 * the floor of x itself. The bits equal those of the other levels. */
V_INLINE vf fv_attn_exp2(vf x)
{
#if FV_SIMD_LEVEL == 3
    const vf r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
    const vf n = v_floor(x), r = v_sub(x, n);
#endif
    vf y = v_set(0x1.e974fep-10f);
    y = v_fma(y, r, v_set(0x1.277854p-7f));
    y = v_fma(y, r, v_set(0x1.c91ce6p-5f));
    y = v_fma(y, r, v_set(0x1.ebdb56p-3f));
    y = v_fma(y, r, v_set(0x1.62e4bap-1f));
    y = v_fma(y, r, v_set(1.0f));
#if FV_SIMD_LEVEL == 3
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, v_set(-126.0f), _CMP_NLT_UQ), y, x);
#else
    /* 1.5 x 2^23: adding it leaves n in the low bits. */
    const vi exponent = vi_shl(vi_add(vi_of(v_add(n, v_set(12582912.0f))), vi_set(127)), 23);
    return v_select(v_lt(x, v_set(-126.0f)), v_zero(), v_mul(y, vf_of(exponent)));
#endif
}

#endif
