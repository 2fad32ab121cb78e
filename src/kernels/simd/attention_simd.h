/*
 * What the vector attention kernels share. They stand on the register tile of the matrix product
 * (gemm_simd.h): a chain of multiply-adds per element, so that neither the tile's shape nor the
 * cut into blocks shows in a result.
 *
 *   attention.c        forward: blocks of queries x blocks of keys, online softmax
 *   attention_grad.c   backward: blocks of keys x blocks of queries; attention_grad_order.h says in
 *                      which order, attention_grad_products.c has its products with weights
 *   attention_decode.c  forward for up to eight queries over a long cache of keys
 *   attention_parts.c  results over chunks of keys, joined
 *   attention_score.c  one row of scores: cap, slope, bias, mask, dropout
 *   attention_softmax.c  scores to weights, with running maxima
 *   attention_bf16.c   the two products of bf16 rows by an instruction of their own;
 *                      attention_decode_bf16.c those of few queries, attention_grad_bf16.c two of
 *                      the backward's five, attention_pairs.c what all share
 *   attention_rows.c   rows as they are stored, f32, bf16 or f16: to floats and back
 *   attention_additive.c  sum_c w_c tanh(q_c + k_c) and its gradients; attention_grad_additive.c
 *                        puts them into the backward
 *   attention_glimpse.c  the same for one query a sequence, forward and backward
 *
 * Scores are kept in base 2: s log2(e), so that a weight is 2^(s - most).
 *
 * Hidden keys. Blocks of keys that no query of a strip sees are not visited. Elsewhere a hidden
 * score becomes -inf and its weight exactly 0; a weight of 0 leaves every finite sum as it is, so
 * a query's bits do not depend on its neighbours. Only NaN and infinity would leak through 0 x NaN:
 * blocks that hold one are multiplied by fv_attn_product's careful way, which skips zeros.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_SIMD_H
#define FV_KERNELS_SIMD_ATTENTION_SIMD_H

#include "kernels/attention.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/vmath.h"

#define FV_ATTN_LOG2E 1.44269504088896340736
#define FV_ATTN_LN2   0.69314718055994530942

enum {
    FV_ATTN_PANEL = FV_TILE_COLS,      /* keys of a packed panel: what a tile meets lies together */
    FV_ATTN_STRIP = FV_GEMM_TILE_ROWS, /* query rows that go through a tile together */
    FV_ATTN_DECODE = 8,       /* queries of a sequence whose keys are read where they lie, */
    FV_ATTN_DECODE_ROWS = 32, /* ... and with those of all heads that share a key head */
    FV_ATTN_FEW = 16,         /* queries of a sequence whose keys are cut into chunks: */
    FV_ATTN_CHUNK = 2048,     /* ... keys, a multiple of the blocks */
    FV_ATTN_BLOCK = 256,      /* keys between two looks at the running maximum, */
    FV_ATTN_LONG_BLOCK = 512, /* ... and where a strip of queries meets narrow keys */
    FV_ATTN_NARROW = 8,       /* keys: a tile with half a vector less takes as much less */
    /* of a strip of scores; an odd number of lines, so that rows spread over the cache */
    FV_ATTN_SCORE_ROW = FV_ATTN_BLOCK + FV_LANES,
    FV_ATTN_LONG_ROW = FV_ATTN_LONG_BLOCK + FV_LANES,
    FV_ATTN_WEIGHT_ROW = FV_ATTN_LONG_BLOCK / 2 + FV_LANES, /* likewise of weights in pairs */
};

typedef struct fv_attn_job {
    const fv_exec *exec;
    const fv_attn *a;
    void *const *ptr;  /* of the forward pass */
    void *const *grad; /* of the backward pass, or NULL */
    float factor;      /* of x_ij: the scale, and log2(e) where nothing is added to the score */
    float operand;     /* the part of it that one side of a product takes: all of it, or 1 */
    bool plain;        /* no cap, slope or bias */
    bool runs_in_list; /* strips are cut by fv_attn_strip_rows: the block list hides nothing in a
                          run of keys */
} fv_attn_job;

