/*
 * Products whose operands are rounded to bf16. The rounding and the chain over pairs are written
 * here a second time; a product must have those bits at every level, with every kind of strides and
 * any number of threads. The kernel by multiply-adds is also called where the CPU would not choose
 * it. Against the exact sum of the rounded operands, the error stays below what n roundings give.
 */
#include "fovea/kernels.h"

#include "base/pool.h"
#include "kernels/gemm_bf16.h"
#include "kernels/half.h"
#include "kernels/level.h"
#include "support/products.h"
#include "support/test.h"

static fv_simd best;

/* How an operand lies: its rows contiguous, its columns, its columns an even number of elements
 * apart, or neither. */
typedef enum layout { ROWS, COLUMNS, EVEN_COLUMNS, NEITHER, LAYOUTS } layout;

typedef struct product {
    int64_t m, n, k;
    layout a_layout, b_layout;
    fv_act act; /* NONE or RELU: what a test can state exactly */
    bool accumulate, bias, residual;
    float *a, *b, *c, *add, *more; /* c: what C holds before; add: the bias; more: the residual */
} product;

static int64_t row_step(layout l, int64_t cols)
{
    return l == ROWS ? cols : l == NEITHER ? 3 * cols + 2 : 1;
}
static int64_t col_step(layout l, int64_t rows)
{
    return l == ROWS ? 1 : l == COLUMNS ? rows : l == EVEN_COLUMNS ? rows + rows % 2 : 3;
}

static int64_t extent(layout l, int64_t rows, int64_t cols)
{
    return rows * row_step(l, cols) + cols * col_step(l, rows) + 1;
}

static fv_gemm description(const product *p)
{
    return (fv_gemm){.m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .a_row = row_step(p->a_layout, p->k),
                     .a_col = col_step(p->a_layout, p->m),
                     .b_row = row_step(p->b_layout, p->n),
                     .b_col = col_step(p->b_layout, p->k),
                     .c_row = p->n,
                     .residual_row = p->n,
                     .batch = 1,
                     .act = p->act,
                     .accumulate = p->accumulate,
                     .bf16 = 1};
}

/* What lies between columns must not be used. */
static void spoil_gaps(layout l, float *x, int64_t rows, int64_t cols)
{
    const int64_t step = col_step(l, rows);
    for (int64_t j = 0; l == EVEN_COLUMNS && j < cols; j++)
        for (int64_t i = rows; i < step; i++)
            x[j * step + i] = NAN;
}

static void fill(product *p)
{
    p->a = product_randoms(extent(p->a_layout, p->m, p->k));
    p->b = product_randoms(extent(p->b_layout, p->k, p->n));
    spoil_gaps(p->a_layout, p->a, p->m, p->k);
    spoil_gaps(p->b_layout, p->b, p->k, p->n);
    p->c = product_randoms(p->m * p->n);
    p->add = product_randoms(p->n);
    p->more = product_randoms(p->m * p->n);
}

static void drop(product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->add);
    free(p->more);
}

/* Rows of A, or columns of B, one after the other: rounded, with a zero beside an odd last k. */
static float *rounded(const float *x, int64_t lines, int64_t line, int64_t k, int64_t step)
{
    const int64_t even = (k + 1) / 2 * 2;
    float *to = product_memory((size_t)(lines * even) * sizeof *to);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < even; j++)
            to[i * even + j] = j < k ? product_bf16(x[i * line + j * step]) : 0;
    return to;
}

static float pair_chain(const float *x, const float *y, int64_t k, float sum)
{
    for (int64_t pair = 0; pair < k; pair += 2)
        sum = fmaf(x[pair], y[pair], fmaf(x[pair + 1], y[pair + 1], sum));
    return sum;
}

static void definition(const product *p, float *c)
{
    const fv_gemm g = description(p);
    const int64_t even = (p->k + 1) / 2 * 2;
    float *a = rounded(p->a, p->m, g.a_row, p->k, g.a_col);
    float *b = rounded(p->b, p->n, g.b_col, p->k, g.b_row);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const int64_t at = i * p->n + j;
            float y = pair_chain(a + i * even, b + j * even, p->k, p->accumulate ? p->c[at] : 0);
            if (p->bias) y += p->add[j];
            if (p->act == FV_ACT_RELU) y = y > 0 ? y : 0;
            if (p->residual) y += p->more[at];
            c[at] = y;
        }
    free(a);
    free(b);
}

