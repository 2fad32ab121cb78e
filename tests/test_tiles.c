/*
 * bf16 products on AMX tiles. The arithmetic of the tile instruction is written here a second time;
 * the kernel on emulated tiles must have those bits, for every kind of strides, epilogue and number
 * of threads, at each level that it compiles for. Where the CPU has tiles, the kernel on the
 * instructions must have them as well. Takes a few seconds, for a single run on such a CPU:
 *
 *     build/release/fovea_tests test_tiles
 */
#include "fovea/context.h"
#include "fovea/kernels.h"

#include "base/cpu.h"
#include "base/pool.h"
#include "support/products.h"
#include "support/test.h"

#if defined(__x86_64__)

#include "kernels/gemm_bf16.h"
#include "kernels/half.h"

#define TILE_EMULATED
#include "kernels/simd/tile.h"

typedef enum layout { ROWS, COLUMNS, NEITHER, LAYOUTS } layout;

typedef struct product {
    int64_t m, n, k;
    layout a_layout, b_layout;
    int stored; /* FV_GEMM_STORED_: operands that are bf16 in memory */
    fv_act act; /* NONE or RELU: what a test can state exactly */
    fv_gemm_aux aux;
    bool accumulate, bias, residual;
    float *a, *b, *c, *add, *more; /* c: what C holds before; add: the bias; more: the residual */
} product;

typedef struct named_kernel {
    const char *name;
    fv_kernel_fn run;
} named_kernel;

static named_kernel kernels[3];
static int kernel_count;

static void find_kernels(void)
{
    fv_cpu cpu;
    fv_cpu_request_tiles();
    fv_cpu_detect(&cpu);
    const fv_simd best = fv_cpu_best(&cpu);
    if (best >= FV_SIMD_AVX2)
        kernels[kernel_count++] = (named_kernel){"emulated, avx2", fv_simd_gemm_bf16_emulated_avx2};
    if (best >= FV_SIMD_AVX512)
        kernels[kernel_count++] =
            (named_kernel){"emulated, avx512", fv_simd_gemm_bf16_emulated_avx512};
    if (best >= FV_SIMD_AMX)
        kernels[kernel_count++] = (named_kernel){"amx", fv_simd_gemm_amx_avx512};
    printf("tile kernels:");
    for (int i = 0; i < kernel_count; i++)
        printf(" (%s)", kernels[i].name);
    printf("\n");
}

static int64_t row_step(layout l, int64_t cols)
{
    return l == ROWS ? cols : l == COLUMNS ? 1 : 3 * cols + 2;
}
static int64_t col_step(layout l, int64_t rows) { return l == ROWS ? 1 : l == COLUMNS ? rows : 3; }
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
                     .aux = p->aux,
                     .stored_bf16 = (unsigned)p->stored,
                     .accumulate = p->accumulate,
                     .bf16 = 1};
}

static float *numbers(int64_t count, bool round)
{
    float *x = product_randoms(count);
    for (int64_t i = 0; round && i < count; i++)
        x[i] = product_bf16(x[i]);
    return x;
}

/* A matrix in memory that is NaN elsewhere. */
static float *matrix(layout l, int64_t rows, int64_t cols, bool round)
{
    float *x = product_memory((size_t)extent(l, rows, cols) * sizeof *x);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const float number = product_random();
            x[i * row_step(l, cols) + j * col_step(l, rows)] =
                round ? product_bf16(number) : number;
        }
    return x;
}

static void fill(product *p)
{
    const bool half = p->stored & FV_GEMM_STORED_C;
    p->a = matrix(p->a_layout, p->m, p->k, p->stored & FV_GEMM_STORED_A);
    p->b = matrix(p->b_layout, p->k, p->n, p->stored & FV_GEMM_STORED_B);
    p->c = numbers(p->m * p->n, half);
    p->add = product_randoms(p->n);
    p->more = numbers(p->m * p->n, half);
}

