/*
 * Convolutions with pixels as lanes. The source is copied once, with zeros around it and with its
 * columns sorted by their remainder modulo the stride: every tap is then a fixed distance away and
 * reads neighbours. Results are cut into pieces of a row; one, two or four pieces fill a vector, so
 * that narrow images use all lanes. The register tile (conv2d_tile.h) multiplies weights with
 * pieces and stores sums in place. Large sources are copied in rounds: a few images, or a band of
 * rows. Work items are (group, rows of weights, tiles) and own their results.
 *
 * The transposed convolution is the same with other taps: pixels of the result whose positions are
 * equal modulo the stride read the same taps, so that each such phase is one product over a source
 * read without steps.
 */
#include "kernels/image.h"
#include "kernels/simd/conv2d_copy.h"
#include "kernels/simd/conv2d_images.h"
#include "kernels/simd/conv2d_plan.h"
#include "kernels/simd/conv2d_tile.h"
#include "kernels/simd/pairs.h"
#include "kernels/simd/register.h"

enum {
    PAGE_FLOATS = 1024, /* rows of weights so far apart evict each other from L1 */
    ITEM_TILES = 8,
    ITEM_ROWS = 192,
    ITEMS_PER_THREAD = 4,
    TILE_PIECES = FV_CONV_VECS * FV_CONV_MOST_PIECES
};

typedef struct conv_job {
    const fv_conv2d_plan *p;
    fv_conv2d_phase
        at[2]; /* two: neighbouring columns of a result with stride 2, stored together */
    int phases;
    int64_t first_image, images, first_row, rows; /* of the round, in the grid */
    int64_t above, below; /* rows without taps: above a phase's first row, below each */
    int64_t tiles, item_tiles, tile_items, item_rows, row_items;
    int tile_rows;
    const float *src, *w, *bias;
    float *dst, *source;
    int64_t *from[2], *with[2]; /* of each phase's taps */
} conv_job;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

/* ---- tiles ----------------------------------------------------------------------------- */

/* The pieces of one tile, and the rows of the window that are inside the image for any of them. */
typedef struct tile_place {
    int64_t from[TILE_PIECES], to[TILE_PIECES];
    int64_t above[TILE_PIECES], below[TILE_PIECES]; /* rows to fill beside the piece */
    int length[TILE_PIECES], cols[TILE_PIECES];     /* results; columns from first to last phase */
    int count;                                      /* of pieces */
    bool whole;
    int64_t tap_begin, tap_end;
} tile_place;

/* Extends the range of the window's rows by those inside the image at row `row` of the grid. */
static void extend_taps(const conv_job *j, int64_t row, tile_place *t)
{
    const fv_conv2d_plan *p = j->p;
    for (int64_t tap = 0; tap < j->at[0].taps[0]; tap++) {
        const int64_t y = row * p->step[0] + j->at[0].offset[0] + tap * j->at[0].tap_offset[0];
        if (y < 0 || y >= p->from[0]) continue;
        t->tap_begin = smaller(t->tap_begin, tap);
        t->tap_end = larger(t->tap_end, tap + 1);
    }
}

