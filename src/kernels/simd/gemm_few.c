/*
 * A few rows times a large B, for AVX2. Its tiles are one line of B wide, and lines that lie a row
 * apart come from L3 at half the speed of neighbours; rows a power of two apart also push each
 * other out of L1. So B is met in blocks of DEPTH rows and 64 columns: the first strip copies a
 * block to where it stays in L1, and while the last strip computes it asks for the next block, four
 * neighbouring lines at a time. Packed weights lie as the copy would.
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
    bool first;        /* the sums start here */
    float *sums;       /* [rows][FV_GEMM_PANEL] */
    float *copy;       /* [DEPTH][FV_GEMM_PANEL], or NULL: b serves as it lies */
} pass;

/* Rows of the strip that begins with `row`: the first is thin where that evens the others out. */
static int64_t strip_rows(int64_t row, int64_t rows)
{
    const int64_t left = rows - row;
    if (row == 0 && rows > FV_GEMM_STRIP) return FV_WIDE_ROWS;
    const int64_t strips = (left + FV_GEMM_STRIP - 1) / FV_GEMM_STRIP;
    return (left + strips - 1) / strips;
}

/* All columns of one strip. */
static void run_strip(const pass *p, int64_t row, int64_t rows)
{
    const bool copied = row > 0 && p->copy, asks = row + rows == p->rows;
    float *sums = p->sums + row * FV_GEMM_PANEL;
    const fv_tile t = {.k = p->k,
                       .a = p->a + row * p->a_row,
                       .a_row = p->a_row,
                       .a_col = p->a_col,
                       .b = copied ? p->copy : p->b,
                       .b_row = copied ? FV_GEMM_PANEL : p->b_row,
                       .from = p->first ? NULL : sums,
                       .from_row = FV_GEMM_PANEL,
                       .c = sums,
                       .c_row = FV_GEMM_PANEL,
                       .packed = p->copy,
                       .ask = p->next,
                       .ask_row = p->b_row};
    if (rows > FV_WIDE_ROWS)
        FV_GEMM_NAME(tile_panel)(&t, (int)rows, asks);
    else if (row == 0 && p->copy)
        FV_GEMM_NAME(panel_copy)(&t, (int)rows);
    else if (asks)
        FV_GEMM_NAME(panel_ask)(&t, (int)rows);
    else
        FV_GEMM_NAME(panel_whole)(&t, (int)rows);
}

void FV_GEMM_NAME(few)(const fv_few *f)
{
    _Alignas(64) float sums[FV_DIRECT_ROWS * FV_GEMM_PANEL];
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
        p.first = k == 0 && !f->accumulate;
        for (int64_t row = 0, rows; row < f->rows; row += rows) {
            rows = strip_rows(row, f->rows);
            run_strip(&p, row, rows);
        }
    }
    FV_GEMM_NAME(finish)
    (&f->finish, sums, FV_GEMM_PANEL, f->c, f->c_row, f->rows, f->cols);
}

#endif
