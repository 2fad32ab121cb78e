/*
 * Who may look at whom. All scores are equal here, so each row of a map shows which keys a query
 * sees: it shares its weight among them.
 *
 *     masks [picture.svg]
 */
#include "example.h"

enum { N = 16, WIDTH = 4, MASKS = 6 };

int main(int argc, char **argv)
{
    static const char *const names[MASKS] = {"none",   "causal", "window",
                                             "prefix", "length", "pattern"};
    static float maps[MASKS * N * N];
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    int64_t shape[] = {1, 1, N, WIDTH};
    fv_tensor *zero = fv_zeros(ctx, FV_F32, 4, shape);
    uint8_t blocks[N * N];
    for (int i = 0; i < N * N; i++)
        blocks[i] = i / N / 4 == i % N / 4 || i % N == 0; /* documents of four, and the first key */
    const int64_t length = 10;
    for (int m = 0; m < MASKS; m++) {
        fv_attention how;
        fv_attention_init(&how, sizeof how);
        how.want_weights = true;
        fv_attention_input in = {.q = zero, .k = zero, .v = zero};
        if (m == 1 || m == 3) how.causal = FV_CAUSAL_TOP_LEFT;
        if (m == 2) how.left = how.right = 3;
        if (m == 3) how.prefix = 5;
        if (m == 4) in.n_keys = fv_from_host(ctx, FV_I64, 1, (int64_t[]){1}, &length);
        if (m == 5) in.visible = fv_from_host(ctx, FV_U8, 2, (int64_t[]){N, N}, blocks);
        fv_attention_result out;
        fv_attention_run(ctx, &how, &in, &out);
        read_floats(ctx, out.weights, maps + m * N * N);
        show_map(
            ctx,
            &(fv_look_map){.rows = N, .cols = N, .values = maps + m * N * N, .title = names[m]},
            NULL, NULL);
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const bool seen[MASKS] = {
                true, j <= i, abs(i - j) <= 3, j <= i || j < 5, j < length, blocks[i * N + j] != 0};
            for (int m = 0; m < MASKS; m++)
                claim((maps[(m * N + i) * N + j] > 0) == seen[m], names[m]);
        }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.cell = 96;
    options.high = 0.25;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = MASKS,
                                 .rows = N,
                                 .cols = N,
                                 .values = maps,
                                 .layer_names = (const char *[]){"queries"},
                                 .head_names = names},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
