/*
 * Other layers as attention: a fully connected layer, a convolution, message passing on a graph.
 * Not in the limit of sharp softmaxes but exactly, to the bit: a head that sees one key gives it
 * weight 1, and one that sees none gives zeros. Each construction has a twin that must fail.
 */
#include "fovea/autograd.h"
#include "fovea/layers.h"
#include "support/opcase.h"
#include "support/tensors.h"

typedef struct stage {
    fv_ctx *ctx;
    fv_params *params;
} stage;

static stage stage_new(void)
{
    stage s = {.ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU)};
    CHECK_OK(s.ctx, fv_params_create(s.ctx, &s.params));
    fv_no_grad_begin(s.ctx);
    return s;
}

static void stage_free(stage *s)
{
    CHECK_OK(s->ctx, fv_ctx_error(s->ctx));
    fv_params_destroy(&s->params);
    fv_ctx_destroy(&s->ctx);
}

/* `times` identity matrices of this width, one above the other. */
static fv_tensor *identities(fv_ctx *ctx, int64_t times, int64_t width)
{
    int64_t *index = calloc((size_t)(times * width), sizeof *index);
    for (int64_t i = 0; i < times * width; i++)
        index[i] = i % width;
    fv_tensor *t = fv_one_hot(ctx, indices_of(ctx, index, times * width), width, FV_F32);
    free(index);
    return t;
}

/* Heads that hand on what they see: values are the inputs themselves, W_out is given. Queries and
 * keys are left as the layer drew them, since with one visible key they do not matter. */
static fv_mha passing_heads(const stage *s, int64_t heads, int64_t width, fv_tensor *w_out)
{
    fv_mha_config cfg;
    fv_mha_config_init(&cfg, sizeof cfg, width, heads);
    cfg.d_k = cfg.d_v = width;
    cfg.width_out = fv_tensor_size(w_out, 0);
    cfg.bias = cfg.bias_out = false;
    fv_mha h;
    CHECK_OK(s->ctx, fv_mha_create(s->params, "h", &cfg, &h));
    h.v.weight = identities(s->ctx, heads, width);
    h.out.weight = w_out;
    return h;
}

typedef bool (*sees_fn)(int64_t head, int64_t query, int64_t key);

static fv_tensor *pattern(fv_ctx *ctx, int64_t heads, int64_t n, sees_fn sees)
{
    uint8_t *mask = calloc((size_t)(heads * n * n), 1);
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                mask[(h * n + i) * n + j] = sees(h, i, j);
    fv_tensor *t = fv_from_host(ctx, FV_U8, 4, (int64_t[]){1, heads, n, n}, mask);
    free(mask);
    return t;
}

/* ---- fully connected (86) -------------------------------------------------------------- */

enum { TOKENS = 5, WIDTH = 3, OUT = 7 };

static bool key_of_its_number(int64_t head, int64_t query, int64_t key)
{
    (void)query;
    return key == head;
}
static bool itself(int64_t head, int64_t query, int64_t key)
{
    (void)head;
    return key == query;
}
static bool everything(int64_t head, int64_t query, int64_t key)
{
    (void)head, (void)query, (void)key;
    return true;
}

/* Whether the heads under this pattern give vec(X) W^T, bit for bit, at every position. */
static bool is_fully_connected(sees_fn sees)
{
    stage s = stage_new();
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 1, 3, 1, TOKENS, WIDTH);
    fv_tensor *w = tensor_random(ctx, 2, 2, OUT, TOKENS * WIDTH);
    fv_tensor *fc = fv_linear(ctx, fv_reshape(ctx, x, 2, (int64_t[]){1, TOKENS * WIDTH}), w, NULL);
    fv_mha heads = passing_heads(&s, TOKENS, WIDTH, w);
    fv_mha_input in = {.x = x, .visible = pattern(ctx, TOKENS, TOKENS, sees)};
    fv_tensor *y = fv_mha_run(ctx, &heads, &in, NULL);
    const int64_t shape[3] = {1, TOKENS, OUT};
    const bool same = tensor_same(ctx, y, fv_contiguous(ctx, fv_broadcast(ctx, fc, 3, shape)));
    stage_free(&s);
    return same;
}