static void run(const product *p, fv_simd level, fv_pool *pool, float *c)
{
    const fv_gemm g = description(p);
    const size_t need = fv_gemm_scratch(&g, fv_pool_threads(pool));
    CHECK(need != SIZE_MAX);
    void *scratch = product_memory(need);
    memcpy(c, p->residual ? p->more : p->c, (size_t)(p->m * p->n) * sizeof *c);
    const fv_gemm_exec exec = {.level = level,
                               .pool = pool,
                               .bias = p->bias ? p->add : NULL,
                               .residual = p->residual ? c : NULL};
    CHECK_EQ(fv_gemm_run(&g, p->a, p->b, &exec, scratch, need, c), FV_OK);
    free(scratch);
}

static void differs(const product *p, const char *level, int threads)
{
    test_failed(__FILE__, __LINE__, "%lldx%lldx%lld, layouts %d %d, %s, %d threads",
                (long long)p->m, (long long)p->n, (long long)p->k, (int)p->a_layout,
                (int)p->b_layout, level, threads);
}

#if defined(__x86_64__)
static void parallel_in_pool(void *user, int64_t units, int64_t grain, fv_range_fn fn,
                             const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

/* The AVX-512 kernel that does without AVX512_BF16. */
static void check_without_instruction(const product *p, const float *want, fv_pool *pool)
{
    if (best < FV_SIMD_AVX512) return;
    const fv_gemm g = description(p);
    const size_t bytes = (size_t)(p->m * p->n) * sizeof(float);
    const int threads = fv_pool_threads(pool);
    void *scratch = product_memory(fv_gemm_scratch(&g, threads));
    float *c = product_memory(bytes);
    memcpy(c, p->residual ? p->more : p->c, bytes);
    const fv_exec exec = {
        .parallel = parallel_in_pool, .user = pool, .threads = threads, .scratch = scratch};
    void *ptr[6] = {c, p->a, p->b, p->bias ? p->add : NULL, p->residual ? c : NULL, NULL};
    fv_simd_gemm_bf16_fma_avx512(&exec, ptr, &g);
    if (memcmp(want, c, bytes) != 0) differs(p, "avx512 by multiply-adds", threads);
    free(scratch);
    free(c);
}
#else
static void check_without_instruction(const product *p, const float *want, fv_pool *pool)
{
    (void)p;
    (void)want;
    (void)pool;
}
#endif

static uint16_t *narrowed(const float *x, int64_t n)
{
    uint16_t *to = product_memory((size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++)
        to[i] = fv_f32_to_bf16(x[i]);
    return to;
}

static void round_all(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = fv_round_bf16(x[i]);
}

/* Operands that are bf16 in memory, at one level: C is what floats of the same values give, rounded
 * once if it is bf16 itself. */
static bool stored_agrees(const product *p, unsigned stored, fv_simd level, fv_pool *pool,
                          const float *want)
{
    fv_gemm g = description(p);
    g.stored_bf16 = stored;
    const int64_t n = p->m * p->n;
    const bool half = stored & FV_GEMM_STORED_C;
    const size_t need = fv_gemm_scratch(&g, fv_pool_threads(pool));
    void *scratch = product_memory(need);
    uint16_t *a = narrowed(p->a, extent(p->a_layout, p->m, p->k));
    uint16_t *b = narrowed(p->b, extent(p->b_layout, p->k, p->n));
    uint16_t *c16 = narrowed(p->residual ? p->more : p->c, n);
    float *c32 = product_memory((size_t)n * sizeof *c32);
    memcpy(c32, p->residual ? p->more : p->c, (size_t)n * sizeof *c32);
    float *c = half ? (float *)(void *)c16 : c32;
    const fv_gemm_exec exec = {.level = level,
                               .pool = pool,
                               .bias = p->bias ? p->add : NULL,
                               .residual = p->residual ? c : NULL};
    CHECK_EQ(fv_gemm_run(&g, stored & FV_GEMM_STORED_A ? (float *)(void *)a : p->a,
                         stored & FV_GEMM_STORED_B ? (void *)b : p->b, &exec, scratch, need, c),
             FV_OK);
    bool same = true;
    for (int64_t i = 0; i < n; i++)
        same &=
            half ? c16[i] == fv_f32_to_bf16(want[i]) : memcmp(&c32[i], &want[i], sizeof *want) == 0;
    free(scratch);
    free(a);
    free(b);
    free(c16);
    free(c32);
    return same;
}

static void check_stored(product p, fv_pool *pool)
{
    float *want = product_memory((size_t)(p.m * p.n) * sizeof *want);
    for (unsigned stored = 1; stored < 8; stored++) {
        fill(&p);
        if (stored & FV_GEMM_STORED_C) {
            round_all(p.c, p.m * p.n);
            round_all(p.more, p.m * p.n);
        }
        definition(&p, want);
        for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++)
            if (!stored_agrees(&p, stored, level, pool, want))
                differs(&p, fv_simd_name(level), fv_pool_threads(pool));
        drop(&p);
    }
    free(want);
}

static void check(product p, fv_pool *pool)
{
    const size_t bytes = (size_t)(p.m * p.n) * sizeof(float);
    float *want = product_memory(bytes), *got = product_memory(bytes);
    fill(&p);
    definition(&p, want);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        run(&p, level, pool, got);
        if (memcmp(want, got, bytes) != 0) differs(&p, fv_simd_name(level), fv_pool_threads(pool));
    }
    check_without_instruction(&p, want, pool);
    drop(&p);
    free(want);
    free(got);
}

