#include "device/engine.h"

static void run_on_pool(void *user, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

void fv_engine_init(fv_engine *engine, fv_ctx *ctx)
{
    engine->ctx = ctx;
    fv_kernel_table_register(&engine->table, ctx->simd);
    engine->exec = (fv_exec){.parallel = run_on_pool,
                             .user = ctx->pool,
                             .threads = fv_pool_threads(ctx->pool),
                             .table = &engine->table,
                             .fault = &engine->fault};
    engine->scratch_bytes = 0;
}

void fv_engine_destroy(fv_engine *engine)
{
    fv_mem_free(&engine->ctx->mem, engine->exec.scratch, engine->scratch_bytes);
}

size_t fv_engine_packed_bytes(const fv_device *dev, fv_weight_form form, int64_t k, int64_t n)
{
    (void)dev; /* the same panels at every SIMD level */
    return fv_gemm_packed_bytes(k, n, form);
}

/* Enough for the level's own kernel and for the reference, whichever the dtype selects. */
static size_t scratch_of(const fv_engine *engine, fv_kernel_id kernel, fv_dtype dtype,
                         const void *args)
{
    const fv_kernel_table *t = &engine->table;
    const int threads = engine->exec.threads;
    if (dtype == FV_BF16 && t->bf16_scratch[kernel]) return t->bf16_scratch[kernel](args, threads);
    const size_t own = t->scratch[kernel] ? t->scratch[kernel](args, threads) : 0;
    const size_t ref = t->ref_scratch[kernel] ? t->ref_scratch[kernel](args, threads) : 0;
    return own > ref ? own : ref;
}

fv_status fv_engine_prepare(fv_engine *engine, fv_kernel_id kernel, fv_dtype dtype,
                            const void *args)
{
    fv_ctx *ctx = engine->ctx;
    const size_t need = scratch_of(engine, kernel, dtype, args);
    if (need <= engine->scratch_bytes) return FV_OK;
    /* Allocate before freeing: if this fails, queued launches still need the old block. */
    void *scratch = fv_mem_alloc(&ctx->mem, need);
    FV_RETURN_IF(!scratch, ctx, FV_ERR_MEMORY, "%s: no memory for %zu bytes of scratch",
                 fv_kernel_infos[kernel].name, need);
    fv_mem_free(&ctx->mem, engine->exec.scratch, engine->scratch_bytes);
    engine->exec.scratch = scratch;
    engine->scratch_bytes = need;
    return FV_OK;
}

fv_status fv_engine_fault(fv_engine *engine, fv_kernel_id kernel)
{
    fv_fault *fault = &engine->fault;
    if (!atomic_load_explicit(&fault->set, memory_order_acquire)) return FV_OK;
    long long index = fault->index, bound = fault->bound;
    atomic_store(&fault->set, 0);
    const char *name = fv_kernel_infos[kernel].name;
    if (bound == 0)
        return fv_fail(engine->ctx, FV_ERR_INDEX, "%s: row %lld has no positive finite weight",
                       name, index);
    return fv_fail(engine->ctx, FV_ERR_INDEX, "%s: index %lld is outside 0..%lld", name, index,
                   bound - 1);
}
