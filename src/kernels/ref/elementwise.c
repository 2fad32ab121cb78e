/* Elementwise kernels, one element at a time. The vector versions keep the order of operations, so
 * that all levels give equal bits. */
#include "kernels/elementwise.h"
#include "kernels/ref/composite.h"
#include "kernels/walk.h"

/* Row loops: `v` (and `a`, `b`, `g`, ...) are the elements, the expression is the result. */
#define EACH(out, expr)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
        (out)[i * w->step[0]] = (expr);                                                            \
    break

/* ---- y = f(x) ------------------------------------------------------------------- */

static real clamp(real x, real lo, real hi)
{
    const real t = x < lo ? lo : x;
    return t > hi ? hi : t;
}

static void unary_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *y = (real *)w->ptr[0] + at[0];
    const real *x = (const real *)w->ptr[1] + at[1];
    const int64_t sx = w->step[1];
    const real alpha = (real)w->args->alpha, beta = (real)w->args->beta;
#define X (x[i * sx])
    switch ((fv_unary)w->args->op) {
#define SCALAR(id, cost, value, grad)                                                              \
    case FV_UNARY_##id:                                                                            \
        EACH(y, value);
#include "kernels/ref/unary.def"
    case FV_UNARY_COUNT:
        break;
    }
#undef X
}

static const int64_t unary_cost[FV_UNARY_COUNT] = {
#define SCALAR(id, cost, value, grad) [FV_UNARY_##id] = (cost),
#include "kernels/ref/unary.def"
};

static void unary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    fv_walk_run(exec, m, ptr, 2, unary_cost[m->op], unary_row);
}

/* ---- dx = g f'(x) --------------------------------------------------------------- */

static real abs_grad(real g, real x)
{
    if (x > 0) return g;
    if (x < 0) return -g;
    return x == 0 ? 0 : x; /* NaN passes on */
}

/* p x^(p-1); 0 for p = 0, even at x = 0, where x^-1 is infinite. */
static real pow_grad(real x, real p) { return p == 0 ? 0 : p * real_pow(x, p - 1); }

static void unary_grad_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *dx = (real *)w->ptr[0] + at[0];
    const real *g = (const real *)w->ptr[1] + at[1];
    /* Only one of x and y is given; the rows of kernels/elementwise.def say which. */
    const real *x = w->ptr[2] ? (const real *)w->ptr[2] + at[2] : NULL;
    const real *y = w->ptr[3] ? (const real *)w->ptr[3] + at[3] : NULL;
    const int64_t sg = w->step[1], sx = w->step[2], sy = w->step[3];
    const real alpha = (real)w->args->alpha, beta = (real)w->args->beta;
#define G              (g[i * sg])
#define X              (x[i * sx])
#define Y              (y[i * sy])
#define TERM(k, value) FV_TERM(w->exec, k, value, 0)
    switch ((fv_unary)w->args->op) {
#define SCALAR(id, cost, value, grad)                                                              \
    case FV_UNARY_##id:                                                                            \
        EACH(dx, grad);
#include "kernels/ref/unary.def"
    case FV_UNARY_COUNT:
        break;
    }
#undef G
#undef X
#undef Y
#undef TERM
}

static void unary_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    fv_walk_run(exec, m, ptr, 4, unary_cost[m->op], unary_grad_row);
}

/* ---- c = f(a, b) ---------------------------------------------------------------- */

static void binary_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *c = (real *)w->ptr[0] + at[0];
    const real *a = (const real *)w->ptr[1] + at[1];
    const real *b = (const real *)w->ptr[2] + at[2];
    const int64_t sa = w->step[1], sb = w->step[2];
#define A (a[i * sa])
#define B (b[i * sb])
    switch ((fv_binary)w->args->op) {
    case FV_BINARY_ADD:
        EACH(c, A + B);
    case FV_BINARY_SUB:
        EACH(c, A - B);
    case FV_BINARY_MUL:
        EACH(c, A * B);
    case FV_BINARY_DIV:
        EACH(c, A / B);
    case FV_BINARY_MAXIMUM:
        EACH(c, real_max(A, B));
    case FV_BINARY_MINIMUM:
        EACH(c, real_min(A, B));
    case FV_BINARY_POW:
        EACH(c, real_pow(A, B));
    case FV_BINARY_COUNT:
        break;
    }
}

