/*
 * The gradient of a convolution's weight: for each tap one product over all pixels (n, oy, ox) of x
 * at the tap, with channels as rows, and of the result's gradient, with outputs as columns. Blocks
 * of pixels of the gradient are transposed into a panel once and then used for all channels and
 * taps. x is read in place, pixel k at a table's offset k; an image with a border is first copied
 * with its zeros, a few channels at a time. Work items are (group, panel of outputs, channels,
 * taps) and own their part of dw.
 */
#include "kernels/image.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/register.h"

enum {
    PANEL = FV_GEMM_PANEL,
    CHANNELS = FV_GEMM_TILE_ROWS,
    BLOCK_PIXELS = 512, /* a panel of 128 KiB */
    SUM_ROWS = 1536,    /* channels x taps of a work item */
    ITEMS_PER_THREAD = 4,
    MOST_FLOATS = 1 << 24 /* of a thread's scratch; beyond, the reference kernel runs */
};

typedef struct weight_plan {
    int64_t taps, channels, outputs, panels; /* of one group */
    int64_t images, rows;                    /* of a block */
    int64_t item_channels, channel_items, item_taps, tap_items;
    bool border;
    int64_t line, plane; /* floats of a copied row, and of an image */
    int64_t panel_floats, copy_floats, sum_floats, offset_floats, floats;
    bool fits;
} weight_plan;

typedef struct weight_job {
    const fv_conv2d_args *args;
    weight_plan plan;
    float *dw, *scratch;
    const float *x, *y;
} weight_job;

/* One work item, and this thread's part of the scratch. */
typedef struct work_item {
    int64_t group, output, channel, channels, tap, taps;
    int outputs;
    float *panel, *copy, *sums;
    int64_t *offsets;
} work_item;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

static bool has_border(const fv_conv2d_args *a)
{
    for (int axis = 0; axis < 2; axis++) {
        const int64_t last = (a->out[axis] - 1) * a->stride[axis] - a->pad[axis] +
                             (a->window[axis] - 1) * a->dilation[axis];
        if (a->pad[axis] > 0 || last >= a->in[axis]) return true;
    }
    return false;
}

/* Rows (columns) of x that `count` results read. */
static int64_t reach(const fv_conv2d_args *a, int axis, int64_t count)
{
    return (count - 1) * a->stride[axis] + (a->window[axis] - 1) * a->dilation[axis] + 1;
}

static weight_plan make_plan(const fv_conv2d_args *a, int threads)
{
    weight_plan p = {.taps = a->window[0] * a->window[1],
                     .channels = a->in_c / a->groups,
                     .outputs = a->out_c / a->groups,
                     .border = has_border(a)};
    const int64_t pixels = larger(1, a->out[0] * a->out[1]), width = larger(1, a->out[1]);
    p.panels = divide_up(p.outputs, PANEL);
    p.images = larger(1, smaller(a->batch, BLOCK_PIXELS / pixels));
    p.rows = p.images > 1 ? a->out[0] : larger(1, smaller(a->out[0], BLOCK_PIXELS / width));
    p.item_taps = p.taps;
    p.item_channels = round_up(larger(1, smaller(p.channels, SUM_ROWS / p.taps)), CHANNELS);
    const int64_t wanted = threads > 1 ? (int64_t)ITEMS_PER_THREAD * threads : 1;
    while (p.item_channels > CHANNELS &&
           a->groups * p.panels * divide_up(p.channels, p.item_channels) < wanted)
        p.item_channels = round_up(p.item_channels / 2, CHANNELS);
    p.channel_items = divide_up(p.channels, p.item_channels);
    while (p.item_taps > 1 &&
           a->groups * p.panels * p.channel_items * divide_up(p.taps, p.item_taps) < wanted)
        p.item_taps = divide_up(p.item_taps, 2);
    p.tap_items = divide_up(p.taps, p.item_taps);
    p.line = reach(a, 1, width);
    const double copy = (double)p.line * (double)reach(a, 0, p.rows) * CHANNELS * (double)p.images;
    const double rest = (double)(p.images * p.rows * width + p.item_channels * p.item_taps) * PANEL;
    p.fits = rest < MOST_FLOATS && (!p.border || copy < MOST_FLOATS);
    if (!p.fits) return p;
    p.plane = p.line * reach(a, 0, p.rows);
    p.panel_floats = p.images * p.rows * width * PANEL;
    p.copy_floats = p.border ? round_up(p.plane * CHANNELS * p.images, PANEL) : 0;
    p.sum_floats = p.item_channels * p.item_taps * PANEL;
    p.offset_floats = round_up(p.images * p.rows * width * 2, PANEL);
    p.floats = p.panel_floats + p.copy_floats + p.sum_floats + p.offset_floats;
    return p;
}

/* ---- tile ------------------------------------------------------------------------------ */

