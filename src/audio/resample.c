/* Conversion of the sample rate by a windowed sinc (the formula is in fovea/audio.h). */
#include <math.h>
#include <string.h>

#include "audio/sound.h"
#include "base/checked_math.h"

/*
 * With the rates divided by their greatest common divisor, output j = q to + p needs the same
 * weights for every q: a table of `to` phases. Phase p has its taps around input q from + p from /
 * to; only those inside the window are kept.
 */
typedef struct resampler {
    fv_ctx *ctx;
    int64_t from, to;
    int64_t taps;   /* of each phase, at most */
    int64_t *first; /* [to]: the first tap's input, relative to q from */
    double *weight; /* [to][taps] */
    void *tables;
    size_t bytes;
} resampler;

static const double zero_crossings = 6, rolloff = 0.99;

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The weight of input i (relative to q from) for phase p: t is their distance in zero crossings. */
static double weight_of(const resampler *r, int64_t p, int64_t i)
{
    const double base = (double)(r->from < r->to ? r->from : r->to) * rolloff;
    double t = (-(double)p / (double)r->to + (double)i / (double)r->from) * base;
    if (t > zero_crossings) t = zero_crossings;
    if (t < -zero_crossings) t = -zero_crossings;
    const double window = cos(t * M_PI / zero_crossings / 2);
    t *= M_PI;
    return (t == 0 ? 1 : sin(t) / t) * window * window * base / (double)r->from;
}

static fv_status make(fv_ctx *ctx, int64_t from, int64_t to, resampler *out)
{
    const int64_t common = divisor(from, to);
    resampler r = {.ctx = ctx, .from = from / common, .to = to / common};
    const double base = (double)(r.from < r.to ? r.from : r.to) * rolloff,
                 reach = zero_crossings * (double)r.from / base;
    r.taps = 2 * (int64_t)ceil(reach) + 1;
    const size_t weights = (size_t)(r.to * r.taps) * sizeof(double);
    r.bytes = weights + (size_t)r.to * sizeof(int64_t);
    r.tables = fv_mem_alloc(&ctx->mem, r.bytes);
    FV_RETURN_IF(!r.tables, ctx, FV_ERR_MEMORY, "sound: out of memory");
    r.weight = r.tables;
    r.first = (int64_t *)((char *)r.tables + weights);
    for (int64_t p = 0; p < r.to; p++) {
        r.first[p] = (int64_t)ceil((double)p * (double)r.from / (double)r.to - reach);
        for (int64_t k = 0; k < r.taps; k++)
            r.weight[p * r.taps + k] = weight_of(&r, p, r.first[p] + k);
    }
    *out = r;
    return FV_OK;
}

/* ---- applying --------------------------------------------------------------------- */

typedef struct resample_job {
    const resampler *r;
    const float *in;
    float *out;
    int64_t length, first; /* samples of the input; the first output of this slab */
} resample_job;

static void run_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const resample_job *j = arg;
    const resampler *r = j->r;
    for (int64_t o = j->first + begin; o < j->first + end; o++) {
        const int64_t p = o % r->to, at = o / r->to * r->from + r->first[p];
        const double *w = r->weight + p * r->taps;
        const int64_t low = at < 0 ? -at : 0,
                      high = at + r->taps > j->length ? j->length - at : r->taps;
        double sum = 0;
        for (int64_t k = low; k < high; k++)
            sum += w[k] * (double)j->in[at + k];
        j->out[o] = (float)sum;
    }
}

enum {
    GRAIN = 4096,
    SLAB = 1 << 20
}; /* outputs of a work item; between looks at the cancel flag */

static fv_status run_channel(fv_ctx *ctx, const resampler *r, const float *in, int64_t length,
                             float *out, int64_t out_length)
{
    resample_job j = {.r = r, .in = in, .out = out, .length = length};
    for (; j.first < out_length; j.first += SLAB) {
        if (fv_cancelled(ctx)) return fv_fail(ctx, FV_ERR_CANCELLED, "cancelled");
        const int64_t left = out_length - j.first;
        fv_pool_run(ctx->pool, left < SLAB ? left : SLAB, GRAIN, run_range, &j);
    }
    return FV_OK;
}

fv_status fv_sound_resample(fv_ctx *ctx, fv_sound **sound, int64_t rate)
{
    FV_RETURN_IF(!sound || !*sound || rate < 1 || rate > FV_SOUND_MAX_RATE, ctx, FV_ERR_ARGUMENT,
                 "sound: resampling to %lld Hz: expected a sound, and 1 to %d Hz", (long long)rate,
                 FV_SOUND_MAX_RATE);
    fv_sound *s = *sound, *made = NULL;
    if (s->rate == rate) return FV_OK;
    int64_t scaled;
    FV_RETURN_IF(!fv_checked_mul_i64(s->length, rate, &scaled), ctx, FV_ERR_LIMIT,
                 "sound: %lld samples at %lld Hz are too many", (long long)s->length,
                 (long long)rate);
    const int64_t length = scaled / s->rate + (scaled % s->rate > 0);
    resampler r;
    FV_TRY(fv_sound_create(ctx, rate, s->channels, length, NULL, &made));
    fv_status status = make(ctx, s->rate, rate, &r);
    if (status == FV_OK) {
        for (int64_t c = 0; c < s->channels && status == FV_OK; c++)
            status = run_channel(ctx, &r, fv_sound_samples(s, c), s->length,
                                 fv_sound_samples(made, c), length);
        fv_mem_free(&ctx->mem, r.tables, r.bytes);
    }
    if (status != FV_OK) {
        fv_sound_free(&made);
        return status;
    }
    made->file_channels = s->file_channels;
    memcpy(made->encoding, s->encoding, sizeof made->encoding);
    fv_sound_free(sound);
    *sound = made;
    return FV_OK;
}
