/*
 * LSTM and GRU over whole sequences: the product with the recurrent weight and the cell
 * (kernels/recurrent.h) of every step, by a team of threads that stays together from the first step
 * to the last.
 *
 * T steps, batch B, hidden size H, n gates (4 for LSTM, 3 for GRU); args: fv_sequence_args. All
 * arrays are contiguous except the weight [n H, H]. Steps are numbered in the order they run. With
 * `lengths` [B] the sequences have different lengths, in the layout of PyTorch's PackedSequence:
 * longest first, the rows of a step are the sequences still running, and [T, B, ...] below is [sum
 * of lengths, ...]. Each sequence then starts at its own first step and ends at its own last, in
 * either direction.
 *
 * LSTM ptr: h [T, B, H], c [T, B, H] (or NULL: not kept), acts [T, B, 4 H] (or NULL), h_last,
 *   c_last [B, H], x_gates [T, B, 4 H], weight, h0, c0 [B, H] (or NULL: zeros), lengths (or NULL)
 *   h, c, acts of a step = the cell of x_gates + h_prev W^T and c_prev; acts may be x_gates
 * LSTM_GRAD ptr: dx_gates [T, B, 4 H], dh0, dc0 [B, H], h_prev [T, B, H] (each or NULL: not
 *   requested), dh [T, B, H], dh_last, dc_last [B, H] (each or NULL: zeros), acts, c, weight, c0
 *   (or NULL: zeros), h, h0 (or NULL: zeros; both only for h_prev), lengths (or NULL)
 *   D = the cell's backward, dh_prev = D W + its own upstream, h_prev = h before each step;
 *   dx_gates may be acts
 *   terms: 0 to 5 in the cell, 6 D W, 7 dh_last, 8 dh, 9 h_prev except 10, h0 in h_prev
 *
 * GRU ptr: h, acts [T, B, 4 H] (or NULL), h_last, x_gates [T, B, 3 H], weight, bias [3 H] (or
 *   NULL), h0 (or NULL: zeros), lengths (or NULL)
 *   h, acts of a step = the cell of x_gates, h_prev W^T + bias, and h_prev
 * GRU_GRAD ptr: dx_gates, dh_gates [T, B, 3 H], dh0, h_prev (each or NULL), dh, dh_last (each or
 *   NULL), acts, h, weight, h0 (or NULL), lengths (or NULL)
 *   dx_gates, E = dh_gates, direct = the cell's backward; dh_prev = E W + direct + own upstream
 *   terms: 0 to 4 in the cell, 5 E W, 6 dh_last, 7 dh, 8 h_prev except 9, h0 in h_prev
 *
 * How the work is divided: each team member owns some hidden units with their gates, states and
 * gradients. It multiplies by its columns of the weight, which it packs on first use and which then
 * stay in its own cache. Once per step the members exchange results: in the forward pass their part
 * of h, in the backward pass their part of the gates' gradient. Each element is one chain of FMAs
 * with k ascending on any thread, so neither the team size nor the batch affects the bits.
 */
#ifndef FV_KERNELS_SEQUENCE_H
#define FV_KERNELS_SEQUENCE_H

#include "kernels/gemm.h"

typedef struct fv_sequence_args {
    int64_t steps, batch, hidden; /* steps: 0 with `lengths`, the kernel finds it */
    int64_t total;                /* rows of all steps */
    int64_t w_row, w_col;         /* element strides of the weight */
    bool reverse;                 /* step 0 is the last of the sequence */
    size_t element;               /* bytes per element, for the scratch query */
} fv_sequence_args;

/* ---- interface between sequence.c and the levels ---------------------------------------- */

/* Some rows of the batch and some hidden units of one step. */
typedef struct fv_step_block {
    int64_t step, row, rows, unit, units;
    bool is_start; /* in products and `finish`: rows whose sequence starts here */
} fv_step_block;

enum {
    FV_RECURRENCE_ROWS = FV_GEMM_TILE_ROWS, /* maximum rows of a block that is multiplied */
    FV_RECURRENCE_UNITS = FV_GEMM_PANEL,    /* maximum units of a block */
    /* Forward: units multiplied together, all gates in one panel. */
    FV_RECURRENCE_FORWARD_UNITS = FV_LANES,
    /* Strides of the sums: from row to row, and from panel to panel. */
    FV_RECURRENCE_SUM_ROW = FV_GEMM_PANEL,
    FV_RECURRENCE_PANEL_SUMS = FV_RECURRENCE_ROWS * FV_RECURRENCE_SUM_ROW,
};

typedef struct fv_recurrence fv_recurrence;

