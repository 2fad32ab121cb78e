/*
 * Copies and conversions: every pair of dtypes, every 16-bit float, saturation, any strides.
 */
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/half.h"
#include "support/kernels.h"

/* ---- 16-bit floats --------------------------------------------------------------- */

/* The value of a 16-bit float with that many exponent bits, from its definition. */
static double half_value(uint16_t h, int exponent_bits)
{
    const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (h >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = h & ((1 << mantissa_bits) - 1);
    double magnitude;
    if (exponent == (1 << exponent_bits) - 1)
        magnitude = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        magnitude = ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
    return h & 0x8000 ? -magnitude : magnitude;
}

static bool same_float(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

static void every_half_round_trips(void)
{
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t h = (uint16_t)i;
        const float b = fv_bf16_to_f32(h), f = fv_f16_to_f32(h);
        CHECK(same_float((double)b, half_value(h, 8)));
        CHECK(same_float((double)f, half_value(h, 5)));
        if (isnan(b)) {
            CHECK(isnan(fv_bf16_to_f32(fv_f32_to_bf16(b))));
            CHECK(fv_f32_to_bf16(b) & 0x40); /* quiet */
        } else {
            CHECK_EQ(fv_f32_to_bf16(b), h);
        }
        if (isnan(f)) {
            CHECK(isnan(fv_f16_to_f32(fv_f32_to_f16(f))));
            CHECK(fv_f32_to_f16(f) & 0x200);
        } else {
            CHECK_EQ(fv_f32_to_f16(f), h);
        }
    }
}

/* Between each pair of neighbours: the middle goes to the even one, beside it to the nearer. */
static void narrowing_rounds_to_nearest_even(void)
{
    for (uint32_t i = 0; i < 0x7bff; i++) {
        const uint16_t even = (uint16_t)(i & 1 ? i + 1 : i);
        const double lo = half_value((uint16_t)i, 5), hi = half_value((uint16_t)(i + 1), 5);
        const double middle = (lo + hi) / 2;
        CHECK_EQ(fv_f32_to_f16((float)middle), even);
        CHECK_EQ(fv_f32_to_f16(nextafterf((float)middle, 0)), i);
        CHECK_EQ(fv_f32_to_f16(nextafterf((float)middle, INFINITY)), i + 1);
        CHECK_EQ(fv_f32_to_f16(fv_f64_to_f32_odd(nextafter(middle, 0))), i);
        CHECK_EQ(fv_f32_to_f16(fv_f64_to_f32_odd(nextafter(middle, INFINITY))), i + 1);
    }
    for (uint32_t i = 0; i < 0x7f7f; i++) {
        const uint16_t even = (uint16_t)(i & 1 ? i + 1 : i);
        const double lo = half_value((uint16_t)i, 8), hi = half_value((uint16_t)(i + 1), 8);
        const double middle = (lo + hi) / 2;
        CHECK_EQ(fv_f32_to_bf16((float)middle), even);
        CHECK_EQ(fv_f32_to_bf16(fv_f64_to_f32_odd(nextafter(middle, 0))), i);
        CHECK_EQ(fv_f32_to_bf16(fv_f64_to_f32_odd(nextafter(middle, INFINITY))), i + 1);
    }
    CHECK_EQ(fv_f32_to_f16(65519.99f), 0x7bff);
    CHECK_EQ(fv_f32_to_f16(65520.0f), 0x7c00);
    CHECK_EQ(fv_f32_to_f16(-INFINITY), 0xfc00);
    CHECK_EQ(fv_f32_to_bf16(3.4e38f), 0x7f80);
    CHECK_EQ(fv_f32_to_f16(fv_f64_to_f32_odd(1e300)), 0x7c00);
    CHECK_EQ(fv_f32_to_bf16(fv_f64_to_f32_odd(-1e300)), 0xff80);
    CHECK_EQ(fv_f32_to_f16(fv_f64_to_f32_odd(1e-300)), 0);
}

/* ---- conversions ----------------------------------------------------------------- */

static void copy_flat(void *out, fv_dtype to, const void *in, fv_dtype from, int64_t n)
{
    const fv_elementwise_args m = {
        .rank = 1, .shape = {n}, .stride = {{1}, {1}}, .to = to, .from = from};
    kernel_run(FV_KERNEL_COPY, FV_F32, PTRS(out, (void *)(uintptr_t)in), &m);
}

static void small_integers_survive_every_pair(void)
{
    kernel_level(FV_SIMD_SCALAR);
    enum { N = 300 }; /* more than one block of the converter */
    for (int from = 0; from < FV_DTYPE_COUNT; from++) {
        for (int to = 0; to < FV_DTYPE_COUNT; to++) {
            double start[N], back[N];
            char a[8 * N], b[8 * N];
            for (int i = 0; i < N; i++)
                start[i] = i % 101;
            copy_flat(a, (fv_dtype)from, start, FV_F64, N);
            copy_flat(b, (fv_dtype)to, a, (fv_dtype)from, N);
            copy_flat(back, FV_F64, b, (fv_dtype)to, N);
            CHECK(memcmp(start, back, sizeof start) == 0);
        }
    }
}

static void conversions_saturate(void)
{
    kernel_level(FV_SIMD_SCALAR);
    const double in[] = {NAN, 1e30, -1e30, 2.9, -2.9, INFINITY, -INFINITY, 255.5, 2147483647.5};
    enum { N = sizeof in / sizeof *in };
    int32_t i32[N];
    int64_t i64[N];
    uint8_t u8[N];
    copy_flat(i32, FV_I32, in, FV_F64, N);
    copy_flat(i64, FV_I64, in, FV_F64, N);
    copy_flat(u8, FV_U8, in, FV_F64, N);
    const int32_t want32[N] = {0,         INT32_MAX, INT32_MIN, 2,        -2,
                               INT32_MAX, INT32_MIN, 255,       INT32_MAX};
    const int64_t want64[N] = {0,         INT64_MAX, INT64_MIN, 2,         -2,
                               INT64_MAX, INT64_MIN, 255,       2147483647};
    const uint8_t want8[N] = {0, 255, 0, 2, 0, 255, 0, 255, 255};
    CHECK(memcmp(i32, want32, sizeof i32) == 0);
    CHECK(memcmp(i64, want64, sizeof i64) == 0);
    CHECK(memcmp(u8, want8, sizeof u8) == 0);
    const int64_t big[] = {INT64_MAX, INT64_MIN, 300, -1, (1ll << 62) + (1ll << 54) + 1};
    copy_flat(u8, FV_U8, big, FV_I64, 4);
    CHECK(u8[0] == 255 && u8[1] == 0 && u8[2] == 255 && u8[3] == 0);
    copy_flat(i32, FV_I32, big, FV_I64, 2);
    CHECK(i32[0] == INT32_MAX && i32[1] == INT32_MIN);
    uint16_t b16[5];
    copy_flat(b16, FV_BF16, big, FV_I64, 5);
    CHECK(b16[0] == 0x5f00 && b16[1] == 0xdf00); /* 2^63, -2^63 */
    CHECK(b16[4] == 0x5e81);                     /* just above the middle: one rounding, not two */
    copy_flat(b16, FV_F16, big, FV_I64, 3);
    CHECK(b16[0] == 0x7c00 && b16[1] == 0xfc00 && fv_f16_to_f32(b16[2]) == 300);
}

/* ---- strides --------------------------------------------------------------------- */

/* Copies in (of shape, through in strides) to out and checks each element by its index. */
static void check_copy(fv_dtype dtype, const fv_elementwise_args *layout, int64_t in_n,
                       int64_t out_n)
{
    vec in = vec_new(dtype, in_n), out = vec_new(dtype, out_n);
    for (int64_t i = 0; i < in_n; i++)
        vec_set(in, i, (double)(i % 251));
    fv_elementwise_args m = *layout;
    m.to = m.from = dtype;
    kernel_run(FV_KERNEL_COPY, dtype, PTRS(out.data, in.data), &m);
    int64_t index[FV_MAX_RANK] = {0};
    for (bool more = true; more;) {
        int64_t o = 0, i = 0;
        for (int axis = 0; axis < m.rank; axis++) {
            o += index[axis] * m.stride[0][axis];
            i += index[axis] * m.stride[1][axis];
        }
        if (vec_get(out, o) != vec_get(in, i))
            test_failed(__FILE__, __LINE__, "element %lld of %s", (long long)o,
                        fv_dtype_name(dtype));
        int axis = m.rank - 1;
        while (axis >= 0 && ++index[axis] == m.shape[axis])
            index[axis--] = 0;
        more = axis >= 0;
    }
    vec_free_all();
}

static void copies_follow_strides(void)
{
    kernel_level(FV_SIMD_SCALAR);
    static const fv_elementwise_args layouts[] = {
        {.rank = 1, .shape = {9000}, .stride = {{1}, {1}}},
        {.rank = 2, .shape = {70, 45}, .stride = {{45, 1}, {1, 70}}},              /* transpose */
        {.rank = 2, .shape = {45, 70}, .stride = {{1, 45}, {70, 1}}},              /* into one */
        {.rank = 3, .shape = {3, 33, 65}, .stride = {{2145, 65, 1}, {1, 195, 3}}}, /* permuted */
        {.rank = 3, .shape = {5, 40, 31}, .stride = {{1240, 31, 1}, {1240, 1, 40}}},
        {.rank = 3, .shape = {2, 3, 7}, .stride = {{21, 7, 1}, {50, 9, 1}}}, /* rows apart */
        {.rank = 2, .shape = {6, 11}, .stride = {{11, 1}, {0, 1}}},          /* broadcast */
        {.rank = 2, .shape = {6, 11}, .stride = {{11, 1}, {1, 0}}},
        {.rank = 2, .shape = {4, 5}, .stride = {{10, 2}, {15, 3}}},
        {.rank = 0},
    };
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        check_copy(FV_F32, &layouts[k], 9000, 9000);
        check_copy(FV_F64, &layouts[k], 9000, 9000);
        check_copy(FV_U8, &layouts[k], 9000, 9000);
    }
}

