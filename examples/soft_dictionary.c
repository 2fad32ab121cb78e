/*
 * A dictionary finds the value of the key that is equal to the query. Attention is a soft
 * dictionary: every key answers, as far as it is like the query, and the answer is the mixture of
 * the values.
 *
 *     weights = softmax(query . keys / temperature)        answer = sum of weights * values
 *
 * As the temperature falls, the soft dictionary becomes a hard one.
 *
 *     soft_dictionary [picture.svg]
 */
#include "example.h"

enum { WORDS = 5, WIDTH = 3, TEMPERATURES = 4 };

int main(int argc, char **argv)
{
    static const char *const words[WORDS] = {"lion", "tiger", "house", "palace", "river"};
    static const char *const rows[TEMPERATURES] = {"T = 2", "T = 0.5", "T = 0.1", "T = 0.01"};
    static const double temperatures[TEMPERATURES] = {2, 0.5, 0.1, 0.01};
    /* animal, building, water; each of length one */
    static const float keys[WORDS * WIDTH] = {1.0f,   0.0f,   0.0f,   0.9f, 0.1f,
                                              0.424f, 0.1f,   0.995f, 0.0f, 0.3f,
                                              0.95f,  0.087f, 0.1f,   0.0f, 0.995f};
    static const float legs[WORDS] = {4, 4, 0, 0, 0};       /* the values */
    static const float query[WIDTH] = {0.99f, 0.05f, 0.1f}; /* something like a lion */
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_tensor *k = matrix(ctx, WORDS, WIDTH, keys), *v = matrix(ctx, WORDS, 1, legs),
              *q = matrix(ctx, 1, WIDTH, query), *shares;
    float weights[TEMPERATURES * WORDS], answer = 0;
    for (int t = 0; t < TEMPERATURES; t++) {
        read_floats(ctx, fv_attention_lookup(ctx, q, k, v, temperatures[t], &shares), &answer);
        read_floats(ctx, shares, weights + t * WORDS);
        printf("%-9s legs: %.3f\n", rows[t], (double)answer);
    }
    puts("");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    options.high = 1;
    show_map(ctx,
             &(fv_look_map){.rows = TEMPERATURES,
                            .cols = WORDS,
                            .values = weights,
                            .row_labels = rows,
                            .col_labels = words,
                            .title = "how much of each key's value is taken"},
             &options, argc > 1 ? argv[1] : NULL);
    claim(fabsf(answer - 4) < 1e-3f, "at a low temperature the answer is an animal's");
    claim(weights[0] > weights[1] && weights[1] > weights[4], "nearer keys weigh more");
    claim(weights[3 * WORDS] > 0.98f, "and the nearest key takes all");
    fv_ctx_destroy(&ctx);
    return 0;
}
