/*
 * Products with packed weights of few bits. What the packing makes of a weight is computed here a
 * second time, by other means; a product must then have the bits of the chain over those weights,
 * at every level, thread count and number of rows. Packed weights end at an unreadable page.
 */
#include "fovea/kernels.h"

#include "base/pool.h"
#include "support/products.h"
#include "support/test.h"

static fv_simd best;

/* ---- the definition, once more --------------------------------------------------------- */

typedef struct weights {
    int64_t k, n;
    float *b;     /* [k][n], as given */
    float *wide;  /* [k][n], what the form makes of it, before the scale */
    float *scale; /* [n] */
    product_wall packed;
    fv_weight_form form;
} weights;

static void widen(weights *w)
{
    for (int64_t j = 0; j < w->n; j++) {
        float most = 0;
        for (int64_t k = 0; k < w->k; k++)
            most = fmaxf(most, fabsf(w->b[k * w->n + j]));
        w->scale[j] = w->form == FV_WEIGHT_I8 ? most / 127.0f : 1.0f;
        for (int64_t k = 0; k < w->k; k++) {
            const float x = w->b[k * w->n + j];
            w->wide[k * w->n + j] = w->form == FV_WEIGHT_BF16  ? product_bf16(x)
                                    : w->form == FV_WEIGHT_F32 ? x
                                    : most == 0                ? 0
                                                               : nearbyintf(x * (127.0f / most));
        }
    }
}

static void guarded_pack(weights *w, bool transposed)
{
    const size_t need = fv_gemm_packed_bytes(w->k, w->n, w->form);
    CHECK(need != SIZE_MAX && need % 64 == 0);
    w->packed = product_wall_make(need);
    if (!transposed) {
        CHECK_EQ(fv_gemm_pack_as(w->k, w->n, w->b, w->n, 1, w->form, w->packed.data), FV_OK);
        return;
    }
    float *t = product_memory((size_t)(w->k * w->n) * sizeof *t);
    for (int64_t k = 0; k < w->k; k++)
        for (int64_t j = 0; j < w->n; j++)
            t[j * w->k + k] = w->b[k * w->n + j];
    CHECK_EQ(fv_gemm_pack_as(w->k, w->n, t, 1, w->k, w->form, w->packed.data), FV_OK);
    free(t);
}

static weights weights_make(fv_weight_form form, int64_t k, int64_t n, bool transposed)
{
    weights w = {.k = k, .n = n, .form = form};
    w.b = product_randoms(k * n);
    w.wide = product_memory((size_t)(k * n) * sizeof *w.wide);
    w.scale = product_memory((size_t)n * sizeof *w.scale);
    for (int64_t i = 0; n > 3 && i < k; i++)
        w.b[i * n + 3] = 0; /* a column without a size */
    widen(&w);
    guarded_pack(&w, transposed);
    return w;
}

static void weights_free(weights *w)
{
    product_wall_free(&w->packed);
    free(w->b);
    free(w->wide);
    free(w->scale);
}

/* ---- products -------------------------------------------------------------------------- */

typedef struct product {
    int64_t m;
    fv_act act; /* NONE or RELU: what a test can state exactly */
    const float *a, *bias, *residual;
} product;

static void chain(const weights *w, const product *p, float *c)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < w->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < w->k; k++)
                sum = fmaf(p->a[i * w->k + k], w->wide[k * w->n + j], sum);
            if (w->form == FV_WEIGHT_I8) sum *= w->scale[j];
            if (p->bias) sum += p->bias[j];
            if (p->act == FV_ACT_RELU) sum = sum > 0 ? sum : 0;
            if (p->residual) sum += p->residual[i * w->n + j];
            c[i * w->n + j] = sum;
        }
}

