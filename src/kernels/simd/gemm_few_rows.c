/*
 * A few rows times a large B, for AVX2 and NEON. A tile is one cache line of B wide, and lines that
 * are a row apart come from L3 at half the speed of consecutive lines; rows a power of two apart
 * also evict each other from L1. So B is processed in blocks of DEPTH rows by 64 columns: the first
 * row tile copies a block to a buffer that stays in L1, and the last row tile prefetches the next
 * block, consecutive lines together. Packed weights already have the layout of the copy.
 *
 * A tile of a block takes about three hundred cycles, so the work between two tiles matters: these
 * tiles are inlined, and their sums have a constant stride. Calling the general tiles of
 * gemm_tile.c and gemm_wide.c would cost three percent.
 */
#include <string.h>

#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL != 3

enum { DEPTH = 64 };

/* One block of B. */
typedef struct pass {
    int64_t rows, k;
    const float *a; /* at the block's first column */
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    const float *next; /* the block to prefetch, with row stride b_row */
    float *sums;       /* [rows][FV_GEMM_PANEL] */
    float *copy;       /* [DEPTH][FV_GEMM_PANEL]; NULL: b is read in place */
} pass;

/* One row tile of the block. */
typedef struct row_tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    float *sums;
    float *copy;
    const float *prefetch;
    int64_t prefetch_row;
} row_tile;

typedef enum tile_kind {
    PLAIN,
    COPY /* copy B while computing */,
    PREFETCH /* prefetch the next block */
} tile_kind;

enum { MAX_VECS = FV_WIDE_COLS / FV_VEC };

/* One step of k for `rows` rows and `vecs` vectors. Up to FV_WIDE_ROWS rows keep A's elements in
 * registers while B's vectors pass; more rows keep B's vectors instead. Either fits into sixteen
 * registers. */
FV_INSTANCE void step(fv_vec sum[][MAX_VECS], const float *a, const float *a3, int64_t a_row,
                      const float *b, float *copy, const int rows, const int vecs,
                      const tile_kind kind)
{
    fv_vec x[FV_WIDE_ROWS], y[MAX_VECS];
    if (rows <= FV_WIDE_ROWS) {
        FV_UNROLL
        for (int i = 0; i < rows; i++)
            x[i] = fv_vec_set(a[i * a_row]);
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            y[0] = fv_vec_load(b + v * FV_VEC);
            if (kind == COPY) fv_vec_store(copy + v * FV_VEC, y[0]);
            FV_UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = fv_vec_fma(x[i], y[0], sum[i][v]);
        }
        return;
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        y[v] = fv_vec_load(b + v * FV_VEC);
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        x[0] = fv_vec_set(i < 3 ? a[i * a_row] : a3[(i - 3) * a_row]);
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_fma(x[0], y[v], sum[i][v]);
    }
}

/* Columns [col, col + vecs vectors), prefetching the rows at `prefetch`. Each k prefetches part
 * of a row, so that consecutive lines are requested together and the tiles of a panel cover all
 * rows. */
FV_INSTANCE void tile(const row_tile *r, int64_t col, const float *prefetch, const int rows,
                      const int vecs, const tile_kind kind)
{
    const int tiles = FV_GEMM_PANEL / (vecs * FV_VEC), part = FV_GEMM_PANEL / tiles;
    const int64_t a_row = r->a_row, a_col = r->a_col, b_row = r->b_row,
                  prefetch_row = r->prefetch_row;
    const float *a = r->a, *a3 = r->a + 3 * a_row, *b = r->b + col;
    float *sums = r->sums + col, *copy = kind == COPY ? r->copy + col : NULL;
    fv_vec sum[FV_GEMM_TILE_ROWS][MAX_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_load(sums + i * FV_GEMM_PANEL + v * FV_VEC);
    }
    unsigned prefetched = 0; /* floats of the current row already prefetched */
    for (int64_t k = r->k; k > 0; k--) {
        if (kind == PREFETCH) {
            FV_UNROLL
            for (int j = 0; j < part; j += FV_LINE)
                fv_prefetch_l2(prefetch + prefetched + j);
            prefetched = (prefetched + (unsigned)part) % FV_GEMM_PANEL;
            if (prefetched == 0) prefetch += prefetch_row;
        }
        step(sum, a, a3, a_row, b, copy, rows, vecs, kind);
        a += a_col;
        a3 += a_col;
        b += b_row;
        if (kind == COPY) copy += FV_GEMM_PANEL;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            fv_vec_store(sums + i * FV_GEMM_PANEL + v * FV_VEC, sum[i][v]);
    }
}