/* c(i, j) += the sum over k of a[i a_row + offsets[k]] b(k, j), j < FV_TILE_COLS; with `start` the
 * sums start at 0. */
typedef struct pixel_tile {
    int64_t k;
    const float *a, *b;
    int64_t a_row;
    const int64_t *offsets;
    bool start;
    float *c;
} pixel_tile;

FV_INSTANCE void run_tile(const pixel_tile *t, const int rows)
{
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_TILE_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            sum[i][v] = t->start ? fv_vec_zero() : fv_vec_load(t->c + i * PANEL + v * FV_VEC);
    }
    const float *b = t->b;
    const int64_t a_row = t->a_row;
    for (int64_t k = 0; k < t->k; k++, b += PANEL) {
        const float *a = t->a + t->offsets[k], *a3 = a + 3 * a_row;
        fv_vec row[FV_TILE_VECS];
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            row[v] = fv_vec_load(b + v * FV_VEC);
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            const fv_vec x = fv_vec_set(i < 3 ? a[i * a_row] : a3[(i - 3) * a_row]);
            FV_UNROLL
            for (int v = 0; v < FV_TILE_VECS; v++)
                sum[i][v] = fv_vec_fma(x, row[v], sum[i][v]);
        }
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            fv_vec_store(t->c + i * PANEL + v * FV_VEC, sum[i][v]);
    }
}

typedef void (*tile_fn)(const pixel_tile *t);

static void tile_1(const pixel_tile *t) { run_tile(t, 1); }
static void tile_2(const pixel_tile *t) { run_tile(t, 2); }
static void tile_3(const pixel_tile *t) { run_tile(t, 3); }
static void tile_4(const pixel_tile *t) { run_tile(t, 4); }
static void tile_5(const pixel_tile *t) { run_tile(t, 5); }
static void tile_6(const pixel_tile *t) { run_tile(t, 6); }
static const tile_fn tiles[FV_GEMM_TILE_ROWS] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

/* ---- blocks of pixels ------------------------------------------------------------------ */

typedef struct pixel_block {
    int64_t image, images, row, rows, pixels;
} pixel_block;

static void pack_gradient(const weight_job *j, const work_item *item, const pixel_block *block)
{
    const fv_conv2d_args *a = j->args;
    const int64_t plane = a->out[0] * a->out[1], part = block->rows * a->out[1];
    for (int64_t i = 0; i < block->images; i++) {
        const int64_t channel =
            (block->image + i) * a->out_c + item->group * j->plan.outputs + item->output;
        fv_gemm_pack_b(part, item->outputs, j->y + channel * plane + block->row * a->out[1], 1,
                       plane, PANEL, item->panel + i * part * PANEL);
    }
}

static void fill_offsets(const weight_job *j, const work_item *item, const pixel_block *block)
{
    const fv_conv2d_args *a = j->args;
    const weight_plan *p = &j->plan;
    const int64_t line = p->border ? p->line : a->in[1];
    const int64_t image = p->border ? p->plane : a->in_c * a->in[0] * a->in[1];
    int64_t *out = item->offsets;
    for (int64_t i = 0; i < block->images; i++)
        for (int64_t row = 0; row < block->rows; row++)
            for (int64_t col = 0; col < a->out[1]; col++)
                *out++ = i * image + row * a->stride[0] * line + col * a->stride[1];
}

/* A few channels of x with the zeros around it, [channels][images][plane]. */
static void copy_with_border(const weight_job *j, const work_item *item, const pixel_block *block,
                             int64_t channel, int64_t channels)
{
    const fv_conv2d_args *a = j->args;
    const weight_plan *p = &j->plan;
    const int64_t top = block->row * a->stride[0] - a->pad[0], lines = reach(a, 0, block->rows);
    const int64_t left = smaller(a->pad[1], p->line);
    const int64_t width = larger(0, smaller(a->in[1], p->line - left));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < block->images; i++) {
            const float *x =
                j->x + ((block->image + i) * a->in_c + channel + c) * a->in[0] * a->in[1];
            float *out = item->copy + (c * block->images + i) * p->plane;
            for (int64_t line = 0; line < lines; line++, out += p->line) {
                const int64_t row = top + line;
                memset(out, 0, (size_t)p->line * sizeof *out);
                if (row >= 0 && row < a->in[0])
                    memcpy(out + left, x + row * a->in[1], (size_t)width * sizeof *out);
            }
        }
}

