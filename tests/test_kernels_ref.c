/*
 * Elementwise kernels, copies and conversions against formulas in double, at every level, with the
 * edge cases that kernels/elementwise.h promises.
 */
#include "base/rng.h"
#include "kernels/elementwise.h"
#include "support/formulas.h"
#include "support/kernels.h"

static fv_elementwise_args flat(int op, int64_t n)
{
    return (fv_elementwise_args){.op = op, .rank = 1, .shape = {n}, .stride = {{1}, {1}, {1}, {1}}};
}

/* ---- unary ---------------------------------------------------------------------- */

static void unary_formulas(fv_dtype dtype)
{
    enum { N = 53 };
    for (int op = 0; op < FV_UNARY_COUNT; op++) {
        const double alpha = 0.25, beta = 0.75;
        const vec x = vec_random(dtype, N, -4, 4);
        for (int64_t i = 0; i < N; i++) /* to the right, where the function is not defined */
            if (isnan(formula_unary((fv_unary)op, vec_get(x, i), alpha, beta)))
                vec_set(x, i, 0.25 + fabs(vec_get(x, i)));
        const vec g = vec_random(dtype, N, -2, 2), y = vec_new(dtype, N), dx = vec_new(dtype, N);
        fv_elementwise_args m = flat(op, N);
        m.alpha = alpha;
        m.beta = beta;
        kernel_run(FV_KERNEL_UNARY, dtype, PTRS(y.data, x.data), &m);
        kernel_run(FV_KERNEL_UNARY_GRAD, dtype, PTRS(dx.data, g.data, x.data, y.data), &m);
        for (int64_t i = 0; i < N; i++) {
            const double v = vec_get(x, i);
            CHECK_VALUE(y, i, formula_unary((fv_unary)op, v, alpha, beta));
            CHECK_VALUE(dx, i, vec_get(g, i) * formula_unary_slope((fv_unary)op, v, alpha, beta));
        }
        const vec in_place = vec_copy(x);
        kernel_run(FV_KERNEL_UNARY, dtype, PTRS(in_place.data, in_place.data), &m);
        CHECK(vec_same_bits(in_place, y));
    }
}

static void unary_test(void) { for_reals(unary_formulas); }

/* y = op(x) for one x. */
static double one(fv_dtype dtype, int op, double x, double alpha, double beta)
{
    const vec in = VEC_OF(dtype, x), out = vec_new(dtype, 1);
    fv_elementwise_args m = flat(op, 1);
    m.alpha = alpha;
    m.beta = beta;
    kernel_run(FV_KERNEL_UNARY, dtype, PTRS(out.data, in.data), &m);
    return vec_get(out, 0);
}

/* dx for g = 1. */
static double one_grad(fv_dtype dtype, int op, double x, double y, double alpha, double beta)
{
    const vec g = VEC_OF(dtype, 1), in = VEC_OF(dtype, x), out = VEC_OF(dtype, y);
    const vec dx = vec_new(dtype, 1);
    fv_elementwise_args m = flat(op, 1);
    m.alpha = alpha;
    m.beta = beta;
    kernel_run(FV_KERNEL_UNARY_GRAD, dtype, PTRS(dx.data, g.data, in.data, out.data), &m);
    return vec_get(dx, 0);
}

