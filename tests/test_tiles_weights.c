/*
 * bf16 products with packed weights of bf16 and int8: what the packing makes of a weight and the
 * arithmetic of the product are written here a second time. Every level has the bits of the chain
 * of pairs; the kernel on tiles, emulated or not, those of the tile instruction. Packed weights end
 * at an unreadable page. tests/test_tiles_models.c has whole models.
 */
#include "fovea/kernels.h"

#include "base/cpu.h"
#include "base/pool.h"
#include "kernels/gemm_bf16.h"
#include "kernels/half.h"
#include "support/products.h"
#include "support/test.h"

/* ---- kernels and their arithmetic ---------------------------------------------------------- */

enum { STEP = 32 /* elements of k that one instruction multiplies */ };

static float chain_of_pairs(const float *x, const float *y, int64_t whole)
{
    float sum = 0;
    for (int64_t k = 0; k < whole; k += 2)
        sum = fmaf(x[k], y[k], fmaf(x[k + 1], y[k + 1], sum));
    return sum;
}

static float chain_of_tiles(const float *x, const float *y, int64_t whole)
{
    float sum = 0;
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

typedef struct named_kernel {
    const char *name;
    fv_kernel_fn run;
    bool tiles;
} named_kernel;

static named_kernel kernels[8];
static int kernel_count;

static void add_kernel(const char *name, fv_kernel_fn run, bool tiles)
{
    kernels[kernel_count++] = (named_kernel){name, run, tiles};
}

static void find_kernels(void)
{
    add_kernel("scalar", fv_ref_gemm_f32, false);
#if defined(__x86_64__)
    fv_cpu cpu;
    fv_cpu_request_tiles();
    fv_cpu_detect(&cpu);
    const fv_simd best = fv_cpu_best(&cpu);
    if (best >= FV_SIMD_AVX2) {
        add_kernel("avx2", fv_simd_gemm_avx2, false);
        add_kernel("emulated, avx2", fv_simd_gemm_bf16_emulated_avx2, true);
    }
    if (best >= FV_SIMD_AVX512) {
        add_kernel("avx512", fv_simd_gemm_bf16_fma_avx512, false);
        if (cpu.avx512_bf16) add_kernel("avx512, dot", fv_simd_gemm_bf16_dot_avx512, false);
        add_kernel("emulated, avx512", fv_simd_gemm_bf16_emulated_avx512, true);
    }
    if (best >= FV_SIMD_AMX) add_kernel("amx", fv_simd_gemm_amx_avx512, true);
#elif defined(__aarch64__)
    add_kernel("neon", fv_simd_gemm_neon, false);
#endif
    printf("kernels:");
    for (int i = 0; i < kernel_count; i++)
        printf(" (%s)", kernels[i].name);
    printf("\n");
}

/* ---- products ------------------------------------------------------------------------------ */

typedef enum layout { ROWS, COLUMNS, NEITHER, LAYOUTS } layout;
enum { PAD = 5 /* elements between the rows of C */ };

typedef struct product {
    int64_t m, n, k;
    fv_weight_form form;
    layout a_layout;
    bool a_half, c_half; /* bf16 in memory */
    bool bias, residual;
    fv_act act; /* NONE or RELU: what a test can state exactly */
    fv_gemm_aux aux;
    float *a, *wide, *scale, *add, *more; /* wide: [n][whole k], before the scale */
    product_wall packed;
} product;

static int64_t a_row(const product *p)
{
    return p->a_layout == ROWS ? p->k : p->a_layout == COLUMNS ? 1 : 3 * p->k + 2;
}
static int64_t a_col(const product *p)
{
    return p->a_layout == ROWS ? 1 : p->a_layout == COLUMNS ? p->m : 3;
}
static int64_t a_extent(const product *p) { return p->m * a_row(p) + p->k * a_col(p) + 1; }
static int64_t whole_k(const product *p) { return (p->k + STEP - 1) / STEP * STEP; }

static fv_gemm description(const product *p)
{
    const unsigned a = p->a_half ? FV_GEMM_STORED_A : 0, c = p->c_half ? FV_GEMM_STORED_C : 0;
    return (fv_gemm){.m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .a_row = a_row(p),
                     .a_col = a_col(p),
                     .b_row = -1, /* unused */
                     .b_col = 1,
                     .c_row = p->n + PAD,
                     .residual_row = p->n + PAD,
                     .batch = 1,
                     .act = p->act,
                     .aux = p->aux,
                     .b_packed = 1,
                     .b_form = p->form,
                     .stored_bf16 = a | c,
                     .bf16 = 1};
}

/* What the form makes of the weights b, [k][n]. */
static void widen(product *p, const float *b)
{
    const int64_t whole = whole_k(p);
    p->wide = product_memory((size_t)(p->n * whole) * sizeof *p->wide);
    p->scale = product_memory((size_t)p->n * sizeof *p->scale);
    for (int64_t j = 0; j < p->n; j++) {
        float most = 0;
        for (int64_t k = 0; k < p->k; k++)
            most = fmaxf(most, fabsf(b[k * p->n + j]));
        p->scale[j] = p->form == FV_WEIGHT_I8 ? most / 127.0f : 1.0f;
        for (int64_t k = 0; k < whole; k++) {
            const float x = k < p->k ? b[k * p->n + j] : 0;
            p->wide[j * whole + k] = p->form == FV_WEIGHT_BF16 ? product_bf16(x)
                                     : most == 0               ? 0
                                                               : nearbyintf(x * (127.0f / most));
        }
    }
}

static void fill(product *p)
{
    p->a = product_memory((size_t)a_extent(p) * sizeof *p->a); /* NaN between the elements */
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t k = 0; k < p->k; k++) {
            const float x = product_random();
            p->a[i * a_row(p) + k * a_col(p)] = p->a_half ? product_bf16(x) : x;
        }
    float *b = product_randoms(p->k * p->n);
    for (int64_t k = 0; p->n > 3 && k < p->k; k++)
        b[k * p->n + 3] = 0; /* a column without a size */
    widen(p, b);
    const size_t need = fv_gemm_packed_bytes(p->k, p->n, p->form);
    CHECK(need != SIZE_MAX);
    p->packed = product_wall_make(need);
    CHECK_EQ(fv_gemm_pack_as(p->k, p->n, b, p->n, 1, p->form, p->packed.data), FV_OK);
    free(b);
    p->add = product_randoms(p->n);
    p->more = product_randoms(p->m * (p->n + PAD));
    for (int64_t i = 0; p->c_half && i < p->m * (p->n + PAD); i++)
        p->more[i] = product_bf16(p->more[i]);
}

