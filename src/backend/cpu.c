/* The CPU device: the kernel table of the context's level, run at once on its thread pool. */
#include <string.h>

#include "backend/backend.h"

typedef struct cpu_device {
    fv_device base;
    fv_kernel_table table;
    fv_exec exec;
    fv_fault fault;
    void *scratch; /* grows to the largest request and stays */
    size_t scratch_bytes;
} cpu_device;

static void *cpu_alloc(fv_device *dev, size_t bytes) { return fv_mem_alloc(&dev->ctx->mem, bytes); }

static void cpu_free(fv_device *dev, void *ptr, size_t bytes)
{
    fv_mem_free(&dev->ctx->mem, ptr, bytes);
}

static fv_status cpu_copy(fv_device *dev, void *dst, const void *src, size_t bytes)
{
    (void)dev;
    memcpy(dst, src, bytes);
    return FV_OK;
}

static bool cpu_supports(const fv_device *dev, fv_kernel_id kernel, fv_dtype dtype)
{
    return ((const cpu_device *)dev)->table.fn[kernel][dtype] != NULL;
}

static fv_status ensure_scratch(cpu_device *cpu, fv_kernel_id kernel, const void *args)
{
    if (!cpu->table.scratch[kernel]) return FV_OK;
    fv_ctx *ctx = cpu->base.ctx;
    size_t need = cpu->table.scratch[kernel](args, cpu->exec.threads);
    if (need <= cpu->scratch_bytes) return FV_OK;
    fv_mem_free(&ctx->mem, cpu->scratch, cpu->scratch_bytes);
    cpu->scratch_bytes = 0;
    cpu->scratch = fv_mem_alloc(&ctx->mem, need);
    FV_RETURN_IF(!cpu->scratch, ctx, FV_ERR_MEMORY, "%s: no memory for %zu bytes of scratch",
                 fv_kernel_infos[kernel].name, need);
    cpu->scratch_bytes = need;
    cpu->exec.scratch = cpu->scratch;
    return FV_OK;
}

static fv_status cpu_launch(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr,
                            const void *args, size_t args_bytes)
{
    (void)args_bytes;
    cpu_device *cpu = (cpu_device *)dev;
    FV_FORWARD(ensure_scratch(cpu, kernel, args));
#ifdef FV_TEST_HOOKS
    cpu->exec.dropped = dev->dropped;
#endif
    cpu->table.fn[kernel][dtype](&cpu->exec, ptr, args);
    if (atomic_load_explicit(&cpu->fault.set, memory_order_relaxed))
        return fv_backend_fault(dev->ctx, kernel, &cpu->fault);
    return FV_OK;
}

static fv_status cpu_sync(fv_device *dev)
{
    (void)dev;
    return FV_OK;
}

static void cpu_destroy(fv_device *dev)
{
    cpu_device *cpu = (cpu_device *)dev;
    fv_mem_free(&dev->ctx->mem, cpu->scratch, cpu->scratch_bytes);
    fv_mem_free(&dev->ctx->mem, cpu, sizeof *cpu);
}

static const fv_device_ops cpu_ops = {
    .name = "cpu",
    .host_readable = true,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_copy,
    .read = cpu_copy,
    .supports = cpu_supports,
    .launch = cpu_launch,
    .sync = cpu_sync,
    .destroy = cpu_destroy,
};

static void run_on_pool(void *user, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out)
{
    cpu_device *cpu = fv_mem_zalloc(&ctx->mem, sizeof *cpu);
    FV_RETURN_IF(!cpu, ctx, FV_ERR_MEMORY, "no memory for the CPU device");
    cpu->base = (fv_device){.ops = &cpu_ops, .ctx = ctx};
    fv_kernel_table_fill(&cpu->table, ctx->simd);
    cpu->exec = (fv_exec){.parallel = run_on_pool,
                          .user = ctx->pool,
                          .threads = fv_pool_threads(ctx->pool),
                          .fault = &cpu->fault};
    *out = &cpu->base;
    return FV_OK;
}
