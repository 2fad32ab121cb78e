/* Argsort: sorts indices. Stable, without recursion or allocation. */
#ifndef FV_IO_SORT_H
#define FV_IO_SORT_H

#include <stddef.h>
#include <stdint.h>

/* Negative, zero or positive if item a sorts before, equal to or after item b. */
typedef int (*fv_argsort_compare)(const void *items, uint32_t a, uint32_t b);

/* Fills `order` with 0 .. count-1, sorted. `spare` has the same size and is overwritten. */
void fv_argsort(const void *items, size_t count, fv_argsort_compare compare, uint32_t *order,
                uint32_t *spare);

#endif
