/*
 * Source images are first reordered to [channel][pixel][image], IMAGES at a time. A register tile
 * then has rows of weights and the images of one pixel as columns: it visits the channels and, of
 * each, the taps inside the image. Work items are (group, BLOCK pixels, rows of weights); their
 * sums [row][pixel][image] are transposed back into the result.
 */
#include "kernels/simd/conv2d_images.h"
#include "kernels/simd/conv2d_tile.h"
#include "kernels/simd/transpose.h"

enum {
    IMAGES = FV_CONV_COLS, /* 32 with AVX-512, else 16 */
    CHUNK = 64,            /* pixels reordered at a time */
    CHUNK_ROW = CHUNK + 4, /* of their copy, so that images do not evict each other */
    BLOCK = 16,
    WIDE_BLOCK = 64,   /* pixels of a work item; the latter for sums up to LONG_SUM */
    SUMS = 96 * BLOCK, /* of a work item: rows x pixels */
    LONG_SUM = 1024,
    ITEMS_PER_THREAD = 4,
    MOST_TAPS = 256,
    MOST_FLOATS = 1 << 23 /* of reordered images: 32 MiB */
};

typedef struct images_job {
    const fv_conv2d_args *args;
    bool data;
    int64_t rows, channels, taps; /* of one group */
    const int64_t *from, *to;     /* sizes of source and result */
    int64_t from_c, to_c;
    int64_t pitch; /* floats of a reordered pixel */
    int64_t block, blocks, tile_rows, item_rows, row_items;
    int64_t first; /* image */
    int images;    /* of this round */
    const float *src, *w, *bias;
    float *dst;
    float *source, *weights, *sums; /* scratch */
} images_job;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

/* ---- sizes ----------------------------------------------------------------------------- */

/* Not a multiple of a page: pixels would evict each other from the caches. */
static int64_t pitch_of(int64_t channels) { return channels * IMAGES + IMAGES; }

static int64_t source_floats(const fv_conv2d_args *a, bool data)
{
    const int64_t *size = data ? a->out : a->in;
    return (size[0] * size[1] + 3) *
           pitch_of(data ? a->out_c : a->in_c); /* whole fours of pixels */
}

bool fv_conv2d_images_fit(const fv_conv2d_args *a)
{
    const double sizes[2] = {(double)a->in[0] * (double)a->in[1] * (double)a->in_c,
                             (double)a->out[0] * (double)a->out[1] * (double)a->out_c};
    const int64_t filled = round_up(a->batch, IMAGES);
    return (filled - a->batch) * 8 <= filled && a->window[0] <= MOST_TAPS &&
           a->window[1] <= MOST_TAPS && a->window[0] * a->window[1] <= MOST_TAPS &&
           sizes[0] * IMAGES < MOST_FLOATS && sizes[1] * IMAGES < MOST_FLOATS;
}

size_t fv_conv2d_images_scratch(const fv_conv2d_args *a, bool data, int threads)
{
    const int64_t sums = (int64_t)threads * SUMS * IMAGES;
    return (size_t)(round_up(source_floats(a, data), FV_LINE) +
                    round_up(fv_conv2d_packed_floats(a, data), FV_LINE) + sums) *
           sizeof(float);
}

/* ---- taps ------------------------------------------------------------------------------ */

/* The row (column) of the source that row `at` of the result reads at `tap`; -1: none. */
static int64_t source_of(const images_job *j, int axis, int64_t at, int64_t tap)
{
    const fv_conv2d_args *a = j->args;
    int64_t from = at * a->stride[axis] - a->pad[axis] + tap * a->dilation[axis];
    if (j->data) {
        if (!fv_conv2d_reads(a, axis, at, tap)) return -1;
        from = (at + a->pad[axis] - tap * a->dilation[axis]) / a->stride[axis];
    }
    return from >= 0 && from < j->from[axis] ? from : -1;
}

typedef struct tap_list {
    int64_t source[MOST_TAPS], weight[MOST_TAPS]; /* offsets within a channel */
    int64_t count;
} tap_list;