static void drop(product *p)
{
    free(p->a);
    free(p->wide);
    free(p->scale);
    free(p->add);
    free(p->more);
    product_wall_free(&p->packed);
}

/* C and aux, [m][n + PAD]; between the rows what they held. */
static void definition(const product *p, bool tiles, float *c, float *aux)
{
    const int64_t whole = whole_k(p), row = p->n + PAD;
    float *line = product_memory((size_t)whole * sizeof *line);
    memcpy(c, p->more, (size_t)(p->m * row) * sizeof *c);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t k = 0; k < whole; k++)
            line[k] = k < p->k ? product_bf16(p->a[i * a_row(p) + k * a_col(p)]) : 0;
        for (int64_t j = 0; j < p->n; j++) {
            const float *w = p->wide + j * whole;
            float y = tiles ? chain_of_tiles(line, w, whole) : chain_of_pairs(line, w, whole);
            if (p->form == FV_WEIGHT_I8) y *= p->scale[j];
            if (p->bias) y += p->add[j];
            if (p->aux == FV_GEMM_AUX_SUM) aux[i * row + j] = p->c_half ? product_bf16(y) : y;
            if (p->act == FV_ACT_RELU) y = y > 0 ? y : 0;
            if (p->aux == FV_GEMM_AUX_ACT) aux[i * row + j] = p->c_half ? product_bf16(y) : y;
            if (p->residual) y += p->more[i * row + j];
            c[i * row + j] = p->c_half ? product_bf16(y) : y;
        }
    }
    free(line);
}

