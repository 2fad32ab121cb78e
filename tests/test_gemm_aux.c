/*
 * What a product writes beside C (fv_gemm_aux). C must have the bits it has without aux; the matrix
 * before or after the activation has those of the product that ends there, and sums of rows those
 * of the sixteen lanes, written here a second time. Every level, layout, form of weights and number
 * of threads; around aux nothing may change.
 */
#include "fovea/kernels.h"

#include "base/pool.h"
#include "support/products.h"
#include "support/test.h"

static fv_simd best;

enum { EDGE = 16 };
static const float MARK = -77.25f;

typedef struct product {
    int64_t m, n, k, batch;
    bool a_columns, b_columns; /* stored column by column */
    int64_t pad;               /* between rows of C */
    fv_act act;
    bool bias, residual, accumulate, bf16, spread;
    int form; /* of packed weights; -1: not packed */
    fv_gemm_aux aux;
} product;

typedef struct operands {
    fv_gemm g;
    float *a, *b, *bias, *more; /* more: the residual, or what C holds before */
    void *weights;              /* packed, or b */
    int64_t c_floats, aux_floats;
} operands;

static operands operands_of(const product *p)
{
    const int64_t gap = p->spread ? 2 : 1; /* between elements of A */
    operands o = {.g = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .a_row = p->a_columns ? gap : p->k * gap,
                        .a_col = p->a_columns ? p->m * gap : gap,
                        .b_row = p->b_columns ? 1 : p->n,
                        .b_col = p->b_columns ? p->k : 1,
                        .c_row = p->n + p->pad,
                        .residual_row = p->n + p->pad,
                        .batch = p->batch,
                        .act = p->act,
                        .accumulate = p->accumulate,
                        .bf16 = p->bf16,
                        .aux = p->aux}};
    if (p->batch > 1) {
        o.g.batch_rank = 1;
        o.g.batch_shape[0] = p->batch;
        o.g.a_batch[0] = p->m * p->k;
        o.g.c_batch[0] = o.g.residual_batch[0] = p->m * o.g.c_row;
    }
    o.c_floats = p->batch * p->m * o.g.c_row;
    o.aux_floats = p->aux == FV_GEMM_AUX_ROW_SUMS ? p->m : o.c_floats;
    o.a = product_randoms(p->batch * p->m * p->k * gap + 1);
    o.b = product_randoms(p->k * p->n + 1);
    o.bias = product_randoms(p->n);
    o.more = product_randoms(o.c_floats);
    o.weights = o.b;
    if (p->form >= 0) {
        const fv_weight_form form = (fv_weight_form)p->form;
        o.weights = product_memory(fv_gemm_packed_bytes(p->k, p->n, form));
        CHECK_EQ(fv_gemm_pack_as(p->k, p->n, o.b, o.g.b_row, o.g.b_col, form, o.weights), FV_OK);
        o.g.b_packed = 1;
        o.g.b_form = form;
    }
    return o;
}

static void drop(operands *o)
{
    if (o->weights != o->b) free(o->weights);
    free(o->a);
    free(o->b);
    free(o->bias);
    free(o->more);
}

/* C of the product as `g` describes it; aux may be NULL. */
static float *run(const operands *o, const fv_gemm *g, bool bias, bool residual, fv_simd level,
                  fv_pool *pool, float *aux)
{
    float *c = product_memory((size_t)o->c_floats * sizeof *c);
    memcpy(c, o->more, (size_t)o->c_floats * sizeof *c);
    const size_t need = fv_gemm_scratch(g, fv_pool_threads(pool));
    CHECK(need != SIZE_MAX);
    void *scratch = product_memory(need);
    memset(scratch, 0xff, need); /* NaN: what is read before it is written shows */
    const fv_gemm_exec exec = {.level = level,
                               .pool = pool,
                               .bias = bias ? o->bias : NULL,
                               .residual = residual ? c : NULL,
                               .aux = aux};
    CHECK_EQ(fv_gemm_run(g, o->a, o->weights, &exec, scratch, need, c), FV_OK);
    free(scratch);
    return c;
}

static float lane_sum(const float *x, int64_t step, int64_t n)
{
    float lane[16] = {0};
    for (int64_t i = 0; i < n; i++)
        lane[i % 16] += x[i * step];
    for (int width = 8; width; width /= 2)
        for (int i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0];
}