/* One query, as far as its scores go. */
typedef struct fv_attn_row {
    fv_attn_range range;
    int64_t position;
    const float *bias;      /* or NULL; elements a->bias.col apart */
    const uint8_t *visible; /* or NULL; a->visible.col apart */
    const uint8_t *blocks;  /* or NULL; a->blocks.col apart */
    const float *w;         /* of the additive score, or NULL */
    float slope;
    uint64_t draw; /* row number of the dropout draws */
} fv_attn_row;

static inline int64_t fv_attn_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fv_attn_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fv_attn_round(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Floats in whole cache lines. */
static inline size_t fv_attn_lines(size_t floats) { return (floats + 15) / 16 * 16; }

/* Where row i of an array of the call's dtype begins. */
static inline const void *fv_attn_at(const fv_attn *a, const void *base, const fv_attn_layout *l,
                                     int64_t b, int64_t h, int64_t i)
{
    return (const char *)base +
           (b * l->batch + h * l->head + i * l->row) * (int64_t)fv_dtype_size(a->dtype);
}

/* The same in an array that is written; NULL if it is not wanted. */
static inline void *fv_attn_out(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                                int64_t h, int64_t i)
{
    return base ? (void *)(uintptr_t)fv_attn_at(a, base, l, b, h, i) : NULL;
}

static inline int64_t fv_attn_kv_head(const fv_attn *a, int64_t h)
{
    return h / (a->heads / a->kv_heads);
}

/* Keys of [first, end) that some row of a strip may see: the smallest such range, its begin a
 * multiple of the lanes. Empty: begin = end. */
typedef struct fv_attn_span {
    int64_t begin, end;
} fv_attn_span;

static inline fv_attn_span fv_attn_span_of(const fv_attn_row *row, int rows, int64_t first,
                                           int64_t end)
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
    if (low >= end || high <= first) return (fv_attn_span){first, first};
    return (fv_attn_span){fv_attn_max(first, low / FV_LANES * FV_LANES), fv_attn_min(end, high)};
}

/* The same with holes: what a list of blocks leaves of it. Bit g of groups stands for the keys
 * [first + 16 g, first + 16 g + 16); first is a multiple of 16, and there are at most 512 keys. */
typedef struct fv_attn_sight {
    fv_attn_span span;
    uint32_t groups;
} fv_attn_sight;

static inline uint32_t fv_attn_group_bits(int64_t begin, int64_t end)
{
    return (uint32_t)(((uint64_t)1 << (end + FV_LANES - 1) / FV_LANES) -
                      ((uint64_t)1 << begin / FV_LANES));
}

static inline fv_attn_sight fv_attn_sight_of(const fv_attn *a, const fv_attn_row *row, int rows,
                                             int64_t first, int64_t end)
{
    const fv_attn_span span = fv_attn_span_of(row, rows, first, end);
    fv_attn_sight sight = {span, fv_attn_group_bits(span.begin - first, span.end - first)};
    if (!row->blocks) return sight;
    uint32_t seen = 0;
    for (int r = 0; r < rows; r++) {
        if (r > 0 && row[r].blocks == row[r - 1].blocks) continue;
        for (int64_t j = span.begin, next; j < span.end; j = next) {
            const int64_t block = j / a->rule.block_k;
            next = fv_attn_min(span.end, (block + 1) * a->rule.block_k);
            if (row[r].blocks[block * a->blocks.col])
                seen |= fv_attn_group_bits(j - first, next - first);
        }
    }
    sight.groups &= seen;
    if (sight.groups == 0) return (fv_attn_sight){{first, first}, 0};
    const int64_t low = __builtin_ctz(sight.groups), high = 32 - __builtin_clz(sight.groups);
    sight.span.begin = fv_attn_max(span.begin, first + low * FV_LANES);
    sight.span.end = fv_attn_min(span.end, first + high * FV_LANES);
    return sight;
}

/* Rows of the strip that begins with query i, of `left` that there are: none looks at another row
 * of the block list than the first. The last two share what is left, since a tile of one to three
 * rows takes AVX2 as long as one of four. */
