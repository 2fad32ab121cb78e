/*
 * Convolutions of images as matrix products of weights and patches. A column of the product is a
 * pixel of the result, over all images; FV_GEMM_PANEL columns are one panel. Patches are copied
 * straight into the panel that the GEMM's tile reads, DEPTH taps at a time, so that no matrix of
 * all patches exists. Work items are (group, panel, rows of weights) and own their results.
 *
 * The transposed convolution is the same with other taps: pixels of the result whose positions are
 * equal modulo the stride read the same taps, so that each such phase is one product over a source
 * read without steps.
 */
#include "kernels/image.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/register.h"

enum { DEPTH = 512, ROWS = 192, ROWS_MIN = 24, ITEMS_PER_THREAD = 4, PANEL = FV_GEMM_PANEL };

/* One product. Result (i, j) is pixel (first + i apart) of dst, and reads src at i step + offset.
 */
typedef struct product {
    const fv_conv2d_args *args;
    bool data;                            /* CONV2D_DATA */
    int64_t first[2], grid[2];            /* of the phase, and how many results it has */
    int64_t tap[2], tap_step[2], taps[2]; /* the phase's taps: tap, tap + tap_step, ... */
    int64_t rows, channels, k;            /* of one group: results, sources, length of sums */
    int64_t columns, panels, item_rows, row_items;
    const float *src, *weights, *bias; /* weights (groups, rows, k) */
    float *dst, *scratch;
} product;

/* Columns of a panel that lie beside each other in one row of one image. */
typedef struct segment {
    int64_t image, row, col; /* in the grid */
    int at, length;          /* in the panel */
} segment;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- patches -------------------------------------------------------------------------- */

static int find_segments(const product *p, int64_t column, int cols, segment out[PANEL])
{
    int count = 0;
    for (int at = 0; at < cols;) {
        const int64_t index = column + at, line = index / p->grid[1];
        segment s = {.image = line / p->grid[0],
                     .row = line % p->grid[0],
                     .col = index % p->grid[1],
                     .at = at};
        s.length = (int)smaller(cols - at, p->grid[1] - s.col);
        at += s.length;
        out[count++] = s;
    }
    return count;
}

/* The row (column) of the source that result 0 of the grid reads at a tap. */
static int64_t source_offset(const product *p, int axis, int64_t index)
{
    const fv_conv2d_args *a = p->args;
    const int64_t tap = p->tap[axis] + index * p->tap_step[axis];
    if (!p->data) return tap * a->dilation[axis] - a->pad[axis];
    return (p->first[axis] + a->pad[axis] - tap * a->dilation[axis]) / a->stride[axis];
}

FV_INLINE void copy_run(float *out, const float *in, int64_t n)
{
    for (; n >= FV_VEC; n -= FV_VEC, in += FV_VEC, out += FV_VEC)
        fv_vec_store(out, fv_vec_load(in));
    if (n > 0) fv_vec_store_part(out, (int)n, fv_vec_load_part(in, (int)n));
}

/* Every step-th element from `at` on of a source row with `width` elements; outside is left as it
 * is. */
FV_INLINE void copy_steps(float *out, int64_t length, const float *in, int64_t width, int64_t at,
                          int64_t step)
{
    if (step == 1) {
        const int64_t skip = at < 0 ? -at : 0;
        copy_run(out + skip, in + at + skip, smaller(length, width - at) - skip);
        return;
    }
    int64_t i = at < 0 ? divide_up(-at, step) : 0;
    for (; i < length && at + i * step < width; i++)
        out[i] = in[at + i * step];
}

/* Taps [k0, k0 + depth) of a panel's patches: block [depth][PANEL]. */
static void pack_patches(const product *p, int64_t group, const segment *segments, int count,
                         int64_t k0, int64_t depth, float *block)
{
    const fv_conv2d_args *a = p->args;
    const int64_t *size = p->data ? a->out : a->in, *step = p->data ? (int64_t[]){1, 1} : a->stride;
    const int64_t planes = p->channels * a->groups, taps = p->taps[0] * p->taps[1];
    for (int64_t k = k0; k < k0 + depth; k++, block += PANEL) {
        const int64_t c = group * p->channels + k / taps, tap = k % taps;
        const int64_t down = source_offset(p, 0, tap / p->taps[1]);
        const int64_t right = source_offset(p, 1, tap % p->taps[1]);
        for (int i = 0; i < PANEL; i += FV_VEC)
            fv_vec_store(block + i, fv_vec_zero());
        for (int i = 0; i < count; i++) {
            const segment *s = &segments[i];
            const int64_t row = s->row * step[0] + down;
            if (row < 0 || row >= size[0]) continue;
            const float *in = p->src + ((s->image * planes + c) * size[0] + row) * size[1];
            copy_steps(block + s->at, s->length, in, size[1], s->col * step[1] + right, step[1]);
        }
    }
}