/* What aux should hold, by the scalar kernel without aux, or by the definition. */
static float *expected_aux(const product *p, const operands *o)
{
    fv_gemm g = o->g;
    g.aux = FV_GEMM_AUX_NONE;
    if (p->aux == FV_GEMM_AUX_ROW_SUMS) {
        float *sums = product_memory((size_t)p->m * sizeof *sums);
        for (int64_t i = 0; i < p->m; i++)
            sums[i] = lane_sum(o->a + i * g.a_row, g.a_col, p->k);
        return sums;
    }
    if (p->aux == FV_GEMM_AUX_SUM) g.act = FV_ACT_NONE;
    float *c = run(o, &g, p->bias, false, FV_SIMD_SCALAR, NULL, NULL);
    for (int64_t i = 0; i < o->c_floats; i++)
        if (i % g.c_row >= g.n) c[i] = MARK; /* between rows nothing is written */
    return c;
}

static void differs(const product *p, fv_simd level, int threads, const char *what)
{
    test_failed(__FILE__, __LINE__,
                "%lldx%lldx%lld: %s differs (aux %d, act %d, columns %d %d, form %d, bf16 %d, "
                "accumulate %d, %s, %d threads)",
                (long long)p->m, (long long)p->n, (long long)p->k, what, (int)p->aux, (int)p->act,
                p->a_columns, p->b_columns, p->form, p->bf16, p->accumulate, fv_simd_name(level),
                threads);
}

static void check(product p, fv_pool *pool)
{
    if (p.batch == 0) p.batch = 1;
    operands o = operands_of(&p);
    fv_gemm plain = o.g;
    plain.aux = FV_GEMM_AUX_NONE;
    float *want_aux = expected_aux(&p, &o);
    float *want = run(&o, &plain, p.bias, p.residual, FV_SIMD_SCALAR, NULL, NULL);
    const int64_t all = o.aux_floats + 2 * EDGE;
    float *around = product_memory((size_t)all * sizeof *around);
    for (fv_simd level = FV_SIMD_SCALAR; level <= best; level++) {
        for (int64_t i = 0; i < all; i++)
            around[i] = MARK;
        float *c = run(&o, &o.g, p.bias, p.residual, level, pool, around + EDGE);
        const int threads = fv_pool_threads(pool);
        if (memcmp(c, want, (size_t)o.c_floats * sizeof *c) != 0) differs(&p, level, threads, "C");
        if (memcmp(around + EDGE, want_aux, (size_t)o.aux_floats * sizeof *c) != 0)
            differs(&p, level, threads, "aux");
        for (int64_t i = 0; i < EDGE; i++)
            CHECK(around[i] == MARK && around[all - 1 - i] == MARK);
        free(c);
    }
    free(around);
    free(want);
    free(want_aux);
    drop(&o);
}

static product sums_of(int64_t m, int64_t n, int64_t k, int which)
{
    return (product){.m = m,
                     .n = n,
                     .k = k,
                     .a_columns = which % 4 != 3,
                     .spread = which % 4 == 2,
                     .b_columns = which / 4 % 2,
                     .accumulate = which / 8 % 2,
                     .bf16 = which / 16 % 2,
                     .form = -1,
                     .aux = FV_GEMM_AUX_ROW_SUMS};
}

enum { SUM_KINDS = 32 };

/* ---- tests ------------------------------------------------------------------------------ */

/* Rows around the tiles, what is packed and what is summed together; k around the lanes. */
static void row_sums(void)
{
    static const int64_t ms[] = {1, 6, 7, 16, 17, 60, 61, 96, 97, 240, 241};
    static const int64_t ns[] = {1, 7, 64, 65, 200};
    static const int64_t ks[] = {0, 1, 15, 16, 17, 33, 70};
    int which = 0;
    for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
        for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
            for (size_t l = 0; l < sizeof ks / sizeof *ks; l++)
                check(sums_of(ms[i], ns[j], ks[l], which++), NULL);
}

/* k in blocks: lanes are kept from block to block. */
static void row_sums_of_long_rows(void)
{
    for (int which = 0; which < SUM_KINDS; which++) {
        check(sums_of(70, 80, 1100, which), NULL);
        check(sums_of(130, 5, 3105, which), NULL);
        check(sums_of(3, 20, 2100, which), NULL);
    }
}

static void row_sums_beside_packed_weights(void)
{
    for (int form = FV_WEIGHT_F32; form < FV_WEIGHT_FORM_COUNT; form++)
        for (int64_t m = 1; m <= 31; m += 5)
            check((product){.m = m, .n = 70, .k = 41, .form = form, .aux = FV_GEMM_AUX_ROW_SUMS},
                  NULL);
}

