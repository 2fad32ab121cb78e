/* Settings and tables of features; features_run.c computes them. */
#include <math.h>
#include <string.h>

#include "audio/features.h"
#include "base/config.h"

enum { MAX_FFT = 65536, MAX_MELS = 4096 };

/* ---- settings --------------------------------------------------------------------- */

void fv_features_config_init(fv_features_config *cfg, size_t struct_size, fv_features_preset preset)
{
    fv_features_config c = {.struct_size = struct_size,
                            .output = FV_FEATURES_OUTPUT_LOG_MEL,
                            .rate = 16000,
                            .fft = 400,
                            .hop = 160,
                            .window = FV_WINDOW_HANN,
                            .centered = true,
                            .drop_last = true,
                            .edge = FV_EDGE_REFLECT,
                            .power = 2,
                            .mels = 80,
                            .scale = FV_MEL_SCALE_SLANEY,
                            .mel_area = true,
                            .log = FV_MEL_LOG_WHISPER,
                            .floor = 1e-10,
                            .top_db = 80,
                            .coefficients = 13,
                            .compute = FV_F32};
    if (preset == FV_FEATURES_PRESET_TORCHAUDIO || preset == FV_FEATURES_PRESET_LIBROSA) {
        c.drop_last = false;
        c.mels = 128;
        c.log = FV_MEL_LOG_DB;
    }
    if (preset == FV_FEATURES_PRESET_TORCHAUDIO) {
        c.hop = 200;
        c.scale = FV_MEL_SCALE_HTK;
        c.mel_area = false;
        c.coefficients = 40;
    }
    if (preset == FV_FEATURES_PRESET_LIBROSA) {
        c.rate = 22050;
        c.fft = 2048;
        c.hop = 512;
        c.edge = FV_EDGE_ZERO;
        c.coefficients = 20;
    }
    if (preset == FV_FEATURES_PRESET_SPEECH) {
        c.rate = 8000;
        c.fft = 256;
        c.window_length = 200;
        c.hop = 80;
        c.drop_last = false;
        c.edge = FV_EDGE_ZERO;
        c.mels = 40;
        c.standardise = true;
    }
    fv_config_set_defaults(cfg, struct_size, &c, sizeof c);
}

static bool is_choice(int value, int last) { return value >= 0 && value <= last; }

static fv_status check_sizes(fv_ctx *ctx, const fv_features_config *c)
{
    FV_RETURN_IF(c->fft < 2 || c->fft > MAX_FFT, ctx, FV_ERR_ARGUMENT,
                 "features: fft is %lld: expected 2 to %d", (long long)c->fft, MAX_FFT);
    FV_RETURN_IF(c->window_length < 1 || c->window_length > c->fft, ctx, FV_ERR_ARGUMENT,
                 "features: window_length is %lld: expected 1 to fft, which is %lld, or 0",
                 (long long)c->window_length, (long long)c->fft);
    FV_RETURN_IF(c->hop < 1, ctx, FV_ERR_ARGUMENT, "features: hop is %lld: expected at least 1",
                 (long long)c->hop);
    FV_RETURN_IF(c->rate < 1 || c->rate > FV_SOUND_MAX_RATE, ctx, FV_ERR_ARGUMENT,
                 "features: rate is %lld: expected 1 to %d", (long long)c->rate, FV_SOUND_MAX_RATE);
    FV_RETURN_IF(c->mels < 1 || c->mels > MAX_MELS, ctx, FV_ERR_ARGUMENT,
                 "features: mels is %lld: expected 1 to %d", (long long)c->mels, MAX_MELS);
    FV_RETURN_IF(
        c->output == FV_FEATURES_OUTPUT_MFCC && (c->coefficients < 1 || c->coefficients > c->mels),
        ctx, FV_ERR_ARGUMENT, "features: coefficients is %lld: expected 1 to mels, which is %lld",
        (long long)c->coefficients, (long long)c->mels);
    return FV_OK;
}