static void unary_edges(fv_dtype dtype)
{
    CHECK(isnan(one(dtype, FV_UNARY_RELU, NAN, 0, 0)));
    CHECK(isnan(one(dtype, FV_UNARY_CLAMP, NAN, 0, 1)));
    CHECK(isnan(one(dtype, FV_UNARY_SOFTPLUS, NAN, 0, 0)));
    CHECK(isnan(one(dtype, FV_UNARY_GELU, NAN, 0, 0)));
    CHECK(one(dtype, FV_UNARY_RELU, -INFINITY, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_SIGMOID, -1e4, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_SIGMOID, 1e4, 0, 0) == 1);
    CHECK(one(dtype, FV_UNARY_SILU, -1e4, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_SOFTPLUS, 1e4, 0, 0) == 1e4);
    CHECK(one(dtype, FV_UNARY_SOFTPLUS, -1e4, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_GELU_TANH, -1e30, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_EXP, 1e4, 0, 0) == INFINITY);
    CHECK(one(dtype, FV_UNARY_EXP, -INFINITY, 0, 0) == 0);
    CHECK(one(dtype, FV_UNARY_LOG, 0, 0, 0) == -INFINITY);
    CHECK(isnan(one(dtype, FV_UNARY_LOG, -1, 0, 0)));
    CHECK(one(dtype, FV_UNARY_TANH, INFINITY, 0, 0) == 1);
    CHECK(one(dtype, FV_UNARY_POW_SCALAR, 0, 0, 0) == 1);
    CHECK(one_grad(dtype, FV_UNARY_POW_SCALAR, 0, 1, 0, 0) == 0);
    CHECK(one_grad(dtype, FV_UNARY_ABS, 0, 0, 0, 0) == 0);
    CHECK(one_grad(dtype, FV_UNARY_CLAMP, 1, 1, 0, 1) == 1); /* the bound belongs to the inside */
    CHECK(one_grad(dtype, FV_UNARY_CLAMP, 0, 0, 0, 1) == 1);
    CHECK(one_grad(dtype, FV_UNARY_CLAMP, 1.5, 1, 0, 1) == 0);
    CHECK(one_grad(dtype, FV_UNARY_RELU, 0, 0, 0, 0) == 0);
    CHECK(one_grad(dtype, FV_UNARY_GELU_TANH, 1e30, 1e30, 0, 0) == 1);
    CHECK(one_grad(dtype, FV_UNARY_GELU_TANH, -1e30, 0, 0, 0) == 0);
    CHECK(one_grad(dtype, FV_UNARY_SILU, -1e30, 0, 0, 0) == 0);
    CHECK(one_grad(dtype, FV_UNARY_GELU, -1e10, 0, 0, 0) == 0);
}

static void unary_edge_test(void) { for_reals(unary_edges); }

/* ---- binary, compare, select ----------------------------------------------------- */

/* a (3, 1, 5) with b (4, 1) -> (3, 4, 5), read through odd strides. */
static const fv_elementwise_args broadcast = {
    .rank = 3, .shape = {3, 4, 5}, .stride = {{40, 10, 2}, {11, 0, 2}, {0, 3, 0}, {0, 3, 0}}};
enum { OUT_N = 120, A_N = 40, B_N = 12 };

typedef struct place {
    int64_t out, a, b;
} place;

static place place_of(int64_t i, int64_t j, int64_t k)
{
    return (place){40 * i + 10 * j + 2 * k, 11 * i + 2 * k, 3 * j};
}

static void binary_formulas(fv_dtype dtype)
{
    for (int op = 0; op < FV_BINARY_COUNT; op++) {
        const vec a = vec_random(dtype, A_N, 0.25, 3), b = vec_random(dtype, B_N, 0.25, 3);
        const vec c = vec_new(dtype, OUT_N);
        fv_elementwise_args m = broadcast;
        m.op = op;
        kernel_run(FV_KERNEL_BINARY, dtype, PTRS(c.data, a.data, b.data), &m);
        const vec g = vec_random(dtype, OUT_N, -2, 2), d = vec_new(dtype, OUT_N);
        for (int which = 0; which < 2; which++) {
            fv_elementwise_args mg = {.op = op, .which = which, .rank = 3, .shape = {3, 4, 5}};
            memcpy(mg.stride[0], m.stride[0], sizeof m.stride[0]);
            memcpy(mg.stride[1], m.stride[0], sizeof m.stride[0]);
            memcpy(mg.stride[2], m.stride[1], sizeof m.stride[1]);
            memcpy(mg.stride[3], m.stride[2], sizeof m.stride[2]);
            kernel_run(FV_KERNEL_BINARY_GRAD, dtype, PTRS(d.data, g.data, a.data, b.data), &mg);
            for (int64_t i = 0; i < 60; i++) {
                const place p = place_of(i / 20, i / 5 % 4, i % 5);
                const double x = vec_get(a, p.a), y = vec_get(b, p.b);
                CHECK_VALUE(c, p.out, formula_binary((fv_binary)op, x, y));
                CHECK_VALUE(d, p.out,
                            vec_get(g, p.out) * formula_binary_slope((fv_binary)op, which, x, y));
            }
        }
        CHECK(isnan(vec_get(c, 1))); /* the gaps are not written */
    }
}

