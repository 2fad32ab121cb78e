/*
 * How a convolution with pixels as lanes (conv2d.c) is cut: phases, pieces of rows, rounds, and the
 * layout of the copied source.
 */
#ifndef FV_KERNELS_SIMD_CONV2D_PLAN_H
#define FV_KERNELS_SIMD_CONV2D_PLAN_H

#include "kernels/image.h"
#include "kernels/simd/names.h"

/* What all phases of a call have in common. Result (i, j) of a phase reads the source at i step +
 * offset; `low` is the least such offset. */
typedef struct fv_conv2d_plan {
    fv_conv2d_args args;
    bool data;                    /* CONV2D_DATA */
    int64_t rows, channels, taps; /* of one group: results, sources, window */
    int64_t from[2], to[2], from_c, to_c;
    int64_t step[2], apart[2];         /* between results, in the source and in dst */
    int64_t low[2], span[2];           /* offsets are in [low, low + span] */
    int64_t skip[2];                   /* the copy has every skip-th row (column): step or 1 */
    int64_t grid[2];                   /* results of the largest phase */
    int pieces;                        /* of a vector */
    int64_t piece, row_pieces;         /* results of a piece, pieces of a row */
    int64_t band, images;              /* rows of results and images of a round */
    int64_t cols, row, channel, image; /* floats of the copied source: a remainder's columns, .. */
    /* Bit r: some tap reads at distance r from `low`, modulo the step; of steps up to 64. */
    uint64_t read[2];
    bool in_place, packed, fits;
    int64_t source_floats, weight_floats, list_floats;
} fv_conv2d_plan;

/* The taps of a phase along each axis: tap, tap + tap_step, .. */
typedef struct fv_conv2d_phase {
    int64_t first[2], grid[2]; /* result 0 in dst, and how many */
    int64_t tap[2], tap_step[2], taps[2];
    int64_t offset[2], tap_offset[2]; /* where result 0 reads at tap 0, and from tap to tap */
} fv_conv2d_phase;

/* `data`: CONV2D_DATA. If the plan does not fit, its source would take too much memory. */
fv_conv2d_plan fv_conv2d_make_plan(const fv_conv2d_args *args, bool data);

/* Rows of the copied source that `rows` rows of results read. */
int64_t fv_conv2d_copied_rows(const fv_conv2d_plan *p, int64_t rows);

/* The number of phases along an axis, and one of them: one phase for CONV2D. */
int64_t fv_conv2d_phases(const fv_conv2d_plan *p, int axis);
fv_conv2d_phase fv_conv2d_phase_at(const fv_conv2d_plan *p, int64_t row, int64_t col);

#endif
