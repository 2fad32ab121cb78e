/* Mel scales and the filter bank. */
#include <math.h>
#include <string.h>

#include "audio/features.h"

/* Slaney: 200/3 Hz a mel up to 1 kHz (15 mel), then 27 mels for a factor of 6.4. */
static const double linear_step = 200.0 / 3, log_start_hz = 1000, log_start_mel = 15;
static double log_step(void) { return log(6.4) / 27; }

static double to_mel(fv_mel_scale scale, double hz)
{
    if (scale == FV_MEL_SCALE_HTK) return 2595 * log10(1 + hz / 700);
    if (hz < log_start_hz) return hz / linear_step;
    return log_start_mel + log(hz / log_start_hz) / log_step();
}

static double to_hz(fv_mel_scale scale, double mel)
{
    if (scale == FV_MEL_SCALE_HTK) return 700 * (pow(10, mel / 2595) - 1);
    if (mel < log_start_mel) return linear_step * mel;
    return log_start_hz * exp(log_step() * (mel - log_start_mel));
}

/* Point i of mels + 2, equally far apart in mel. */
static double mel_point(const fv_features_config *cfg, int64_t i)
{
    const double low = to_mel(cfg->scale, cfg->low), high = to_mel(cfg->scale, cfg->high);
    const double mel =
        i == cfg->mels + 1 ? high : (double)i * ((high - low) / (double)(cfg->mels + 1)) + low;
    return to_hz(cfg->scale, mel);
}

/* Operations and roundings are in librosa's order, so that the floats are equal. */
void fv_mel_filter_row(const fv_features_config *cfg, int64_t m, float *out)
{
    const double left = mel_point(cfg, m), middle = mel_point(cfg, m + 1),
                 right = mel_point(cfg, m + 2);
    const double bin = 1.0 / ((double)cfg->fft * (1.0 / (double)cfg->rate));
    const double area = 2.0 / (right - left);
    for (int64_t k = 0; k <= cfg->fft / 2; k++) {
        const double hz = (double)k * bin;
        const double up = -(left - hz) / (middle - left), down = (right - hz) / (right - middle);
        const double least = up < down ? up : down;
        out[k] = (float)(least > 0 ? least : 0);
        if (cfg->mel_area) out[k] = (float)((double)out[k] * area);
    }
}

fv_status fv_mel_filters(fv_ctx *ctx, const fv_features_config *cfg, float *out)
{
    fv_features_config full;
    FV_RETURN_IF(!cfg || !out, ctx, FV_ERR_ARGUMENT,
                 "mel filters: no config, or no place for them");
    FV_TRY(fv_features_complete(ctx, cfg, &full));
    for (int64_t m = 0; m < full.mels; m++)
        fv_mel_filter_row(&full, m, out + m * (full.fft / 2 + 1));
    return FV_OK;
}
