/* Reductions and running sums: which axes, what nothing gives, NaN, ties, and the errors. */
#include "support/values.h"

static const double inf = INFINITY;

#define AXES(...)                                                                                  \
    TEST_COUNT_OF(int, __VA_ARGS__), (const int[]) { __VA_ARGS__ }
#define ALL 0, NULL

/* ---- axes ------------------------------------------------------------------------- */

static void any_axes_any_order(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 3, 4));
    CHECK_TENSOR(ctx, fv_sum(ctx, x, ALL, false), FV_F32, SCALAR, 276);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, ALL, true), FV_F32, SHAPE(1, 1, 1), 276);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(2), false), FV_F32, SHAPE(2, 3), 6, 22, 38, 54, 70, 86);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(-3), false), FV_F32, SHAPE(3, 4), 12, 14, 16, 18, 20, 22,
                 24, 26, 28, 30, 32, 34);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(1), true), FV_F32, SHAPE(2, 1, 4), 12, 15, 18, 21, 48, 51,
                 54, 57);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(0, 2), false), FV_F32, SHAPE(3), 60, 92, 124);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(-1, 0), true), FV_F32, SHAPE(1, 3, 1), 60, 92, 124);
    CHECK_TENSOR(ctx, fv_mean(ctx, x, AXES(0, 1), false), FV_F32, SHAPE(4), 10, 11, 12, 13);
    CHECK_TENSOR(ctx, fv_sum(ctx, fv_scalar(ctx, FV_F64, 5), ALL, true), FV_F64, SCALAR, 5);
    values_end(&ctx);
}

static void axes_are_checked(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 3));
    const int nine[9] = {0};
    CHECK_REFUSED(ctx, fv_sum(ctx, x, AXES(2), false), FV_ERR_ARGUMENT,
                  "sum: axis 2 is out of range");
    CHECK_REFUSED(ctx, fv_mean(ctx, x, AXES(-3), false), FV_ERR_ARGUMENT, "mean: axis -3");
    CHECK_REFUSED(ctx, fv_max(ctx, x, AXES(1, -1), false), FV_ERR_ARGUMENT,
                  "max: axis 1 is listed twice");
    CHECK_REFUSED(ctx, fv_sum(ctx, x, 9, nine, false), FV_ERR_ARGUMENT, "sum: the list of axes");
    CHECK_REFUSED(ctx, fv_sum(ctx, x, -1, nine, false), FV_ERR_ARGUMENT, "sum: the list of axes");
    CHECK_REFUSED(ctx, fv_norm(ctx, x, 1, NULL, false), FV_ERR_ARGUMENT, "norm: the list of axes");
    CHECK_REFUSED(ctx, fv_sum(ctx, fv_scalar(ctx, FV_F32, 1), AXES(0), false), FV_ERR_ARGUMENT,
                  "sum: axis 0 is out of range for a tensor of rank 0");
    CHECK_REFUSED(ctx, fv_argmax(ctx, x, 2, false), FV_ERR_ARGUMENT, "argmax: axis 2");
    CHECK_REFUSED(ctx, fv_cumsum(ctx, x, -3), FV_ERR_ARGUMENT, "cumsum: axis -3");
    CHECK_REFUSED(ctx, fv_cumsum(ctx, fv_scalar(ctx, FV_F32, 1), 0), FV_ERR_ARGUMENT, "rank 0");
    values_end(&ctx);
}

static void only_reals_are_reduced(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_I64, SHAPE(2));
    CHECK_REFUSED(ctx, fv_sum(ctx, x, ALL, false), FV_ERR_DTYPE, "sum: input 0 is i64");
    CHECK_REFUSED(ctx, fv_argmin(ctx, x, 0, false), FV_ERR_DTYPE, "argmin: input 0 is i64");
    CHECK_REFUSED(ctx, fv_cumsum(ctx, x, 0), FV_ERR_DTYPE, "cumsum: input 0 is i64");
    CHECK_REFUSED(ctx, fv_logsumexp(ctx, NULL, ALL, false), FV_ERR_ARGUMENT,
                  "logsumexp: input 0 is missing");
    values_end(&ctx);
}

/* ---- nothing ---------------------------------------------------------------------- */

