/* Convolution of images, its transpose and the gradient of its weight: every sum element by
 * element, in the order that kernels/image.h names. */
#include "kernels/image.h"
#include "kernels/ref/real.h"

typedef struct conv2d_job {
    const fv_conv2d_args *args;
    real *out;
    const real *x, *w, *y, *bias;
} conv2d_job;

/* Plane [rows, cols] at (row, col), 0 outside. */
static real at(const real *plane, const int64_t size[2], int64_t row, int64_t col)
{
    const bool inside = row >= 0 && row < size[0] && col >= 0 && col < size[1];
    return inside ? plane[row * size[1] + col] : 0;
}

/* ---- y ---------------------------------------------------------------------------- */

static real output_at(const conv2d_job *job, int64_t n, int64_t o, int64_t oy, int64_t ox)
{
    const fv_conv2d_args *a = job->args;
    const int64_t channels = a->in_c / a->groups, first = o / (a->out_c / a->groups) * channels;
    const real *w = job->w + o * channels * a->window[0] * a->window[1];
    real sum = 0;
    for (int64_t c = 0; c < channels; c++) {
        const real *x = job->x + (n * a->in_c + first + c) * a->in[0] * a->in[1];
        for (int64_t ky = 0; ky < a->window[0]; ky++)
            for (int64_t kx = 0; kx < a->window[1]; kx++) {
                const int64_t iy = oy * a->stride[0] - a->pad[0] + ky * a->dilation[0];
                const int64_t ix = ox * a->stride[1] - a->pad[1] + kx * a->dilation[1];
                sum = real_fma(*w++, at(x, a->in, iy, ix), sum);
            }
    }
    return job->bias ? sum + job->bias[o] : sum;
}

/* Work items are rows of y. */
static void conv2d_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv2d_job *job = arg;
    const fv_conv2d_args *a = job->args;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / a->out[0], oy = item % a->out[0];
        for (int64_t ox = 0; ox < a->out[1]; ox++)
            job->out[item * a->out[1] + ox] =
                output_at(job, plane / a->out_c, plane % a->out_c, oy, ox);
    }
}

void FV_NAME(fv_ref_conv2d)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    const conv2d_job job = {.args = a, .out = ptr[0], .x = ptr[1], .w = ptr[2], .bias = ptr[3]};
    const int64_t cost = a->in_c / a->groups * a->window[0] * a->window[1];
    fv_exec_rows(exec, a->batch * a->out_c * a->out[0], a->out[1] * (cost + 1), conv2d_range, &job);
}

/* ---- x ---------------------------------------------------------------------------- */

static real input_at(const conv2d_job *job, int64_t n, int64_t c, int64_t iy, int64_t ix)
{
    const fv_conv2d_args *a = job->args;
    const int64_t channels = a->in_c / a->groups, outputs = a->out_c / a->groups;
    const int64_t first = c / channels * outputs, taps = a->window[0] * a->window[1];
    real sum = 0;
    for (int64_t o = first; o < first + outputs; o++) {
        const real *y = job->y + (n * a->out_c + o) * a->out[0] * a->out[1];
        const real *w = job->w + (o * channels + c % channels) * taps;
        for (int64_t ky = 0; ky < a->window[0]; ky++)
            for (int64_t kx = 0; kx < a->window[1]; kx++) {
                if (!fv_conv2d_reads(a, 0, iy, ky) || !fv_conv2d_reads(a, 1, ix, kx)) continue;
                const int64_t oy = (iy + a->pad[0] - ky * a->dilation[0]) / a->stride[0];
                const int64_t ox = (ix + a->pad[1] - kx * a->dilation[1]) / a->stride[1];
                sum = real_fma(w[ky * a->window[1] + kx], at(y, a->out, oy, ox), sum);
            }
    }
    return job->bias ? sum + job->bias[c] : sum;
}

/* Work items are rows of x. */
static void data_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv2d_job *job = arg;
    const fv_conv2d_args *a = job->args;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / a->in[0], iy = item % a->in[0];
        for (int64_t ix = 0; ix < a->in[1]; ix++)
            job->out[item * a->in[1] + ix] =
                input_at(job, plane / a->in_c, plane % a->in_c, iy, ix);
    }
}

void FV_NAME(fv_ref_conv2d_data)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    const conv2d_job job = {.args = a, .out = ptr[0], .y = ptr[1], .w = ptr[2], .bias = ptr[3]};
    const int64_t cost = a->out_c / a->groups * a->window[0] * a->window[1];
    fv_exec_rows(exec, a->batch * a->in_c * a->in[0], a->in[1] * (cost + 1), data_range, &job);
}

/* ---- dw --------------------------------------------------------------------------- */

static real weight_sum(const conv2d_job *job, int64_t o, int64_t c, int64_t ky, int64_t kx,
                       real sum)
{
    const fv_conv2d_args *a = job->args;
    for (int64_t n = 0; n < a->batch; n++) {
        const real *x = job->x + (n * a->in_c + c) * a->in[0] * a->in[1];
        const real *y = job->y + (n * a->out_c + o) * a->out[0] * a->out[1];
        for (int64_t oy = 0; oy < a->out[0]; oy++)
            for (int64_t ox = 0; ox < a->out[1]; ox++) {
                const int64_t iy = oy * a->stride[0] - a->pad[0] + ky * a->dilation[0];
                const int64_t ix = ox * a->stride[1] - a->pad[1] + kx * a->dilation[1];
                sum = real_fma(at(x, a->in, iy, ix), *y++, sum);
            }
    }
    return sum;
}

/* Work items are the windows of dw, (o, c). */
static void weight_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv2d_job *job = arg;
    const fv_conv2d_args *a = job->args;
    const int64_t channels = a->in_c / a->groups, outputs = a->out_c / a->groups;
    for (int64_t item = begin; item < end; item++) {
        const int64_t o = item / channels, c = o / outputs * channels + item % channels;
        real *dw = job->out + item * a->window[0] * a->window[1];
        for (int64_t ky = 0; ky < a->window[0]; ky++)
            for (int64_t kx = 0; kx < a->window[1]; kx++, dw++)
                *dw = weight_sum(job, o, c, ky, kx, a->accumulate ? *dw : 0);
    }
}

void FV_NAME(fv_ref_conv2d_weight)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    const conv2d_job job = {.args = a, .out = ptr[0], .x = ptr[1], .y = ptr[2]};
    const int64_t pixels = a->batch * a->out[0] * a->out[1];
    fv_exec_rows(exec, a->out_c * (a->in_c / a->groups), a->window[0] * a->window[1] * (pixels + 1),
                 weight_range, &job);
}

void FV_NAME(fv_ref_conv2d_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CONV2D][FV_REAL_DTYPE] = FV_NAME(fv_ref_conv2d);
    t->fn[FV_KERNEL_CONV2D_DATA][FV_REAL_DTYPE] = FV_NAME(fv_ref_conv2d_data);
    t->fn[FV_KERNEL_CONV2D_WEIGHT][FV_REAL_DTYPE] = FV_NAME(fv_ref_conv2d_weight);
}