/* (86) Head n looks at key n alone: the joined heads are vec(X), and W^O is the layer. */
static void a_fully_connected_layer(void)
{
    CHECK(is_fully_connected(key_of_its_number));
    CHECK(!is_fully_connected(itself));     /* A = I is only a layer for each token */
    CHECK(!is_fully_connected(everything)); /* a softmax reaches it in the limit, never quite */
}

/* ---- convolution (87) ------------------------------------------------------------------- */

enum {
    HIGH = 4,
    WIDE = 5,
    PIXELS = HIGH * WIDE,
    SIDE = 3,
    TAPS = SIDE * SIDE,
    CHANNELS = 2,
    MAPS = 3
};

static bool in_picture(int64_t y, int64_t x) { return y >= 0 && y < HIGH && x >= 0 && x < WIDE; }

static bool tap_of_its_number(int64_t head, int64_t query, int64_t key)
{
    const int64_t y = query / WIDE + head / SIDE - SIDE / 2,
                  x = query % WIDE + head % SIDE - SIDE / 2;
    return in_picture(y, x) && key == y * WIDE + x;
}
/* Neighbours in the row-major list instead of in the picture. */
static bool tap_in_the_list(int64_t head, int64_t query, int64_t key)
{
    return key == query + head - TAPS / 2;
}
/* Beyond the edge: the pixel on the other side instead of nothing. */
static bool tap_around_the_edge(int64_t head, int64_t query, int64_t key)
{
    const int64_t y = query / WIDE + head / SIDE - SIDE / 2,
                  x = query % WIDE + head % SIDE - SIDE / 2;
    return key == (y + HIGH) % HIGH * WIDE + (x + WIDE) % WIDE;
}

/* The convolution with zeros around, its products in the order (tap, channel), each sum one chain
 * of fused multiply-adds as in our matrix product. */
static fv_tensor *convolved(fv_ctx *ctx, fv_tensor *picture, fv_tensor *weight)
{
    float *p = tensor_floats(ctx, picture), *w = tensor_floats(ctx, weight), y[PIXELS * MAPS];
    for (int i = 0; i < PIXELS; i++)
        for (int m = 0; m < MAPS; m++) {
            float sum = 0;
            for (int tap = 0; tap < TAPS; tap++)
                for (int c = 0; c < CHANNELS; c++) {
                    const int row = i / WIDE + tap / SIDE - SIDE / 2;
                    const int col = i % WIDE + tap % SIDE - SIDE / 2;
                    const float x = in_picture(row, col) ? p[(row * WIDE + col) * CHANNELS + c] : 0;
                    sum = fmaf(x, w[(m * TAPS + tap) * CHANNELS + c], sum);
                }
            y[i * MAPS + m] = sum;
        }
    free(p);
    free(w);
    return fv_from_host(ctx, FV_F32, 3, (int64_t[]){1, PIXELS, MAPS}, y);
}

static bool is_convolution(sees_fn sees, int64_t heads)
{
    stage s = stage_new();
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 3, 3, 1, PIXELS, CHANNELS);
    fv_tensor *w = tensor_random(ctx, 4, 2, MAPS, TAPS * CHANNELS);
    fv_tensor *w_out = fv_contiguous(ctx, fv_slice(ctx, w, 1, 0, heads * CHANNELS, 1));
    fv_mha layer = passing_heads(&s, heads, CHANNELS, w_out);
    fv_mha_input in = {.x = x, .visible = pattern(ctx, heads, PIXELS, sees)};
    const bool same = tensor_same(ctx, fv_mha_run(ctx, &layer, &in, NULL), convolved(ctx, x, w));
    stage_free(&s);
    return same;
}

