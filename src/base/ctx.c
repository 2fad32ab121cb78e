#include "base/ctx.h"

#include <stdio.h>
#include <string.h>

#include "base/config.h"

static void set_message(fv_ctx *ctx, const char *fmt, va_list ap)
{
    vsnprintf(ctx->message, sizeof ctx->message, fmt, ap);
}

fv_status fv_fail(fv_ctx *ctx, fv_status status, const char *fmt, ...)
{
    /* The message of a sticky error stays: it explains what failed first. */
    if (ctx->error == FV_OK) {
        va_list ap;
        va_start(ap, fmt);
        set_message(ctx, fmt, ap);
        va_end(ap);
    }
    return status;
}

fv_status fv_ctx_fail(fv_ctx *ctx, fv_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (ctx->error == FV_OK) set_message(ctx, fmt, ap);
    va_end(ap);
    return status;
}

fv_status fv_make_last_failure_sticky(fv_ctx *ctx, fv_status status)
{
    if (ctx->error != FV_OK) return ctx->error;
    ctx->error = status;
    fv_report(ctx, FV_LOG_ERROR, "%s: %s", fv_status_name(status), ctx->message);
    return status;
}

fv_status fv_poison(fv_ctx *ctx, fv_status status, const char *fmt, ...)
{
    if (ctx->error != FV_OK) return ctx->error;
    va_list ap;
    va_start(ap, fmt);
    set_message(ctx, fmt, ap);
    va_end(ap);
    return fv_make_last_failure_sticky(ctx, status);
}

void fv_report(fv_ctx *ctx, fv_log_level level, const char *fmt, ...)
{
    if (!ctx->log || level > ctx->log_level) return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ctx->log(ctx->log_user, level, text);
}

fv_status fv_ctx_error(const fv_ctx *ctx) { return ctx->error; }
const char *fv_ctx_message(const fv_ctx *ctx) { return ctx->message; }

fv_status fv_ctx_take_error(fv_ctx *ctx)
{
    fv_status error = ctx->error;
    ctx->error = FV_OK;
    return error;
}

int fv_ctx_threads(const fv_ctx *ctx) { return fv_pool_threads(ctx->pool); }
fv_simd fv_ctx_simd(const fv_ctx *ctx) { return ctx->simd; }
const char *fv_device_name(fv_device_kind kind)
{
    static const char *const names[] = {"cpu", "guarded", "cuda"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *fv_device_absence(fv_device_kind kind)
{
    if (!fv_device_name(kind)) return "there is no such device";
    return kind == FV_DEVICE_CUDA ? "this build has no CUDA back end" : NULL;
}

fv_device_kind fv_ctx_device(const fv_ctx *ctx) { return ctx->device_kind; }

void fv_ctx_memory(const fv_ctx *ctx, fv_memory_stats *out) { *out = ctx->mem.stats; }
void fv_ctx_memory_reset_peak(fv_ctx *ctx)
{
    ctx->mem.stats.peak_bytes = ctx->mem.stats.used_bytes;
}
void fv_ctx_memory_trim(fv_ctx *ctx) { fv_mem_trim(&ctx->mem); }

void fv_ctx_set_step(fv_ctx *ctx, uint64_t step, uint64_t row_offset)
{
    ctx->step = step;
    ctx->row_offset = row_offset;
    ctx->site = 0;
}

void fv_ctx_set_seed(fv_ctx *ctx, uint64_t seed) { ctx->seed = seed; }

void fv_limits_init(fv_limits *limits, size_t struct_size)
{
    const fv_limits defaults = {
        .struct_size = struct_size,
        .header_bytes = 16u << 20,
        .tensors = 65536,
        .name_bytes = 256,
        .string_bytes = 1u << 20,
        .json_depth = 64,
        .text_bytes = 64u << 20,
        .total_bytes = (uint64_t)1 << 40,
        .line_bytes = 16u << 20,
        .vocabulary = 1u << 20,
        .text_growth = 16,
        .text_steps = 256,
        .decoded_bytes = 1024,
        .decompressed_ratio = 1040,
        .audio_seconds = 600,
        .picture_pixels = 64000000,
    };
    fv_config_set_defaults(limits, struct_size, &defaults, sizeof defaults);
}

void fv_ctx_config_init(fv_ctx_config *cfg, size_t struct_size)
{
    fv_ctx_config defaults = {.struct_size = struct_size, .log_level = FV_LOG_INFO};
    fv_limits_init(&defaults.limits, sizeof defaults.limits);
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}
