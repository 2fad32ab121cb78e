/* The angles of rotary positions. Applying them is an op (ops/rotary.c). */
#include <math.h>
#include <string.h>

#include "base/config.h"
#include "nn/rotary.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

#define TWO_PI 6.283185307179586477

void fv_rotary_config_init(fv_rotary_config *cfg, size_t struct_size, int64_t width)
{
    const fv_rotary_config defaults = {.struct_size = struct_size,
                                       .width = width,
                                       .base = 10000,
                                       .pairs = FV_PAIRS_HALVES,
                                       .linear_factor = 1};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

static bool positive(double x) { return x > 0 && isfinite(x); }

static bool scaling_is_sound(const fv_rotary_config *c)
{
    switch (c->scaling) {
    case FV_ROTARY_SCALING_NONE:
        return true;
    case FV_ROTARY_SCALING_YARN:
        return positive(c->factor) && positive(c->original) && positive(c->low_freq) &&
               positive(c->high_freq) && c->base > 1;
    case FV_ROTARY_SCALING_DYNAMIC:
        return positive(c->factor) && positive(c->original) && c->width > 2;
    case FV_ROTARY_SCALING_LONGROPE:
        return positive(c->original) && c->short_factors && c->long_factors;
    default:
        return false;
    }
}

bool fv_rotary_is_sound(const fv_rotary_config *c)
{
    const bool llama3 =
        c->llama3_factor > 0 && c->low_freq > 0 && c->high_freq > c->low_freq && c->original > 0;
    return c->width >= 0 && c->width % 2 == 0 && positive(c->base) && c->linear_factor > 0 &&
           (c->llama3_factor == 0 || llama3) && scaling_is_sound(c) && c->attention_factor >= 0 &&
           isfinite(c->attention_factor);
}

static fv_status check(fv_ctx *ctx, const fv_rotary_config *c)
{
    if (ctx->error != FV_OK || fv_rotary_is_sound(c)) return ctx->error;
    return fv_poison(ctx, FV_ERR_ARGUMENT,
                     "rotary: width %lld, base %g, linear factor %g, llama3 factor %g, scaling %d, "
                     "factor %g, low_freq %g, high_freq %g, original %g, attention factor %g%s",
                     (long long)c->width, c->base, c->linear_factor, c->llama3_factor,
                     (int)c->scaling, c->factor, c->low_freq, c->high_freq, c->original,
                     c->attention_factor,
                     c->scaling == FV_ROTARY_SCALING_LONGROPE && !c->short_factors
                         ? ", no short_factors and long_factors"
                         : "");
}

/* ---- frequencies: radians per position, for pair m ----------------------------------- */

static double llama3(const fv_rotary_config *cfg, double f)
{
    const double turns = cfg->original * f / TWO_PI; /* within the old context */
    double keep = (turns - cfg->low_freq) / (cfg->high_freq - cfg->low_freq);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return keep * f + (1 - keep) * f / cfg->llama3_factor;
}

/* The pair, as a real number, that makes so many turns within the old context. */
static double pair_of_turns(const fv_rotary_config *cfg, double turns)
{
    return (double)cfg->width * log(cfg->original / (turns * TWO_PI)) / (2 * log(cfg->base));
}

static double yarn(const fv_rotary_config *cfg, int64_t m, double f)
{
    double low = pair_of_turns(cfg, cfg->high_freq), high = pair_of_turns(cfg, cfg->low_freq);
    if (!cfg->fractional) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > (double)cfg->width - 1 ? (double)cfg->width - 1 : high;
    if (low == high) high += 0.001;
    double ramp = ((double)m - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return (1 - ramp) * f + ramp * f / cfg->factor;
}

static double dynamic_base(const fv_rotary_config *cfg, double length)
{
    const double d = (double)cfg->width, n = length > cfg->original ? length : cfg->original;
    return cfg->base * pow(cfg->factor * n / cfg->original - (cfg->factor - 1), d / (d - 2));
}

static double frequency(const fv_rotary_config *cfg, int64_t m, double length)
{
    const bool dynamic = cfg->scaling == FV_ROTARY_SCALING_DYNAMIC;
    const double base = dynamic ? dynamic_base(cfg, length) : cfg->base;
    const double f = pow(base, -2.0 * (double)m / (double)cfg->width) / cfg->linear_factor;
    if (cfg->scaling == FV_ROTARY_SCALING_YARN) return yarn(cfg, m, f);
    if (cfg->scaling == FV_ROTARY_SCALING_LONGROPE)
        return f / (length > cfg->original ? cfg->long_factors : cfg->short_factors)[m];
    return cfg->llama3_factor == 0 ? f : llama3(cfg, f);
}

bool fv_rotary_depends_on_length(const fv_rotary_config *cfg)
{
    return cfg->scaling == FV_ROTARY_SCALING_DYNAMIC || cfg->scaling == FV_ROTARY_SCALING_LONGROPE;
}

/* ---- tables --------------------------------------------------------------------------- */

static fv_status read_config(fv_ctx *ctx, const fv_rotary_config *given, fv_rotary_config *cfg)
{
    fv_rotary_config_init(cfg, sizeof *cfg, 0);
    if (!fv_config_copy(cfg, sizeof *cfg, given))
        fv_poison(ctx, FV_ERR_ARGUMENT, "rotary: the config is not initialised");
    return check(ctx, cfg);
}

/* Writes the cosine and sine of one angle into a table of `size` elements each. */
static void put(const fv_rotary_config *cfg, double *table, int64_t size, int64_t at, double angle)
{
    const double scale = cfg->attention_factor > 0 ? cfg->attention_factor : 1;
    table[at] = scale * cos(angle);
    table[size + at] = scale * sin(angle);
}

fv_tensor *fv_rotary_table(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *given,
                           int64_t first, int64_t n)
{
    fv_rotary_config cfg;
    if (read_config(ctx, given, &cfg) != FV_OK) return ctx->invalid;
    const int64_t pairs = cfg.width / 2, shape[3] = {2, n, pairs};
    double *x = fv_host_alloc(ctx, FV_F64, 3, shape);
    for (int64_t m = 0; x && m < pairs; m++) {
        const double f = frequency(&cfg, m, (double)first + (double)n);
        for (int64_t p = 0; p < n; p++)
            put(&cfg, x, n * pairs, p * pairs + m, ((double)first + (double)p) * f);
    }
    return fv_host_tensor(ctx, FV_F64, x, 3, shape, dtype);
}

fv_tensor *fv_rotary_rows(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *given, int64_t n,
                          const int64_t *position, const int64_t *length)
{
    fv_rotary_config cfg;
    if (read_config(ctx, given, &cfg) != FV_OK) return ctx->invalid;
    const int64_t pairs = cfg.width / 2, shape[3] = {2, n, pairs};
    double *x = fv_host_alloc(ctx, FV_F64, 3, shape);
    for (int64_t m = 0; x && m < pairs; m++) {
        double f = 0;
        for (int64_t i = 0; i < n; i++) {
            if (i == 0 || length[i] != length[i - 1]) f = frequency(&cfg, m, (double)length[i]);
            put(&cfg, x, n * pairs, i * pairs + m, (double)position[i] * f);
        }
    }
    return fv_host_tensor(ctx, FV_F64, x, 3, shape, dtype);
}