static void drop(product *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->add);
    free(p->more);
}

/* ---- the definition ------------------------------------------------------------------------ */

enum { STEP = 32 /* elements of k that one instruction multiplies */ };

/* Rows of A, or columns of B, one after the other: rounded, with zeros up to a whole step. */
static float *rounded(const float *x, int64_t lines, int64_t line, int64_t k, int64_t step)
{
    const int64_t whole = (k + STEP - 1) / STEP * STEP;
    float *to = product_memory((size_t)(lines * whole) * sizeof *to);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < whole; j++)
            to[i * whole + j] = j < k ? product_bf16(x[i * line + j * step]) : 0;
    return to;
}

/* The operands are far above 2^-126, and so are their products. */
static float tile_chain(const float *x, const float *y, int64_t whole, float sum)
{
    for (int64_t k = 0; k < whole; k += STEP) {
        float even = 0, odd = 0;
        for (int64_t i = k; i < k + STEP; i += 2) {
            even = fmaf(x[i], y[i], even);
            odd = fmaf(x[i + 1], y[i + 1], odd);
        }
        sum = sum + (even + odd);
    }
    return sum;
}

static void definition(const product *p, float *c, float *aux)
{
    const fv_gemm g = description(p);
    const int64_t whole = (p->k + STEP - 1) / STEP * STEP;
    const bool half = p->stored & FV_GEMM_STORED_C;
    float *a = rounded(p->a, p->m, g.a_row, p->k, g.a_col);
    float *b = rounded(p->b, p->n, g.b_col, p->k, g.b_row);
    for (int64_t at = 0; at < p->m * p->n; at++) {
        const int64_t i = at / p->n, j = at % p->n;
        float y = tile_chain(a + i * whole, b + j * whole, whole, p->accumulate ? p->c[at] : 0);
        if (p->bias) y += p->add[j];
        if (p->aux == FV_GEMM_AUX_SUM) aux[at] = half ? product_bf16(y) : y;
        if (p->act == FV_ACT_RELU) y = y > 0 ? y : 0;
        if (p->aux == FV_GEMM_AUX_ACT) aux[at] = half ? product_bf16(y) : y;
        if (p->residual) y += p->more[at];
        c[at] = half ? product_bf16(y) : y;
    }
    free(a);
    free(b);
}

/* ---- the kernel ---------------------------------------------------------------------------- */

static void parallel_in_pool(void *user, int64_t items, int64_t grain, fv_range_fn fn,
                             const void *arg)
{
    fv_pool_run(user, items, grain, fn, arg);
}

/* Operands as they are stored: floats, or as many bf16. */
static void *stored(const float *x, int64_t count, bool half)
{
    void *to = product_memory((size_t)count * (half ? sizeof(uint16_t) : sizeof(float)));
    for (int64_t i = 0; i < count; i++)
        if (half)
            ((uint16_t *)to)[i] = fv_f32_to_bf16(x[i]);
        else
            ((float *)to)[i] = x[i];
    return to;
}

