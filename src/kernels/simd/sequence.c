/*
 * The products of recurrent steps on the register tile of the matrix product. Ahead, a panel holds
 * all gates of sixteen units, so that a tile ends with what their cells need; back, a panel holds
 * up to 64 units. A panel is packed by the member that uses it.
 */
#include "kernels/sequence.h"

#include "kernels/simd/cells.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/gemm_simd.h"

/* The panel that begins with `unit`; panels hold n H floats for each unit, rounded up. */
static float *panel_of(const fv_seqwalk *w, int64_t unit)
{
    return (float *)w->exec->scratch + unit * w->level->gates * w->args->hidden;
}

/* Rows of a, a_row floats apart, times `cols` columns of b, whose rows are b_row apart. */
static void multiply(const fv_patch *p, const float *a, int64_t a_row, const float *b,
                     int64_t b_row, int64_t cols, int64_t k, int64_t end, float *sums)
{
    fv_tile t = {.k = end - k,
                 .a = a + k,
                 .a_row = a_row,
                 .a_col = 1,
                 .b_row = b_row,
                 .from_row = FV_SEQWALK_WIDTH,
                 .c_row = FV_SEQWALK_WIDTH};
    for (int64_t col = 0; col < cols; col += FV_TILE_COLS) {
        t.b = b + k * b_row + col;
        t.c = sums + col;
        t.from = k > 0 ? t.c : NULL;
        const int64_t left = cols - col;
        fv_gemm_tile(&t, (int)p->rows, (int)(left < FV_TILE_COLS ? left : FV_TILE_COLS));
    }
}

static void pack_ahead(const fv_seqwalk *w, int64_t unit, int64_t units)
{
    const fv_sequence_args *a = w->args;
    fv_gemm_pack_slices(a->hidden, units, (const float *)w->weight + unit * a->w_row, a->w_col,
                        a->w_row, w->level->gates, a->hidden, FV_SEQWALK_AHEAD, panel_of(w, unit));
}

static void multiply_ahead(const fv_seqwalk *w, const fv_patch *p, int64_t k, int64_t end,
                           void *sums)
{
    const int64_t n = w->args->hidden, cols = w->level->gates * FV_SEQWALK_AHEAD;
    const float *h = !p->starts
                         ? (const float *)w->factor + fv_seqwalk_at(w, p->step - 1, p->row, n)
                         : (const float *)w->h0 + p->row * n;
    multiply(p, h, n, panel_of(w, p->unit), cols, cols, k, end, sums);
}

/* Back, the rows of a small weight serve as they lie; those of a large one, a power of two apart,
 * would push each other out of the caches. */
static bool in_place(const fv_seqwalk *w)
{
    return w->args->w_col == 1 && w->args->hidden <= 2 * FV_GEMM_PANEL;
}

/* Columns of the panel for so many units: whole vectors. */
static int64_t whole(int64_t units) { return (units + FV_LANES - 1) / FV_LANES * FV_LANES; }

static void pack_back(const fv_seqwalk *w, int64_t unit, int64_t units)
{
    const fv_sequence_args *a = w->args;
    if (in_place(w)) return;
    fv_gemm_pack_b(w->level->gates * a->hidden, units, (const float *)w->weight + unit * a->w_col,
                   a->w_row, a->w_col, (int)whole(units), panel_of(w, unit));
}

static void multiply_back(const fv_seqwalk *w, const fv_patch *p, int64_t k, int64_t end,
                          void *sums)
{
    const int64_t n = w->level->gates * w->args->hidden, cols = whole(p->units);
    const float *d = (const float *)w->factor + fv_seqwalk_at(w, p->step, p->row, n);
    if (in_place(w))
        multiply(p, d, n, (const float *)w->weight + p->unit, w->args->w_row, p->units, k, end,
                 sums);
    else
        multiply(p, d, n, panel_of(w, p->unit), cols, cols, k, end, sums);
}

#define PACK_AHEAD pack_ahead
#define PACK_BACK  pack_back
#include "kernels/sequence.inc"

void fv_simd_sequence_fill(fv_kernel_table *t) { fill_sequences(t); }
