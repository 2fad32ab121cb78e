/*
 * Six ways to say how well a query fits a key, on the same queries and keys. Keys 0 to 7 point in
 * eight directions of a plane and key j + 8 is key j, three times as long; query i points where key
 * i does.
 *
 *     scores [picture.svg]
 */
#include "example.h"

enum { N_Q = 8, N_K = 16, WIDTH = 2, INNER = 8, KINDS = 6 };

int main(int argc, char **argv)
{
    static const fv_attention_score kinds[KINDS] = {FV_ATTENTION_DOT,     FV_ATTENTION_SCALED,
                                                    FV_ATTENTION_GENERAL, FV_ATTENTION_ADDITIVE,
                                                    FV_ATTENTION_COSINE,  FV_ATTENTION_LOCATION};
    const char *names[KINDS];
    static float maps[KINDS * N_Q * N_K];
    float q[N_Q * WIDTH], k[N_K * WIDTH];
    for (int j = 0; j < N_K; j++) {
        const float angle = 6.2831853f * (float)(j % 8) / 8, length = j < 8 ? 1 : 3;
        k[2 * j] = length * cosf(angle);
        k[2 * j + 1] = length * sinf(angle);
        if (j < N_Q) q[2 * j] = 2 * cosf(angle), q[2 * j + 1] = 2 * sinf(angle);
    }
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    const float quarter_turn[] = {0, -1, 1, 0}; /* what "fits" may itself be learned */
    fv_tensor *keys = one_head(ctx, matrix(ctx, N_K, WIDTH, k));
    fv_attention_input in = {.q = one_head(ctx, matrix(ctx, N_Q, WIDTH, q)), .k = keys, .v = keys};
    for (int i = 0; i < KINDS; i++) {
        fv_attention how;
        fv_attention_init(&how, sizeof how);
        how.score = kinds[i];
        names[i] = fv_attention_score_name(kinds[i]);
        if (kinds[i] == FV_ATTENTION_COSINE) how.rule.scale = 4;
        how.want_weights = true;
        in.w = in.w_q = in.w_k = NULL;
        if (kinds[i] == FV_ATTENTION_GENERAL) in.w = matrix(ctx, WIDTH, WIDTH, quarter_turn);
        if (kinds[i] == FV_ATTENTION_ADDITIVE) {
            in.w = fv_rand_normal(ctx, FV_F32, 1, (int64_t[]){INNER}, 0, 3);
            in.w_q = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){INNER, WIDTH}, 0, 1);
            in.w_k = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){INNER, WIDTH}, 0, 1);
        }
        if (kinds[i] == FV_ATTENTION_LOCATION)
            in.w = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){N_K, WIDTH}, 0, 1);
        fv_attention_result out;
        fv_attention_run(ctx, &in, &how, &out);
        float *map = maps + i * N_Q * N_K;
        read_floats(ctx, out.weights, map);
        show_map(ctx, &(fv_look_map){.rows = N_Q, .cols = N_K, .values = map, .title = names[i]},
                 NULL, NULL);
    }
    for (int i = 0; i < N_Q; i++) {
        const float *dot = maps + i * N_K, *general = maps + (2 * N_Q + i) * N_K,
                    *cosine = maps + (4 * N_Q + i) * N_K;
        claim(dot[i + 8] > 10 * dot[i], "the dot product sees length");
        claim(fabsf(cosine[i + 8] - cosine[i]) < 1e-6f, "the cosine does not");
        int best = 0;
        for (int j = 1; j < N_K; j++)
            if (general[j] > general[best]) best = j;
        claim(best == 8 + (i + 2) % 8 || best == 8 + (i + 6) % 8,
              "a general score fits by its matrix: here, at a right angle");
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.cell = 128;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = KINDS,
                                 .rows = N_Q,
                                 .cols = N_K,
                                 .values = maps,
                                 .layer_names = (const char *[]){"queries"},
                                 .head_names = names,
                                 .title = "six scores: queries down, keys across"},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
