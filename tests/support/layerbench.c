#include "support/layerbench.h"

bench bench_new(void)
{
    bench b = {.ctx = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU)};
    CHECK_OK(b.ctx, fv_params_create(b.ctx, &b.params));
    return b;
}

void bench_free(bench *b)
{
    CHECK_OK(b->ctx, fv_ctx_error(b->ctx));
    fv_params_destroy(&b->params);
    fv_ctx_destroy(&b->ctx);
}

fv_tensor *bench_parameter(const bench *b, const char *name)
{
    fv_tensor *t = fv_params_find(b->params, name);
    if (!t) test_failed(__FILE__, __LINE__, "there is no parameter '%s'", name);
    return t;
}
