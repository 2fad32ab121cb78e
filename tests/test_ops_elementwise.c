/* Elementwise ops: broadcasting, dtypes, special numbers, and what their errors say. */
#include "support/formulas.h"
#include "support/values.h"

static const double inf = INFINITY;

/* ---- broadcasting ----------------------------------------------------------------- */

static void shapes_broadcast(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *row = TENSOR(ctx, FV_F32, SHAPE(3), 1, 2, 3);
    fv_tensor *column = TENSOR(ctx, FV_F32, SHAPE(2, 1), 10, 20);
    CHECK_TENSOR(ctx, fv_add(ctx, column, row), FV_F32, SHAPE(2, 3), 11, 12, 13, 21, 22, 23);
    CHECK_TENSOR(ctx, fv_sub(ctx, row, column), FV_F32, SHAPE(2, 3), -9, -8, -7, -19, -18, -17);
    CHECK_TENSOR(ctx, fv_mul(ctx, fv_scalar(ctx, FV_F32, 2), row), FV_F32, SHAPE(3), 2, 4, 6);
    CHECK_TENSOR(ctx, fv_div(ctx, fv_scalar(ctx, FV_F32, 3), fv_scalar(ctx, FV_F32, 2)), FV_F32,
                 SCALAR, 1.5);
    fv_tensor *deep = values_counting(ctx, FV_F32, SHAPE(2, 1, 1, 2));
    CHECK_TENSOR(ctx, fv_maximum(ctx, deep, TENSOR(ctx, FV_F32, SHAPE(2, 1), 1, 2)), FV_F32,
                 SHAPE(2, 1, 2, 2), 1, 1, 2, 2, 2, 3, 2, 3);
    values_end(&ctx);
}

static void empty_tensors_broadcast(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *none = values_none(ctx, FV_F32, SHAPE(0, 4));
    fv_tensor *row = values_counting(ctx, FV_F32, SHAPE(4));
    CHECK_EMPTY(ctx, fv_add(ctx, none, row), FV_F32, SHAPE(0, 4));
    CHECK_EMPTY(ctx, fv_mul(ctx, fv_scalar(ctx, FV_F32, 1), none), FV_F32, SHAPE(0, 4));
    CHECK_EMPTY(ctx, fv_lt(ctx, values_counting(ctx, FV_F32, SHAPE(1, 4)), none), FV_U8,
                SHAPE(0, 4));
    CHECK_EMPTY(ctx, fv_gelu(ctx, none), FV_F32, SHAPE(0, 4));
    CHECK_REFUSED(ctx, fv_add(ctx, none, values_counting(ctx, FV_F32, SHAPE(2, 4))), FV_ERR_SHAPE,
                  "[0,4] and [2,4]");
    values_end(&ctx);
}

static void repeated_inputs_sum_their_gradients(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(2, 1), 1, 2));
    fv_tensor *b = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(3), 4, 5, 6));
    values_backward(ctx, fv_sub(ctx, a, b));
    CHECK_TENSOR(ctx, fv_grad(ctx, a), FV_F64, SHAPE(2, 1), 3, 3);
    CHECK_TENSOR(ctx, fv_grad(ctx, b), FV_F64, SHAPE(3), -2, -2, -2);
    fv_zero_grad(ctx, a);
    fv_zero_grad(ctx, b);
    values_backward(ctx, fv_mul(ctx, a, b));
    CHECK_TENSOR(ctx, fv_grad(ctx, a), FV_F64, SHAPE(2, 1), 15, 15);
    CHECK_TENSOR(ctx, fv_grad(ctx, b), FV_F64, SHAPE(3), 3, 3, 3);
    values_end(&ctx);
}

static void inputs_stay_and_may_be_the_same(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(2), 3, -4);
    CHECK_TENSOR(ctx, fv_add(ctx, x, x), FV_F32, SHAPE(2), 6, -8);
    CHECK_TENSOR(ctx, fv_div(ctx, x, x), FV_F32, SHAPE(2), 1, 1);
    CHECK_TENSOR(ctx, fv_square(ctx, x), FV_F32, SHAPE(2), 9, 16);
    CHECK_TENSOR(ctx, x, FV_F32, SHAPE(2), 3, -4);
    values_end(&ctx);
}

/* ---- errors ----------------------------------------------------------------------- */