static void run(const weights *w, const product *p, fv_simd level, fv_pool *pool, float *c)
{
    const fv_gemm g = {.m = p->m,
                       .n = w->n,
                       .k = w->k,
                       .a_row = w->k,
                       .a_col = 1,
                       .b_row = -1, /* unused */
                       .b_col = 1,
                       .c_row = w->n,
                       .residual_row = w->n,
                       .batch = 1,
                       .act = p->act,
                       .b_packed = 1,
                       .b_form = w->form};
    const size_t need = fv_gemm_scratch(&g, fv_pool_threads(pool));
    CHECK(need != SIZE_MAX);
    void *scratch = product_memory(need);
    const fv_gemm_exec exec = {
        .level = level, .pool = pool, .bias = p->bias, .residual = p->residual};
    CHECK_EQ(fv_gemm_run(&g, p->a, w->packed.data, &exec, scratch, need, c), FV_OK);
    free(scratch);
}

static void check(const weights *w, const product *p, fv_pool *pool)
{
    const size_t bytes = (size_t)(p->m * w->n) * sizeof(float);
    float *want = product_memory(bytes), *got = product_memory(bytes);
    chain(w, p, want);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        run(w, p, level, pool, got);
        if (memcmp(want, got, bytes) != 0)
            test_failed(__FILE__, __LINE__, "form %d, %lldx%lldx%lld, %s, %d threads", (int)w->form,
                        (long long)p->m, (long long)w->n, (long long)w->k, fv_simd_name(level),
                        fv_pool_threads(pool));
    }
    free(want);
    free(got);
}

static void check_size(int64_t m, int64_t n, int64_t k, bool epilogue, fv_pool *pool)
{
    for (fv_weight_form form = FV_WEIGHT_F32; form < FV_WEIGHT_FORM_COUNT; form++) {
        weights w = weights_make(form, k, n, (m + n) % 2);
        float *a = product_randoms(m * k), *bias = product_randoms(n),
              *more = product_randoms(m * n);
        product p = {.m = m, .a = a};
        if (epilogue) p = (product){m, FV_ACT_RELU, a, bias, more};
        check(&w, &p, pool);
        free(a);
        free(bias);
        free(more);
        weights_free(&w);
    }
}

/* ---- tests ------------------------------------------------------------------------------ */

static void tile_edges(void)
{
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 25, 31};
    static const int64_t ns[] = {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129};
    static const int64_t ks[] = {1, 2, 3, 15, 16, 17, 33};
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check_size(ms[i], ns[j], ks[l], (i + j + l) % 2, NULL);
}

/* k in blocks, with and without the sums waiting beside C. */
static void long_k(void)
{
    for (int64_t m = 1; m <= 31; m += 6)
        for (int epilogue = 0; epilogue < 2; epilogue++)
            check_size(m, 75, 2101, epilogue, NULL);
}

static void empty_sizes(void)
{
    for (int bits = 0; bits < 8; bits++)
        for (int m = 0; m <= 9; m += 3)
            check_size(m, bits & 1 ? 9 : 0, bits & 2 ? 4 : 0, bits & 4, NULL);
}

static void threads_one_to_eight(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        check_size(1, 2000, 1000, true, pool);
        check_size(1, 700, 600, false, pool);
        check_size(5, 1000, 500, false, pool);
        check_size(60, 330, 129, true, pool);
        fv_pool_destroy(&pool);
    }
}

static void rows_do_not_see_each_other(void)
{
    enum { M = 57, N = 200, K = 91 };
    for (fv_weight_form form = FV_WEIGHT_BF16; form < FV_WEIGHT_FORM_COUNT; form++) {
        weights w = weights_make(form, K, N, true);
        float *a = product_randoms(M * K), *all = product_memory(M * N * sizeof *all), one[N];
        for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
            const product together = {.m = M, .a = a};
            run(&w, &together, level, NULL, all);
            for (int64_t i = 0; i < M; i++) {
                const product alone = {.m = 1, .a = a + i * K};
                run(&w, &alone, level, NULL, one);
                CHECK(memcmp(one, all + i * N, sizeof one) == 0);
            }
        }
        free(a);
        free(all);
        weights_free(&w);
    }
}

