#include <stdio.h>

#include "base/checked_math.h"
#include "tensor/tensor.h"

bool fv_shape_count(int rank, const int64_t *shape, int64_t *count)
{
    int64_t n = 1;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        /* A zero makes the tensor empty, but the other sizes must not overflow either. */
        if (shape[i] == 0)
            empty = true;
        else if (!fv_checked_mul_i64(n, shape[i], &n))
            return false;
    }
    *count = empty ? 0 : n;
    return true;
}

void fv_shape_strides(int rank, const int64_t *shape, int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape[i] > 1 ? shape[i] : 1;
    }
}

bool fv_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    if (rank_a != rank_b) return false;
    for (int i = 0; i < rank_a; i++)
        if (a[i] != b[i]) return false;
    return true;
}

bool fv_shape_contiguous(int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (shape[i] == 0) return true;
        if (shape[i] == 1) continue;
        if (stride[i] != step) return false;
        step *= shape[i];
    }
    return true;
}

const char *fv_shape_text(char out[FV_SHAPE_TEXT], int rank, const int64_t *shape)
{
    int used = snprintf(out, FV_SHAPE_TEXT, "[");
    for (int i = 0; i < rank && used < FV_SHAPE_TEXT; i++)
        used += snprintf(out + used, (size_t)(FV_SHAPE_TEXT - used), "%s%lld", i ? "," : "",
                         (long long)shape[i]);
    if (used < FV_SHAPE_TEXT) snprintf(out + used, (size_t)(FV_SHAPE_TEXT - used), "]");
    return out;
}
