/*
 * Reductions with a memory layout that vectors can use: each output over a contiguous run (rows),
 * or sums of adjacent outputs in parallel (columns). The reference handles everything else.
 */
#include "kernels/reduce.h"

#include "kernels/simd/register.h"
#include "kernels/simd/row_reduce.h"

/* Builds a table of the reference kernels, because the context's table holds this file's. */
static void run_reference(fv_kernel_id id, const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_kernel_table table;
    fv_ref_reduce_register_f32(&table);
    table.fn[id][FV_F32](exec, ptr, args);
}

typedef struct reduction {
    const fv_reduce_args *args;
    void *const *ptr;     /* see kernels/reduce.h */
    int64_t total;        /* elements reduced into one output */
    int64_t inner, tiles; /* columns: the innermost output axis, in tiles */
} reduction;

static int64_t product(const int64_t *shape, int rank)
{
    int64_t n = 1;
    for (int axis = 0; axis < rank; axis++)
        n *= shape[axis];
    return n;
}

/* Whether the reduced axes are one contiguous run of memory. */
static bool reduced_axes_are_contiguous(const fv_reduce_args *a)
{
    int64_t step = 1;
    for (int axis = a->red_rank - 1; axis >= 0; axis--) {
        if (a->red_shape[axis] != 1 && a->red_stride[axis] != step) return false;
        step *= a->red_shape[axis];
    }
    return true;
}

/* Offset in the input of output number o of the first `rank` output axes. */
static int64_t output_offset(const fv_reduce_args *a, int rank, int64_t o)
{
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; axis--) {
        offset += o % a->out_shape[axis] * a->out_stride[axis];
        o /= a->out_shape[axis];
    }
    return offset;
}

/* ---- rows ------------------------------------------------------------------------- */

/* The first element equal to `value`, or the first NaN if it is NaN; n if there is none. */
static int64_t find_first(const float *x, int64_t n, float value)
{
    const vf wanted = v_set(value);
    const bool nan = isnan(value);
    V_LOOP(n, 0, const vf v = v_load(x + i, count);
           const vm same = vm_and(nan ? v_nan(v) : v_eq(v, wanted), v_first(count));
           if (vm_bits(same)) return i + __builtin_ctz(vm_bits(same)));
    return n;
}

/* The extreme value and its first index. Zeros of either sign count as equal. */
static float extreme(const float *x, int64_t n, bool minimum, int64_t *where)
{
    const vf worst = v_set(minimum ? INFINITY : -INFINITY);
    vf best = worst;
    vm nan = vm_none();
    V_LOOP(n, 0, const vf v = v_keep(count, v_load(x + i, count), worst);
           nan = vm_or(nan, v_nan(v)); best = minimum ? v_min(v, best) : v_max(v, best));
    float value = minimum ? v_reduce_min(best) : v_reduce_max(best);
    if (vm_bits(nan)) value = NAN;
    *where = find_first(x, n, value);
    if (*where == n) {
        *where = 0;
        return value;
    }
    return x[*where];
}

static void reduce_row(const reduction *d, const float *x, int64_t o)
{
    float *out = d->ptr[FV_REDUCE_OUT], value = 0;
    int64_t *index = d->ptr[FV_REDUCE_INDEX], where = -1;
    const int64_t n = d->total;
    switch ((fv_reduce)d->args->op) {
    case FV_REDUCE_SUM:
        V_SUM(value, n, v_load(x + i, count));
        value *= (float)d->args->alpha;
        break;
    case FV_REDUCE_NORM:
        V_SUM(value, n, v_mul(v_load(x + i, count), v_load(x + i, count)));
        value = sqrtf(value);
        break;
    case FV_REDUCE_LOGSUMEXP:
        value = v_row_log_sum_exp(x, n);
        break;
    case FV_REDUCE_MAX:
    case FV_REDUCE_ARGMAX:
        value = extreme(x, n, false, &where);
        break;
    case FV_REDUCE_MIN:
    case FV_REDUCE_ARGMIN:
        value = extreme(x, n, true, &where);
        break;
    case FV_REDUCE_KINDS:
        return;
    }
    if (out) out[o] = value;
    if (index && where >= 0) index[o] = where;
}

static void rows_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduction *d = arg;
    for (int64_t o = begin; o < end; o++)
        reduce_row(
            d, (const float *)d->ptr[FV_REDUCE_IN] + output_offset(d->args, d->args->out_rank, o),
            o);
}

/* ---- columns ---------------------------------------------------------------------- */

enum { TILE_VECS = 4, TILE = TILE_VECS * FV_LANES, AHEAD = 32 };

/* Reduces `width` adjacent outputs at once. Reduced element r of all of them is one row of memory;
 * it is added to accumulator r % FV_LANES, so that the sum has the order of the reference. V_LOOP
 * (simd.h) declares i and count. */
