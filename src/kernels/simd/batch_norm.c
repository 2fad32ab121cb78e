/* Batch norm of images with the statistics of the batch. Work items are channels. */
#include "kernels/batch_norm.h"
#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

static float count_of(const fv_batch_norm_args *a) { return (float)fv_batch_norm_count(a); }

static void normalise(const fv_batch_norm_job *job, int64_t c, float mean, float rstd)
{
    const fv_batch_norm_args *a = job->args;
    const float *gammas = job->ptr[5], *betas = job->ptr[6];
    const vf shift = v_set(mean), scale = v_set(rstd);
    const vf gamma = v_set(gammas ? gammas[c] : 1), beta = v_set(betas ? betas[c] : 0);
    FV_EACH_IMAGE(a, c, const float *x = (const float *)job->ptr[4] + from;
                  float *y = (float *)job->ptr[0] + from;
                  V_LOOP(a->inner, 0, vf v = v_mul(v_sub(v_load(x + i, count), shift), scale);
                         if (gammas) v = v_mul(v, gamma); if (betas) v = v_add(v, beta);
                         v_store(y + i, count, v)))
}

static void forward_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_batch_norm_job *job = arg;
    const fv_batch_norm_args *a = job->args;
    float *means = job->ptr[1], *vars = job->ptr[2], *rstds = job->ptr[3];
    const float *all = job->ptr[4];
    for (int64_t c = begin; c < end; c++) {
        vf sum = v_zero(), squares = v_zero();
        FV_EACH_IMAGE(a, c, const float *x = all + from;
                      V_LOOP(a->inner, 0, sum = v_add(sum, v_load(x + i, count))))
        const float mean = v_reduce_sum(sum) / count_of(a);
        const vf shift = v_set(mean);
        FV_EACH_IMAGE(a, c, const float *x = all + from;
                      V_LOOP(a->inner, 0, const vf d = v_sub(v_load(x + i, count), shift);
                             squares = v_add(squares, v_keep(count, v_mul(d, d), v_zero()))))
        const float var = v_reduce_sum(squares) / count_of(a);
        means[c] = mean;
        vars[c] = var;
        rstds[c] = 1 / sqrtf(var + (float)a->eps);
        normalise(job, c, mean, rstds[c]);
    }
}

static void batch_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_batch_norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->channels, job.args->batch * job.args->inner, forward_range, &job);
}

/* The gradients of one channel: factors of the formula in kernels/image.h. */
typedef struct channel_grad {
    vf mean, rstd, scale;                     /* scale: gamma rstd */
    vf mean_g, mean_gh, of_mean, of_variance; /* of_...: their gradients, divided by N */
} channel_grad;

static channel_grad channel_grad_of(const fv_batch_norm_job *job, int64_t c)
{
    const fv_batch_norm_args *a = job->args;
    float *dgamma = job->ptr[1], *dbeta = job->ptr[2];
    const float *gs = job->ptr[3], *xs = job->ptr[4], *gamma = job->ptr[7];
    const float *g_mean = job->ptr[8], *g_var = job->ptr[9];
    const float rstd = ((const float *)job->ptr[6])[c];
    const vf zero = v_zero();
    channel_grad k = {.mean = v_set(((const float *)job->ptr[5])[c]), .rstd = v_set(rstd)};
    vf sum_g = zero, sum_gh = zero;
    FV_EACH_IMAGE(a, c, const float *g = gs + from; const float *x = xs + from;
                  V_LOOP(a->inner, 0, const vf v = v_load(g + i, count);
                         const vf h = v_mul(v_sub(v_load(x + i, count), k.mean), k.rstd);
                         sum_g = v_add(sum_g, v);
                         sum_gh = v_add(sum_gh, v_keep(count, v_mul(v, h), zero))))
    const float total_g = v_reduce_sum(sum_g), total_gh = v_reduce_sum(sum_gh);
    if (dgamma) dgamma[c] = total_gh;
    if (dbeta) dbeta[c] = total_g;
    k.scale = v_set(gamma ? gamma[c] * rstd : rstd);
    k.mean_g = FV_TERM(job->exec, 1, v_set(total_g / count_of(a)), zero);
    k.mean_gh = FV_TERM(job->exec, 2, v_set(total_gh / count_of(a)), zero);
    k.of_mean = g_mean ? FV_TERM(job->exec, 3, v_set(g_mean[c] / count_of(a)), zero) : zero;
    k.of_variance = g_var ? FV_TERM(job->exec, 4, v_set(2 * g_var[c] / count_of(a)), zero) : zero;
    return k;
}

static void grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_batch_norm_job *job = arg;
    const fv_batch_norm_args *a = job->args;
    float *all = job->ptr[0];
    const float *gs = job->ptr[3], *xs = job->ptr[4];
    const vf zero = v_zero();
    for (int64_t c = begin; c < end; c++) {
        const channel_grad k = channel_grad_of(job, c);
        if (!all) continue;
        FV_EACH_IMAGE(
            a, c, const float *g = gs + from; const float *x = xs + from; float *dx = all + from;
            V_LOOP(a->inner, 0, const vf centred = v_sub(v_load(x + i, count), k.mean);
                   const vf h = v_mul(centred, k.rstd);
                   const vf v = FV_TERM(job->exec, 0, v_load(g + i, count), zero);
                   const vf u = v_sub(v_sub(v, k.mean_g), v_mul(h, k.mean_gh)); v_store(
                       dx + i, count,
                       v_add(v_add(v_mul(k.scale, u), k.of_mean), v_mul(centred, k.of_variance)))))
    }
    (void)zero;
}

static void batch_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_batch_norm_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->channels, job.args->batch * job.args->inner, grad_range, &job);
}

void fv_simd_batch_norm_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_BATCH_NORM][FV_F32] = batch_norm;
    t->fn[FV_KERNEL_BATCH_NORM_GRAD][FV_F32] = batch_norm_grad;
}
