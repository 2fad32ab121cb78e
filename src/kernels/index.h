/*
 * Kernels with i64 indices. An index outside its axis, negative ones included, is a fault: the
 * element becomes zero (gather) or is left out (scatter).
 */
#ifndef FV_KERNELS_INDEX_H
#define FV_KERNELS_INDEX_H

#include "kernels/kernel.h"

/*
 * GATHER_ROWS ptr: out (count, cols), table (rows, cols), index (count)
 * INDEX_ADD ptr: table (rows, cols), in (count, cols), index (count):
 *   table[index[i]] += in[i] in ascending i for any number of threads (columns are divided).
 *   An index equal to `padding_index` is skipped without a fault (padding rows).
 * `outer` repeats this for contiguous outer blocks: table is (outer, rows, cols).
 */
typedef struct fv_rows_index_args {
    int64_t outer, count, rows, cols;
    int64_t padding_index; /* -1: none */
} fv_rows_index_args;

/*
 * Along one axis, all contiguous: in (outer, size, inner), index (outer, count, inner).
 * GATHER ptr: out (outer, count, inner), in, index
 * SCATTER_ADD ptr: out (outer, size, inner), in (outer, count, inner), index:
 *   out += in, in ascending order along the axis.
 */
typedef struct fv_gather_args {
    int64_t outer, size, count, inner;
} fv_gather_args;

/* ONE_HOT ptr: out (count, classes) of the launch's dtype, index (count). */
typedef struct fv_one_hot_args {
    int64_t count, classes;
} fv_one_hot_args;

#endif
