/*
 * How a head of a Neural Turing Machine finds its place in a memory, in four steps. Each gives a
 * distribution over the slots:
 *
 *     content    softmax(strength cos(key, slot))      which slot is like the key?
 *     gate       or stay where the head was            here mostly by content
 *     shift      then move, here one slot on
 *     sharpen    weights to the power of 4             so that moving does not blur
 *
 * Then a step of a reader and a writer: the writer stores a vector, a later step reads it back.
 *
 *     memory_head [picture.svg]
 */
#include "example.h"

enum { SLOTS = 6, WIDTH = 3, STEPS = 4 };

static fv_tensor *numbers(fv_ctx *ctx, int rank, const int64_t *shape, const float *values)
{
    return fv_from_host(ctx, FV_F32, rank, shape, values);
}

/* The weights with some of the steps left out: a gate of 1, a shift by 0, an exponent of 1. */
static void address(fv_ctx *ctx, fv_tensor *memory, int steps, float *out)
{
    static const float key[WIDTH] = {0.1f, 0.9f, 0.0f}, strength = 6, stay = 0.8f, all = 1;
    static const float here[3] = {0, 1, 0}, on[3] = {0, 0.1f, 0.9f}, plain = 1, sharp = 4;
    static const float before[SLOTS] = {0, 0, 0, 0, 1, 0};
    const int64_t one[] = {1, 1};
    fv_tensor *w = fv_ntm_address(ctx, numbers(ctx, 3, (int64_t[]){1, 1, WIDTH}, key),
                                  numbers(ctx, 2, one, &strength),
                                  numbers(ctx, 2, one, steps > 1 ? &stay : &all),
                                  numbers(ctx, 3, (int64_t[]){1, 1, 3}, steps > 2 ? on : here),
                                  numbers(ctx, 2, one, steps > 3 ? &sharp : &plain),
                                  numbers(ctx, 3, (int64_t[]){1, 1, SLOTS}, before), memory, false);
    read_floats(ctx, w, out);
}

static int largest(const float *w)
{
    int best = 0;
    for (int i = 1; i < SLOTS; i++)
        if (w[i] > w[best]) best = i;
    return best;
}

/* Raw parameters of one head that ignores its key and moves by `offset`. */
static void point(float *head, int offset)
{
    head[WIDTH + 1] = -20;             /* gate: from before */
    head[WIDTH + 2 + 1 + offset] = 20; /* shift */
    head[WIDTH + 2 + 3] = 3;           /* exponent */
}

int main(int argc, char **argv)
{
    static const char *const rows[STEPS] = {"content", "gate", "shift", "sharpen"};
    static const char *const slots[SLOTS] = {"0", "1", "2", "3", "4", "5"};
    static const float held[WIDTH][SLOTS] = {
        {1, 0, 0, 1, 0.5f, -1}, {0, 1, 0, 1, -0.5f, 0}, {0, 0, 1, 0, 1, 1}};
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_tensor *memory = numbers(ctx, 3, (int64_t[]){1, WIDTH, SLOTS}, &held[0][0]);
    float w[STEPS][SLOTS];
    for (int k = 0; k < STEPS; k++) {
        double sum = 0;
        address(ctx, memory, k + 1, w[k]);
        for (int i = 0; i < SLOTS; i++)
            sum += (double)w[k][i];
        claim(fabs(sum - 1) < 1e-6, "every step gives a distribution");
    }
    claim(largest(w[0]) == 1, "slot 1 is most like the key");
    claim(w[1][4] > w[0][4], "the gate lets some weight stay at slot 4");
    claim(largest(w[2]) == 2, "the shift moves on by one slot");
    claim(w[3][2] > w[2][2], "sharpening takes weight from the others");

    /* One reader and one writer that stay at slot 0. */
    const fv_ntm_heads heads = {.readers = 1, .writers = 1, .shifts = 3};
    float params[64] = {0}, back[WIDTH];
    const int64_t count = fv_ntm_params(&heads, WIDTH), head = WIDTH + 3 + 3;
    point(params, 0);
    point(params + head, 0);
    for (int j = 0; j < WIDTH; j++) {
        params[2 * head + j] = 20;                      /* erase what is there */
        params[2 * head + WIDTH + j] = j == 1 ? 2 : -2; /* and add tanh of this */
    }
    static const float start[2 * SLOTS] = {[0] = 1, [SLOTS] = 1};
    fv_tensor *weights = numbers(ctx, 3, (int64_t[]){1, 2, SLOTS}, start), *read;
    for (int step = 0; step < 2; step++)
        fv_ntm_step(ctx, numbers(ctx, 2, (int64_t[]){1, count}, params), weights, memory, &heads,
                    &read, &weights, &memory);
    read_floats(ctx, read, back);
    printf("written tanh(-2) tanh(2) tanh(-2), read back %.3f %.3f %.3f\n\n", (double)back[0],
           (double)back[1], (double)back[2]);
    claim(fabsf(back[1] - tanhf(2)) < 1e-3f && fabsf(back[0] + tanhf(2)) < 1e-3f,
          "what was written in one step is read in the next");
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    options.high = 1;
    show_map(ctx,
             &(fv_look_map){.rows = STEPS,
                            .cols = SLOTS,
                            .values = &w[0][0],
                            .row_labels = rows,
                            .col_labels = slots,
                            .col_title = "slot",
                            .title = "from a key to an address"},
             &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