static void place_tile(const conv_job *j, int64_t tile, tile_place *t)
{
    const fv_conv2d_plan *p = j->p;
    const int64_t in_tile = (int64_t)FV_CONV_VECS * p->pieces, in_row = p->row_pieces;
    const int64_t total = j->images * j->rows * in_row, area = p->to[0] * p->to[1];
    int64_t at = tile * in_tile % in_row, image = tile * in_tile / in_row % j->images;
    int64_t row = tile * in_tile / in_row / j->images;
    t->count = (int)smaller(in_tile, total - tile * in_tile);
    t->whole = p->apart[1] == 1;
    t->tap_begin = j->at[0].taps[0];
    t->tap_end = 0;
    extend_taps(j, j->first_row + row, t);
    for (int i = 0; i < t->count; i++) {
        const int64_t y = j->at[0].first[0] + (j->first_row + row) * p->apart[0];
        const int64_t col = at * p->piece;
        t->from[i] = image * p->image + row * (p->step[0] / p->skip[0]) * p->row + col;
        t->to[i] = (j->first_image + image) * p->to_c * area + y * p->to[1] + j->at[0].first[1] +
                   col * p->apart[1];
        t->above[i] = j->first_row + row == 0 ? j->above : 0;
        t->below[i] = smaller(j->below, p->to[0] - 1 - y);
        t->length[i] = (int)smaller(p->piece, j->at[0].grid[1] - col);
        t->cols[i] = (int)smaller(t->length[i] * p->apart[1],
                                  p->to[1] - j->at[0].first[1] - col * p->apart[1]);
        if (t->length[i] < p->piece) t->whole = false;
        if (++at < in_row) continue;
        at = 0;
        if (++image < j->images) continue;
        image = 0;
        row++;
        if (i + 1 < t->count) extend_taps(j, j->first_row + row, t);
    }
    t->tap_begin = smaller(t->tap_begin, t->tap_end);
    /* The last vector of the last tile: its missing pieces repeat the first one. */
    for (int i = t->count; i % p->pieces != 0; i++) {
        t->from[i] = t->from[0];
        t->whole = false;
    }
}

/* Sums of one row [piece] to their pixels. */
static void store_pieces(const fv_conv2d_plan *p, const tile_place *t, const float *sums,
                         float *dst)
{
    const int64_t apart = p->apart[1];
    for (int i = 0; i < t->count; i++, sums += p->piece) {
        float *out = dst + t->to[i];
        for (int k = 0; k < t->length[i]; k++)
            out[k * apart] = sums[k];
    }
}

/* The same for two phases; the second one has as many results as the first, or one less. Rows that
 * no tap reaches are filled beside their neighbour: one pass writes whole planes. */
static void store_pairs(const conv_job *j, const tile_place *t, const float *even, const float *odd,
                        fv_vec unread, float *dst)
{
    const int64_t piece = j->p->piece, width = j->p->to[1];
    for (int i = 0; i < t->count; i++, even += piece, odd += piece) {
        float *out = dst + t->to[i];
        const int count = t->cols[i] / 2;
        if (count == FV_LANES)
            v_store_pairs(out, FV_LANES, v_load(even, FV_LANES), v_load(odd, FV_LANES));
        else if (count > 0)
            v_store_pairs(out, count, v_load(even, count), v_load(odd, count));
        if (count < t->length[i]) out[2 * count] = even[count];
        for (int64_t row = -t->above[i]; row <= t->below[i]; row++)
            if (row != 0) fv_conv2d_fill(out + row * width, t->cols[i], unread);
    }
}

static const int64_t in_order[3][TILE_PIECES] = {
    {0, FV_VEC, 2 * FV_VEC, 3 * FV_VEC},
#if FV_SIMD_LEVEL > 1
    {0, FV_VEC / 2, FV_VEC, 3 * FV_VEC / 2},
#endif
#if FV_SIMD_LEVEL == 3
    {0, 4, 8, 12, 16, 20, 24, 28},
#endif
};

typedef float tile_sums[2][FV_CONV_ROWS * FV_CONV_COLS]; /* of each phase */

/* Phases without taps have the same sums in all tiles of a row tile. */
static void sum_nothing(const conv_job *j, fv_conv2d_tile *t, int rows, tile_sums sums)
{
    t->channels = t->taps = 0;
    t->piece_from = t->piece_to = in_order[j->p->pieces / 2];
    t->out_row = FV_CONV_COLS;
    for (int i = 0; i < j->phases; i++) {
        t->out = sums[i];
        t->from = j->from[i];
        t->with = j->with[i];
        if (j->at[i].taps[1] == 0) fv_conv2d_tile_run(t, rows, FV_CONV_VECS, j->p->pieces);
    }
}

