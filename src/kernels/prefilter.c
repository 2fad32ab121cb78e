/*
 * Packs an output layer for the argmax pre-filter (kernels/prefilter.h): int8 weights and, per
 * output, bounds on the rounding error, by which most outputs can be excluded without their float
 * product. Done once per matrix, the same at every SIMD level.
 */
#include "kernels/prefilter.h"

#include <float.h>
#include <math.h>

#include "base/checked_math.h"
#include "kernels/register.h"

enum { FLOAT_ARRAYS = 4, /* arrays with one float per output */ QUANT_MAX = 127 };

/* Factor by which bounds are enlarged, to cover the rounding of their own computation. */
#define MARGIN 1.0001

static int64_t panels_of(int64_t n) { return (n + FV_PREFILTER_PANEL - 1) / FV_PREFILTER_PANEL; }
static int64_t groups_of(int64_t k) { return (k + FV_PREFILTER_GROUP - 1) / FV_PREFILTER_GROUP; }

size_t fv_prefilter_bytes(int64_t n, int64_t k)
{
    size_t bytes;
    if (n < 0 || k < 0 || n > INT32_MAX || k > FV_PREFILTER_MAX_K) return SIZE_MAX;
    const size_t outputs = (size_t)panels_of(n) * FV_PREFILTER_PANEL;
    const size_t output_bytes =
        (size_t)groups_of(k) * FV_PREFILTER_GROUP + FLOAT_ARRAYS * sizeof(float);
    return fv_checked_mul_size(outputs, output_bytes, &bytes) ? bytes : SIZE_MAX;
}

fv_prefilter fv_prefilter_view_of_bytes(const void *prefilter, int64_t n, int64_t k)
{
    const int64_t outputs = panels_of(n) * FV_PREFILTER_PANEL;
    fv_prefilter s = {.bytes = prefilter, .panels = panels_of(n), .groups = groups_of(k)};
    s.scale = (const float *)(const void *)(s.bytes + outputs * s.groups * FV_PREFILTER_GROUP);
    s.bias = s.scale + outputs;
    s.norm = s.bias + outputs;
    s.error = s.norm + outputs;
    return s;
}

typedef struct pack_job {
    const fv_prefilter_args *args;
    fv_prefilter prefilter;
    unsigned char *bytes;
    float *scale, *bias, *norm, *error;
    const float *w, *given_bias;
} pack_job;

/* An output with zero weights; `to` is its first byte. */
static void clear_output(const pack_job *j, int64_t output, unsigned char *to)
{
    for (int64_t g = 0; g < j->prefilter.groups; g++)
        for (int i = 0; i < FV_PREFILTER_GROUP; i++)
            to[g * FV_PREFILTER_PANEL * FV_PREFILTER_GROUP + i] = FV_PREFILTER_ZERO_POINT;
    j->scale[output] = j->norm[output] = j->error[output] = 0;
    j->bias[output] = -FLT_MAX;
}

static void pack_output(const pack_job *j, int64_t output, unsigned char *to)
{
    const int64_t k = j->args->k;
    const float *w = j->w + output * k;
    double largest = 0, norm = 0, error = 0;
    j->bias[output] = j->given_bias ? j->given_bias[output] : 0;
    for (int64_t i = 0; i < k; i++) {
        largest = fmax(largest, fabs((double)w[i]));
        norm += (double)w[i] * (double)w[i];
    }
    const bool bounded = sqrt(norm) * MARGIN < (double)FLT_MAX; /* false for NaN too */
    j->norm[output] = bounded ? (float)(sqrt(norm) * MARGIN) : INFINITY;
    if (largest == 0 || !bounded) return;
    j->scale[output] = (float)(largest / QUANT_MAX);
    for (int64_t i = 0; i < k; i++) {
        const double q = fmax(-QUANT_MAX, fmin(QUANT_MAX, rint((double)w[i] / j->scale[output])));
        const double rounding = (double)w[i] - q * (double)j->scale[output];
        error += rounding * rounding;
        to[i / FV_PREFILTER_GROUP * FV_PREFILTER_PANEL * FV_PREFILTER_GROUP +
           i % FV_PREFILTER_GROUP] = (unsigned char)((int)q + FV_PREFILTER_ZERO_POINT);
    }
    j->error[output] = (float)(sqrt(error) * MARGIN);
}

static void pack_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    for (int64_t output = begin * FV_PREFILTER_PANEL; output < end * FV_PREFILTER_PANEL; output++) {
        const int64_t panel = output / FV_PREFILTER_PANEL, lane = output % FV_PREFILTER_PANEL;
        unsigned char *to = j->bytes + (panel * j->prefilter.groups * FV_PREFILTER_PANEL + lane) *
                                           FV_PREFILTER_GROUP;
        clear_output(j, output, to);
        if (output < j->args->n) pack_output(j, output, to);
    }
}

static void pack(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_prefilter_args *a = args;
    pack_job j = {
        .args = a, .prefilter = fv_prefilter_view_of_bytes(ptr[0], a->n, a->k), .bytes = ptr[0]};
    const int64_t outputs = j.prefilter.panels * FV_PREFILTER_PANEL;
    j.scale = (float *)(void *)(j.bytes + outputs * j.prefilter.groups * FV_PREFILTER_GROUP);
    j.bias = j.scale + outputs;
    j.norm = j.bias + outputs;
    j.error = j.norm + outputs;
    j.w = ptr[1];
    j.given_bias = ptr[2];
    fv_exec_rows(exec, j.prefilter.panels, FV_PREFILTER_PANEL * a->k, pack_panels, &j);
}

void fv_prefilter_register(fv_kernel_table *t) { t->fn[FV_KERNEL_PREFILTER_PACK][FV_F32] = pack; }