static void errors_name_op_and_shapes(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = values_counting(ctx, FV_F32, SHAPE(2, 3));
    fv_tensor *b = values_counting(ctx, FV_F32, SHAPE(4));
    CHECK_REFUSED(ctx, fv_add(ctx, a, b), FV_ERR_SHAPE, "add: shapes [2,3] and [4]");
    CHECK_REFUSED(ctx, fv_eq(ctx, b, a), FV_ERR_SHAPE, "eq: shapes [4] and [2,3]");
    CHECK_REFUSED(ctx, fv_where(ctx, values_counting(ctx, FV_U8, SHAPE(4)), a, a), FV_ERR_SHAPE,
                  "where: shapes [4] and [2,3]");
    CHECK_REFUSED(ctx, fv_masked_fill(ctx, b, values_counting(ctx, FV_U8, SHAPE(2, 4)), 0),
                  FV_ERR_SHAPE, "masked_fill: shapes [4] and [2,4]");
    values_end(&ctx);
}

static void dtypes_are_checked(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *f32 = values_counting(ctx, FV_F32, SHAPE(2));
    fv_tensor *f64 = values_counting(ctx, FV_F64, SHAPE(2));
    fv_tensor *i32 = values_counting(ctx, FV_I32, SHAPE(2));
    fv_tensor *u8 = values_counting(ctx, FV_U8, SHAPE(2));
    fv_tensor *f16 = values_counting(ctx, FV_F16, SHAPE(2));
    CHECK_REFUSED(ctx, fv_add(ctx, f32, f64), FV_ERR_DTYPE, "add: inputs are f32 and f64");
    CHECK_REFUSED(ctx, fv_add(ctx, u8, u8), FV_ERR_DTYPE, "u8");
    CHECK_REFUSED(ctx, fv_mul(ctx, f16, f16), FV_ERR_DTYPE, "f16");
    CHECK_REFUSED(ctx, fv_gt(ctx, f16, f16), FV_ERR_DTYPE, "f16");
    CHECK_REFUSED(ctx, fv_pow(ctx, i32, i32), FV_ERR_DTYPE, "pow: input 0 is i32");
    CHECK_REFUSED(ctx, fv_exp(ctx, i32), FV_ERR_DTYPE, "exp: input 0 is i32");
    CHECK_REFUSED(ctx, fv_clamp(ctx, u8, 0, 1), FV_ERR_DTYPE, "clamp: input 0 is u8");
    CHECK_REFUSED(ctx, fv_where(ctx, f32, f32, f32), FV_ERR_DTYPE, "where: input 0 is f32");
    CHECK_REFUSED(ctx, fv_where(ctx, u8, f32, f64), FV_ERR_DTYPE, "where: inputs are f32 and f64");
    CHECK_REFUSED(ctx, fv_masked_fill(ctx, f32, i32, 0), FV_ERR_DTYPE,
                  "masked_fill: input 1 is i32");
    values_end(&ctx);
}

static void missing_inputs_are_errors(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2));
    fv_tensor *mask = values_counting(ctx, FV_U8, SHAPE(2));
    CHECK_REFUSED(ctx, fv_add(ctx, x, NULL), FV_ERR_ARGUMENT, "add: input 1 is missing");
    CHECK_REFUSED(ctx, fv_pow(ctx, NULL, x), FV_ERR_ARGUMENT, "pow: input 0 is missing");
    CHECK_REFUSED(ctx, fv_ge(ctx, NULL, x), FV_ERR_ARGUMENT, "ge: input 0 is missing");
    CHECK_REFUSED(ctx, fv_tanh(ctx, NULL), FV_ERR_ARGUMENT, "tanh: input 0 is missing");
    CHECK_REFUSED(ctx, fv_where(ctx, mask, x, NULL), FV_ERR_ARGUMENT, "where: input 2 is missing");
    CHECK_REFUSED(ctx, fv_masked_fill(ctx, NULL, mask, 0), FV_ERR_ARGUMENT,
                  "masked_fill: input 0 is missing");
    values_end(&ctx);
}

