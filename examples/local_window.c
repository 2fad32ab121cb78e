/*
 * Global attention looks everywhere; local attention looks around one place. Three maps of the same
 * scores:
 *
 *     global    softmax over all keys
 *     local-m   the window moves along: |j - i| <= D
 *     local-p   the model says where to look, p_i = S sigmoid(v . tanh(W q_i)); a Gaussian of
 *               deviation D/2 around p_i favours its middle, and gradients reach W and v through it
 *
 *     local_window [picture.svg]
 */
#include "example.h"

enum { N = 24, WIDTH = 8, KINDS = 3 };

int main(int argc, char **argv)
{
    static const fv_attention_normaliser kinds[KINDS] = {FV_ATTENTION_SOFTMAX, FV_ATTENTION_LOCAL_M,
                                                         FV_ATTENTION_LOCAL_P};
    static float maps[KINDS * N * N];
    const double reach = 4;
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    int64_t shape[] = {1, 1, N, WIDTH};
    fv_tensor *q = fv_rand_normal(ctx, FV_F32, 4, shape, 0, 1),
              *k = fv_rand_normal(ctx, FV_F32, 4, shape, 0, 1),
              *v = fv_rand_normal(ctx, FV_F32, 4, shape, 0, 1);
    /* A model that reads backward: the first feature of a query tells its place, and W and v turn
     * it around. */
    float where[N], first[WIDTH] = {1}, back = -2.5f;
    for (int i = 0; i < N; i++)
        where[i] = 3.0f * (float)i / (N - 1) - 1.5f;
    fv_tensor *places = fv_from_host(ctx, FV_F32, 4, (int64_t[]){1, 1, N, 1}, where);
    fv_tensor *columns[] = {places, fv_slice(ctx, q, -1, 1, WIDTH, 1)};
    q = fv_concat(ctx, 2, columns, -1);
    fv_tensor *w_p = fv_leaf(ctx, matrix(ctx, 1, WIDTH, first)),
              *v_p = fv_leaf(ctx, fv_from_host(ctx, FV_F32, 1, (int64_t[]){1}, &back));
    float centre[N];
    for (int i = 0; i < KINDS; i++) {
        fv_attention how;
        fv_attention_init(&how, sizeof how);
        how.normaliser = kinds[i];
        how.half_width = reach;
        how.want_weights = true;
        fv_attention_input in = {.q = q, .k = k, .v = v};
        if (kinds[i] == FV_ATTENTION_LOCAL_P) in.w_p = w_p, in.v_p = v_p;
        fv_attention_result out;
        fv_tensor *context = fv_attention_run(ctx, &in, &how, &out);
        read_floats(ctx, out.weights, maps + i * N * N);
        if (kinds[i] != FV_ATTENTION_LOCAL_P) continue;
        read_floats(ctx, out.centre, centre);
        must(ctx, fv_backward(ctx, fv_sum(ctx, context, 0, NULL, false)));
        double size = 0;
        must(ctx, fv_tensor_item(ctx, fv_norm(ctx, fv_grad(ctx, w_p), 0, NULL, false), &size));
        printf("the gradient of W, through the windows' places, has length %.3f\n\n", size);
        claim(size > 0, "where to look can be learned");
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            claim(maps[i * N + j] > 0, "global attention sees all");
            claim(abs(i - j) <= reach || maps[(N + i) * N + j] == 0, "local-m sees its window");
            claim(fabs(j - (double)centre[i]) <= reach || maps[(2 * N + i) * N + j] == 0,
                  "local-p sees the window it chose");
        }
    static const char *const names[KINDS] = {"global", "local-m", "local-p"};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    for (int i = 0; i < KINDS; i++)
        show_map(
            ctx,
            &(fv_look_map){.rows = N, .cols = N, .values = maps + i * N * N, .title = names[i]},
            &options, NULL);
    options.cell = 128;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = KINDS,
                                 .rows = N,
                                 .cols = N,
                                 .values = maps,
                                 .layer_names = (const char *[]){"queries"},
                                 .head_names = names,
                                 .title = "global and local: queries down, keys across"},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
