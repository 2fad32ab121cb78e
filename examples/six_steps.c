/*
 * Self-attention in six steps, with numbers: three words of four features, queries, keys and values
 * of three. Each vector is shown as coloured squares and as numbers. At the end the same is done in
 * one call on matrices, and both agree.
 *
 *     six_steps [picture.svg]
 */
#include "example.h"

enum { WORDS = 3, IN = 4, OUT = 3 };

static const char *const words[WORDS] = {"thinking", "machines", "dream"};

/* A vector as squares: blue below zero, white at zero, red above; then its numbers. */
static void print_vector(fv_ctx *ctx, const char *name, const float *v, int n)
{
    printf("  %-12s ", name);
    if (colours_are_on()) {
        fv_look_options o;
        fv_look_options_init(&o, sizeof o);
        o.colours = FV_COLOUR_MAP_DIVERGING;
        o.low = -2;
        o.high = 2;
        fv_picture *picture = NULL;
        must(ctx, fv_look_map_draw(ctx, &(fv_look_map){.rows = 1, .cols = n, .values = v},
                                   FV_LOOK_FORMAT_TERMINAL, &o, &picture));
        const char *row = fv_picture_data(picture, NULL); /* its first line is the squares */
        for (; *row && *row != '\n'; row++)
            putchar(*row);
        fv_picture_free(&picture);
    }
    for (int i = 0; i < n; i++)
        printf(" %6.2f", (double)v[i]);
    puts("");
}

static void print_rows(fv_ctx *ctx, const char *what, const float *m, int cols)
{
    for (int i = 0; i < WORDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %s", what, words[i]);
        print_vector(ctx, name, m + i * cols, cols);
    }
}

/* y = W x, for vectors as they stand in a textbook. */
static void product(const float *w, const float *x, float *y)
{
    for (int i = 0; i < OUT; i++) {
        y[i] = 0;
        for (int j = 0; j < IN; j++)
            y[i] += w[i * IN + j] * x[j];
    }
}

int main(int argc, char **argv)
{
    static const float x[WORDS * IN] = {1, 0, 1, 0, 0, 2, 0, 1, 1, 1, 0, 1};
    static const float w_q[OUT * IN] = {1, 0, 0.5f, 0, 0, 0.5f, 0, 0.5f, 1, 0, 0, 0.5f};
    static const float w_k[OUT * IN] = {0, 1, 0, 0.5f, 1, 0, 0.5f, 0, 0.5f, 0.5f, 0, 0};
    static const float w_v[OUT * IN] = {0.5f, 0, 1, 0, 0, 1, 0, -0.5f, -1, 0, 0.5f, 0.5f};
    float q[WORDS * OUT], k[WORDS * OUT], v[WORDS * OUT], weights[WORDS * WORDS],
        z[WORDS * OUT] = {0};
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);

    puts("0. The words");
    print_rows(ctx, "x", x, IN);
    for (int i = 0; i < WORDS; i++) {
        product(w_q, x + i * IN, q + i * OUT);
        product(w_k, x + i * IN, k + i * OUT);
        product(w_v, x + i * IN, v + i * OUT);
    }
    puts("1. A query, a key and a value from each: q = W_q x, k = W_k x, v = W_v x");
    print_rows(ctx, "q", q, OUT);
    print_rows(ctx, "k", k, OUT);
    print_rows(ctx, "v", v, OUT);
    for (int i = 0; i < WORDS; i++) {
        float score[WORDS], sum = 0;
        printf("\nWhat \"%s\" looks at\n", words[i]);
        for (int j = 0; j < WORDS; j++) {
            score[j] = 0;
            for (int c = 0; c < OUT; c++)
                score[j] += q[i * OUT + c] * k[j * OUT + c];
        }
        print_vector(ctx, "2. q . k_j", score, WORDS);
        for (int j = 0; j < WORDS; j++)
            score[j] /= sqrtf(OUT);
        print_vector(ctx, "3. / sqrt 3", score, WORDS);
        for (int j = 0; j < WORDS; j++)
            sum += expf(score[j]);
        for (int j = 0; j < WORDS; j++)
            weights[i * WORDS + j] = expf(score[j]) / sum;
        print_vector(ctx, "4. softmax", weights + i * WORDS, WORDS);
        for (int j = 0; j < WORDS; j++) {
            float part[OUT];
            for (int c = 0; c < OUT; c++) {
                part[c] = weights[i * WORDS + j] * v[j * OUT + c];
                z[i * OUT + c] += part[c];
            }
            print_vector(ctx, "5. a_j v_j", part, OUT);
        }
        print_vector(ctx, "6. their sum", z + i * OUT, OUT);
    }

    puts("\nThe same on matrices: Z = softmax(X W_q^T (X W_k^T)^T / sqrt 3) X W_v^T");
    fv_tensor *m = matrix(ctx, WORDS, IN, x);
    fv_tensor *qm = fv_linear(ctx, m, matrix(ctx, OUT, IN, w_q), NULL),
              *km = fv_linear(ctx, m, matrix(ctx, OUT, IN, w_k), NULL),
              *vm = fv_linear(ctx, m, matrix(ctx, OUT, IN, w_v), NULL);
    float again[WORDS * OUT];
    read_floats(
        ctx,
        fv_attend(ctx, one_head(ctx, qm), one_head(ctx, km), one_head(ctx, vm), NULL, NULL, NULL),
        again);
    print_rows(ctx, "z", again, OUT);
    puts("");
    for (int i = 0; i < WORDS * OUT; i++)
        claim(fabsf(again[i] - z[i]) <= 1e-6f, "the six steps and the matrix form agree");

    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    options.high = 1;
    show_map(ctx,
             &(fv_look_map){.rows = WORDS,
                            .cols = WORDS,
                            .values = weights,
                            .row_labels = words,
                            .col_labels = words,
                            .title = "step 4: the weights"},
             &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
