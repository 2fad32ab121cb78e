/* The products of recurrent steps by their definition, without packing. */
#include "kernels/sequence.h"

#include "kernels/ref/cells.h"

static void multiply_forward(const fv_recurrence *run, const fv_step_block *p, int64_t k,
                             int64_t end, void *sums)
{
    const fv_sequence_args *a = run->args;
    const int64_t n = a->hidden;
    for (int64_t row = p->row; row < p->row + p->rows; row++) {
        const real *h = !p->is_start ? (const real *)run->operand +
                                           fv_recurrence_offset(run, p->step - 1, row, n)
                                     : (const real *)run->h0 + row * n;
        for (int gate = 0; gate < run->level->gates; gate++)
            for (int64_t unit = 0; unit < p->units; unit++) {
                const real *column =
                    (const real *)run->weight + (gate * n + p->unit + unit) * a->w_row;
                real *sum = (real *)sums + (row - p->row) * FV_RECURRENCE_SUM_ROW +
                            gate * FV_RECURRENCE_FORWARD_UNITS;
                real s = k > 0 ? sum[unit] : 0;
                for (int64_t i = k; i < end; i++)
                    s = real_fma(h[i], column[i * a->w_col], s);
                sum[unit] = s;
            }
    }
}

static void multiply_backward(const fv_recurrence *run, const fv_step_block *p, int64_t k,
                              int64_t end, void *sums)
{
    const fv_sequence_args *a = run->args;
    const real *weight = (const real *)run->weight + p->unit * a->w_col;
    for (int64_t row = p->row; row < p->row + p->rows; row++) {
        const real *d = (const real *)run->operand +
                        fv_recurrence_offset(run, p->step, row, run->level->gates * a->hidden);
        real *sum = (real *)sums + (row - p->row) * FV_RECURRENCE_SUM_ROW;
        for (int64_t unit = 0; unit < p->units && k == 0; unit++)
            sum[unit] = 0;
        for (int64_t i = k; i < end; i++)
            for (int64_t unit = 0; unit < p->units; unit++)
                sum[unit] = real_fma(d[i], weight[i * a->w_row + unit * a->w_col], sum[unit]);
    }
}

#define PACK_FORWARD  NULL
#define PACK_BACKWARD NULL
#include "kernels/sequence.inc"

void FV_NAME(fv_ref_sequence_register)(fv_kernel_table *t) { fill_sequences(t); }
