/* Fused optimizer steps, in the order of operations of ref/optim.c. */
#include "kernels/optim.h"

#include "kernels/simd/half_simd.h"
#include "kernels/simd/register.h"

typedef struct optim_job {
    const fv_optim_args *args;
    void *const *ptr;
    float scale;
} optim_job;

/* Work items are multiples of a cache line, so that threads share no line of an aligned tensor. */
enum { ITEM = 1024 };

static void run_step(const fv_exec *exec, void *const *ptr, const void *args, fv_range_fn fn)
{
    const fv_step_block *block = ptr[2];
    if (block->open == 0) return;
    const optim_job job = {args, ptr, (float)block->scale};
    const int64_t n = job.args->n;
    fv_exec_rows(exec, (n + ITEM - 1) / ITEM, n < ITEM ? n : ITEM, fn, &job);
}

/* Elements [start, start + n) of work items [begin, end). */
V_INLINE int64_t step_range(const fv_optim_args *a, int64_t begin, int64_t end, int64_t *start)
{
    *start = begin * ITEM;
    return (end * ITEM < a->n ? end * ITEM : a->n) - *start;
}

#define ARRAY(p) ((float *)job->ptr[p] ? (float *)job->ptr[p] + start : NULL)
#define AT(p)    v_load((p) + i, count)

/* The new weights from element `at` on, also as bf16 where there is a copy. */
V_INLINE void put(const optim_job *job, int64_t at, int count, vf w)
{
    v_store((float *)job->ptr[0] + at, count, w);
    if (job->ptr[3]) v_store_half(FV_BF16, (uint16_t *)job->ptr[3] + at, count, w);
}

/* The clipped gradient with L2 decay: scale g + wd w. */
V_INLINE vf decayed(const optim_job *job, vf g, vf w)
{
    const fv_optim_args *a = job->args;
    const vf scaled = v_mul(v_set(job->scale), g);
    if (a->weight_decay == 0) return scaled;
    return v_add(scaled, v_mul(v_set((float)a->weight_decay), w));
}

static void sgd_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    int64_t start;
    const int64_t n = step_range(a, begin, end, &start);
    const vf lr = v_set((float)a->lr), momentum = v_set((float)a->momentum);
    const float *w = ARRAY(0);
    float *buffer = ARRAY(4);
    const float *grad = ARRAY(1);
    V_LOOP(
        n, 0, const vf old = AT(w); vf g = decayed(job, AT(grad), old); if (buffer) {
            const vf b = a->first ? g : v_add(v_mul(momentum, AT(buffer)), g);
            v_store(buffer + i, count, b);
            g = a->nesterov ? v_add(g, v_mul(momentum, b)) : b;
        } put(job, start + i, count, v_sub(old, v_mul(lr, g))));
}

static void sgd(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, sgd_range);
}

static void adam_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    int64_t start;
    const int64_t n = step_range(a, begin, end, &start);
    const bool decoupled = a->decoupled;
    const vf shrink = v_set((float)(1 - a->lr * a->weight_decay)), scale = v_set(job->scale);
    const vf step = v_set((float)(a->lr / a->correction1));
    const vf root = v_set((float)sqrt(a->correction2));
    const vf blend = v_set((float)(1 - a->beta1)), beta2 = v_set((float)a->beta2);
    const vf rest = v_set((float)(1 - a->beta2)), eps = v_set((float)a->eps);
    const float *weight = ARRAY(0);
    float *m = ARRAY(4), *v = ARRAY(5);
    const float *grad = ARRAY(1);
    V_LOOP(n, 0, const vf old = AT(weight); const vf w = decoupled ? v_mul(old, shrink) : old;
           const vf g = decoupled ? v_mul(scale, AT(grad)) : decayed(job, AT(grad), w);
           const vf m_old = AT(m); const vf m_new = v_add(m_old, v_mul(blend, v_sub(g, m_old)));
           const vf v_new = v_add(v_mul(beta2, AT(v)), v_mul(rest, v_mul(g, g)));
           const vf deviation = v_add(v_div(v_sqrt(v_new), root), eps);
           v_store(m + i, count, m_new); v_store(v + i, count, v_new);
           put(job, start + i, count, v_sub(w, v_mul(step, v_div(m_new, deviation)))));
}

static void adam(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, adam_range);
}

static void rmsprop_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    int64_t start;
    const int64_t n = step_range(a, begin, end, &start);
    const vf lr = v_set((float)a->lr), alpha = v_set((float)a->beta2);
    const vf rest = v_set((float)(1 - a->beta2)), eps = v_set((float)a->eps);
    const vf momentum = v_set((float)a->momentum);
    const float *w = ARRAY(0);
    float *v = ARRAY(4), *buffer = ARRAY(5);
    const float *grad = ARRAY(1);
    V_LOOP(
        n, 0, const vf old = AT(w); const vf g = decayed(job, AT(grad), old);
        const vf v_new = v_add(v_mul(alpha, AT(v)), v_mul(rest, v_mul(g, g)));
        v_store(v + i, count, v_new); vf q = v_div(g, v_add(v_sqrt(v_new), eps)); if (buffer) {
            q = v_add(v_mul(momentum, AT(buffer)), q);
            v_store(buffer + i, count, q);
        } put(job, start + i, count, v_sub(old, v_mul(lr, q))));
}

