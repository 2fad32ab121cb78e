/*
 * bf16 attention on AMX tiles (tile.h), forward. Compiled with the instructions by attention_amx.c
 * and, for tests, with emulated tiles by attention_tiles_emulated.c:
 *
 *     tiles_register(table);   // replaces the bf16 attention kernels
 *
 * All products have the same form, 32 rows by 32 columns in four tiles, over 32 terms a step:
 *
 *     S = Q K^T      A: query rows of bf16       B: panels of K, [pairs of d][64 keys]
 *     O += P V       A: rows of rounded weights  B: words of two keys, [pairs of keys][columns]
 *
 * A step adds two sums of 16 terms to C (tile.h). Steps of keys start at multiples of 32, and a
 * weight of 0 adds 0, so the bits of a row do not depend on other rows. The tiles treat subnormal
 * numbers as 0; O holds none between two products, since its rescaling comes before one.
 *
 * The exponentials take longer than the products if rows are narrow, and use other parts of the
 * CPU. So products are queued, and the softmax runs them step by step among its exponentials: the
 * scores of the next row tile and the values of the previous one.
 *
 * NaN and infinity: B holds 0 in place of values that are not finite. Their terms are added
 * afterwards, for weights other than 0 only, so a hidden value does not matter.
 *
 * Rounding: as with bf16 dot products (attention_bf16.c), the weights are rounded to bf16 and their
 * sum is not.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_TILES_H
#define FV_KERNELS_SIMD_ATTENTION_TILES_H

#include "kernels/half.h"
#include "kernels/simd/attention_bf16_dot.h"
#include "kernels/simd/attention_forward.h"
#include "kernels/simd/tile.h"

/* Sizes to tune. */
enum {
    TILES_MAX_ROWS = 256, /* queries per work item, forward; a multiple of 64 */
    TILES_MIN_ROWS = 64,
    TILES_BLOCK = 256, /* keys between two updates of the running maximum: 32 x 256 scores as floats
                          and as bf16 fill L1; at most FV_ATTN_LONG_BLOCK */
};

enum {
    TILES_ROWS = 2 * TILE_ROWS, /* rows and columns of a product */
    TILES_STEP = 16,            /* words of A and rows of B in one step: 32 terms */
    TILES_QUEUE = 64            /* products */
};

/* C = A B or C += A B for 16 or 32 rows and columns. Strides in words. */
typedef struct tiles_product {
    const uint32_t *a, *b;
    int64_t a_row, a_step, b_row, b_step; /* step: from one step to the next */
    float *c;
    int64_t c_row;
    int64_t steps;
    bool two_rows, two_cols; /* 32 of them */
    bool add;                /* to C */
} tiles_product;

/* Tiles 0 to 3 hold C, two by two; 4 and 5 rows of A, 6 and 7 columns of B. */
typedef struct tiles_state {
    tile_state tiles;
    int64_t first, count; /* products [first, count) of the queue are left, */
    int64_t step;         /* ... the first of them from this step on, */
    int64_t steps;        /* ... this many steps in all */
    tiles_product queue[TILES_QUEUE];
    /* Products that are not due yet, for the backward. */
    int64_t later_first, later_count;
    tiles_product later[TILES_QUEUE];
    int64_t buffer; /* 0 or 1: which of two buffers is next, for the backward */
} tiles_state;

_Static_assert((int)TILES_ROWS <= (int)FV_ATTN_MAX_TILE_ROWS, "a row tile must fit its buffers");

/* ---- products --------------------------------------------------------------------- */

static void tiles_begin(void *state)
{
    tiles_state *s = state;
    tile_config config = {.palette = TILE_PALETTE};
    for (int t = 0; t < TILE_COUNT; t++) {
        config.rows[t] = TILE_ROWS;
        config.row_bytes[t] = TILE_ROW_BYTES;
    }
    s->first = s->count = s->step = s->steps = 0;
    s->later_first = s->later_count = s->buffer = 0;
    tile_begin(&s->tiles);
    tile_configure(&s->tiles, &config);
}

static void tiles_end(void *state)
{
    tiles_state *s = state;
    tile_end(&s->tiles);
}

enum { TILES_NEXT = TILE_ROW_BYTES / 4 }; /* columns of a tile */

