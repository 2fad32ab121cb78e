/*
 * Iterates over a broadcast shape in rows: the innermost axis in blocks, the outer axes as an
 * odometer. Work items are (row, block) pairs and independent, so the result is the same for any
 * division among threads.
 *
 *     static void row(const fv_walk *w, int64_t n, const int64_t *at)
 *     {
 *         float *y = (float *)w->ptr[0] + at[0];              // n elements, stride w->step[0]
 *         const float *x = (const float *)w->ptr[1] + at[1];
 *         for (int64_t i = 0; i < n; i++) y[i * w->step[0]] = -x[i * w->step[1]];
 *     }
 *     fv_walk_run(exec, args, ptr, 2, 1, row);                // 2 pointers, cost 1 per element
 */
#ifndef FV_KERNELS_WALK_H
#define FV_KERNELS_WALK_H

#include "kernels/elementwise.h"

enum { FV_WALK_BLOCK = 4096 };

typedef struct fv_walk fv_walk;

/* `at`: element offset of the row's start from each pointer. */
typedef void (*fv_walk_fn)(const fv_walk *w, int64_t n, const int64_t *at);

struct fv_walk {
    const fv_exec *exec;
    const fv_elementwise_args *args;
    void *const *ptr;
    int pointers;
    int64_t n, blocks; /* the innermost axis, and its number of blocks */
    int64_t step[4];   /* its stride for each pointer */
    fv_walk_fn fn;
};

/* Advances to the next row: increments the index of the outer axes and updates the offsets. */
static inline void fv_walk_advance(const fv_walk *w, int64_t *index, int64_t *base)
{
    const fv_elementwise_args *m = w->args;
    for (int axis = m->rank - 2; axis >= 0; axis--) {
        for (int p = 0; p < w->pointers; p++)
            base[p] += m->stride[p][axis];
        if (++index[axis] < m->shape[axis]) return;
        for (int p = 0; p < w->pointers; p++)
            base[p] -= m->stride[p][axis] * m->shape[axis];
        index[axis] = 0;
    }
}

static inline void fv_walk_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_walk *w = arg;
    const fv_elementwise_args *m = w->args;
    int64_t index[FV_MAX_RANK] = {0}, base[4] = {0};
    int64_t rest = begin / w->blocks, block = begin % w->blocks;
    for (int axis = m->rank - 2; axis >= 0; axis--) {
        index[axis] = rest % m->shape[axis];
        rest /= m->shape[axis];
        for (int p = 0; p < w->pointers; p++)
            base[p] += index[axis] * m->stride[p][axis];
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t start = block * FV_WALK_BLOCK;
        int64_t at[4] = {0};
        for (int p = 0; p < w->pointers; p++)
            at[p] = base[p] + start * w->step[p];
        w->fn(w, w->n - start < FV_WALK_BLOCK ? w->n - start : FV_WALK_BLOCK, at);
        if (++block == w->blocks) {
            block = 0;
            fv_walk_advance(w, index, base);
        }
    }
}

/* cost: rough number of operations per element. */
static inline void fv_walk_run(const fv_exec *exec, const fv_elementwise_args *args,
                               void *const *ptr, int pointers, int64_t cost, fv_walk_fn fn)
{
    fv_walk w = {.exec = exec, .args = args, .ptr = ptr, .pointers = pointers, .n = 1, .fn = fn};
    int64_t rows = 1;
    for (int axis = 0; axis < args->rank - 1; axis++)
        rows *= args->shape[axis];
    if (args->rank > 0) {
        w.n = args->shape[args->rank - 1];
        for (int p = 0; p < pointers; p++)
            w.step[p] = args->stride[p][args->rank - 1];
    }
    if (rows == 0 || w.n == 0) return;
    w.blocks = (w.n + FV_WALK_BLOCK - 1) / FV_WALK_BLOCK;
    const int64_t length = w.n < FV_WALK_BLOCK ? w.n : FV_WALK_BLOCK;
    fv_exec_rows(exec, rows * w.blocks, length * cost, fv_walk_range, &w);
}

#endif