/* ---- the kernels --------------------------------------------------------------------------- */

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
    const int64_t count = p->m * (p->n + PAD);
    const size_t need = fv_gemm_scratch(&g, fv_pool_threads(pool));
    CHECK(need != SIZE_MAX);
    void *scratch = product_memory(need);
    void *a = stored(p->a, a_extent(p), p->a_half), *to = stored(p->more, count, p->c_half);
    void *beside = stored(aux, count, p->c_half);
    const fv_exec exec = {.parallel = parallel_in_pool,
                          .user = pool,
                          .threads = fv_pool_threads(pool),
                          .scratch = scratch};
    void *ptr[6] = {to,
                    a,
                    p->packed.data,
                    p->bias ? p->add : NULL,
                    p->residual ? to : NULL,
                    p->aux ? beside : NULL};
    kernel(&exec, ptr, &g);
    read_stored(to, count, p->c_half, c);
    read_stored(beside, count, p->c_half, aux);
    free(scratch);
    free(a);
    free(to);
    free(beside);
}

static void check(product p, fv_pool *pool)
{
    const int64_t count = p.m * (p.n + PAD);
    const size_t bytes = (size_t)count * sizeof(float);
    float *want[2], *want_aux[2], *got = product_memory(bytes), *got_aux = product_memory(bytes);
    fill(&p);
    for (int tiles = 0; tiles < 2; tiles++) {
        want[tiles] = product_memory(bytes);
        want_aux[tiles] = product_memory(bytes);
        memset(want_aux[tiles], 0, bytes);
        definition(&p, tiles, want[tiles], want_aux[tiles]);
    }
    for (int i = 0; i < kernel_count; i++) {
        memset(got_aux, 0, bytes);
        run(&p, kernels[i].run, pool, got, got_aux);
        const int tiles = kernels[i].tiles;
        const bool c_same = memcmp(want[tiles], got, bytes) == 0;
        if (c_same && memcmp(want_aux[tiles], got_aux, bytes) == 0) continue;
        test_failed(__FILE__, __LINE__,
                    "%s of %lldx%lldx%lld, form %d, layout %d, bf16 A %d C %d, bias %d, act %d, "
                    "residual %d, aux %d, %s, %d threads",
                    c_same ? "aux" : "C", (long long)p.m, (long long)p.n, (long long)p.k,
                    (int)p.form, (int)p.a_layout, p.a_half, p.c_half, p.bias, (int)p.act,
                    p.residual, (int)p.aux, kernels[i].name, fv_pool_threads(pool));
    }
    drop(&p);
    for (int tiles = 0; tiles < 2; tiles++) {
        free(want[tiles]);
        free(want_aux[tiles]);
    }
    free(got);
    free(got_aux);
}

/* Every form, layout, epilogue and type in turn, chosen by `which`. */
enum { FORMS = 2, EPILOGUES = 6, KINDS = FORMS * LAYOUTS * EPILOGUES * 4 };

static product product_of(int64_t m, int64_t n, int64_t k, int which)
{
    product p = {.m = m, .n = n, .k = k};
    p.form = which % FORMS ? FV_WEIGHT_I8 : FV_WEIGHT_BF16;
    p.a_layout = (layout)(which / FORMS % LAYOUTS);
    const int kind = which / (FORMS * LAYOUTS) % EPILOGUES;
    p.bias = kind >= 1;
    p.residual = kind == 2 || kind == 3;
    p.act = kind >= 3 ? FV_ACT_RELU : FV_ACT_NONE;
    p.aux = kind == 4 ? FV_GEMM_AUX_SUM : kind == 5 ? FV_GEMM_AUX_ACT : FV_GEMM_AUX_NONE;
    const int stored_as = which / (FORMS * LAYOUTS * EPILOGUES);
    p.a_half = stored_as & 1;
    p.c_half = stored_as & 2;
    return p;
}