static void binary_test(void) { for_reals(binary_formulas); }

static void binary_edges(fv_dtype dtype)
{
    const vec a = VEC_OF(dtype, NAN, 1, 2, 0), b = VEC_OF(dtype, 1, NAN, 2, 3);
    const vec c = vec_new(dtype, 4), g = VEC_OF(dtype, 1, 1, 1, 1);
    fv_elementwise_args m = flat(FV_BINARY_MAXIMUM, 4);
    kernel_run(FV_KERNEL_BINARY, dtype, PTRS(c.data, a.data, b.data), &m);
    CHECK(isnan(vec_get(c, 0)) && isnan(vec_get(c, 1)) && vec_get(c, 3) == 3);
    m.op = FV_BINARY_MINIMUM;
    kernel_run(FV_KERNEL_BINARY, dtype, PTRS(c.data, a.data, b.data), &m);
    CHECK(isnan(vec_get(c, 0)) && isnan(vec_get(c, 1)) && vec_get(c, 3) == 0);
    for (int which = 0; which < 2; which++) { /* a tie goes to a, whole */
        m.which = which;
        kernel_run(FV_KERNEL_BINARY_GRAD, dtype, PTRS(c.data, g.data, a.data, b.data), &m);
        CHECK(vec_get(c, 2) == (which ? 0 : 1));
    }
    m = flat(FV_BINARY_POW, 4);
    m.which = 1;
    kernel_run(FV_KERNEL_BINARY_GRAD, dtype, PTRS(c.data, g.data, a.data, b.data), &m);
    CHECK(vec_get(c, 3) == 0); /* 0^3 ln 0 */
}

static void binary_edge_test(void) { for_reals(binary_edges); }

static void comparisons(fv_dtype dtype)
{
    const vec a = VEC_OF(dtype, 1, 2, 3, NAN), b = VEC_OF(dtype, 2, 2, 2, NAN);
    static const uint8_t expected[FV_COMPARE_COUNT][4] = {{0, 1, 0, 0}, {1, 0, 1, 1}, {1, 0, 0, 0},
                                                          {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 1, 1, 0}};
    const vec out = vec_new(FV_U8, 4);
    for (int op = 0; op < FV_COMPARE_COUNT; op++) {
        const fv_elementwise_args m = flat(op, 4);
        kernel_run(FV_KERNEL_COMPARE, dtype, PTRS(out.data, a.data, b.data), &m);
        CHECK(memcmp(out.data, expected[op], 4) == 0);
    }
    const vec cond = VEC_OF(FV_U8, 0, 1, 7, 0), c = vec_new(dtype, 4);
    fv_elementwise_args m = flat(0, 4);
    m.alpha = -1;
    m.beta = -2;
    kernel_run(FV_KERNEL_SELECT, dtype, PTRS(c.data, cond.data, a.data, b.data), &m);
    CHECK(vec_get(c, 0) == 2 && vec_get(c, 1) == 2 && vec_get(c, 2) == 3);
    kernel_run(FV_KERNEL_SELECT, dtype, PTRS(c.data, cond.data, NULL, b.data), &m);
    CHECK(vec_get(c, 0) == 2 && vec_get(c, 1) == -1 && vec_get(c, 2) == -1);
    kernel_run(FV_KERNEL_SELECT, dtype, PTRS(c.data, cond.data, a.data, NULL), &m);
    CHECK(vec_get(c, 0) == -2 && vec_get(c, 1) == 2 && vec_get(c, 3) == -2);
}

static void comparison_test(void) { for_reals(comparisons); }