static void columns_tile(const reduction *d, const float *x, int64_t width, float *out)
{
    const fv_reduce_args *a = d->args;
    const bool square = a->op == FV_REDUCE_NORM;
    const vf alpha = v_set((float)a->alpha);
    vf acc[FV_LANES][TILE_VECS];
    for (int k = 0; k < FV_LANES; k++)
        for (int j = 0; j < TILE_VECS; j++)
            acc[k][j] = v_zero();
    const int last = a->red_rank - 1;
    int64_t index[FV_MAX_RANK] = {0}, offset = 0;
    for (int64_t r = 0; r < d->total; r++) {
        vf *lane = acc[r % FV_LANES];
        const float *row = x + offset;
        /* Rows are far apart: the hardware prefetcher does not follow them. */
        if (last >= 0 && index[last] + AHEAD < a->red_shape[last])
            for (int64_t i = 0; i < width; i += FV_LANES)
                fv_prefetch_l2(row + AHEAD * a->red_stride[last] + i);
        V_LOOP(width, 0, const vf v = v_load(row + i, count);
               lane[i / FV_LANES] = v_add(lane[i / FV_LANES], square ? v_mul(v, v) : v));
        for (int axis = last; axis >= 0; axis--) { /* advance to the next row */
            offset += a->red_stride[axis];
            if (++index[axis] < a->red_shape[axis]) break;
            offset -= a->red_stride[axis] * a->red_shape[axis];
            index[axis] = 0;
        }
    }
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int k = 0; k < w; k++)
            for (int j = 0; j < TILE_VECS; j++)
                acc[k][j] = v_add(acc[k][j], acc[k + w][j]);
    V_LOOP(width, 0, const vf sum = acc[0][i / FV_LANES];
           v_store(out + i, count, square ? v_sqrt(sum) : v_mul(sum, alpha)));
}

static void columns_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduction *d = arg;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / d->tiles, start = item % d->tiles * TILE;
        const int64_t offset = output_offset(d->args, d->args->out_rank - 1, row) + start;
        columns_tile(d, (const float *)d->ptr[FV_REDUCE_IN] + offset,
                     d->inner - start < TILE ? d->inner - start : TILE,
                     (float *)d->ptr[FV_REDUCE_OUT] + row * d->inner + start);
    }
}

static void reduce(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_reduce_args *a = args;
    reduction d = {.args = a, .ptr = ptr, .total = product(a->red_shape, a->red_rank)};
    const int last = a->out_rank - 1;
    const bool sums = a->op == FV_REDUCE_SUM || a->op == FV_REDUCE_NORM;
    if (reduced_axes_are_contiguous(a)) {
        fv_exec_rows(exec, product(a->out_shape, a->out_rank), d.total + FV_LANES, rows_range, &d);
    } else if (sums && last >= 0 && a->out_stride[last] == 1) {
        d.inner = a->out_shape[last];
        d.tiles = (d.inner + TILE - 1) / TILE;
        fv_exec_rows(exec, product(a->out_shape, last) * d.tiles, TILE * (d.total + FV_LANES),
                     columns_range, &d);
    } else {
        run_reference(FV_KERNEL_REDUCE, exec, ptr, args);
    }
}

/* ---- backward --------------------------------------------------------------------- */

static void rows_grad_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduction *d = arg;
    const int64_t n = d->total;
    for (int64_t o = begin; o < end; o++) {
        const int64_t offset = output_offset(d->args, d->args->out_rank, o);
        float *dx = (float *)d->ptr[FV_REDUCE_GRAD_DX] + offset;
        const float *x =
            d->ptr[FV_REDUCE_GRAD_X] ? (const float *)d->ptr[FV_REDUCE_GRAD_X] + offset : NULL;
        const vf g = v_set(((const float *)d->ptr[FV_REDUCE_GRAD_G])[o]);
        if (d->args->op == FV_REDUCE_SUM) {
            const vf all = v_mul(v_set((float)d->args->alpha), g);
            V_LOOP(n, 0, v_store(dx + i, count, all));
            continue;
        }
        const float value = ((const float *)d->ptr[FV_REDUCE_GRAD_Y])[o];
        const vf y = v_set(value);
        if (value == (d->args->op == FV_REDUCE_NORM ? 0.0f : -INFINITY))
            V_LOOP(n, 0, v_store(dx + i, count, v_zero())); /* the norm is 0, or every x is -inf */
        else if (d->args->op == FV_REDUCE_NORM)
            V_LOOP(n, 0, v_store(dx + i, count, v_mul(g, v_div(v_load(x + i, count), y))));
        else
            V_LOOP(n, 0, v_store(dx + i, count, v_mul(g, v_exp(v_sub(v_load(x + i, count), y)))));
    }
}

static void reduce_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_reduce_args *a = args;
    const bool picks_one_element = a->op == FV_REDUCE_MAX || a->op == FV_REDUCE_MIN;
    if (picks_one_element || !reduced_axes_are_contiguous(a)) {
        run_reference(FV_KERNEL_REDUCE_GRAD, exec, ptr, args);
        return;
    }
    const reduction d = {.args = a, .ptr = ptr, .total = product(a->red_shape, a->red_rank)};
    fv_exec_rows(exec, product(a->out_shape, a->out_rank), d.total + FV_LANES, rows_grad_range, &d);
}

void fv_simd_reduce_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_REDUCE][FV_F32] = reduce;
    t->fn[FV_KERNEL_REDUCE_GRAD][FV_F32] = reduce_grad;
}
