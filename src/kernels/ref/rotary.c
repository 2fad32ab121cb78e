/* Rotary positions; see kernels/rows.h. */
#include "kernels/ref/real.h"
#include "kernels/rows.h"

typedef struct rotary_job {
    const fv_rotary_args *args;
    void *const *ptr;
} rotary_job;

/* One row of pairs `step` columns apart, with `stride` from one pair to the next. */
static void rotate_row(const fv_rotary_args *a, const real *cosine, const real *sine, const real *x,
                       real *y)
{
    const int64_t pairs = a->rotated / 2;
    const int64_t step = a->interleaved ? 1 : pairs, stride = a->interleaved ? 2 : 1;
    const real sign = a->inverse ? (real)-1 : (real)1;
    for (int64_t m = 0; m < pairs; m++) {
        const real x1 = x[m * stride], x2 = x[m * stride + step], s = sign * sine[m];
        y[m * stride] = x1 * cosine[m] - x2 * s;
        y[m * stride + step] = x2 * cosine[m] + x1 * s;
    }
    for (int64_t c = a->rotated; c < a->width; c++)
        y[c] = x[c];
}

static void rotary_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const rotary_job *job = arg;
    const fv_rotary_args *a = job->args;
    const int64_t pairs = a->rotated / 2;
    const real *cosines = job->ptr[2], *sines = cosines + a->n * pairs;
    for (int64_t row = begin; row < end; row++) {
        const int64_t p = row / a->inner % a->n;
        rotate_row(a, cosines + p * pairs, sines + p * pairs,
                   (const real *)job->ptr[1] + row * a->width,
                   (real *)job->ptr[0] + row * a->width);
    }
}

static void rotary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const rotary_job job = {args, ptr};
    const fv_rotary_args *a = job.args;
    fv_exec_rows(exec, a->outer * a->n * a->inner, 3 * a->width, rotary_range, &job);
}

void FV_NAME(fv_ref_rotary_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ROTARY][FV_REAL_DTYPE] = rotary;
}
