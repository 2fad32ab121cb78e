/* The angles of rotary positions. Applying them is an op (ops/rotary.c). */
#include <math.h>
#include <string.h>

#include "base/config.h"
#include "fovea/layers.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

void fv_rotary_config_init(fv_rotary_config *cfg, size_t struct_size, int64_t width)
{
    const fv_rotary_config defaults = {.struct_size = struct_size,
                                       .width = width,
                                       .base = 10000,
                                       .pairs = FV_PAIRS_HALVES,
                                       .linear_factor = 1};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static fv_status check(fv_ctx *ctx, const fv_rotary_config *cfg)
{
    if (ctx->error != FV_OK) return ctx->error;
    const bool llama = cfg->llama3_factor > 0 && cfg->low_freq > 0 &&
                       cfg->high_freq > cfg->low_freq && cfg->original > 0;
    if (cfg->width >= 0 && cfg->width % 2 == 0 && cfg->base > 0 && isfinite(cfg->base) &&
        cfg->linear_factor > 0 && (cfg->llama3_factor == 0 || llama))
        return FV_OK;
    return fv_poison(ctx, FV_ERR_ARGUMENT,
                     "rotary: width %lld, base %g, linear factor %g, llama3 factor %g",
                     (long long)cfg->width, cfg->base, cfg->linear_factor, cfg->llama3_factor);
}

/* Radians per position, for pair m. */
static double frequency(const fv_rotary_config *cfg, int64_t m)
{
    const double f = pow(cfg->base, -2.0 * (double)m / (double)cfg->width) / cfg->linear_factor;
    if (cfg->llama3_factor == 0) return f;
    const double turns = cfg->original * f / 6.283185307179586477; /* within the old context */
    double keep = (turns - cfg->low_freq) / (cfg->high_freq - cfg->low_freq);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return keep * f + (1 - keep) * f / cfg->llama3_factor;
}

fv_tensor *fv_rotary_table(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *given,
                           int64_t first, int64_t n)
{
    fv_rotary_config cfg;
    fv_rotary_config_init(&cfg, sizeof cfg, 0);
    if (!fv_config_copy(&cfg, sizeof cfg, given))
        fv_poison(ctx, FV_ERR_ARGUMENT, "rotary: the config is not initialised");
    if (check(ctx, &cfg) != FV_OK) return ctx->invalid;
    const int64_t pairs = cfg.width / 2, shape[3] = {2, n, pairs};
    double *x = fv_host_alloc(ctx, FV_F64, 3, shape);
    for (int64_t m = 0; x && m < pairs; m++) {
        const double f = frequency(&cfg, m);
        for (int64_t p = 0; p < n; p++) {
            const double angle = ((double)first + (double)p) * f;
            x[p * pairs + m] = cos(angle);
            x[(n + p) * pairs + m] = sin(angle);
        }
    }
    return fv_host_tensor(ctx, FV_F64, x, 3, shape, dtype);
}
