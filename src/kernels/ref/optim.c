/* Fused optimizer steps: each element reads its weight, gradient and state once. Constants are
 * computed in double and rounded once; the SIMD versions keep the order of operations written
 * here. */
#include "kernels/optim.h"

#include "kernels/half.h"
#include "kernels/ref/real.h"

typedef struct optim_job {
    const fv_optim_args *args;
    void *const *ptr;
    double scale;
} optim_job;

static void run_step(const fv_exec *exec, void *const *ptr, const void *args, fv_range_fn fn)
{
    const fv_step_block *block = ptr[2];
    if (block->open == 0) return;
    const optim_job job = {args, ptr, block->scale};
    fv_exec_rows(exec, job.args->n, 4, fn, &job);
}

/* The clipped gradient with L2 decay: scale g + wd w. */
static real decayed(const optim_job *job, real g, real w)
{
    const fv_optim_args *a = job->args;
    const real scaled = (real)job->scale * g;
    return a->weight_decay != 0 ? scaled + (real)a->weight_decay * w : scaled;
}

/* The new weight, also as bf16 where there is a copy. */
static void put(const optim_job *job, int64_t i, real w)
{
    uint16_t *copy = job->ptr[3];
    ((real *)job->ptr[0])[i] = w;
    if (copy) copy[i] = fv_f32_to_bf16((float)w);
}

/* b = momentum b + g, then w -= lr b; Nesterov: w -= lr (g + momentum b). */
static void sgd_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    const real lr = (real)a->lr, momentum = (real)a->momentum;
    const real *w = job->ptr[0];
    real *buffer = job->ptr[4];
    const real *grad = job->ptr[1];
    for (int64_t i = begin; i < end; i++) {
        real g = decayed(job, grad[i], w[i]);
        if (buffer) {
            const real b = a->first ? g : momentum * buffer[i] + g;
            buffer[i] = b;
            g = a->nesterov ? g + momentum * b : b;
        }
        put(job, i, w[i] - lr * g);
    }
}

static void sgd(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, sgd_range);
}

/* m += (1 - b1) (g - m), v = b2 v + (1 - b2) g^2,
 * w -= (lr / c1) (m / (sqrt(v) / sqrt(c2) + eps)); decoupled decay: w (1 - lr wd) first. */
static void adam_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    const real shrink = (real)(1 - a->lr * a->weight_decay);
    const real step = (real)(a->lr / a->correction1), root = (real)sqrt(a->correction2);
    const real blend = (real)(1 - a->beta1), beta2 = (real)a->beta2;
    const real rest = (real)(1 - a->beta2), eps = (real)a->eps;
    const real *weight = job->ptr[0];
    real *m = job->ptr[4], *v = job->ptr[5];
    const real *grad = job->ptr[1];
    for (int64_t i = begin; i < end; i++) {
        const real w = a->decoupled ? weight[i] * shrink : weight[i];
        const real g = a->decoupled ? (real)job->scale * grad[i] : decayed(job, grad[i], w);
        m[i] = m[i] + blend * (g - m[i]);
        v[i] = beta2 * v[i] + rest * (g * g);
        put(job, i, w - step * (m[i] / (real_sqrt(v[i]) / root + eps)));
    }
}

static void adam(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, adam_range);
}

/* v = alpha v + (1 - alpha) g^2, q = g / (sqrt(v) + eps); w -= lr q, or with momentum
 * b = momentum b + q, w -= lr b. */
static void rmsprop_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    const real lr = (real)a->lr, alpha = (real)a->beta2, rest = (real)(1 - a->beta2);
    const real momentum = (real)a->momentum, eps = (real)a->eps;
    const real *w = job->ptr[0];
    real *v = job->ptr[4], *buffer = job->ptr[5];
    const real *grad = job->ptr[1];
    for (int64_t i = begin; i < end; i++) {
        const real g = decayed(job, grad[i], w[i]);
        v[i] = alpha * v[i] + rest * (g * g);
        real q = g / (real_sqrt(v[i]) + eps);
        if (buffer) q = buffer[i] = momentum * buffer[i] + q;
        put(job, i, w[i] - lr * q);
    }
}