/* ---- one work item --------------------------------------------------------------------- */

static void multiply(const product *p, const float *weights, int64_t rows, int cols, int64_t k0,
                     int64_t depth, const float *block, float *sums)
{
    for (int64_t row = 0; row < rows; row += FV_GEMM_TILE_ROWS)
        for (int col = 0; col < cols; col += FV_TILE_COLS) {
            float *c = sums + row * PANEL + col;
            const fv_tile tile = {.k = depth,
                                  .a = weights + row * p->k + k0,
                                  .a_row = p->k,
                                  .a_col = 1,
                                  .b = block + col,
                                  .b_row = PANEL,
                                  .from = k0 > 0 ? c : NULL,
                                  .from_row = PANEL,
                                  .c = c,
                                  .c_row = PANEL};
            fv_gemm_tile(&tile, (int)smaller(FV_GEMM_TILE_ROWS, rows - row),
                         (int)smaller(FV_TILE_COLS, cols - col));
        }
}

/* Sums of one result channel to their pixels, plus the bias. */
static void store_row(const product *p, int64_t channel, const segment *segments, int count,
                      const float *sums)
{
    const fv_conv2d_args *a = p->args;
    const int64_t *size = p->data ? a->in : a->out, channels = p->rows * a->groups;
    const int64_t apart[2] = {p->data ? a->stride[0] : 1, p->data ? a->stride[1] : 1};
    for (int i = 0; i < count; i++) {
        const segment *s = &segments[i];
        const int64_t row = p->first[0] + s->row * apart[0];
        float *out = p->dst + ((s->image * channels + channel) * size[0] + row) * size[1] +
                     p->first[1] + s->col * apart[1];
        const float *in = sums + s->at;
        if (!p->bias && apart[1] == 1)
            copy_run(out, in, s->length);
        else
            for (int j = 0; j < s->length; j++)
                out[j * apart[1]] = p->bias ? in[j] + p->bias[channel] : in[j];
    }
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const product *p = arg;
    float *block = p->scratch + (int64_t)thread * (DEPTH + ROWS) * PANEL;
    float *sums = block + DEPTH * PANEL;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first_row = item % p->row_items * p->item_rows;
        const int64_t panel = item / p->row_items % p->panels;
        const int64_t group = item / p->row_items / p->panels;
        const int64_t rows = smaller(p->item_rows, p->rows - first_row), column = panel * PANEL;
        const int cols = (int)smaller(PANEL, p->columns - column);
        const float *weights = p->weights + (group * p->rows + first_row) * p->k;
        segment segments[PANEL];
        const int count = find_segments(p, column, cols, segments);
        for (int64_t k0 = 0; k0 < p->k; k0 += DEPTH) {
            const int64_t depth = smaller(DEPTH, p->k - k0);
            pack_patches(p, group, segments, count, k0, depth, block);
            multiply(p, weights, rows, cols, k0, depth, block, sums);
        }
        if (p->k == 0) memset(sums, 0, (size_t)(rows * PANEL) * sizeof *sums);
        for (int64_t row = 0; row < rows; row++)
            store_row(p, group * p->rows + first_row + row, segments, count, sums + row * PANEL);
    }
}

static void run_product(const fv_exec *exec, product *p)
{
    const fv_conv2d_args *a = p->args;
    p->k = p->channels * p->taps[0] * p->taps[1];
    p->columns = a->batch * p->grid[0] * p->grid[1];
    p->panels = divide_up(p->columns, PANEL);
    const int64_t tile = FV_GEMM_TILE_ROWS, wanted = (int64_t)ITEMS_PER_THREAD * exec->threads;
    int64_t rows = divide_up(divide_up(p->rows, divide_up(p->rows, ROWS)), tile) * tile;
    while (exec->threads > 1 && rows > ROWS_MIN &&
           a->groups * p->panels * divide_up(p->rows, rows) < wanted)
        rows = divide_up(rows / 2, tile) * tile;
    p->item_rows = rows;
    p->row_items = divide_up(p->rows, rows);
    const int64_t items = a->groups * p->panels * p->row_items;
    if (items == 0) return;
    fv_exec_rows(exec, items, rows * PANEL * (p->k + 1), run_items, p);
}

