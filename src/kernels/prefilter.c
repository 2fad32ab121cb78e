/* Quantizes weights to bytes and computes bounds on the rounding errors: once per matrix, the same
 * for every level. */
#include "kernels/prefilter.h"

#include <float.h>
#include <math.h>

#include "base/checked_math.h"
#include "kernels/register.h"

enum { FLOATS = 4, /* arrays with one float per column */ BYTE_MAX = 127 };

/* Rounds bounds up by more than the error of their own sums. */
#define MARGIN 1.0001

static int64_t panels_of(int64_t n) { return (n + FV_PREFILTER_PANEL - 1) / FV_PREFILTER_PANEL; }
static int64_t groups_of(int64_t k) { return (k + FV_PREFILTER_STEP - 1) / FV_PREFILTER_STEP; }

size_t fv_prefilter_bytes(int64_t n, int64_t k)
{
    size_t bytes;
    if (n < 0 || k < 0 || n > INT32_MAX || k > FV_PREFILTER_MAX_K) return SIZE_MAX;
    const size_t columns = (size_t)panels_of(n) * FV_PREFILTER_PANEL;
    const size_t column = (size_t)groups_of(k) * FV_PREFILTER_STEP + FLOATS * sizeof(float);
    return fv_checked_mul_size(columns, column, &bytes) ? bytes : SIZE_MAX;
}

fv_prefilter fv_prefilter_of(const void *prefilter, int64_t n, int64_t k)
{
    const int64_t columns = panels_of(n) * FV_PREFILTER_PANEL;
    fv_prefilter s = {.bytes = prefilter, .panels = panels_of(n), .groups = groups_of(k)};
    s.scale = (const float *)(const void *)(s.bytes + columns * s.groups * FV_PREFILTER_STEP);
    s.bias = s.scale + columns;
    s.norm = s.bias + columns;
    s.error = s.norm + columns;
    return s;
}

typedef struct pack_job {
    const fv_prefilter_args *args;
    fv_prefilter prefilter;
    unsigned char *bytes;
    float *scale, *bias, *norm, *error;
    const float *w, *given_bias;
} pack_job;

/* A column of zeros; `to` is its first byte. */
static void clear_column(const pack_job *j, int64_t col, unsigned char *to)
{
    for (int64_t g = 0; g < j->prefilter.groups; g++)
        for (int i = 0; i < FV_PREFILTER_STEP; i++)
            to[g * FV_PREFILTER_PANEL * FV_PREFILTER_STEP + i] = FV_PREFILTER_ZERO;
    j->scale[col] = j->norm[col] = j->error[col] = 0;
    j->bias[col] = -FLT_MAX;
}

static void pack_column(const pack_job *j, int64_t col, unsigned char *to)
{
    const int64_t k = j->args->k;
    const float *w = j->w + col * k;
    double largest = 0, norm = 0, error = 0;
    j->bias[col] = j->given_bias ? j->given_bias[col] : 0;
    for (int64_t i = 0; i < k; i++) {
        largest = fmax(largest, fabs((double)w[i]));
        norm += (double)w[i] * (double)w[i];
    }
    const bool bounded = sqrt(norm) * MARGIN < (double)FLT_MAX; /* false for NaN too */
    j->norm[col] = bounded ? (float)(sqrt(norm) * MARGIN) : INFINITY;
    if (largest == 0 || !bounded) return;
    j->scale[col] = (float)(largest / BYTE_MAX);
    for (int64_t i = 0; i < k; i++) {
        const double q = fmax(-BYTE_MAX, fmin(BYTE_MAX, rint((double)w[i] / j->scale[col])));
        const double rounding = (double)w[i] - q * (double)j->scale[col];
        error += rounding * rounding;
        to[i / FV_PREFILTER_STEP * FV_PREFILTER_PANEL * FV_PREFILTER_STEP + i % FV_PREFILTER_STEP] =
            (unsigned char)((int)q + FV_PREFILTER_ZERO);
    }
    j->error[col] = (float)(sqrt(error) * MARGIN);
}

static void pack_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    for (int64_t col = begin * FV_PREFILTER_PANEL; col < end * FV_PREFILTER_PANEL; col++) {
        const int64_t panel = col / FV_PREFILTER_PANEL, inside = col % FV_PREFILTER_PANEL;
        unsigned char *to = j->bytes + (panel * j->prefilter.groups * FV_PREFILTER_PANEL + inside) *
                                           FV_PREFILTER_STEP;
        clear_column(j, col, to);
        if (col < j->args->n) pack_column(j, col, to);
    }
}

static void pack(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_prefilter_args *a = args;
    pack_job j = {.args = a, .prefilter = fv_prefilter_of(ptr[0], a->n, a->k), .bytes = ptr[0]};
    const int64_t columns = j.prefilter.panels * FV_PREFILTER_PANEL;
    j.scale = (float *)(void *)(j.bytes + columns * j.prefilter.groups * FV_PREFILTER_STEP);
    j.bias = j.scale + columns;
    j.norm = j.bias + columns;
    j.error = j.norm + columns;
    j.w = ptr[1];
    j.given_bias = ptr[2];
    fv_exec_rows(exec, j.prefilter.panels, FV_PREFILTER_PANEL * a->k, pack_panels, &j);
}

void fv_prefilter_register(fv_kernel_table *t) { t->fn[FV_KERNEL_PREFILTER_PACK][FV_F32] = pack; }