/* Every epilogue in turn, chosen by `which`. */
static product product_of(int64_t m, int64_t n, int64_t k, int which)
{
    product p = {.m = m, .n = n, .k = k};
    p.a_layout = (layout)(which % LAYOUTS);
    p.b_layout = (layout)(which / LAYOUTS % LAYOUTS);
    const int kind = which / (LAYOUTS * LAYOUTS) % 4;
    p.accumulate = kind == 1;
    p.bias = kind >= 2;
    p.residual = kind == 3;
    p.act = kind == 2 ? FV_ACT_RELU : FV_ACT_NONE;
    return p;
}

enum { KINDS = LAYOUTS * LAYOUTS * 4 };

/* ---- tests ------------------------------------------------------------------------------ */

static void tile_edges(void)
{
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 25, 95, 96, 97};
    static const int64_t ns[] = {1, 15, 16, 17, 31, 33, 63, 64, 65, 129};
    static const int64_t ks[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 65};
    int which = 0;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check(product_of(ms[i], ns[j], ks[l], which++), NULL);
}

static void operands_in_memory(void)
{
    static const int64_t ms[] = {1, 5, 6, 7, 97}, ns[] = {1, 17, 64, 65}, ks[] = {1, 2, 33, 64};
    int which = 0;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check_stored(product_of(ms[i], ns[j], ks[l], which++), NULL);
    for (int kind = 0; kind < KINDS; kind++)
        check_stored(product_of(7, 75, kind % 2 ? 1601 : 1600, kind), NULL);
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(3, &pool), FV_OK);
    for (int kind = 0; kind < KINDS; kind += 5)
        check_stored(product_of(300, 130, 65, kind), pool);
    fv_pool_destroy(&pool);
    const product p = product_of(2, 2, 2, 0);
    fv_gemm g = description(&p);
    g.stored_bf16 = 8;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX); /* no such operand */
    g.stored_bf16 = FV_GEMM_STORED_A;
    g.bf16 = 0;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX); /* only products that compute in bf16 */
}

/* Without activation, bias or residual the aux output is C. */
static void sums_beside_c(void)
{
    enum { M = 7, N = 75, K = 64 };
    product p = {.m = M, .n = N, .k = K, .b_layout = COLUMNS};
    fill(&p);
    fv_gemm g = description(&p);
    g.stored_bf16 = FV_GEMM_STORED_C;
    g.aux = FV_GEMM_AUX_SUM;
    const size_t need = fv_gemm_scratch(&g, 1);
    void *scratch = product_memory(need);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        uint16_t c[M * N] = {0}, aux[M * N] = {0};
        const fv_gemm_exec exec = {.level = level, .aux = (float *)(void *)aux};
        CHECK_EQ(fv_gemm_run(&g, p.a, p.b, &exec, scratch, need, (float *)(void *)c), FV_OK);
        CHECK(c[0] != 0 && memcmp(c, aux, sizeof c) == 0);
    }
    free(scratch);
    drop(&p);
}

