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
#include "kernels/simd/conv2d_images.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/pairs.h"
#include "kernels/simd/register.h"

enum { DEPTH = 512, ROWS = 192, ROWS_MIN = 24, ITEMS_PER_THREAD = 4, PANEL = FV_GEMM_PANEL };

/* One product. Result (i, j) is pixel (first + i apart) of dst, and reads src at i step + offset.
 */
typedef struct product {
    const fv_conv2d_args *args;
    bool data;                            /* CONV2D_DATA */
    int64_t first[2], grid[2];            /* of the phase, and how many results it has */
    int64_t tap[2], tap_step[2], taps[2]; /* the phase's taps: tap, tap + tap_step, ... */
    int64_t offset[2], tap_offset[2];     /* where result 0 reads at tap 0, and from tap to tap */
    int64_t rows, channels, k;            /* of one group: results, sources, length of sums */
    int64_t columns, panels, item_rows, row_items;
    const float *src, *weights, *bias;
    int64_t a_row, a_col; /* weights (groups, rows, k), or row tiles [k][FV_GEMM_TILE_ROWS] */
    float *dst, *scratch;
} product;

/* Columns of a panel that lie beside each other in one row of one image. */
typedef struct segment {
    int64_t image, row, col; /* in the grid */
    int at, length;          /* in the panel */
} segment;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

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

FV_INLINE void copy_run(float *out, const float *in, int64_t n)
{
    for (; n >= FV_VEC; n -= FV_VEC, in += FV_VEC, out += FV_VEC)
        fv_vec_store(out, fv_vec_load(in));
    if (n > 0) fv_vec_store_part(out, (int)n, fv_vec_load_part(in, (int)n));
}

/* in[0], in[2], ... of `pairs` pairs */
FV_INLINE void copy_even(float *out, const float *in, int64_t pairs)
{
    vf even, odd;
    V_LOOP(pairs, 0, v_load_pairs(in + 2 * i, count, &even, &odd); v_store(out + i, count, even));
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
    if (step == 2) {
        const int64_t pairs = smaller(length - i, (width - at) / 2 - i);
        copy_even(out + i, in + at + 2 * i, pairs);
        if (pairs > 0) i += pairs;
    }
    for (; i < length && at + i * step < width; i++)
        out[i] = in[at + i * step];
}

/* One tap of one channel for all segments: a row of the block. `plane` is the channel in image 0.
 */
FV_INLINE void pack_tap(const product *p, const segment *segments, int count, const float *plane,
                        int64_t down, int64_t right, float *block)
{
    const fv_conv2d_args *a = p->args;
    const int64_t *size = p->data ? a->out : a->in;
    const int64_t step[2] = {p->data ? 1 : a->stride[0], p->data ? 1 : a->stride[1]};
    const int64_t image = p->channels * a->groups * size[0] * size[1];
    for (int i = 0; i < count; i++) {
        const segment *s = &segments[i];
        const int64_t row = s->row * step[0] + down, at = s->col * step[1] + right;
        const bool visible = row >= 0 && row < size[0];
        if (!visible || at < 0 || at + (s->length - 1) * step[1] >= size[1])
            memset(block + s->at, 0, (size_t)s->length * sizeof *block);
        if (visible)
            copy_steps(block + s->at, s->length, plane + s->image * image + row * size[1], size[1],
                       at, step[1]);
    }
}

/* Taps [k0, k0 + depth) of a panel's patches: block [depth][PANEL], of which the columns of the
 * segments are written. */