static fv_status check_choices(fv_ctx *ctx, const fv_features_config *c)
{
    FV_RETURN_IF(!is_choice((int)c->output, FV_FEATURES_OUTPUT_MFCC) ||
                     !is_choice((int)c->window, FV_WINDOW_NONE) ||
                     !is_choice((int)c->edge, FV_EDGE_ZERO) ||
                     !is_choice((int)c->scale, FV_MEL_SCALE_HTK) ||
                     !is_choice((int)c->log, FV_MEL_LOG_WHISPER),
                 ctx, FV_ERR_ARGUMENT,
                 "features: output, window, edge, scale or log has a value outside its enum");
    FV_RETURN_IF(c->power != 1 && c->power != 2, ctx, FV_ERR_ARGUMENT,
                 "features: power is %d: expected 1 or 2", c->power);
    FV_RETURN_IF(c->compute != FV_F32 && c->compute != FV_F64, ctx, FV_ERR_ARGUMENT,
                 "features: compute is %s: expected f32 or f64", fv_dtype_name(c->compute));
    FV_RETURN_IF(
        !(c->low >= 0) || !(c->high > c->low) || !(c->high <= (double)c->rate / 2), ctx,
        FV_ERR_ARGUMENT,
        "features: filters from %g to %g Hz: expected 0 <= low < high <= rate / 2, which is "
        "%g",
        c->low, c->high, (double)c->rate / 2);
    FV_RETURN_IF(!(c->floor > 0) || !isfinite(c->floor) || !(c->top_db >= 0), ctx, FV_ERR_ARGUMENT,
                 "features: floor is %g and top_db %g: expected a positive one, and at least 0",
                 c->floor, c->top_db);
    return FV_OK;
}

fv_status fv_features_complete(fv_ctx *ctx, const fv_features_config *cfg, fv_features_config *out)
{
    fv_features_config_init(out, sizeof *out, FV_FEATURES_PRESET_WHISPER);
    FV_RETURN_IF(!fv_config_copy(out, sizeof *out, cfg), ctx, FV_ERR_ARGUMENT,
                 "features: the config was not initialised (struct_size)");
    if (out->window_length == 0) out->window_length = out->fft;
    if (out->high == 0) out->high = (double)out->rate / 2;
    FV_TRY(check_sizes(ctx, out));
    return check_choices(ctx, out);
}

/* ---- tables ----------------------------------------------------------------------- */

double fv_window_value(fv_window window, int64_t i, int64_t n)
{
    const double turn = cos(2 * M_PI * (double)i / (double)n);
    if (window == FV_WINDOW_HANN) return 0.5 - 0.5 * turn;
    if (window == FV_WINDOW_HAMMING) return 0.54 - 0.46 * turn;
    return 1;
}

/* Where each filter has weights above zero; returns how many those are in all. */
static int64_t place_filters(fv_features *f, float *row)
{
    int64_t total = 0;
    for (int64_t m = 0; m < f->cfg.mels; m++) {
        fv_mel_filter *filter = &f->filters[m];
        fv_mel_filter_row(&f->cfg, m, row);
        int64_t first = 0, end = f->bins;
        while (first < f->bins && row[first] == 0)
            first++;
        while (end > first && row[end - 1] == 0)
            end--;
        *filter = (fv_mel_filter){.first = first, .count = end - first, .at = total};
        total += end - first;
    }
    return total;
}

static double dct_value(int64_t c, int64_t m, int64_t mels)
{
    const double scale = sqrt((c == 0 ? 1.0 : 2.0) / (double)mels);
    return scale * cos(M_PI * (double)c * ((double)m + 0.5) / (double)mels);
}

#define SET(f, list, i, value)                                                                     \
    do {                                                                                           \
        const double value_ = (value);                                                             \
        if ((f)->cfg.compute == FV_F64)                                                            \
            (f)->f64.list[i] = value_;                                                             \
        else                                                                                       \
            (f)->f32.list[i] = (float)value_;                                                      \
    } while (0)

static void fill_tables(fv_features *f, float *row)
{
    const fv_features_config *c = &f->cfg;
    const int64_t left = (c->fft - c->window_length) / 2;
    for (int64_t i = 0; i < c->fft; i++) {
        const int64_t at = i - left;
        const bool inside = at >= 0 && at < c->window_length;
        SET(f, window, i, inside ? fv_window_value(c->window, at, c->window_length) : 0);
    }
    for (int64_t m = 0; f->filters && m < c->mels; m++) {
        fv_mel_filter_row(c, m, row);
        for (int64_t k = 0; k < f->filters[m].count; k++)
            SET(f, weights, f->filters[m].at + k, (double)row[f->filters[m].first + k]);
    }
    for (int64_t i = 0; c->output == FV_FEATURES_OUTPUT_MFCC && i < c->coefficients * c->mels; i++)
        SET(f, dct, i, dct_value(i / c->mels, i % c->mels, c->mels));
}