static int64_t binary_cost(int op) { return op == FV_BINARY_POW ? 16 : 1; }

static void binary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    fv_walk_run(exec, m, ptr, 3, binary_cost(m->op), binary_row);
}

/* a^b ln a; where a is 0 and b > 0 the limit 0, not 0 x -inf. */
static real pow_exponent_grad(real a, real b)
{
    return a == 0 && b > 0 ? 0 : real_pow(a, b) * real_log(a);
}

static void binary_grad_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *out = (real *)w->ptr[0] + at[0];
    const real *g = (const real *)w->ptr[1] + at[1];
    /* Sums use neither; a product's gradient uses the other operand only. */
    const real *a = w->ptr[2] ? (const real *)w->ptr[2] + at[2] : NULL;
    const real *b = w->ptr[3] ? (const real *)w->ptr[3] + at[3] : NULL;
    const int64_t sg = w->step[1], sa = w->step[2], sb = w->step[3];
    const bool to_b = w->args->which == 1;
#define G (g[i * sg])
    switch ((fv_binary)w->args->op) {
    case FV_BINARY_ADD:
        EACH(out, G);
    case FV_BINARY_SUB:
        EACH(out, to_b ? -G : G);
    case FV_BINARY_MUL:
        EACH(out, to_b ? G * A : G * B);
    case FV_BINARY_DIV:
        EACH(out, to_b ? -(G / B) * (A / B) : G / B);
    case FV_BINARY_MAXIMUM:
        EACH(out, (A >= B || A != A) != to_b ? G : 0);
    case FV_BINARY_MINIMUM:
        EACH(out, (A <= B || A != A) != to_b ? G : 0);
    case FV_BINARY_POW:
        EACH(out, G * (to_b ? pow_exponent_grad(A, B) : pow_grad(A, B)));
    case FV_BINARY_COUNT:
        break;
    }
#undef G
}

static void binary_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_elementwise_args *m = args;
    fv_walk_run(exec, m, ptr, 4, binary_cost(m->op), binary_grad_row);
}

/* ---- comparisons and choice ----------------------------------------------------- */

static void compare_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    uint8_t *out = (uint8_t *)w->ptr[0] + at[0];
    const real *a = (const real *)w->ptr[1] + at[1];
    const real *b = (const real *)w->ptr[2] + at[2];
    const int64_t sa = w->step[1], sb = w->step[2];
    switch ((fv_compare)w->args->op) {
#define FV_COMPARE(id, name, operator)                                                             \
    case FV_COMPARE_##id:                                                                          \
        EACH(out, A operator B);
#include "kernels/elementwise.def"
    case FV_COMPARE_COUNT:
        break;
    }
#undef A
#undef B
}

static void compare(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_walk_run(exec, args, ptr, 3, 1, compare_row);
}

static void select_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *c = (real *)w->ptr[0] + at[0];
    const uint8_t *cond = (const uint8_t *)w->ptr[1] + at[1];
    /* A missing operand is a constant: one element with stride 0. */
    const real alpha = (real)w->args->alpha, beta = (real)w->args->beta;
    const real *a = w->ptr[2] ? (const real *)w->ptr[2] + at[2] : &alpha;
    const real *b = w->ptr[3] ? (const real *)w->ptr[3] + at[3] : &beta;
    const int64_t sa = w->ptr[2] ? w->step[2] : 0, sb = w->ptr[3] ? w->step[3] : 0;
    for (int64_t i = 0; i < n; i++)
        c[i * w->step[0]] = cond[i * w->step[1]] ? a[i * sa] : b[i * sb];
}

static void select_kernel(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_walk_run(exec, args, ptr, 4, 1, select_row);
}

void FV_NAME(fv_ref_elementwise_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_UNARY][FV_REAL_DTYPE] = unary;
    t->fn[FV_KERNEL_UNARY_GRAD][FV_REAL_DTYPE] = unary_grad;
    t->fn[FV_KERNEL_BINARY][FV_REAL_DTYPE] = binary;
    t->fn[FV_KERNEL_BINARY_GRAD][FV_REAL_DTYPE] = binary_grad;
    t->fn[FV_KERNEL_COMPARE][FV_REAL_DTYPE] = compare;
    t->fn[FV_KERNEL_SELECT][FV_REAL_DTYPE] = select_kernel;
}
