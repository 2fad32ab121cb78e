/*
 * How exact attention is: every level, over lengths 0 to 4096, widths 1 to 512 and scores of
 * standard deviation 1 to 256, for one query, a few and many, which have kernels of their own;
 * against sums in double that are written out here.
 *
 * With u = 2^-24, S the largest |score| and V the largest |value|, a result is off by at most
 *
 *     8 u (1 + S) V                          f32
 *     the same before it is stored           bf16, f16
 *     the same + 2^-8 sum_j p_j |v_j|        bf16 by pairs (attention_bf16.c) and on tiles
 *                                            (attention_tiles.h), which round their weights, but
 *                                            not those of one query; before it is stored
 *
 * What it was before it was stored is not known, but the numbers that are stored as what is there
 * are an interval, and the bound must reach into it (vec_gap): a test without a tolerance for
 * storing. And as users see it, what is stored included, no level may be worse than twice the plain
 * kernel, the worst of each counted in units of 8 u (1 + S) V and one rounding of sum_j p_j |v_j|.
 */
#include "support/attention.h"

enum { MANY = 18, FEW = 13, LONGEST = 4096, WIDEST = 512 };
enum { EMULATED = FV_SIMD_AMX + 1, LEVELS }; /* the last one: level amx on emulated tiles */

/* The worst of all problems so far, in units: of the bound, and with what is stored. */
static double worst[LEVELS], worst_stored[LEVELS];

static const char *name_of(int level)
{
    return level == EMULATED ? "emulated tiles" : fv_simd_name((fv_simd)level);
}

/* ---- the truth -------------------------------------------------------------------- */

typedef struct truth {
    double o[MANY][WIDEST];
    double size[MANY][WIDEST]; /* sum_j p_j |v_j| */
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
        p[j] = a->rule.scale * s;
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

/* One rounding to a stored type of a number of this size. */
static double rounding(fv_dtype dtype, double size)
{
    if (dtype == FV_BF16) return 0x1p-8 * size;
    if (dtype == FV_F16) return 0x1p-11 * size + 0x1p-25;
    return 0;
}

static double units(double far, double bound) { return far == 0 ? 0 : far / bound; }

/* Results of the first queries at the level chosen last; returns the share of the bound. */
static double error_of(const problem *x, const truth *t, double *stored)
{
    const double sums = 8 * 0x1p-24 * (1 + t->top_score) * t->top_value;
    const bool pairs = attn_by_pairs(x->a.dtype) && x->a.n_q > 1;
    double most = 0;
    for (int64_t i = 0; i < x->a.n_q * x->a.d_v; i++) {
        const double exact = t->o[i / x->a.d_v][i % x->a.d_v];
        const double size = t->size[i / x->a.d_v][i % x->a.d_v];
        const double weights = pairs ? 0x1p-8 * size : 0;
        most = test_worse(most, units(vec_gap(x->o, i, exact), sums + weights));
        *stored = test_worse(
            *stored, units(fabs(vec_get(x->o, i) - exact), sums + rounding(x->a.dtype, size)));
    }
    return most;
}

/* At the level chosen last. */
static void measure_level(const problem *x, const truth *t, int level)
{
    run_forward(x);
    const double share = error_of(x, t, &worst_stored[level]);
    worst[level] = test_worse(worst[level], share);
    if (!(share <= 1))
        test_failed(__FILE__, __LINE__,
                    "%s at %s, %lld queries, %lld keys, widths %lld and %lld, scale %g: %.3g",
                    fv_dtype_name(x->a.dtype), name_of(level), (long long)x->a.n_q,
                    (long long)x->a.n_k, (long long)x->a.d, (long long)x->a.d_v, x->a.rule.scale,
                    share);
}

static void measure_queries(const problem *all, const truth *t, int64_t n_q)
{
    problem x = problem_again(all);
    x.a.n_q = n_q;
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        kernel_level((fv_simd)level);
        measure_level(&x, t, level);
    }
    if (x.a.dtype == FV_BF16 && attn_choose_tiles()) measure_level(&x, t, EMULATED);
}

static void measure(fv_dtype dtype, int64_t n, int64_t d, int64_t d_v, double size)
{
    static truth t;
    fv_attn a = attn_sizes(MANY, n, d, d_v);
    a.dtype = dtype;
    a.rule.scale *= size;
    const problem x = problem_of(a);
    find_truth(&x, &t);
    measure_queries(&x, &t, 1);
    measure_queries(&x, &t, FEW);
    measure_queries(&x, &t, MANY);
    vec_free_all();
}

/* ---- tables ----------------------------------------------------------------------- */

static void measure_all(fv_dtype dtype)
{
    static const int64_t n[] = {0, 1, 2, 3, 15, 63, 64, 65, 255, 256, 257, 1000, 2049, LONGEST};
    static const int64_t d[] = {1, 2, 3, 17, 63, 64, 65, 127, 128, 300, WIDEST};
    enum { N = sizeof n / sizeof *n, D = sizeof d / sizeof *d };
    memset(worst, 0, sizeof worst);
    memset(worst_stored, 0, sizeof worst_stored);
    for (int i = 0; i < N; i++)
        for (int w = 0; w < D; w++) /* every size of scores with every length and every width */
            measure(dtype, n[i], d[w], d[w], (double)(1 << 2 * ((i + w) % 5)));
    for (double size = 1; size <= 256; size *= 2) {
        measure(dtype, LONGEST, 64, 64, size);
        measure(dtype, 300, WIDEST, 1, size);
        measure(dtype, 300, 1, WIDEST, size);
        measure(dtype, 1500, 64, 65, size);
    }
    for (int level = FV_SIMD_AVX2; level < LEVELS; level++) /* 0 where there is no such level */
        if (!(worst_stored[level] <= 2 * worst_stored[FV_SIMD_SCALAR]))
            test_failed(__FILE__, __LINE__,
                        "%s at %s is off by %.3g units, the plain kernel by %.3g",
                        fv_dtype_name(dtype), name_of(level), worst_stored[level],
                        worst_stored[FV_SIMD_SCALAR]);
    printf("%s: worst share of the bound, and as stored:\n", fv_dtype_name(dtype));
    for (int level = FV_SIMD_SCALAR; level < LEVELS; level++)
        if (worst_stored[level] > 0)
            printf("  %-14s %.2f %.2f\n", name_of(level), worst[level], worst_stored[level]);
}

static void floats(void) { measure_all(FV_F32); }
static void bf16(void) { measure_all(FV_BF16); }
static void f16(void) { measure_all(FV_F16); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(floats);
    RUN(bf16);
    RUN(f16);
    return TEST_END();
}