static void sums_of_nothing(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_none(ctx, FV_F32, SHAPE(0, 2));
    CHECK_TENSOR(ctx, fv_sum(ctx, x, AXES(0), false), FV_F32, SHAPE(2), 0, 0);
    CHECK_TENSOR(ctx, fv_sum(ctx, x, ALL, false), FV_F32, SCALAR, 0);
    CHECK_TENSOR(ctx, fv_mean(ctx, x, AXES(0), true), FV_F32, SHAPE(1, 2), NAN, NAN);
    CHECK_TENSOR(ctx, fv_logsumexp(ctx, x, AXES(0), false), FV_F32, SHAPE(2), -inf, -inf);
    CHECK_TENSOR(ctx, fv_norm(ctx, x, ALL, false), FV_F32, SCALAR, 0);
    CHECK_EMPTY(ctx, fv_sum(ctx, x, AXES(1), false), FV_F32, SHAPE(0));
    CHECK_EMPTY(ctx, fv_mean(ctx, x, AXES(1), true), FV_F32, SHAPE(0, 1));
    CHECK_EMPTY(ctx, fv_cumsum(ctx, x, 0), FV_F32, SHAPE(0, 2));
    fv_tensor *leaf = fv_leaf(ctx, values_none(ctx, FV_F32, SHAPE(0, 2)));
    values_backward(ctx, fv_sum(ctx, leaf, ALL, false));
    CHECK_EMPTY(ctx, fv_grad(ctx, leaf), FV_F32, SHAPE(0, 2));
    values_end(&ctx);
}

static void nothing_has_no_maximum(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_none(ctx, FV_F32, SHAPE(0, 2));
    CHECK_REFUSED(ctx, fv_max(ctx, x, AXES(0), false), FV_ERR_SHAPE, "max: no elements to choose");
    CHECK_REFUSED(ctx, fv_min(ctx, x, ALL, false), FV_ERR_SHAPE, "[0,2]");
    CHECK_REFUSED(ctx, fv_argmax(ctx, x, 0, false), FV_ERR_SHAPE, "argmax: no elements to choose");
    CHECK_REFUSED(ctx, fv_argmin(ctx, x, -2, true), FV_ERR_SHAPE, "argmin: no elements to choose");
    CHECK_EMPTY(ctx, fv_max(ctx, x, AXES(1), false), FV_F32, SHAPE(0));
    CHECK_EMPTY(ctx, fv_argmin(ctx, x, 1, true), FV_I64, SHAPE(0, 1));
    values_end(&ctx);
}

/* ---- extremes --------------------------------------------------------------------- */

static void extremes_and_their_places(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(2, 4), 3, 1, 3, 2, -5, -1, -5, -1);
    CHECK_TENSOR(ctx, fv_max(ctx, x, AXES(1), false), FV_F32, SHAPE(2), 3, -1);
    CHECK_TENSOR(ctx, fv_min(ctx, x, AXES(0), true), FV_F32, SHAPE(1, 4), -5, -1, -5, -1);
    CHECK_TENSOR(ctx, fv_argmax(ctx, x, -1, false), FV_I64, SHAPE(2), 0, 1);
    CHECK_TENSOR(ctx, fv_argmin(ctx, x, 1, true), FV_I64, SHAPE(2, 1), 1, 0);
    CHECK_TENSOR(ctx, fv_argmax(ctx, x, 0, false), FV_I64, SHAPE(4), 0, 0, 0, 0);
    fv_tensor *strange = TENSOR(ctx, FV_F64, SHAPE(2, 3), 1, NAN, 2, -inf, inf, 0);
    CHECK_TENSOR(ctx, fv_max(ctx, strange, AXES(1), false), FV_F64, SHAPE(2), NAN, inf);
    CHECK_TENSOR(ctx, fv_min(ctx, strange, AXES(1), false), FV_F64, SHAPE(2), NAN, -inf);
    CHECK_TENSOR(ctx, fv_argmax(ctx, strange, 1, false), FV_I64, SHAPE(2), 1, 1);
    CHECK_TENSOR(ctx, fv_argmin(ctx, strange, 1, false), FV_I64, SHAPE(2), 1, 0);
    values_end(&ctx);
}

static void a_tie_goes_to_the_first(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2, 3), 4, 9, 9, 7, 7, 1));
    values_backward(ctx, fv_max(ctx, x, AXES(1), false));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3), 0, 1, 0, 1, 0, 0);
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_min(ctx, x, ALL, false));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3), 0, 0, 0, 0, 0, 1);
    values_end(&ctx);
}

/* The saved index of an element over several axes must address the right element, whatever the
 * strides of the input. */