/* All columns of the panel. */
FV_INSTANCE void tiles(const row_tile *r, const int rows, const tile_kind kind)
{
    const int vecs = rows <= FV_WIDE_ROWS ? FV_WIDE_COLS / FV_VEC : FV_TILE_VECS;
    const int cols = vecs * FV_VEC, count = FV_GEMM_PANEL / cols;
    const float *prefetch = r->prefetch;
    for (int64_t col = 0; col < FV_GEMM_PANEL; col += cols) {
        tile(r, col, prefetch, rows, vecs, kind);
        if (kind == PREFETCH) prefetch += r->k / count * r->prefetch_row;
    }
}

#define ROWS(n, kind)                                                                              \
    case n:                                                                                        \
        tiles(r, n, kind);                                                                         \
        break

static void tile_plain(const row_tile *r, int64_t rows)
{
    switch (rows) {
        ROWS(3, PLAIN);
        ROWS(4, PLAIN);
        ROWS(5, PLAIN);
    default:
        tiles(r, 6, PLAIN);
    }
}

static void tile_prefetch(const row_tile *r, int64_t rows)
{
    switch (rows) {
        ROWS(1, PREFETCH);
        ROWS(2, PREFETCH);
        ROWS(3, PREFETCH);
        ROWS(4, PREFETCH);
        ROWS(5, PREFETCH);
    default:
        tiles(r, 6, PREFETCH);
    }
}
#undef ROWS

/* Rows of the tile that starts at `row`. If there are several tiles the first one is small and the
 * others are even: the first reads B from a distant cache, and with few rows its loop does the most
 * multiply-adds per line of B. */
static int64_t tile_rows(int64_t row, int64_t rows)
{
    const int64_t left = rows - row;
    if (row == 0 && rows > FV_GEMM_TILE_ROWS) return FV_WIDE_ROWS;
    const int64_t tiles = (left + FV_GEMM_TILE_ROWS - 1) / FV_GEMM_TILE_ROWS;
    return (left + tiles - 1) / tiles;
}

static void run_row_tile(const pass *p, int64_t row, int64_t rows)
{
    const bool copied = row > 0 && p->copy;
    const row_tile r = {.k = p->k,
                        .a = p->a + row * p->a_row,
                        .a_row = p->a_row,
                        .a_col = p->a_col,
                        .b = copied ? p->copy : p->b,
                        .b_row = copied ? FV_GEMM_PANEL : p->b_row,
                        .sums = p->sums + row * FV_GEMM_PANEL,
                        .copy = p->copy,
                        .prefetch = p->next,
                        .prefetch_row = p->b_row};
    if (row == 0 && p->copy)
        tiles(&r, FV_WIDE_ROWS, COPY);
    else if (row + rows == p->rows)
        tile_prefetch(&r, rows);
    else
        tile_plain(&r, rows);
}

void fv_gemm_few_rows(const fv_few_rows *f)
{
    _Alignas(64) float sums[FV_DIRECT_ROWS * FV_GEMM_PANEL];
    memset(sums, 0, (size_t)(f->rows * FV_GEMM_PANEL) * sizeof *sums);
    for (int64_t i = 0; i < f->rows && f->accumulate; i++)
        memcpy(sums + i * FV_GEMM_PANEL, f->c + i * f->c_row, (size_t)f->cols * sizeof *sums);
    pass p = {.rows = f->rows,
              .a_row = f->a_row,
              .a_col = f->a_col,
              .b_row = f->b_row,
              .sums = sums,
              .copy = f->copy};
    for (int64_t k = 0; k < f->k; k += DEPTH) {
        const bool last = f->k - k <= DEPTH;
        p.k = last ? f->k - k : DEPTH;
        p.a = f->a + k * f->a_col;
        p.b = f->b + k * f->b_row;
        p.next = last ? f->next : p.b + DEPTH * f->b_row;
        for (int64_t row = 0, rows; row < f->rows; row += rows) {
            rows = tile_rows(row, f->rows);
            run_row_tile(&p, row, rows);
        }
    }
    fv_gemm_apply_epilogue(&f->finish, sums, FV_GEMM_PANEL, f->c, f->c_row, f->rows, f->cols);
}

#endif