/* The lists of the type that is computed in, in one block. */
static fv_status make_lists(fv_features *f, int64_t weights, float *row)
{
    const fv_features_config *c = &f->cfg;
    const int64_t dct = c->output == FV_FEATURES_OUTPUT_MFCC ? c->coefficients * c->mels : 0;
    const size_t size = fv_dtype_size(c->compute);
    f->tables_bytes = (size_t)(c->fft + weights + dct) * size;
    f->tables = fv_mem_alloc(&f->ctx->mem, f->tables_bytes);
    FV_RETURN_IF(!f->tables, f->ctx, FV_ERR_MEMORY, "features: out of memory");
    if (c->compute == FV_F64) {
        f->f64.window = f->tables;
        f->f64.weights = f->f64.window + c->fft;
        f->f64.dct = f->f64.weights + weights;
    } else {
        f->f32.window = f->tables;
        f->f32.weights = f->f32.window + c->fft;
        f->f32.dct = f->f32.weights + weights;
    }
    fill_tables(f, row);
    return c->compute == FV_F64 ? fv_fft_f64_create(f->ctx, c->fft, &f->f64.fft)
                                : fv_fft_f32_create(f->ctx, c->fft, &f->f32.fft);
}

static fv_status make_tables(fv_features *f)
{
    fv_mem *mem = &f->ctx->mem;
    const size_t row_bytes = (size_t)f->bins * sizeof(float);
    float *row = fv_mem_alloc(mem, row_bytes);
    FV_RETURN_IF(!row, f->ctx, FV_ERR_MEMORY, "features: out of memory");
    int64_t weights = 0;
    fv_status status = FV_OK;
    if (fv_features_has_mels(&f->cfg)) {
        f->filters_bytes = (size_t)f->cfg.mels * sizeof *f->filters;
        f->filters = fv_mem_alloc(mem, f->filters_bytes);
        if (f->filters)
            weights = place_filters(f, row);
        else
            status = fv_fail(f->ctx, FV_ERR_MEMORY, "features: out of memory");
    }
    if (status == FV_OK) status = make_lists(f, weights, row);
    fv_mem_free(mem, row, row_bytes);
    return status;
}

static int64_t width_of(const fv_features_config *c)
{
    switch (c->output) {
    case FV_FEATURES_OUTPUT_COMPLEX:
        return 2 * (c->fft / 2 + 1);
    case FV_FEATURES_OUTPUT_POWER:
        return c->fft / 2 + 1;
    case FV_FEATURES_OUTPUT_MFCC:
        return c->coefficients;
    case FV_FEATURES_OUTPUT_MEL:
    case FV_FEATURES_OUTPUT_LOG_MEL:
    default:
        return c->mels;
    }
}

fv_status fv_features_create(fv_ctx *ctx, const fv_features_config *cfg, fv_features **out)
{
    FV_RETURN_IF(!cfg || !out, ctx, FV_ERR_ARGUMENT, "features: no config, or no place for them");
    fv_features_config full;
    FV_TRY(fv_features_complete(ctx, cfg, &full));
    fv_features *f = fv_mem_zalloc(&ctx->mem, sizeof *f);
    FV_RETURN_IF(!f, ctx, FV_ERR_MEMORY, "features: out of memory");
    f->ctx = ctx;
    f->cfg = full;
    f->bins = full.fft / 2 + 1;
    f->width = width_of(&full);
    const fv_status status = make_tables(f);
    if (status != FV_OK) {
        fv_features_destroy(&f);
        return status;
    }
    *out = f;
    return FV_OK;
}

void fv_features_destroy(fv_features **features)
{
    fv_features *f = *features;
    if (!f) return;
    fv_ctx *ctx = f->ctx;
    fv_fft_f32_destroy(ctx, &f->f32.fft);
    fv_fft_f64_destroy(ctx, &f->f64.fft);
    if (f->tables) fv_mem_free(&ctx->mem, f->tables, f->tables_bytes);
    if (f->filters) fv_mem_free(&ctx->mem, f->filters, f->filters_bytes);
    fv_mem_free(&ctx->mem, f, sizeof *f);
    *features = NULL;
}

int64_t fv_features_width(const fv_features *features) { return features->width; }

int64_t fv_features_frames(const fv_features *features, int64_t length)
{
    const fv_features_config *c = &features->cfg;
    const int64_t whole = c->centered ? length + c->fft / 2 * 2 : length;
    if (length < 0 || whole < c->fft) return 0;
    const int64_t frames = 1 + (whole - c->fft) / c->hop;
    return c->drop_last ? frames - 1 : frames;
}