static inline void tiles_load_sums(tile_state *s, const tiles_product *p)
{
    const int64_t bytes = p->c_row * (int64_t)sizeof *p->c;
    const float *next = p->c + TILE_ROWS * p->c_row;
    if (!p->add) {
        tile_zero(s, 0);
        tile_zero(s, 1);
        tile_zero(s, 2);
        tile_zero(s, 3);
        return;
    }
    tile_load(s, 0, p->c, bytes);
    if (p->two_cols) tile_load(s, 1, p->c + TILES_NEXT, bytes);
    if (p->two_rows) tile_load(s, 2, next, bytes);
    if (p->two_rows && p->two_cols) tile_load(s, 3, next + TILES_NEXT, bytes);
}

static inline void tiles_store_sums(tile_state *s, const tiles_product *p)
{
    const int64_t bytes = p->c_row * (int64_t)sizeof *p->c;
    float *next = p->c + TILE_ROWS * p->c_row;
    tile_store(s, 0, p->c, bytes);
    if (p->two_cols) tile_store(s, 1, p->c + TILES_NEXT, bytes);
    if (p->two_rows) tile_store(s, 2, next, bytes);
    if (p->two_rows && p->two_cols) tile_store(s, 3, next + TILES_NEXT, bytes);
}

static inline void tiles_multiply(tile_state *s, const tiles_product *p, int64_t step)
{
    const uint32_t *a = p->a + step * p->a_step, *b = p->b + step * p->b_step;
    const int64_t a_bytes = p->a_row * (int64_t)sizeof *a, b_bytes = p->b_row * (int64_t)sizeof *b;
    tile_load(s, 6, b, b_bytes);
    tile_load(s, 4, a, a_bytes);
    tile_dot_bf16(s, 0, 4, 6);
    if (p->two_cols) {
        tile_load(s, 7, b + TILES_NEXT, b_bytes);
        tile_dot_bf16(s, 1, 4, 7);
    }
    if (p->two_rows) {
        tile_load(s, 5, a + TILE_ROWS * p->a_row, a_bytes);
        tile_dot_bf16(s, 2, 5, 6);
        if (p->two_cols) tile_dot_bf16(s, 3, 5, 7);
    }
}

/* One step of the first product in the queue. */
static inline void tiles_advance(tiles_state *s)
{
    const tiles_product *p = &s->queue[s->first];
    if (s->step == 0) tiles_load_sums(&s->tiles, p);
    tiles_multiply(&s->tiles, p, s->step);
    s->steps--;
    if (++s->step < p->steps) return;
    tiles_store_sums(&s->tiles, p);
    s->step = 0;
    if (++s->first == s->count) s->first = s->count = 0;
}

static void tiles_flush(void *state)
{
    tiles_state *s = state;
    while (s->steps > 0)
        tiles_advance(s);
}

static void tiles_queue(tiles_state *s, const tiles_product *p)
{
    if (s->count == TILES_QUEUE) tiles_flush(s);
    s->queue[s->count++] = *p;
    s->steps += p->steps;
}

/* ---- packing ---------------------------------------------------------------------- */

static int64_t tiles_words(int64_t width)
{
    return fv_attn_round(fv_attn_pair_count(width), TILES_STEP);
}

/* [rows/64][tiles_words(width)][64], zeros past the width. */
static void tiles_pack_panels(const uint16_t *x, int64_t row, int64_t rows, int64_t width,
                              uint32_t *panels)
{
    const int64_t words = tiles_words(width), given = fv_attn_pair_count(width);
    for (int64_t j = 0; j < rows; j += FV_ATTN_PANEL, panels += words * FV_ATTN_PANEL) {
        fv_attn_bf16_pack(x + j * row, row, fv_attn_min(FV_ATTN_PANEL, rows - j), width, panels);
        memset(panels + given * FV_ATTN_PANEL, 0,
               (size_t)((words - given) * FV_ATTN_PANEL) * sizeof *panels);
    }
}

static bool tiles_is_finite(uint16_t x) { return (x & 0x7f80) != 0x7f80; }

/* Values as words of two rows, with 0 in place of NaN and infinity, and rows of zeros up to a whole
 * step. Returns whether all values are finite. */
static bool tiles_pack_pairs(const uint16_t *x, int64_t row, int64_t rows, int64_t width,
                             uint32_t *to)
{
    const int64_t stride = fv_attn_round(width, FV_LANES), given = fv_attn_pair_count(rows);
    const bool finite = fv_attn_bf16_pack_values(x, row, rows, width, to);
    uint16_t *halves = (uint16_t *)(void *)to;
    for (int64_t i = 0; !finite && i < 2 * given * stride; i++)
        if (!tiles_is_finite(halves[i])) halves[i] = 0;
    memset(to + given * stride, 0,
           (size_t)((fv_attn_round(given, TILES_STEP) - given) * stride) * sizeof *to);
    return finite;
}

