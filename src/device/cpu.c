/* The CPU device: kernels run at once on the context's threads, memory is the context's. */
#include <string.h>

#include "device/engine.h"
#include "device/read_slots.h"

typedef struct cpu_device {
    fv_device base;
    fv_engine engine;
    fv_read_slots reads;
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
    return fv_engine_supports(&((const cpu_device *)dev)->engine, kernel, dtype);
}

static fv_status cpu_launch(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr,
                            const void *args, size_t args_bytes)
{
    (void)args_bytes;
    fv_engine *engine = &((cpu_device *)dev)->engine;
    FV_TRY(fv_engine_prepare(engine, kernel, dtype, args));
#ifdef FV_TEST_HOOKS
    engine->exec.dropped = dev->dropped;
#endif
    fv_engine_run(engine, kernel, dtype, ptr, args);
    return fv_engine_fault(engine, kernel);
}

static fv_status cpu_sync(fv_device *dev)
{
    (void)dev;
    return FV_OK;
}

static fv_status cpu_read_later(fv_device *dev, const void *src, size_t bytes, fv_ticket *out)
{
    fv_read_slot *slot;
    FV_TRY(fv_read_slots_take(dev->ctx, &((cpu_device *)dev)->reads, bytes, out, &slot));
    memcpy(slot->data, src, bytes);
    return FV_OK;
}

static fv_status cpu_read_done(fv_device *dev, fv_ticket ticket, bool wait, void *dst, bool *done)
{
    (void)wait;
    fv_read_slot *slot;
    FV_TRY(fv_read_slots_find(dev->ctx, &((cpu_device *)dev)->reads, ticket, &slot));
    fv_read_slots_deliver(slot, dst);
    *done = true;
    return FV_OK;
}

static void cpu_destroy(fv_device *dev)
{
    cpu_device *cpu = (cpu_device *)dev;
    fv_engine_destroy(&cpu->engine);
    fv_mem_free(&dev->ctx->mem, cpu, sizeof *cpu);
}

static const fv_device_ops cpu_ops = {
    .name = "cpu",
    .traits = {.host_readable = true, .bits_like_cpu = true},
    .alloc = cpu_alloc,
    .free = cpu_free,
    .write = cpu_copy,
    .read = cpu_copy,
    .supports = cpu_supports,
    .packed_bytes = fv_engine_packed_bytes,
    .launch = cpu_launch,
    .sync = cpu_sync,
    .destroy = cpu_destroy,
    .read_later = cpu_read_later,
    .read_done = cpu_read_done,
};

fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out)
{
    cpu_device *cpu = fv_mem_zalloc(&ctx->mem, sizeof *cpu);
    FV_RETURN_IF(!cpu, ctx, FV_ERR_MEMORY, "no memory for the CPU device");
    cpu->base = (fv_device){.ops = &cpu_ops, .ctx = ctx};
    fv_engine_init(&cpu->engine, ctx);
    *out = &cpu->base;
    return FV_OK;
}
