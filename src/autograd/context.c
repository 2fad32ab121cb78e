/*
 * Creates and destroys a context: memory first, then threads, device, scope and tape. It is here
 * because it needs every layer that keeps state in a context, and the tape is the highest of them.
 */
#include <string.h>

#include "autograd/tape.h"
#include "base/config.h"

static void fill_limits(fv_limits *limits)
{
    fv_limits defaults;
    fv_limits_init(&defaults, sizeof defaults);
#define FV_DEFAULT(field)                                                                          \
    if (limits->field == 0) limits->field = defaults.field
    FV_DEFAULT(header_bytes);
    FV_DEFAULT(tensors);
    FV_DEFAULT(name_bytes);
    FV_DEFAULT(string_bytes);
    FV_DEFAULT(json_depth);
    FV_DEFAULT(text_bytes);
    FV_DEFAULT(total_bytes);
    FV_DEFAULT(line_bytes);
    FV_DEFAULT(vocabulary);
    FV_DEFAULT(text_growth);
    FV_DEFAULT(text_steps);
    FV_DEFAULT(decoded_bytes);
    FV_DEFAULT(decompressed_ratio);
    FV_DEFAULT(audio_seconds);
    FV_DEFAULT(picture_pixels);
#undef FV_DEFAULT
}

static fv_status choose_level(fv_ctx *ctx, fv_simd wanted)
{
    fv_cpu_detect(&ctx->cpu);
    fv_simd best = fv_cpu_best(&ctx->cpu);
    if (wanted < FV_SIMD_AUTO || wanted > FV_SIMD_AMX) return FV_ERR_ARGUMENT;
    if (wanted > best) return FV_ERR_UNSUPPORTED;
    ctx->simd = wanted == FV_SIMD_AUTO ? best : wanted;
    return FV_OK;
}

static fv_status make_device(fv_ctx *ctx)
{
    switch (ctx->device_kind) {
    case FV_DEVICE_CPU:
        return fv_cpu_device_create(ctx, &ctx->device);
    case FV_DEVICE_GUARDED:
        return fv_guarded_device_create(ctx, &ctx->device);
    case FV_DEVICE_CUDA:
        fv_report(ctx, FV_LOG_ERROR, "device %s: %s", fv_device_name(FV_DEVICE_CUDA),
                  fv_device_absence(FV_DEVICE_CUDA));
        return FV_ERR_UNSUPPORTED;
    }
    return FV_ERR_ARGUMENT;
}

static fv_status make_invalid(fv_ctx *ctx)
{
    ctx->invalid = fv_mem_zalloc(&ctx->mem, sizeof *ctx->invalid);
    if (!ctx->invalid) return FV_ERR_MEMORY;
    ctx->invalid->ctx = ctx;
    ctx->invalid->refs = 1;
    ctx->invalid->flags = FV_TENSOR_INVALID;
    return FV_OK;
}

static fv_status assemble(fv_ctx *ctx, const fv_ctx_config *cfg)
{
    if (cfg->request_amx) fv_cpu_request_tiles(); /* else, or where refused, level avx512 serves */
    FV_TRY(choose_level(ctx, cfg->simd));
    if (cfg->pool) {
        ctx->pool = cfg->pool;
    } else {
        FV_TRY(fv_pool_create(cfg->threads, &ctx->pool));
        ctx->owns_pool = true;
    }
    FV_TRY(make_invalid(ctx));
    FV_TRY(make_device(ctx));
    FV_TRY(fv_tape_create(ctx));
    FV_TRY(fv_scope_push_root(ctx));
    fv_report(ctx, FV_LOG_INFO, "device %s, kernels %s, %d threads", ctx->device->ops->name,
              fv_simd_name(ctx->simd), fv_pool_threads(ctx->pool));
    return FV_OK;
}

fv_status fv_ctx_create(const fv_ctx_config *cfg, fv_ctx **out)
{
    fv_ctx_config full;
    fv_ctx_config_init(&full, sizeof full);
    if ((cfg && !fv_config_copy(&full, sizeof full, cfg)) || !out) return FV_ERR_ARGUMENT;
    if (!full.allocator.alloc != !full.allocator.free) return FV_ERR_ARGUMENT;
    if (!full.allocator.alloc) fv_allocator_system(&full.allocator);
    if (!full.io.open) fv_io_system(&full.io);
    fill_limits(&full.limits);

    fv_ctx *ctx = full.allocator.alloc(full.allocator.user, sizeof *ctx, FV_MEM_ALIGN);
    if (!ctx) return FV_ERR_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    fv_mem_init(&ctx->mem, &full.allocator, full.memory_limit, full.memory_uncached);
    ctx->io = full.io;
    ctx->limits = full.limits;
    ctx->log = full.log;
    ctx->log_user = full.log_user;
    ctx->log_level = full.log_level;
    ctx->cancel = full.cancel;
    ctx->seed = full.seed;
    ctx->device_kind = full.device;

    fv_status status = assemble(ctx, &full);
    if (status != FV_OK) {
        fv_ctx_destroy(&ctx);
        return status;
    }
    *out = ctx;
    return FV_OK;
}

void fv_ctx_destroy(fv_ctx **ctx_ptr)
{
    fv_ctx *ctx = *ctx_ptr;
    if (!ctx) return;
    if (ctx->tape) fv_tape_destroy(ctx);
    fv_scope_destroy_all(ctx);
    if (ctx->device) ctx->device->ops->destroy(ctx->device);
    fv_registry_free(ctx, &ctx->models);
    fv_registry_free(ctx, &ctx->tasks);
    fv_mem_free(&ctx->mem, ctx->invalid, sizeof *ctx->invalid);
    if (ctx->owns_pool) fv_pool_destroy(&ctx->pool);
    fv_mem_trim(&ctx->mem);
    fv_allocator allocator = ctx->mem.allocator;
    allocator.free(allocator.user, ctx, sizeof *ctx);
    *ctx_ptr = NULL;
}
