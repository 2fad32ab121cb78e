/* Numbers and tensors for the computations of the tour. */
#include <math.h>

#include "fovea/tensor.h"
#include "tour.h"

static double uniform(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0;
}

void tour_normals(uint64_t seed, float *out, int64_t n)
{
    uint64_t state = seed * 0xD1B54A32D192ED03u;
    for (int64_t i = 0; i < n; i++) {
        const double radius = sqrt(-2 * log(uniform(&state)));
        out[i] = (float)(radius * cos(6.283185307179586 * uniform(&state)));
    }
}

fv_tensor *tour_matrix(tour *t, int64_t rows, int64_t cols, const float *values)
{
    return fv_from_host(t->ctx, FV_F32, 2, (int64_t[]){rows, cols}, values);
}

fv_tensor *tour_head(tour *t, int64_t rows, int64_t cols, const float *values)
{
    return fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){1, 1, rows, cols}, values);
}

fv_status tour_read(tour *t, const fv_tensor *x, float *out)
{
    return fv_tensor_read(t->ctx, x, out, (size_t)fv_tensor_count(x) * sizeof *out);
}