static void rmsprop(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, rmsprop_range);
}

static void adadelta_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const optim_job *job = arg;
    const fv_optim_args *a = job->args;
    int64_t start;
    const int64_t n = step_range(a, begin, end, &start);
    const vf lr = v_set((float)a->lr), rho = v_set((float)a->beta2);
    const vf rest = v_set((float)(1 - a->beta2)), eps = v_set((float)a->eps);
    const float *w = ARRAY(0);
    float *v = ARRAY(4), *u = ARRAY(5);
    const float *grad = ARRAY(1);
    V_LOOP(n, 0, const vf old = AT(w); const vf g = decayed(job, AT(grad), old);
           const vf v_new = v_add(v_mul(rho, AT(v)), v_mul(rest, v_mul(g, g)));
           const vf u_old = AT(u);
           const vf ratio = v_div(v_sqrt(v_add(u_old, eps)), v_sqrt(v_add(v_new, eps)));
           const vf d = v_mul(ratio, g); v_store(v + i, count, v_new);
           v_store(u + i, count, v_add(v_mul(rho, u_old), v_mul(rest, v_mul(d, d))));
           put(job, start + i, count, v_sub(old, v_mul(lr, d))));
}

static void adadelta(const fv_exec *exec, void *const *ptr, const void *args)
{
    run_step(exec, ptr, args, adadelta_range);
}

/* ---- sum of squares --------------------------------------------------------------- */

enum { BLOCK = 4096 };

typedef struct sumsq_job {
    int64_t n;
    const float *x;
    double *block;
} sumsq_job;

/* The squares of up to BLOCK numbers, summed in sixteen double lanes. */
V_INLINE double sum_of_block(const float *x, int64_t n)
{
#if FV_SIMD_LEVEL == 1
    enum { PAIRS = 8 };
    float64x2_t acc[PAIRS];
    for (int p = 0; p < PAIRS; p++)
        acc[p] = vdupq_n_f64(0.0);
    V_LOOP(
        n, 0, const vf v = v_load(x + i, count); const float32x4_t four[4] = {v.a, v.b, v.c, v.d};
        for (int p = 0; p < PAIRS; p++) {
            const float64x2_t d =
                p % 2 ? vcvt_high_f64_f32(four[p / 2]) : vcvt_f64_f32(vget_low_f32(four[p / 2]));
            acc[p] = vaddq_f64(acc[p], vmulq_f64(d, d));
        });
    const float64x2_t low = vaddq_f64(vaddq_f64(acc[0], acc[4]), vaddq_f64(acc[2], acc[6]));
    const float64x2_t high = vaddq_f64(vaddq_f64(acc[1], acc[5]), vaddq_f64(acc[3], acc[7]));
    return vpaddd_f64(vaddq_f64(low, high));
#else
    enum { QUARTERS = 4 };
    __m256d acc[QUARTERS];
    for (int q = 0; q < QUARTERS; q++)
        acc[q] = _mm256_setzero_pd();
    V_LOOP(
        n, 0, const vf v = v_load(x + i, count); const __m256 half[2] = {v_low(v), v_high(v)};
        for (int q = 0; q < QUARTERS; q++) {
            const __m128 four =
                q % 2 ? _mm256_extractf128_ps(half[q / 2], 1) : _mm256_castps256_ps128(half[q / 2]);
            const __m256d d = _mm256_cvtps_pd(four);
            acc[q] = _mm256_add_pd(acc[q], _mm256_mul_pd(d, d));
        });
    const __m256d eight =
        _mm256_add_pd(_mm256_add_pd(acc[0], acc[2]), _mm256_add_pd(acc[1], acc[3]));
    double lane[4];
    _mm256_storeu_pd(lane, eight);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
#endif
}

static void sumsq_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const sumsq_job *job = arg;
    for (int64_t b = begin; b < end; b++) {
        const int64_t rest = job->n - b * BLOCK;
        job->block[b] = sum_of_block(job->x + b * BLOCK, rest < BLOCK ? rest : BLOCK);
    }
}

/* The scratch is that of the reference: one double per block. */
static void sumsq(const fv_exec *exec, void *const *ptr, const void *args)
{
    const sumsq_job job = {((const fv_optim_args *)args)->n, ptr[1], exec->scratch};
    const int64_t blocks = (job.n + BLOCK - 1) / BLOCK;
    fv_exec_rows(exec, blocks, BLOCK, sumsq_range, &job);
    double total = 0;
    for (int64_t b = 0; b < blocks; b++)
        total += job.block[b];
    *(double *)ptr[0] += total;
}

void fv_simd_optim_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_SGD][FV_F32] = sgd;
    t->fn[FV_KERNEL_ADAM][FV_F32] = adam;
    t->fn[FV_KERNEL_RMSPROP][FV_F32] = rmsprop;
    t->fn[FV_KERNEL_ADADELTA][FV_F32] = adadelta;
    t->fn[FV_KERNEL_SUMSQ][FV_F32] = sumsq;
}
