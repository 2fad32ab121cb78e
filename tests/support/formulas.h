/*
 * The elementwise functions in double, as the rows of kernels/elementwise.def define them: the
 * reference for the kernels, which compute the same in other ways.
 *
 *     CHECK_VALUE(y, 0, formula_unary(FV_UNARY_TANH, vec_get(x, 0), alpha, beta));
 */
#ifndef FV_TEST_FORMULAS_H
#define FV_TEST_FORMULAS_H

#include "kernels/elementwise.h"

/* f(x) and f'(x); alpha and beta are the parameters of functions that have some. */
double formula_unary(fv_unary op, double x, double alpha, double beta);
double formula_unary_slope(fv_unary op, double x, double alpha, double beta);

/* f(a, b), and its derivative by a (which = 0) or b (which = 1). */
double formula_binary(fv_binary op, double a, double b);
double formula_binary_slope(fv_binary op, int which, double a, double b);

#endif