/* ---- tests of products --------------------------------------------------------------------- */

/* `which` advances by a number that has no divisor in common with KINDS. */
enum { STRIDE = 37 };

static void tile_edges(void)
{
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 31, 32, 33, 95, 97};
    static const int64_t ns[] = {1, 17, 31, 32, 33, 63, 64, 65, 129};
    static const int64_t ks[] = {1, 2, 3, 31, 32, 33, 63, 64, 65};
    int which = 0;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check(product_of(ms[i], ns[j], ks[l], (which += STRIDE) % KINDS), NULL);
}

static void every_kind(void)
{
    for (int which = 0; which < KINDS; which++)
        check(product_of(which % 3 ? 18 : 40, 35, which % 2 ? 64 : 37, which), NULL);
}

/* k in blocks, of 192 up to 32 rows and of 768 for more: sums wait in C, or beside it where C is
 * bf16 or also the residual. */
static void long_k(void)
{
    static const int64_t ms[] = {5, 32, 33}, ks[] = {191, 192, 193, 385, 767, 768, 769, 1537};
    for (int which = 0; which < KINDS; which++)
        check(product_of(ms[which / 2 % 3], 70, ks[which % 8], which), NULL);
}

static void threads_one_to_eight(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (int which = threads; which < KINDS; which += STRIDE) {
            check(product_of(3, 700, 200, which), pool);
            check(product_of(100, 330, 65, which), pool);
        }
        fv_pool_destroy(&pool);
    }
}

static void empty_sizes(void)
{
    for (int bits = 0; bits < 7; bits++)
        for (int which = 0; which < KINDS; which += 5)
            check(product_of(bits & 1 ? 9 : 0, bits & 2 ? 70 : 0, bits & 4 ? 5 : 0, which), NULL);
}

/* A row has the same bits alone and among others, whose number decides how k is split and whether
 * the weights are read in place; also where numbers below 2^-126 come up. */
static void rows_do_not_see_each_other(void)
{
    enum { M = 130, N = 70, K = 801 };
    static const int64_t ms[] = {1, 6, 7, 33};
    for (int which = 0; which < 2 * FORMS; which++) {
        product p = product_of(M, N, K, which % FORMS);
        fill(&p);
        if (p.form == FV_WEIGHT_BF16) { /* one infinite weight: no product with a padding zero */
            float *b = product_randoms(K * N);
            b[5] = INFINITY;
            CHECK_EQ(fv_gemm_pack_as(K, N, b, N, 1, p.form, p.packed.data), FV_OK);
            free(b);
        }
        const float sizes[] = {0x1p-120f, 0x1p-126f, 0x1p-133f};
        for (int64_t i = 0; which >= FORMS && i < M * K; i++)
            p.a[i] *= sizes[i % 3];
        float *all = product_memory((size_t)M * (N + PAD) * sizeof *all),
              *part = product_memory((size_t)M * (N + PAD) * sizeof *part);
        float *aux = product_randoms(M * (N + PAD));
        for (int kernel = 0; kernel < kernel_count; kernel++) {
            run(&p, kernels[kernel].run, NULL, all, aux);
            for (int i = 0; i < 4; i++) {
                product few = p;
                few.m = ms[i];
                few.a = p.a + 40 * K;
                run(&few, kernels[kernel].run, NULL, part, aux);
                for (int64_t row = 0; row < few.m; row++)
                    CHECK(memcmp(part + row * (N + PAD), all + (40 + row) * (N + PAD),
                                 N * sizeof *part) == 0);
            }
        }
        volatile float least = 0x1p-126f;
        CHECK(least / 2 > 0); /* the float unit of the caller works as before */
        free(all);
        free(part);
        free(aux);
        drop(&p);
    }
}

