/*
 * Who may look at whom. All scores are equal here, so a row of the picture shares its weight among
 * the keys that the query sees; the terminal shows just which ones they are. The weights are made
 * again beside the streamed kernel, which skips what is hidden.
 *
 *     masks [picture.svg]
 */
#include "example.h"

enum { N = 32, WIDTH = 4, BLOCK_Q = 8, BLOCK_K = 16, DOCUMENTS = 3 };
enum { PROMPT = 10, LENGTH = 20, REACH = 5, STRIDE = 8 };

typedef enum mask { NONE, CAUSAL, WINDOW, PREFIX, LENGTHS, BLOCKS, PACKED, PATTERN, MASKS } mask;
static const char *const names[MASKS] = {"none",   "causal", "window",    "prefix",
                                         "length", "blocks", "documents", "pattern"};

static const uint8_t blocks[N / BLOCK_Q][N / BLOCK_K] = {{1, 0}, {1, 1}, {0, 1}, {1, 0}};
static const int64_t begin[DOCUMENTS + 1] = {0, 9, 21, N};

static int document_of(int i)
{
    int b = 0;
    while (i >= begin[b + 1])
        b++;
    return b;
}

/* What each mask is meant to say. */
static bool may_see(mask m, int i, int j)
{
    switch (m) {
    case CAUSAL:
        return j <= i;
    case WINDOW:
        return abs(i - j) <= REACH;
    case PREFIX:
        return j <= i || j < PROMPT;
    case LENGTHS:
        return j < LENGTH;
    case BLOCKS:
        return blocks[i / BLOCK_Q][j / BLOCK_K] != 0;
    case PACKED:
        return document_of(i) == document_of(j);
    case PATTERN:
        return i == j || j % STRIDE == 0;
    default:
        return true;
    }
}

/* The same as settings and arrays. */
static void describe(fv_ctx *ctx, mask m, fv_attention *how, fv_attention_input *in)
{
    static const int64_t length = LENGTH;
    static uint8_t pairs[N * N];
    if (m == CAUSAL || m == PREFIX) how->rule.causal = FV_CAUSAL_TOP_LEFT;
    if (m == WINDOW) how->rule.left = how->rule.right = REACH;
    if (m == PREFIX) how->rule.prefix = PROMPT;
    if (m == LENGTHS) in->key_lengths = fv_from_host(ctx, FV_I64, 1, (int64_t[]){1}, &length);
    if (m == BLOCKS) {
        how->rule.block_q = BLOCK_Q;
        how->rule.block_k = BLOCK_K;
        in->blocks = fv_from_host(ctx, FV_U8, 2, (int64_t[]){N / BLOCK_Q, N / BLOCK_K}, blocks);
    }
    if (m == PACKED)
        in->q_begin = in->k_begin = fv_from_host(ctx, FV_I64, 1, (int64_t[]){DOCUMENTS + 1}, begin);
    if (m == PATTERN) {
        for (int i = 0; i < N * N; i++)
            pairs[i] = may_see(m, i / N, i % N);
        in->visible = fv_from_host(ctx, FV_U8, 2, (int64_t[]){N, N}, pairs);
    }
}

int main(int argc, char **argv)
{
    static float maps[MASKS * N * N], seen[N * N];
    fv_ctx *ctx = example_start(FV_SIMD_SCALAR);
    fv_tensor *zero = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 1, N, WIDTH});
    for (int m = 0; m < MASKS; m++) {
        fv_attention how;
        fv_attention_init(&how, sizeof how);
        how.capture.weights = true;
        fv_attention_input in = {.q = zero, .k = zero, .v = zero};
        describe(ctx, (mask)m, &how, &in);
        fv_attention_result out;
        fv_attention_run(ctx, &in, &how, &out);
        float *map = maps + m * N * N;
        read_floats(ctx, out.captured.weights, map);
        for (int i = 0; i < N * N; i++) {
            seen[i] = map[i] > 0;
            claim((map[i] > 0) == may_see((mask)m, i / N, i % N), names[m]);
        }
        show_map(ctx, &(fv_look_map){.rows = N, .cols = N, .values = seen, .title = names[m]}, NULL,
                 NULL);
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.cell = 96;
    options.high = 0.2;
    save_panels(ctx,
                &(fv_look_heads){.layers = 1,
                                 .heads = MASKS,
                                 .rows = N,
                                 .cols = N,
                                 .values = maps,
                                 .layer_names = (const char *[]){"queries"},
                                 .head_names = names,
                                 .title = "who may look at whom: queries down, keys across"},
                &options, argc > 1 ? argv[1] : NULL);
    fv_ctx_destroy(&ctx);
    return 0;
}
