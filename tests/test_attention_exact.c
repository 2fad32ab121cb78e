/*
 * How exact attention is: every level, over lengths 0 to 4096, widths 1 to 512 and scores of
 * standard deviation 1 to 256, against sums in double that are written out here.
 *
 * An error is measured in units of what one evaluation in the stored type may cost:
 *     f32   8 u (1 + S) V            u = 2^-24, S the largest |score|, V the largest |value|
 *     bf16  the same + 2^-8 sum_j p_j |v_j|, one rounding of the result
 *     f16   the same + 2^-11 sum_j p_j |v_j| + 2^-25
 * No level may pass 1, but bf16 by pairs (attention_bf16.c), which rounds weights as well and may
 * reach 2. And no level may be worse than twice the plain kernel, the worst of each counted.
 */
#include "support/attention.h"

enum { QUERIES = 13, LEVELS = FV_SIMD_AVX512 + 1, LONGEST = 4096, WIDEST = 512 };

/* The worst of all problems so far, in units. */
static double worst[LEVELS];

/* ---- the truth -------------------------------------------------------------------- */

typedef struct truth {
    double o[QUERIES][WIDEST];
    double size[QUERIES][WIDEST]; /* sum_j p_j |v_j| */
    double top_score, top_value;
} truth;

static double *doubles_of(vec x)
{
    double *y = vec_new(FV_F64, x.n).data;
    for (int64_t i = 0; i < x.n; i++)
        y[i] = vec_get(x, i);
    return y;
}

/* Weights of one query; returns the largest |score|. */
static double weights_of(const fv_attn *a, const double *q, const double *k, double *p)
{
    double most = -INFINITY, top = 0, sum = 0;
    for (int64_t j = 0; j < a->n_k; j++) {
        double s = 0;
        for (int64_t c = 0; c < a->d; c++)
            s += q[c] * k[j * a->d + c];
        p[j] = a->scale * s;
        most = fmax(most, p[j]);
        top = fmax(top, fabs(p[j]));
    }
    for (int64_t j = 0; j < a->n_k; j++)
        sum += p[j] = exp(p[j] - most);
    for (int64_t j = 0; j < a->n_k; j++)
        p[j] /= sum;
    return top;
}

static void find_truth(const problem *x, truth *t)
{
    static double p[LONGEST];
    const fv_attn *a = &x->a;
    const double *q = doubles_of(x->q), *k = doubles_of(x->k), *v = doubles_of(x->v);
    *t = (truth){.top_value = vec_largest(x->v)};
    for (int64_t i = 0; i < a->n_q; i++) {
        t->top_score = fmax(t->top_score, weights_of(a, q + i * a->d, k, p));
        for (int64_t j = 0; j < a->n_k; j++)
            for (int64_t c = 0; c < a->d_v; c++) {
                t->o[i][c] += p[j] * v[j * a->d_v + c];
                t->size[i][c] += p[j] * fabs(v[j * a->d_v + c]);
            }
    }
}

/* ---- the measure ------------------------------------------------------------------ */

static double unit_of(const truth *t, fv_dtype dtype, double size)
{
    const double sums = 8 * 0x1p-24 * (1 + t->top_score) * t->top_value;
    if (dtype == FV_BF16) return sums + 0x1p-8 * size;
    if (dtype == FV_F16) return sums + 0x1p-11 * size + 0x1p-25;
    return sums;
}

static double error_of(const problem *x, const truth *t)
{
    double most = 0;
    for (int64_t i = 0; i < x->a.n_q * x->a.d_v; i++) {
        const int64_t row = i / x->a.d_v, c = i % x->a.d_v;
        const double far = fabs(vec_get(x->o, i) - t->o[row][c]);
        const double units = far == 0 ? 0 : far / unit_of(t, x->a.dtype, t->size[row][c]);
        if (!(units <= most)) most = units;
    }
    return most;
}

static void measure(fv_dtype dtype, int64_t n_q, int64_t n, int64_t d, int64_t d_v, double size)
{
    static truth t;
    fv_attn a = attn_sizes(n_q, n, d, d_v);
    a.dtype = dtype;
    a.scale *= size;
    problem x = problem_of(a);
    find_truth(&x, &t);
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        kernel_level((fv_simd)level);
        const double limit = attn_by_pairs(dtype) ? 2 : 1;
        run_forward(&x);
        const double units = error_of(&x, &t);
        worst[level] = fmax(worst[level], units);
        if (!(units <= limit))
            test_failed(__FILE__, __LINE__,
                        "%s at %s, %lld keys, widths %lld and %lld, size %g: %.3g",
                        fv_dtype_name(dtype), fv_simd_name((fv_simd)level), (long long)n,
                        (long long)d, (long long)d_v, size, units);
    }
    vec_free_all();
}

/* ---- tables ----------------------------------------------------------------------- */

static void measure_all(fv_dtype dtype)
{
    static const int64_t n[] = {0, 1, 2, 3, 15, 63, 64, 65, 255, 256, 257, 1000, 2049, LONGEST};
    static const int64_t d[] = {1, 2, 3, 17, 63, 64, 65, 127, 128, 300, WIDEST};
    enum { N = sizeof n / sizeof *n, D = sizeof d / sizeof *d };
    memset(worst, 0, sizeof worst);
    for (int i = 0; i < N; i++)
        for (int w = 0; w < D; w++) /* every size of scores with every length and every width */
            measure(dtype, QUERIES, n[i], d[w], d[w], (double)(1 << 2 * ((i + w) % 5)));
    for (double size = 1; size <= 256; size *= 2) {
        measure(dtype, QUERIES, LONGEST, 64, 64, size);
        measure(dtype, QUERIES, 300, WIDEST, 1, size);
        measure(dtype, QUERIES, 300, 1, WIDEST, size);
        measure(dtype, 1, 1500, 64, 65, size); /* decoding */
    }
    for (int level = FV_SIMD_AVX2; level <= (int)fv_simd_detect(); level++)
        if (!(worst[level] <= 2 * worst[FV_SIMD_SCALAR]))
            test_failed(__FILE__, __LINE__,
                        "%s at %s is off by %.3g units, the plain kernel by %.3g",
                        fv_dtype_name(dtype), fv_simd_name((fv_simd)level), worst[level],
                        worst[FV_SIMD_SCALAR]);
    printf("%s: worst errors, in units: plain %.2f, avx2 %.2f, avx512 %.2f\n", fv_dtype_name(dtype),
           worst[FV_SIMD_SCALAR], worst[FV_SIMD_AVX2], worst[FV_SIMD_AVX512]);
}

static void floats(void) { measure_all(FV_F32); }
static void bf16(void) { measure_all(FV_BF16); }
static void f16(void) { measure_all(FV_F16); }

int main(int argc, char **argv)
{
    TEST_BEGIN(argc, argv);
    RUN(floats);
    RUN(bf16);
    RUN(f16);
    return TEST_END();
}
