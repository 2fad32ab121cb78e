/*
 * LSTM and GRU over whole sequences: every step's product with the recurrent weight and its cell
 * (kernels/recurrent.h), by a team of threads that stays together from the first step to the last.
 *
 * With T steps, batch B, hidden size H and n gates (4 for LSTM, 3 for GRU); args: fv_sequence_args;
 * everything contiguous but the weight [n H, H]. Steps are numbered in the order they run. Where
 * `lengths` [B] is given, sequences are packed: longest first, the rows of a step are those of the
 * sequences that are still running, and [T, B, ...] below is [sum of lengths, ...]. A sequence then
 * begins with its first step and ends with its last, whichever way it is walked.
 *
 * LSTM ptr: h [T, B, H], c [T, B, H] (or NULL: not kept), acts [T, B, 4 H] (or NULL), h_last,
 *   c_last [B, H], x_gates [T, B, 4 H], weight, h0, c0 [B, H] (or NULL: zeros), lengths (or NULL)
 *   h, c, acts of a step = the cell of x_gates + h_before W^T and c_before
 * LSTM_GRAD ptr: dx_gates [T, B, 4 H], dh0, dc0 [B, H], before [T, B, H] (each or NULL: not
 *   wanted), dh [T, B, H], dh_last, dc_last [B, H] (each or NULL: zeros), acts, c, weight, c0 (or
 *   NULL: zeros), h, h0 (or NULL: zeros; both only for before), lengths (or NULL)
 *   D = the cell's backward, dh_before = D W + its own upstream, before = h before each step
 *   terms: 0 to 5 in the cell, 6 D W, 7 dh_last, 8 dh, 9 before but for 10, what is h0 there
 *
 * GRU ptr: h, acts [T, B, 4 H] (or NULL), h_last, x_gates [T, B, 3 H], weight, bias [3 H] (or
 *   NULL), h0 (or NULL: zeros), lengths (or NULL)
 *   h, acts of a step = the cell of x_gates, h_before W^T + bias, and h_before
 * GRU_GRAD ptr: dx_gates, dh_gates [T, B, 3 H], dh0, before (each or NULL), dh, dh_last (each or
 *   NULL), acts, h, weight, h0 (or NULL), lengths (or NULL)
 *   dx_gates, E = dh_gates, direct = the cell's backward; dh_before = E W + direct + own upstream
 *   terms: 0 to 4 in the cell, 5 E W, 6 dh_last, 7 dh, 8 before but for 9, what is h0 there
 *
 * How the work is shared: each member of the team owns some units, that is their gates, states and
 * gradients. It multiplies by its columns of the weight, which it packs on first use and which then
 * stay in its own cache. Once a step the members hand over: forward their part of h, backward their
 * part of the gates' gradient; all else stays with its owner. An element is one chain of FMAs with
 * k ascending whoever computes it, so neither the team's size nor the batch shows in the bits.
 */
#ifndef FV_KERNELS_SEQUENCE_H
#define FV_KERNELS_SEQUENCE_H

#include "kernels/gemm.h"

typedef struct fv_sequence_args {
    int64_t steps, batch, hidden; /* steps: of packed sequences found by the kernel */
    int64_t total;                /* rows of all steps */
    int64_t w_row, w_col;         /* element strides of the weight */
    bool reverse;                 /* step 0 is the last of the sequence */
    size_t element;               /* bytes of an element, for the scratch query */
} fv_sequence_args;

/* ---- for the kernels of each level -------------------------------------------------- */

/* Some rows of the batch and some units of one step. */
typedef struct fv_patch {
    int64_t step, row, rows, unit, units;
    bool starts; /* in a product and after it: the rows are those that begin with this step */
} fv_patch;

enum {
    FV_SEQWALK_ROWS = FV_GEMM_TILE_ROWS, /* most rows of a patch that is multiplied */
    FV_SEQWALK_UNITS = FV_GEMM_PANEL,    /* most units of a patch */
    FV_SEQWALK_AHEAD = FV_LANES,         /* units multiplied together ahead: all gates a panel */
    FV_SEQWALK_WIDTH = FV_GEMM_PANEL,    /* from a row's sums to the next row's ... */
    FV_SEQWALK_SUMS = FV_SEQWALK_ROWS * FV_SEQWALK_WIDTH, /* ... and to the next panel's */
};

typedef struct fv_seqwalk fv_seqwalk;

