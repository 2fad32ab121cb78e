#include "train/frechet.h"

#include <math.h>
#include <string.h>

/* ---- moments -------------------------------------------------------------------------------- */

static size_t matrix_bytes(int64_t n) { return (size_t)(n * n) * sizeof(double); }
static size_t vector_bytes(int64_t n) { return (size_t)n * sizeof(double); }

fv_status fv_moments_create(fv_ctx *ctx, int64_t width, fv_moments *out)
{
    FV_RETURN_IF(width < 1 || width > FV_MOMENTS_WIDTH, ctx, FV_ERR_ARGUMENT,
                 "frechet: vectors of %lld numbers, expected 1 to %d", (long long)width,
                 FV_MOMENTS_WIDTH);
    fv_moments m = {.ctx = ctx, .width = width};
    m.sum = fv_mem_zalloc(&ctx->mem, vector_bytes(width));
    m.products = fv_mem_zalloc(&ctx->mem, matrix_bytes(width));
    if (!m.sum || !m.products) {
        fv_moments_free(&m);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory for the covariance of %lld features",
                       (long long)width);
    }
    *out = m;
    return FV_OK;
}

void fv_moments_free(fv_moments *m)
{
    if (m->sum) fv_mem_free(&m->ctx->mem, m->sum, vector_bytes(m->width));
    if (m->products) fv_mem_free(&m->ctx->mem, m->products, matrix_bytes(m->width));
    *m = (fv_moments){0};
}

void fv_moments_add(fv_moments *m, const float *rows, int64_t count)
{
    const int64_t n = m->width;
    for (int64_t r = 0; r < count; r++, rows += n)
        for (int64_t i = 0; i < n; i++) {
            const double x = (double)rows[i];
            m->sum[i] += x;
            for (int64_t j = 0; j <= i; j++)
                m->products[i * n + j] += x * (double)rows[j];
        }
    m->count += count;
}

/* The covariance, both halves. False: not finite. */
static bool covariance(const fv_moments *m, double *out)
{
    const int64_t n = m->width;
    const double count = (double)m->count;
    bool finite = true;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            const double c = (m->products[i * n + j] - m->sum[i] * m->sum[j] / count) / (count - 1);
            out[i * n + j] = out[j * n + i] = c;
            finite = finite && isfinite(c);
        }
    return finite;
}

/* ---- symmetric matrices --------------------------------------------------------------------- */

/* Rotates rows and columns p and q of the symmetric matrix a so that a_pq becomes 0; vectors (rows
 * are eigenvectors) get the same rotation, unless NULL. */
static void rotate(double *a, double *vectors, int64_t n, int64_t p, int64_t q)
{
    const double apq = a[p * n + q];
    const double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
    const double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int64_t k = 0; k < n; k++) {
        if (k != p && k != q) {
            const double x = a[p * n + k], y = a[q * n + k];
            a[p * n + k] = a[k * n + p] = c * x - s * y;
            a[q * n + k] = a[k * n + q] = s * x + c * y;
        }
        if (vectors) {
            const double x = vectors[p * n + k], y = vectors[q * n + k];
            vectors[p * n + k] = c * x - s * y;
            vectors[q * n + k] = s * x + c * y;
        }
    }
    a[p * n + p] -= t * apq;
    a[q * n + q] += t * apq;
    a[p * n + q] = a[q * n + p] = 0;
}

/* Jacobi's method: a becomes diagonal, with the eigenvalues. */
static void diagonalize(double *a, double *vectors, int64_t n)
{
    enum { SWEEPS = 60 };
    double all = 0;
    for (int64_t i = 0; i < n * n; i++)
        all += a[i] * a[i];
    for (int64_t i = 0; vectors && i < n * n; i++)
        vectors[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double rest = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                rest += a[p * n + q] * a[p * n + q];
        if (!(rest > 1e-30 * all)) return;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++)
                if (a[p * n + q] != 0) rotate(a, vectors, n, p, q);
    }
}

/* root = V^T sqrt(D) V for a = V^T D V; rounding may leave eigenvalues just below 0. a is lost. */
static void square_root(double *a, double *vectors, double *root, int64_t n)
{
    diagonalize(a, vectors, n);
    memset(root, 0, matrix_bytes(n));
    for (int64_t k = 0; k < n; k++) {
        const double value = sqrt(fmax(0, a[k * n + k])), *v = vectors + k * n;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                root[i * n + j] += value * v[i] * v[j];
    }
}

static void multiply(const double *a, const double *b, double *out, int64_t n)
{
    memset(out, 0, matrix_bytes(n));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                out[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* ---- the distance --------------------------------------------------------------------------- */

/* tr (C1 C2)^(1/2) = tr (R C2 R)^(1/2) with R = C1^(1/2), which is symmetric. Overwrites all. */
static double root_trace(double *c1, double *c2, double *r, double *room, int64_t n)
{
    double trace = 0;
    square_root(c1, room, r, n);
    multiply(r, c2, room, n);
    multiply(room, r, c1, n);
    for (int64_t i = 0; i < n; i++) /* equal halves, which rounding has made slightly different */
        for (int64_t j = 0; j < i; j++)
            c1[i * n + j] = c1[j * n + i] = (c1[i * n + j] + c1[j * n + i]) / 2;
    diagonalize(c1, NULL, n);
    for (int64_t i = 0; i < n; i++)
        trace += sqrt(fmax(0, c1[i * n + i]));
    return trace;
}

static fv_status distance_in(const fv_moments *a, const fv_moments *b, double *room, double *out)
{
    const int64_t n = a->width, all = n * n;
    double *c1 = room, *c2 = room + all, sum = 0;
    FV_RETURN_IF(!covariance(a, c1) || !covariance(b, c2), a->ctx, FV_ERR_NONFINITE,
                 "frechet: a feature is not finite");
    for (int64_t i = 0; i < n; i++) {
        const double d = a->sum[i] / (double)a->count - b->sum[i] / (double)b->count;
        sum += d * d + c1[i * n + i] + c2[i * n + i];
    }
    *out = fmax(0, sum - 2 * root_trace(c1, c2, room + 2 * all, room + 3 * all, n));
    return FV_OK;
}

fv_status fv_frechet_distance(const fv_moments *a, const fv_moments *b, double *out)
{
    fv_ctx *ctx = a->ctx;
    FV_RETURN_IF(a->width != b->width || a->count < 2 || b->count < 2, ctx, FV_ERR_ARGUMENT,
                 "frechet: %lld vectors of %lld numbers against %lld of %lld", (long long)a->count,
                 (long long)a->width, (long long)b->count, (long long)b->width);
    const size_t bytes = 4 * matrix_bytes(a->width);
    double *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "no memory for the covariance of %lld features",
                 (long long)a->width);
    const fv_status status = distance_in(a, b, room, out);
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}
