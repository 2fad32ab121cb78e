/*
 * Several heads look at several things at once. Four ways to make them, of a layer of width 64 with
 * four heads:
 *
 *     narrow   each head works in a quarter of the width: as many parameters as one wide head
 *     wide     each head has the full width: four times as many
 *     grouped  two heads share one set of keys and values: smaller caches
 *     free     any sizes: here keys of 8, values of 24, and a result of 48
 *
 *     heads [picture.svg]
 */
#include "example.h"

enum { WIDTH = 64, HEADS = 4, N = 20, KINDS = 4 };

int main(int argc, char **argv)
{
    static const char *const names[KINDS] = {"narrow", "wide", "grouped", "free"};
    static float maps[KINDS * HEADS * N * N];
    int64_t parameters[KINDS];
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    /* A walk: neighbours are alike, so heads have something to see. */
    fv_tensor *x =
        fv_cumsum(ctx, fv_rand_normal(ctx, FV_F32, 3, (int64_t[]){1, N, WIDTH}, 0, 1), 1);
    x = fv_layer_norm(ctx, x, NULL, NULL, 1e-5);
    for (int i = 0; i < KINDS; i++) {
        fv_mha_config cfg;
        fv_mha_config_init(&cfg, sizeof cfg, WIDTH, HEADS);
        cfg.bias = cfg.bias_out = false;
        cfg.attention.want_weights = true;
        if (i == 1) cfg.d_k = cfg.d_v = WIDTH;
        if (i == 2) cfg.kv_heads = HEADS / 2;
        if (i == 3) cfg.d_k = 8, cfg.d_v = 24, cfg.width_out = 48;
        fv_params *params = NULL;
        fv_mha heads;
        fv_attention_result out;
        must(ctx, fv_params_create(ctx, &params));
        must(ctx, fv_mha_create(params, "heads", &cfg, &heads));
        fv_tensor *y = fv_mha_run(ctx, &heads, &(fv_mha_input){.x = x}, &out);
        read_floats(ctx, out.weights, maps + i * HEADS * N * N);
        parameters[i] = fv_params_elements(params);
        printf("%-8s %6lld parameters, result [%lld, %lld, %lld]\n", names[i],
               (long long)parameters[i], (long long)fv_tensor_size(y, 0),
               (long long)fv_tensor_size(y, 1), (long long)fv_tensor_size(y, 2));
        fv_params_destroy(&params);
    }
    claim(parameters[0] == 4 * WIDTH * WIDTH, "narrow heads cost what one wide head does");
    claim(parameters[1] == HEADS * parameters[0], "wide heads cost that for each");
    claim(parameters[2] == 3 * WIDTH * WIDTH, "shared keys and values save half of theirs");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    save_panels(ctx,
                &(fv_look_heads){.layers = KINDS,
                                 .heads = HEADS,
                                 .rows = N,
                                 .cols = N,
                                 .values = maps,
                                 .layer_names = names,
                                 .title = "four heads, four ways"},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