static void rmsprop(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, rmsprop_range);
}

/* v = rho v + (1 - rho) g^2, d = (sqrt(u + eps) / sqrt(v + eps)) g,
 * u = rho u + (1 - rho) d^2, w -= lr d. */
static void adadelta_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    const real lr = (real)a->lr, rho = (real)a->beta2, rest = (real)(1 - a->beta2);
    const real eps = (real)a->eps;
    const real *w = job->ptr[0];
    real *v = job->ptr[4], *u = job->ptr[5];
    const real *grad = job->ptr[1];
    for (int64_t i = begin; i < end; i++) {
        const real g = decayed(job, grad[i], w[i]);
        v[i] = rho * v[i] + rest * (g * g);
        const real d = (real_sqrt(u[i] + eps) / real_sqrt(v[i] + eps)) * g;
        u[i] = rho * u[i] + rest * (d * d);
        put(job, i, w[i] - lr * d);
    }
}

static void adadelta(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, adadelta_range);
}

/* ---- the gate --------------------------------------------------------------------- */

static void step_gate(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_step_gate_args *a = args;
    fv_step_block *block = ptr[0];
    const bool fault = exec->fault && atomic_load(&exec->fault->set) != 0;
    block->norm = sqrt(block->sumsq);
    const bool finite = isfinite(block->norm) && isfinite(block->loss);
    const bool clips = a->clip_norm > 0 && block->norm > a->clip_norm;
    block->scale = clips ? a->clip_norm / block->norm : 1.0;
    block->fault = fault ? 1 : 0;
    block->open = !fault && (finite || a->unchecked) ? 1 : 0;
}

/* ---- sum of squares ------------------------------------------------------------- */

enum { BLOCK = 4096 };

static int64_t sumsq_blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

static size_t sumsq_scratch(const void *args, int threads)
{
    (void)threads;
    return (size_t)sumsq_blocks(((const fv_optim_args *)args)->n) * sizeof(double);
}

typedef struct sumsq_job {
    int64_t n;
    const real *x;
    double *block;
} sumsq_job;

static void sumsq_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const sumsq_job *job = arg;
    for (int64_t b = begin; b < end; b++) {
        const int64_t start = b * BLOCK;
        const int64_t count = job->n - start < BLOCK ? job->n - start : BLOCK;
        double acc[FV_LANES] = {0};
        for (int64_t i = 0; i < count; i++) {
            const double x = (double)job->x[start + i];
            acc[i % FV_LANES] += x * x;
        }
        for (int w = FV_LANES / 2; w; w /= 2)
            for (int i = 0; i < w; i++)
                acc[i] += acc[i + w];
        job->block[b] = acc[0];
    }
}

/* Any thread may sum a block; the block sums are added in order, so the bits are the same. */
static void sumsq(const fv_exec *exec, void *const *ptr, const void *args)
{
    const sumsq_job job = {((const fv_optim_args *)args)->n, ptr[1], exec->scratch};
    const int64_t blocks = sumsq_blocks(job.n);
    fv_exec_rows(exec, blocks, BLOCK, sumsq_range, &job);
    double total = 0;
    for (int64_t b = 0; b < blocks; b++)
        total += job.block[b];
    *(double *)ptr[0] += total;
}

void FV_NAME(fv_ref_optim_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SGD][FV_REAL_DTYPE] = sgd;
    t->fn[FV_KERNEL_ADAM][FV_REAL_DTYPE] = adam;
    t->fn[FV_KERNEL_RMSPROP][FV_REAL_DTYPE] = rmsprop;
    t->fn[FV_KERNEL_ADADELTA][FV_REAL_DTYPE] = adadelta;
    t->fn[FV_KERNEL_STEP_GATE][FV_REAL_DTYPE] = step_gate;
    t->fn[FV_KERNEL_SUMSQ][FV_REAL_DTYPE] = sumsq;
    t->scratch[FV_KERNEL_SUMSQ] = sumsq_scratch;
}
