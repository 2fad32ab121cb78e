/*
 * The gradient of a convolution's weight: for each tap one product over all pixels (n, oy, ox) of x
 * at the tap, with channels as rows, and of the result's gradient, with outputs as columns. Blocks
 * of pixels of the gradient are transposed into a panel once and then used for all channels and
 * taps. x is read in place: of a block, a tap uses the rectangle of pixels at which it lies inside
 * the image. Work items are (group, panels of outputs, channels, taps) and own their part of dw.
 * One with few sums has several panels, so that x is read from memory once for all of them.
 */
#include "kernels/image.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/register.h"
#include "kernels/simd/transpose.h"

enum {
    PANEL = FV_GEMM_PANEL,
    CHANNELS = FV_GEMM_TILE_ROWS,
    NARROW_CHANNELS = 12, /* of a tile of one vector: six sums would wait for each other */
    BLOCK_PIXELS = 512,   /* a panel of 128 KiB */
    SUM_ROWS = 1536,      /* panels x channels x taps of a work item */
    ITEMS_PER_THREAD = 4,
    MOST_FLOATS = 1 << 24 /* of a thread's scratch; beyond, the reference kernel runs */
};

typedef struct weight_plan {
    int64_t taps, channels, outputs, panels; /* of one group */
    int64_t images, rows;                    /* of a block */
    int64_t item_panels, panel_items, item_channels, channel_items, item_taps, tap_items;
    int64_t panel_floats, sum_floats, floats; /* sum_floats: of one panel */
    bool fits;
} weight_plan;

typedef struct weight_job {
    const fv_conv2d_args *args;
    weight_plan plan;
    float *dw, *scratch;
    const float *x, *y;
} weight_job;

/* One panel of a work item, and this thread's part of the scratch. */
typedef struct work_item {
    int64_t group, output, channel, channels, tap, taps;
    int outputs;
    float *panel, *sums; /* [pixel][PANEL], [channel][tap][PANEL] */
} work_item;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

static weight_plan make_plan(const fv_conv2d_args *a, int threads)
{
    weight_plan p = {.taps = a->window[0] * a->window[1],
                     .channels = a->in_c / a->groups,
                     .outputs = a->out_c / a->groups};
    const int64_t pixels = larger(1, a->out[0] * a->out[1]), width = larger(1, a->out[1]);
    p.panels = divide_up(p.outputs, PANEL);
    p.images = larger(1, smaller(a->batch, BLOCK_PIXELS / pixels));
    p.rows = p.images > 1 ? a->out[0] : larger(1, smaller(a->out[0], BLOCK_PIXELS / width));
    p.item_taps = p.taps;
    p.item_channels = round_up(larger(1, smaller(p.channels, SUM_ROWS / p.taps)), CHANNELS);
    p.item_panels = larger(1, smaller(p.panels, SUM_ROWS / (p.item_channels * p.taps)));
    const int64_t wanted = threads > 1 ? (int64_t)ITEMS_PER_THREAD * threads : 1;
    while (p.item_panels > 1 &&
           a->groups * divide_up(p.panels, p.item_panels) * divide_up(p.channels, p.item_channels) <
               wanted)
        p.item_panels = divide_up(p.item_panels, 2);
    p.panel_items = divide_up(p.panels, p.item_panels);
    while (p.item_channels > CHANNELS &&
           a->groups * p.panel_items * divide_up(p.channels, p.item_channels) < wanted)
        p.item_channels = round_up(p.item_channels / 2, CHANNELS);
    p.channel_items = divide_up(p.channels, p.item_channels);
    while (p.item_taps > 1 &&
           a->groups * p.panel_items * p.channel_items * divide_up(p.taps, p.item_taps) < wanted)
        p.item_taps = divide_up(p.item_taps, 2);
    p.tap_items = divide_up(p.taps, p.item_taps);
    const int64_t sums = p.item_channels * p.item_taps;
    p.fits = (double)(p.images * p.rows * width + p.item_panels * sums) * PANEL < MOST_FLOATS;
    if (!p.fits) return p;
    p.panel_floats = p.images * p.rows * width * PANEL;
    p.sum_floats = sums * PANEL;
    p.floats = p.panel_floats + p.item_panels * p.sum_floats;
    return p;
}

/* ---- tile ------------------------------------------------------------------------------ */

/* c(i, j) += the sum over images n, rows y and columns x of a[i a_row + n a_image + y a_line + x
 * a_step] b[n b_image + y b_line + x PANEL + j], j < vecs FV_VEC. */
typedef struct pixel_tile {
    int64_t images, rows, cols;
    const float *a, *b;
    int64_t a_row, a_image, a_line, a_step, b_image, b_line;
    float *c;
    int64_t c_row;
} pixel_tile;