/* ---- the two kernels ------------------------------------------------------------------- */

static void conv2d(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    product p = {.args = a,
                 .grid = {a->out[0], a->out[1]},
                 .tap_step = {1, 1},
                 .taps = {a->window[0], a->window[1]},
                 .rows = a->out_c / a->groups,
                 .channels = a->in_c / a->groups,
                 .dst = ptr[0],
                 .src = ptr[1],
                 .weights = ptr[2],
                 .bias = ptr[3],
                 .scratch = exec->scratch};
    run_product(exec, &p);
}

/* The weights of a phase with the product's rows first: (groups, channels of x, (o, ky, kx)). */
typedef struct transpose_job {
    const product *p;
    const float *w;
    float *out;
} transpose_job;

static void transpose_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const transpose_job *job = arg;
    const product *p = job->p;
    const int64_t *window = p->args->window, taps = window[0] * window[1];
    for (int64_t row = begin; row < end; row++) {
        const int64_t group = row / p->rows, c = row % p->rows;
        float *out = job->out + row * p->channels * p->taps[0] * p->taps[1];
        for (int64_t o = 0; o < p->channels; o++) {
            const float *w = job->w + ((group * p->channels + o) * p->rows + c) * taps;
            for (int64_t i = 0; i < p->taps[0]; i++)
                for (int64_t j = 0; j < p->taps[1]; j++)
                    *out++ = w[(p->tap[0] + i * p->tap_step[0]) * window[1] + p->tap[1] +
                               j * p->tap_step[1]];
        }
    }
}

/* Fills in the taps of a phase along one axis, and the number of its results. */
static void find_taps(product *p, int axis, int64_t first)
{
    const fv_conv2d_args *a = p->args;
    p->first[axis] = first;
    p->grid[axis] = a->in[axis] > first ? divide_up(a->in[axis] - first, a->stride[axis]) : 0;
    p->tap[axis] = p->tap_step[axis] = p->taps[axis] = 0;
    for (int64_t tap = 0; tap < a->window[axis]; tap++) {
        if (!fv_conv2d_reads(a, axis, first, tap)) continue;
        if (p->taps[axis] == 0) p->tap[axis] = tap;
        if (p->taps[axis] == 1) p->tap_step[axis] = tap - p->tap[axis];
        p->taps[axis]++;
    }
}

static void conv2d_data(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    float *weights = exec->scratch;
    const int64_t count = a->out_c * (a->in_c / a->groups) * a->window[0] * a->window[1];
    product p = {.args = a,
                 .data = true,
                 .rows = a->in_c / a->groups,
                 .channels = a->out_c / a->groups,
                 .dst = ptr[0],
                 .src = ptr[1],
                 .weights = weights,
                 .bias = ptr[3],
                 .scratch = weights + divide_up(count, PANEL) * PANEL};
    for (int64_t down = 0; down < smaller(a->stride[0], a->in[0]); down++)
        for (int64_t right = 0; right < smaller(a->stride[1], a->in[1]); right++) {
            find_taps(&p, 0, down);
            find_taps(&p, 1, right);
            const transpose_job job = {&p, ptr[2], weights};
            fv_exec_rows(exec, a->groups * p.rows, p.channels * p.taps[0] * p.taps[1],
                         transpose_rows, &job);
            run_product(exec, &p);
        }
}

static size_t scratch_bytes(const void *args, int threads)
{
    (void)args;
    return (size_t)threads * (DEPTH + ROWS) * PANEL * sizeof(float);
}

static size_t data_scratch_bytes(const void *args, int threads)
{
    const fv_conv2d_args *a = args;
    const int64_t count = a->out_c * (a->in_c / a->groups) * a->window[0] * a->window[1];
    return (size_t)(divide_up(count, PANEL) * PANEL) * sizeof(float) + scratch_bytes(args, threads);
}

void fv_simd_conv2d_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CONV2D][FV_F32] = conv2d;
    t->fn[FV_KERNEL_CONV2D_DATA][FV_F32] = conv2d_data;
    t->scratch[FV_KERNEL_CONV2D] = scratch_bytes;
    t->scratch[FV_KERNEL_CONV2D_DATA] = data_scratch_bytes;
    fv_simd_conv2d_weight_register(t);
}
