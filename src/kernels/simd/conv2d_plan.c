/* The plan of a convolution with pixels as lanes. */
#include "kernels/simd/conv2d_plan.h"
#include "kernels/simd/conv2d_tile.h"

enum {
    ROUND_FLOATS = 1 << 17, /* of a copied source, if more than one row of results fits */
    SHORT_ROUND = 1 << 15,  /* if the weights stay close, which each round reads again */
    CLOSE_WEIGHTS = 1 << 14,
    NEAR_FLOATS = 256,     /* channels so far apart evict each other from L1 */
    MOST_FLOATS = 1 << 24, /* beyond, the reference kernel runs */
    PACK_PIXELS = 4096     /* from so many results on, packing the weights pays */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

/* ---- phases ---------------------------------------------------------------------------- */

static fv_conv2d_phase whole_phase(const fv_conv2d_args *a)
{
    return (fv_conv2d_phase){.grid = {a->out[0], a->out[1]},
                             .tap_step = {1, 1},
                             .taps = {a->window[0], a->window[1]},
                             .offset = {-a->pad[0], -a->pad[1]},
                             .tap_offset = {a->dilation[0], a->dilation[1]}};
}

/* Fills in the taps of a transposed phase along one axis, and the number of its results. */
static void find_taps(const fv_conv2d_args *a, fv_conv2d_phase *p, int axis, int64_t first)
{
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

/* The number of phases along an axis. */
int64_t fv_conv2d_phases(const fv_conv2d_plan *p, int axis)
{
    return p->data ? smaller(p->args.stride[axis], p->args.in[axis]) : 1;
}

fv_conv2d_phase fv_conv2d_phase_at(const fv_conv2d_plan *p, int64_t row, int64_t col)
{
    if (!p->data) return whole_phase(&p->args);
    fv_conv2d_phase at;
    find_taps(&p->args, &at, 0, row);
    find_taps(&p->args, &at, 1, col);
    return at;
}

/* ---- plan ------------------------------------------------------------------------------ */

/* Least and largest offset along an axis, over all phases and taps. */
static void find_span(fv_conv2d_plan *p, int axis)
{
    bool any = false;
    int64_t high = 0;
    for (int64_t i = 0; i < fv_conv2d_phases(p, axis); i++) {
        const fv_conv2d_phase at = fv_conv2d_phase_at(p, axis ? 0 : i, axis ? i : 0);
        if (at.taps[axis] == 0) continue;
        const int64_t end = at.offset[axis] + (at.taps[axis] - 1) * at.tap_offset[axis];
        const int64_t least = smaller(at.offset[axis], end), most = larger(at.offset[axis], end);
        p->low[axis] = any ? smaller(p->low[axis], least) : least;
        high = any ? larger(high, most) : most;
        any = true;
    }
    p->span[axis] = high - p->low[axis];
}

/* The pieces that leave fewest lanes unused; joining them costs a little. */
static void choose_pieces(fv_conv2d_plan *p)
{
    static const double cost[] = {1, 1.05, 0, 1.2};
    double best = 0;
    for (int pieces = 1; pieces <= FV_CONV_MOST_PIECES; pieces *= 2) {
        const int64_t piece = FV_VEC / pieces;
        const double lanes = cost[pieces - 1] * (double)round_up(p->grid[1], piece);
        if (pieces > 1 && lanes >= best) continue;
        best = lanes;
        p->pieces = pieces;
        p->piece = piece;
    }
    p->row_pieces = divide_up(p->grid[1], p->piece);
}

int64_t fv_conv2d_copied_rows(const fv_conv2d_plan *p, int64_t rows)
{
    return ((rows - 1) * p->step[0] + p->span[0]) / p->skip[0] + 1;
}

static double round_floats(const fv_conv2d_plan *p, int64_t images, int64_t band)
{
    return (double)images * (double)fv_conv2d_copied_rows(p, band) * (double)p->row;
}

static void choose_round(fv_conv2d_plan *p)
{
    const int64_t batch = p->args.batch;
    p->in_place = p->low[0] == 0 && p->low[1] == 0 && p->span[0] == 0 && p->span[1] == 0 &&
                  p->step[0] == 1 && p->step[1] == 1 && p->grid[0] == p->from[0] &&
                  p->grid[1] == p->from[1] && p->grid[1] % p->piece == 0 &&
                  p->from[0] * p->from[1] % NEAR_FLOATS != 0;
    p->cols = p->row_pieces * p->piece + p->span[1] / p->step[1];
    p->channel = p->cols * (p->step[1] / p->skip[1]);
    p->row = p->from_c * p->channel;
    p->band = p->grid[0];
    p->images = batch;
    if (p->in_place) {
        p->row = p->from[1];
        p->channel = p->from[0] * p->from[1];
        p->image = p->from_c * p->channel;
        p->fits = true;
        return;
    }
    /* What is skipped passes through the caches as well. */
    const double skipped = (double)p->skip[0] * (double)p->skip[1];
    const bool close = (double)p->rows * (double)p->channels * (double)p->taps <= CLOSE_WEIGHTS;
    const double most = !p->data && skipped == 1 && close ? SHORT_ROUND : ROUND_FLOATS / skipped;
    while (p->images > 1 && round_floats(p, p->images, p->band) > most)
        p->images = divide_up(p->images, 2);
    while (p->band > 1 && round_floats(p, p->images, p->band) > most)
        p->band = divide_up(p->band, 2);
    p->fits = round_floats(p, p->images, p->band) < MOST_FLOATS;
    if (!p->fits) return;
    p->image = fv_conv2d_copied_rows(p, p->band) * p->row;
    p->source_floats = round_up(p->images * p->image, FV_LINE);
}

/* An image that is one pixel wide is laid out as one that is one pixel high. */
static fv_conv2d_args lay_flat(const fv_conv2d_args *a)
{
    fv_conv2d_args flat = *a;
    if (a->in[1] != 1 || a->out[1] != 1 || a->window[1] != 1 || a->pad[1] != 0) return flat;
    int64_t *const pairs[] = {flat.in, flat.out, flat.window, flat.stride, flat.pad, flat.dilation};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const int64_t first = pairs[i][0];
        pairs[i][0] = pairs[i][1];
        pairs[i][1] = first;
    }
    return flat;
}

fv_conv2d_plan fv_conv2d_make_plan(const fv_conv2d_args *args, bool data)
{
    fv_conv2d_plan p = {.args = lay_flat(args), .data = data};
    const fv_conv2d_args *a = &p.args;
    p.from_c = data ? a->out_c : a->in_c;
    p.to_c = data ? a->in_c : a->out_c;
    p.rows = p.to_c / a->groups;
    p.channels = p.from_c / a->groups;
    p.taps = a->window[0] * a->window[1];
    for (int axis = 0; axis < 2; axis++) {
        p.from[axis] = data ? a->out[axis] : a->in[axis];
        p.to[axis] = data ? a->in[axis] : a->out[axis];
        p.step[axis] = data ? 1 : a->stride[axis];
        p.apart[axis] = data ? a->stride[axis] : 1;
        p.grid[axis] = fv_conv2d_phase_at(&p, 0, 0).grid[axis];
        find_span(&p, axis);
        for (int64_t tap = 0; tap < a->window[axis] && p.step[axis] <= 64; tap++)
            p.read[axis] |= (uint64_t)1 << tap * a->dilation[axis] % p.step[axis];
        const bool apart = a->window[axis] == 1 || a->dilation[axis] % p.step[axis] == 0;
        p.skip[axis] = apart ? p.step[axis] : 1;
    }
    choose_pieces(&p);
    choose_round(&p);
    p.packed = a->batch * p.grid[0] * p.grid[1] >= PACK_PIXELS;
    if (p.packed) p.weight_floats = round_up(fv_conv2d_packed_floats(a, data), FV_LINE);
    p.list_floats = round_up(4 * p.taps * (int64_t)(sizeof(int64_t) / sizeof(float)), FV_LINE);
    return p;
}
