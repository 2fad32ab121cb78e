/* The tour: how far the output of a pixel sees. */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/layers.h"
#include "fovea/ops.h"
#include "tour.h"

enum {
    CHANNELS = 4,
    SIDE = 15,
    PIXELS = SIDE * SIDE,
    ALL = CHANNELS * PIXELS,
    MOST = 3,
    DECADES = 4
};

/* `layers` 3 x 3 convolutions one after the other; 0: self-attention without its residual path. */
static fv_tensor *run_layers(tour *t, const fv_nonlocal *grid, int layers, fv_tensor *x)
{
    float w[CHANNELS * CHANNELS * 9];
    const fv_conv2d_options same = {.padding = {1, 1}};
    if (layers == 0) return fv_sub(t->ctx, fv_nonlocal_run(t->ctx, grid, x, false, NULL), x);
    for (int i = 0; i < layers; i++) {
        tour_normals(401 + (uint64_t)i, w, sizeof w / sizeof *w);
        for (size_t k = 0; k < sizeof w / sizeof *w; k++)
            w[k] /= 6;
        fv_tensor *taps = fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){CHANNELS, CHANNELS, 3, 3}, w);
        x = fv_tanh(t->ctx, fv_conv2d(t->ctx, x, taps, NULL, &same));
    }
    return x;
}

/* The size of the gradient of the middle pixel's output at each pixel, on a logarithmic
 * scale from 0.1 to 1; how many are not 0. */
static fv_status reach(tour *t, const fv_nonlocal *grid, int layers, float map[PIXELS], int *seen)
{
    static float x[ALL], g[ALL];
    tour_normals(400, x, ALL);
    fv_tensor *leaf =
        fv_leaf(t->ctx, fv_from_host(t->ctx, FV_F32, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE}, x));
    fv_tensor *y = run_layers(t, grid, layers, leaf);
    for (int d = 2; d < 4; d++)
        y = fv_slice(t->ctx, y, d, SIDE / 2, SIDE / 2 + 1, 1);
    fv_status status = fv_backward(t->ctx, fv_sum(t->ctx, y, 0, NULL, false));
    if (status == FV_OK) status = tour_read(t, fv_grad(t->ctx, leaf), g);
    float largest = 1e-30f;
    *seen = 0;
    for (int p = 0; p < PIXELS && status == FV_OK; p++) {
        double sum = 0;
        for (int c = 0; c < CHANNELS; c++)
            sum += (double)g[c * PIXELS + p] * (double)g[c * PIXELS + p];
        map[p] = (float)sqrt(sum);
        *seen += sum > 0;
        largest = fmaxf(largest, map[p]);
    }
    for (int p = 0; p < PIXELS; p++) /* what is not 0 can be seen, however small */
        map[p] = map[p] > 0 ? fmaxf(0.1f, 1 + log10f(map[p] / largest) / DECADES) : 0;
    return status;
}

fv_status tour_reach(tour *t)
{
    static float maps[1 + MOST][PIXELS];
    static const float one = 1;
    int seen[1 + MOST] = {0};
    fv_params *params = NULL;
    fv_nonlocal grid;
    fv_status status = fv_params_create(t->ctx, &params);
    if (status == FV_OK) status = fv_nonlocal_create(params, "grid", CHANNELS, 0, 0, 0.5, &grid);
    if (status == FV_OK) status = fv_tensor_write(t->ctx, grid.gamma, &one, sizeof one);
    for (int k = 0; k <= MOST && status == FV_OK; k++)
        status = reach(t, &grid, k, maps[k], &seen[k]);
    fv_params_destroy(&params);
    if (status != FV_OK) return status;
    tour_line(t, "pixels of %d x %d that the output of the middle one depends on", SIDE, SIDE);
    for (int k = 1; k <= MOST; k++)
        tour_line(t, "%d convolution%-18s %4d", k, k > 1 ? "s of 3 x 3" : " of 3 x 3", seen[k]);
    tour_line(t, "%-31s %4d", "self-attention", seen[0]);
    const fv_look_map pair[] = {
        {.rows = SIDE, .cols = SIDE, .values = maps[MOST], .title = "three convolutions"},
        {.rows = SIDE, .cols = SIDE, .values = maps[0], .title = "self-attention"}};
    return tour_maps(t, "size of the gradient at each pixel, logarithmic", "pixels", 2, pair);
}
