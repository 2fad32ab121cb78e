/* Weights in bytes, with what their rounding lost: once for a matrix, the same for every level. */
#include "kernels/screen.h"

#include <float.h>
#include <math.h>

#include "base/check.h"
#include "kernels/fill.h"

enum { FLOATS = 4, /* arrays of one float a column */ BYTE_MOST = 127 };

/* Bounds are rounded up by more than their own sums can have lost. */
#define MARGIN 1.0001

static int64_t panels_of(int64_t n) { return (n + FV_SCREEN_PANEL - 1) / FV_SCREEN_PANEL; }
static int64_t groups_of(int64_t k) { return (k + FV_SCREEN_STEP - 1) / FV_SCREEN_STEP; }

size_t fv_screen_bytes(int64_t n, int64_t k)
{
    size_t bytes;
    if (n < 0 || k < 0 || n > INT32_MAX || k > FV_SCREEN_MOST_K) return SIZE_MAX;
    const size_t columns = (size_t)panels_of(n) * FV_SCREEN_PANEL;
    const size_t column = (size_t)groups_of(k) * FV_SCREEN_STEP + FLOATS * sizeof(float);
    return fv_mul_size(columns, column, &bytes) ? bytes : SIZE_MAX;
}

fv_screen fv_screen_of(const void *screen, int64_t n, int64_t k)
{
    const int64_t columns = panels_of(n) * FV_SCREEN_PANEL;
    fv_screen s = {.bytes = screen, .panels = panels_of(n), .groups = groups_of(k)};
    s.scale = (const float *)(const void *)(s.bytes + columns * s.groups * FV_SCREEN_STEP);
    s.bias = s.scale + columns;
    s.norm = s.bias + columns;
    s.error = s.norm + columns;
    return s;
}

typedef struct pack_job {
    const fv_screen_args *args;
    fv_screen screen;
    unsigned char *bytes;
    float *scale, *bias, *norm, *error;
    const float *w, *given_bias;
} pack_job;

/* What a column of zeros is like; `to` is its first byte. */
static void clear_column(const pack_job *j, int64_t col, unsigned char *to)
{
    for (int64_t g = 0; g < j->screen.groups; g++)
        for (int i = 0; i < FV_SCREEN_STEP; i++)
            to[g * FV_SCREEN_PANEL * FV_SCREEN_STEP + i] = FV_SCREEN_ZERO;
    j->scale[col] = j->norm[col] = j->error[col] = 0;
    j->bias[col] = -FLT_MAX;
}

static void pack_column(const pack_job *j, int64_t col, unsigned char *to)
{
    const int64_t k = j->args->k;
    const float *w = j->w + col * k;
    double most = 0, norm = 0, error = 0;
    j->bias[col] = j->given_bias ? j->given_bias[col] : 0;
    for (int64_t i = 0; i < k; i++) {
        most = fmax(most, fabs((double)w[i]));
        norm += (double)w[i] * (double)w[i];
    }
    const bool bounded = sqrt(norm) * MARGIN < (double)FLT_MAX; /* not NaN either */
    j->norm[col] = bounded ? (float)(sqrt(norm) * MARGIN) : INFINITY;
    if (most == 0 || !bounded) return;
    j->scale[col] = (float)(most / BYTE_MOST);
    for (int64_t i = 0; i < k; i++) {
        const double q = fmax(-BYTE_MOST, fmin(BYTE_MOST, rint((double)w[i] / j->scale[col])));
        const double lost = (double)w[i] - q * (double)j->scale[col];
        error += lost * lost;
        to[i / FV_SCREEN_STEP * FV_SCREEN_PANEL * FV_SCREEN_STEP + i % FV_SCREEN_STEP] =
            (unsigned char)((int)q + FV_SCREEN_ZERO);
    }
    j->error[col] = (float)(sqrt(error) * MARGIN);
}

static void pack_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    for (int64_t col = begin * FV_SCREEN_PANEL; col < end * FV_SCREEN_PANEL; col++) {
        const int64_t panel = col / FV_SCREEN_PANEL, inside = col % FV_SCREEN_PANEL;
        unsigned char *to =
            j->bytes + (panel * j->screen.groups * FV_SCREEN_PANEL + inside) * FV_SCREEN_STEP;
        clear_column(j, col, to);
        if (col < j->args->n) pack_column(j, col, to);
    }
}

static void pack(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_screen_args *a = args;
    pack_job j = {.args = a, .screen = fv_screen_of(ptr[0], a->n, a->k), .bytes = ptr[0]};
    const int64_t columns = j.screen.panels * FV_SCREEN_PANEL;
    j.scale = (float *)(void *)(j.bytes + columns * j.screen.groups * FV_SCREEN_STEP);
    j.bias = j.scale + columns;
    j.norm = j.bias + columns;
    j.error = j.norm + columns;
    j.w = ptr[1];
    j.given_bias = ptr[2];
    fv_exec_rows(exec, j.screen.panels, FV_SCREEN_PANEL * a->k, pack_panels, &j);
}

void fv_screen_fill(fv_kernel_table *t) { t->fn[FV_KERNEL_SCREEN_PACK][FV_F32] = pack; }
