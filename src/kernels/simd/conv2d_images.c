/*
 * Source images are first reordered to [channel][pixel][image], IMAGES at a time. A register tile
 * then has rows of weights and the images of one pixel as columns: it visits the channels and, of
 * each, the taps inside the image. Work items are (group, BLOCK pixels, rows of weights); their
 * sums [row][pixel][image] are transposed back into the result.
 */
#include "kernels/simd/conv2d_images.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/transpose.h"

enum {
    SUM_VECS = FV_SIMD_LEVEL == 1 ? 4 : 2,
    IMAGES = SUM_VECS * FV_VEC, /* 32 with AVX-512, else 16 */
    TILE = FV_GEMM_TILE_ROWS,
    TILE_ROWS = FV_SIMD_LEVEL == 3 ? 2 * TILE : TILE, /* 24, 12 and 24 registers of sums */
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
    int64_t pitch;            /* floats of a reordered channel */
    unsigned columns_read[2]; /* of the source, column x: bit x % 4 of entry x % 8 / 4 */
    int64_t block, blocks, item_rows, row_items;
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

/* Not a multiple of a page: channels would evict each other from the caches. */
static int64_t pitch_of(const int64_t size[2]) { return size[0] * size[1] * IMAGES + FV_LINE; }

static int64_t source_floats(const fv_conv2d_args *a, bool data)
{
    return data ? a->out_c * pitch_of(a->out) : a->in_c * pitch_of(a->in);
}

static int64_t weight_floats(const fv_conv2d_args *a, bool data)
{
    const int64_t rows = (data ? a->in_c : a->out_c) / a->groups;
    const int64_t channels = (data ? a->out_c : a->in_c) / a->groups;
    return a->groups * round_up(rows, TILE) * channels * a->window[0] * a->window[1];
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
                    round_up(weight_floats(a, data), FV_LINE) + sums) *
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

/* Whether any result reads this row (column) of the source. */
static bool is_read(const images_job *j, int axis, int64_t from)
{
    if (j->data) return true;
    for (int64_t tap = 0; tap < j->args->window[axis]; tap++)
        if (fv_conv2d_reads(j->args, axis, from, tap)) return true;
    return false;
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
            list->source[list->count] = (y * j->from[1] + x[kx]) * IMAGES;
            list->weight[list->count++] = (ky * window[1] + kx) * TILE;
        }
    }
}

/* ---- tile ------------------------------------------------------------------------------ */

typedef struct image_tile {
    const tap_list *taps;
    int64_t channels, source_channel, weight_channel; /* how many, and floats between them */
    const float *source, *weights, *bias;             /* bias NULL: none */
    int64_t next_rows; /* from the weights of rows 0..5 to those of rows 6..11 */
    float *sums;
    int64_t sums_row;
} image_tile;

FV_INSTANCE void run_tile(const image_tile *t, const int rows)
{
    fv_vec sum[TILE_ROWS][SUM_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < SUM_VECS; v++)
            sum[i][v] = fv_vec_zero();
    }
    const float *source = t->source, *weights = t->weights, *lower = weights + t->next_rows;
    const int64_t *from = t->taps->source, *with = t->taps->weight, count = t->taps->count;
    for (int64_t c = 0; c < t->channels; c++) {
        for (int64_t k = 0; k < count; k++) {
            const float *b = source + from[k], *a = weights + with[k], *a6 = lower + with[k];
            fv_vec row[SUM_VECS];
            FV_UNROLL
            for (int v = 0; v < SUM_VECS; v++)
                row[v] = fv_vec_load(b + v * FV_VEC);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                const fv_vec x = fv_vec_set(i < TILE ? a[i] : a6[i - TILE]);
                FV_UNROLL
                for (int v = 0; v < SUM_VECS; v++)
                    sum[i][v] = fv_vec_fma(x, row[v], sum[i][v]);
            }
        }
        source += t->source_channel;
        weights += t->weight_channel;
        lower += t->weight_channel;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        const fv_vec bias = fv_vec_set(t->bias ? t->bias[i] : 0), one = fv_vec_set(1);
        FV_UNROLL
        for (int v = 0; v < SUM_VECS; v++) {
            if (t->bias) sum[i][v] = fv_vec_fma(one, bias, sum[i][v]);
            fv_vec_store(t->sums + i * t->sums_row + v * FV_VEC, sum[i][v]);
        }
    }
}

