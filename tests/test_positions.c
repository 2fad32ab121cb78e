/* Positions: tables against their formulas, against other libraries' numbers, and the properties
 * they exist for. Gradients are in test_compounds.c and test_grad.c. */
#include "fovea/layers.h"

#include "support/opcase.h"
#include "support/tensors.h"

static fv_ctx *begin(void) { return op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU); }

static void end(fv_ctx *ctx)
{
    CHECK_OK(ctx, fv_ctx_error(ctx));
    fv_ctx_destroy(&ctx);
}

/* ---- absolute --------------------------------------------------------------------- */

static void sinusoid(void)
{
    fv_ctx *ctx = begin();
    const double a = 3.0 / 100, b = 4.0 / 100; /* 10000^(2/4) = 100 */
    fv_tensor *t = fv_sinusoid(ctx, FV_F32, 3, 2, 4, 10000, FV_SINUSOID_INTERLEAVED);
    CHECK_VALUES(ctx, t, 1e-6, sin(3), cos(3), sin(a), cos(a), sin(4), cos(4), sin(b), cos(b));
    t = fv_sinusoid(ctx, FV_F32, 3, 2, 4, 10000, FV_SINUSOID_HALVES);
    CHECK_VALUES(ctx, t, 1e-6, sin(3), sin(a), cos(3), cos(a), sin(4), sin(b), cos(4), cos(b));
    t = fv_sinusoid(ctx, FV_F32, 1, 1, 3, 8, FV_SINUSOID_INTERLEAVED); /* 8^(2/3) = 4 */
    CHECK_VALUES(ctx, t, 1e-6, sin(1), cos(1), sin(0.25));
    t = fv_sinusoid(ctx, FV_F32, 1, 1, 3, 8, FV_SINUSOID_HALVES);
    CHECK_VALUES(ctx, t, 1e-6, sin(1), sin(0.25), cos(1));
    CHECK(!fv_tensor_valid(fv_sinusoid(ctx, FV_F32, 0, 2, 4, 0, FV_SINUSOID_HALVES)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "base 0");
    CHECK(!fv_tensor_valid(fv_sinusoid(ctx, FV_F32, 0, -2, 4, 10, FV_SINUSOID_HALVES)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "[-2,4]");
    end(ctx);
}

static void joining(void)
{
    fv_ctx *ctx = begin();
    fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3, 4, 5, 6, 7, 8}, 3, 2, 2, 2);
    fv_tensor *table = tensor_of(ctx, (float[]){10, 20, 30, 40, 50, 60}, 2, 3, 2);
    fv_tensor *rows = fv_positions_learned(ctx, table, 1, 2);
    CHECK_VALUES(ctx, fv_positions_apply(ctx, x, rows, FV_POSITIONS_ADD), 0, 31, 42, 53, 64, 35, 46,
                 57, 68);
    fv_tensor *y = fv_positions_apply(ctx, x, rows, FV_POSITIONS_CONCAT);
    CHECK_EQ(fv_tensor_size(y, -1), 4);
    CHECK_VALUES(ctx, y, 0, 1, 2, 30, 40, 3, 4, 50, 60, 5, 6, 30, 40, 7, 8, 50, 60);
    CHECK(!fv_tensor_valid(fv_positions_learned(ctx, table, 2, 2)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "2 rows from 2 on");
    CHECK(!fv_tensor_valid(fv_positions_apply(ctx, x, table, FV_POSITIONS_ADD)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[3,2] does not fit x of shape [2,2,2]");
    end(ctx);
}

/* ---- rotary ------------------------------------------------------------------------ */

static void rotary_rotates_pairs(void)
{
    fv_ctx *ctx = begin();
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, 4);
    fv_tensor *table = fv_rotary_table(ctx, FV_F32, &cfg, 2, 1);
    const double c = cos(2), s = sin(2), c2 = cos(0.02), s2 = sin(0.02);
    CHECK_VALUES(ctx, table, 1e-6, c, c2, s, s2);
    fv_tensor *x = tensor_of(ctx, (float[]){1, 2, 3, 4, 9}, 2, 1, 5);
    CHECK_VALUES(ctx, fv_rotary(ctx, x, table, 0, FV_PAIRS_HALVES), 1e-5, c - 3 * s,
                 2 * c2 - 4 * s2, 3 * c + s, 4 * c2 + 2 * s2, 9);
    CHECK_VALUES(ctx, fv_rotary(ctx, x, table, 0, FV_PAIRS_INTERLEAVED), 1e-5, c - 2 * s, 2 * c + s,
                 3 * c2 - 4 * s2, 4 * c2 + 3 * s2, 9);
    CHECK(!fv_tensor_valid(fv_rotary(ctx, x, table, 1, FV_PAIRS_HALVES)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "last axis");
    CHECK(!fv_tensor_valid(fv_rotary(ctx, x, fv_rotary_table(ctx, FV_F32, &cfg, 0, 2), 0, 0)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "expected a table of");
    cfg.width = 3;
    CHECK(!fv_tensor_valid(fv_rotary_table(ctx, FV_F32, &cfg, 0, 2)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "width 3");
    end(ctx);
}

/* What rotary is for: q_i . k_j knows only i - j. */
static void rotary_products_are_relative(void)
{
    enum { N = 6, WIDTH = 8 };
    fv_ctx *ctx = begin();
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, WIDTH);
    const int64_t shape[2] = {N, WIDTH};
    fv_tensor *q = fv_broadcast(ctx, tensor_random(ctx, 1, 2, 1, WIDTH), 2, shape);
    fv_tensor *k = fv_broadcast(ctx, tensor_random(ctx, 2, 2, 1, WIDTH), 2, shape);
    for (int pairs = FV_PAIRS_HALVES; pairs <= FV_PAIRS_INTERLEAVED; pairs++) {
        fv_tensor *table = fv_rotary_table(ctx, FV_F32, &cfg, 100, N);
        fv_tensor *rotated = fv_rotary(ctx, q, table, 0, (fv_pairs)pairs);
        fv_tensor *s = fv_matmul(
            ctx, rotated, fv_transpose(ctx, fv_rotary(ctx, k, table, 0, (fv_pairs)pairs), 0, 1));
        float *x = tensor_floats(ctx, s);
        for (int i = 1; i < N; i++)
            for (int j = 1; j < N; j++)
                CHECK_NEAR(x[i * N + j], x[(i - 1) * N + j - 1], 1e-4);
        CHECK(fabsf(x[1] - x[0]) > 1e-2f); /* and it does know it */
        free(x);
        /* Other frequencies for q than for k would not do. */
        fv_rotary_config other = cfg;
        other.base = 100;
        fv_tensor *wrong =
            fv_rotary(ctx, k, fv_rotary_table(ctx, FV_F32, &other, 100, N), 0, (fv_pairs)pairs);
        float *y = tensor_floats(ctx, fv_matmul(ctx, rotated, fv_transpose(ctx, wrong, 0, 1)));
        CHECK(fabsf(y[N + 1] - y[0]) > 1e-2f);
        free(y);
    }
    end(ctx);
}

/* Llama 3's factor: short waves stay, long ones stretch, between them a blend. */
static void rotary_stretches_long_waves(void)
{
    fv_ctx *ctx = begin();
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, 8);
    cfg.base = 500000;
    fv_tensor *plain = fv_rotary_table(ctx, FV_F64, &cfg, 1, 1);
    cfg.llama3_factor = 8;
    cfg.low_freq = 1;
    cfg.high_freq = 4;
    cfg.original = 8192;
    fv_tensor *stretched = fv_rotary_table(ctx, FV_F64, &cfg, 1, 1);
    double a[8], b[8];
    CHECK_OK(ctx, fv_tensor_read(ctx, plain, a, sizeof a));
    CHECK_OK(ctx, fv_tensor_read(ctx, stretched, b, sizeof b));
    /* angles of position 1: 1, 500000^-1/4, ^-1/2, ^-3/4; rotations
     * within 8192 positions: 1304, 49, 1.84, 0.07 */
    const double f = pow(500000, -0.5), turns = 8192 * f / (2 * acos(-1.0)), keep = (turns - 1) / 3;
    CHECK_NEAR(b[4], a[4], 0);
    CHECK_NEAR(b[5], a[5], 0);
    CHECK_NEAR(asin(b[6]), keep * f + (1 - keep) * f / 8, 1e-15);
    CHECK_NEAR(asin(b[7]), asin(a[7]) / 8, 1e-15);
    end(ctx);
}

/* Angles of position 1, pair by pair. */
static void angles_of_one(fv_ctx *ctx, const fv_rotary_config *cfg, double out[4])
{
    fv_tensor *table = fv_rotary_table(ctx, FV_F64, cfg, 1, 1);
    double x[8] = {0};
    CHECK_OK(ctx, fv_tensor_read(ctx, table, x, sizeof x));
    for (int m = 0; m < 4; m++)
        out[m] = atan2(x[4 + m], x[m]);
}

/* Where no pair is between the two numbers of turns, yarn keeps the first and scales the others. */
static void yarn_without_a_ramp(void)
{
    fv_ctx *ctx = begin();
    double plain[4], scaled[4];
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, 8);
    angles_of_one(ctx, &cfg, plain);
    cfg.scaling = FV_ROTARY_SCALING_YARN;
    cfg.factor = 4;
    cfg.original = 2;
    cfg.low_freq = 1;
    cfg.high_freq = 32;
    angles_of_one(ctx, &cfg, scaled);
    for (int m = 0; m < 4; m++)
        CHECK_NEAR(scaled[m], m == 0 ? plain[m] : plain[m] / 4, 1e-15);
    cfg.factor = 0;
    CHECK(!fv_tensor_valid(fv_rotary_table(ctx, FV_F64, &cfg, 0, 1)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "scaling 1, factor 0, low_freq 1");
    cfg.scaling = FV_ROTARY_SCALING_LONGROPE;
    CHECK(!fv_tensor_valid(fv_rotary_table(ctx, FV_F64, &cfg, 0, 1)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "no short_factors and long_factors");
    end(ctx);
}

/* ---- relative ---------------------------------------------------------------------- */

/* Where the bucket changes, from the formula of Hugging Face's T5 run in PyTorch over distances
 * -600 .. 600: {first distance, bucket}. */
typedef struct change {
    int64_t distance, bucket;
} change;

static const change t5_both_32_128[] = {
    {-600, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8},
    {-7, 7},    {-6, 6},   {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},  {0, 0},
    {1, 17},    {2, 18},   {3, 19},   {4, 20},   {5, 21},   {6, 22},   {7, 23},  {8, 24},
    {12, 25},   {16, 26},  {23, 27},  {32, 28},  {46, 29},  {64, 30},  {91, 31}, {601, -1}};
static const change t5_left_32_128[] = {
    {-600, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26}, {-58, 25},
    {-51, 24},  {-45, 23},  {-39, 22}, {-34, 21}, {-30, 20}, {-26, 19}, {-23, 18},
    {-20, 17},  {-18, 16},  {-15, 15}, {-14, 14}, {-13, 13}, {-12, 12}, {-11, 11},
    {-10, 10},  {-9, 9},    {-8, 8},   {-7, 7},   {-6, 6},   {-5, 5},   {-4, 4},
    {-3, 3},    {-2, 2},    {-1, 1},   {0, 0},    {601, -1}};
static const change t5_left_16_40[] = {
    {-600, 15}, {-32, 14}, {-26, 13}, {-21, 12}, {-17, 11}, {-14, 10}, {-11, 9}, {-9, 8},  {-7, 7},
    {-6, 6},    {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},   {0, 0},   {601, -1}};

/* Beyond distance 28 the formula leaves the table: row 0 stands there. */
static const change t5_left_32_9[] = {
    {-600, 0}, {-28, 1},  {-27, 2},  {-26, 3},  {-25, 4},  {-24, 5},  {-23, 6},  {-22, 8},
    {-21, 9},  {-20, 10}, {-19, 12}, {-18, 13}, {-17, 15}, {-16, 16}, {-15, 15}, {-14, 14},
    {-13, 13}, {-12, 12}, {-11, 11}, {-10, 10}, {-9, 9},   {-8, 8},   {-7, 7},   {-6, 6},
    {-5, 5},   {-4, 4},   {-3, 3},   {-2, 2},   {-1, 1},   {0, 0},    {601, -1}};
/* max_distance is the first that is not exact: the formula is 0 / 0. */
static const change t5_left_8_4[] = {{-600, 7}, {-3, 3}, {-2, 2}, {-1, 1}, {0, 0}, {601, -1}};

static void check_buckets(fv_ctx *ctx, fv_relative r, const change *expected)
{
    enum { REACH = 600 };
    CHECK_EQ(fv_relative_rows(&r), r.buckets);
    int64_t *index = tensor_indices(ctx, fv_relative_index(ctx, &r, REACH, 1, 2 * REACH + 1));
    for (int64_t d = -REACH; d <= REACH; d++) {
        while (expected[1].distance <= d)
            expected++;
        if (index[d + REACH] != expected->bucket) {
            test_failed(__FILE__, __LINE__, "distance %lld: bucket %lld, not %lld", (long long)d,
                        (long long)index[d + REACH], (long long)expected->bucket);
            break;
        }
    }
    free(index);
}

static void t5_buckets(void)
{
    fv_ctx *ctx = begin();
    check_buckets(
        ctx,
        (fv_relative){
            .kind = FV_RELATIVE_T5, .buckets = 32, .max_distance = 128, .bidirectional = true},
        t5_both_32_128);
    check_buckets(ctx, (fv_relative){.kind = FV_RELATIVE_T5, .buckets = 32, .max_distance = 128},
                  t5_left_32_128);
    check_buckets(ctx, (fv_relative){.kind = FV_RELATIVE_T5, .buckets = 16, .max_distance = 40},
                  t5_left_16_40);
    CHECK_EQ(
        fv_relative_rows(&(fv_relative){.kind = FV_RELATIVE_T5, .buckets = 1, .max_distance = 9}),
        0);
    CHECK_EQ(
        fv_relative_rows(&(fv_relative){.kind = FV_RELATIVE_T5, .buckets = 32, .max_distance = 0}),
        0);
    check_buckets(ctx, (fv_relative){.kind = FV_RELATIVE_T5, .buckets = 32, .max_distance = 9},
                  t5_left_32_9);
    check_buckets(ctx, (fv_relative){.kind = FV_RELATIVE_T5, .buckets = 8, .max_distance = 4},
                  t5_left_8_4);
    CHECK_EQ(fv_relative_rows(&(fv_relative){.kind = (fv_relative_kind)9, .max_distance = 9}), 0);
    CHECK(!fv_tensor_valid(fv_relative_index(ctx, &(fv_relative){.max_distance = -1}, 0, 2, 2)));
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "max_distance -1");
    end(ctx);
}

enum { NQ = 3, NK = 5, REACH = 2, FIRST = 1 };
static const fv_relative clipped = {.kind = FV_RELATIVE_CLIPPED, .max_distance = REACH};

static int row_of(int i, int j)
{
    const int d = j - (FIRST + i);
    return (d < -REACH ? -REACH : d > REACH ? REACH : d) + REACH;
}

static void clipped_bias(void)
{
    enum { HEADS = 2 };
    fv_ctx *ctx = begin();
    fv_tensor *table = tensor_random(ctx, 1, 2, 2 * REACH + 1, HEADS);
    float *t = tensor_floats(ctx, table);
    float *bias = tensor_floats(ctx, fv_relative_bias(ctx, table, &clipped, FIRST, NQ, NK));
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < NQ; i++)
            for (int j = 0; j < NK; j++)
                CHECK(bias[(h * NQ + i) * NK + j] == t[row_of(i, j) * HEADS + h]);
    free(t);
    free(bias);
    CHECK(!fv_tensor_valid(
        fv_relative_bias(ctx, fv_slice(ctx, table, 0, 0, 2, 1), &clipped, 0, 1, 1)));
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "[2,2], expected [5, ...]");
    end(ctx);
}

static void shaw_keys_and_values(void)
{
    enum { B = 2, H = 2, D = 3 };
    fv_ctx *ctx = begin();
    fv_tensor *q = tensor_random(ctx, 1, 4, B, H, NQ, D),
              *w = tensor_random(ctx, 2, 4, B, H, NQ, NK);
    fv_tensor *table = tensor_random(ctx, 3, 2, 2 * REACH + 1, D);
    float *t = tensor_floats(ctx, table), *qs = tensor_floats(ctx, q), *ws = tensor_floats(ctx, w);
    float *keys = tensor_floats(ctx, fv_relative_key_scores(ctx, q, table, &clipped, FIRST, NK));
    float *values = tensor_floats(ctx, fv_relative_value_sums(ctx, w, table, &clipped, FIRST));
    for (int n = 0; n < B * H * NQ; n++) {
        double sum[D] = {0};
        for (int j = 0; j < NK; j++) {
            const float *a = t + row_of(n % NQ, j) * D;
            double product = 0;
            for (int c = 0; c < D; c++) {
                product += (double)qs[n * D + c] * (double)a[c];
                sum[c] += (double)ws[n * NK + j] * (double)a[c];
            }
            CHECK_NEAR(keys[n * NK + j], product, 1e-5);
        }
        for (int c = 0; c < D; c++)
            CHECK_NEAR(values[n * D + c], sum[c], 1e-5);
    }
    free(t);
    free(qs);
    free(ws);
    free(keys);
    free(values);
    end(ctx);
}

static void alibi(void)
{
    fv_ctx *ctx = begin();
    CHECK_VALUES(ctx, fv_alibi_slopes(ctx, FV_F32, 8), 0, 1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16,
                 1.0 / 32, 1.0 / 64, 1.0 / 128, 1.0 / 256);
    CHECK_VALUES(ctx, fv_alibi_slopes(ctx, FV_F32, 6), 1e-7, 1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256,
                 1.0 / 2, 1.0 / 8);
    CHECK_VALUES(ctx, fv_alibi_slopes(ctx, FV_F32, 3), 1e-7, 1.0 / 16, 1.0 / 256, 1.0 / 4);
    CHECK_VALUES(ctx, fv_alibi_slopes(ctx, FV_F32, 1), 0, 1.0 / 256);
    CHECK_EQ(fv_tensor_count(fv_alibi_slopes(ctx, FV_F32, 0)), 0);
    end(ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(sinusoid);
    RUN(joining);
    RUN(rotary_rotates_pairs);
    RUN(rotary_products_are_relative);
    RUN(rotary_stretches_long_waves);
    RUN(yarn_without_a_ramp);
    RUN(t5_buckets);
    RUN(clipped_bias);
    RUN(shaw_keys_and_values);
    RUN(alibi);
    return TEST_END();
}