static void pack_patches(const product *p, int64_t group, const segment *segments, int count,
                         int64_t k0, int64_t depth, float *block)
{
    const int64_t *size = p->data ? p->args->out : p->args->in, taps = p->taps[0] * p->taps[1];
    int64_t c = k0 / taps, row = k0 % taps / p->taps[1], col = k0 % p->taps[1];
    for (int64_t k = 0; k < depth; k++, block += PANEL) {
        pack_tap(p, segments, count, p->src + (group * p->channels + c) * size[0] * size[1],
                 p->offset[0] + row * p->tap_offset[0], p->offset[1] + col * p->tap_offset[1],
                 block);
        if (++col < p->taps[1]) continue;
        col = 0;
        if (++row < p->taps[0]) continue;
        row = 0;
        c++;
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
                                  .a = weights + row * p->k + k0 * p->a_col,
                                  .a_row = p->a_row,
                                  .a_col = p->a_col,
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
        const int64_t group_rows = p->data ? round_up(p->rows, FV_GEMM_TILE_ROWS) : p->rows;
        const float *weights = p->weights + (group * group_rows + first_row) * p->k;
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
    if (fv_conv2d_images_fit(a)) {
        fv_conv2d_images(exec, a, false, ptr);
        return;
    }
    product p = {.args = a,
                 .grid = {a->out[0], a->out[1]},
                 .taps = {a->window[0], a->window[1]},
                 .offset = {-a->pad[0], -a->pad[1]},
                 .tap_offset = {a->dilation[0], a->dilation[1]},
                 .rows = a->out_c / a->groups,
                 .channels = a->in_c / a->groups,
                 .dst = ptr[0],
                 .src = ptr[1],
                 .weights = ptr[2],
                 .bias = ptr[3],
                 .a_col = 1,
                 .scratch = exec->scratch};
    p.a_row = p.k = p.channels * p.taps[0] * p.taps[1];
    run_product(exec, &p);
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
    p->offset[axis] = (first + a->pad[axis] - p->tap[axis] * a->dilation[axis]) / a->stride[axis];
    p->tap_offset[axis] = -p->tap_step[axis] * a->dilation[axis] / a->stride[axis];
}

/* Phase `index` in [0, phases): its taps, and its weights after those of the phases before. */
static int64_t phases_of(const fv_conv2d_args *a)
{
    return smaller(a->stride[0], a->in[0]) * smaller(a->stride[1], a->in[1]);
}

static void next_phase(product *p, int64_t index)
{
    const fv_conv2d_args *a = p->args;
    const int64_t across = smaller(a->stride[1], a->in[1]);
    if (index > 0) p->weights += a->groups * round_up(p->rows, FV_GEMM_TILE_ROWS) * p->k;
    find_taps(p, 0, index / across);
    find_taps(p, 1, index % across);
    p->k = p->channels * p->taps[0] * p->taps[1];
}

typedef struct pack_job {
    const product *p;
    const float *w;
    float *out;
} pack_job;

/* The weights of one row tile (channels of x) in one phase, [(o, ky, kx)][FV_GEMM_TILE_ROWS]. */
static void pack_phase(const pack_job *job, const product *p, int64_t tile, float *out)
{
    const int64_t tiles = divide_up(p->rows, FV_GEMM_TILE_ROWS), group = tile / tiles;
    const int64_t *window = p->args->window, taps = window[0] * window[1];
    const int64_t row = tile % tiles * FV_GEMM_TILE_ROWS;
    const int64_t rows = smaller(FV_GEMM_TILE_ROWS, p->rows - row);
    for (int64_t o = 0; o < p->channels; o++) {
        const float *w = job->w + ((group * p->channels + o) * p->rows + row) * taps;
        for (int64_t i = 0; i < p->taps[0]; i++)
            for (int64_t j = 0; j < p->taps[1]; j++, out += FV_GEMM_TILE_ROWS) {
                const float *tap = w + (p->tap[0] + i * p->tap_step[0]) * window[1] + p->tap[1] +
                                   j * p->tap_step[1];
                for (int64_t r = 0; r < rows; r++)
                    out[r] = tap[r * taps];
            }
    }
}

/* Work items are row tiles; each visits all phases, while its weights are in the cache. */
static void pack_tiles(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *job = arg;
    for (int64_t tile = begin; tile < end; tile++) {
        product p = *job->p;
        for (int64_t phase = 0; phase < phases_of(p.args); phase++) {
            next_phase(&p, phase);
            const int64_t at = p.weights - job->p->weights + tile * p.k * FV_GEMM_TILE_ROWS;
            pack_phase(job, &p, tile, job->out + at);
        }
    }
}

static int64_t packed_floats(const fv_conv2d_args *a)
{
    const int64_t rows = round_up(a->in_c / a->groups, FV_GEMM_TILE_ROWS);
    return round_up(a->out_c * rows * a->window[0] * a->window[1], PANEL);
}

static void conv2d_data(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    if (fv_conv2d_images_fit(a)) {
        fv_conv2d_images(exec, a, true, ptr);
        return;
    }
    float *weights = exec->scratch;
    product p = {.args = a,
                 .data = true,
                 .rows = a->in_c / a->groups,
                 .channels = a->out_c / a->groups,
                 .dst = ptr[0],
                 .src = ptr[1],
                 .weights = weights,
                 .bias = ptr[3],
                 .a_row = 1,
                 .a_col = FV_GEMM_TILE_ROWS,
                 .scratch = weights + packed_floats(a)};
    const pack_job job = {&p, ptr[2], weights};
    fv_exec_rows(exec, a->groups * divide_up(p.rows, FV_GEMM_TILE_ROWS),
                 p.channels * a->window[0] * a->window[1] * FV_GEMM_TILE_ROWS, pack_tiles, &job);
    for (int64_t phase = 0; phase < phases_of(a); phase++) {
        next_phase(&p, phase);
        run_product(exec, &p);
    }
}

static size_t scratch_bytes(const void *args, int threads)
{
    if (fv_conv2d_images_fit(args)) return fv_conv2d_images_scratch(args, false, threads);
    return (size_t)threads * (DEPTH + ROWS) * PANEL * sizeof(float);
}

static size_t data_scratch_bytes(const void *args, int threads)
{
    if (fv_conv2d_images_fit(args)) return fv_conv2d_images_scratch(args, true, threads);
    return (size_t)packed_floats(args) * sizeof(float) + scratch_bytes(args, threads);
}

void fv_simd_conv2d_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CONV2D][FV_F32] = conv2d;
    t->fn[FV_KERNEL_CONV2D_DATA][FV_F32] = conv2d_data;
    t->scratch[FV_KERNEL_CONV2D] = scratch_bytes;
    t->scratch[FV_KERNEL_CONV2D_DATA] = data_scratch_bytes;
    fv_simd_conv2d_weight_register(t);
}