typedef void (*tile_fn)(const image_tile *t);

static void tile_1(const image_tile *t) { run_tile(t, 1); }
static void tile_2(const image_tile *t) { run_tile(t, 2); }
static void tile_3(const image_tile *t) { run_tile(t, 3); }
static void tile_4(const image_tile *t) { run_tile(t, 4); }
static void tile_5(const image_tile *t) { run_tile(t, 5); }
static void tile_6(const image_tile *t) { run_tile(t, 6); }
#if FV_SIMD_LEVEL == 3
static void tile_7(const image_tile *t) { run_tile(t, 7); }
static void tile_8(const image_tile *t) { run_tile(t, 8); }
static void tile_9(const image_tile *t) { run_tile(t, 9); }
static void tile_10(const image_tile *t) { run_tile(t, 10); }
static void tile_11(const image_tile *t) { run_tile(t, 11); }
static void tile_12(const image_tile *t) { run_tile(t, 12); }
#endif
static const tile_fn tiles[TILE_ROWS] = {
    tile_1, tile_2, tile_3, tile_4,  tile_5,  tile_6,
#if FV_SIMD_LEVEL == 3
    tile_7, tile_8, tile_9, tile_10, tile_11, tile_12,
#endif
};

/* ---- reordering ------------------------------------------------------------------------ */

/* `count` pixels, 1 to 4, of each image; missing images become zeros. */
static void reorder_few(const images_job *j, const float *in, int64_t apart, int count, float *out)
{
    for (int i = 0; i < count; i++)
        for (int n = 0; n < IMAGES; n++)
            out[i * IMAGES + n] = n < j->images ? in[n * apart + i] : 0;
}

/* Four pixels of each image; of them only those whose bit is set in `wanted`. */
static void reorder_four(const float *in, int64_t apart, unsigned wanted, float *out)
{
    fv_column t[4];
    fv_transpose_floats(in, apart, t);
    for (int i = 0; i < 4; i++)
        if (wanted >> i & 1) fv_column_store(out + i * IMAGES, t[i]);
}

/* Work items are rows of a channel of the source. A line of the cache is read whole before the next
 * image, because the same line of many images competes for one place in the cache. */
static void reorder_source(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const images_job *j = arg;
    const int64_t width = j->from[1], plane = j->from[0] * width, apart = j->from_c * plane;
    const int64_t ahead = j->data ? width : width * j->args->stride[0];
    for (int64_t item = begin; item < end; item++) {
        const int64_t c = item / j->from[0], y = item % j->from[0];
        if (!is_read(j, 0, y)) continue;
        const float *in = j->src + (j->first * j->from_c + c) * plane + y * width;
        float *out = j->source + c * j->pitch + y * width * IMAGES;
        const int64_t whole = j->images == IMAGES ? width & ~(int64_t)3 : 0;
        for (int64_t line = 0; line < whole; line += FV_LINE)
            for (int n = 0; n < IMAGES; n += FV_TRANSPOSE_ROWS) {
                for (int i = 0; i < FV_TRANSPOSE_ROWS; i++)
                    fv_prefetch_l1(in + (n + i) * apart + line + ahead);
                for (int64_t x = line; x < smaller(whole, line + FV_LINE); x += 4)
                    reorder_four(in + n * apart + x, apart, j->columns_read[x % 8 / 4],
                                 out + x * IMAGES + n);
            }
        for (int64_t x = whole; x < width; x += 4)
            reorder_few(j, in + x, apart, (int)smaller(4, width - x), out + x * IMAGES);
    }
}

/* Weights [group][row tile][channel][tap][TILE]. Work items are row tiles. */
static void pack_weights(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const images_job *j = arg;
    const int64_t tiles_of_group = divide_up(j->rows, TILE), k = j->channels * j->taps;
    for (int64_t item = begin; item < end; item++) {
        const int64_t group = item / tiles_of_group, row = item % tiles_of_group * TILE;
        const int64_t rows = smaller(TILE, j->rows - row);
        float *out = j->weights + item * k * TILE;
        if (!j->data) {
            fv_gemm_pack_a(rows, k, j->w + (group * j->rows + row) * k, k, 1, out);
            continue;
        }
        for (int64_t c = 0; c < j->channels; c++, out += j->taps * TILE) {
            const float *w = j->w + ((group * j->channels + c) * j->rows + row) * j->taps;
            for (int64_t r = 0; r < rows; r++)
                for (int64_t tap = 0; tap < j->taps; tap++)
                    out[tap * TILE + r] = w[r * j->taps + tap];
        }
    }
}