/* What a level does for the walks below. A panel's sums are rows of FV_SEQWALK_WIDTH elements:
 * ahead gate g of unit u is at g * FV_SEQWALK_AHEAD + u, back unit u is at u. A patch's sums are
 * those of its panels, FV_SEQWALK_SUMS apart. */
typedef struct fv_seqwalk_level {
    int gates;
    /* Packs the weight for a panel's units; NULL: it is read where it lies. */
    void (*pack)(const fv_seqwalk *w, int64_t unit, int64_t units);
    /* Asks for what another member, the owner of units [begin, end), wrote for this product: lines
     * that come from another core's cache, one by one, would be waited for one by one. */
    void (*fetch)(const fv_seqwalk *w, const fv_patch *p, int64_t begin, int64_t end);
    /* Adds elements [k, end) of every chain to a panel's sums, which start at k = 0: ahead of
     * h_before W^T (H elements), back of the gates' gradient times W (n H elements). */
    void (*multiply)(const fv_seqwalk *w, const fv_patch *p, int64_t k, int64_t end, void *sums);
    /* Ahead: the cell. Back: the gradient of h before the step. */
    void (*finish)(const fv_seqwalk *w, const fv_patch *p, const void *sums);
    /* Back alone: the gradient of the last h, and the cell's backward. */
    void (*begin)(const fv_seqwalk *w, const fv_patch *p);
    void (*cell)(const fv_seqwalk *w, const fv_patch *p);
} fv_seqwalk_level;

/* One kernel call. */
struct fv_seqwalk {
    const fv_exec *exec;
    const fv_sequence_args *args;
    void *const *ptr;
    const fv_seqwalk_level *level;
    const void *weight;
    const void *factor; /* ahead: h of every step; back: the gradient of every step's gates */
    const void *h0;     /* ahead: the state before the first step, or NULL */
    bool first; /* whether the state before the first step is there, or its gradient wanted */
    const int64_t *lengths; /* of packed sequences, or NULL */
    const int64_t *begin;   /* [steps + 1]: where the rows of each place begin; NULL: all alike */
};

/* Runs every step, by a team if there is enough to do. Lengths that do not fall, or do not add up,
 * raise a fault. */
void fv_seqwalk_ahead(const fv_seqwalk *w);
void fv_seqwalk_back(const fv_seqwalk *w);

/* The scratch of a walk: the packed weight, then the gradients of h and (LSTM) c with the rows of
 * the batch fv_seqwalk_units elements apart, then `begin` of packed sequences. */
size_t fv_lstm_scratch_query(const void *args, int threads);
size_t fv_gru_scratch_query(const void *args, int threads);

/* H in whole lanes: members do not share a line. */
static inline int64_t fv_seqwalk_units(const fv_seqwalk *w)
{
    return (w->args->hidden + FV_LANES - 1) / FV_LANES * FV_LANES;
}

/* Elements of the packed weight: where the gradients begin. */
static inline int64_t fv_seqwalk_packed(const fv_seqwalk *w)
{
    return fv_seqwalk_units(w) * w->level->gates * w->args->hidden;
}

static inline int64_t fv_seqwalk_place(const fv_seqwalk *w, int64_t step)
{
    return w->args->reverse ? w->args->steps - 1 - step : step;
}

/* Rows of a step; of these the first so many come from the step before, and the first so many go on
 * to the next. */
static inline int64_t fv_seqwalk_rows(const fv_seqwalk *w, int64_t step)
{
    const int64_t place = fv_seqwalk_place(w, step);
    return w->begin ? w->begin[place + 1] - w->begin[place] : w->args->batch;
}

static inline int64_t fv_seqwalk_from(const fv_seqwalk *w, int64_t step)
{
    if (step == 0) return 0;
    const int64_t here = fv_seqwalk_rows(w, step), before = fv_seqwalk_rows(w, step - 1);
    return here < before ? here : before;
}

static inline int64_t fv_seqwalk_on(const fv_seqwalk *w, int64_t step)
{
    return step + 1 < w->args->steps ? fv_seqwalk_from(w, step + 1) : 0;
}

/* Where row `row` of step `step` begins in an array of `width` elements a row. */
static inline int64_t fv_seqwalk_at(const fv_seqwalk *w, int64_t step, int64_t row, int64_t width)
{
    const int64_t place = fv_seqwalk_place(w, step);
    return ((w->begin ? w->begin[place] : place * w->args->batch) + row) * width;
}

#endif
