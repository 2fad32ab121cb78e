/*
 * The matrix product. Every level, thread count, layout and path must give the bits of one FMA
 * chain per element; the chain itself is held against float64. Operands end at an unreadable page
 * and C lies between canaries, so that a read or write past an edge is caught.
 */
#include "fovea/kernels.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/products.h"
#include "support/test.h"

/* ---- operands ------------------------------------------------------------------------ */

typedef struct guarded {
    char *map;
    size_t bytes;
    float *data; /* ends where the unreadable page begins */
    size_t floats;
} guarded;

static guarded guarded_make(int64_t floats)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), need = (size_t)floats * sizeof(float);
    guarded g = {.bytes = (need + page - 1) / page * page + page, .floats = (size_t)floats};
    g.map = mmap(NULL, g.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + g.bytes - page, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for a test\n");
        exit(1);
    }
    g.data = (float *)(void *)(g.map + g.bytes - page - need);
    return g;
}

static void guarded_free(guarded *g) { munmap(g->map, g->bytes); }

static void fill(guarded *g)
{
    for (size_t i = 0; i < g->floats; i++)
        g->data[i] = product_random();
}

static void *scratch_make(size_t bytes)
{
    void *p = aligned_alloc(64, bytes ? bytes : 64);
    if (!p) exit(1);
    memset(p, 0xff, bytes); /* NaN: what is read before it is written shows */
    return p;
}

/* Same bits, where any NaN equals any other: which payload survives is not promised. */
static bool same(const float *x, const float *y, size_t n)
{
    if (memcmp(x, y, n * sizeof *x) == 0) return true;
    for (size_t i = 0; i < n; i++)
        if (memcmp(x + i, y + i, sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i]))) return false;
    return true;
}

/* ---- one product, every way of computing it -------------------------------------------- */

typedef struct shape {
    int64_t m, n, k;
    bool ta, tb;    /* stored transposed */
    int64_t pad;    /* extra floats between rows */
    int64_t spread; /* > 1: neither stride of A and B is 1 */
    fv_act act;
    bool bias, residual, in_place, accumulate;
} shape;

typedef struct problem {
    shape s;
    fv_gemm g;
    guarded a, b, c, bias, residual;
} problem;

static void layout(int64_t rows, int64_t cols, bool transposed, const shape *s, int64_t *row,
                   int64_t *col, int64_t *floats)
{
    const int64_t across = transposed ? rows : cols, along = transposed ? cols : rows;
    const int64_t step = s->spread, line = across * step + s->pad;
    *row = transposed ? step : line;
    *col = transposed ? line : step;
    *floats = along && across ? (along - 1) * line + (across - 1) * step + 1 : 0;
}

static problem problem_make(shape s)
{
    problem p = {.s = s};
    if (p.s.spread == 0) p.s.spread = 1;
    p.g = (fv_gemm){.m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .c_row = s.n + s.pad,
                    .residual_row = s.n + s.pad,
                    .batch = 1,
                    .act = s.act,
                    .accumulate = s.accumulate};
    int64_t a, b;
    layout(s.m, s.k, s.ta, &p.s, &p.g.a_row, &p.g.a_col, &a);
    layout(s.k, s.n, s.tb, &p.s, &p.g.b_row, &p.g.b_col, &b);
    p.a = guarded_make(a);
    p.b = guarded_make(b);
    p.c = guarded_make(s.m * (s.n + s.pad));
    p.bias = guarded_make(s.n);
    p.residual = guarded_make(s.m * (s.n + s.pad));
    fill(&p.a);
    fill(&p.b);
    fill(&p.c);
    fill(&p.bias);
    fill(&p.residual);
    return p;
}

static void problem_free(problem *p)
{
    guarded_free(&p->a);
    guarded_free(&p->b);
    guarded_free(&p->c);
    guarded_free(&p->bias);
    guarded_free(&p->residual);
}

