/* Nearest and bilinear resampling of images. Work items are planes. Positions are computed in
 * double for both element types. */
#include <string.h>

#include "kernels/image.h"
#include "kernels/ref/real.h"

typedef struct resize_job {
    const fv_exec *exec;
    const fv_resize2d_args *args;
    real *out;
    const real *in;
} resize_job;

/* The two neighbours of an output along one axis, and the weight of the second. */
typedef struct neighbours {
    int64_t low, high;
    real part;
} neighbours;

static neighbours neighbours_of(const fv_resize2d_args *a, int axis, int64_t o)
{
    const int64_t in = a->in[axis], out = a->out[axis];
    if (!a->bilinear) return (neighbours){o * in / out, 0, 0};
    double at;
    if (a->align_corners)
        at = out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0;
    else
        at = ((double)o + 0.5) * (double)in / (double)out - 0.5;
    if (at < 0) at = 0;
    const int64_t low = (int64_t)at; /* below in: `at` is at most in - 1, or less than in - 0.5 */
    return (neighbours){low, low + 1 < in ? low + 1 : low, (real)(at - (double)low)};
}

static void resize_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const resize_job *job = arg;
    const fv_resize2d_args *a = job->args;
    for (int64_t plane = begin; plane < end; plane++) {
        const real *x = job->in + plane * a->in[0] * a->in[1];
        real *y = job->out + plane * a->out[0] * a->out[1];
        for (int64_t oy = 0; oy < a->out[0]; oy++) {
            const neighbours v = neighbours_of(a, 0, oy);
            const real *low = x + v.low * a->in[1], *high = x + v.high * a->in[1];
            for (int64_t ox = 0; ox < a->out[1]; ox++) {
                const neighbours h = neighbours_of(a, 1, ox);
                if (!a->bilinear) {
                    *y++ = low[h.low];
                    continue;
                }
                const real above = (1 - h.part) * low[h.low] + h.part * low[h.high];
                const real below = (1 - h.part) * high[h.low] + h.part * high[h.high];
                *y++ = (1 - v.part) * above + v.part * below;
            }
        }
    }
}

static int64_t plane_cost(const fv_resize2d_args *a)
{
    return a->in[0] * a->in[1] + 8 * a->out[0] * a->out[1];
}

void FV_NAME(fv_ref_resize2d)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const resize_job job = {.exec = exec, .args = args, .out = ptr[0], .in = ptr[1]};
    fv_exec_rows(exec, job.args->planes, plane_cost(job.args), resize_range, &job);
}

static void spread(const fv_exec *exec, real *low, real *high, real g, const neighbours *v,
                   const neighbours *h)
{
    (void)exec; /* without the test hook */
    low[h->low] += FV_TERM(exec, 0, g * (1 - v->part) * (1 - h->part), 0);
    low[h->high] += FV_TERM(exec, 1, g * (1 - v->part) * h->part, 0);
    high[h->low] += FV_TERM(exec, 2, g * v->part * (1 - h->part), 0);
    high[h->high] += FV_TERM(exec, 3, g * v->part * h->part, 0);
}

static void grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const resize_job *job = arg;
    const fv_resize2d_args *a = job->args;
    const int64_t in = a->in[0] * a->in[1];
    for (int64_t plane = begin; plane < end; plane++) {
        real *dx = job->out + plane * in;
        const real *g = job->in + plane * a->out[0] * a->out[1];
        memset(dx, 0, (size_t)in * sizeof *dx);
        for (int64_t oy = 0; oy < a->out[0]; oy++) {
            const neighbours v = neighbours_of(a, 0, oy);
            real *low = dx + v.low * a->in[1], *high = dx + v.high * a->in[1];
            for (int64_t ox = 0; ox < a->out[1]; ox++, g++) {
                const neighbours h = neighbours_of(a, 1, ox);
                if (a->bilinear)
                    spread(job->exec, low, high, *g, &v, &h);
                else
                    low[h.low] += *g;
            }
        }
    }
}

void FV_NAME(fv_ref_resize2d_grad)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const resize_job job = {.exec = exec, .args = args, .out = ptr[0], .in = ptr[1]};
    fv_exec_rows(exec, job.args->planes, plane_cost(job.args), grad_range, &job);
}

void FV_NAME(fv_ref_resize2d_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_RESIZE2D][FV_REAL_DTYPE] = FV_NAME(fv_ref_resize2d);
    t->fn[FV_KERNEL_RESIZE2D_GRAD][FV_REAL_DTYPE] = FV_NAME(fv_ref_resize2d_grad);
}
