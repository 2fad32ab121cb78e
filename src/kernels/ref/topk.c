/* Top-k and sampling from rows. */
#include "base/rng.h"
#include "kernels/ref/real.h"
#include "kernels/rows.h"

/* ---- top k ---------------------------------------------------------------------- */

/* The k kept so far are a heap in the output itself, the worst at its root, so that no scratch is
 * needed and a row costs cols log k. */
typedef struct heap {
    real *value;
    int64_t *index;
    int64_t size;
    bool smallest;
} heap;

/* Whether (a, ia) comes before (b, ib): a total order, NaN above every number, ties by index. */
static bool before(bool smallest, real a, int64_t ia, real b, int64_t ib)
{
    const bool a_nan = a != a, b_nan = b != b;
    const bool greater = a_nan ? !b_nan : a > b, less = b_nan ? !a_nan : a < b;
    if (greater || less) return smallest ? less : greater;
    return ia < ib;
}

static bool slot_before(const heap *h, int64_t i, int64_t j)
{
    return before(h->smallest, h->value[i], h->index[i], h->value[j], h->index[j]);
}

static void swap_slots(heap *h, int64_t i, int64_t j)
{
    const real value = h->value[i];
    const int64_t index = h->index[i];
    h->value[i] = h->value[j];
    h->index[i] = h->index[j];
    h->value[j] = value;
    h->index[j] = index;
}

/* Restores the heap below slot i, which may have become too good for its place. */
static void sift_down(heap *h, int64_t i)
{
    for (;;) {
        int64_t worst = i;
        for (int64_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->size; child++)
            if (slot_before(h, worst, child)) worst = child;
        if (worst == i) return;
        swap_slots(h, i, worst);
        i = worst;
    }
}

static void topk_row(real *value, int64_t *index, const real *x, int64_t cols, int64_t k,
                     bool smallest)
{
    heap h = {value, index, k < cols ? k : cols, smallest};
    if (h.size == 0) return;
    for (int64_t i = 0; i < h.size; i++) {
        value[i] = x[i];
        index[i] = i;
    }
    for (int64_t i = h.size / 2; i-- > 0;)
        sift_down(&h, i);
    for (int64_t i = h.size; i < cols; i++) {
        if (!before(smallest, x[i], i, value[0], index[0])) continue;
        value[0] = x[i];
        index[0] = i;
        sift_down(&h, 0);
    }
    while (h.size > 1) { /* the worst goes last, then the heap of the others */
        swap_slots(&h, 0, --h.size);
        sift_down(&h, 0);
    }
}

typedef struct topk_job {
    const fv_topk_args *args;
    void *const *ptr;
} topk_job;

static void topk_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const topk_job *job = arg;
    const fv_topk_args *a = job->args;
    for (int64_t row = begin; row < end; row++)
        topk_row((real *)job->ptr[0] + row * a->k, (int64_t *)job->ptr[1] + row * a->k,
                 (const real *)job->ptr[2] + row * a->cols, a->cols, a->k, a->smallest);
}

static void topk(const fv_exec *exec, void *const *ptr, const void *args)
{
    const topk_job job = {args, ptr};
    fv_exec_rows(exec, job.args->rows, 4 * job.args->cols, topk_range, &job);
}

/* ---- multinomial ---------------------------------------------------------------- */

typedef struct multinomial_job {
    const fv_exec *exec;
    const fv_multinomial_args *args;
    void *const *ptr;
} multinomial_job;

/* Sums run in double in index order; the total is the last of them, so that any u below 1 finds a
 * column. */
static int64_t pick(const real *weight, int64_t cols, double threshold)
{
    double sum = 0;
    int64_t j = 0;
    for (; j < cols - 1; j++) {
        sum += (double)weight[j];
        if (sum > threshold) break;
    }
    return j;
}

static void multinomial_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const multinomial_job *job = arg;
    const fv_multinomial_args *a = job->args;
    for (int64_t row = begin; row < end; row++) {
        const real *weight = (const real *)job->ptr[1] + row * a->cols;
        int64_t *out = (int64_t *)job->ptr[0] + row * a->samples;
        double total = 0;
        for (int64_t j = 0; j < a->cols; j++)
            total += (double)weight[j];
        const bool usable = total > 0 && isfinite(total);
        if (!usable) fv_fault_raise(job->exec->fault, row, 0);
        const uint64_t number = fv_draw_number(&a->draw, job->ptr[2], row);
        uint32_t word[4] = {0};
        for (int64_t s = 0; s < a->samples; s++) {
            if (s % 4 == 0) fv_rng_draw(a->draw.key, number, (uint64_t)s / 4, word);
            const double u = (double)fv_rng_unit(word[s % 4]);
            out[s] = usable ? pick(weight, a->cols, u * total) : 0;
        }
    }
}

static void multinomial(const fv_exec *exec, void *const *ptr, const void *args)
{
    const multinomial_job job = {exec, args, ptr};
    fv_exec_rows(exec, job.args->rows, (1 + job.args->samples) * job.args->cols, multinomial_range,
                 &job);
}

void FV_NAME(fv_ref_topk_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_TOPK][FV_REAL_DTYPE] = topk;
    t->fn[FV_KERNEL_MULTINOMIAL][FV_REAL_DTYPE] = multinomial;
}
