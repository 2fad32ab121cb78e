/*
 * exp, log, tanh and erf of fovea/kernels.h against libm in double, and each level against the
 * scalar definition bit for bit.
 *
 * `make test` takes every 997th float and all floats near the edges; `test_vmath exhaustive`
 * takes all 2^32 (minutes) and prints the largest error of each function.
 */
#include "fovea/kernels.h"
#include "kernels/ref/math.h"
#include "support/test.h"

enum { BATCH = 1 << 16 };

typedef fv_status (*array_fn)(int64_t n, const float *x, fv_simd level, float *y);

typedef struct function {
    const char *name;
    array_fn array;
    double (*exact)(double);
    double bound; /* ULP, stated in fovea/kernels.h */
    float edges[8];
} function;

static const function functions[] = {
    {"exp",
     fv_vexp,
     exp,
     1.95,
     {88.7228f, -87.3365f, -103.97f, -104.0f, 11.09f, -11.09f, 89.0f, 0}},
    {"log",
     fv_vlog,
     log,
     0.82,
     {1.0f, 0x1p-126f, 0.6666667f, 1.3333334f, 2.0f, 0.0f, 3e38f, -1.0f}},
    {"tanh", fv_vtanh, tanh, 1.61, {9.0109f, -9.0109f, 0.0625f, 1.5f, 8.0f, 1e-38f, 0.0f, 3.0f}},
    {"erf", fv_verf, erf, 1.73, {3.9192f, -3.9192f, 0.25f, 1.0f, 3.75f, 1e-38f, 0.0f, 2.0f}},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, EDGE = 2000 };

static float arguments[BATCH], scalar[BATCH], vector[BATCH];
static bool exhaustive;

/* Error of y in units of the last place of the float nearest to the exact value. */
static double ulp_error(float y, double exact)
{
    if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0 : INFINITY;
    const float nearest = (float)exact;
    if (isinf(nearest) || isinf(y)) return y == nearest ? 0 : INFINITY;
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)y - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Checks the first n arguments on every level and returns the largest error. */
static double check_batch(const function *f, int64_t n)
{
    double worst = 0;
    CHECK_EQ(f->array(n, arguments, FV_SIMD_SCALAR, scalar), FV_OK);
    for (int64_t i = 0; i < n; i++) {
        const double error = ulp_error(scalar[i], f->exact((double)arguments[i]));
        if (error > f->bound)
            test_failed(__FILE__, __LINE__, "%s(%a) = %a: off by %.3f ULP", f->name,
                        (double)arguments[i], (double)scalar[i], error);
        if (error > worst) worst = error;
    }
    for (int level = FV_SIMD_AVX2; level <= (int)fv_simd_detect(); level++) {
        CHECK_EQ(f->array(n, arguments, (fv_simd)level, vector), FV_OK);
        if (memcmp(vector, scalar, (size_t)n * sizeof *scalar) == 0) continue;
        for (int64_t i = 0; i < n; i++)
            if (fv_float_bits(vector[i]) != fv_float_bits(scalar[i]) &&
                !(isnan(vector[i]) && isnan(scalar[i])))
                test_failed(__FILE__, __LINE__, "%s(%a) is %a at %s, %a as scalar", f->name,
                            (double)arguments[i], (double)vector[i], fv_simd_name((fv_simd)level),
                            (double)scalar[i]);
    }
    return worst;
}

static void check_range(const function *f)
{
    const uint64_t step = exhaustive ? 1 : 997;
    double worst = 0;
    int64_t n = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        arguments[n++] = fv_float_from_bits((uint32_t)bits);
        if (n < BATCH && bits + step <= UINT32_MAX) continue;
        worst = fmax(worst, check_batch(f, n));
        n = 0;
    }
    for (int e = 0; e < 8; e++) {
        const uint32_t middle = fv_float_bits(f->edges[e]);
        for (uint32_t k = 0; k < 2 * EDGE; k++)
            arguments[n++] = fv_float_from_bits(middle + k - EDGE);
    }
    worst = fmax(worst, check_batch(f, n));
    printf("%s: largest error %.4f ULP, %s\n", f->name, worst,
           exhaustive ? "all floats" : "every 997th float and the edges");
}

static void errors_and_levels(void)
{
    for (int k = 0; k < FUNCTIONS; k++)
        check_range(&functions[k]);
}

/* log1p has no array form; kernels use it inside softplus. */
static void log1p_errors(void)
{
    const uint64_t step = exhaustive ? 1 : 997;
    double worst = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        const float x = fv_float_from_bits((uint32_t)bits);
        worst = fmax(worst, ulp_error(fv_log1pf_ref(x), log1p((double)x)));
    }
    CHECK(worst <= 0.8305);
    printf("log1p: largest error %.4f ULP\n", worst);
}