static void read_stored(const void *from, int64_t count, bool half, float *x)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = half ? fv_bf16_to_f32(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

static void run(const product *p, fv_kernel_fn kernel, fv_pool *pool, float *c, float *aux)
{
    const fv_gemm g = description(p);
    const bool half = p->stored & FV_GEMM_STORED_C;
    const int64_t count = p->m * p->n;
    const int threads = fv_pool_threads(pool);
    const size_t need = fv_gemm_scratch(&g, threads);
    CHECK(need != SIZE_MAX);
    void *scratch = product_memory(need);
    void *a = stored(p->a, extent(p->a_layout, p->m, p->k), p->stored & FV_GEMM_STORED_A);
    void *b = stored(p->b, extent(p->b_layout, p->k, p->n), p->stored & FV_GEMM_STORED_B);
    void *to = stored(p->residual ? p->more : p->c, count, half);
    void *beside = product_memory((size_t)count * sizeof *aux);
    const fv_exec exec = {
        .parallel = parallel_in_pool, .user = pool, .threads = threads, .scratch = scratch};
    void *ptr[6] = {
        to, a, b, p->bias ? p->add : NULL, p->residual ? to : NULL, p->aux ? beside : NULL};
    kernel(&exec, ptr, &g);
    read_stored(to, count, half, c);
    if (p->aux == FV_GEMM_AUX_SUM || p->aux == FV_GEMM_AUX_ACT)
        read_stored(beside, count, half, aux);
    free(scratch);
    free(a);
    free(b);
    free(to);
    free(beside);
}

static void differs(const product *p, const char *name, int threads, const char *what)
{
    test_failed(__FILE__, __LINE__,
                "%s of %lldx%lldx%lld, layouts %d %d, stored %d, accumulate %d, bias %d, act %d, "
                "residual %d, aux %d, %s, %d threads",
                what, (long long)p->m, (long long)p->n, (long long)p->k, (int)p->a_layout,
                (int)p->b_layout, p->stored, p->accumulate, p->bias, (int)p->act, p->residual,
                (int)p->aux, name, threads);
}

static void check(product p, fv_pool *pool)
{
    const size_t bytes = (size_t)(p.m * p.n) * sizeof(float);
    float *want = product_memory(bytes), *got = product_memory(bytes);
    float *want_aux = product_memory(bytes), *got_aux = product_memory(bytes);
    fill(&p);
    definition(&p, want, want_aux);
    for (int i = 0; i < kernel_count; i++) {
        run(&p, kernels[i].run, pool, got, got_aux);
        if (memcmp(want, got, bytes) != 0) differs(&p, kernels[i].name, fv_pool_threads(pool), "C");
        if (memcmp(want_aux, got_aux, bytes) != 0)
            differs(&p, kernels[i].name, fv_pool_threads(pool), "aux");
    }
    drop(&p);
    free(want);
    free(got);
    free(want_aux);
    free(got_aux);
}

/* Every layout, epilogue and type in turn, chosen by `which`. */
enum { EPILOGUES = 6, TYPES = 8, KINDS = LAYOUTS * LAYOUTS * EPILOGUES * TYPES };

static product product_of(int64_t m, int64_t n, int64_t k, int which)
{
    product p = {.m = m, .n = n, .k = k};
    p.a_layout = (layout)(which % LAYOUTS);
    p.b_layout = (layout)(which / LAYOUTS % LAYOUTS);
    const int kind = which / (LAYOUTS * LAYOUTS) % EPILOGUES;
    p.accumulate = kind == 1;
    p.bias = kind >= 2;
    p.residual = kind == 3;
    p.act = kind >= 4 || kind == 2 ? FV_ACT_RELU : FV_ACT_NONE;
    p.aux = kind == 4 ? FV_GEMM_AUX_SUM : kind == 5 ? FV_GEMM_AUX_ACT : FV_GEMM_AUX_NONE;
    p.stored = which / (LAYOUTS * LAYOUTS * EPILOGUES) % TYPES;
    return p;
}

/* ---- tests ------------------------------------------------------------------------------ */

/* `which` advances by a number that has no divisor in common with KINDS. */
enum { STRIDE = 37 };

static void tile_edges(void)
{
    static const int64_t ms[] = {1, 15, 16, 17, 31, 32, 33, 95, 96, 97};
    static const int64_t ns[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65};
    static const int64_t ks[] = {1, 2, 3, 30, 31, 32, 33, 63, 64, 65};
    int which = 0;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check(product_of(ms[i], ns[j], ks[l], which += STRIDE), NULL);
}

static void every_kind(void)
{
    for (int which = 0; which < KINDS; which++)
        check(product_of(18, 35, which % 2 ? 64 : 37, which), NULL);
}

/* k in blocks of 768: sums wait in C, or beside it where C is bf16 or also the residual. */
static void long_k(void)
{
    static const int64_t ks[] = {767, 768, 769, 800, 1600, 3105};
    for (int which = 0, i = 0; which < KINDS; which += STRIDE, i++)
        check(product_of(33, 34, ks[i % 6], which), NULL);
}

static void threads_one_to_eight(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (int which = threads; which < KINDS; which += 3 * STRIDE) {
            check(product_of(300, 130, 65, which), pool);
            check(product_of(20, 700, 130, which), pool);
        }
        if (threads % 7 == 1) check(product_of(1100, 5, 1602, threads), pool);
        fv_pool_destroy(&pool);
    }
}