static void the_first_error_stays(void)
{
    fv_ctx *ctx = values_begin(), *other = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2));
    fv_tensor *bad = fv_log(ctx, values_counting(ctx, FV_I64, SHAPE(2)));
    fv_tensor *after = fv_sub(ctx, fv_exp(ctx, bad), values_counting(ctx, FV_F32, SHAPE(7)));
    CHECK(!fv_tensor_valid(after));
    CHECK(!fv_tensor_valid(fv_neg(ctx, x)));
    CHECK_REFUSED(ctx, after, FV_ERR_DTYPE, "log: input 0 is i64");
    CHECK_TENSOR(ctx, fv_neg(ctx, x), FV_F32, SHAPE(2), -0.0, -1);
    CHECK_REFUSED(ctx, fv_exp(ctx, bad), FV_ERR_STATE, "exp: input 0 is not valid");
    CHECK_REFUSED(other, fv_exp(other, x), FV_ERR_ARGUMENT, "another context");
    values_end(&other);
    values_end(&ctx);
}

/* ---- two inputs ------------------------------------------------------------------- */

static void integers_wrap_and_truncate(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = TENSOR(ctx, FV_I32, SHAPE(5), 7, -7, 7, INT32_MIN, INT32_MAX);
    fv_tensor *b = TENSOR(ctx, FV_I32, SHAPE(5), 2, 2, 0, -1, 1);
    CHECK_TENSOR(ctx, fv_div(ctx, a, b), FV_I32, SHAPE(5), 3, -3, 0, INT32_MIN, INT32_MAX);
    CHECK_TENSOR(ctx, fv_add(ctx, a, b), FV_I32, SHAPE(5), 9, -5, 7, INT32_MAX, INT32_MIN);
    CHECK_TENSOR(ctx, fv_mul(ctx, a, b), FV_I32, SHAPE(5), 14, -14, 0, INT32_MIN, INT32_MAX);
    fv_tensor *i = TENSOR(ctx, FV_I64, SHAPE(2), 5, -5), *j = TENSOR(ctx, FV_I64, SHAPE(2), 3, 3);
    CHECK_TENSOR(ctx, fv_maximum(ctx, i, j), FV_I64, SHAPE(2), 5, 3);
    CHECK_TENSOR(ctx, fv_minimum(ctx, i, j), FV_I64, SHAPE(2), 3, -5);
    CHECK_TENSOR(ctx, fv_sub(ctx, i, j), FV_I64, SHAPE(2), 2, -8);
    values_end(&ctx);
}

static void reals_follow_ieee(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = TENSOR(ctx, FV_F32, SHAPE(4), 1, -1, 0, NAN);
    fv_tensor *zero = fv_scalar(ctx, FV_F32, 0);
    CHECK_TENSOR(ctx, fv_div(ctx, a, zero), FV_F32, SHAPE(4), inf, -inf, NAN, NAN);
    CHECK_TENSOR(ctx, fv_maximum(ctx, a, zero), FV_F32, SHAPE(4), 1, 0, 0, NAN);
    CHECK_TENSOR(ctx, fv_minimum(ctx, zero, a), FV_F32, SHAPE(4), 0, -1, 0, NAN);
    CHECK_TENSOR(ctx, fv_pow(ctx, a, zero), FV_F32, SHAPE(4), 1, 1, 1, 1);
    CHECK_TENSOR(ctx, fv_pow(ctx, a, fv_scalar(ctx, FV_F32, 0.5)), FV_F32, SHAPE(4), 1, NAN, 0,
                 NAN);
    values_end(&ctx);
}

static void a_tie_belongs_to_the_first_input(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(3), 1, 2, 3));
    fv_tensor *b = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(3), 1, 5, 0));
    values_backward(ctx, fv_maximum(ctx, a, b));
    CHECK_TENSOR(ctx, fv_grad(ctx, a), FV_F64, SHAPE(3), 1, 0, 1);
    CHECK_TENSOR(ctx, fv_grad(ctx, b), FV_F64, SHAPE(3), 0, 1, 0);
    values_backward(ctx, fv_minimum(ctx, a, b));
    CHECK_TENSOR(ctx, fv_grad(ctx, a), FV_F64, SHAPE(3), 2, 1, 1);
    CHECK_TENSOR(ctx, fv_grad(ctx, b), FV_F64, SHAPE(3), 0, 1, 1);
    values_end(&ctx);
}