/* One tile of one row tile: its sums, in place or by way of a buffer. */
static void run_one(const conv_job *j, fv_conv2d_tile *t, const tile_place *at, int rows,
                    tile_sums sums, float *dst)
{
    const fv_conv2d_plan *p = j->p;
    const int64_t area = p->to[0] * p->to[1];
    t->piece_from = at->from;
    t->piece_to = at->whole ? at->to : in_order[p->pieces / 2];
    t->out_row = at->whole ? area : FV_CONV_COLS;
    for (int r = 0; r < rows && !at->whole; r++) /* as the tile does if it stores in place */
        for (int i = 0; i < at->count; i++)
            for (int64_t x = 0; x < at->cols[i]; x += FV_LINE)
                fv_prefetch_l1(dst + r * area + at->to[i] + x);
    for (int i = 0; i < j->phases; i++) {
        const int64_t cols = j->at[i].taps[1];
        if (cols == 0) continue;
        t->from = j->from[i] + at->tap_begin * cols;
        t->with = j->with[i] + at->tap_begin * cols;
        t->taps = (at->tap_end - at->tap_begin) * cols;
        t->channels = t->taps > 0 ? p->channels : 0;
        t->out = at->whole ? dst : sums[i];
        fv_conv2d_tile_run(t, rows, (int)divide_up(at->count, p->pieces), p->pieces);
    }
    for (int r = 0; r < rows && !at->whole; r++, dst += area)
        if (j->phases == 2)
            store_pairs(j, at, sums[0] + r * FV_CONV_COLS, sums[1] + r * FV_CONV_COLS,
                        fv_vec_set(t->bias ? t->bias[r] + 0.0f : 0.0f), dst);
        else
            store_pieces(p, at, sums[0] + r * FV_CONV_COLS, dst);
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv_job *j = arg;
    const fv_conv2d_plan *p = j->p;
    const int64_t area = p->to[0] * p->to[1], k = p->channels * p->taps;
    tile_place places[ITEM_TILES];
    tile_sums sums;
    fv_conv2d_tile t = {.source_channel = p->channel,
                        .weight_channel = p->packed ? p->taps * FV_CONV_ROWS
                                          : p->data ? p->rows * p->taps
                                                    : p->taps,
                        .weight_row = p->packed ? 1
                                      : p->data ? p->taps
                                                : k};
    for (int64_t item = begin; item < end; item++) {
        const int64_t tile = item % j->tile_items * j->item_tiles;
        const int64_t first_row = item / j->tile_items % j->row_items * j->item_rows;
        const int64_t group = item / j->tile_items / j->row_items;
        const int64_t last_row = smaller(p->rows, first_row + j->item_rows);
        const int tiles = (int)smaller(j->item_tiles, j->tiles - tile);
        for (int i = 0; i < tiles; i++)
            place_tile(j, tile + i, &places[i]);
        const int64_t group_rows = p->packed ? fv_conv2d_packed_rows(p->rows) : p->rows;
        for (int64_t row = first_row; row < last_row; row += j->tile_rows) {
            const int64_t channel = group * p->rows + row;
            const int rows = (int)smaller(j->tile_rows, last_row - row);
            t.weights = j->w + group * group_rows * k +
                        (p->packed ? row / j->tile_rows * FV_CONV_ROWS * k : row * t.weight_row);
            t.bias = j->bias ? j->bias + channel : NULL;
            t.source = j->source + group * p->channels * p->channel;
            sum_nothing(j, &t, rows, sums);
            for (int i = 0; i < tiles; i++)
                run_one(j, &t, &places[i], rows, sums, j->dst + channel * area);
        }
    }
}

/* ---- one round ------------------------------------------------------------ */

static void list_taps(const conv_job *j, int which)
{
    const fv_conv2d_plan *p = j->p;
    const fv_conv2d_phase *at = &j->at[which];
    const int64_t scale = p->packed ? FV_CONV_ROWS : 1, step = p->step[1] / p->skip[1];
    int64_t k = 0;
    for (int64_t a = 0; a < at->taps[0]; a++)
        for (int64_t b = 0; b < at->taps[1]; b++, k++) {
            const int64_t y = (at->offset[0] + a * at->tap_offset[0] - p->low[0]) / p->skip[0];
            const int64_t x = (at->offset[1] + b * at->tap_offset[1] - p->low[1]) / p->skip[1];
            j->from[which][k] = y * p->row + x % step * p->cols + x / step;
            j->with[which][k] = scale * ((at->tap[0] + a * at->tap_step[0]) * p->args.window[1] +
                                         at->tap[1] + b * at->tap_step[1]);
        }
}

