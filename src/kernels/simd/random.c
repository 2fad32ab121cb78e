/*
 * Dropout with sixteen Philox generators side by side (base/rng.h defines the numbers). Sixteen
 * blocks give 64 words; lane l takes block 4 (l mod 4) + l / 4, so that transposing the words
 * within quarters of a register puts them in the order of the columns.
 */
#include "kernels/random.h"

#include "base/rng.h"
#include "kernels/simd/fill.h"

enum { BLOCK = 1024, DRAW = 4 * FV_LANES }; /* columns a unit; columns a call of draw() */

typedef struct dropout_job {
    const fv_dropout_args *args;
    float *y;
    const float *x;
    int64_t blocks;   /* units of a row */
    uint32_t minimum; /* smallest 24-bit number that is kept */
} dropout_job;

/* The words of columns [64 k, 64 k + 64), k = block / 16, of a row. */
V_INLINE void draw(uint64_t key, uint64_t row, uint64_t block, vi word[4])
{
    const vi lane = vi_count();
    const vi order = vi_add(vi_shl(vi_and(lane, vi_set(3)), 2), vi_shr(lane, 2));
    vi c0 = vi_set((uint32_t)row), c1 = vi_set((uint32_t)(row >> 32));
    vi c2 = vi_add(vi_set((uint32_t)block), order), c3 = vi_set((uint32_t)(block >> 32));
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        vi high0, low0, high1, low1;
        vi_mul_wide(c0, vi_set(0xd2511f53u), &high0, &low0);
        vi_mul_wide(c2, vi_set(0xcd9e8d57u), &high1, &low1);
        c0 = vi_xor(vi_xor(high1, c1), vi_set(k0));
        c1 = low1;
        c2 = vi_xor(vi_xor(high0, c3), vi_set(k1));
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
    vi_transpose4(word);
}

static void dropout_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const dropout_job *job = arg;
    const fv_dropout_args *a = job->args;
    const vf divisor = v_set((float)(1 - a->p)), least = vi_to_float(vi_set(job->minimum));
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t row = unit / job->blocks, start = unit % job->blocks * BLOCK;
        const int64_t stop = start + BLOCK < a->cols ? start + BLOCK : a->cols;
        for (int64_t col = start; col < stop; col += DRAW) {
            const float *x = job->x + row * a->cols + col;
            float *y = job->y + row * a->cols + col;
            const int64_t width = stop - col < DRAW ? stop - col : DRAW;
            vi word[4];
            draw(a->key, a->row_offset + (uint64_t)row, (uint64_t)col / 4, word);
            V_LOOP(width, 0, const vf number = vi_to_float(vi_shr(word[i / FV_LANES], 8));
                   const vf kept = v_div(v_load(x + i, count), divisor);
                   v_store(y + i, count, v_select(v_ge(number, least), kept, v_zero())));
        }
    }
}

static void dropout(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_dropout_args *a = args;
    /* unit(word) >= p: both sides times 2^24, where the left one is a whole number. */
    const double bound = ceil(a->p * 0x1p24);
    const dropout_job job = {.args = a,
                             .y = ptr[0],
                             .x = ptr[1],
                             .blocks = (a->cols + BLOCK - 1) / BLOCK,
                             .minimum =
                                 bound <= 0x1p24 ? (uint32_t)(bound > 0 ? bound : 0) : 1u << 24};
    const int64_t width = a->cols < BLOCK ? a->cols : BLOCK;
    fv_exec_rows(exec, a->rows * job.blocks, 2 * width + 16, dropout_range, &job);
}

void FV_SIMD_NAME(fv_simd_random_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_DROPOUT][FV_F32] = dropout;
}
