/*
 * Attention over a picture: every pixel may look at every other, however far apart. A picture with
 * two white squares and a grey one on black ground; keys and queries are the pixels' colours. A
 * pixel of one white square finds the other, which a 3 x 3 convolution could not in one layer.
 *
 *     y = x + gamma o        gamma begins at 0: a network that works can take up the layer
 *
 *     grid [picture.svg]
 */
#include <string.h>

#include "example.h"

enum { SIDE = 16, PIXELS = SIDE * SIDE, COLOURS = 3, PANELS = 4 };

/* White squares at the upper left and the lower right, a grey one at the upper right. */
static int colour_at(int row, int col)
{
    if (row >= 2 && row < 6 && col >= 2 && col < 6) return 0;
    if (row >= 10 && row < 14 && col >= 9 && col < 13) return 0;
    if (row >= 3 && row < 7 && col >= 10 && col < 14) return 1;
    return 2;
}

int main(int argc, char **argv)
{
    static const char *const names[PANELS] = {"picture", "from white", "from grey", "from black"};
    static float image[COLOURS * PIXELS], after[COLOURS * PIXELS], weights[PIXELS * PIXELS],
        panels[PANELS * PIXELS];
    for (int i = 0; i < PIXELS; i++)
        image[colour_at(i / SIDE, i % SIDE) * PIXELS + i] = 1;
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    const float strong[] = {3, 0, 0, 0, 3, 0, 0, 0, 3}, plain[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    const float none = 0, all = 1;
    fv_nonlocal grid = {.channels = COLOURS,
                        .inner = COLOURS,
                        .value = COLOURS,
                        .query = matrix(ctx, COLOURS, COLOURS, strong),
                        .key = matrix(ctx, COLOURS, COLOURS, plain),
                        .values = matrix(ctx, COLOURS, COLOURS, plain),
                        .out = matrix(ctx, COLOURS, COLOURS, plain),
                        .gamma = fv_from_host(ctx, FV_F32, 1, (int64_t[]){1}, &none)};
    fv_tensor *x = fv_from_host(ctx, FV_F32, 4, (int64_t[]){1, COLOURS, SIDE, SIDE}, image);
    fv_attention_result out;
    read_floats(ctx, fv_nonlocal_run(ctx, &grid, x, true, &out), after);
    read_floats(ctx, out.weights, weights);
    claim(memcmp(after, image, sizeof image) == 0, "with gamma 0 nothing changes, to the bit");
    grid.gamma = fv_from_host(ctx, FV_F32, 1, (int64_t[]){1}, &all);
    read_floats(ctx, fv_nonlocal_run(ctx, &grid, x, false, NULL), after);
    claim(memcmp(after, image, sizeof image) != 0, "with gamma 1 it does");

    const int from[PANELS] = {0, 3 * SIDE + 3, 4 * SIDE + 11, 8 * SIDE + 2};
    for (int i = 0; i < PIXELS; i++)
        panels[i] = 0.5f * (float)(2 - colour_at(i / SIDE, i % SIDE));
    for (int p = 1; p < PANELS; p++) {
        float most = 0;
        for (int i = 0; i < PIXELS; i++)
            most = fmaxf(most, weights[from[p] * PIXELS + i]);
        for (int i = 0; i < PIXELS; i++)
            panels[p * PIXELS + i] = weights[from[p] * PIXELS + i] / most;
        show_map(ctx,
                 &(fv_look_map){
                     .rows = SIDE, .cols = SIDE, .values = panels + p * PIXELS, .title = names[p]},
                 NULL, NULL);
    }
    const float *white = weights + from[1] * PIXELS;
    claim(white[11 * SIDE + 10] == white[3 * SIDE + 4] && white[11 * SIDE + 10] > 10 * white[0],
          "white finds white, near and far alike");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.cell = 112;
    options.colours = FV_COLOUR_MAP_GREYS;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = PANELS,
                                 .rows = SIDE,
                                 .cols = SIDE,
                                 .values = panels,
                                 .layer_names = (const char *[]){"pixels"},
                                 .head_names = names},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