/* NaN and infinity reach the row of A that holds them, and no other; a weight's its column. */
static void special_numbers(void)
{
    enum { M = 40, N = 70, K = 41 };
    for (int which = 0; which < 2 * FORMS * LAYOUTS; which++) {
        const int64_t m = which < FORMS * LAYOUTS ? M : 6;
        product p = product_of(m, N, K, which % (FORMS * LAYOUTS));
        fill(&p);
        p.a[5 * a_row(&p) + 7 * a_col(&p)] = NAN;
        p.a[2 * a_row(&p) + (K - 1) * a_col(&p)] = INFINITY;
        p.a[4 * a_row(&p) + 0 * a_col(&p)] = 3.4e38f; /* rounds to infinity */
        float *b = product_randoms(K * N);
        b[9 * N + 66] = NAN;
        CHECK_EQ(fv_gemm_pack_as(K, N, b, N, 1, p.form, p.packed.data), FV_OK);
        static float c[M * (N + PAD)], aux[M * (N + PAD)];
        for (int kernel = 0; kernel < kernel_count; kernel++) {
            run(&p, kernels[kernel].run, NULL, c, aux);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < N; j++) {
                    const bool odd = i == 5 || i == 2 || i == 4 || j == 66;
                    CHECK(isfinite(c[i * (N + PAD) + j]) == !odd);
                }
        }
        free(b);
        drop(&p);
    }
}

/* Sums of A's rows beside the product, for few rows and for many: those of every level. */
static void sums_of_rows(void)
{
    static const int64_t ms[] = {1, 6, 7, 40};
    for (int i = 0; i < 4; i++)
        for (int which = 0; which < FORMS * LAYOUTS; which++) {
            product p = product_of(ms[i], 130, 99, which);
            p.aux = FV_GEMM_AUX_ROW_SUMS;
            fill(&p);
            const int64_t count = p.m * (p.n + PAD);
            float *c = product_memory((size_t)count * sizeof *c), *want = product_randoms(count),
                  *got = product_randoms(count);
            run(&p, kernels[0].run, NULL, c, want);
            for (int kernel = 1; kernel < kernel_count; kernel++) {
                run(&p, kernels[kernel].run, NULL, c, got);
                CHECK(memcmp(want, got, (size_t)p.m * sizeof *got) == 0);
            }
            for (int64_t row = 0; row < p.m; row++) {
                double sum = 0;
                for (int64_t k = 0; k < p.k; k++)
                    sum += (double)p.a[row * a_row(&p) + k * a_col(&p)];
                CHECK_NEAR(want[row], sum, 1e-4);
            }
            free(c);
            free(want);
            free(got);
            drop(&p);
        }
}

static void refuses_bad_arguments(void)
{
    const fv_gemm good = {.m = 1,
                          .n = 64,
                          .k = 64,
                          .a_row = 64,
                          .a_col = 1,
                          .c_row = 64,
                          .batch = 1,
                          .b_packed = 1,
                          .b_form = FV_WEIGHT_I8,
                          .stored_bf16 = FV_GEMM_STORED_A | FV_GEMM_STORED_C,
                          .bf16 = 1};
    CHECK(fv_gemm_scratch(&good, 1) != SIZE_MAX);
    fv_gemm g = good;
    g.stored_bf16 |= FV_GEMM_STORED_B;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g = good;
    g.b_form = FV_WEIGHT_F32;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g = good;
    g.accumulate = 1;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
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
    RUN(rows_do_not_see_each_other);
    RUN(special_numbers);
    RUN(sums_of_rows);
    RUN(refuses_bad_arguments);
    return TEST_END();
}