/* Every activation, before and after, beside bias and residual, for floats and packed weights. */
static void around_the_activation(void)
{
    static const int64_t sizes[][3] = {{1, 64, 16},  {1, 77, 30},   {5, 65, 9},   {7, 200, 41},
                                       {30, 130, 0}, {24, 299, 41}, {97, 70, 65}, {31, 75, 2100}};
    int which = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int act = 0; act < FV_ACT_COUNT; act++)
            for (int form = -2; form < FV_WEIGHT_FORM_COUNT; form++)
                for (int after = 0; after < 2; after++, which++)
                    check((product){.m = sizes[i][0],
                                    .n = sizes[i][1],
                                    .k = sizes[i][2],
                                    .b_columns = which % 2,
                                    .pad = which % 3,
                                    .act = (fv_act)act,
                                    .bias = which % 5 != 0,
                                    .residual = which % 7 < 4,
                                    .bf16 = form == -2,
                                    .form = form == -2 ? -1 : form,
                                    .aux = after ? FV_GEMM_AUX_ACT : FV_GEMM_AUX_SUM},
                          NULL);
}

static void members_of_a_batch(void)
{
    for (int after = 0; after < 2; after++)
        check((product){.m = 20,
                        .n = 70,
                        .k = 30,
                        .batch = 3,
                        .act = FV_ACT_TANH,
                        .bias = true,
                        .residual = true,
                        .form = -1,
                        .aux = after ? FV_GEMM_AUX_ACT : FV_GEMM_AUX_SUM},
              NULL);
}

static void threads_one_to_eight(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (int which = threads % 5; which < SUM_KINDS; which += 5) {
            check(sums_of(300, 330, 129, which), pool);
            check(sums_of(110, 200, 1100, which), pool);
        }
        for (int bf16 = 0; bf16 < 2; bf16++)
            check((product){.m = 130,
                            .n = 300,
                            .k = 70,
                            .act = FV_ACT_GELU_TANH,
                            .bias = true,
                            .residual = true,
                            .bf16 = bf16,
                            .form = -1,
                            .aux = threads % 2 ? FV_GEMM_AUX_SUM : FV_GEMM_AUX_ACT},
                  pool);
        fv_pool_destroy(&pool);
    }
}

static void refuses_bad_arguments(void)
{
    static float a[64], b[64 * 64], c[2 * 64], aux[64];
    const fv_gemm good = {.m = 1,
                          .n = 64,
                          .k = 64,
                          .a_row = 64,
                          .a_col = 1,
                          .b_row = 64,
                          .b_col = 1,
                          .c_row = 64,
                          .batch = 1,
                          .aux = FV_GEMM_AUX_ROW_SUMS};
    const size_t need = fv_gemm_scratch(&good, 1);
    void *scratch = product_memory(need);
    fv_gemm_exec exec = {.aux = aux};
    CHECK_EQ(fv_gemm_run(&good, a, b, &exec, scratch, need, c), FV_OK);
    CHECK_EQ(fv_gemm_run(&good, a, b, &exec, scratch, need - 1, c), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_gemm_run(&good, a, b, NULL, scratch, need, c), FV_ERR_ARGUMENT); /* no memory */
    fv_gemm g = good;
    g.aux = FV_GEMM_AUX_NONE;
    CHECK_EQ(fv_gemm_run(&g, a, b, &exec, scratch, need, c), FV_ERR_ARGUMENT); /* no kind */
    g.aux = FV_GEMM_AUX_COUNT;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g = good;
    g.n = 0;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX); /* no work item would write the sums */
    g = good;
    g.batch = g.batch_shape[0] = 2;
    g.batch_rank = 1;
    g.c_batch[0] = 64;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g = good;
    g.accumulate = 1;
    CHECK(fv_gemm_scratch(&g, 1) != SIZE_MAX);
    g.aux = FV_GEMM_AUX_SUM;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    g.aux = FV_GEMM_AUX_ACT;
    CHECK(fv_gemm_scratch(&g, 1) == SIZE_MAX);
    free(scratch);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    best = fv_simd_detect();
    RUN(row_sums);
    RUN(row_sums_of_long_rows);
    RUN(row_sums_beside_packed_weights);
    RUN(around_the_activation);
    RUN(members_of_a_batch);
    RUN(threads_one_to_eight);
    RUN(refuses_bad_arguments);
    return TEST_END();
}