/* Runs into a fresh copy of C, which is returned. */
static guarded run(const problem *p, const fv_gemm *g, const float *b, fv_simd level, fv_pool *pool,
                   int threads)
{
    guarded c = guarded_make((int64_t)p->c.floats);
    memcpy(c.data, p->c.data, p->c.floats * sizeof(float));
    const size_t need = fv_gemm_scratch(g, threads);
    void *scratch = scratch_make(need);
    fv_gemm_exec exec = {.level = level,
                         .pool = pool,
                         .bias = p->s.bias ? p->bias.data : NULL,
                         .residual = !p->s.residual  ? NULL
                                     : p->s.in_place ? c.data
                                                     : p->residual.data};
    fv_status s = fv_gemm_run(g, p->a.data, b, &exec, scratch, need, c.data);
    CHECK_EQ(s, FV_OK);
    free(scratch);
    return c;
}

static double act64(fv_act act, double x)
{
    switch (act) {
    case FV_ACT_RELU:
        return x > 0 ? x : 0;
    case FV_ACT_GELU:
        return 0.5 * x * (1 + erf(x * sqrt(0.5)));
    case FV_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case FV_ACT_SILU:
        return x / (1 + exp(-x));
    case FV_ACT_TANH:
        return tanh(x);
    case FV_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case FV_ACT_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    default:
        return x;
    }
}

/* Against float64, with the error bound of a chain of k roundings; padding must be untouched. */
static void check_against_double(const problem *p, const guarded *c)
{
    const fv_gemm *g = &p->g;
    const double u = 0x1p-24;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->c_row; j++) {
            const int64_t at = i * g->c_row + j;
            if (j >= g->n) {
                CHECK(c->data[at] == p->c.data[at]);
                continue;
            }
            double sum = g->accumulate ? (double)p->c.data[at] : 0, size = fabs(sum);
            for (int64_t k = 0; k < g->k; k++) {
                const double x = (double)p->a.data[i * g->a_row + k * g->a_col] *
                                 (double)p->b.data[k * g->b_row + j * g->b_col];
                sum += x;
                size += fabs(x);
            }
            double error = (double)(g->k + 1) * u * size;
            if (p->s.bias) {
                sum += (double)p->bias.data[j];
                error += u * fabs(sum);
            }
            /* No activation is steeper than 1.13; its own error is a few units in the last place.
             */
            double want = act64(g->act, sum);
            error = 1.13 * error + (g->act == FV_ACT_NONE ? 0 : 8 * u * (fabs(want) + 0.25));
            if (p->s.residual) {
                want +=
                    (double)(p->s.in_place ? p->c.data : p->residual.data)[i * g->residual_row + j];
                error += u * fabs(want);
            }
            if (!(fabs((double)c->data[at] - want) <= error * 1.0001 + 1e-30)) {
                test_failed(__FILE__, __LINE__, "%lldx%lldx%lld at (%lld,%lld): %.9g, not %.9g",
                            (long long)g->m, (long long)g->n, (long long)g->k, (long long)i,
                            (long long)j, (double)c->data[at], want);
                return;
            }
        }
}

static void compare(const problem *p, const guarded *want, const guarded *got, const char *what,
                    fv_simd level, int threads)
{
    if (same(want->data, got->data, want->floats)) return;
    test_failed(__FILE__, __LINE__,
                "%lldx%lldx%lld ta %d tb %d pad %lld act %d bias %d residual %d accumulate %d: %s, "
                "%s, %d threads differ from the chain",
                (long long)p->s.m, (long long)p->s.n, (long long)p->s.k, p->s.ta, p->s.tb,
                (long long)p->s.pad, (int)p->s.act, p->s.bias, p->s.residual, p->s.accumulate, what,
                fv_simd_name(level), threads);
}

static fv_simd best;