FV_INSTANCE void run_tile(const pixel_tile *t, const int rows, const int vecs)
{
    fv_vec sum[NARROW_CHANNELS][FV_TILE_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_load(t->c + i * t->c_row + v * FV_VEC);
    }
    const int64_t a_row = t->a_row, a_step = t->a_step;
    for (int64_t line = 0; line < t->images * t->rows; line++) {
        const int64_t image = line / t->rows, y = line % t->rows;
        const float *a = t->a + image * t->a_image + y * t->a_line;
        const float *b = t->b + image * t->b_image + y * t->b_line;
        for (int64_t x = t->cols; x > 0; x--, a += a_step, b += PANEL) {
            const float *three = a;
            fv_vec row[FV_TILE_VECS];
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                row[v] = fv_vec_load(b + v * FV_VEC);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                if (i > 0 && i % 3 == 0) three += 3 * a_row;
                const fv_vec one = fv_vec_set(three[i % 3 * a_row]);
                FV_UNROLL
                for (int v = 0; v < vecs; v++)
                    sum[i][v] = fv_vec_fma(one, row[v], sum[i][v]);
            }
        }
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

typedef void (*tile_fn)(const pixel_tile *t);

#define TILE(rows, vecs)                                                                           \
    static void tile_##rows##x##vecs(const pixel_tile *t) { run_tile(t, rows, vecs); }
#define NAME(rows, vecs) tile_##rows##x##vecs,
#define SIX(what, vecs)                                                                            \
    what(1, vecs) what(2, vecs) what(3, vecs) what(4, vecs) what(5, vecs) what(6, vecs)
#define TWELVE(what, vecs)                                                                         \
    SIX(what, vecs)                                                                                \
    what(7, vecs) what(8, vecs) what(9, vecs) what(10, vecs) what(11, vecs) what(12, vecs)

TWELVE(TILE, 1)
SIX(TILE, 2)
#if FV_SIMD_LEVEL != 2
SIX(TILE, 3)
SIX(TILE, 4)
#endif

/* [vecs - 1][rows - 1] */
static const tile_fn tiles[FV_TILE_VECS][NARROW_CHANNELS] = {
    {TWELVE(NAME, 1)},
    {SIX(NAME, 2)},
#if FV_SIMD_LEVEL != 2
    {SIX(NAME, 3)},
    {SIX(NAME, 4)},
#endif
};

/* ---- blocks of pixels ------------------------------------------------------------------ */

typedef struct pixel_block {
    int64_t image, images, row, rows;
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

/* The results [begin, end) of `count` along an axis that read inside x at a tap; `offset` is where
 * result 0 reads. */
typedef struct interval {
    int64_t begin, end;
} interval;

static interval inside(const fv_conv2d_args *a, int axis, int64_t offset, int64_t count)
{
    const int64_t stride = a->stride[axis];
    interval i = {offset < 0 ? divide_up(-offset, stride) : 0,
                  a->in[axis] > offset ? divide_up(a->in[axis] - offset, stride) : 0};
    i.end = smaller(i.end, count);
    i.begin = smaller(i.begin, i.end);
    return i;
}

/* The product of one tap with `channels` channels, as many as a tile has, from `channel` of the
 * item on. */
static void add_tap(const weight_job *j, const work_item *item, const pixel_block *block,
                    int64_t channel, int64_t channels, int64_t tap)
{
    const fv_conv2d_args *a = j->args;
    const int64_t index = item->tap + tap, plane = a->in[0] * a->in[1];
    const int64_t down =
        block->row * a->stride[0] - a->pad[0] + index / a->window[1] * a->dilation[0];
    const int64_t right = index % a->window[1] * a->dilation[1] - a->pad[1];
    const interval y = inside(a, 0, down, block->rows), x = inside(a, 1, right, a->out[1]);
    if (y.begin == y.end || x.begin == x.end) return;
    const int64_t first = block->image * a->in_c + item->group * j->plan.channels + item->channel;
    pixel_tile t = {.images = block->images,
                    .rows = y.end - y.begin,
                    .cols = x.end - x.begin,
                    .a = j->x + (first + channel) * plane +
                         (y.begin * a->stride[0] + down) * a->in[1] + x.begin * a->stride[1] +
                         right,
                    .a_row = plane,
                    .a_image = a->in_c * plane,
                    .a_line = a->stride[0] * a->in[1],
                    .a_step = a->stride[1],
                    .b_image = block->rows * a->out[1] * PANEL,
                    .b_line = a->out[1] * PANEL,
                    .c_row = item->taps * PANEL};
    const int64_t pixel = y.begin * a->out[1] + x.begin;
    for (int col = 0; col < item->outputs; col += FV_TILE_COLS) {
        t.b = item->panel + pixel * PANEL + col;
        t.c = item->sums + (channel * item->taps + tap) * PANEL + col;
        const int64_t vecs = divide_up(smaller(FV_TILE_COLS, item->outputs - col), FV_VEC);
        tiles[vecs - 1][channels - 1](&t);
    }
}

/* ---- work items ------------------------------------------------------------------------ */

/* The sums of one (channel, tap) of the item start at dw. */
static void load_sums(const weight_job *j, const work_item *item)
{
    const weight_plan *p = &j->plan;
    for (int64_t o = 0; o < item->outputs; o++)
        for (int64_t c = 0; c < item->channels; c++) {
            const int64_t output = item->group * p->outputs + item->output + o;
            const float *dw =
                j->dw + (output * p->channels + item->channel + c) * p->taps + item->tap;
            for (int64_t tap = 0; tap < item->taps; tap++)
                item->sums[(c * item->taps + tap) * PANEL + o] = dw[tap];
        }
}

/* `count` consecutive elements of `outputs` rows of dw, `apart` from each other, from sums
 * [element][PANEL]. */
static void store_sums(const float *sums, int64_t count, int64_t outputs, float *dw, int64_t apart)
{
    const int64_t whole = count - count % FV_TRANSPOSE_ROWS, wide = outputs & ~(int64_t)3;
    for (int64_t k = 0; k < whole; k += FV_TRANSPOSE_ROWS)
        for (int64_t o = 0; o < wide; o += 4) {
            fv_column t[4];
            fv_transpose_floats(sums + k * PANEL + o, PANEL, t);
            for (int i = 0; i < 4; i++)
                fv_column_store(dw + (o + i) * apart + k, t[i]);
        }
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t k = o < wide ? whole : 0; k < count; k++)
            dw[o * apart + k] = sums[k * PANEL + o];
}

/* If the item has all taps, its channels are one piece of a row of dw. */
static void store_item(const weight_job *j, const work_item *item)
{
    const weight_plan *p = &j->plan;
    const int64_t apart = p->channels * p->taps;
    const int64_t output = item->group * p->outputs + item->output;
    float *dw = j->dw + output * apart + item->channel * p->taps + item->tap;
    const int64_t pieces = item->taps == p->taps ? 1 : item->channels;
    const int64_t count = item->channels / pieces * item->taps;
    for (int64_t i = 0; i < pieces; i++)
        store_sums(item->sums + i * count * PANEL, count, item->outputs, dw + i * p->taps, apart);
}

/* The panels [begin, end) of a work item, and its first one. */
typedef struct item_panels {
    int64_t begin, end;
    work_item first;
} item_panels;

static item_panels locate(const weight_job *j, int64_t index, int thread)
{
    const weight_plan *p = &j->plan;
    item_panels item;
    work_item *first = &item.first;
    first->tap = index % p->tap_items * p->item_taps;
    first->taps = smaller(p->item_taps, p->taps - first->tap);
    index /= p->tap_items;
    first->channel = index % p->channel_items * p->item_channels;
    first->channels = smaller(p->item_channels, p->channels - first->channel);
    index /= p->channel_items;
    item.begin = index % p->panel_items * p->item_panels;
    item.end = smaller(p->panels, item.begin + p->item_panels);
    first->group = index / p->panel_items;
    first->panel = j->scratch + (int64_t)thread * p->floats;
    first->sums = first->panel + p->panel_floats;
    return item;
}

static work_item panel_of(const weight_job *j, const item_panels *item, int64_t panel)
{
    work_item one = item->first;
    one.output = panel * PANEL;
    one.outputs = (int)smaller(PANEL, j->plan.outputs - one.output);
    one.sums += (panel - item->begin) * j->plan.sum_floats;
    return one;
}

static void add_block(const weight_job *j, const work_item *item, const pixel_block *block)
{
    const int64_t most = item->outputs <= FV_VEC ? NARROW_CHANNELS : CHANNELS;
    const int64_t channels = divide_up(item->channels, divide_up(item->channels, most));
    pack_gradient(j, item, block);
    for (int64_t c = 0; c < item->channels; c += channels)
        for (int64_t tap = 0; tap < item->taps; tap++)
            add_tap(j, item, block, c, smaller(channels, item->channels - c), tap);
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weight_job *j = arg;
    const fv_conv2d_args *a = j->args;
    const weight_plan *p = &j->plan;
    for (int64_t index = begin; index < end; index++) {
        const item_panels item = locate(j, index, thread);
        for (int64_t k = item.begin; k < item.end; k++) {
            const work_item panel = panel_of(j, &item, k);
            memset(panel.sums, 0, (size_t)p->sum_floats * sizeof(float));
            if (a->accumulate) load_sums(j, &panel);
        }
        for (int64_t image = 0; image < a->batch; image += p->images)
            for (int64_t row = 0; row < a->out[0]; row += p->rows) {
                const pixel_block block = {.image = image,
                                           .images = smaller(p->images, a->batch - image),
                                           .row = row,
                                           .rows = smaller(p->rows, a->out[0] - row)};
                for (int64_t k = item.begin; k < item.end; k++) {
                    const work_item panel = panel_of(j, &item, k);
                    add_block(j, &panel, &block);
                }
            }
        for (int64_t k = item.begin; k < item.end; k++) {
            const work_item panel = panel_of(j, &item, k);
            store_item(j, &panel);
        }
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
    const weight_plan *p = &j.plan;
    const int64_t items = a->groups * p->panel_items * p->channel_items * p->tap_items;
    const int64_t pixels = a->batch * a->out[0] * a->out[1];
    fv_exec_rows(exec, items, p->item_panels * p->sum_floats * (pixels + 1), run_items, &j);
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