static void fill_test(void)
{
    kernel_level(FV_SIMD_SCALAR);
    static const fv_dtype kinds[] = {FV_F32, FV_F64, FV_I32, FV_I64, FV_U8};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const vec v = vec_new(kinds[k], 12);
        const double untouched = vec_get(v, 1);
        fv_elementwise_args m = {
            .rank = 2, .shape = {2, 3}, .stride = {{6, 2}}, .alpha = 3, .to = kinds[k]};
        kernel_run(FV_KERNEL_FILL, kinds[k], PTRS(v.data), &m);
        CHECK(vec_get(v, 0) == 3 && vec_get(v, 10) == 3);
        CHECK(isnan(untouched) ? isnan(vec_get(v, 1)) : vec_get(v, 1) == untouched);
        m.alpha = 0;
        kernel_run(FV_KERNEL_FILL, kinds[k], PTRS(v.data), &m);
        CHECK(vec_get(v, 0) == 0 && vec_get(v, 10) == 0);
        CHECK(isnan(untouched) ? isnan(vec_get(v, 1)) : vec_get(v, 1) == untouched);
        m = (fv_elementwise_args){.rank = 1, .shape = {12}, .stride = {{1}}, .to = kinds[k]};
        kernel_run(FV_KERNEL_FILL, kinds[k], PTRS(v.data), &m);
        for (int64_t i = 0; i < 12; i++)
            CHECK(vec_get(v, i) == 0);
    }
    float minus_zero = 1;
    const fv_elementwise_args m = {.rank = 0, .alpha = -0.0, .to = FV_F32};
    kernel_run(FV_KERNEL_FILL, FV_F32, PTRS(&minus_zero), &m);
    CHECK(minus_zero == 0 && signbit(minus_zero));
    vec_free_all();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_half_round_trips);
    RUN(narrowing_rounds_to_nearest_even);
    RUN(small_integers_survive_every_pair);
    RUN(conversions_saturate);
    RUN(copies_follow_strides);
    RUN(fill_test);
    return TEST_END();
}