static void list_taps(const images_job *j, int64_t row, int64_t col, tap_list *list)
{
    const int64_t *window = j->args->window;
    int64_t x[MOST_TAPS];
    for (int64_t kx = 0; kx < window[1]; kx++)
        x[kx] = source_of(j, 1, col, kx);
    list->count = 0;
    for (int64_t ky = 0; ky < window[0]; ky++) {
        const int64_t y = source_of(j, 0, row, ky);
        for (int64_t kx = 0; y >= 0 && kx < window[1]; kx++) {
            if (x[kx] < 0) continue;
            list->source[list->count] = (y * j->from[1] + x[kx]) * j->pitch;
            list->weight[list->count++] = (ky * window[1] + kx) * FV_CONV_ROWS;
        }
    }
}

/* ---- reordering ------------------------------------------------------------------------ */

/* CHUNK pixels of each image, or as many as there are; missing images become zeros. The images are
 * copied one after the other, because the same line of many images competes for one place in the
 * caches. */
static void copy_chunk(const images_job *j, const float *in, int64_t apart, int64_t pixels,
                       float copy[IMAGES][CHUNK_ROW])
{
    enum { AHEAD = 4 };
    for (int n = 0; n < j->images; n++, in += apart) {
        if (n + AHEAD < j->images)
            for (int64_t i = 0; i < pixels; i += FV_LINE)
                fv_prefetch_l1(in + AHEAD * apart + i);
        memcpy(copy[n], in, (size_t)pixels * sizeof *in);
    }
}

/* Work items are chunks of a channel of the source. */
static void reorder_source(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const images_job *j = arg;
    const int64_t area = j->from[0] * j->from[1], apart = j->from_c * area;
    const int64_t chunks = divide_up(area, CHUNK);
    float copy[IMAGES][CHUNK_ROW];
    memset(copy, 0, sizeof copy);
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item / chunks, first = item % chunks * CHUNK;
        const int64_t pixels = smaller(CHUNK, area - first);
        float *out = j->source + first * j->pitch + c * IMAGES;
        copy_chunk(j, j->src + (j->first * j->from_c + c) * area + first, apart, pixels, copy);
        for (int64_t x = 0; x < pixels; x += 4)
            for (int n = 0; n < IMAGES; n += FV_TRANSPOSE_ROWS) {
                fv_column t[4];
                fv_transpose_floats(&copy[n][x], CHUNK_ROW, t);
                for (int i = 0; i < 4; i++)
                    fv_column_store(out + (x + i) * j->pitch + n, t[i]);
            }
    }
}

/* `pixels` pixels of one channel of the result, from sums [pixel][image]. */
static void store_pixels(const images_job *j, const float *sums, float *out, int pixels)
{
    const int64_t apart = j->to_c * j->to[0] * j->to[1];
    float few[FV_TRANSPOSE_ROWS];
    for (int n = 0; n < j->images; n += 4) {
        for (int r = n + 4; r < n + 8 && r < j->images; r++)
            for (int i = 0; i < pixels; i += FV_LINE)
                fv_prefetch_l1(out + r * apart + i);
        for (int i = 0; i < pixels; i += FV_TRANSPOSE_ROWS) {
            const int count = (int)smaller(FV_TRANSPOSE_ROWS, pixels - i);
            fv_column t[4];
            fv_transpose_floats(sums + i * IMAGES + n, IMAGES, t);
            for (int r = 0; r < 4 && n + r < j->images; r++) {
                float *to = out + (n + r) * apart + i;
                fv_column_store(count == FV_TRANSPOSE_ROWS ? to : few, t[r]);
                if (count < FV_TRANSPOSE_ROWS) memcpy(to, few, (size_t)count * sizeof *few);
            }
        }
    }
}