static inline int fv_attn_strip_rows(const fv_attn *a, int64_t i, int64_t left)
{
    if (a->rule.block_q > 0) left = fv_attn_min(left, a->rule.block_q - i % a->rule.block_q);
    return (int)(left >= 2 * FV_ATTN_STRIP ? FV_ATTN_STRIP
                 : left > FV_ATTN_STRIP    ? (left + 1) / 2
                                           : left);
}

/* Goes from run to run of keys without holes: *run begins as {first, first}. */
static inline bool fv_attn_next_run(const fv_attn_sight *sight, int64_t first, fv_attn_span *run)
{
    const int64_t done = (run->end - first + FV_LANES - 1) / FV_LANES;
    const uint64_t groups = sight->groups, left = groups >> done; /* done may be all 32 */
    if (left == 0) return false;
    const int64_t begin = done + __builtin_ctzll(left);
    const int64_t count = __builtin_ctzll(~(groups >> begin));
    run->begin = first + begin * FV_LANES;
    run->end = fv_attn_min(sight->span.end, run->begin + count * FV_LANES);
    return true;
}

/*
 * Whether a description is decoding: few queries, whose dot products are taken from the rows of K
 * as they lie. A matter of sizes per sequence alone, since its sums run in another order than the
 * tile's. Beyond these sizes (measured) packing K pays.
 */
static inline bool fv_attn_is_decode(const fv_attn *a)
{
    return a->score == FV_ATTN_SCORE_DOT && a->rule.block_k == 0 && a->n_q <= FV_ATTN_DECODE &&
           a->heads / a->kv_heads <= FV_ATTN_DECODE_ROWS / fv_attn_max(1, a->n_q);
}
void fv_attn_decode(const fv_exec *exec, void *const *ptr, const fv_attn *a);
size_t fv_attn_decode_scratch(const fv_attn *a, int threads);

/*
 * Few queries over many keys: the keys are cut into chunks of FV_ATTN_CHUNK, so that threads can
 * share a head. A chunk ends with its own maximum, sum and blend of values for each query, a part;
 * fv_attn_join joins them in index order. The number of chunks follows from the sizes of a sequence
 * alone, so neither threads nor batch show in the bits.
 */
typedef struct fv_attn_parts {
    const fv_attn *a;
    float *at; /* [batch][heads][n_q][chunks] of `row`: o, then the maximum in base 2 and the sum */
    int64_t chunks, o_row, row;
} fv_attn_parts;

/* 1 where there are more queries, or nothing to cut. */
static inline int64_t fv_attn_chunks(const fv_attn *a)
{
    const bool few = a->score == FV_ATTN_SCORE_DOT && a->rule.block_k == 0 && a->n_q <= FV_ATTN_FEW;
    return few ? fv_attn_max(1, (a->n_k + FV_ATTN_CHUNK - 1) / FV_ATTN_CHUNK) : 1;
}
static inline fv_attn_parts fv_attn_parts_of(const fv_attn *a, float *at)
{
    const int64_t o_row = fv_attn_round(a->d_v, FV_LANES);
    return (fv_attn_parts){a, at, fv_attn_chunks(a), o_row, o_row + FV_LANES};
}
static inline float *fv_attn_part(const fv_attn_parts *p, int64_t b, int64_t h, int64_t i,
                                  int64_t chunk)
{
    const int64_t row = (b * p->a->heads + h) * p->a->n_q + i;
    return p->at + (row * p->chunks + chunk) * p->row;
}
/* Floats of all parts; SIZE_MAX where they are beyond counting: a K that repeats over heads is
 * small itself. */
size_t fv_attn_parts_floats(const fv_attn *a);
/* Writes o, and lse unless NULL. */
void fv_attn_join(const fv_exec *exec, const fv_attn_parts *parts, void *o, float *lse);

/*
 * Whether a description is a glimpse: one query a sequence, additive scores, no more to them than
 * what hides keys. Likewise a matter of the description alone. It takes no more scratch than the
 * general way, whose room it uses.
 */
