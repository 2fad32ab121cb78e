/*
 * Attention sees a set; positions make it a sequence. Five ways, as maps over (query, key) of what
 * they add to the score, or make of it:
 *
 *     sinusoid  the dot product of two rows of the sine table
 *     rotary    the score of equal vectors, rotated by their positions
 *     clipped   the row of a table that a distance picks, at most 4 away
 *     T5        the same with buckets: near one by one, far by logarithm
 *     ALiBi     a slope: farther is less
 *
 *     positions [picture.svg]
 */
#include <string.h>

#include "example.h"

enum { N = 32, WIDTH = 32, KINDS = 5 };

static void spread(const float *from, float *to)
{
    float low = from[0], high = from[0];
    for (int i = 1; i < N * N; i++) {
        low = fminf(low, from[i]);
        high = fmaxf(high, from[i]);
    }
    for (int i = 0; i < N * N; i++)
        to[i] = (from[i] - low) / (high - low);
}

int main(int argc, char **argv)
{
    static const char *const names[KINDS] = {"sinusoid", "rotary", "clipped", "T5", "ALiBi"};
    static float maps[KINDS * N * N], raw[N * N];
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);

    fv_tensor *table = fv_sinusoid(ctx, FV_F32, 0, N, WIDTH, 10000, FV_SINUSOID_INTERLEAVED);
    read_floats(ctx, fv_matmul(ctx, table, fv_transpose(ctx, table, 0, 1)), raw);
    spread(raw, maps);
    for (int i = 0; i + 1 < N; i++)
        claim(fabsf(raw[i * N + i + 1] - raw[1]) < 1e-3f, "sinusoids see distances only");

    fv_rotary_config rotary;
    fv_rotary_config_init(&rotary, sizeof rotary, WIDTH);
    fv_tensor *same = fv_full(ctx, FV_F32, 4, (int64_t[]){1, 1, N, WIDTH}, 1);
    fv_tensor *rotated =
        fv_rotary(ctx, same, fv_rotary_table(ctx, FV_F32, &rotary, 0, N), -2, rotary.pairs);
    read_floats(ctx, fv_matmul(ctx, rotated, fv_transpose(ctx, rotated, -1, -2)), raw);
    spread(raw, maps + N * N);
    for (int i = 0; i + 1 < N; i++)
        claim(fabsf(raw[i * N + i + 1] - raw[1]) < 1e-3f, "so do rotated vectors");

    const fv_relative kinds[] = {
        {.kind = FV_RELATIVE_CLIPPED, .max_distance = 4},
        {.kind = FV_RELATIVE_T5, .max_distance = 24, .buckets = 16, .bidirectional = true}};
    for (int r = 0; r < 2; r++) {
        int64_t index[N * N];
        must(ctx,
             fv_tensor_read(ctx, fv_relative_index(ctx, &kinds[r], 0, N, N), index, sizeof index));
        for (int i = 0; i < N * N; i++)
            raw[i] = (float)index[i];
        spread(raw, maps + (2 + r) * N * N);
        claim(index[0] == index[5 * N + 5], "equal distances share a row");
    }

    float slope = 0;
    read_floats(ctx, fv_slice(ctx, fv_alibi_slopes(ctx, FV_F32, 8), 0, 0, 1, 1), &slope);
    for (int i = 0; i < N * N; i++)
        raw[i] = -slope * fabsf((float)(i % N - i / N));
    spread(raw, maps + 4 * N * N);

    for (int i = 0; i < KINDS; i++)
        show_map(
            ctx,
            &(fv_look_map){.rows = N, .cols = N, .values = maps + i * N * N, .title = names[i]},
            NULL, NULL);
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.colours = FV_COLOUR_MAP_HEAT;
    options.cell = 112;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = KINDS,
                                 .rows = N,
                                 .cols = N,
                                 .values = maps,
                                 .layer_names = (const char *[]){"queries"},
                                 .head_names = names,
                                 .title = "what positions say: queries down, keys across"},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