static void empty_sizes(void)
{
    for (int bits = 0; bits < 7; bits++)
        for (int which = 0; which < KINDS; which += STRIDE)
            check(product_of(bits & 1 ? 9 : 0, bits & 2 ? 70 : 0, bits & 4 ? 5 : 0, which), NULL);
}

/* The sums of A's rows beside a product do not depend on how it is multiplied. */
static void row_sums(void)
{
    enum { M = 100, N = 34, K = 801 };
    for (layout l = ROWS; l < LAYOUTS; l++) {
        product p = {.m = M, .n = N, .k = K, .a_layout = l, .aux = FV_GEMM_AUX_ROW_SUMS};
        fill(&p);
        const fv_gemm g = description(&p);
        const size_t need = fv_gemm_scratch(&g, 1);
        void *scratch = product_memory(need);
        static float c[M * N];
        float want[M], got[M];
        const fv_gemm_exec plain = {.level = FV_SIMD_SCALAR, .aux = want};
        CHECK_EQ(fv_gemm_run(&g, p.a, p.b, &plain, scratch, need, c), FV_OK);
        const fv_exec exec = {.parallel = parallel_in_pool, .threads = 1, .scratch = scratch};
        for (int i = 0; i < kernel_count; i++) {
            void *ptr[6] = {c, p.a, p.b, NULL, NULL, got};
            memset(got, 0, sizeof got);
            kernels[i].run(&exec, ptr, &g);
            CHECK(memcmp(want, got, sizeof want) == 0);
        }
        free(scratch);
        drop(&p);
    }
}