/* Nor has phi, which is inside GELU. Below zero the distance counts: it is 1/2 less something. */
static void phi_errors(void)
{
    const uint64_t step = exhaustive ? 1 : 997;
    double worst = 0, worst_below = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += step) {
        const float x = fv_float_from_bits((uint32_t)bits);
        const double exact = 0.5 * erfc(-(double)x * sqrt(0.5));
        if (isnan(x)) continue;
        if (x >= 0)
            worst = fmax(worst, ulp_error(fv_phif_ref(x), exact));
        else
            worst_below = test_worse(worst_below, fabs((double)fv_phif_ref(x) - exact));
    }
    CHECK(worst <= 1.01 && worst_below <= 3.7e-8);
    CHECK(fv_phif_ref(0) == 0.5f && fv_phif_ref(-0.0f) == 0.5f);
    CHECK(fv_phif_ref(5.6f) == 1 && fv_phif_ref(INFINITY) == 1);
    CHECK(fv_phif_ref(-5.6f) == 0 && fv_phif_ref(-INFINITY) == 0);
    printf("phi: largest error %.4f ULP, below zero %.3g\n", worst, worst_below);
}

static float value(array_fn f, fv_simd level, float x)
{
    float y = 0;
    CHECK_EQ(f(1, &x, level, &y), FV_OK);
    return y;
}

static void special_values(void)
{
    for (int l = FV_SIMD_SCALAR; l <= (int)fv_simd_detect(); l++) {
        const fv_simd level = (fv_simd)l;
        CHECK(value(fv_vexp, level, -INFINITY) == 0);
        CHECK(value(fv_vexp, level, INFINITY) == INFINITY);
        CHECK(value(fv_vexp, level, -3e38f) == 0);
        CHECK(value(fv_vexp, level, 0) == 1 && value(fv_vexp, level, -0.0f) == 1);
        CHECK(value(fv_vexp, level, 88.7229f) == INFINITY);
        CHECK(value(fv_vexp, level, -103.9f) == 0x1p-149f);
        CHECK(value(fv_vlog, level, 0) == -INFINITY && value(fv_vlog, level, -0.0f) == -INFINITY);
        CHECK(value(fv_vlog, level, INFINITY) == INFINITY && value(fv_vlog, level, 1) == 0);
        CHECK(isnan(value(fv_vlog, level, -1e-40f)) && isnan(value(fv_vlog, level, -INFINITY)));
        for (int k = 0; k < FUNCTIONS; k++)
            CHECK(isnan(value(functions[k].array, level, NAN)));
        for (int k = 2; k < FUNCTIONS; k++) {
            CHECK(value(functions[k].array, level, INFINITY) == 1);
            CHECK(value(functions[k].array, level, -INFINITY) == -1);
            CHECK(value(functions[k].array, level, -20.0f) == -1);
            CHECK(signbit(value(functions[k].array, level, -0.0f)) != 0);
            CHECK(!signbit(value(functions[k].array, level, 0.0f)));
        }
    }
}

/* The same element gives the same bits wherever it lies, in place too. */
static void place_in_array(void)
{
    for (int k = 0; k < FUNCTIONS; k++) {
        for (int n = 0; n <= 200; n++) {
            for (int i = 0; i < n; i++)
                vector[i] = arguments[i] = (float)(i - n / 3) * 0.37f;
            CHECK_EQ(functions[k].array(n, vector, FV_SIMD_AUTO, vector), FV_OK);
            CHECK_EQ(functions[k].array(n, arguments, FV_SIMD_SCALAR, scalar), FV_OK);
            for (int i = 0; i < n; i++)
                CHECK(fv_float_bits(vector[i]) == fv_float_bits(scalar[i]) ||
                      (isnan(vector[i]) && isnan(scalar[i])));
        }
    }
}

static void bad_calls(void)
{
    float y[1] = {3};
    const float x[1] = {1};
    for (int k = 0; k < FUNCTIONS; k++) {
        const array_fn f = functions[k].array;
        CHECK_EQ(f(-1, x, FV_SIMD_AUTO, y), FV_ERR_ARGUMENT);
        CHECK_EQ(f(1, NULL, FV_SIMD_AUTO, y), FV_ERR_ARGUMENT);
        CHECK_EQ(f(1, x, FV_SIMD_AUTO, NULL), FV_ERR_ARGUMENT);
        CHECK_EQ(f(1, x, (fv_simd)99, y), FV_ERR_ARGUMENT);
        CHECK_EQ(f(0, NULL, FV_SIMD_AUTO, NULL), FV_OK);
        if (fv_simd_detect() < FV_SIMD_AVX512)
            CHECK_EQ(f(1, x, FV_SIMD_AVX512, y), FV_ERR_UNSUPPORTED);
        CHECK(y[0] == 3);
    }
}

TEST_MAIN(argc, argv)
{
    exhaustive = argc > 1 && strcmp(argv[1], "exhaustive") == 0;
    if (exhaustive)
        TEST_BEGIN(1, argv);
    else
        TEST_BEGIN(argc, argv);
    RUN(errors_and_levels);
    RUN(log1p_errors);
    RUN(phi_errors);
    RUN(special_values);
    RUN(place_in_array);
    RUN(bad_calls);
    return TEST_END();
}
