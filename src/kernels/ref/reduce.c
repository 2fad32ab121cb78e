/*
 * Reductions. Outputs are processed in tiles of adjacent ones: if the output's innermost axis is
 * contiguous in the input and the reduced one is not (column sums), a tile reads whole cache lines;
 * otherwise a tile is one output. Lanes and order belong to each output alone, so tiling does not
 * affect the bits.
 */
#include "kernels/reduce.h"

#include <string.h>

#include "kernels/ref/composite.h"
#include "kernels/walk.h"

enum { TILE = 32 };

typedef struct reduction {
    const fv_reduce_args *args;
    real *out;
    int64_t *index;
    const real *in;
    int64_t inner, inner_stride; /* the output's innermost axis */
    int64_t tile, tiles;         /* outputs per tile, tiles along that axis */
    int64_t total;               /* elements reduced into one output */
    int64_t span, span_stride;   /* the innermost reduced axis */
} reduction;

/* A run along the innermost reduced axis: elements r .. r + span - 1 start at `offset`. */
typedef struct run {
    int64_t r, offset;
    int64_t index[FV_MAX_RANK];
} run;

static void next_run(const reduction *d, run *at)
{
    const fv_reduce_args *a = d->args;
    at->r += d->span;
    for (int axis = a->red_rank - 2; axis >= 0; axis--) {
        at->offset += a->red_stride[axis];
        if (++at->index[axis] < a->red_shape[axis]) return;
        at->offset -= a->red_stride[axis] * a->red_shape[axis];
        at->index[axis] = 0;
    }
}

/* ---- sums in lanes -------------------------------------------------------------- */

typedef real (*term_fn)(real x, real shift);

static inline real term_self(real x, real shift)
{
    (void)shift;
    return x;
}

static inline real term_square(real x, real shift)
{
    (void)shift;
    return x * x;
}

static inline real term_exp(real x, real shift) { return real_exp(x - shift); }

/* sum[c] = the lane sum of term(x, shift[c]) for the outputs c < count of a tile. */
static inline void lane_sum(const reduction *d, const real *in, int64_t count, term_fn term,
                            const real *shift, real *sum)
{
    real acc[FV_LANES][TILE];
    memset(acc, 0, sizeof acc);
    for (run at = {0}; at.r < d->total; next_run(d, &at)) {
        for (int64_t i = 0; i < d->span; i++) {
            real *lane = acc[(at.r + i) % FV_LANES];
            const real *x = in + at.offset + i * d->span_stride;
            for (int64_t c = 0; c < count; c++)
                lane[c] += term(x[c * d->inner_stride], shift[c]);
        }
    }
    for (int w = FV_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            for (int64_t c = 0; c < count; c++)
                acc[i][c] += acc[i + w][c];
    memcpy(sum, acc[0], (size_t)count * sizeof *sum);
}

/* ---- extremes ------------------------------------------------------------------- */

/* best[c] and the first r that holds it. A NaN beats every number; the first NaN stays. */
static inline void extreme(const reduction *d, const real *in, int64_t count, bool least,
                           real *best, int64_t *where)
{
    for (int64_t c = 0; c < count; c++) {
        best[c] = least ? (real)INFINITY : (real)-INFINITY;
        where[c] = 0;
    }
    for (run at = {0}; at.r < d->total; next_run(d, &at)) {
        for (int64_t i = 0; i < d->span; i++) {
            const real *x = in + at.offset + i * d->span_stride;
            for (int64_t c = 0; c < count; c++) {
                const real v = x[c * d->inner_stride];
                const bool better = least ? v < best[c] : v > best[c];
                if (better || (v != v && best[c] == best[c])) {
                    best[c] = v;
                    where[c] = at.r + i;
                }
            }
        }
    }
}

/* ---- one tile ------------------------------------------------------------------- */

static void log_sum_exp(const reduction *d, const real *in, int64_t count, real *out)
{
    real max[TILE], shift[TILE], sum[TILE];
    int64_t where[TILE];
    extreme(d, in, count, false, max, where);
    for (int64_t c = 0; c < count; c++) /* infinities must not be subtracted from themselves */
        shift[c] = isinf(max[c]) ? 0 : max[c];
    lane_sum(d, in, count, term_exp, shift, sum);
    for (int64_t c = 0; c < count; c++)
        out[c] = isinf(max[c]) ? max[c] : max[c] + real_log(sum[c]);
}

static void reduce_tile(const reduction *d, int64_t o, const real *in, int64_t count)
{
    static const real no_shift[TILE] = {0};
    real value[TILE];
    int64_t where[TILE];
    bool indexed = false;
    switch ((fv_reduce)d->args->op) {
    case FV_REDUCE_SUM:
        lane_sum(d, in, count, term_self, no_shift, value);
        for (int64_t c = 0; c < count; c++)
            value[c] *= (real)d->args->alpha;
        break;
    case FV_REDUCE_NORM:
        lane_sum(d, in, count, term_square, no_shift, value);
        for (int64_t c = 0; c < count; c++)
            value[c] = real_sqrt(value[c]);
        break;
    case FV_REDUCE_LOGSUMEXP:
        log_sum_exp(d, in, count, value);
        break;
    case FV_REDUCE_MAX:
    case FV_REDUCE_ARGMAX:
        extreme(d, in, count, false, value, where);
        indexed = true;
        break;
    case FV_REDUCE_MIN:
    case FV_REDUCE_ARGMIN:
        extreme(d, in, count, true, value, where);
        indexed = true;
        break;
    case FV_REDUCE_KINDS:
        return;
    }
    if (d->out) memcpy(d->out + o, value, (size_t)count * sizeof *value);
    if (d->index && indexed) memcpy(d->index + o, where, (size_t)count * sizeof *where);
}

static void reduce_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const reduction *d = arg;
    const fv_reduce_args *a = d->args;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / d->tiles, start = item % d->tiles * d->tile;
        int64_t rest = row, offset = start * d->inner_stride;
        for (int axis = a->out_rank - 2; axis >= 0; axis--) {
            offset += rest % a->out_shape[axis] * a->out_stride[axis];
            rest /= a->out_shape[axis];
        }
        const int64_t count = d->inner - start < d->tile ? d->inner - start : d->tile;
        reduce_tile(d, row * d->inner + start, d->in + offset, count);
    }
}

