#include "io/sort.h"

#include <stdbool.h>
#include <string.h>

/* Bottom-up merge sort: n log n for any input. */
void fv_argsort(const void *items, size_t count, fv_argsort_compare compare, uint32_t *order,
                uint32_t *spare)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    uint32_t *from = order, *to = spare;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            size_t middle = begin + width < count ? begin + width : count;
            size_t end = middle + width < count ? middle + width : count;
            size_t left = begin, right = middle;
            for (size_t k = begin; k < end; k++) {
                bool take_left =
                    right == end || (left < middle && compare(items, from[left], from[right]) <= 0);
                to[k] = take_left ? from[left++] : from[right++];
            }
        }
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, count * sizeof *order);
}
