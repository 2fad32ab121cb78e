/* Batch norm of images with the statistics of the batch. Work items are channels. */
#include "kernels/batch_norm.h"
#include "kernels/ref/real.h"

/* The sum of `term`, an expression of the offset `at`, over one channel: element i of each image
 * goes to lane i % 16. */
#define CHANNEL_SUM(result, a, channel, term)                                                      \
    do {                                                                                           \
        real acc_[FV_LANES] = {0};                                                                 \
        FV_EACH_IMAGE(                                                                             \
            a, channel, for (int64_t i_ = 0; i_ < (a)->inner; i_++) {                              \
                const int64_t at = from + i_;                                                      \
                acc_[i_ % FV_LANES] += (term);                                                     \
            })                                                                                     \
        (result) = real_reduce_sum(acc_);                                                          \
    } while (0)

static real count_of(const fv_batch_norm_args *a) { return (real)fv_batch_norm_count(a); }

static void forward_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_batch_norm_job *job = arg;
    const fv_batch_norm_args *a = job->args;
    real *y = job->ptr[0], *means = job->ptr[1], *vars = job->ptr[2], *rstds = job->ptr[3];
    const real *x = job->ptr[4], *gamma = job->ptr[5], *beta = job->ptr[6];
    for (int64_t c = begin; c < end; c++) {
        real sum;
        CHANNEL_SUM(sum, a, c, x[at]);
        const real mean = sum / count_of(a);
        CHANNEL_SUM(sum, a, c, (x[at] - mean) * (x[at] - mean));
        const real var = sum / count_of(a), rstd = 1 / real_sqrt(var + (real)a->eps);
        FV_EACH_IMAGE(
            a, c, for (int64_t at = from; at < from + a->inner; at++) {
                real v = (x[at] - mean) * rstd;
                if (gamma) v = v * gamma[c];
                if (beta) v = v + beta[c];
                y[at] = v;
            })
        means[c] = mean;
        vars[c] = var;
        rstds[c] = rstd;
    }
}

static void batch_norm(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_batch_norm_job job = {exec, args, ptr};
    const fv_batch_norm_args *a = args;
    fv_exec_rows(exec, a->channels, 6 * a->batch * a->inner, forward_range, &job);
}

/* The gradients of one channel: factors of the formula in kernels/image.h. */
typedef struct channel_grad {
    real mean, rstd, scale;                     /* scale: gamma rstd */
    real mean_g, mean_gh, of_mean, of_variance; /* of_...: their gradients, divided by N */
} channel_grad;

static channel_grad channel_grad_of(const fv_batch_norm_job *job, int64_t c)
{
    const fv_batch_norm_args *a = job->args;
    real *dgamma = job->ptr[1], *dbeta = job->ptr[2];
    const real *g = job->ptr[3], *x = job->ptr[4], *gamma = job->ptr[7];
    const real *g_mean = job->ptr[8], *g_var = job->ptr[9];
    channel_grad k = {.mean = ((const real *)job->ptr[5])[c],
                      .rstd = ((const real *)job->ptr[6])[c]};
    real sum_g, sum_gh;
    CHANNEL_SUM(sum_g, a, c, g[at]);
    CHANNEL_SUM(sum_gh, a, c, g[at] * ((x[at] - k.mean) * k.rstd));
    if (dgamma) dgamma[c] = sum_gh;
    if (dbeta) dbeta[c] = sum_g;
    k.scale = gamma ? gamma[c] * k.rstd : k.rstd;
    k.mean_g = FV_TERM(job->exec, 1, sum_g / count_of(a), 0);
    k.mean_gh = FV_TERM(job->exec, 2, sum_gh / count_of(a), 0);
    k.of_mean = g_mean ? FV_TERM(job->exec, 3, g_mean[c] / count_of(a), 0) : 0;
    k.of_variance = g_var ? FV_TERM(job->exec, 4, 2 * g_var[c] / count_of(a), 0) : 0;
    return k;
}

static void grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_batch_norm_job *job = arg;
    const fv_batch_norm_args *a = job->args;
    real *dx = job->ptr[0];
    const real *g = job->ptr[3], *x = job->ptr[4];
    for (int64_t c = begin; c < end; c++) {
        const channel_grad k = channel_grad_of(job, c);
        if (!dx) continue;
        FV_EACH_IMAGE(
            a, c, for (int64_t at = from; at < from + a->inner; at++) {
                const real centred = x[at] - k.mean, h = centred * k.rstd;
                const real u = (FV_TERM(job->exec, 0, g[at], 0) - k.mean_g) - h * k.mean_gh;
                dx[at] = (k.scale * u + k.of_mean) + centred * k.of_variance;
            })
    }
}

static void batch_norm_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_batch_norm_job job = {exec, args, ptr};
    const fv_batch_norm_args *a = args;
    fv_exec_rows(exec, a->channels, 8 * a->batch * a->inner, grad_range, &job);
}

void FV_NAME(fv_ref_batch_norm_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_BATCH_NORM][FV_REAL_DTYPE] = batch_norm;
    t->fn[FV_KERNEL_BATCH_NORM_GRAD][FV_REAL_DTYPE] = batch_norm_grad;
}
