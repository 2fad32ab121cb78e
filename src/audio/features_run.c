/* Computes features: blocks of FV_FFT_LANES frames on all threads, then what needs the largest
 * value. */
#include <math.h>
#include <string.h>

#include "audio/features.h"
#include "base/checked_math.h"
#include "tensor/host_table.h"

enum { LANES = FV_FFT_LANES, SLAB = 512 }; /* blocks between two looks at the cancel flag */

typedef struct features_job {
    const fv_features *f;
    const float *samples;
    int64_t length, frames, first; /* first: the first block of this slab */
    float *out;
    void *logs; /* [frames][mels] of the computed type, before `finish`; NULL: not needed */
    void *work; /* for each thread */
    size_t work_elements;
    double largest; /* of the logs */
} features_job;

/* The sample of a number that may be outside: reflected, or 0. */
static float sample_at(const features_job *j, int64_t i)
{
    if (i >= 0 && i < j->length) return j->samples[i];
    if (j->f->cfg.edge == FV_EDGE_ZERO) return 0;
    return j->samples[i < 0 ? -i : 2 * (j->length - 1) - i];
}

#define REAL    float
#define NAME(x) x##_f32
#define TABLES  f32
#define FFT_RUN fv_fft_f32_run
#define LOG     logf
#define SQRT    sqrtf
#include "audio/features.inc"
#undef REAL
#undef NAME
#undef TABLES
#undef FFT_RUN
#undef LOG
#undef SQRT

#define REAL    double
#define NAME(x) x##_f64
#define TABLES  f64
#define FFT_RUN fv_fft_f64_run
#define LOG     log
#define SQRT    sqrt
#include "audio/features.inc"

/* ---- running ---------------------------------------------------------------------- */

/* Elements for one thread: frames, the transform's work, its two results, power and mels. */
static size_t thread_elements(const fv_features *f)
{
    const size_t fft =
        f->cfg.compute == FV_F64 ? fv_fft_f64_work(&f->f64.fft) : fv_fft_f32_work(&f->f32.fft);
    return fft + (size_t)((f->cfg.fft + 3 * f->bins + f->cfg.mels) * LANES);
}

static fv_status run_blocks(fv_ctx *ctx, features_job *j)
{
    const bool wide = j->f->cfg.compute == FV_F64;
    const int64_t blocks = (j->frames + LANES - 1) / LANES;
    for (j->first = 0; j->first < blocks; j->first += SLAB) {
        if (fv_cancelled(ctx)) return fv_fail(ctx, FV_ERR_CANCELLED, "cancelled");
        const int64_t left = blocks - j->first;
        fv_pool_run(ctx->pool, left < SLAB ? left : SLAB, 1, wide ? run_range_f64 : run_range_f32,
                    j);
    }
    if (!j->logs) return FV_OK;
    if (wide)
        largest_f64(j);
    else
        largest_f32(j);
    fv_pool_run(ctx->pool, j->frames, 64, wide ? finish_range_f64 : finish_range_f32, j);
    return FV_OK;
}

static fv_status run_job(fv_ctx *ctx, features_job *j)
{
    const fv_features *f = j->f;
    const size_t size = fv_dtype_size(f->cfg.compute), threads = (size_t)fv_pool_threads(ctx->pool);
    size_t work_bytes = 0, logs_bytes = 0;
    j->work_elements = thread_elements(f);
    const bool has_logs = f->cfg.output >= FV_FEATURES_OUTPUT_LOG_MEL;
    FV_RETURN_IF(
        !fv_checked_mul_size(j->work_elements * size, threads, &work_bytes) ||
            !fv_checked_mul_size((size_t)f->cfg.mels * size, (size_t)j->frames, &logs_bytes),
        ctx, FV_ERR_MEMORY, "features: %lld frames are too many", (long long)j->frames);
    j->work = fv_mem_alloc(&ctx->mem, work_bytes);
    j->logs = has_logs && j->work ? fv_mem_alloc(&ctx->mem, logs_bytes) : NULL;
    const bool made = j->work && (j->logs || !has_logs);
    const fv_status status =
        made ? run_blocks(ctx, j) : fv_fail(ctx, FV_ERR_MEMORY, "features: out of memory");
    if (j->logs) fv_mem_free(&ctx->mem, j->logs, logs_bytes);
    if (j->work) fv_mem_free(&ctx->mem, j->work, work_bytes);
    return status;
}

static void standardise(float *x, int64_t count)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double scale = 1 / sqrt(squares / (double)count + 1e-5);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(((double)x[i] - mean) * scale);
}

fv_status fv_features_run(fv_ctx *ctx, const fv_features *features, const float *samples,
                          int64_t length, float *out)
{
    FV_RETURN_IF(!features || length < 0 || (length > 0 && !samples), ctx, FV_ERR_ARGUMENT,
                 "features: no settings, or no samples");
    const fv_features_config *c = &features->cfg;
    FV_RETURN_IF(c->centered && c->edge == FV_EDGE_REFLECT && length <= c->fft / 2, ctx,
                 FV_ERR_ARGUMENT,
                 "features: %lld samples are too few to reflect: expected more than %lld, half the "
                 "fft",
                 (long long)length, (long long)(c->fft / 2));
    features_job j = {.f = features,
                      .samples = samples,
                      .length = length,
                      .frames = fv_features_frames(features, length),
                      .out = out};
    if (j.frames == 0) return FV_OK;
    FV_RETURN_IF(!out, ctx, FV_ERR_ARGUMENT, "features: no place for the result");
    FV_TRY(run_job(ctx, &j));
    if (c->standardise) standardise(out, j.frames * features->width);
    return FV_OK;
}

/* ---- tensors ---------------------------------------------------------------------- */

static fv_status check_sound(fv_ctx *ctx, const fv_features *f, const fv_sound *sound,
                             int64_t channel)
{
    FV_RETURN_IF(!f || !sound, ctx, FV_ERR_ARGUMENT, "features: no settings, or no sound");
    FV_RETURN_IF(channel < 0 || channel >= sound->channels, ctx, FV_ERR_ARGUMENT,
                 "features: channel %lld of a sound with %lld", (long long)channel,
                 (long long)sound->channels);
    FV_RETURN_IF(sound->rate != f->cfg.rate, ctx, FV_ERR_ARGUMENT,
                 "features: a sound at %lld Hz for settings at %lld Hz: use fv_sound_resample",
                 (long long)sound->rate, (long long)f->cfg.rate);
    return FV_OK;
}

fv_tensor *fv_features_tensor(fv_ctx *ctx, const fv_features *features, fv_sound *sound,
                              int64_t channel)
{
    fv_status status = check_sound(ctx, features, sound, channel);
    float *values = NULL;
    int64_t shape[2] = {0, 0};
    if (status == FV_OK) {
        shape[0] = fv_features_frames(features, sound->length);
        shape[1] = features->width;
        values = fv_host_alloc(ctx, FV_F32, 2, shape);
        if (values)
            status = fv_features_run(ctx, features, fv_sound_samples(sound, channel), sound->length,
                                     values);
    }
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    return fv_host_tensor(ctx, FV_F32, values, 2, shape, FV_F32);
}