static void power_has_finite_slopes_at_zero(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(2), 0, 2));
    fv_tensor *b = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(2), 2, 3));
    values_backward(ctx, fv_pow(ctx, a, b));
    CHECK_NEAR_TENSOR(ctx, fv_grad(ctx, a), FV_F64, SHAPE(2), 0, 12);
    CHECK_NEAR_TENSOR(ctx, fv_grad(ctx, b), FV_F64, SHAPE(2), 0, 8 * log(2));
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(2), 0, -3));
    values_backward(ctx, fv_pow_scalar(ctx, x, 0));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(2), 0, 0);
    CHECK_TENSOR(ctx, fv_pow_scalar(ctx, x, 3), FV_F64, SHAPE(2), 0, -27);
    CHECK_TENSOR(ctx, fv_pow_scalar(ctx, x, -1), FV_F64, SHAPE(2), inf, -1.0 / 3.0);
    values_end(&ctx);
}

static void comparisons_give_bytes(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = TENSOR(ctx, FV_F32, SHAPE(4), 1, 2, 3, NAN);
    fv_tensor *b = TENSOR(ctx, FV_F32, SHAPE(4), 2, 2, 2, NAN);
    CHECK_TENSOR(ctx, fv_eq(ctx, a, b), FV_U8, SHAPE(4), 0, 1, 0, 0);
    CHECK_TENSOR(ctx, fv_ne(ctx, a, b), FV_U8, SHAPE(4), 1, 0, 1, 1);
    CHECK_TENSOR(ctx, fv_lt(ctx, a, b), FV_U8, SHAPE(4), 1, 0, 0, 0);
    CHECK_TENSOR(ctx, fv_le(ctx, a, b), FV_U8, SHAPE(4), 1, 1, 0, 0);
    CHECK_TENSOR(ctx, fv_gt(ctx, a, b), FV_U8, SHAPE(4), 0, 0, 1, 0);
    CHECK_TENSOR(ctx, fv_ge(ctx, a, b), FV_U8, SHAPE(4), 0, 1, 1, 0);
    CHECK_TENSOR(ctx, fv_ge(ctx, fv_eq(ctx, a, b), fv_lt(ctx, a, b)), FV_U8, SHAPE(4), 0, 1, 1, 1);
    const int64_t large[2] = {(INT64_C(1) << 53) + 1, INT64_C(1) << 53}; /* equal as doubles */
    fv_tensor *i = fv_from_host(ctx, FV_I64, 1, (int64_t[]){2}, large);
    CHECK_TENSOR(ctx, fv_gt(ctx, i, fv_roll(ctx, i, 0, 1)), FV_U8, SHAPE(2), 1, 0);
    values_end(&ctx);
}

static void comparisons_carry_no_gradient(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2), 1, -1));
    fv_tensor *positive = fv_gt(ctx, x, fv_scalar(ctx, FV_F32, 0));
    CHECK_EQ(fv_backward_from(ctx, positive, positive), FV_ERR_STATE);
    values_backward(ctx, fv_mul(ctx, fv_cast(ctx, positive, FV_F32), x));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2), 1, 0);
    values_end(&ctx);
}

/* ---- one input -------------------------------------------------------------------- */

typedef struct function {
    const char *name;
    fv_tensor *(*op)(fv_ctx *ctx, fv_tensor *x);
    fv_unary formula;
} function;

static const function functions[] = {
#define FV_UNARY(id, name, ...) {#name, fv_##name, FV_UNARY_##id},
#define FV_UNARY_1(...)
#define FV_UNARY_2(...)
#include "kernels/elementwise.def"
};

static void functions_match_their_formulas(void)
{
    fv_ctx *ctx = values_begin();
    enum { N = 41 };
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (int k = 0; k < 2; k++) {
            fv_dtype dtype = k ? FV_F64 : FV_F32;
            double x[N], y[N];
            for (int i = 0; i < N; i++) { /* the inputs are exact in both dtypes */
                x[i] = (i - N / 2) * 0.1875;
                y[i] = formula_unary(functions[f].formula, x[i], 0, 0);
            }
            fv_tensor *t = functions[f].op(ctx, values_of(ctx, dtype, SHAPE(N), N, x));
            int before = test_failures();
            values_check(__FILE__, __LINE__, ctx, t, dtype, SHAPE(N), N, y, false);
            if (test_failures() > before) printf("    that was %s\n", functions[f].name);
        }
    values_end(&ctx);
}