/* Scalar against float64, then every level and both forms of B against scalar. */
static void check_all(shape s, fv_pool *pool, int threads)
{
    problem p = problem_make(s);
    guarded want = run(&p, &p.g, p.b.data, FV_SIMD_SCALAR, NULL, 1);
    check_against_double(&p, &want);

    fv_gemm packed = p.g;
    packed.b_packed = 1;
    packed.b_row = packed.b_col = -1; /* unused */
    guarded panels =
        guarded_make((int64_t)(fv_gemm_packed_bytes(s.k, s.n, FV_WEIGHT_F32) / sizeof(float)));
    CHECK_EQ(fv_gemm_pack_as(s.k, s.n, p.b.data, p.g.b_row, p.g.b_col, FV_WEIGHT_F32, panels.data),
             FV_OK);

    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        guarded plain = run(&p, &p.g, p.b.data, level, pool, threads);
        compare(&p, &want, &plain, "plain", level, threads);
        guarded_free(&plain);
        guarded fast = run(&p, &packed, panels.data, level, pool, threads);
        compare(&p, &want, &fast, "packed", level, threads);
        guarded_free(&fast);
    }
    guarded_free(&panels);
    guarded_free(&want);
    problem_free(&p);
}

/* The same for m, n, k of an array, on one thread. */
static void check_size(shape s, const int64_t size[3])
{
    s.m = size[0];
    s.n = size[1];
    s.k = size[2];
    check_all(s, NULL, 1);
}

/* ---- tests ------------------------------------------------------------------------------ */

static void tile_edges(void)
{
    static const int64_t ms[] = {1, 2, 5, 6, 7, 12, 13, 25, 31};
    static const int64_t ns[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 48, 63, 64, 65, 80, 127, 129};
    static const int64_t ks[] = {1, 2, 3, 4, 7, 8, 9, 17, 33};
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check_all((shape){.m = ms[i],
                                  .n = ns[j],
                                  .k = ks[l],
                                  .ta = (i + j) % 2,
                                  .tb = (j + l) % 2,
                                  .pad = (int64_t)(l % 3)},
                          NULL, 1);
}

static void transposes_and_strides(void)
{
    static const int64_t sizes[][3] = {{6, 64, 64},    {37, 70, 41}, {64, 64, 64}, {65, 129, 67},
                                       {130, 200, 80}, {1, 100, 50}, {3, 33, 300}, {97, 65, 130}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 4; t++)
            for (int64_t pad = 0; pad <= 3; pad += 3)
                for (int64_t spread = 1; spread <= 2; spread++) {
                    shape s = {.ta = t & 1, .tb = t >> 1, .pad = pad, .spread = spread};
                    check_size(s, sizes[i]);
                }
}