static void the_gradient_of_a_maximum_over_two_axes_reaches_its_element(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x =
        fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2, 2, 3), 0, 1, 2, 9, 4, 5, 6, 7, 8, 3, 10, 11));
    fv_tensor *permuted = fv_permute(ctx, x, (int[]){2, 1, 0}); /* [3,2,2] */
    fv_tensor *y = fv_max(ctx, permuted, AXES(1, 2), false);
    CHECK_TENSOR(ctx, y, FV_F32, SHAPE(3), 9, 10, 11);
    CHECK_OK(ctx, fv_backward_from(ctx, y, TENSOR(ctx, FV_F32, SHAPE(3), 1, 2, 3)));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 2, 3), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 3);
    values_end(&ctx);
}

static void indices_carry_no_gradient(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(3)));
    fv_tensor *i = fv_argmax(ctx, x, 0, false);
    CHECK_EQ(fv_backward(ctx, i), FV_ERR_STATE);
    values_end(&ctx);
}

/* ---- logarithms and lengths -------------------------------------------------------- */

static void logsumexp_does_not_overflow(void)
{
    fv_ctx *ctx = values_begin();
    for (int k = 0; k < 2; k++) {
        fv_dtype d = k ? FV_F64 : FV_F32;
        fv_tensor *x =
            fv_leaf(ctx, TENSOR(ctx, d, SHAPE(4, 2), 1000, 1000, -1000, -1000, -inf, -inf, inf, 1));
        fv_tensor *y = fv_logsumexp(ctx, x, AXES(1), false);
        CHECK_NEAR_TENSOR(ctx, y, d, SHAPE(4), 1000 + log(2), -1000 + log(2), -inf, inf);
        fv_tensor *finite = fv_slice(ctx, y, 0, 0, 3, 1);
        values_backward(ctx, finite);
        double g[8];
        CHECK_EQ(values_read(ctx, fv_grad(ctx, x), g, 8), 8);
        for (int i = 0; i < 6; i++) /* the result itself is off by half an ulp of 1000 */
            CHECK_NEAR(g[i], i < 4 ? 0.5 : 0.0, k ? 0x1p-44 : 0x1p-15);
        CHECK_TENSOR(ctx, fv_logsumexp(ctx, TENSOR(ctx, d, SHAPE(2), NAN, inf), ALL, false), d,
                     SCALAR, NAN);
    }
    values_end(&ctx);
}

static void norm_is_the_length(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(2, 2), 3, -4, 0, 0));
    fv_tensor *y = fv_norm(ctx, x, AXES(1), true);
    CHECK_TENSOR(ctx, y, FV_F64, SHAPE(2, 1), 5, 0);
    values_backward(ctx, y);
    CHECK_NEAR_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(2, 2), 0.6, -0.8, 0, 0);
    values_end(&ctx);
}

/* ---- gradients of sums -------------------------------------------------------------- */

static void gradients_are_repeated(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(2, 3)));
    fv_tensor *weights = TENSOR(ctx, FV_F32, SHAPE(3), 1, 10, 100);
    CHECK_OK(ctx, fv_backward_from(ctx, fv_sum(ctx, x, AXES(0), false), weights));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3), 1, 10, 100, 1, 10, 100);
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_mean(ctx, fv_transpose(ctx, x, 0, 1), AXES(1), false));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3), 0.5, 0.5, 0.5, 0.5, 0.5, 0.5);
    values_end(&ctx);
}

/* A sum's gradient may arrive as a view with any strides. */
static void gradients_may_come_strided(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(2, 3, 2)));
    fv_tensor *y = fv_transpose(ctx, fv_sum(ctx, x, AXES(2), false), 0, 1); /* [3,2] */
    CHECK_OK(ctx, fv_backward_from(ctx, y, values_counting(ctx, FV_F32, SHAPE(3, 2))));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3, 2), 0, 0, 2, 2, 4, 4, 1, 1, 3, 3, 5, 5);
    values_end(&ctx);
}

/* ---- layouts ------------------------------------------------------------------------ */