/* The rows of the round, of a pair of phases, if no tap reaches any row of the result: their bias,
 * or zeros. Work items are planes (image, channel) of the result. */
static void fill_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const conv_job *j = arg;
    const fv_conv2d_plan *p = j->p;
    const int64_t width = p->to[1], area = p->to[0] * width;
    for (int64_t item = begin; item < end; item++) {
        const fv_vec value = fv_vec_set(j->bias ? j->bias[item % p->to_c] + 0.0f : 0.0f);
        float *out = j->dst + (j->first_image * p->to_c + item) * area +
                     (j->at[0].first[0] + j->first_row * p->apart[0]) * width;
        for (int64_t row = 0; row < j->rows; row++, out += p->apart[0] * width)
            fv_conv2d_fill(out, width, value);
    }
}

static void run_phases(const fv_exec *exec, conv_job *j)
{
    const fv_conv2d_plan *p = j->p;
    const int64_t groups = p->args.groups, in_tile = (int64_t)FV_CONV_VECS * p->pieces;
    j->rows = smaller(j->rows, j->at[0].grid[0] - j->first_row);
    if (j->rows <= 0 || j->at[0].grid[1] == 0) return;
    if (j->phases == 2 && j->at[0].taps[0] == 0) {
        if (j->above < fv_conv2d_phases(p, 0)) return; /* filled beside those with taps */
        fv_exec_rows(exec, j->images * p->to_c, j->rows * p->to[1], fill_rows, j);
        return;
    }
    for (int i = 0; i < j->phases; i++)
        list_taps(j, i);
    j->tiles = divide_up(j->images * j->rows * p->row_pieces, in_tile);
    const int64_t wanted = exec->threads > 1 ? (int64_t)ITEMS_PER_THREAD * exec->threads : 1;
    j->item_tiles = ITEM_TILES;
    j->item_rows = ITEM_ROWS / j->tile_rows * j->tile_rows;
    while (j->item_tiles > 1 &&
           groups * divide_up(p->rows, j->item_rows) * divide_up(j->tiles, j->item_tiles) < wanted)
        j->item_tiles /= 2;
    j->tile_items = divide_up(j->tiles, j->item_tiles);
    while (j->item_rows > j->tile_rows &&
           groups * divide_up(p->rows, j->item_rows) * j->tile_items < wanted)
        j->item_rows = round_up(j->item_rows / 2, j->tile_rows);
    j->row_items = divide_up(p->rows, j->item_rows);
    fv_exec_rows(exec, groups * j->row_items * j->tile_items,
                 j->item_rows * j->item_tiles * FV_CONV_COLS *
                     (p->channels * j->at[0].taps[0] * j->at[0].taps[1] + 1),
                 run_items, j);
}

/* The first of the row phases from `y` on that has taps; their number: none. */
static int64_t next_reached(const fv_conv2d_plan *p, int64_t y)
{
    const int64_t end = fv_conv2d_phases(p, 0);
    while (y < end && fv_conv2d_phase_at(p, y, 0).taps[0] == 0)
        y++;
    return y;
}

static void run_round(const fv_exec *exec, conv_job *j)
{
    const fv_conv2d_plan *p = j->p;
    const int64_t rows = j->rows, first = next_reached(p, 0);
    if (!p->in_place)
        fv_conv2d_copy_source(
            exec, &(fv_conv2d_copy){p, j->src, j->source, j->first_image, j->first_row, rows},
            j->images);
    for (int64_t y = 0; y < fv_conv2d_phases(p, 0); y++)
        for (int64_t x = 0; x < fv_conv2d_phases(p, 1); x += j->phases) {
            const int64_t next = next_reached(p, y + 1);
            j->above = y <= first ? first : 0;
            j->below = (next < fv_conv2d_phases(p, 0) ? next : p->apart[0] + first) - y - 1;
            for (int i = 0; i < j->phases; i++)
                j->at[i] = fv_conv2d_phase_at(p, y, x + i);
            j->rows = rows;
            run_phases(exec, j);
        }
}

