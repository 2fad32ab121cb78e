/* The products of recurrent steps as their definition says it: nothing is packed. */
#include "kernels/sequence.h"

#include "kernels/ref/cells.h"

static void multiply_ahead(const fv_seqwalk *w, const fv_patch *p, int64_t k, int64_t end,
                           void *sums)
{
    const fv_sequence_args *a = w->args;
    const int64_t n = a->hidden;
    for (int64_t row = p->row; row < p->row + p->rows; row++) {
        const real *h = !p->starts ? (const real *)w->factor + fv_seqwalk_at(w, p->step - 1, row, n)
                                   : (const real *)w->h0 + row * n;
        for (int gate = 0; gate < w->level->gates; gate++)
            for (int64_t unit = 0; unit < p->units; unit++) {
                const real *column =
                    (const real *)w->weight + (gate * n + p->unit + unit) * a->w_row;
                real *sum =
                    (real *)sums + (row - p->row) * FV_SEQWALK_WIDTH + gate * FV_SEQWALK_AHEAD;
                real s = k > 0 ? sum[unit] : 0;
                for (int64_t i = k; i < end; i++)
                    s = real_fma(h[i], column[i * a->w_col], s);
                sum[unit] = s;
            }
    }
}

static void multiply_back(const fv_seqwalk *w, const fv_patch *p, int64_t k, int64_t end,
                          void *sums)
{
    const fv_sequence_args *a = w->args;
    const real *weight = (const real *)w->weight + p->unit * a->w_col;
    for (int64_t row = p->row; row < p->row + p->rows; row++) {
        const real *d =
            (const real *)w->factor + fv_seqwalk_at(w, p->step, row, w->level->gates * a->hidden);
        real *sum = (real *)sums + (row - p->row) * FV_SEQWALK_WIDTH;
        for (int64_t unit = 0; unit < p->units && k == 0; unit++)
            sum[unit] = 0;
        for (int64_t i = k; i < end; i++)
            for (int64_t unit = 0; unit < p->units; unit++)
                sum[unit] = real_fma(d[i], weight[i * a->w_row + unit * a->w_col], sum[unit]);
    }
}

#define PACK_AHEAD NULL
#define PACK_BACK  NULL
#include "kernels/sequence.inc"

void FV_NAME(fv_ref_sequence_fill)(fv_kernel_table *t) { fill_sequences(t); }
