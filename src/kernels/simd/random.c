/* Dropout with sixteen Philox generators in parallel. */
#include "kernels/random.h"

#include "kernels/simd/philox.h"
#include "kernels/simd/register.h"

enum { BLOCK = 1024, DRAW = FV_PHILOX_DRAW }; /* columns per work item, and per draw */

typedef struct dropout_job {
    const fv_dropout_args *args;
    float *y;
    const float *x;
    const int64_t *numbers;
    int64_t blocks;   /* work items per row */
    uint32_t minimum; /* smallest 24-bit number that is kept */
} dropout_job;

static void dropout_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const dropout_job *job = arg;
    const fv_dropout_args *a = job->args;
    const vf divisor = v_set((float)(1 - a->p)), threshold = vi_to_float(vi_set(job->minimum));
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / job->blocks, start = item % job->blocks * BLOCK;
        const int64_t stop = start + BLOCK < a->cols ? start + BLOCK : a->cols;
        const uint64_t number = fv_draw_number(&a->draw, job->numbers, row);
        for (int64_t col = start; col < stop; col += DRAW) {
            const float *x = job->x + row * a->cols + col;
            float *y = job->y + row * a->cols + col;
            const int64_t width = stop - col < DRAW ? stop - col : DRAW;
            vi word[4];
            fv_philox_draw(a->draw.key, number, (uint64_t)col / 4, word);
            V_LOOP(width, 0, const vm kept = fv_philox_kept(word[i / FV_LANES], threshold);
                   const vf scaled = v_div(v_load(x + i, count), divisor);
                   v_store(y + i, count, v_select(kept, scaled, v_zero())));
        }
    }
}

static void dropout(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_dropout_args *a = args;
    const dropout_job job = {.args = a,
                             .y = ptr[0],
                             .x = ptr[1],
                             .numbers = ptr[2],
                             .blocks = (a->cols + BLOCK - 1) / BLOCK,
                             .minimum = fv_philox_threshold(a->p)};
    const int64_t width = a->cols < BLOCK ? a->cols : BLOCK;
    fv_exec_rows(exec, a->rows * job.blocks, 2 * width + 16, dropout_range, &job);
}

void fv_simd_random_register(fv_kernel_table *t) { t->fn[FV_KERNEL_DROPOUT][FV_F32] = dropout; }