/* (87) k x k heads, one an offset; W^O holds the kernel. Beyond the edge a head sees nothing. */
static void a_convolution(void)
{
    CHECK(is_convolution(tap_of_its_number, TAPS));
    CHECK(!is_convolution(tap_of_its_number, TAPS - 1)); /* a head too few */
    CHECK(!is_convolution(tap_in_the_list, TAPS));
    CHECK(!is_convolution(tap_around_the_edge, TAPS));
}

/* ---- message passing (105) ------------------------------------------------------------- */

enum { NODES = 6, FEATURES = 4 };

/* Round k: every node sends (key, value) along its edges; a node that has them all weighs them by
 * its own query. Edges are edge[from][to]. */
static fv_tensor *pass_messages(fv_ctx *ctx, fv_tensor *x, const uint8_t *edge)
{
    float *v = tensor_floats(ctx, x), y[NODES * FEATURES];
    for (int to = 0; to < NODES; to++) {
        double sum = 0, blend[FEATURES] = {0};
        for (int from = 0; from < NODES; from++) {
            if (!edge[from * NODES + to]) continue;
            double match = 0;
            for (int c = 0; c < FEATURES; c++)
                match += (double)v[to * FEATURES + c] * (double)v[from * FEATURES + c];
            sum += exp(match);
            for (int c = 0; c < FEATURES; c++)
                blend[c] += exp(match) * (double)v[from * FEATURES + c];
        }
        for (int c = 0; c < FEATURES; c++)
            y[to * FEATURES + c] = (float)(blend[c] / sum);
    }
    free(v);
    return fv_from_host(ctx, FV_F32, 2, (int64_t[]){NODES, FEATURES}, y);
}

/* (105) Attention is message passing: on the complete graph without a mask, on any other with the
 * graph as the mask. */
static void message_passing(void)
{
    stage s = stage_new();
    fv_ctx *ctx = s.ctx;
    fv_tensor *x = tensor_random(ctx, 5, 2, NODES, FEATURES);
    uint8_t complete[NODES * NODES], ring[NODES * NODES], seen[NODES * NODES];
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++) {
            complete[i * NODES + j] = 1;
            ring[i * NODES + j] = i == j || j == (i + 1) % NODES;
            seen[j * NODES + i] = ring[i * NODES + j]; /* a mask has the receiver first */
        }
    fv_tensor *all = fv_attention_basic(ctx, x, NULL);
    CHECK(tensor_distance(ctx, all, pass_messages(ctx, x, complete)) < 1e-5);
    CHECK(tensor_distance(ctx, all, pass_messages(ctx, x, ring)) > 1e-2); /* edges missing */
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_DOT;
    fv_tensor *heads = fv_reshape(ctx, x, 4, (int64_t[]){1, 1, NODES, FEATURES});
    fv_attention_input in = {.q = heads, .k = heads, .v = heads};
    in.visible = fv_from_host(ctx, FV_U8, 2, (int64_t[]){NODES, NODES}, seen);
    fv_tensor *y =
        fv_reshape(ctx, fv_attention_run(ctx, &in, &how, NULL), 2, (int64_t[]){NODES, FEATURES});
    CHECK(tensor_distance(ctx, y, pass_messages(ctx, x, ring)) < 1e-5);
    in.visible = fv_from_host(ctx, FV_U8, 2, (int64_t[]){NODES, NODES}, ring);
    y = fv_reshape(ctx, fv_attention_run(ctx, &in, &how, NULL), 2, (int64_t[]){NODES, FEATURES});
    CHECK(tensor_distance(ctx, y, pass_messages(ctx, x, ring)) > 1e-2); /* edges reversed */
    stage_free(&s);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(a_fully_connected_layer);
    RUN(a_convolution);
    RUN(message_passing);
    return TEST_END();
}
