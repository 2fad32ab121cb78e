#include "support/proof.h"

static const double STEP = 1e-5, ATOL = 1e-7, RTOL = 1e-6, F32_RTOL = 1e-5;

proof_numbers proof_differences(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c)
{
    proof_numbers n = {{NULL}, 0};
    for (int i = 0; i < c->n_in; i++) {
        if (!op_case_differentiates(c, i)) continue;
        int64_t count = op_case_count(c, i, 1);
        n.grad[i] = calloc((size_t)count + 1, sizeof(double));
        for (int64_t e = 0; e < count; e++) {
            double value[2] = {NAN, NAN};
            for (int side = 0; side < 2; side++) {
                op_run_options o = {.dtype = FV_F64,
                                    .no_grad = true,
                                    .input = i,
                                    .at = e,
                                    .delta = side ? STEP : -STEP};
                op_result r;
                if (!op_case_run(ctx, desc, c, &o, &r)) return n;
                value[side] = op_result_value(&r);
                op_result_free(&r);
            }
            n.grad[i][e] = (value[1] - value[0]) / (2 * STEP);
        }
        n.elements += count;
    }
    return n;
}

void proof_numbers_free(proof_numbers *n)
{
    for (int i = 0; i < FV_CASE_INPUTS; i++)
        free(n->grad[i]);
}

/* Index of the first element that differs too much; -1 if all agree. NaN never agrees. */
static int64_t disagrees(const op_array *grad, const double *expected, int64_t count, double atol,
                         double rtol)
{
    if (!grad->present || grad->count != count) return 0;
    for (int64_t e = 0; e < count; e++) {
        double a = op_array_get(grad, e);
        if (!(fabs(a - expected[e]) <= atol + rtol * fabs(expected[e]))) return e;
    }
    return -1;
}

static double largest(const double *x, int64_t n)
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        m = fmax(m, fabs(x[i]));
    return m;
}

bool proof_agrees(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c, fv_dtype dtype,
                  op_layout layout, const proof_numbers *expected, bool report)
{
    op_run_options o = {.dtype = dtype, .layout = layout};
    op_result r;
    if (!op_case_run(ctx, desc, c, &o, &r)) return false;
    bool all = true;
    for (int i = 0; i < c->n_in; i++) {
        if (!op_case_differentiates(c, i)) continue;
        int64_t count = op_case_count(c, i, 1);
        double atol = dtype == FV_F64 ? ATOL : F32_RTOL * largest(expected->grad[i], count) + ATOL;
        int64_t e =
            disagrees(&r.grad[i], expected->grad[i], count, atol, dtype == FV_F64 ? RTOL : 0.0);
        if (e < 0) continue;
        all = false;
        if (report)
            test_failed(__FILE__, __LINE__,
                        "%s '%s' %s layout %d: input %d element %lld: %.12g, "
                        "expected %.12g",
                        desc->name, c->name, fv_dtype_name(dtype), (int)layout, i, (long long)e,
                        r.grad[i].present ? op_array_get(&r.grad[i], e) : NAN,
                        expected->grad[i][e]);
    }
    op_result_free(&r);
    return all;
}