static void run_plan(const fv_exec *exec, const fv_conv2d_plan *p, void *const *ptr)
{
    float *scratch = exec->scratch, *weights = scratch + p->source_floats;
    conv_job j = {.p = p,
                  .dst = ptr[0],
                  .src = ptr[1],
                  .w = p->packed ? weights : ptr[2],
                  .bias = ptr[3],
                  .source = p->in_place ? ptr[1] : scratch,
                  .tile_rows = fv_conv2d_tile_rows(p->rows)};
    j.phases = p->data && p->apart[1] == 2 && p->to[1] > 1 ? 2 : 1;
    for (int i = 0; i < j.phases; i++) {
        j.from[i] = (int64_t *)(weights + p->weight_floats) + 2 * i * p->taps;
        j.with[i] = j.from[i] + p->taps;
    }
    /* Six rows of weights share a set of L1 with room for the source. */
    if (!p->packed && !p->data && p->channels * p->taps % PAGE_FLOATS == 0) j.tile_rows = 6;
    if (p->packed) fv_conv2d_pack_weights(exec, &p->args, p->data, ptr[2], weights);
    for (int64_t image = 0; image < p->args.batch; image += p->images)
        for (int64_t row = 0; row < p->grid[0]; row += p->band) {
            j.first_image = image;
            j.images = smaller(p->images, p->args.batch - image);
            j.first_row = row;
            j.rows = smaller(p->band, p->grid[0] - row);
            if (p->in_place) j.source = (float *)ptr[1] + image * p->image;
            run_round(exec, &j);
        }
}

/* ---- the two kernels ------------------------------------------------------------------- */

/* Images as lanes leave out every product with a zero outside the image, but reorder source and
 * result: that pays for long sums over narrow images. */
static bool images_pay(const fv_conv2d_plan *p)
{
    enum { NARROW = 16, SHORT_SUM = 256 };
    return p->grid[1] < NARROW && p->channels * p->taps > SHORT_SUM &&
           fv_conv2d_images_fit(&p->args);
}

static void run(const fv_exec *exec, void *const *ptr, const fv_conv2d_args *a, bool data)
{
    const fv_conv2d_plan p = fv_conv2d_make_plan(a, data);
    if (images_pay(&p))
        fv_conv2d_images(exec, a, data, ptr);
    else if (p.fits)
        run_plan(exec, &p, ptr);
    else if (data)
        fv_ref_conv2d_data_f32(exec, ptr, a);
    else
        fv_ref_conv2d_f32(exec, ptr, a);
}

static void conv2d(const fv_exec *exec, void *const *ptr, const void *args)
{
    run(exec, ptr, args, false);
}

static void conv2d_data(const fv_exec *exec, void *const *ptr, const void *args)
{
    run(exec, ptr, args, true);
}

static size_t scratch_of(const fv_conv2d_args *a, bool data, int threads)
{
    const fv_conv2d_plan p = fv_conv2d_make_plan(a, data);
    if (images_pay(&p)) return fv_conv2d_images_scratch(a, data, threads);
    return p.fits ? (size_t)(p.source_floats + p.weight_floats + p.list_floats) * sizeof(float) : 0;
}

static size_t scratch_bytes(const void *args, int threads)
{
    return scratch_of(args, false, threads);
}

static size_t data_scratch_bytes(const void *args, int threads)
{
    return scratch_of(args, true, threads);
}

void fv_simd_conv2d_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_CONV2D][FV_F32] = conv2d;
    t->fn[FV_KERNEL_CONV2D_DATA][FV_F32] = conv2d_data;
    t->scratch[FV_KERNEL_CONV2D] = scratch_bytes;
    t->scratch[FV_KERNEL_CONV2D_DATA] = data_scratch_bytes;
    fv_simd_conv2d_weight_register(t);
}
