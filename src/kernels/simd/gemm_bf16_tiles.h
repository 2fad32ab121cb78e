/*
 * bf16 products on tiles (tile.h): 32 rows by 32 columns of C in four tiles, over 16 pairs of k at
 * a time from two tiles of A and two of B. Each such step adds two sums of 16 terms to C (tile.h),
 * so results differ within the bound of a float sum from those of vector instructions, and not with
 * the number of threads: blocks of k are whole steps.
 *
 * Panels of B are [pairs][32]. A is read in place or packed by rows; where it is column-major, each
 * 16 pairs of all rows are packed together, [pairs/16][rows][16]. Both end in zeros up to a whole
 * step. Rows past the last are not in the tiles' shapes.
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_TILES_H
#define FV_KERNELS_SIMD_GEMM_BF16_TILES_H

#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/tile.h"

enum { BF16_TILE_ROWS = 2 * TILE_ROWS, BF16_TILE_COLS = 32, BF16_STEP = 16, BF16_WORDS = 1 };

/* Tiles 0 to 3 hold C, two by two; 4 and 5 the rows of A, 6 and 7 the columns of B. */
typedef struct bf16_state {
    tile_state tiles;
    int rows; /* for which the tiles are configured; 0: not yet */
} bf16_state;

typedef struct bf16_tile {
    bf16_state *state;
    int64_t words; /* of a row of A: pairs */
    const uint32_t *a;
    int64_t a_row, a_col;
    const uint32_t *b; /* [words][BF16_TILE_COLS] */
    const float *from; /* NULL: the sums start at 0; may be c */
    int64_t from_row;
    float *c;
    int64_t c_row;
} bf16_tile;

static void bf16_state_begin(bf16_state *s)
{
    tile_begin(&s->tiles);
    s->rows = 0;
}
static void bf16_state_end(bf16_state *s) { tile_end(&s->tiles); }

static void bf16_set_rows(bf16_state *s, int rows)
{
    if (s->rows == rows) return;
    const int first = rows < TILE_ROWS ? rows : TILE_ROWS, second = rows - first;
    const int by_tile[TILE_COUNT] = {first, first,  second,    second,
                                     first, second, TILE_ROWS, TILE_ROWS};
    tile_config config = {.palette = TILE_PALETTE};
    for (int t = 0; t < TILE_COUNT; t++) {
        config.rows[t] = (uint8_t)by_tile[t];
        config.row_bytes[t] = by_tile[t] ? TILE_ROW_BYTES : 0;
    }
    tile_configure(&s->tiles, &config);
    s->rows = rows;
}

/* The columns of two tiles, and the rows of one, in elements of four bytes. */
enum { BF16_NEXT_COLS = TILE_ROW_BYTES / 4 };

static void bf16_tile_sums(const bf16_tile *t, const bool two)
{
    tile_state *s = &t->state->tiles;
    const int64_t step = t->from_row * (int64_t)sizeof *t->from;
    if (!t->from) {
        tile_zero(s, 0);
        tile_zero(s, 1);
        if (two) {
            tile_zero(s, 2);
            tile_zero(s, 3);
        }
        return;
    }
    tile_load(s, 0, t->from, step);
    tile_load(s, 1, t->from + BF16_NEXT_COLS, step);
    if (two) {
        const float *next = t->from + TILE_ROWS * t->from_row;
        tile_load(s, 2, next, step);
        tile_load(s, 3, next + BF16_NEXT_COLS, step);
    }
}

static void bf16_tile_store(const bf16_tile *t, const bool two)
{
    tile_state *s = &t->state->tiles;
    const int64_t step = t->c_row * (int64_t)sizeof *t->c;
    tile_store(s, 0, t->c, step);
    tile_store(s, 1, t->c + BF16_NEXT_COLS, step);
    if (two) {
        float *next = t->c + TILE_ROWS * t->c_row;
        tile_store(s, 2, next, step);
        tile_store(s, 3, next + BF16_NEXT_COLS, step);
    }
}