static bool tiles_pack(const fv_attn *a, const void *k, const void *v, int64_t keys, void *panels,
                       void *values)
{
    tiles_pack_panels(k, a->k.row, keys, a->d, panels);
    return tiles_pack_pairs(v, a->v.row, keys, a->d_v, values);
}

/* ---- one row tile ------------------------------------------------------------------ */

/* Columns in whole steps of 32. */
static void tiles_scores(void *state, const void *q, int64_t q_row, int rows, const void *panels,
                         int64_t d, int64_t first, int64_t cols, float *s)
{
    const int64_t words = tiles_words(d);
    for (int64_t done = 0; done < cols; done += TILES_ROWS) {
        const int64_t key = first + done, inside = key % FV_ATTN_PANEL;
        const tiles_product p = {.a = q,
                                 .a_row = q_row,
                                 .a_step = TILES_STEP,
                                 .b = (const uint32_t *)panels + (key - inside) * words + inside,
                                 .b_row = FV_ATTN_PANEL,
                                 .b_step = TILES_STEP * FV_ATTN_PANEL,
                                 .c = s + done,
                                 .c_row = FV_ATTN_LONG_SCORE_ROW,
                                 .steps = words / TILES_STEP,
                                 .two_rows = rows > TILE_ROWS,
                                 .two_cols = true};
        tiles_queue(state, &p);
    }
}

/* Adds what the products left out: weights other than 0 times values that are not finite. */
static void tiles_add_not_finite(const uint16_t *weights, int rows, const uint16_t *v,
                                 int64_t v_row, int64_t keys, int64_t d_v, int64_t o_row, float *o)
{
    for (int i = 0; i < rows; i++, weights += 2 * FV_ATTN_WEIGHT_ROW, o += o_row)
        for (int64_t j = 0; j < keys; j++) {
            const float weight = fv_bf16_to_f32(weights[j]);
            if (weight == 0) continue;
            for (int64_t c = 0; c < d_v; c++)
                if (!tiles_is_finite(v[j * v_row + c]))
                    o[c] += weight * fv_bf16_to_f32(v[j * v_row + c]);
        }
}

static void tiles_add_values(void *state, void *weights, int rows, const void *values, int64_t keys,
                             int64_t d_v, const void *raw, int64_t raw_row, float *o)
{
    const int64_t stride = fv_attn_round(d_v, FV_LANES), steps = keys / (2 * TILES_STEP);
    uint32_t *p = weights;
    /* Rows past the last have no weight: they may be other rows of O. */
    for (int64_t i = rows; i < fv_attn_round(rows, TILE_ROWS); i++)
        memset(p + i * FV_ATTN_WEIGHT_ROW, 0, (size_t)keys * sizeof(uint16_t));
    for (int64_t c = 0; c < stride; c += TILES_ROWS) {
        const tiles_product product = {.a = p,
                                       .a_row = FV_ATTN_WEIGHT_ROW,
                                       .a_step = TILES_STEP,
                                       .b = (const uint32_t *)values + c,
                                       .b_row = stride,
                                       .b_step = TILES_STEP * stride,
                                       .c = o + c,
                                       .c_row = stride,
                                       .steps = steps,
                                       .two_rows = rows > TILE_ROWS,
                                       .two_cols = stride - c > TILE_ROWS,
                                       .add = true};
        tiles_queue(state, &product);
    }
    if (!raw) return;
    tiles_flush(state);
    tiles_add_not_finite(weights, rows, raw, raw_row, keys, d_v, stride, o);
}

/* ---- softmax ----------------------------------------------------------------------- */

/* Spreads the steps of the queue evenly over `parts` calls. */
typedef struct tiles_pace {
    tiles_state *state;
    int64_t steps, parts, due;
} tiles_pace;

static inline void tiles_keep_pace(tiles_pace *pace)
{
    for (pace->due += pace->steps; pace->due >= pace->parts; pace->due -= pace->parts)
        tiles_advance(pace->state);
}