static inline bool fv_attn_is_glimpse(const fv_attn *a, void *const *ptr)
{
    return a->score == FV_ATTN_SCORE_ADDITIVE && a->dtype == FV_F32 && a->n_q == 1 && a->n_k > 0 &&
           a->heads == a->kv_heads && a->rule.block_k == 0 && a->rule.soft_cap == 0 &&
           a->rule.dropout == 0 && !ptr[FV_ATTN_BIAS] && !ptr[FV_ATTN_SLOPES];
}
void fv_attn_glimpse(const fv_exec *exec, void *const *ptr, const fv_attn *a);
void fv_attn_glimpse_grad(const fv_exec *exec, void *const *ptr, const fv_attn *a);

/* Puts the backward into the table; the forward's entry calls it. */
void fv_simd_attention_grad_fill(fv_kernel_table *t);

fv_attn_job fv_attn_job_of(const fv_exec *exec, const fv_attn *a, void *const *ptr);
/* Queries [first, first + count) of one head. */
void fv_attn_fill_rows(const fv_attn_job *job, int64_t b, int64_t h, int64_t first, int64_t count,
                       fv_attn_row *row);

/*
 * Products factor q . k of one row with the keys first .. first + cols become scores in base 2,
 * -inf where hidden. first and cols are multiples of 16; keys may end before. slack, unless NULL,
 * gets d score / d product as the cap leaves it.
 */
void fv_attn_finish(const fv_attn_job *job, const fv_attn_row *row, int64_t first, int64_t cols,
                    float *s, float *slack);

/* What dropout multiplies the weights of those keys with: 0 or 1 / (1 - p). */
void fv_attn_keep(const fv_attn_job *job, const fv_attn_row *row, int64_t first, int64_t cols,
                  float *keep);

/* Multiplies the weights p of those keys with what dropout says; keep holds cols floats. */
void fv_attn_drop(const fv_attn_job *job, const fv_attn_row *row, int64_t first, int64_t cols,
                  float *keep, float *p);

/*
 * Scores of a strip of at most 16 rows, s_row apart, to weights 2^(s - most) with the
 * running maximum `most` and sum of each row. fade[16] gets what the earlier sums of a row are to
 * be multiplied with.
 */
void fv_attn_softmax(float *s, int64_t s_row, int rows, int64_t cols, float *most, float *sum,
                     float *fade);

/* The largest score of a row, or `most` if that is larger. NaN is passed over. */
float fv_attn_top(const float *s, int64_t cols, float most);

V_INLINE void fv_attn_scale_row(float *o, int64_t width, float by)
{
    const vf factor = v_set(by);
    for (int64_t c = 0; c < width; c += FV_LANES)
        v_store(o + c, FV_LANES, v_mul(v_load(o + c, FV_LANES), factor));
}

/* Asks for `bytes` of each of some rows, `stride` bytes apart: into the first-level cache, or only
 * near it. The address need not be one. */
V_INLINE void fv_attn_ask(uintptr_t at, int64_t stride, int64_t rows, int64_t bytes, bool first)
{
    for (int64_t r = 0; r < rows; r++, at += (uintptr_t)stride)
        for (int64_t b = 0; b < bytes; b += 64) {
            if (first)
                _mm_prefetch((const char *)(at + (uintptr_t)b), _MM_HINT_T0);
            else
                _mm_prefetch((const char *)(at + (uintptr_t)b), _MM_HINT_T1);
        }
}

/* to = factor x from, from rows of `type`. */
void fv_attn_widen(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                   float factor, float *to, int64_t to_row);
/* And back, rounded to nearest even: row r times by[r]; by NULL: as they are. A product of -0
 * becomes 0, so that a sum does not tell how many zero weights were added to it. */
void fv_attn_narrow(fv_dtype type, const float *from, int64_t row, int64_t rows, int64_t width,
                    const float *by, void *to, int64_t to_row);
/* Rows as they are; returns whether every element is a number and not infinite. */
bool fv_attn_widen_rows(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                        float *to, int64_t to_row);