/* Not only near: the order of summation is that of the elements, not of memory. */
static void strides_do_not_change_the_bits(void)
{
    enum { ROWS = 37, COLS = 53 };
    fv_ctx *ctx = values_begin();
    static double values[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++)
        values[i] = sin(i * 0.7) * exp(3 * cos(i * 1.3));
    fv_tensor *x = values_of(ctx, FV_F32, SHAPE(ROWS, COLS), ROWS * COLS, values);
    fv_tensor *transposed = fv_transpose(ctx, x, 0, 1);
    fv_tensor *copy = fv_contiguous(ctx, transposed);
    double a[COLS], b[COLS];
    for (int axis = 0; axis < 2; axis++) {
        int64_t n = values_read(ctx, fv_sum(ctx, transposed, 1, &axis, false), a, COLS);
        CHECK_EQ(values_read(ctx, fv_sum(ctx, copy, 1, &axis, false), b, COLS), n);
        for (int64_t i = 0; i < n; i++)
            CHECK(a[i] == b[i]);
    }
    values_read(ctx, fv_norm(ctx, transposed, ALL, false), a, 1);
    values_read(ctx, fv_norm(ctx, copy, ALL, false), b, 1);
    CHECK(a[0] == b[0]);
    values_end(&ctx);
}

static void repeated_elements_count_each_time(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(3, 1), 1, 2, 4);
    fv_tensor *wide = fv_broadcast(ctx, x, 3, (int64_t[]){2, 3, 5});
    CHECK_TENSOR(ctx, fv_sum(ctx, wide, ALL, false), FV_F32, SCALAR, 70);
    CHECK_TENSOR(ctx, fv_sum(ctx, wide, AXES(0, 2), false), FV_F32, SHAPE(3), 10, 20, 40);
    CHECK_TENSOR(ctx, fv_cumsum(ctx, wide, 2), FV_F32, SHAPE(2, 3, 5), 1, 2, 3, 4, 5, 2, 4, 6, 8,
                 10, 4, 8, 12, 16, 20, 1, 2, 3, 4, 5, 2, 4, 6, 8, 10, 4, 8, 12, 16, 20);
    values_end(&ctx);
}

/* ---- running sums ------------------------------------------------------------------- */

static void running_sums_along_any_axis(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    CHECK_TENSOR(ctx, fv_cumsum(ctx, x, 1), FV_F32, SHAPE(2, 3), 1, 3, 6, 4, 9, 15);
    CHECK_TENSOR(ctx, fv_cumsum(ctx, x, -2), FV_F32, SHAPE(2, 3), 1, 2, 3, 5, 7, 9);
    fv_tensor *transposed = fv_transpose(ctx, x, 0, 1);
    CHECK_TENSOR(ctx, fv_cumsum(ctx, transposed, 1), FV_F32, SHAPE(3, 2), 1, 5, 2, 7, 3, 9);
    CHECK_TENSOR(ctx, fv_cumsum(ctx, transposed, 0), FV_F32, SHAPE(3, 2), 1, 4, 3, 9, 6, 15);
    fv_tensor *deep = values_counting(ctx, FV_F64, SHAPE(2, 2, 2));
    CHECK_TENSOR(ctx, fv_cumsum(ctx, deep, 1), FV_F64, SHAPE(2, 2, 2), 0, 1, 2, 4, 4, 5, 10, 12);
    CHECK_TENSOR(ctx, x, FV_F32, SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    values_end(&ctx);
}

static void running_sums_run_back(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(3, 2)));
    fv_tensor *weights = TENSOR(ctx, FV_F32, SHAPE(3, 2), 1, 10, 100, 2, 20, 200);
    CHECK_OK(ctx, fv_backward_from(ctx, fv_cumsum(ctx, x, 0), weights));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(3, 2), 121, 212, 120, 202, 20, 200);
    values_end(&ctx);
}

static void all(void)
{
    RUN(any_axes_any_order);
    RUN(axes_are_checked);
    RUN(only_reals_are_reduced);
    RUN(sums_of_nothing);
    RUN(nothing_has_no_maximum);
    RUN(extremes_and_their_places);
    RUN(a_tie_goes_to_the_first);
    RUN(the_gradient_of_a_maximum_over_two_axes_reaches_its_element);
    RUN(indices_carry_no_gradient);
    RUN(logsumexp_does_not_overflow);
    RUN(norm_is_the_length);
    RUN(gradients_are_repeated);
    RUN(gradients_may_come_strided);
    RUN(strides_do_not_change_the_bits);
    RUN(repeated_elements_count_each_time);
    RUN(running_sums_along_any_axis);
    RUN(running_sums_run_back);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    all();
    values_device(FV_DEVICE_GUARDED); /* once more, with late launches and unreadable memory */
    all();
    return TEST_END();
}
