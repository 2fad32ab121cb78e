/*
 * A few rows times a large B, for AVX2. Its tiles are one line of B wide, and lines that lie a row
 * apart come from L3 at half the speed of neighbours; rows a power of two apart also push each
 * other out of L1. So B is met in blocks of DEPTH rows and 64 columns: the first strip copies a
 * block to where it stays in L1, and while the last strip computes it asks for the next block,
 * neighbouring lines together. Packed weights lie as the copy would.
 *
 * A tile of a block is some three hundred cycles, so what lies between two tiles counts: these are
 * inlined, and their sums are a constant distance apart. Calls of the tiles of gemm_tile.c and
 * gemm_wide.c, which serve any layout, cost three percent.
 */
#include <string.h>

#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 2

enum { DEPTH = 64 };

/* One block on its way. */
typedef struct pass {
    int64_t rows, k;
    const float *a; /* at the block's first column */
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    const float *next; /* the block that is asked for, rows b_row apart */
    float *sums;       /* [rows][FV_GEMM_PANEL] */
    float *copy;       /* [DEPTH][FV_GEMM_PANEL], or NULL: b serves as it lies */
} pass;

/* A strip of it. */
typedef struct strip {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row;
    float *sums;
    float *copy;
    const float *ask;
    int64_t ask_row;
} strip;

typedef enum strip_kind { PLAIN, COPY /* B on the way */, ASK /* for the next block */ } strip_kind;

enum { MOST_VECS = FV_WIDE_COLS / FV_VEC };

/* One k: sums of `rows` rows and `vecs` vectors. Up to FV_WIDE_ROWS rows keep A's elements in
 * registers while B's vectors pass, more rows do it the other way round: either fits into sixteen
 * registers. */
FV_INSTANCE void step(fv_vec sum[][MOST_VECS], const float *a, const float *a3, int64_t a_row,
                      const float *b, float *copy, const int rows, const int vecs,
                      const strip_kind kind)
{
    fv_vec x[FV_WIDE_ROWS], y[MOST_VECS];
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

/* Columns [col, col + vecs vectors), asking for the rows at `ask`: a part of a row each k, so that
 * neighbouring lines are asked for together and a panel's tiles ask for all rows. */
FV_INSTANCE void tile(const strip *s, int64_t col, const float *ask, const int rows, const int vecs,
                      const strip_kind kind)
{
    const int tiles = FV_GEMM_PANEL / (vecs * FV_VEC), part = FV_GEMM_PANEL / tiles;
    const int64_t a_row = s->a_row, a_col = s->a_col, b_row = s->b_row, ask_row = s->ask_row;
    const float *a = s->a, *a3 = s->a + 3 * a_row, *b = s->b + col;
    float *sums = s->sums + col, *copy = kind == COPY ? s->copy + col : NULL;
    fv_vec sum[FV_GEMM_STRIP][MOST_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_load(sums + i * FV_GEMM_PANEL + v * FV_VEC);
    }
    unsigned asked = 0; /* of a row */
    for (int64_t k = s->k; k > 0; k--) {
        if (kind == ASK) {
            FV_UNROLL
            for (int j = 0; j < part; j += FV_LINE)
                _mm_prefetch((const void *)(ask + asked + j), _MM_HINT_T1);
            asked = (asked + (unsigned)part) % FV_GEMM_PANEL;
            if (asked == 0) ask += ask_row;
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

/* All columns. */
FV_INSTANCE void tiles(const strip *s, const int rows, const strip_kind kind)
{
    const int vecs = rows <= FV_WIDE_ROWS ? FV_WIDE_COLS / FV_VEC : FV_TILE_VECS;
    const int cols = vecs * FV_VEC, count = FV_GEMM_PANEL / cols;
    const float *ask = s->ask;
    for (int64_t col = 0; col < FV_GEMM_PANEL; col += cols) {
        tile(s, col, ask, rows, vecs, kind);
        if (kind == ASK) ask += s->k / count * s->ask_row;
    }
}

#define ROWS(n, kind)                                                                              \
    case n:                                                                                        \
        tiles(s, n, kind);                                                                         \
        break

static void strip_plain(const strip *s, int64_t rows)
{
    switch (rows) {
        ROWS(3, PLAIN);
        ROWS(4, PLAIN);
        ROWS(5, PLAIN);
    default:
        tiles(s, 6, PLAIN);
    }
}

static void strip_ask(const strip *s, int64_t rows)
{
    switch (rows) {
        ROWS(1, ASK);
        ROWS(2, ASK);
        ROWS(3, ASK);
        ROWS(4, ASK);
        ROWS(5, ASK);
    default:
        tiles(s, 6, ASK);
    }
}
#undef ROWS

/* Rows of the strip that begins with `row`. With several strips the first is thin, the others are
 * even: it reads B from far away, and its loop has the most multiply-adds for a line. */
static int64_t strip_rows(int64_t row, int64_t rows)
{
    const int64_t left = rows - row;
    if (row == 0 && rows > FV_GEMM_STRIP) return FV_WIDE_ROWS;
    const int64_t strips = (left + FV_GEMM_STRIP - 1) / FV_GEMM_STRIP;
    return (left + strips - 1) / strips;
}

static void run_strip(const pass *p, int64_t row, int64_t rows)
{
    const bool copied = row > 0 && p->copy;
    const strip s = {.k = p->k,
                     .a = p->a + row * p->a_row,
                     .a_row = p->a_row,
                     .a_col = p->a_col,
                     .b = copied ? p->copy : p->b,
                     .b_row = copied ? FV_GEMM_PANEL : p->b_row,
                     .sums = p->sums + row * FV_GEMM_PANEL,
                     .copy = p->copy,
                     .ask = p->next,
                     .ask_row = p->b_row};
    if (row == 0 && p->copy)
        tiles(&s, FV_WIDE_ROWS, COPY);
    else if (row + rows == p->rows)
        strip_ask(&s, rows);
    else
        strip_plain(&s, rows);
}

void fv_gemm_few(const fv_few *f)
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
            rows = strip_rows(row, f->rows);
            run_strip(&p, row, rows);
        }
    }
    fv_gemm_finish(&f->finish, sums, FV_GEMM_PANEL, f->c, f->c_row, f->rows, f->cols);
}

#endif