static void reduce(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_reduce_args *a = args;
    reduction d = {.args = a,
                   .out = ptr[FV_REDUCE_OUT],
                   .index = ptr[FV_REDUCE_INDEX],
                   .in = ptr[FV_REDUCE_IN],
                   .inner = 1,
                   .tile = 1,
                   .total = 1,
                   .span = 1};
    int64_t rows = 1;
    for (int axis = 0; axis < a->out_rank - 1; axis++)
        rows *= a->out_shape[axis];
    for (int axis = 0; axis < a->red_rank; axis++)
        d.total *= a->red_shape[axis];
    if (a->out_rank > 0) {
        d.inner = a->out_shape[a->out_rank - 1];
        d.inner_stride = a->out_stride[a->out_rank - 1];
    }
    if (a->red_rank > 0) {
        d.span = a->red_shape[a->red_rank - 1];
        d.span_stride = a->red_stride[a->red_rank - 1];
    }
    if (d.inner_stride == 1 && d.span_stride != 1) d.tile = TILE;
    d.tiles = (d.inner + d.tile - 1) / d.tile;
    fv_exec_rows(exec, rows * d.tiles, d.tile * (d.total + FV_LANES), reduce_range, &d);
}

/* ---- backward ------------------------------------------------------------------- */

/* g e^(x - y); a row of all -inf (y = -inf) passes no gradient on. */
static real log_sum_exp_grad(real g, real x, real y)
{
    return y == (real)-INFINITY ? 0 : g * real_exp(x - y);
}

static void reduce_grad_row(const fv_walk *w, int64_t n, const int64_t *at)
{
    real *dx = (real *)w->ptr[FV_REDUCE_GRAD_DX] + at[0];
    const real *g = (const real *)w->ptr[FV_REDUCE_GRAD_G] + at[1];
    const real *x =
        w->ptr[FV_REDUCE_GRAD_X] ? (const real *)w->ptr[FV_REDUCE_GRAD_X] + at[2] : NULL;
    const real *y =
        w->ptr[FV_REDUCE_GRAD_Y] ? (const real *)w->ptr[FV_REDUCE_GRAD_Y] + at[3] : NULL;
    const int64_t sd = w->step[0], sg = w->step[1], sx = w->step[2], sy = w->step[3];
    const real alpha = (real)w->args->alpha;
    switch ((fv_reduce)w->args->op) {
    case FV_REDUCE_SUM:
        for (int64_t i = 0; i < n; i++)
            dx[i * sd] = alpha * g[i * sg];
        break;
    case FV_REDUCE_LOGSUMEXP:
        for (int64_t i = 0; i < n; i++)
            dx[i * sd] = log_sum_exp_grad(g[i * sg], x[i * sx], y[i * sy]);
        break;
    case FV_REDUCE_NORM:
        for (int64_t i = 0; i < n; i++)
            dx[i * sd] = y[i * sy] == 0 ? 0 : g[i * sg] * (x[i * sx] / y[i * sy]);
        break;
    default: /* MAX, MIN: zeros first, the chosen elements follow */
        for (int64_t i = 0; i < n; i++)
            dx[i * sd] = 0;
        break;
    }
}