/* k in blocks: sums wait in C, or beside it where C is also the residual. */
static void long_k(void)
{
    for (int which = 0; which < KINDS; which++)
        check(product_of(7, 75, which % 2 ? 3105 : 1600, which), NULL);
}

/* Units of every shape. */
static void threads_one_to_eight(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (int which = threads; which < KINDS; which += 5) {
            check(product_of(300, 130, 65, which), pool);
            check(product_of(20, 700, 130, which), pool);
        }
        check(product_of(1100, 5, 1602, threads), pool);
        fv_pool_destroy(&pool);
    }
}

static void empty_sizes(void)
{
    for (int bits = 0; bits < 7; bits++)
        for (int which = 0; which < KINDS; which++)
            check(product_of(bits & 1 ? 9 : 0, bits & 2 ? 70 : 0, bits & 4 ? 5 : 0, which), NULL);
}

/* n additions of exact products are off by at most n u / (1 - n u) of the sum of their sizes. */
static void close_to_the_exact_sum(void)
{
    enum { M = 5, N = 70, K = 4001 };
    product p = {.m = M, .n = N, .k = K, .b_layout = COLUMNS};
    fill(&p);
    const fv_gemm g = description(&p);
    float c[M * N];
    const double n = (K + 1) * 0x1p-24, bound = n / (1 - n);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        run(&p, level, NULL, c);
        double worst = 0;
        for (int64_t at = 0; at < M * N; at++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < K; k++) {
                const double term = (double)product_bf16(p.a[at / N * g.a_row + k]) *
                                    (double)product_bf16(p.b[at % N * g.b_col + k]);
                sum += term;
                size += fabs(term);
            }
            worst = test_worse(worst, fabs((double)c[at] - sum) / size);
        }
        CHECK(worst <= bound);
        CHECK(worst > 0);
    }
    drop(&p);
}

/* NaN and infinity reach the row and the column that hold them, and no other. */
static void special_numbers(void)
{
    enum { M = 8, N = 70, K = 41 };
    for (layout l = ROWS; l < LAYOUTS; l++) {
        product p = {.m = M, .n = N, .k = K, .a_layout = l, .b_layout = l};
        fill(&p);
        const fv_gemm g = description(&p);
        p.a[3 * g.a_row + 7 * g.a_col] = NAN;
        p.b[(K - 1) * g.b_row + 66 * g.b_col] = INFINITY;
        p.b[0 * g.b_row + 5 * g.b_col] = 3.4e38f; /* rounds to infinity */
        float c[M * N];
        for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
            run(&p, level, NULL, c);
            for (int64_t i = 0; i < M * N; i++) {
                const bool odd = i / N == 3 || i % N == 5 || i % N == 66;
                CHECK(isfinite(c[i]) == !odd);
            }
        }
        drop(&p);
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
                          .b_row = 64,
                          .b_col = 1,
                          .c_row = 64,
                          .batch = 1,
                          .bf16 = 1};
    CHECK(fv_gemm_scratch(&good, 1) != SIZE_MAX);
    CHECK_EQ(fv_gemm_run(&good, a, b, NULL, NULL, 0, c), FV_ERR_ARGUMENT); /* needs scratch */
    fv_gemm g = good;
    g.b_packed = 1;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g = good;
    g.batch = g.batch_shape[0] = 2;
    g.batch_rank = 1;
    g.c_batch[0] = 64;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g.bf16 = 0;
    CHECK(fv_gemm_scratch(&g, 1) != SIZE_MAX);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    best = fv_simd_detect();
    RUN(tile_edges);
    RUN(operands_in_memory);
    RUN(sums_beside_c);
    RUN(long_k);
    RUN(threads_one_to_eight);
    RUN(empty_sizes);
    RUN(close_to_the_exact_sum);
    RUN(special_numbers);
    RUN(refuses_bad_arguments);
    return TEST_END();
}
