/* Maximum and average over windows of images. Work items are planes. */
#include <string.h>

#include "kernels/image.h"
#include "kernels/ref/real.h"

typedef struct pool_job {
    const fv_pool2d_args *args;
    real *out;
    const real *g, *x;
} pool_job;

/* Elements [begin, end) of x along one axis, and how many the divisor counts. */
typedef struct extent {
    int64_t begin, end, counted;
} extent;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static extent extent_of(const fv_pool2d_args *a, int axis, int64_t o)
{
    const int64_t in = a->in[axis], out = a->out[axis];
    if (a->adaptive) {
        extent e = {o * in / out, ((o + 1) * in + out - 1) / out, 0};
        e.counted = e.end - e.begin;
        return e;
    }
    const int64_t first = o * a->stride[axis] - a->pad[axis], last = first + a->window[axis];
    extent e = {first > 0 ? first : 0, smaller(last, in), 0};
    e.counted = a->count_padding ? smaller(last, in + a->pad[axis]) - first : e.end - e.begin;
    return e;
}

/* The offset in the plane of the first largest element; NaN is larger than any number. */
static int64_t largest(const real *x, int64_t width, const extent *rows, const extent *cols)
{
    int64_t best = rows->begin * width + cols->begin;
    for (int64_t r = rows->begin; r < rows->end; r++)
        for (int64_t c = cols->begin; c < cols->end; c++) {
            const real v = x[r * width + c], most = x[best];
            if (v > most || (isnan(v) && !isnan(most))) best = r * width + c;
        }
    return best;
}

static real average(const real *x, int64_t width, const extent *rows, const extent *cols)
{
    real sum = 0;
    for (int64_t r = rows->begin; r < rows->end; r++)
        for (int64_t c = cols->begin; c < cols->end; c++)
            sum += x[r * width + c];
    return sum / (real)(rows->counted * cols->counted);
}

static void pool_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *job = arg;
    const fv_pool2d_args *a = job->args;
    for (int64_t plane = begin; plane < end; plane++) {
        const real *x = job->x + plane * a->in[0] * a->in[1];
        real *y = job->out + plane * a->out[0] * a->out[1];
        for (int64_t oy = 0; oy < a->out[0]; oy++) {
            const extent rows = extent_of(a, 0, oy);
            for (int64_t ox = 0; ox < a->out[1]; ox++) {
                const extent cols = extent_of(a, 1, ox);
                *y++ = a->max ? x[largest(x, a->in[1], &rows, &cols)]
                              : average(x, a->in[1], &rows, &cols);
            }
        }
    }
}

/* Roughly the elements that all windows of a plane read. */
static int64_t plane_cost(const fv_pool2d_args *a)
{
    const int64_t in = a->in[0] * a->in[1], out = a->out[0] * a->out[1];
    return a->adaptive ? in + out : in + out * a->window[0] * a->window[1];
}

void FV_NAME(fv_ref_pool2d)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_pool2d_args *a = args;
    const pool_job job = {.args = a, .out = ptr[0], .x = ptr[1]};
    fv_exec_rows(exec, a->planes, plane_cost(a), pool_range, &job);
}

static void spread(real *dx, int64_t width, real share, const extent *rows, const extent *cols)
{
    for (int64_t r = rows->begin; r < rows->end; r++)
        for (int64_t c = cols->begin; c < cols->end; c++)
            dx[r * width + c] += share;
}

static void grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *job = arg;
    const fv_pool2d_args *a = job->args;
    const int64_t in = a->in[0] * a->in[1];
    for (int64_t plane = begin; plane < end; plane++) {
        real *dx = job->out + plane * in;
        const real *g = job->g + plane * a->out[0] * a->out[1];
        memset(dx, 0, (size_t)in * sizeof *dx);
        for (int64_t oy = 0; oy < a->out[0]; oy++) {
            const extent rows = extent_of(a, 0, oy);
            for (int64_t ox = 0; ox < a->out[1]; ox++, g++) {
                const extent cols = extent_of(a, 1, ox);
                if (a->max)
                    dx[largest(job->x + plane * in, a->in[1], &rows, &cols)] += *g;
                else
                    spread(dx, a->in[1], *g / (real)(rows.counted * cols.counted), &rows, &cols);
            }
        }
    }
}

void FV_NAME(fv_ref_pool2d_grad)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_pool2d_args *a = args;
    const pool_job job = {.args = a, .out = ptr[0], .g = ptr[1], .x = ptr[2]};
    fv_exec_rows(exec, a->planes, plane_cost(a), grad_range, &job);
}

void FV_NAME(fv_ref_pool2d_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_POOL2D][FV_REAL_DTYPE] = FV_NAME(fv_ref_pool2d);
    t->fn[FV_KERNEL_POOL2D_GRAD][FV_REAL_DTYPE] = FV_NAME(fv_ref_pool2d_grad);
}
