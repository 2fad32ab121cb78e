/*
 * Pooling of 2 x 2 windows side by side, and nearest resizing to twice the size: the cases of small
 * networks. All others run the reference kernels. Work items are planes.
 */
#include "kernels/image.h"
#include "kernels/simd/pairs.h"
#include "kernels/simd/register.h"

typedef struct pool_job {
    int64_t planes, small[2], large[2]; /* sizes of the halved and of the other image */
    bool max;
    float *out;
    const float *g, *x;
} pool_job;

/* The four elements of each window: w[0], w[1] of the upper row, w[2], w[3] of the lower one. */
V_INLINE void load_windows(const float *x, int64_t width, int count, vf w[4])
{
    v_load_pairs(x, count, &w[0], &w[1]);
    v_load_pairs(x + width, count, &w[2], &w[3]);
}

V_INLINE void store_windows(float *x, int64_t width, int count, const vf w[4])
{
    v_store_pairs(x, count, w[0], w[1]);
    v_store_pairs(x + width, count, w[2], w[3]);
}

V_INLINE vf sum_of(const vf w[4])
{
    return v_add(v_add(v_add(v_add(v_zero(), w[0]), w[1]), w[2]), w[3]);
}

/* Whether v replaces `most`: it is larger, or the first NaN. */
V_INLINE vm replaces(vf v, vf most)
{
    return vm_or(v_lt(most, v), vm_and(v_nan(v), vm_not(v_nan(most))));
}

V_INLINE vf largest_of(const vf w[4])
{
    vf most = w[0];
    for (int k = 1; k < 4; k++)
        most = v_select(replaces(w[k], most), w[k], most);
    return most;
}

/* g at the first largest element of each window, else 0. */
V_INLINE void spread_max(const vf w[4], vf g, vf out[4])
{
    vf most = w[0];
    out[0] = v_add(v_zero(), g);
    for (int k = 1; k < 4; k++) {
        const vm here = replaces(w[k], most);
        most = v_select(here, w[k], most);
        for (int before = 0; before < k; before++)
            out[before] = v_select(here, v_zero(), out[before]);
        out[k] = v_select(here, v_add(v_zero(), g), v_zero());
    }
}

/* ---- pooling --------------------------------------------------------------------------- */

static bool is_two_by_two(const fv_pool2d_args *a)
{
    bool two = !a->adaptive;
    for (int axis = 0; axis < 2; axis++)
        two = two && a->window[axis] == 2 && a->stride[axis] == 2 && a->pad[axis] == 0;
    return two;
}

static pool_job pool_job_of(const fv_pool2d_args *a, float *out, const float *g, const float *x)
{
    return (pool_job){.planes = a->planes,
                      .small = {a->out[0], a->out[1]},
                      .large = {a->in[0], a->in[1]},
                      .max = a->max,
                      .out = out,
                      .g = g,
                      .x = x};
}

static void run_planes(const fv_exec *exec, const pool_job *job, fv_range_fn fn)
{
    fv_exec_rows(exec, job->planes, job->large[0] * job->large[1], fn, job);
}

static void pool_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *j = arg;
    const int64_t width = j->large[1], out_width = j->small[1];
    for (int64_t row = begin * j->small[0]; row < end * j->small[0]; row++) {
        const int64_t plane = row / j->small[0], top = row % j->small[0] * 2;
        const float *x = j->x + (plane * j->large[0] + top) * width;
        float *y = j->out + row * out_width;
        V_LOOP(out_width, 0, vf w[4]; load_windows(x + 2 * i, width, count, w);
               v_store(y + i, count, j->max ? largest_of(w) : v_div(sum_of(w), v_set(4))));
    }
}

static void pool2d(const fv_exec *exec, void *const *ptr, const void *args)
{
    if (!is_two_by_two(args)) {
        fv_ref_pool2d_f32(exec, ptr, args);
        return;
    }
    const pool_job job = pool_job_of(args, ptr[0], NULL, ptr[1]);
    run_planes(exec, &job, pool_range);
}

static void pool_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *j = arg;
    const int64_t width = j->large[1], area = j->large[0] * width, g_width = j->small[1];
    if (j->large[0] % 2 || width % 2) /* the last row or column belongs to no window */
        memset(j->out + begin * area, 0, (size_t)((end - begin) * area) * sizeof *j->out);
    for (int64_t row = begin * j->small[0]; row < end * j->small[0]; row++) {
        const int64_t at = row / j->small[0] * area + row % j->small[0] * 2 * width;
        const float *g = j->g + row * g_width, *x = j->x;
        V_LOOP(
            g_width, 0, vf w[4]; const vf v = v_load(g + i, count); if (j->max) {
                vf from[4];
                load_windows(x + at + 2 * i, width, count, from);
                spread_max(from, v, w);
            } else {
                w[0] = w[1] = w[2] = w[3] = v_add(v_zero(), v_div(v, v_set(4)));
            } store_windows(j->out + at + 2 * i, width, count, w));
    }
}

static void pool2d_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    if (!is_two_by_two(args)) {
        fv_ref_pool2d_grad_f32(exec, ptr, args);
        return;
    }
    const pool_job job = pool_job_of(args, ptr[0], ptr[1], ptr[2]);
    run_planes(exec, &job, pool_grad_range);
}

/* ---- resizing -------------------------------------------------------------------------- */

static bool is_doubling(const fv_resize2d_args *a)
{
    return !a->bilinear && a->out[0] == 2 * a->in[0] && a->out[1] == 2 * a->in[1];
}

static pool_job double_job_of(const fv_resize2d_args *a, float *out, const float *in)
{
    return (pool_job){.planes = a->planes,
                      .small = {a->in[0], a->in[1]},
                      .large = {a->out[0], a->out[1]},
                      .out = out,
                      .x = in};
}

static void double_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *j = arg;
    const int64_t width = j->large[1];
    for (int64_t row = begin * j->small[0]; row < end * j->small[0]; row++) {
        const float *x = j->x + row * j->small[1];
        float *y = j->out + 2 * row * width;
        V_LOOP(j->small[1], 0, const vf v = v_load(x + i, count); const vf w[4] = {v, v, v, v};
               store_windows(y + 2 * i, width, count, w));
    }
}

static void resize2d(const fv_exec *exec, void *const *ptr, const void *args)
{
    if (!is_doubling(args)) {
        fv_ref_resize2d_f32(exec, ptr, args);
        return;
    }
    const pool_job job = double_job_of(args, ptr[0], ptr[1]);
    run_planes(exec, &job, double_range);
}

static void double_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pool_job *j = arg;
    const int64_t width = j->large[1];
    for (int64_t row = begin * j->small[0]; row < end * j->small[0]; row++) {
        const float *g = j->x + 2 * row * width;
        float *dx = j->out + row * j->small[1];
        V_LOOP(j->small[1], 0, vf w[4]; load_windows(g + 2 * i, width, count, w);
               v_store(dx + i, count, sum_of(w)));
    }
}

static void resize2d_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    if (!is_doubling(args)) {
        fv_ref_resize2d_grad_f32(exec, ptr, args);
        return;
    }
    const pool_job job = double_job_of(args, ptr[0], ptr[1]);
    run_planes(exec, &job, double_grad_range);
}

void fv_simd_pool2d_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_POOL2D][FV_F32] = pool2d;
    t->fn[FV_KERNEL_POOL2D_GRAD][FV_F32] = pool2d_grad;
    t->fn[FV_KERNEL_RESIZE2D][FV_F32] = resize2d;
    t->fn[FV_KERNEL_RESIZE2D_GRAD][FV_F32] = resize2d_grad;
}