/* ---- work items ------------------------------------------------------------------------ */

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const images_job *j = arg;
    const int64_t area = j->to[0] * j->to[1], k = j->channels * j->taps;
    float *sums = j->sums + (int64_t)thread * SUMS * IMAGES;
    static const int64_t in_order[] = {0, FV_VEC, 2 * FV_VEC, 3 * FV_VEC};
    tap_list list;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first_row = item % j->row_items * j->item_rows;
        const int64_t pixel = item / j->row_items % j->blocks * j->block;
        const int64_t group = item / j->row_items / j->blocks;
        const int64_t rows = smaller(j->item_rows, j->rows - first_row);
        const int pixels = (int)smaller(j->block, area - pixel);
        const float *weights =
            j->weights +
            (group * fv_conv2d_packed_rows(j->rows) + first_row / j->tile_rows * FV_CONV_ROWS) * k;
        fv_conv2d_tile t = {.channels = j->channels,
                            .from = list.source,
                            .with = list.weight,
                            .source_channel = IMAGES,
                            .weight_channel = j->taps * FV_CONV_ROWS,
                            .weight_row = 1,
                            .source = j->source + group * j->channels * IMAGES,
                            .piece_from = in_order,
                            .piece_to = in_order,
                            .out_row = j->block * IMAGES};
        for (int p = 0; p < pixels; p++) {
            list_taps(j, (pixel + p) / j->to[1], (pixel + p) % j->to[1], &list);
            t.taps = list.count;
            for (int64_t row = 0; row < rows; row += j->tile_rows) {
                t.weights = weights + row / j->tile_rows * FV_CONV_ROWS * k;
                t.bias = j->bias ? j->bias + group * j->rows + first_row + row : NULL;
                t.out = sums + row * t.out_row + p * IMAGES;
                fv_conv2d_tile_run(&t, (int)smaller(j->tile_rows, rows - row), FV_CONV_VECS, 1);
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            const int64_t c = group * j->rows + first_row + row;
            store_pixels(j, sums + row * t.out_row,
                         j->dst + (j->first * j->to_c + c) * area + pixel, pixels);
        }
    }
}

static void choose_items(const fv_exec *exec, images_job *j)
{
    const int64_t wanted = (int64_t)ITEMS_PER_THREAD * exec->threads;
    const int64_t area = j->to[0] * j->to[1];
    j->block = area >= WIDE_BLOCK && j->channels * j->taps <= LONG_SUM ? WIDE_BLOCK : BLOCK;
    j->blocks = divide_up(area, j->block);
    j->tile_rows = fv_conv2d_tile_rows(j->rows);
    j->item_rows = SUMS / j->block / j->tile_rows * j->tile_rows;
    while (exec->threads > 1 && j->item_rows > j->tile_rows &&
           j->args->groups * j->blocks * divide_up(j->rows, j->item_rows) < wanted)
        j->item_rows = round_up(j->item_rows / 2, j->tile_rows);
    j->row_items = divide_up(j->rows, j->item_rows);
}

void fv_conv2d_images(const fv_exec *exec, const fv_conv2d_args *a, bool data, void *const *ptr)
{
    images_job j = {.args = a,
                    .data = data,
                    .rows = (data ? a->in_c : a->out_c) / a->groups,
                    .channels = (data ? a->out_c : a->in_c) / a->groups,
                    .taps = a->window[0] * a->window[1],
                    .from = data ? a->out : a->in,
                    .to = data ? a->in : a->out,
                    .from_c = data ? a->out_c : a->in_c,
                    .to_c = data ? a->in_c : a->out_c,
                    .dst = ptr[0],
                    .src = ptr[1],
                    .w = ptr[2],
                    .bias = ptr[3],
                    .source = exec->scratch};
    j.pitch = pitch_of(j.from_c);
    j.weights = j.source + round_up(source_floats(a, data), FV_LINE);
    j.sums = j.weights + round_up(fv_conv2d_packed_floats(a, data), FV_LINE);
    choose_items(exec, &j);
    const int64_t k = j.channels * j.taps;
    fv_conv2d_pack_weights(exec, a, data, j.w, j.weights);
    for (j.first = 0; j.first < a->batch; j.first += IMAGES) {
        j.images = (int)smaller(IMAGES, a->batch - j.first);
        fv_exec_rows(exec, j.from_c * divide_up(j.from[0] * j.from[1], CHUNK), CHUNK * IMAGES,
                     reorder_source, &j);
        fv_exec_rows(exec, a->groups * j.blocks * j.row_items, j.item_rows * j.block * (k + 1) * 2,
                     run_items, &j);
    }
}