/* Rows of floats: the caller's own, or scratch that stands for rows of 16 bits. */
typedef struct fv_attn_rows {
    float *at; /* NULL: not given, or not wanted */
    int64_t row;
} fv_attn_rows;

/* Rows [i, i + count) of an array as floats: in place, or widened into `room`. */
fv_attn_rows fv_attn_rows_at(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                             int64_t h, int64_t i, int64_t count, int64_t width, fv_attn_rows room);
/* The same, and whether every element is a number and not infinite. */
fv_attn_rows fv_attn_rows_looked_over(const fv_attn *a, void *base, const fv_attn_layout *l,
                                      int64_t b, int64_t h, int64_t i, int64_t count, int64_t width,
                                      fv_attn_rows room, bool *finite);
/* Where a gradient's rows from i on are summed: in place, or in `room`. */
fv_attn_rows fv_attn_sums_at(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                             int64_t h, int64_t i, fv_attn_rows room);
/* They begin at 0. Rows without gaps, or whose gaps are scratch, are one piece. */
void fv_attn_clear(const fv_attn *a, fv_attn_rows sums, int64_t count, int64_t width);
/* Sums that were not made in place go where they belong. */
void fv_attn_deliver(const fv_attn *a, fv_attn_rows sums, void *base, const fv_attn_layout *l,
                     int64_t b, int64_t h, int64_t i, int64_t count, int64_t width);

/* Whether every element is a number and not infinite. */
bool fv_attn_finite(fv_dtype type, const void *x, int64_t stride, int64_t rows, int64_t width);

/* Rows of `type`, `row` elements apart, into panels [keys/P][width][P] of floats, P the panel's
 * keys. Keys that lack become 0 up to the next multiple of 16; who looks at whole panels asks for
 * the other zeros. */
void fv_attn_pack(fv_dtype type, const void *k, int64_t row, int64_t keys, int64_t width,
                  float *panels);
void fv_attn_pack_zeros(int64_t keys, int64_t width, float *panels);

/* x_r . y_r of rows of `type`, `row` elements apart, each one chain of multiply-adds. Rows go side
 * by side, since a chain alone would wait for itself. */
void fv_attn_dots(fv_dtype type, const void *x, const void *y, int64_t row, int64_t rows,
                  int64_t width, float *out);

/*
 * Products by another instruction than the float tile's, over words that hold two 16-bit numbers:
 * what the forward pass calls instead. Rows of scores are FV_ATTN_LONG_ROW words apart, those of
 * weights FV_ATTN_WEIGHT_ROW.
 */
typedef struct fv_attn_pair_products {
    /* Rows of k and v into panels [keys/64][ceil(d/2)][64] and values [ceil(keys/2)][ceil16(d_v)];
     * returns whether the values are all finite. */
    bool (*pack)(const fv_attn *a, const void *k, const void *v, int64_t keys, void *panels,
                 void *values);
    /* Rows of queries as they are, ceil(d/2) words each, to_row words apart. */
    void (*load_queries)(const void *q, int64_t row, int64_t rows, int64_t d, void *to,
                         int64_t to_row);
    /* As fv_attn_scores, but unscaled: q . k. */
    void (*scores)(const void *q, int64_t q_row, int rows, const void *panels, int64_t d,
                   int64_t first, int64_t cols, float *s);
    /* As fv_attn_softmax: weights 2^(factor s - down) and their sums; factor > 0, and down is the
     * float nearest to factor most. The row after an odd last one is written to as well. */
    void (*weigh)(const float *s, int rows, int64_t cols, float factor, float *most, float *sum,
                  float *fade, void *weights);
    /* o += weights values. careful: as fv_attn_product. */
    void (*blend)(const void *weights, int rows, const void *values, int64_t keys, int64_t d_v,
                  bool careful, float *o);
} fv_attn_pair_products;

static inline int64_t fv_attn_pairs_of(int64_t n) { return (n + 1) / 2; }

/* The forward pass; pairs NULL: by the float tile. Its scratch, as fv_attn_run_varlen wants it. */
size_t fv_attn_forward_bytes(const void *args, int threads);
void fv_attn_forward_by(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                        const fv_attn_pair_products *pairs);

