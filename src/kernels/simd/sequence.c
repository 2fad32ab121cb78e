/*
 * The products of recurrent steps on the GEMM register tile. In the forward pass a panel holds all
 * gates of sixteen units, so that a tile yields all that their cells need; in the backward pass a
 * panel holds up to 64 units. Each panel is packed by the member that uses it.
 */
#include "kernels/sequence.h"

#include "kernels/simd/cells.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/register.h"

/* The panel that starts at `unit`; panels hold n H floats for each unit, rounded up. */
static float *panel_of(const fv_recurrence *run, int64_t unit)
{
    return (float *)run->exec->scratch + unit * run->level->gates * run->args->hidden;
}

/* Rows of a (row stride a_row) times `cols` columns of b (row stride b_row). */
static void multiply(const fv_step_block *p, const float *a, int64_t a_row, const float *b,
                     int64_t b_row, int64_t cols, int64_t k, int64_t end, float *sums)
{
    fv_tile t = {.k = end - k,
                 .a = a + k,
                 .a_row = a_row,
                 .a_col = 1,
                 .b_row = b_row,
                 .from_row = FV_RECURRENCE_SUM_ROW,
                 .c_row = FV_RECURRENCE_SUM_ROW};
    for (int64_t col = 0; col < cols; col += FV_TILE_COLS) {
        t.b = b + k * b_row + col;
        t.c = sums + col;
        t.from = k > 0 ? t.c : NULL;
        const int64_t left = cols - col;
        fv_gemm_tile(&t, (int)p->rows, (int)(left < FV_TILE_COLS ? left : FV_TILE_COLS));
    }
}

static void pack_forward(const fv_recurrence *run, int64_t unit, int64_t units)
{
    const fv_sequence_args *a = run->args;
    fv_gemm_pack_slices(a->hidden, units, (const float *)run->weight + unit * a->w_row, a->w_col,
                        a->w_row, run->level->gates, a->hidden, FV_RECURRENCE_FORWARD_UNITS,
                        panel_of(run, unit));
}

static void multiply_forward(const fv_recurrence *run, const fv_step_block *p, int64_t k,
                             int64_t end, void *sums)
{
    const int64_t n = run->args->hidden, cols = run->level->gates * FV_RECURRENCE_FORWARD_UNITS;
    const float *h = !p->is_start ? (const float *)run->operand +
                                        fv_recurrence_offset(run, p->step - 1, p->row, n)
                                  : (const float *)run->h0 + p->row * n;
    multiply(p, h, n, panel_of(run, p->unit), cols, cols, k, end, sums);
}

/* In the backward pass the rows of a small weight are read in place; those of a large one, a power
 * of two apart, would evict each other from the cache. */
static bool in_place(const fv_recurrence *run)
{
    return run->args->w_col == 1 && run->args->hidden <= 2 * FV_GEMM_PANEL;
}

/* Columns of the panel for so many units: whole vectors. */
static int64_t whole(int64_t units) { return (units + FV_LANES - 1) / FV_LANES * FV_LANES; }

static void pack_backward(const fv_recurrence *run, int64_t unit, int64_t units)
{
    const fv_sequence_args *a = run->args;
    if (in_place(run)) return;
    fv_gemm_pack_b(run->level->gates * a->hidden, units,
                   (const float *)run->weight + unit * a->w_col, a->w_row, a->w_col,
                   (int)whole(units), panel_of(run, unit));
}

static void multiply_backward(const fv_recurrence *run, const fv_step_block *p, int64_t k,
                              int64_t end, void *sums)
{
    const int64_t n = run->level->gates * run->args->hidden, cols = whole(p->units);
    const float *d = (const float *)run->operand + fv_recurrence_offset(run, p->step, p->row, n);
    if (in_place(run))
        multiply(p, d, n, (const float *)run->weight + p->unit, run->args->w_row, p->units, k, end,
                 sums);
    else
        multiply(p, d, n, panel_of(run, p->unit), cols, cols, k, end, sums);
}

#define PACK_FORWARD  pack_forward
#define PACK_BACKWARD pack_backward
#include "kernels/sequence.inc"

void fv_simd_sequence_register(fv_kernel_table *t) { fill_sequences(t); }