/* Each addition, of products that are exact, is off by at most u of the sum of the sizes so far. */
static void close_to_the_exact_sum(void)
{
    enum { M = 5, N = 70, K = 4001 };
    product p = {.m = M, .n = N, .k = K, .b_layout = COLUMNS};
    fill(&p);
    const fv_gemm g = description(&p);
    float c[M * N];
    const double additions = STEP / 2 + 1 + (K + STEP - 1) / STEP; /* on the way of one term */
    const double n = additions * 0x1p-24, bound = n / (1 - n);
    for (int kernel = 0; kernel < kernel_count; kernel++) {
        run(&p, kernels[kernel].run, NULL, c, NULL);
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
    enum { M = 40, N = 70, K = 41 };
    for (layout l = ROWS; l < LAYOUTS; l++) {
        product p = {.m = M, .n = N, .k = K, .a_layout = l, .b_layout = l};
        fill(&p);
        const fv_gemm g = description(&p);
        p.a[33 * g.a_row + 7 * g.a_col] = NAN;
        p.b[(K - 1) * g.b_row + 66 * g.b_col] = INFINITY;
        p.b[0 * g.b_row + 5 * g.b_col] = 3.4e38f; /* rounds to infinity */
        float c[M * N];
        for (int kernel = 0; kernel < kernel_count; kernel++) {
            run(&p, kernels[kernel].run, NULL, c, NULL);
            for (int64_t i = 0; i < M * N; i++) {
                const bool odd = i / N == 33 || i % N == 5 || i % N == 66;
                CHECK(isfinite(c[i]) == !odd);
            }
        }
        drop(&p);
    }
}

/* One row, one column: c0 + x0 y0 + x1 y1, each in the order of the instruction. */
static float two_terms(fv_kernel_fn kernel, float c0, float x0, float y0, float x1, float y1)
{
    product p = {.m = 1, .n = 1, .k = 2, .accumulate = true};
    float a[2] = {x0, x1}, b[2] = {y0, y1}, add = 0, c;
    p.a = a;
    p.b = b;
    p.c = p.more = &c0;
    p.add = &add;
    const fv_gemm g = description(&p);
    void *scratch = product_memory(fv_gemm_scratch(&g, 1));
    const fv_exec exec = {.parallel = parallel_in_pool, .threads = 1, .scratch = scratch};
    c = c0;
    void *ptr[6] = {&c, a, b, NULL, NULL, NULL};
    kernel(&exec, ptr, &g);
    free(scratch);
    return c;
}

/* Numbers below 2^-126 are taken and given as zero; what is below is decided after rounding to 24
 * bits. */
static void denormals_are_zero(void)
{
    const float least = 0x1p-126f;
    for (int i = 0; i < kernel_count; i++) {
        const fv_kernel_fn f = kernels[i].run;
        CHECK(two_terms(f, 0, least, 1, 0, 0) == least);
        CHECK(two_terms(f, 0, 0x1p-127f, 2, 0, 0) == 0);         /* operand */
        CHECK(two_terms(f, 0, 2, 0x1p-127f, 0, 0) == 0);         /* the other one */
        CHECK(two_terms(f, 0x1p-127f, 1, least, 0, 0) == least); /* the sum so far */
        CHECK(two_terms(f, 0, 0x1p-100f, 0x1p-27f, 0, 0) == 0);  /* a product */
        CHECK(two_terms(f, 1.25f * least, 1.5f * least, 1, -least, 1) ==
              1.25f * least);                                        /* even + odd */
        CHECK(two_terms(f, 1.5f * least, -least, 1, 0, 0) == 0);     /* c + sum */
        CHECK(signbit(two_terms(f, -1.5f * least, least, 1, 0, 0))); /* keeps its sign */
        CHECK(!signbit(two_terms(f, 1.5f * least, -least, 1, 0, 0)));
        /* The product of two operands of 8 bits has 16, so it is below or not before rounding. */
        CHECK(two_terms(f, 0, 0x1.fep-64f, 0x1.fep-64f, 0, 0) == 0);
        CHECK(two_terms(f, 0, 0x1.fep-63f, 0x1.02p-64f, 0, 0) == 0x1.fep-63f * 0x1.02p-64f);
    }
}

/* Sums that reach 2^-126 only by rounding, from 2^-126 - x: what rounds to 24 bits below is zero.
 */
static void decides_after_rounding(void)
{
    CHECK(tile_fma(-0x1p-75f, 0x1p-75f, 0x1p-126f) == 0);           /* a unit of 24 bits */
    CHECK(tile_fma(-0x1p-76f, 0x1.8p-76f, 0x1p-126f) == 0x1p-126f); /* 3/8 of it */
    CHECK(tile_fma(-0x1p-75f, 0x1p-76f, 0x1p-126f) == 0x1p-126f);   /* half of it: to even */
    CHECK(tile_fma(-0x1p-75f, 0x1.04p-76f, 0x1p-126f) == 0);        /* a little more */
    CHECK(tile_fma(0x1p-75f, 0x1p-75f, -0x1p-126f) == 0);
    CHECK(signbit(tile_fma(0x1p-75f, 0x1p-75f, -0x1p-126f)));
}

/* The emulation refuses what the CPU refuses. */
static void shapes_must_match(void)
{
    static const unsigned char rows[4][3] = {{4, 4, 8}, {4, 5, 8}, {4, 4, 7}, {0, 0, 8}};
    for (int i = 0; i < 4; i++) {
        tile_state s;
        tile_config config = {.palette = TILE_PALETTE};
        for (int t = 0; t < 3; t++) {
            config.rows[t] = rows[i][t];
            config.row_bytes[t] = t == 1 ? 32 : 64;
        }
        float c[16 * 16] = {0};
        static const float zeros[16 * 16];
        tile_begin(&s);
        tile_configure(&s, &config);
        tile_zero(&s, 0);
        tile_load(&s, 1, zeros, 64);
        tile_load(&s, 2, zeros, 64);
        tile_dot_bf16(&s, 0, 1, 2);
        tile_store(&s, 2, c, 64);
        CHECK(isnan(c[0]) == (i > 0));
        tile_end(&s);
        tile_zero(&s, 0); /* has no shape any more */
        tile_configure(&s, &config);
        tile_store(&s, 2, c, 64);
        CHECK(isnan(c[0]));
    }
}

static void levels(void)
{
    fv_cpu cpu = {.avx2 = true,
                  .fma = true,
                  .f16c = true,
                  .avx512f = true,
                  .avx512dq = true,
                  .avx512bw = true,
                  .avx512vl = true,
                  .avx512_bf16 = true,
                  .os_ymm = true,
                  .os_zmm = true,
                  .amx_tile = true,
                  .amx_bf16 = true,
                  .os_tiles = true,
                  .tiles_permitted = true};
    CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_AMX);
    CHECK_STR(fv_simd_name(FV_SIMD_AMX), "amx");
    bool *const needed[] = {&cpu.amx_tile, &cpu.amx_bf16, &cpu.avx512_bf16, &cpu.os_tiles,
                            &cpu.tiles_permitted};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        *needed[i] = false;
        CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_AVX512);
        *needed[i] = true;
    }
    cpu.avx512vl = false;
    CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_AVX2);
}