static void epilogues(void)
{
    static const int64_t sizes[][3] = {
        {1, 64, 16}, {1, 77, 30}, {7, 65, 9}, {30, 130, 40}, {6, 16, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int act = 0; act < FV_ACT_COUNT; act++)
            for (int bits = 0; bits < 8; bits++)
                check_size((shape){.pad = 1,
                                   .act = (fv_act)act,
                                   .bias = bits & 1,
                                   .residual = bits & 2,
                                   .in_place = bits & 4},
                           sizes[i]);
}

static void accumulates(void)
{
    static const int64_t sizes[][3] = {
        {1, 50, 20}, {6, 64, 32}, {29, 70, 33}, {64, 130, 65}, {3, 5, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 4; t++)
            check_size((shape){.ta = t & 1, .tb = t >> 1, .accumulate = true}, sizes[i]);
}

/* k so long that it is cut into blocks, with C as its own residual too. */
static void long_k(void)
{
    for (int t = 0; t < 4; t++)
        for (int kind = 0; kind < 3; kind++) {
            shape s = {.ta = t & 1, .tb = t >> 1, .in_place = true, .accumulate = kind == 1};
            s.residual = s.bias = kind == 2;
            check_size(s, (int64_t[]){31, 75, 2100});
        }
    check_all((shape){.m = 1, .n = 1100, .k = 2101}, NULL, 1);
    check_all((shape){.m = 1030, .n = 20, .k = 2060, .residual = true}, NULL, 1);
}

/* Row tiles of every height, the lowest first, over rows of B that are read in place (stride 300)
 * or, at stride 512 and for a long k, copied in short blocks of k; the widest tile leaves some
 * columns over. */
static void few_rows(void)
{
    for (int64_t m = 1; m <= 24; m++)
        for (int far = 0; far < 2; far++) {
            shape s = {.m = m, .n = 299, .k = far ? 131 : 41, .pad = far ? 512 - 299 : 1};
            check_all(s, NULL, 1);
            s.accumulate = m % 2;
            s.bias = s.residual = s.in_place = !s.accumulate;
            check_all(s, NULL, 1);
        }
    check_all((shape){.m = 8, .n = 75, .k = 2100, .pad = 512 - 75, .residual = true}, NULL, 1);
    check_all((shape){.m = 19, .n = 140, .k = 1030, .bias = true}, NULL, 1);
}

static void empty_sizes(void)
{
    for (int bits = 0; bits < 8; bits++)
        check_all((shape){.m = bits & 1 ? 5 : 0,
                          .n = bits & 2 ? 9 : 0,
                          .k = bits & 4 ? 4 : 0,
                          .bias = true,
                          .act = FV_ACT_GELU},
                  NULL, 1);
    check_all((shape){.m = 5, .n = 9, .k = 0}, NULL, 1);
}

static void threads_one_to_eight(void)
{
    static const shape shapes[] = {
        {.m = 130, .n = 300, .k = 70},
        {.m = 300, .n = 64, .k = 129, .tb = true, .bias = true, .act = FV_ACT_RELU},
        {.m = 200, .n = 330, .k = 64, .ta = true, .accumulate = true},
        {.m = 1, .n = 2000, .k = 1000},
        {.m = 1, .n = 700, .k = 600, .bias = true, .act = FV_ACT_GELU},
        {.m = 1, .n = 2000, .k = 1000, .tb = true, .residual = true, .in_place = true},
        {.m = 110, .n = 130, .k = 2100, .residual = true, .in_place = true},
        {.m = 4, .n = 1500, .k = 400, .tb = true},
    };
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            check_all(shapes[i], pool, threads);
        fv_pool_destroy(&pool);
    }
}

/* A batch against its members one by one; a zero stride repeats an operand. */
static void batches(void)
{
    enum { OUTER = 3, INNER = 4, M = 40, N = 70, K = 50 };
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(3, &pool), FV_OK);
    guarded a = guarded_make(OUTER * INNER * M * K), b = guarded_make(INNER * K * N);
    guarded want = guarded_make(OUTER * INNER * M * N), got = guarded_make(OUTER * INNER * M * N);
    fill(&a);
    fill(&b);
    fv_gemm one = {.m = M,
                   .n = N,
                   .k = K,
                   .a_row = K,
                   .a_col = 1,
                   .b_row = 1,
                   .b_col = K,
                   .c_row = N,
                   .batch = 1};
    fv_gemm all = one;
    all.batch = OUTER * INNER;
    all.batch_rank = 2;
    all.batch_shape[0] = OUTER;
    all.batch_shape[1] = INNER;
    all.a_batch[0] = INNER * M * K;
    all.a_batch[1] = M * K;
    all.b_batch[1] = K * N; /* the outer axis repeats B */
    all.c_batch[0] = INNER * M * N;
    all.c_batch[1] = M * N;
    const size_t need_one = fv_gemm_scratch(&one, 1), need_all = fv_gemm_scratch(&all, 3);
    void *scratch_one = scratch_make(need_one), *scratch_all = scratch_make(need_all);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        fv_gemm_exec alone = {.level = FV_SIMD_SCALAR}, together = {.level = level, .pool = pool};
        for (int64_t i = 0; i < OUTER * INNER; i++)
            CHECK_EQ(fv_gemm_run(&one, a.data + i * M * K, b.data + i % INNER * K * N, &alone,
                                 scratch_one, need_one, want.data + i * M * N),
                     FV_OK);
        memset(got.data, 0, got.floats * sizeof(float));
        CHECK_EQ(fv_gemm_run(&all, a.data, b.data, &together, scratch_all, need_all, got.data),
                 FV_OK);
        CHECK(memcmp(want.data, got.data, want.floats * sizeof(float)) == 0);
    }
    free(scratch_one);
    free(scratch_all);
    guarded_free(&a);
    guarded_free(&b);
    guarded_free(&want);
    guarded_free(&got);
    fv_pool_destroy(&pool);
}

