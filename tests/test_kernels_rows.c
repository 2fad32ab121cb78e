/*
 * Reductions and row kernels (softmax, norms, loss, choices) against formulas in double at every
 * level, and the edge cases their headers promise.
 */
#include "kernels/reduce.h"
#include "kernels/rows.h"
#include "support/kernels.h"

/* ---- reductions ------------------------------------------------------------------ */

/* x is (4, 19, 6) contiguous; the middle axis, the outer two or the last one are reduced. */
static const fv_reduce_args reductions[] = {
    {.out_rank = 2,
     .red_rank = 1,
     .out_shape = {4, 6},
     .out_stride = {114, 1},
     .red_shape = {19},
     .red_stride = {6}},
    {.out_rank = 1,
     .red_rank = 2,
     .out_shape = {6},
     .out_stride = {1},
     .red_shape = {4, 19},
     .red_stride = {114, 6}},
    {.out_rank = 2,
     .red_rank = 1,
     .out_shape = {4, 19},
     .out_stride = {114, 6},
     .red_shape = {6},
     .red_stride = {1}},
    {.out_rank = 0, .red_rank = 1, .red_shape = {456}, .red_stride = {1}},
    {.out_rank = 1, .red_rank = 0, .out_shape = {456}, .out_stride = {1}},
};
enum { X_N = 456, REDUCTIONS = sizeof reductions / sizeof *reductions };

static int64_t count_of(int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int axis = 0; axis < rank; axis++)
        n *= shape[axis];
    return n;
}

static int64_t offset_of(int64_t i, int rank, const int64_t *shape, const int64_t *stride)
{
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        offset += i % shape[axis] * stride[axis];
        i /= shape[axis];
    }
    return offset;
}

static int64_t element(const fv_reduce_args *a, int64_t o, int64_t r)
{
    return offset_of(o, a->out_rank, a->out_shape, a->out_stride) +
           offset_of(r, a->red_rank, a->red_shape, a->red_stride);
}

typedef struct facts {
    double sum, squares, exps, max, min;
    int64_t max_at, min_at;
} facts;

static facts facts_of(const fv_reduce_args *a, vec x, int64_t o, int64_t n)
{
    facts f = {.max = -INFINITY, .min = INFINITY};
    for (int64_t r = 0; r < n; r++) {
        const double v = vec_get(x, element(a, o, r));
        f.sum += v;
        f.squares += v * v;
        f.exps += exp(v);
        if (v > f.max) {
            f.max = v;
            f.max_at = r;
        }
        if (v < f.min) {
            f.min = v;
            f.min_at = r;
        }
    }
    return f;
}

static double reduced(fv_reduce op, const facts *f, double alpha)
{
    switch (op) {
    case FV_REDUCE_SUM:
        return alpha * f->sum;
    case FV_REDUCE_LOGSUMEXP:
        return log(f->exps);
    case FV_REDUCE_NORM:
        return sqrt(f->squares);
    case FV_REDUCE_MAX:
    case FV_REDUCE_ARGMAX:
        return f->max;
    default:
        return f->min;
    }
}

static double reduced_slope(fv_reduce op, const facts *f, double alpha, double x, int64_t r)
{
    switch (op) {
    case FV_REDUCE_SUM:
        return alpha;
    case FV_REDUCE_LOGSUMEXP:
        return exp(x) / f->exps;
    case FV_REDUCE_NORM:
        return x / sqrt(f->squares);
    case FV_REDUCE_MAX:
        return r == f->max_at;
    default:
        return r == f->min_at;
    }
}