/* A context that asks has the level where the CPU has it, and works where not. */
static void permission(void)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    fv_ctx_config_init(&cfg, sizeof cfg);
    CHECK(!cfg.request_amx);
    cfg.request_amx = true;
    cfg.threads = 1;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    CHECK_EQ(fv_ctx_simd(ctx), fv_simd_detect());
    fv_ctx_destroy(&ctx);
    CHECK_EQ(cpu.tiles_permitted, cpu.os_tiles && fv_cpu_tiles_permitted());
    cfg.simd = FV_SIMD_AMX;
    const fv_status want = fv_simd_detect() == FV_SIMD_AMX ? FV_OK : FV_ERR_UNSUPPORTED;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), want);
    fv_ctx_destroy(&ctx);

    /* Calls without a context. */
    static float a[64], b[64 * 64], c[64];
    fv_gemm g = {.m = 1,
                 .n = 64,
                 .k = 64,
                 .a_row = 64,
                 .a_col = 1,
                 .b_row = 64,
                 .b_col = 1,
                 .c_row = 64,
                 .batch = 1};
    const fv_gemm_exec exec = {.level = FV_SIMD_AMX};
    for (g.bf16 = 0; g.bf16 <= 1; g.bf16++) {
        const size_t need = fv_gemm_scratch(&g, 1);
        void *scratch = product_memory(need);
        CHECK_EQ(fv_gemm_run(&g, a, b, &exec, scratch, need, c), want);
        free(scratch);
    }
    CHECK_EQ(fv_vexp(64, a, FV_SIMD_AMX, c), want);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    find_kernels();
    RUN(tile_edges);
    RUN(every_kind);
    RUN(long_k);
    RUN(threads_one_to_eight);
    RUN(empty_sizes);
    RUN(row_sums);
    RUN(close_to_the_exact_sum);
    RUN(special_numbers);
    RUN(denormals_are_zero);
    RUN(decides_after_rounding);
    RUN(shapes_must_match);
    RUN(levels);
    RUN(permission);
    return TEST_END();
}

#else

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    return TEST_END();
}

#endif