static void add_block(const weight_job *j, const work_item *item, const pixel_block *block)
{
    const fv_conv2d_args *a = j->args;
    const weight_plan *p = &j->plan;
    const int64_t line = p->border ? p->line : a->in[1];
    const bool start = block->image == 0 && block->row == 0 && !a->accumulate;
    pack_gradient(j, item, block);
    fill_offsets(j, item, block);
    for (int64_t c = 0; c < item->channels; c += CHANNELS) {
        const int64_t rows = smaller(CHANNELS, item->channels - c);
        const int64_t channel = item->group * p->channels + item->channel + c;
        const float *x = j->x + (block->image * a->in_c + channel) * a->in[0] * a->in[1] +
                         block->row * a->stride[0] * a->in[1];
        if (p->border) copy_with_border(j, item, block, channel, rows);
        for (int64_t tap = 0; tap < item->taps; tap++) {
            const int64_t ky = (item->tap + tap) / a->window[1],
                          kx = (item->tap + tap) % a->window[1];
            const int64_t at = ky * a->dilation[0] * line + kx * a->dilation[1];
            pixel_tile t = {.k = block->pixels,
                            .a = (p->border ? item->copy : x) + at,
                            .a_row = p->border ? block->images * p->plane : a->in[0] * a->in[1],
                            .offsets = item->offsets,
                            .start = start};
            for (int col = 0; col < item->outputs; col += FV_TILE_COLS) {
                t.b = item->panel + col;
                t.c = item->sums + (c * item->taps + tap * rows) * PANEL + col;
                tiles[rows - 1](&t);
            }
        }
    }
}

/* ---- work items ------------------------------------------------------------------------ */

/* Between sums [channel tile][tap][channel][output] and dw [output][channel][tap]. */
static void move_sums(const weight_job *j, const work_item *item, bool load)
{
    const weight_plan *p = &j->plan;
    for (int64_t o = 0; o < item->outputs; o++)
        for (int64_t c = 0; c < item->channels; c++) {
            const int64_t first = c - c % CHANNELS,
                          rows = smaller(CHANNELS, item->channels - first);
            const int64_t output = item->group * p->outputs + item->output + o;
            float *dw = j->dw + (output * p->channels + item->channel + c) * p->taps + item->tap;
            float *sum = item->sums + (first * item->taps + c % CHANNELS) * PANEL + o;
            for (int64_t tap = 0; tap < item->taps; tap++) {
                float *at = sum + tap * rows * PANEL;
                if (load)
                    *at = dw[tap];
                else
                    dw[tap] = *at;
            }
        }
}

static work_item locate(const weight_job *j, int64_t index, int thread)
{
    const weight_plan *p = &j->plan;
    work_item item;
    item.tap = index % p->tap_items * p->item_taps;
    item.taps = smaller(p->item_taps, p->taps - item.tap);
    index /= p->tap_items;
    item.channel = index % p->channel_items * p->item_channels;
    item.channels = smaller(p->item_channels, p->channels - item.channel);
    index /= p->channel_items;
    item.output = index % p->panels * PANEL;
    item.outputs = (int)smaller(PANEL, p->outputs - item.output);
    item.group = index / p->panels;
    item.panel = j->scratch + (int64_t)thread * p->floats;
    item.copy = item.panel + p->panel_floats;
    item.sums = item.copy + p->copy_floats;
    item.offsets = (int64_t *)(void *)(item.sums + p->sum_floats);
    return item;
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weight_job *j = arg;
    const fv_conv2d_args *a = j->args;
    const weight_plan *p = &j->plan;
    for (int64_t index = begin; index < end; index++) {
        const work_item item = locate(j, index, thread);
        memset(item.sums, 0, (size_t)p->sum_floats * sizeof(float));
        if (a->accumulate) move_sums(j, &item, true);
        for (int64_t image = 0; image < a->batch; image += p->images)
            for (int64_t row = 0; row < a->out[0]; row += p->rows) {
                pixel_block block = {.image = image,
                                     .images = smaller(p->images, a->batch - image),
                                     .row = row,
                                     .rows = smaller(p->rows, a->out[0] - row)};
                block.pixels = block.images * block.rows * a->out[1];
                add_block(j, &item, &block);
            }
        move_sums(j, &item, false);
    }
}

static void conv2d_weight(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_conv2d_args *a = args;
    const weight_job j = {.args = a,
                          .plan = make_plan(a, exec->threads),
                          .dw = ptr[0],
                          .x = ptr[1],
                          .y = ptr[2],
                          .scratch = exec->scratch};
    if (!j.plan.fits) {
        fv_ref_conv2d_weight_f32(exec, ptr, args);
        return;
    }
    const int64_t items = a->groups * j.plan.panels * j.plan.channel_items * j.plan.tap_items;
    const int64_t pixels = a->batch * a->out[0] * a->out[1];
    fv_exec_rows(exec, items, j.plan.sum_floats * (pixels + 1), run_items, &j);
}

static size_t scratch_bytes(const void *args, int threads)
{
    const weight_plan plan = make_plan(args, threads);
    return plan.fits ? (size_t)threads * (size_t)plan.floats * sizeof(float) : 0;
}

void fv_simd_conv2d_weight_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CONV2D_WEIGHT][FV_F32] = conv2d_weight;
    t->scratch[FV_KERNEL_CONV2D_WEIGHT] = scratch_bytes;
}