static void reduce_formulas(fv_dtype dtype)
{
    const vec x = vec_random(dtype, X_N, -3, 3);
    for (int k = 0; k < REDUCTIONS; k++) {
        fv_reduce_args a = reductions[k];
        a.alpha = 0.25;
        const int64_t outs = count_of(a.out_rank, a.out_shape);
        const int64_t n = count_of(a.red_rank, a.red_shape);
        const vec out = vec_new(dtype, outs), index = vec_new(FV_I64, outs);
        const vec g = vec_random(dtype, outs, -2, 2), dx = vec_new(dtype, X_N);
        for (a.op = 0; a.op < FV_REDUCE_KINDS; a.op++) {
            const bool chosen = a.op == FV_REDUCE_MAX || a.op == FV_REDUCE_MIN;
            const bool arg = a.op == FV_REDUCE_ARGMAX || a.op == FV_REDUCE_ARGMIN;
            kernel_run(FV_KERNEL_REDUCE, dtype, PTRS(arg ? NULL : out.data, index.data, x.data),
                       &a);
            if (!arg)
                kernel_run(FV_KERNEL_REDUCE_GRAD, dtype,
                           PTRS(dx.data, g.data, x.data, chosen ? index.data : out.data), &a);
            for (int64_t o = 0; o < outs; o++) {
                const facts f = facts_of(&a, x, o, n);
                const bool is_max = a.op == FV_REDUCE_MAX || a.op == FV_REDUCE_ARGMAX;
                if (chosen || arg) CHECK_VALUE(index, o, (double)(is_max ? f.max_at : f.min_at));
                if (arg) continue;
                CHECK_VALUE(out, o, reduced((fv_reduce)a.op, &f, a.alpha));
                for (int64_t r = 0; r < n; r++) {
                    const int64_t at = element(&a, o, r);
                    CHECK_VALUE(dx, at,
                                vec_get(g, o) *
                                    reduced_slope((fv_reduce)a.op, &f, a.alpha, vec_get(x, at), r));
                }
            }
        }
    }
}

static void reduce_test(void) { for_reals(reduce_formulas); }

static double reduce_row(fv_dtype dtype, fv_reduce op, vec x, int64_t *where)
{
    const vec out = vec_new(dtype, 1), index = vec_new(FV_I64, 1);
    const fv_reduce_args a = {
        .op = (int)op, .red_rank = 1, .red_shape = {x.n}, .red_stride = {1}, .alpha = 1};
    kernel_run(FV_KERNEL_REDUCE, dtype, PTRS(out.data, index.data, x.data), &a);
    if (where) *where = (int64_t)vec_get(index, 0);
    return vec_get(out, 0);
}

static void reduce_edges(fv_dtype dtype)
{
    int64_t at = -1;
    const double inf = INFINITY;
    CHECK(isnan(reduce_row(dtype, FV_REDUCE_MAX, VEC_OF(dtype, 1, NAN, 9, NAN), &at)) && at == 1);
    CHECK(isnan(reduce_row(dtype, FV_REDUCE_MIN, VEC_OF(dtype, 1, 0, NAN, 9), &at)) && at == 2);
    CHECK(reduce_row(dtype, FV_REDUCE_MAX, VEC_OF(dtype, 3, 7, 7, 2), &at) == 7 && at == 1);
    CHECK(reduce_row(dtype, FV_REDUCE_MIN, VEC_OF(dtype, 3, 2, 7, 2), &at) == 2 && at == 1);
    CHECK(reduce_row(dtype, FV_REDUCE_MAX, VEC_OF(dtype, -inf, -inf), &at) == -inf && at == 0);
    CHECK(reduce_row(dtype, FV_REDUCE_LOGSUMEXP, VEC_OF(dtype, -inf, -inf), NULL) == -inf);
    CHECK(reduce_row(dtype, FV_REDUCE_LOGSUMEXP, VEC_OF(dtype, 1, inf, -inf), NULL) == inf);
    CHECK(isnan(reduce_row(dtype, FV_REDUCE_LOGSUMEXP, VEC_OF(dtype, inf, NAN), NULL)));
    CHECK(reduce_row(dtype, FV_REDUCE_LOGSUMEXP, VEC_OF(dtype, 1e4, -1e4), NULL) == 1e4);
    const vec none = vec_new(dtype, 0);
    CHECK(reduce_row(dtype, FV_REDUCE_SUM, none, NULL) == 0);
    CHECK(reduce_row(dtype, FV_REDUCE_NORM, none, NULL) == 0);
    CHECK(reduce_row(dtype, FV_REDUCE_LOGSUMEXP, none, NULL) == -inf);
    CHECK(reduce_row(dtype, FV_REDUCE_MAX, none, NULL) == -inf);
    CHECK(reduce_row(dtype, FV_REDUCE_MIN, none, NULL) == inf);
    /* backward of a norm of zeros and of a log-sum-exp of nothing: zeros */
    const vec x = VEC_OF(dtype, -inf, -inf), y = VEC_OF(dtype, -inf), g = VEC_OF(dtype, 1);
    const vec dx = vec_new(dtype, 2), zero = VEC_OF(dtype, 0, 0);
    fv_reduce_args a = {
        .op = FV_REDUCE_LOGSUMEXP, .red_rank = 1, .red_shape = {2}, .red_stride = {1}};
    kernel_run(FV_KERNEL_REDUCE_GRAD, dtype, PTRS(dx.data, g.data, x.data, y.data), &a);
    CHECK(vec_get(dx, 0) == 0 && vec_get(dx, 1) == 0);
    a.op = FV_REDUCE_NORM;
    kernel_run(FV_KERNEL_REDUCE_GRAD, dtype, PTRS(dx.data, g.data, zero.data, zero.data), &a);
    CHECK(vec_get(dx, 0) == 0 && vec_get(dx, 1) == 0);
}