/* What a level implements. The sums of a panel are rows of FV_RECURRENCE_SUM_ROW elements: in the
 * forward pass gate g of unit u is at g * FV_RECURRENCE_FORWARD_UNITS + u, in the backward pass
 * unit u is at u. The sums of a block are those of its panels, FV_RECURRENCE_PANEL_SUMS apart. */
typedef struct fv_recurrence_level {
    int gates;
    /* Packs the weight for the units of a panel; NULL: it is read in place. */
    void (*pack)(const fv_recurrence *run, int64_t unit, int64_t units);
    /* Prefetches what another member, the owner of units [begin, end), wrote for this product.
     * Otherwise each line would be waited for separately while it comes from another core's
     * cache. */
    void (*prefetch)(const fv_recurrence *run, const fv_step_block *p, int64_t begin, int64_t end);
    /* Adds elements [k, end) of every chain to the sums of a panel; k = 0 starts them. Forward:
     * h_prev W^T (H elements); backward: the gates' gradient times W (n H elements). */
    void (*multiply)(const fv_recurrence *run, const fv_step_block *p, int64_t k, int64_t end,
                     void *sums);
    /* Forward: the cell. Backward: the gradient of h_prev. */
    void (*finish)(const fv_recurrence *run, const fv_step_block *p, const void *sums);
    /* Backward only: the gradient of the last h, and the cell's backward. */
    void (*begin)(const fv_recurrence *run, const fv_step_block *p);
    void (*cell)(const fv_recurrence *run, const fv_step_block *p);
} fv_recurrence_level;

/* One kernel call. */
struct fv_recurrence {
    const fv_exec *exec;
    const fv_sequence_args *args;
    void *const *ptr;
    const fv_recurrence_level *level;
    const void *weight;
    const void *operand;    /* forward: h of every step; backward: gates' gradient of every step */
    const void *h0;         /* forward: the initial state, or NULL */
    bool has_initial;       /* the initial state is given, or its gradient requested */
    const int64_t *lengths; /* or NULL: all sequences have `steps` steps */
    const int64_t *begin;   /* [steps + 1]: first row of each time step; NULL: batch rows each */
};

/* Runs every step, on a team if there is enough work. Raises a fault if lengths are not descending
 * or do not add up to `total`. */
void fv_recurrence_forward(const fv_recurrence *run);
void fv_recurrence_backward(const fv_recurrence *run);

/* Scratch layout: the packed weight; then the gradients of h and (LSTM) c, with row stride
 * fv_recurrence_padded_units; then `begin`. */
size_t fv_lstm_scratch_query(const void *args, int threads);
size_t fv_gru_scratch_query(const void *args, int threads);

/* H rounded up to whole lanes, so that members do not share a cache line. */
static inline int64_t fv_recurrence_padded_units(const fv_recurrence *run)
{
    return (run->args->hidden + FV_LANES - 1) / FV_LANES * FV_LANES;
}

/* Elements of the packed weight, after which the gradients follow. */
static inline int64_t fv_recurrence_weight_elements(const fv_recurrence *run)
{
    return fv_recurrence_padded_units(run) * run->level->gates * run->args->hidden;
}

static inline int64_t fv_recurrence_time(const fv_recurrence *run, int64_t step)
{
    return run->args->reverse ? run->args->steps - 1 - step : step;
}

/* Rows of a step. Of these, the first `continued` rows also ran in the previous step, and the first
 * `surviving` rows also run in the next. */
static inline int64_t fv_recurrence_rows(const fv_recurrence *run, int64_t step)
{
    const int64_t time = fv_recurrence_time(run, step);
    return run->begin ? run->begin[time + 1] - run->begin[time] : run->args->batch;
}

static inline int64_t fv_recurrence_continued_rows(const fv_recurrence *run, int64_t step)
{
    if (step == 0) return 0;
    const int64_t here = fv_recurrence_rows(run, step),
                  previous = fv_recurrence_rows(run, step - 1);
    return here < previous ? here : previous;
}

static inline int64_t fv_recurrence_surviving_rows(const fv_recurrence *run, int64_t step)
{
    return step + 1 < run->args->steps ? fv_recurrence_continued_rows(run, step + 1) : 0;
}

/* Offset of row `row` of step `step` in an array of `width` elements per row. */
static inline int64_t fv_recurrence_offset(const fv_recurrence *run, int64_t step, int64_t row,
                                           int64_t width)
{
    const int64_t time = fv_recurrence_time(run, step);
    return ((run->begin ? run->begin[time] : time * run->args->batch) + row) * width;
}

#endif
