/*
 * COPY and FILL: any strides, any pair of dtypes. Copies without conversion move whole rows
 * where both sides are contiguous and small squares where one is the transpose of the other, so
 * that each cache line is read and written about once.
 */
#include <math.h>
#include <string.h>

#include "kernels/convert.h"
#include "kernels/register.h"
#include "kernels/walk.h"

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Sorts the axes by descending output stride: a copy may visit elements in any order, and writing
 * sequentially is cheapest. */
static void sort_axes(fv_elementwise_args *m)
{
    for (int i = 1; i < m->rank; i++) {
        for (int j = i; j > 0 && magnitude(m->stride[0][j]) > magnitude(m->stride[0][j - 1]); j--) {
            int64_t *lists[3] = {m->shape, m->stride[0], m->stride[1]};
            for (int k = 0; k < 3; k++) {
                const int64_t swap = lists[k][j];
                lists[k][j] = lists[k][j - 1];
                lists[k][j - 1] = swap;
            }
        }
    }
}

/* ---- same dtype ----------------------------------------------------------------- */

/* Strided copies of 1, 2, 4 or 8 bytes; memcpy of a constant size is one load or store. */
#define MOVE_LOOP(bytes)                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                \
    memcpy(out + i * so * (bytes), in + i * si * (bytes), (bytes))

static void move(size_t bytes, int64_t n, char *out, int64_t so, const char *in, int64_t si)
{
    switch (bytes) {
    case 1:
        MOVE_LOOP(1);
        break;
    case 2:
        MOVE_LOOP(2);
        break;
    case 4:
        MOVE_LOOP(4);
        break;
    default:
        MOVE_LOOP(8);
        break;
    }
}

static void move_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const int64_t bytes = (int64_t)fv_dtype_size(w->args->to);
    char *out = (char *)w->ptr[0] + at[0] * bytes;
    const char *in = (const char *)w->ptr[1] + at[1] * bytes;
    if (w->step[0] == 1 && w->step[1] == 1)
        memmove(out, in, (size_t)(n * bytes)); /* a copy onto itself is allowed */
    else
        move((size_t)bytes, n, out, w->step[0], in, w->step[1]);
}

/* The last two axes as squares: `row` has input stride 1, `col` output stride 1. */
enum { SQUARE = 32 };

typedef struct transpose {
    int64_t rows, cols; /* extents of the two */
    int64_t out_row, in_col;
    int64_t col_squares;
    int64_t bytes;
} transpose;

static void transpose_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const transpose *t = (const transpose *)w->ptr[2];
    for (int64_t s = 0; s < n; s++) {
        const int64_t square = at[2] + s;
        const int64_t row = square / t->col_squares * SQUARE;
        const int64_t col = square % t->col_squares * SQUARE;
        const int64_t row_end = row + SQUARE < t->rows ? row + SQUARE : t->rows;
        const int64_t width = col + SQUARE < t->cols ? SQUARE : t->cols - col;
        /* Through a local buffer: both sides are accessed in contiguous runs only, and power-of-two
         * strides cannot overload one cache set. */
        char local[SQUARE * SQUARE * 8];
        const int64_t height = row_end - row;
        for (int64_t c = 0; c < width; c++)
            memcpy(local + c * SQUARE * t->bytes,
                   (const char *)w->ptr[1] + (at[1] + row + (col + c) * t->in_col) * t->bytes,
                   (size_t)(height * t->bytes));
        for (int64_t r = 0; r < height; r++)
            move((size_t)t->bytes, width,
                 (char *)w->ptr[0] + (at[0] + (row + r) * t->out_row + col) * t->bytes, 1,
                 local + r * t->bytes, SQUARE);
    }
}

/* Moves axis `row` to the second last place and iterates over the axes before it, squares
 * innermost. */
static void copy_transposed(const fv_exec *exec, void *const *ptr, const fv_elementwise_args *m,
                            int row)
{
    const int last = m->rank - 1;
    transpose t = {.rows = m->shape[row],
                   .cols = m->shape[last],
                   .out_row = m->stride[0][row],
                   .in_col = m->stride[1][last],
                   .col_squares = (m->shape[last] + SQUARE - 1) / SQUARE,
                   .bytes = (int64_t)fv_dtype_size(m->to)};
    fv_elementwise_args outer = {.to = m->to, .from = m->from};
    for (int axis = 0; axis < last; axis++) {
        if (axis == row) continue;
        outer.shape[outer.rank] = m->shape[axis];
        outer.stride[0][outer.rank] = m->stride[0][axis];
        outer.stride[1][outer.rank++] = m->stride[1][axis];
    }
    outer.shape[outer.rank] = (t.rows + SQUARE - 1) / SQUARE * t.col_squares;
    outer.stride[2][outer.rank++] = 1; /* the third "pointer" counts squares */
    void *const with_args[3] = {ptr[0], ptr[1], &t};
    fv_walk_run(exec, &outer, with_args, 3, SQUARE * SQUARE, transpose_row);
}

static void copy_same(const fv_exec *exec, void *const *ptr, const fv_elementwise_args *m)
{
    const int last = m->rank - 1;
    if (last > 0 && m->stride[0][last] == 1 && m->stride[1][last] != 1) {
        for (int axis = 0; axis < last; axis++) {
            if (m->stride[1][axis] == 1 && m->shape[axis] >= 4) {
                copy_transposed(exec, ptr, m, axis);
                return;
            }
        }
    }
    fv_walk_run(exec, m, ptr, 2, 1, move_row);
}

/* ---- conversion ----------------------------------------------------------------- */

static void convert_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const fv_elementwise_args *m = w->args;
    void *out = (char *)w->ptr[0] + at[0] * (int64_t)fv_dtype_size(m->to);
    const void *in = (const char *)w->ptr[1] + at[1] * (int64_t)fv_dtype_size(m->from);
    const bool dense = w->step[0] == 1 && w->step[1] == 1;
    if (dense && m->to == FV_F32 && m->from == FV_BF16)
        w->exec->table->widen(n, in, out);
    else if (dense && m->to == FV_BF16 && m->from == FV_F32)
        w->exec->table->narrow(n, in, out);
    else
        fv_convert(n, m->to, out, w->step[0], m->from, in, w->step[1]);
}

static void copy(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_elementwise_args m = *(const fv_elementwise_args *)args;
    for (int axis = 0; axis < m.rank; axis++)
        if (m.shape[axis] == 0) return;
    sort_axes(&m);
    if (m.to == m.from)
        copy_same(exec, ptr, &m);
    else
        fv_walk_run(exec, &m, ptr, 2, 4, convert_row);
}

/* ---- fill ----------------------------------------------------------------------- */

static void fill_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    const fv_dtype to = w->args->to;
    const int64_t bytes = (int64_t)fv_dtype_size(to);
    char *out = (char *)w->ptr[0] + at[0] * bytes;
    char value[8];
    fv_convert(1, to, value, 1, FV_F64, &w->args->alpha, 1);
    if (w->step[0] == 1 && w->args->alpha == 0 && !signbit(w->args->alpha))
        memset(out, 0, (size_t)(n * bytes));
    else
        move((size_t)bytes, n, out, w->step[0], value, 0);
}

static void fill(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_walk_run(exec, args, ptr, 1, 1, fill_row);
}

void fv_copy_register(fv_kernel_table *t)
{
    for (int dtype = 0; dtype < FV_DTYPE_COUNT; dtype++) {
        t->fn[FV_KERNEL_COPY][dtype] = copy;
        t->fn[FV_KERNEL_FILL][dtype] = fill;
    }
}