/* Row i of a product is the product of row i, whatever stands beside it. */
static void rows_do_not_see_each_other(void)
{
    problem p = problem_make((shape){.m = 57, .n = 200, .k = 90, .tb = true});
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        guarded all = run(&p, &p.g, p.b.data, level, NULL, 1);
        fv_gemm one = p.g;
        one.m = 1;
        const size_t need = fv_gemm_scratch(&one, 1);
        void *scratch = scratch_make(need);
        for (int64_t i = 0; i < p.g.m; i++) {
            float row[200];
            fv_gemm_exec exec = {.level = level};
            CHECK_EQ(
                fv_gemm_run(&one, p.a.data + i * p.g.a_row, p.b.data, &exec, scratch, need, row),
                FV_OK);
            CHECK(memcmp(row, all.data + i * p.g.c_row, sizeof row) == 0);
        }
        free(scratch);
        guarded_free(&all);
    }
    problem_free(&p);
}

static void special_values(void)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN,   0x1p-149f, -0x1p-130f,
                                0.0f,     -0.0f,     3e38f, -3e38f};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int64_t every = 7; every <= 211; every += 51) {
        for (int t = 0; t < 4; t++) {
            problem p = problem_make((shape){.m = t == 3 ? 1 : 20,
                                             .n = 75,
                                             .k = 40,
                                             .ta = t & 1,
                                             .tb = t >> 1,
                                             .bias = true,
                                             .residual = true,
                                             .act = (fv_act)(every % FV_ACT_COUNT)});
            for (size_t i = 0; i < p.a.floats; i += (size_t)every)
                p.a.data[i] = odd[i % ODD];
            for (size_t i = 3; i < p.b.floats; i += (size_t)every + 5)
                p.b.data[i] = odd[i % ODD];
            guarded want = run(&p, &p.g, p.b.data, FV_SIMD_SCALAR, NULL, 1);
            for (fv_simd level = FV_SIMD_AVX2; level <= best; level++) {
                guarded got = run(&p, &p.g, p.b.data, level, NULL, 1);
                compare(&p, &want, &got, "special values", level, 1);
                guarded_free(&got);
            }
            guarded_free(&want);
            problem_free(&p);
        }
    }
}

/* Zeros of either sign, denormal sums and an infinity come out as IEEE says. */
static void special_results(void)
{
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        const float a[2] = {0x1p-75f, -0.0f}, b[2] = {0x1p-74f, 1.0f};
        float c = 1;
        fv_gemm g = {.m = 1,
                     .n = 1,
                     .k = 2,
                     .a_row = 2,
                     .a_col = 1,
                     .b_row = 1,
                     .b_col = 1,
                     .c_row = 1,
                     .batch = 1};
        fv_gemm_exec exec = {.level = level};
        CHECK_EQ(fv_gemm_run(&g, a, b, &exec, NULL, 0, &c), FV_OK);
        CHECK(c == 0x1p-149f);
        const float huge[2] = {3e38f, 3e38f}, two[2] = {2, -2};
        CHECK_EQ(fv_gemm_run(&g, huge, two, &exec, NULL, 0, &c), FV_OK);
        CHECK(c == INFINITY); /* inf + finite: the chain overflows at its first term */
    }
}

