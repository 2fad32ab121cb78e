#include "support/values.h"

#include "kernels/convert.h"

static fv_device_kind chosen = FV_DEVICE_CPU;

void values_device(fv_device_kind device) { chosen = device; }

fv_ctx *values_begin(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = chosen;
    cfg.threads = 1;
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) {
        fprintf(stderr, "values_begin: cannot create a context\n");
        exit(1);
    }
    return ctx;
}

void values_end(fv_ctx **ctx)
{
    if (fv_ctx_error(*ctx) != FV_OK)
        test_failed(__FILE__, __LINE__, "left behind: %s", fv_ctx_message(*ctx));
    fv_ctx_destroy(ctx);
}

static int64_t count_of(test_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.size[i];
    return n;
}

static void shape_text(char *out, size_t bytes, int rank, const int64_t *size)
{
    size_t used = (size_t)snprintf(out, bytes, "[");
    for (int i = 0; i < rank && used < bytes; i++)
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%lld", i ? "," : "", (long long)size[i]);
    if (used < bytes) snprintf(out + used, bytes - used, "]");
}

fv_tensor *values_of(fv_ctx *ctx, fv_dtype dtype, test_shape shape, int n, const double *values)
{
    const int64_t count = count_of(shape);
    if (count != n)
        test_failed(__FILE__, __LINE__, "the test gives %d values for %lld elements", n,
                    (long long)count);
    void *data = calloc((size_t)count + 1, 8);
    fv_convert(n < count ? n : count, dtype, data, 1, FV_F64, values, 1);
    fv_tensor *t = fv_from_host(ctx, dtype, shape.rank, shape.size, data);
    free(data);
    return t;
}

fv_tensor *values_counting(fv_ctx *ctx, fv_dtype dtype, test_shape shape)
{
    const int64_t n = count_of(shape);
    double *values = calloc((size_t)n + 1, sizeof *values);
    for (int64_t i = 0; i < n; i++)
        values[i] = (double)i;
    fv_tensor *t = values_of(ctx, dtype, shape, (int)n, values);
    free(values);
    return t;
}

fv_tensor *values_none(fv_ctx *ctx, fv_dtype dtype, test_shape shape)
{
    return fv_empty(ctx, dtype, shape.rank, shape.size);
}

int64_t values_read(fv_ctx *ctx, const fv_tensor *t, double *out, int64_t room)
{
    const int64_t n = fv_tensor_count(t);
    const size_t bytes = (size_t)n * fv_dtype_size(fv_tensor_dtype(t));
    void *data = calloc(bytes + 1, 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, data, bytes));
    fv_convert(n < room ? n : room, FV_F64, out, 1, fv_tensor_dtype(t), data, 1);
    free(data);
    return n;
}

static bool equal(double a, double b, fv_dtype dtype, bool exact)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return true;
    const double tolerance = dtype == FV_F64 ? 1e-12 : 2e-6;
    return !exact && fabs(a - b) <= tolerance * (1 + fabs(b));
}

void values_check(const char *file, int line, fv_ctx *ctx, const fv_tensor *t, fv_dtype dtype,
                  test_shape shape, int n, const double *values, bool exact)
{
    if (!t || fv_ctx_error(ctx) != FV_OK) {
        test_failed(file, line, "no tensor: %s", t ? fv_ctx_message(ctx) : "NULL");
        fv_ctx_take_error(ctx);
        return;
    }
    if (fv_tensor_dtype(t) != dtype)
        test_failed(file, line, "dtype is %s, not %s", fv_dtype_name(fv_tensor_dtype(t)),
                    fv_dtype_name(dtype));
    bool same = fv_tensor_rank(t) == shape.rank;
    for (int i = 0; i < shape.rank && same; i++)
        same = fv_tensor_shape(t)[i] == shape.size[i];
    if (!same || count_of(shape) != n) {
        char is[96], wanted[96];
        shape_text(is, sizeof is, fv_tensor_rank(t), fv_tensor_shape(t));
        shape_text(wanted, sizeof wanted, shape.rank, shape.size);
        test_failed(file, line, "shape is %s, not %s with %d values", is, wanted, n);
        return;
    }
    double *got = calloc((size_t)n + 1, sizeof *got);
    values_read(ctx, t, got, n);
    for (int i = 0; i < n; i++)
        if (!equal(got[i], values[i], dtype, exact)) {
            test_failed(file, line, "element %d is %.17g, not %.17g", i, got[i], values[i]);
            break;
        }
    free(got);
}

void values_check_refused(const char *file, int line, fv_ctx *ctx, const fv_tensor *t,
                          fv_status status, const char *text)
{
    if (fv_tensor_valid(t)) test_failed(file, line, "the result is valid");
    const fv_status is = fv_ctx_take_error(ctx);
    if (is != status)
        test_failed(file, line, "status is %s, not %s", fv_status_name(is), fv_status_name(status));
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(file, line, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
}

void values_backward(fv_ctx *ctx, fv_tensor *y)
{
    fv_tensor *ones = fv_full(ctx, fv_tensor_dtype(y), fv_tensor_rank(y), fv_tensor_shape(y), 1.0);
    CHECK_OK(ctx, fv_backward_from(ctx, y, ones));
}
