#include "support/tensors.h"

#include <stdarg.h>

#include "base/rng.h"

static int64_t take_shape(int rank, va_list ap, int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        shape[i] = va_arg(ap, int);
        n *= shape[i];
    }
    return n;
}

fv_tensor *tensor_of(fv_ctx *ctx, const float *data, int rank, ...)
{
    int64_t shape[FV_MAX_RANK];
    va_list ap;
    va_start(ap, rank);
    take_shape(rank, ap, shape);
    va_end(ap);
    return fv_from_host(ctx, FV_F32, rank, shape, data);
}

fv_tensor *indices_of(fv_ctx *ctx, const int64_t *data, int64_t n)
{
    return fv_from_host(ctx, FV_I64, 1, &n, data);
}

fv_tensor *tensor_random(fv_ctx *ctx, uint64_t key, int rank, ...)
{
    int64_t shape[FV_MAX_RANK];
    va_list ap;
    va_start(ap, rank);
    int64_t n = take_shape(rank, ap, shape);
    va_end(ap);
    float *data = malloc((size_t)n * sizeof *data + 1);
    for (int64_t i = 0; i < n; i++) {
        uint32_t r[4];
        fv_rng_draw(key, (uint64_t)i, 0, r);
        double radius = sqrt(-2.0 * log(1.0 - (double)fv_rng_unit(r[0])));
        data[i] = (float)(radius * cos(6.283185307179586 * (double)fv_rng_unit(r[1])));
    }
    fv_tensor *t = fv_from_host(ctx, FV_F32, rank, shape, data);
    free(data);
    return t;
}

static void *read_all(fv_ctx *ctx, const fv_tensor *t, fv_dtype dtype)
{
    size_t bytes = (size_t)fv_tensor_count(t) * fv_dtype_size(dtype);
    void *data = calloc(1, bytes + 1);
    CHECK(fv_tensor_dtype(t) == dtype);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, data, bytes));
    return data;
}

float *tensor_floats(fv_ctx *ctx, const fv_tensor *t) { return read_all(ctx, t, FV_F32); }
int64_t *tensor_indices(fv_ctx *ctx, const fv_tensor *t) { return read_all(ctx, t, FV_I64); }

void tensor_expect(fv_ctx *ctx, const fv_tensor *t, double tolerance, const double *expected,
                   int64_t n, const char *file, int line)
{
    if (!t || fv_tensor_count(t) != n) {
        test_failed(file, line, "%lld values expected: %s", (long long)n, fv_ctx_message(ctx));
        return;
    }
    const bool index = fv_tensor_dtype(t) == FV_I64;
    void *data = index ? (void *)tensor_indices(ctx, t) : (void *)tensor_floats(ctx, t);
    for (int64_t i = 0; i < n; i++) {
        double x = index ? (double)((int64_t *)data)[i] : (double)((float *)data)[i];
        bool same = x == expected[i] || (isnan(x) && isnan(expected[i]));
        if (!same && !(fabs(x - expected[i]) <= tolerance))
            test_failed(file, line, "element %lld is %.9g, not %.9g", (long long)i, x, expected[i]);
    }
    free(data);
}

static bool same_shape(const fv_tensor *a, const fv_tensor *b)
{
    if (!a || !b || fv_tensor_rank(a) != fv_tensor_rank(b)) return false;
    for (int i = 0; i < fv_tensor_rank(a); i++)
        if (fv_tensor_size(a, i) != fv_tensor_size(b, i)) return false;
    return fv_tensor_dtype(a) == fv_tensor_dtype(b);
}

bool tensor_same(fv_ctx *ctx, const fv_tensor *a, const fv_tensor *b)
{
    if (!same_shape(a, b)) return false;
    void *x = read_all(ctx, a, fv_tensor_dtype(a)), *y = read_all(ctx, b, fv_tensor_dtype(a));
    size_t bytes = (size_t)fv_tensor_count(a) * fv_dtype_size(fv_tensor_dtype(a));
    bool same = memcmp(x, y, bytes) == 0;
    free(x);
    free(y);
    return same;
}

double tensor_distance(fv_ctx *ctx, const fv_tensor *a, const fv_tensor *b)
{
    if (!same_shape(a, b)) return INFINITY;
    float *x = tensor_floats(ctx, a), *y = tensor_floats(ctx, b);
    double worst = 0;
    for (int64_t i = 0; i < fv_tensor_count(a); i++)
        worst = test_worse(worst, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return worst;
}

void tensor_expect_error(fv_ctx *ctx, fv_status status, const char *text, const char *file,
                         int line)
{
    fv_status got = fv_ctx_take_error(ctx);
    if (got != status)
        test_failed(file, line, "status %s, not %s: %s", fv_status_name(got),
                    fv_status_name(status), fv_ctx_message(ctx));
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(file, line, "message \"%s\" does not contain \"%s\"", fv_ctx_message(ctx),
                    text);
}

bool params_part_of(fv_ctx *ctx, fv_params *a, fv_params *b, int *more)
{
    bool same = true;
    for (int i = 0; i < fv_params_count(a); i++) {
        const char *name = fv_params_name(a, i);
        const fv_tensor *other = fv_params_find(b, name);
        if (other && tensor_same(ctx, fv_params_tensor(a, i), other)) continue;
        test_failed(__FILE__, __LINE__, "%s differs", name);
        same = false;
    }
    *more = fv_params_count(b) - fv_params_count(a);
    return same;
}
