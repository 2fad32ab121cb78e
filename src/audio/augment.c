/* What is done to finished features: differences over time, and SpecAugment. */
#include <math.h>

#include "audio/sound.h"
#include "base/config.h"
#include "base/rng.h"

/* ---- differences ------------------------------------------------------------------ */

fv_status fv_deltas(fv_ctx *ctx, const float *in, int64_t frames, int64_t width, int64_t reach,
                    float *out)
{
    FV_RETURN_IF(frames < 0 || width < 0 || reach < 1 || reach > 65536, ctx, FV_ERR_ARGUMENT,
                 "deltas: %lld frames of %lld, reach %lld: expected a reach of 1 to 65,536",
                 (long long)frames, (long long)width, (long long)reach);
    FV_RETURN_IF(frames * width > 0 && (!in || !out), ctx, FV_ERR_ARGUMENT,
                 "deltas: no features, or no place for the result");
    const double n = (double)reach, part = 1 / (n * (n + 1) * (2 * n + 1) / 3);
    for (int64_t t = 0; t < frames; t++)
        for (int64_t c = 0; c < width; c++) {
            double sum = 0;
            for (int64_t k = 1; k <= reach; k++) {
                const int64_t after = t + k < frames ? t + k : frames - 1,
                              before = t - k > 0 ? t - k : 0;
                sum += (double)k * ((double)in[after * width + c] - (double)in[before * width + c]);
            }
            out[t * width + c] = (float)(sum * part);
        }
    return FV_OK;
}

/* ---- SpecAugment ------------------------------------------------------------------ */

/* The key's site, far from those that ops count from 0. */
static const uint64_t site = (uint64_t)1 << 63;

void fv_spec_augment_config_init(fv_spec_augment_config *cfg, size_t struct_size)
{
    const fv_spec_augment_config defaults = {.struct_size = struct_size,
                                             .time_masks = 2,
                                             .time_width = 100,
                                             .time_part = 1,
                                             .frequency_masks = 2,
                                             .frequency_width = 27};
    fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
}

/* An integer from 0 to most. */
static int64_t pick(uint32_t word, int64_t most)
{
    return (int64_t)((uint64_t)word * ((uint64_t)most + 1) >> 32);
}

typedef struct band {
    int64_t begin, end;
} band;

/* Mask number `mask` of the row, of at most `most` of `size` elements. */
static band draw_band(const fv_ctx *ctx, int64_t row, int64_t mask, int64_t most, int64_t size)
{
    uint32_t word[4];
    fv_rng_draw(fv_rng_key(ctx->seed, ctx->step, site), ctx->row_offset + (uint64_t)row,
                (uint64_t)mask, word);
    const int64_t width = pick(word[0], most < size ? most : size);
    const int64_t begin = pick(word[1], size - width);
    return (band){begin, begin + width};
}

static fv_status check(fv_ctx *ctx, const fv_spec_augment_config *c, int64_t row, int64_t frames,
                       int64_t width)
{
    const int64_t most = INT32_MAX;
    FV_RETURN_IF(row < 0 || frames < 0 || width < 0 || frames > most || width > most, ctx,
                 FV_ERR_ARGUMENT, "spec_augment: row %lld of %lld frames of %lld", (long long)row,
                 (long long)frames, (long long)width);
    FV_RETURN_IF(
        c->time_masks < 0 || c->time_width < 0 || c->frequency_masks < 0 ||
            c->frequency_width < 0 || c->time_masks > 1024 || c->frequency_masks > 1024,
        ctx, FV_ERR_ARGUMENT,
        "spec_augment: %lld masks of %lld frames, %lld of %lld columns: expected 0 to 1,024 "
        "masks, and widths of 0 or more",
        (long long)c->time_masks, (long long)c->time_width, (long long)c->frequency_masks,
        (long long)c->frequency_width);
    FV_RETURN_IF(!(c->time_part >= 0 && c->time_part <= 1), ctx, FV_ERR_ARGUMENT,
                 "spec_augment: time_part is %g: expected 0 to 1", c->time_part);
    return FV_OK;
}

fv_status fv_spec_augment(fv_ctx *ctx, const fv_spec_augment_config *cfg, int64_t row,
                          int64_t frames, int64_t width, float *features)
{
    fv_spec_augment_config c;
    fv_spec_augment_config_init(&c, sizeof c);
    FV_RETURN_IF(!cfg || !fv_config_copy(&c, sizeof c, cfg), ctx, FV_ERR_ARGUMENT,
                 "spec_augment: the config was not initialised (struct_size)");
    FV_TRY(check(ctx, &c, row, frames, width));
    FV_RETURN_IF(frames * width > 0 && !features, ctx, FV_ERR_ARGUMENT,
                 "spec_augment: no features");
    const int64_t part = (int64_t)floor(c.time_part * (double)frames);
    for (int64_t mask = 0; mask < c.time_masks; mask++) {
        const band b = draw_band(ctx, row, mask, c.time_width < part ? c.time_width : part, frames);
        for (int64_t i = b.begin * width; i < b.end * width; i++)
            features[i] = (float)c.fill;
    }
    for (int64_t mask = 0; mask < c.frequency_masks; mask++) {
        const band b = draw_band(ctx, row, c.time_masks + mask, c.frequency_width, width);
        for (int64_t t = 0; t < frames; t++)
            for (int64_t k = b.begin; k < b.end; k++)
                features[t * width + k] = (float)c.fill;
    }
    return FV_OK;
}
