/* Rotary positions; see kernels/rows.h. Products and sums are not fused, so that all levels
 * agree. */
#include "kernels/rows.h"
#include "kernels/simd/register.h"

typedef struct rotary_job {
    const fv_rotary_args *args;
    void *const *ptr;
} rotary_job;

/* Columns m and m + pairs. */
static void rotate_halves(int64_t pairs, const float *cosine, const float *sine, vf sign,
                          const float *x, float *y)
{
    V_LOOP(pairs, 0, const vf x1 = v_load(x + i, count), x2 = v_load(x + pairs + i, count);
           const vf c = v_load(cosine + i, count), s = v_mul(sign, v_load(sine + i, count));
           v_store(y + i, count, v_sub(v_mul(x1, c), v_mul(x2, s)));
           v_store(y + pairs + i, count, v_add(v_mul(x2, c), v_mul(x1, s))));
}

/* Columns 2m and 2m + 1: a plain loop, which the compiler vectorises well enough. */
static void rotate_interleaved(int64_t pairs, const float *restrict cosine,
                               const float *restrict sine, float sign, const float *x, float *y)
{
    for (int64_t m = 0; m < pairs; m++) {
        const float x1 = x[2 * m], x2 = x[2 * m + 1], s = sign * sine[m];
        y[2 * m] = x1 * cosine[m] - x2 * s;
        y[2 * m + 1] = x2 * cosine[m] + x1 * s;
    }
}

static void rotary_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rotary_job *job = arg;
    const fv_rotary_args *a = job->args;
    const int64_t pairs = a->rotated / 2;
    const float *cosines = job->ptr[2], *sines = cosines + a->n * pairs;
    const float sign = a->inverse ? -1.0f : 1.0f;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / a->inner % a->n * pairs;
        const float *x = (const float *)job->ptr[1] + row * a->width;
        float *y = (float *)job->ptr[0] + row * a->width;
        if (a->interleaved)
            rotate_interleaved(pairs, cosines + at, sines + at, sign, x, y);
        else
            rotate_halves(pairs, cosines + at, sines + at, v_set(sign), x, y);
        for (int64_t c = a->rotated; c < a->width; c++)
            y[c] = x[c];
    }
}

static void rotary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const rotary_job job = {args, ptr};
    const fv_rotary_args *a = job.args;
    fv_exec_rows(exec, a->outer * a->n * a->inner, a->width, rotary_range, &job);
}

void fv_simd_rotary_register(fv_kernel_table *t) { t->fn[FV_KERNEL_ROTARY][FV_F32] = rotary; }
