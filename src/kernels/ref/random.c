/* Random kernels. Each element can be computed alone, so work items are blocks of columns of a
 * row. */
#include "kernels/random.h"

#include "base/rng.h"
#include "kernels/ref/real.h"

enum { BLOCK = 1024 }; /* columns per work item; a multiple of the four words of a draw */

static int64_t blocks_of(int64_t cols) { return (cols + BLOCK - 1) / BLOCK; }

/* ---- dropout -------------------------------------------------------------------- */

typedef struct dropout_job {
    const fv_dropout_args *args;
    real *y;
    const real *x;
    const int64_t *numbers;
} dropout_job;

static void dropout_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const dropout_job *job = arg;
    const fv_dropout_args *a = job->args;
    const int64_t blocks = blocks_of(a->cols);
    const real keep = (real)(1 - a->p);
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / blocks, start = item % blocks * BLOCK;
        const int64_t stop = start + BLOCK < a->cols ? start + BLOCK : a->cols;
        real *y = job->y + row * a->cols;
        const real *x = job->x + row * a->cols;
        const uint64_t number = fv_draw_number(&a->draw, job->numbers, row);
        uint32_t word[4] = {0};
        for (int64_t col = start; col < stop; col++) {
            if (col % 4 == 0) fv_rng_draw(a->draw.key, number, (uint64_t)col / 4, word);
            y[col] = (double)fv_rng_unit(word[col % 4]) >= a->p ? x[col] / keep : 0;
        }
    }
}

static void dropout(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_dropout_args *a = args;
    const dropout_job job = {.args = a, .y = ptr[0], .x = ptr[1], .numbers = ptr[2]};
    const int64_t width = a->cols < BLOCK ? a->cols : BLOCK;
    fv_exec_rows(exec, a->rows * blocks_of(a->cols), 8 * width, dropout_range, &job);
}

/* ---- random numbers ----------------------------------------------------------------- */

typedef struct random_job {
    const fv_random_args *args;
    real *out;
    const int64_t *numbers;
} random_job;

/* Four numbers of mean 0 and deviation 1 from four words. 1 - u is in (0, 1], so the logarithm
 * is finite. */
static void normal_four(const uint32_t word[4], double out[4])
{
    for (int pair = 0; pair < 4; pair += 2) {
        const double radius = sqrt(-2 * log(1 - (double)fv_rng_unit(word[pair])));
        const double angle = 6.28318530717958647692 * (double)fv_rng_unit(word[pair + 1]);
        out[pair] = radius * cos(angle);
        out[pair + 1] = radius * sin(angle);
    }
}

static void random_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const random_job *job = arg;
    const fv_random_args *a = job->args;
    const int64_t blocks = blocks_of(a->cols);
    const double lo = a->lo, width = a->normal ? a->hi : a->hi - a->lo;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / blocks, start = item % blocks * BLOCK;
        const int64_t stop = start + BLOCK < a->cols ? start + BLOCK : a->cols;
        real *out = job->out + row * a->cols;
        const uint64_t number = fv_draw_number(&a->draw, job->numbers, row);
        double value[4] = {0};
        for (int64_t col = start; col < stop; col++) {
            if (col % 4 == 0) {
                uint32_t word[4];
                fv_rng_draw(a->draw.key, number, (uint64_t)col / 4, word);
                if (a->normal)
                    normal_four(word, value);
                else
                    for (int i = 0; i < 4; i++)
                        value[i] = (double)fv_rng_unit(word[i]);
            }
            out[col] = (real)(lo + width * value[col % 4]);
        }
    }
}

static void random_numbers(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_random_args *a = args;
    const random_job job = {.args = a, .out = ptr[0], .numbers = ptr[1]};
    const int64_t width = a->cols < BLOCK ? a->cols : BLOCK;
    fv_exec_rows(exec, a->rows * blocks_of(a->cols), 16 * width, random_range, &job);
}

void FV_NAME(fv_ref_random_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_DROPOUT][FV_REAL_DTYPE] = dropout;
    t->fn[FV_KERNEL_RANDOM][FV_REAL_DTYPE] = random_numbers;
}