static void functions_know_their_ends(void)
{
    fv_ctx *ctx = values_begin();
    for (int k = 0; k < 2; k++) {
        fv_dtype d = k ? FV_F64 : FV_F32;
        fv_tensor *x = TENSOR(ctx, d, SHAPE(5), -inf, inf, NAN, 0, -1);
        CHECK_TENSOR(ctx, fv_slice(ctx, fv_exp(ctx, x), 0, 0, 4, 1), d, SHAPE(4), 0, inf, NAN, 1);
        CHECK_TENSOR(ctx, fv_log(ctx, x), d, SHAPE(5), NAN, inf, NAN, -inf, NAN);
        CHECK_TENSOR(ctx, fv_sqrt(ctx, x), d, SHAPE(5), NAN, inf, NAN, 0, NAN);
        CHECK_TENSOR(ctx, fv_rsqrt(ctx, x), d, SHAPE(5), NAN, 0, NAN, inf, NAN);
        CHECK_TENSOR(ctx, fv_relu(ctx, x), d, SHAPE(5), 0, inf, NAN, 0, 0);
        CHECK_TENSOR(ctx, fv_leaky_relu(ctx, x, 0.5), d, SHAPE(5), -inf, inf, NAN, 0, -0.5);
        CHECK_TENSOR(ctx, fv_abs(ctx, x), d, SHAPE(5), inf, inf, NAN, 0, 1);
        CHECK_TENSOR(ctx, fv_clamp(ctx, x, -0.5, 2), d, SHAPE(5), -0.5, 2, NAN, 0, -0.5);
        fv_tensor *big = TENSOR(ctx, d, SHAPE(2), 1000, -1000);
        CHECK_TENSOR(ctx, fv_sigmoid(ctx, big), d, SHAPE(2), 1, 0);
        CHECK_TENSOR(ctx, fv_tanh(ctx, big), d, SHAPE(2), 1, -1);
        CHECK_TENSOR(ctx, fv_erf(ctx, big), d, SHAPE(2), 1, -1);
        CHECK_TENSOR(ctx, fv_softplus(ctx, big), d, SHAPE(2), 1000, 0);
        CHECK_TENSOR(ctx, fv_silu(ctx, big), d, SHAPE(2), 1000, 0);
        CHECK_TENSOR(ctx, fv_gelu(ctx, big), d, SHAPE(2), 1000, 0);
        CHECK_TENSOR(ctx, fv_gelu_tanh(ctx, big), d, SHAPE(2), 1000, 0);
    }
    values_end(&ctx);
}

static void kinks_have_a_chosen_slope(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F64, SHAPE(5), -2, -1, 0, 1, 2));
    values_backward(ctx, fv_relu(ctx, x));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(5), 0, 0, 0, 1, 1);
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_leaky_relu(ctx, x, 0.25));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(5), 0.25, 0.25, 0.25, 1, 1);
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_abs(ctx, x));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(5), -1, -1, 0, 1, 1);
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_clamp(ctx, x, -1, 1)); /* the bounds belong to the inside */
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F64, SHAPE(5), 0, 1, 1, 1, 0);
    values_end(&ctx);
}

static void clamp_wants_bounds_in_order(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(3));
    CHECK_TENSOR(ctx, fv_clamp(ctx, x, 1, 1), FV_F32, SHAPE(3), 1, 1, 1);
    CHECK_TENSOR(ctx, fv_clamp(ctx, x, -inf, 1), FV_F32, SHAPE(3), 0, 1, 1);
    CHECK_REFUSED(ctx, fv_clamp(ctx, x, 2, 1), FV_ERR_ARGUMENT,
                  "clamp: expected low <= high, got 2 and 1");
    CHECK_REFUSED(ctx, fv_clamp(ctx, x, NAN, 1), FV_ERR_ARGUMENT, "clamp: expected low <= high");
    values_end(&ctx);
}

static void affine_rounds_once(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(1), 1 + 0x1p-12);
    CHECK_TENSOR(ctx, fv_affine(ctx, x, 1 + 0x1p-12, -1), FV_F32, SHAPE(1), 0x1p-11 + 0x1p-24);
    CHECK_TENSOR(ctx, fv_scale(ctx, TENSOR(ctx, FV_F32, SHAPE(2), 3, -5), -2), FV_F32, SHAPE(2), -6,
                 10);
    values_end(&ctx);
}