/* Half a unit of the eighth bit rounds to even; the largest weight is 127 units exactly. */
static void rounding(void)
{
    enum { K = 5 };
    const float b[K] = {0x1.01p0f, 0x1.03p0f, 0x1.010002p0f, -0x1.01p0f, 2.0f};
    const float bf16[K] = {1.0f, 0x1.04p0f, 0x1.02p0f, -1.0f, 2.0f};
    const float whole[K] = {64, 64, 64, -64, 127};
    for (int64_t k = 0; k < K; k++) {
        float a[K] = {0}, c = 0;
        a[k] = 1;
        for (int low = 0; low < 2; low++) {
            weights w = {.k = K, .n = 1, .form = low ? FV_WEIGHT_I8 : FV_WEIGHT_BF16};
            w.b = (float *)(uintptr_t)b;
            guarded_pack(&w, false);
            const product p = {.m = 1, .a = a};
            run(&w, &p, FV_SIMD_SCALAR, NULL, &c);
            CHECK(c == (low ? whole[k] * (2.0f / 127.0f) : bf16[k]));
            product_wall_free(&w.packed);
        }
    }
}

/* NaN and infinity reach the columns that hold them, and no other. */
static void special_weights(void)
{
    enum { K = 40, N = 70 };
    for (fv_weight_form form = FV_WEIGHT_BF16; form < FV_WEIGHT_FORM_COUNT; form++) {
        weights w = weights_make(form, K, N, false);
        w.b[7 * N + 5] = NAN;
        w.b[0 * N + 66] = INFINITY;
        w.b[9 * N + 8] = 0x1p-149f;
        for (int64_t k = 0; k < K; k++)
            w.b[k * N + 9] = k % 2 ? 0x1p-149f : 0;
        CHECK_EQ(fv_gemm_pack_as(K, N, w.b, N, 1, form, w.packed.data), FV_OK);
        float *a = product_randoms(8 * K), c[8 * N];
        for (int64_t m = 1; m <= 8; m += 7)
            for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
                const product p = {.m = m, .a = a};
                run(&w, &p, level, NULL, c);
                for (int64_t i = 0; i < m * N; i++) {
                    const bool odd = i % N == 5 || i % N == 66;
                    CHECK(isfinite(c[i]) == !odd);
                }
            }
        free(a);
        weights_free(&w);
    }
}

static void refuses_bad_arguments(void)
{
    static float a[64], b[64 * 64], c[64];
    const fv_gemm good = {.m = 1,
                          .n = 64,
                          .k = 64,
                          .a_row = 64,
                          .a_col = 1,
                          .c_row = 64,
                          .batch = 1,
                          .b_packed = 1,
                          .b_form = FV_WEIGHT_I8};
#define REFUSED(...)                                                                               \
    do {                                                                                           \
        fv_gemm g = good;                                                                          \
        __VA_ARGS__;                                                                               \
        CHECK_EQ(fv_gemm_run(&g, a, b, NULL, NULL, 0, c), FV_ERR_ARGUMENT);                        \
        CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);                                                 \
    } while (0)
    REFUSED(g.b_form = FV_WEIGHT_FORM_COUNT);
    REFUSED(g.b_form = (fv_weight_form)-1);
    REFUSED(g.b_packed = 0);
    REFUSED(g.accumulate = 1);
    REFUSED(g.batch_rank = 1; g.batch_shape[0] = 2; g.batch = 2; g.c_batch[0] = 64);
#undef REFUSED
    CHECK(fv_gemm_packed_bytes(4, 4, FV_WEIGHT_FORM_COUNT) == SIZE_MAX);
    CHECK(fv_gemm_packed_bytes(-1, 4, FV_WEIGHT_I8) == SIZE_MAX);
    CHECK(fv_gemm_packed_bytes(INT64_MAX, INT64_MAX, FV_WEIGHT_BF16) == SIZE_MAX);
    CHECK_EQ(fv_gemm_pack_as(4, -1, b, 1, 1, FV_WEIGHT_I8, c), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_gemm_packed_bytes(3, 65, FV_WEIGHT_BF16), 2 * 2 * 256);
    CHECK_EQ(fv_gemm_packed_bytes(3, 65, FV_WEIGHT_I8), 2 * (256 + 3 * 64));
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    best = fv_simd_detect();
    RUN(tile_edges);
    RUN(long_k);
    RUN(empty_sizes);
    RUN(threads_one_to_eight);
    RUN(rows_do_not_see_each_other);
    RUN(rounding);
    RUN(special_weights);
    RUN(refuses_bad_arguments);
    return TEST_END();
}