static void reduce_edge_test(void) { for_reals(reduce_edges); }

/* The order of a float sum is part of the contract: spelled out here on its own. */
static void lane_order(fv_dtype dtype)
{
    if (dtype != FV_F32) return;
    const vec x = vec_random(FV_F32, 1003, -1, 1), out = vec_new(FV_F32, 1);
    const float *v = x.data;
    float lane[16] = {0};
    for (int r = 0; r < 1003; r++)
        lane[r % 16] += v[r];
    float half[8], quarter[4];
    for (int i = 0; i < 8; i++)
        half[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; i++)
        quarter[i] = half[i] + half[i + 4];
    const float sum = (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
    const fv_reduce_args a = {
        .op = FV_REDUCE_SUM, .red_rank = 1, .red_shape = {1003}, .red_stride = {1}, .alpha = 1};
    kernel_run(FV_KERNEL_REDUCE, FV_F32, PTRS(out.data, NULL, x.data), &a);
    CHECK(memcmp(&sum, out.data, sizeof sum) == 0);
}

static void lane_test(void) { for_reals(lane_order); }

static void running_sums(fv_dtype dtype)
{
    const vec x = VEC_OF(dtype, 1, 2, 3, 4, 5, 6), out = vec_new(dtype, 6);
    fv_cumsum_args a = {.rows = 2, .cols = 3};
    kernel_run(FV_KERNEL_CUMSUM, dtype, PTRS(out.data, x.data), &a);
    CHECK(vec_same_bits(out, VEC_OF(dtype, 1, 3, 6, 4, 9, 15)));
    a.reverse = true;
    kernel_run(FV_KERNEL_CUMSUM, dtype, PTRS(out.data, x.data), &a);
    CHECK(vec_same_bits(out, VEC_OF(dtype, 6, 5, 3, 15, 11, 6)));
}

static void cumsum_test(void) { for_reals(running_sums); }

/* ---- softmax --------------------------------------------------------------------- */

static void softmax_formulas(fv_dtype dtype)
{
    enum { ROWS = 3, COLS = 37 };
    const vec x = vec_random(dtype, ROWS * COLS, -5, 5), g = vec_random(dtype, x.n, -1, 1);
    const vec y = vec_new(dtype, x.n), dx = vec_new(dtype, x.n);
    for (int log_form = 0; log_form < 2; log_form++) {
        const fv_softmax_args a = {.rows = ROWS, .cols = COLS, .log = log_form};
        kernel_run(FV_KERNEL_SOFTMAX, dtype, PTRS(y.data, x.data), &a);
        const vec in_place = vec_copy(x);
        kernel_run(FV_KERNEL_SOFTMAX, dtype, PTRS(in_place.data, in_place.data), &a);
        CHECK(vec_same_bits(y, in_place));
        for (setup.dropped = 0; setup.dropped < 3; setup.dropped++) {
            kernel_run(FV_KERNEL_SOFTMAX_GRAD, dtype, PTRS(dx.data, y.data, g.data), &a);
            const double first = setup.dropped & 1 ? 0 : 1, second = setup.dropped & 2 ? 0 : 1;
            for (int64_t i = 0; i < x.n; i++) {
                const int64_t row = i / COLS * COLS;
                double sum = 0, g_sum = 0, pg_sum = 0;
                for (int64_t j = row; j < row + COLS; j++)
                    sum += exp(vec_get(x, j));
                for (int64_t j = row; j < row + COLS; j++) {
                    g_sum += vec_get(g, j);
                    pg_sum += exp(vec_get(x, j)) / sum * vec_get(g, j);
                }
                const double p = exp(vec_get(x, i)) / sum, up = vec_get(g, i);
                CHECK_VALUE(y, i, log_form ? log(p) : p);
                CHECK_VALUE(dx, i,
                            log_form ? first * up - second * p * g_sum
                                     : p * (first * up - second * pg_sum));
            }
        }
        setup.dropped = 0;
    }
}

static void softmax_test(void) { for_reals(softmax_formulas); }

static void softmax_edges(fv_dtype dtype)
{
    const double inf = INFINITY;
    const vec x = VEC_OF(dtype, -inf, -inf, 1, -inf, 2, inf, NAN, 0, 1e4, -1e4);
    const vec y = vec_new(dtype, 10);
    fv_softmax_args a = {.rows = 5, .cols = 2};
    kernel_run(FV_KERNEL_SOFTMAX, dtype, PTRS(y.data, x.data), &a);
    CHECK(vec_get(y, 0) == 0 && vec_get(y, 1) == 0); /* nothing to attend to */
    CHECK(vec_get(y, 2) == 1 && vec_get(y, 3) == 0);
    CHECK(isnan(vec_get(y, 5)));
    CHECK(isnan(vec_get(y, 6)) && isnan(vec_get(y, 7)));
    CHECK(vec_get(y, 8) == 1 && vec_get(y, 9) == 0);
    a.log = true;
    kernel_run(FV_KERNEL_SOFTMAX, dtype, PTRS(y.data, x.data), &a);
    CHECK(vec_get(y, 0) == -inf && vec_get(y, 1) == -inf);
    CHECK(vec_get(y, 2) == 0 && vec_get(y, 3) == -inf && vec_get(y, 9) == -2e4);
    a.cols = 0;
    kernel_run(FV_KERNEL_SOFTMAX, dtype, PTRS(y.data, x.data), &a);
    CHECK(vec_get(y, 2) == 0);
}

static void softmax_edge_test(void) { for_reals(softmax_edges); }

/* ---- norms ----------------------------------------------------------------------- */

enum { NORM_ROWS = 21, NORM_COLS = 35 };

/* Statistics of a row in double. For RMS the mean is 0 by definition. */
typedef struct row_facts {
    double mean, rstd, u_mean, uh_mean;
} row_facts;

static row_facts norm_facts(vec x, vec g, vec gamma, int64_t row, bool rms, double eps)
{
    row_facts f = {0};
    double squares = 0;
    for (int64_t j = 0; j < NORM_COLS && !rms; j++)
        f.mean += vec_get(x, row * NORM_COLS + j) / NORM_COLS;
    for (int64_t j = 0; j < NORM_COLS; j++)
        squares += pow(vec_get(x, row * NORM_COLS + j) - f.mean, 2) / NORM_COLS;
    f.rstd = 1 / sqrt(squares + eps);
    for (int64_t j = 0; j < NORM_COLS; j++) {
        const double u = vec_get(g, row * NORM_COLS + j) * (gamma.data ? vec_get(gamma, j) : 1);
        f.u_mean += u / NORM_COLS;
        f.uh_mean += u * (vec_get(x, row * NORM_COLS + j) - f.mean) * f.rstd / NORM_COLS;
    }
    return f;
}

static void check_norm(fv_dtype dtype, bool rms, bool affine, unsigned dropped)
{
    const fv_norm_args a = {.rows = NORM_ROWS, .cols = NORM_COLS, .eps = 1e-5};
    const vec x = vec_random(dtype, NORM_ROWS * NORM_COLS, -1, 3);
    const vec g = vec_random(dtype, x.n, -1, 1), y = vec_new(dtype, x.n), dx = vec_new(dtype, x.n);
    const vec mean = vec_new(dtype, NORM_ROWS), rstd = vec_new(dtype, NORM_ROWS);
    vec gamma = {.dtype = dtype}, beta = {.dtype = dtype};
    if (affine) {
        gamma = vec_random(dtype, NORM_COLS, 0.5, 2);
        beta = vec_random(dtype, NORM_COLS, -1, 1);
    }
    setup.dropped = dropped;
    if (rms) {
        kernel_run(FV_KERNEL_RMS_NORM, dtype, PTRS(y.data, rstd.data, x.data, gamma.data), &a);
        kernel_run(FV_KERNEL_RMS_NORM_GRAD, dtype,
                   PTRS(dx.data, g.data, x.data, rstd.data, gamma.data), &a);
    } else {
        kernel_run(FV_KERNEL_LAYER_NORM, dtype,
                   PTRS(y.data, mean.data, rstd.data, x.data, gamma.data, beta.data), &a);
        kernel_run(FV_KERNEL_LAYER_NORM_GRAD, dtype,
                   PTRS(dx.data, g.data, x.data, mean.data, rstd.data, gamma.data), &a);
    }
    setup.dropped = 0;
    const double keep_u = dropped & 1 ? 0 : 1, keep_mean = dropped & 2 || rms ? 0 : 1;
    const double keep_uh = dropped & (rms ? 2 : 4) ? 0 : 1;
    for (int64_t i = 0; i < x.n; i++) {
        const int64_t row = i / NORM_COLS, j = i % NORM_COLS;
        const row_facts f = norm_facts(x, g, gamma, row, rms, a.eps);
        const double h = (vec_get(x, i) - f.mean) * f.rstd;
        const double scale = affine ? vec_get(gamma, j) : 1;
        CHECK_VALUE(y, i, h * scale + (affine && !rms ? vec_get(beta, j) : 0));
        CHECK_VALUE(dx, i,
                    f.rstd * (keep_u * vec_get(g, i) * scale - keep_mean * f.u_mean -
                              keep_uh * h * f.uh_mean));
        CHECK_VALUE(rstd, row, f.rstd);
        if (!rms) CHECK_VALUE(mean, row, f.mean);
    }
    const vec dgamma = vec_random(dtype, NORM_COLS, 1, 2), dbeta = vec_new(dtype, NORM_COLS);
    const vec before = vec_copy(dgamma);
    const fv_norm_args adding = {.rows = NORM_ROWS, .cols = NORM_COLS, .accumulate = true};
    void *means = rms ? NULL : mean.data;
    kernel_run(FV_KERNEL_NORM_PARAM_GRAD, dtype,
               PTRS(dgamma.data, NULL, g.data, x.data, means, rstd.data), &adding);
    kernel_run(FV_KERNEL_NORM_PARAM_GRAD, dtype,
               PTRS(NULL, dbeta.data, g.data, x.data, means, rstd.data), &a);
    for (int64_t j = 0; j < NORM_COLS; j++) {
        double to_gamma = vec_get(before, j), to_beta = 0;
        for (int64_t row = 0; row < NORM_ROWS; row++) {
            const int64_t i = row * NORM_COLS + j;
            const row_facts f = norm_facts(x, g, gamma, row, rms, a.eps);
            to_gamma += vec_get(g, i) * (vec_get(x, i) - f.mean) * f.rstd;
            to_beta += vec_get(g, i);
        }
        CHECK_VALUE(dgamma, j, to_gamma);
        CHECK_VALUE(dbeta, j, to_beta);
    }
}

static void norms(fv_dtype dtype)
{
    for (unsigned dropped = 0; dropped <= 4; dropped = dropped ? 2 * dropped : 1) {
        check_norm(dtype, false, true, dropped);
        check_norm(dtype, true, true, dropped);
    }
    check_norm(dtype, false, false, 0);
    check_norm(dtype, true, false, 0);
}

static void norm_test(void) { for_reals(norms); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(reduce_test);
    RUN(reduce_edge_test);
    RUN(lane_test);
    RUN(cumsum_test);
    RUN(softmax_test);
    RUN(softmax_edge_test);
    RUN(norm_test);
    return TEST_END();
}