/* `pixels` pixels of one channel of the result, from sums [pixel][image]. */
static void store_pixels(const images_job *j, const float *sums, float *out, int pixels)
{
    const int64_t apart = j->to_c * j->to[0] * j->to[1];
    float few[FV_TRANSPOSE_ROWS];
    for (int n = 0; n < j->images; n += 4)
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

/* ---- work items ------------------------------------------------------------------------ */

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const images_job *j = arg;
    const int64_t area = j->to[0] * j->to[1], k = j->channels * j->taps;
    float *sums = j->sums + (int64_t)thread * SUMS * IMAGES;
    tap_list list;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first_row = item % j->row_items * j->item_rows;
        const int64_t pixel = item / j->row_items % j->blocks * j->block;
        const int64_t group = item / j->row_items / j->blocks;
        const int64_t rows = smaller(j->item_rows, j->rows - first_row);
        const int pixels = (int)smaller(j->block, area - pixel);
        const float *weights = j->weights + (group * round_up(j->rows, TILE) + first_row) * k;
        image_tile t = {.taps = &list,
                        .channels = j->channels,
                        .source_channel = j->pitch,
                        .weight_channel = j->taps * TILE,
                        .source = j->source + group * j->channels * j->pitch,
                        .next_rows = k * TILE,
                        .sums_row = j->block * IMAGES};
        for (int p = 0; p < pixels; p++) {
            list_taps(j, (pixel + p) / j->to[1], (pixel + p) % j->to[1], &list);
            for (int64_t row = 0; row < rows; row += TILE_ROWS) {
                t.weights = weights + row * k;
                t.bias = j->bias ? j->bias + group * j->rows + first_row + row : NULL;
                t.sums = sums + row * t.sums_row + p * IMAGES;
                tiles[smaller(TILE_ROWS, rows - row) - 1](&t);
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            const int64_t c = group * j->rows + first_row + row;
            store_pixels(j, sums + row * t.sums_row,
                         j->dst + (j->first * j->to_c + c) * area + pixel, pixels);
        }
    }
}

/* Strides that divide 8 leave out the same columns of each eight. */
static void find_columns(images_job *j)
{
    j->columns_read[0] = j->columns_read[1] = 0xf;
    if (8 % j->args->stride[1] != 0) return;
    for (int x = 0; x < 8; x++)
        if (!is_read(j, 1, x)) j->columns_read[x / 4] &= ~(1u << x % 4);
}

static void choose_items(const fv_exec *exec, images_job *j)
{
    const int64_t wanted = (int64_t)ITEMS_PER_THREAD * exec->threads;
    const int64_t area = j->to[0] * j->to[1];
    j->block = area >= WIDE_BLOCK && j->channels * j->taps <= LONG_SUM ? WIDE_BLOCK : BLOCK;
    j->blocks = divide_up(area, j->block);
    j->item_rows = SUMS / j->block;
    while (exec->threads > 1 && j->item_rows > TILE_ROWS &&
           j->args->groups * j->blocks * divide_up(j->rows, j->item_rows) < wanted)
        j->item_rows = round_up(j->item_rows / 2, TILE_ROWS);
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
    j.pitch = pitch_of(j.from);
    j.weights = j.source + round_up(source_floats(a, data), FV_LINE);
    j.sums = j.weights + round_up(weight_floats(a, data), FV_LINE);
    choose_items(exec, &j);
    find_columns(&j);
    const int64_t k = j.channels * j.taps;
    fv_exec_rows(exec, a->groups * divide_up(j.rows, TILE), k * TILE, pack_weights, &j);
    for (j.first = 0; j.first < a->batch; j.first += IMAGES) {
        j.images = (int)smaller(IMAGES, a->batch - j.first);
        fv_exec_rows(exec, j.from_c * j.from[0], j.from[1] * IMAGES, reorder_source, &j);
        fv_exec_rows(exec, a->groups * j.blocks * j.row_items, j.item_rows * j.block * (k + 1) * 2,
                     run_items, &j);
    }
}