/* ---- choice ----------------------------------------------------------------------- */

static void where_chooses(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *cond = TENSOR(ctx, FV_U8, SHAPE(2, 1), 1, 0);
    fv_tensor *a = TENSOR(ctx, FV_F32, SHAPE(3), 1, 2, 3);
    fv_tensor *nan = fv_scalar(ctx, FV_F32, NAN);
    CHECK_TENSOR(ctx, fv_where(ctx, cond, a, nan), FV_F32, SHAPE(2, 3), 1, 2, 3, NAN, NAN, NAN);
    CHECK_TENSOR(ctx, fv_where(ctx, TENSOR(ctx, FV_U8, SHAPE(3), 255, 0, 2), a, nan), FV_F32,
                 SHAPE(3), 1, NAN, 3); /* any byte but 0 is true */
    CHECK_TENSOR(ctx, fv_where(ctx, cond, fv_scalar(ctx, FV_I64, 7), fv_scalar(ctx, FV_I64, -7)),
                 FV_I64, SHAPE(2, 1), 7, -7);
    CHECK_EMPTY(ctx, fv_where(ctx, values_none(ctx, FV_U8, SHAPE(0, 1)), a, nan), FV_F32,
                SHAPE(0, 3));
    values_end(&ctx);
}

static void where_splits_the_gradient(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *cond = TENSOR(ctx, FV_U8, SHAPE(2, 3), 1, 0, 1, 1, 1, 0);
    fv_tensor *a = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(3), 1, 2, 3));
    fv_tensor *b = fv_leaf(ctx, fv_scalar(ctx, FV_F32, 5));
    values_backward(ctx, fv_where(ctx, cond, a, b));
    CHECK_TENSOR(ctx, fv_grad(ctx, a), FV_F32, SHAPE(3), 2, 1, 1);
    CHECK_TENSOR(ctx, fv_grad(ctx, b), FV_F32, SCALAR, 2);
    values_end(&ctx);
}

static void masked_fill_fills(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(2, 3)));
    fv_tensor *mask = TENSOR(ctx, FV_U8, SHAPE(3), 0, 1, 0);
    fv_tensor *y = fv_masked_fill(ctx, x, mask, -inf);
    CHECK_TENSOR(ctx, y, FV_F32, SHAPE(2, 3), 0, -inf, 2, 3, -inf, 5);
    values_backward(ctx, y);
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 3), 1, 0, 1, 1, 0, 1);
    CHECK_TENSOR(ctx, fv_masked_fill(ctx, values_counting(ctx, FV_I32, SHAPE(3)), mask, 1e30),
                 FV_I32, SHAPE(3), 0, INT32_MAX, 2);
    CHECK_TENSOR(ctx, fv_masked_fill(ctx, fv_scalar(ctx, FV_U8, 3), fv_scalar(ctx, FV_U8, 1), 9),
                 FV_U8, SCALAR, 9);
    values_end(&ctx);
}

static void all(void)
{
    RUN(shapes_broadcast);
    RUN(empty_tensors_broadcast);
    RUN(repeated_inputs_sum_their_gradients);
    RUN(inputs_stay_and_may_be_the_same);
    RUN(errors_name_op_and_shapes);
    RUN(dtypes_are_checked);
    RUN(missing_inputs_are_errors);
    RUN(the_first_error_stays);
    RUN(integers_wrap_and_truncate);
    RUN(reals_follow_ieee);
    RUN(a_tie_belongs_to_the_first_input);
    RUN(power_has_finite_slopes_at_zero);
    RUN(comparisons_give_bytes);
    RUN(comparisons_carry_no_gradient);
    RUN(functions_match_their_formulas);
    RUN(functions_know_their_ends);
    RUN(kinks_have_a_chosen_slope);
    RUN(clamp_wants_bounds_in_order);
    RUN(affine_rounds_once);
    RUN(where_chooses);
    RUN(where_splits_the_gradient);
    RUN(masked_fill_fills);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    all();
    values_device(FV_DEVICE_GUARDED); /* once more, with late launches and unreadable memory */
    all();
    return TEST_END();
}