static void packing_pads_with_zeros(void)
{
    enum { K = 5, N = 70 };
    float b[K * N];
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i + 1);
    CHECK_EQ(fv_gemm_packed_bytes(K, N, FV_WEIGHT_F32), K * 128 * sizeof(float));
    float packed[K * 128];
    CHECK_EQ(fv_gemm_pack_as(K, N, b, N, 1, FV_WEIGHT_F32, packed), FV_OK);
    for (int panel = 0; panel < 2; panel++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < 64; j++) {
                const int col = panel * 64 + j;
                const float want = col < N ? b[k * N + col] : 0;
                CHECK(packed[(panel * K + k) * 64 + j] == want);
            }
    CHECK(fv_gemm_packed_bytes(INT64_MAX, INT64_MAX, FV_WEIGHT_F32) == SIZE_MAX);
    CHECK(fv_gemm_packed_bytes(-1, 4, FV_WEIGHT_F32) == SIZE_MAX);
    CHECK_EQ(fv_gemm_pack_as(-1, 4, b, 4, 1, FV_WEIGHT_F32, packed), FV_ERR_ARGUMENT);
}

static void refuses_bad_arguments(void)
{
    const fv_gemm good = {.m = 40,
                          .n = 200,
                          .k = 200,
                          .a_row = 200,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = 200,
                          .c_row = 200,
                          .residual_row = 200,
                          .batch = 1};
    static float a[40 * 200], b[200 * 200], c[40 * 200], bias[200];
    const size_t need = fv_gemm_scratch(&good, 1);
    CHECK(need > 0 && need % 64 == 0);
    void *scratch = scratch_make(need);
    CHECK_EQ(fv_gemm_run(&good, a, b, NULL, scratch, need, c), FV_OK);
    CHECK_EQ(fv_gemm_run(&good, a, b, NULL, scratch, need - 1, c), FV_ERR_ARGUMENT);
#define REFUSED(...)                                                                               \
    do {                                                                                           \
        fv_gemm g = good;                                                                          \
        __VA_ARGS__;                                                                               \
        CHECK_EQ(fv_gemm_run(&g, a, b, NULL, scratch, need, c), FV_ERR_ARGUMENT);                  \
        CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);                                                 \
    } while (0)
    REFUSED(g.m = -1);
    REFUSED(g.n = -1);
    REFUSED(g.k = -1);
    REFUSED(g.batch = 2);
    REFUSED(g.batch_rank = 7);
    REFUSED(g.batch_rank = 1; g.batch_shape[0] = 2; g.batch = 2); /* two members, one C */
    REFUSED(g.c_row = 199);
    REFUSED(g.act = FV_ACT_COUNT);
    REFUSED(g.accumulate = 1; g.act = FV_ACT_RELU);
    REFUSED(g.m = INT64_MAX; g.k = INT64_MAX);
#undef REFUSED
    fv_gemm g = good;
    g.accumulate = 1;
    fv_gemm_exec exec = {.bias = bias};
    CHECK_EQ(fv_gemm_run(&g, a, b, &exec, scratch, need, c), FV_ERR_ARGUMENT);
    exec = (fv_gemm_exec){.residual = c};
    g = good;
    g.residual_row = 5;
    CHECK_EQ(fv_gemm_run(&g, a, b, &exec, scratch, need, c), FV_ERR_ARGUMENT);
    if (best < FV_SIMD_AVX512) {
        exec = (fv_gemm_exec){.level = FV_SIMD_AVX512};
        CHECK_EQ(fv_gemm_run(&good, a, b, &exec, scratch, need, c), FV_ERR_UNSUPPORTED);
    }
    free(scratch);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    best = fv_simd_detect();
    RUN(tile_edges);
    RUN(transposes_and_strides);
    RUN(epilogues);
    RUN(accumulates);
    RUN(long_k);
    RUN(few_rows);
    RUN(empty_sizes);
    RUN(threads_one_to_eight);
    RUN(batches);
    RUN(rows_do_not_see_each_other);
    RUN(special_values);
    RUN(special_results);
    RUN(packing_pads_with_zeros);
    RUN(refuses_bad_arguments);
    return TEST_END();
}