static void integer_test(void)
{
    kernel_level(FV_SIMD_SCALAR);
    static const int32_t a[4] = {7, -7, INT32_MIN, 5}, b[4] = {2, 2, -1, 0};
    static const int32_t expected[6][4] = {{9, -5, INT32_MAX, 5},   {5, -9, INT32_MIN + 1, 5},
                                           {14, -14, INT32_MIN, 0}, {3, -3, INT32_MIN, 0},
                                           {7, 2, -1, 5},           {2, -7, INT32_MIN, 0}};
    int32_t c[4];
    int64_t wide_a[4], wide_b[4], wide_c[4];
    for (int i = 0; i < 4; i++) {
        wide_a[i] = a[i] == INT32_MIN ? INT64_MIN : a[i];
        wide_b[i] = b[i];
    }
    for (int op = FV_BINARY_ADD; op <= FV_BINARY_MINIMUM; op++) {
        const fv_elementwise_args m = flat(op, 4);
        kernel_run(FV_KERNEL_BINARY, FV_I32, PTRS(c, (void *)a, (void *)b), &m);
        CHECK(memcmp(c, expected[op], sizeof c) == 0);
        kernel_run(FV_KERNEL_BINARY, FV_I64, PTRS(wide_c, wide_a, wide_b), &m);
        CHECK(wide_c[0] == expected[op][0] && wide_c[1] == expected[op][1]);
    }
    CHECK(wide_c[2] == INT64_MIN); /* the minimum, last of the loop */
    static const fv_dtype kinds[3] = {FV_I32, FV_I64, FV_U8};
    for (int k = 0; k < 3; k++) {
        const vec x = VEC_OF(kinds[k], 1, 2, 3), y = VEC_OF(kinds[k], 2, 2, 2);
        const vec out = vec_new(FV_U8, 3), chosen = vec_new(kinds[k], 3);
        fv_elementwise_args m = flat(FV_COMPARE_LE, 3);
        kernel_run(FV_KERNEL_COMPARE, kinds[k], PTRS(out.data, x.data, y.data), &m);
        CHECK(memcmp(out.data, (uint8_t[]){1, 1, 0}, 3) == 0);
        m.beta = 9;
        kernel_run(FV_KERNEL_SELECT, kinds[k], PTRS(chosen.data, out.data, x.data, NULL), &m);
        CHECK(vec_get(chosen, 0) == 1 && vec_get(chosen, 2) == 9);
    }
    vec_free_all();
}

static void empty_and_scalar(fv_dtype dtype)
{
    const vec x = VEC_OF(dtype, 2, 3), y = VEC_OF(dtype, 5, 7);
    fv_elementwise_args m = {.op = FV_UNARY_SQUARE, .rank = 2, .shape = {3, 0}};
    kernel_run(FV_KERNEL_UNARY, dtype, PTRS(y.data, x.data), &m);
    CHECK(vec_get(y, 0) == 5);
    m.rank = 0;
    kernel_run(FV_KERNEL_UNARY, dtype, PTRS(y.data, x.data), &m);
    CHECK(vec_get(y, 0) == 4 && vec_get(y, 1) == 7);
}

static void empty_test(void) { for_reals(empty_and_scalar); }

/* ---- random numbers -------------------------------------------------------------- */

static void philox_test(void)
{
    static const struct {
        uint64_t key, row, block;
        uint32_t out[4];
    } known[] = {/* published answers of Philox 4x32-10 */
                 {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                 {~0ull, ~0ull, ~0ull, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                 {0x299f31d0a4093822,
                  0x85a308d3243f6a88,
                  0x0370734413198a2e,
                  {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        fv_rng_draw(known[i].key, known[i].row, known[i].block, out);
        CHECK(memcmp(out, known[i].out, sizeof out) == 0);
    }
    CHECK(fv_rng_key(1, 0, 0) != fv_rng_key(0, 1, 0));
    CHECK(fv_rng_key(0, 1, 0) != fv_rng_key(0, 0, 1));
    CHECK(fv_rng_unit(0) == 0 && fv_rng_unit(UINT32_MAX) < 1);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(unary_test);
    RUN(unary_edge_test);
    RUN(binary_test);
    RUN(binary_edge_test);
    RUN(comparison_test);
    RUN(integer_test);
    RUN(empty_test);
    RUN(philox_test);
    return TEST_END();
}
