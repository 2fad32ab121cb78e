/* Which random numbers a row draws. */
#ifndef FV_KERNELS_DRAW_H
#define FV_KERNELS_DRAW_H

#include <stddef.h>
#include <stdint.h>

typedef struct fv_draw {
    uint64_t key;
    uint64_t first;     /* number of the first entry */
    int64_t entry_rows; /* > 0: an entry, such as a sequence, has this many rows; 0: a row is one */
} fv_draw;

/*
 * The number of a row, which with the key decides what it draws. A row inside an entry has the
 * entry's number in the upper half and its place in the lower one: how many rows an entry has,
 * padding included, changes nothing. `numbers`, or NULL: a table that says it for every row.
 */
static inline uint64_t fv_draw_number(const fv_draw *draw, const int64_t *numbers, int64_t row)
{
    if (numbers) return (uint64_t)numbers[row];
    if (draw->entry_rows == 0) return draw->first + (uint64_t)row;
    return ((draw->first + (uint64_t)(row / draw->entry_rows)) << 32) +
           (uint64_t)(row % draw->entry_rows);
}

#endif