/* Rounded weights of two rows of whole steps, and the sums of the unrounded ones. */
static inline void tiles_exp_two_rows(const float *s, int64_t cols, const float *scaled_max,
                                      vf factor, uint16_t *p, tiles_pace *pace, float *sums)
{
    const float *t = s + FV_ATTN_LONG_SCORE_ROW;
    uint16_t *r = p + 2 * FV_ATTN_WEIGHT_ROW;
    const vf neg_max_s = v_set(-scaled_max[0]), neg_max_t = v_set(-scaled_max[1]);
    vf sum_s = v_zero(), sum_t = v_zero();
    for (int64_t c = 0; c < cols; c += 2 * FV_LANES) {
        const vf s0 = fv_attn_bf16_weight(s + c, neg_max_s, factor);
        const vf t0 = fv_attn_bf16_weight(t + c, neg_max_t, factor);
        const vf s1 = fv_attn_bf16_weight(s + c + FV_LANES, neg_max_s, factor);
        const vf t1 = fv_attn_bf16_weight(t + c + FV_LANES, neg_max_t, factor);
        _mm512_storeu_si512(p + c, (__m512i)_mm512_cvtne2ps_pbh(s1, s0));
        _mm512_storeu_si512(r + c, (__m512i)_mm512_cvtne2ps_pbh(t1, t0));
        sum_s = v_add(v_add(sum_s, s0), s1);
        sum_t = v_add(v_add(sum_t, t0), t1);
        tiles_keep_pace(pace);
    }
    sums[0] = v_reduce_sum(sum_s);
    sums[1] = v_reduce_sum(sum_t);
}

static void tiles_softmax(void *state, const float *s, int rows, int64_t cols, float factor,
                          float *row_max, float *sum, float *rescale, void *weights)
{
    tiles_state *queue = state;
    float scaled_max[TILES_ROWS] = {0}, added[TILES_ROWS], previous[TILES_ROWS] = {0};
    tiles_pace pace = {.state = queue,
                       .steps = queue->steps,
                       .parts = (rows + 1) / 2 * fv_attn_max(1, cols / TILES_ROWS)};
    for (int i = 0; i < rows; i += 2) {
        const float *row = s + i * FV_ATTN_LONG_SCORE_ROW;
        for (int r = i; r < i + 2 && r < rows; r++) {
            previous[r] = row_max[r] * factor;
            row_max[r] = fv_attn_row_max(s + r * FV_ATTN_LONG_SCORE_ROW, cols, row_max[r]);
            scaled_max[r] = row_max[r] == -INFINITY ? 0 : row_max[r] * factor;
        }
        tiles_exp_two_rows(row, cols, scaled_max + i, v_set(factor),
                           (uint16_t *)weights + i * 2 * FV_ATTN_WEIGHT_ROW, &pace, added + i);
    }
    for (int i = 0; i < rows; i += FV_LANES)
        v_store(rescale + i, FV_LANES,
                fv_attn_exp2_short(
                    v_sub(v_load(previous + i, FV_LANES), v_load(scaled_max + i, FV_LANES))));
    for (int i = 0; i < rows; i++)
        sum[i] = fmaf(sum[i], rescale[i], added[i]);
    tiles_flush(state);
}

/* ---- the kernel ------------------------------------------------------------------- */

static const fv_attn_bf16_products tiles_forward_products = {
    .tiling = {.pairs = true,
               .ahead = true,
               .rows = TILES_ROWS,
               .max_rows = TILES_MAX_ROWS,
               .min_rows = TILES_MIN_ROWS,
               .key_step = 2 * TILES_STEP,
               .pair_step = TILES_STEP,
               .block = TILES_BLOCK,
               .state_bytes = sizeof(tiles_state)},
    .begin = tiles_begin,
    .end = tiles_end,
    .flush = tiles_flush,
    .pack = tiles_pack,
    .load_queries = fv_attn_bf16_load,
    .scores = tiles_scores,
    .softmax = tiles_softmax,
    .add_values = tiles_add_values};

static size_t tiles_forward_bytes(const void *args, int threads)
{
    return fv_attn_forward_bytes_with(args, threads, &tiles_forward_products.tiling);
}

static size_t tiles_forward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, tiles_forward_bytes);
}

/* Other scores than products, and decoding, are as with the float tile. */
static void tiles_forward(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, false, tiles_forward, tiles_forward_bytes);
    else
        fv_attn_forward_with(exec, ptr, a, &tiles_forward_products);
}

static void tiles_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = tiles_forward;
    t->scratch[FV_KERNEL_ATTENTION] = tiles_forward_scratch;
}

#endif
