#include "support/formulas.h"

#include <math.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double normal_pdf(double x) { return exp(-x * x / 2) / sqrt(2 * M_PI); }
static double normal_cdf(double x) { return erfc(-x / sqrt(2)) / 2; }

/* f(x), and f'(x) in *out_dy. Rows name their parameters freely, so no short name is safe here. */
static double evaluate(fv_unary op, double x, double alpha, double beta, double *out_dy)
{
    switch (op) {
#define FV_UNARY(id, name, y, dy, ...)                                                             \
    case FV_UNARY_##id:                                                                            \
        *out_dy = dy;                                                                              \
        return y;
#define FV_UNARY_1(id, name, p, infer, y, dy, ...)                                                 \
    case FV_UNARY_##id: {                                                                          \
        const double p = alpha;                                                                    \
        *out_dy = dy;                                                                              \
        return y;                                                                                  \
    }
#define FV_UNARY_2(id, name, p, q, infer, y, dy, ...)                                              \
    case FV_UNARY_##id: {                                                                          \
        const double p = alpha, q = beta;                                                          \
        *out_dy = dy;                                                                              \
        return y;                                                                                  \
    }
#include "kernels/elementwise.def"
    case FV_UNARY_COUNT:
        break;
    }
    return *out_dy = NAN;
}

double formula_unary(fv_unary op, double x, double alpha, double beta)
{
    double slope;
    return evaluate(op, x, alpha, beta, &slope);
}

double formula_unary_slope(fv_unary op, double x, double alpha, double beta)
{
    double slope;
    evaluate(op, x, alpha, beta, &slope);
    return slope;
}

double formula_binary(fv_binary op, double a, double b)
{
    switch (op) {
#define FV_BINARY(id, name, infer, c, ...)                                                         \
    case FV_BINARY_##id:                                                                           \
        return c;
#include "kernels/elementwise.def"
    case FV_BINARY_COUNT:
        break;
    }
    return NAN;
}

double formula_binary_slope(fv_binary op, int which, double a, double b)
{
    switch (op) {
#define FV_BINARY(id, name, infer, c, da, db, ...)                                                 \
    case FV_BINARY_##id:                                                                           \
        return which ? db : da;
#include "kernels/elementwise.def"
    case FV_BINARY_COUNT:
        break;
    }
    return NAN;
}