/* rows 1..BF16_TILE_ROWS. */
static void bf16_tile_run(const bf16_tile *t, int rows)
{
    enum { B_STEP = BF16_TILE_COLS * (int)sizeof(uint32_t) };
    const bool two = rows > TILE_ROWS;
    bf16_set_rows(t->state, rows);
    bf16_tile_sums(t, two);
    tile_state *s = &t->state->tiles;
    const int64_t a_step = t->a_row * (int64_t)sizeof *t->a, a_next = BF16_STEP * t->a_col;
    const uint32_t *a = t->a, *second = two ? a + TILE_ROWS * t->a_row : a, *b = t->b;
    for (int64_t word = t->words; word > 0; word -= BF16_STEP) {
        tile_load(s, 6, b, B_STEP);
        tile_load(s, 7, b + BF16_NEXT_COLS, B_STEP);
        tile_load(s, 4, a, a_step);
        tile_dot_bf16(s, 0, 4, 6);
        tile_dot_bf16(s, 1, 4, 7);
        if (two) {
            tile_load(s, 5, second, a_step);
            tile_dot_bf16(s, 2, 5, 6);
            tile_dot_bf16(s, 3, 5, 7);
        }
        a += a_next;
        second += a_next;
        b += BF16_STEP * BF16_TILE_COLS;
    }
    bf16_tile_store(t, two);
}

/* Sixteen pairs or fewer, [pairs][FV_GEMM_BF16_ROWS], starting at pair `pair` of `rows` rows: row
 * by row, with zeros past the last pair. */
static void bf16_place_lines(const uint32_t *lines, int64_t pair, int64_t pairs, int64_t rows,
                             int64_t depth, uint32_t *out)
{
    (void)depth;
    fv_gemm_pack_b(rows, pairs, (const float *)(const void *)lines, 1, FV_GEMM_BF16_ROWS, BF16_STEP,
                   (float *)(void *)(out + pair * rows));
}
/* The strides of such an A; returns the distance of two rows. */
static int64_t bf16_placed_strides(bf16_tile *t, int64_t rows, int64_t depth)
{
    (void)depth;
    t->a_row = BF16_STEP;
    t->a_col = rows;
    return BF16_STEP;
}

FV_INLINE v_words bf16_round(vf x) { return v_to_bf16(x); }

/* Few rows leave tiles empty, but their sums must have the bits of tiles: 16 pairs a step, those of
 * even and of odd k apart, while the float unit takes and gives numbers below 2^-126 as zero. */
enum { BF16_FEW_WORDS = 2, BF16_FEW_SUMS = FV_SIMD_LEVEL == 3 ? 8 : 4 };
typedef struct bf16_pair {
    fv_vec first, second;
} bf16_pair;
typedef struct bf16_part {
    fv_vec even, odd;
} bf16_part;
typedef unsigned bf16_mode;
static bf16_mode bf16_mode_begin(void)
{
    const bf16_mode mode = _mm_getcsr();
    _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
    return mode;
}
static void bf16_mode_end(bf16_mode mode) { _mm_setcsr(mode); }
FV_INLINE bf16_pair bf16_pair_of(fv_vec first, fv_vec second) { return (bf16_pair){first, second}; }
FV_INLINE bf16_pair bf16_pair_of_words(fv_words words)
{
    return bf16_pair_of(fv_words_first(words), fv_words_second(words));
}
FV_INLINE bf16_part bf16_part_begin(fv_vec sum)
{
    (void)sum;
    return (bf16_part){fv_vec_zero(), fv_vec_zero()};
}
FV_INLINE bf16_part bf16_part_add(bf16_part part, const uint32_t *a, bf16_pair pair)
{
    const float *x = (const float *)(const void *)a;
    return (bf16_part){fv_vec_fma(fv_vec_set(x[1]), pair.first, part.even),
                       fv_vec_fma(fv_vec_set(x[0]), pair.second, part.odd)};
}
FV_INLINE fv_vec bf16_part_end(bf16_part part, fv_vec sum)
{
    return fv_vec_add(sum, fv_vec_add(part.even, part.odd));
}

#include "kernels/simd/gemm_bf16.h"

#endif