/* All axes of the input, largest stride first; g and y move along output axes only. */
static void whole_input(const fv_reduce_args *a, fv_elementwise_args *m)
{
    int64_t contiguous[FV_MAX_RANK], step = 1;
    for (int axis = a->out_rank - 1; axis >= 0; axis--) {
        contiguous[axis] = step;
        step *= a->out_shape[axis];
    }
    m->rank = a->out_rank + a->red_rank;
    for (int k = 0; k < m->rank; k++) {
        const bool is_out = k < a->out_rank;
        const int axis = is_out ? k : k - a->out_rank;
        const int64_t stride = is_out ? a->out_stride[axis] : a->red_stride[axis];
        int place = k;
        for (; place > 0 && m->stride[0][place - 1] < stride; place--) {
            m->shape[place] = m->shape[place - 1];
            for (int p = 0; p < 4; p++)
                m->stride[p][place] = m->stride[p][place - 1];
        }
        m->shape[place] = is_out ? a->out_shape[axis] : a->red_shape[axis];
        m->stride[0][place] = m->stride[2][place] = stride;
        m->stride[1][place] = m->stride[3][place] = is_out ? contiguous[axis] : 0;
    }
}

typedef struct choice {
    const fv_reduce_args *args;
    real *dx;
    const real *g;
    const int64_t *index;
} choice;

static void place_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const choice *p = arg;
    const fv_reduce_args *a = p->args;
    for (int64_t o = begin; o < end; o++) {
        int64_t rest = o, offset = 0;
        for (int axis = a->out_rank - 1; axis >= 0; axis--) {
            offset += rest % a->out_shape[axis] * a->out_stride[axis];
            rest /= a->out_shape[axis];
        }
        rest = p->index[o];
        for (int axis = a->red_rank - 1; axis >= 0; axis--) {
            offset += rest % a->red_shape[axis] * a->red_stride[axis];
            rest /= a->red_shape[axis];
        }
        p->dx[offset] = p->g[o];
    }
}

static void reduce_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_reduce_args *a = args;
    fv_elementwise_args m = {.op = a->op, .alpha = a->alpha};
    whole_input(a, &m);
    int64_t outputs = 1;
    for (int axis = 0; axis < m.rank; axis++)
        if (m.shape[axis] == 0) return;
    for (int axis = 0; axis < a->out_rank; axis++)
        outputs *= a->out_shape[axis];
    fv_walk_run(exec, &m, ptr, 4, a->op == FV_REDUCE_LOGSUMEXP ? 8 : 1, reduce_grad_row);
    if (a->op == FV_REDUCE_MAX || a->op == FV_REDUCE_MIN) {
        const choice p = {.args = a,
                          .dx = ptr[FV_REDUCE_GRAD_DX],
                          .g = ptr[FV_REDUCE_GRAD_G],
                          .index = ptr[FV_REDUCE_GRAD_Y]};
        fv_exec_rows(exec, outputs, 16, place_range, &p);
    }
}

/* ---- running sums --------------------------------------------------------------- */

typedef struct running {
    const fv_cumsum_args *args;
    real *out;
    const real *in;
} running;

static void cumsum_range(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const running *d = arg;
    const int64_t cols = d->args->cols;
    for (int64_t row = begin; row < end; row++) {
        real sum = 0;
        for (int64_t i = 0; i < cols; i++) {
            const int64_t at = row * cols + (d->args->reverse ? cols - 1 - i : i);
            sum += d->in[at];
            d->out[at] = sum;
        }
    }
}

static void cumsum(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_cumsum_args *a = args;
    const running d = {.args = a, .out = ptr[0], .in = ptr[1]};
    fv_exec_rows(exec, a->rows, a->cols, cumsum_range, &d);
}

void FV_NAME(fv_ref_reduce_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_REDUCE][FV_REAL_DTYPE] = reduce;
    t->fn[FV_KERNEL_REDUCE_GRAD][FV_REAL_DTYPE] = reduce_grad;
    t->fn[FV_KERNEL_CUMSUM][FV_REAL_DTYPE] = cumsum;
}