/* C = from + A B for any number of rows and columns, tile by tile. careful: elements of A that are
 * 0 are skipped, whatever B holds there. */
void fv_attn_product(const fv_tile *t, int64_t rows, int64_t cols, bool careful);

/* Products of `rows` rows of q with keys [first, first + cols) of packed panels; first is a
 * multiple of 16, cols of FV_ATTN_NARROW; columns up to the next multiple of 16 become 0. */
void fv_attn_scores(const float *q, int64_t q_row, int rows, const float *panels, int64_t width,
                    int64_t first, int64_t cols, float *s, int64_t s_row);

/* ---- additive scores -------------------------------------------------------------- */

/* Rows of queries and packed panels of keys, each beside its exponentials. */
typedef struct fv_attn_sides {
    const float *q, *eq;
    int64_t q_row, eq_row;
    const float *k, *ek;
    const float *w;
    int64_t width;
    bool careful; /* an exponential is missing */
} fv_attn_sides;

/* e^2x of n numbers; NaN where x is NaN or beyond what can be used. Returns whether none is. */
bool fv_attn_raise(const float *x, int64_t n, float *e);

/* factor sum_c w_c tanh(q_c + k_c) of the first rows and keys [first, first + cols). */
void fv_attn_additive(const fv_attn_sides *x, int rows, float factor, int64_t first, int64_t cols,
                      float *s, int64_t s_row);

/* 1/e for e >= 1. */
V_INLINE vf fv_attn_reciprocal(vf e)
{
#if FV_SIMD_LEVEL == 3
    const vf guess = _mm512_rcp14_ps(e); /* 2^-14 off, and after a step of Newton's 2^-24 */
    return v_fma(guess, _mm512_fnmadd_ps(e, guess, v_set(1.0f)), guess);
#else
    return v_div(v_set(1.0f), e);
#endif
}

/* What a strip's rows have with keys [first, first + cols) of their panels, before fv_attn_finish:
 * the products, or the additive sums, or zeros. The exponentials matter to the additive score. */
void fv_attn_strip(const fv_attn_job *job, const fv_attn_sides *x, int rows, int64_t first,
                   int64_t cols, float *s, int64_t s_row);

enum { FV_ATTN_SIGHTED = 64 }; /* keys, a multiple of those that are met together */

/* Gradients dZ of some pairs, 0 where hidden; keys in whole vectors. */
typedef struct fv_attn_pairs {
    const float *dz;
    int64_t row, rows, keys;
    const fv_attn_span *sight; /* of FV_ATTN_SIGHTED keys each: the rows that see one of them */
} fv_attn_pairs;

/* What they add to: q [rows][width] is written, the others are added to. */
typedef struct fv_attn_additive_sums {
    float *q, *k; /* k in panels */
    float *w;     /* [width + 1][16]: for fv_attn_additive_w */
    float *part;  /* [rows][16] of scratch */
} fv_attn_additive_sums;

/* terms: 2 t^2 in 1 - t^2 */
void fv_attn_additive_grad(const fv_exec *exec, const fv_attn_sides *x, const fv_attn_pairs *p,
                           const fv_attn_additive_sums *to);
/* The gradient of w from the sums. */
void fv_attn_additive_w(const float *lanes, int64_t width, float *out);

/* 2^x for x <= 0, 1 for 0, flushed to 0 below 2^-126; NaN stays. Relative error below 1.8e-7. A
 * polynomial of x - floor(x), for which AVX-512 has an instruction, as for the power of two: it
 * takes the floor of x itself. The bits are those of AVX2. */
V_INLINE vf fv_attn_exp2(vf x)
{
    enum { DOWN = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC };
#if FV_SIMD_LEVEL == 3
    const vf r = _mm512_reduce_ps(x, DOWN);
#else
    const vf n = {_mm256_round_ps(x.a, DOWN), _mm256_round_ps(x.b, DOWN)}, r = v_sub(x, n);
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
