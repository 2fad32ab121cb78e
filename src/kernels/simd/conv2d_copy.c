/* Copies the source of a convolution with pixels as lanes. */
#include "kernels/simd/conv2d_copy.h"
#include "kernels/simd/conv2d_tile.h"
#include "kernels/simd/pairs.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Whether any tap reads rows (columns) whose distance from the first one is `at`. */
FV_INLINE bool is_read(const fv_conv2d_plan *p, int axis, int64_t at)
{
    return p->step[axis] == 1 || p->step[axis] > 64 || p->read[axis] >> at % p->step[axis] & 1;
}

/* ---- one row --------------------------------------------------------------------------- */

/* Every step-th element from `at` on of a source row: out[begin, end) are inside the row, and of
 * out[begin, pairs) also the next element. */
typedef struct row_copy {
    int64_t at, step, begin, pairs, end, length;
} row_copy;

static row_copy row_copy_of(const fv_conv2d_plan *p, int64_t remainder)
{
    row_copy c = {.at = p->low[1] + remainder, .step = p->step[1], .length = p->cols};
    const int64_t width = p->from[1];
    c.begin = smaller(c.length, c.at < 0 ? divide_up(-c.at, c.step) : 0);
    c.end = smaller(c.length, width > c.at ? divide_up(width - c.at, c.step) : 0);
    c.end = larger(c.begin, c.end);
    c.pairs = larger(c.begin, smaller(c.end, (width - c.at) / 2));
    return c;
}

FV_INLINE void fill_zeros(float *out, int64_t n) { fv_conv2d_fill(out, n, fv_vec_zero()); }

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

FV_INLINE void copy_pairs(float *even, float *odd, const float *in, int64_t pairs)
{
    vf a, b;
    V_LOOP(pairs, 0, v_load_pairs(in + 2 * i, count, &a, &b); v_store(even + i, count, a);
           v_store(odd + i, count, b));
}

FV_INLINE void copy_row(const row_copy *c, float *out, const float *in)
{
    int64_t i = c->begin;
    in += c->at;
    fill_zeros(out, c->begin);
    if (c->step == 1) {
        copy_run(out + i, in + i, c->end - i);
        i = c->end;
    }
    if (c->step == 2) {
        copy_even(out + i, in + 2 * i, c->pairs - i);
        i = c->pairs;
    }
    for (; i < c->end; i++)
        out[i] = in[i * c->step];
    fill_zeros(out + i, c->length - i);
}

/* Both remainders of step 2 at once, c for the first of them: short rows cost what is around the
 * copying. */
FV_INLINE void copy_both(const row_copy *c, int64_t width, float *out, const float *in)
{
    const int64_t length = c->length;
    float *odd = out + length;
    int64_t i = 0, x = c->at;
    for (; i < c->begin; i++, x += 2) {
        out[i] = 0;
        odd[i] = x + 1 >= 0 && x + 1 < width ? in[x + 1] : 0;
    }
    copy_pairs(out + i, odd + i, in + x, c->pairs - i);
    x += 2 * (c->pairs - i);
    for (i = c->pairs; i < length; i++, x += 2) {
        out[i] = x < width ? in[x] : 0;
        odd[i] = x + 1 < width ? in[x + 1] : 0;
    }
}

/* ---- planes ---------------------------------------------------------------------------- */

/* How a row is copied: any; both remainders of step 2; whole vectors without zeros, of step 1 or of
 * one remainder of step 2. */
typedef enum row_kind { ANY_ROW, BOTH_ROWS, WHOLE_ROW, EVEN_ROW } row_kind;

FV_INLINE row_kind kind_of(const fv_conv2d_plan *p, const row_copy *c)
{
    if (p->step[0] != p->skip[0] || c->at != 0 || c->end < c->length) return ANY_ROW;
    if (c->step == 1 && c->length % FV_VEC == 0) return WHOLE_ROW;
    return c->step == 2 && c->pairs == c->length && c->length % FV_LANES == 0 ? EVEN_ROW : ANY_ROW;
}

FV_INLINE void copy_plane(const fv_conv2d_copy *j, const row_copy *how, float *out, const float *in,
                          const row_kind kind)
{
    const fv_conv2d_plan *p = j->plan;
    const int64_t rows = fv_conv2d_copied_rows(p, j->rows), apart = p->row, skip = p->skip[0];
    const int64_t height = p->from[0], width = p->from[1];
    const row_copy c = *how;
    int64_t y = p->low[0] + j->first_row * p->step[0];
    for (int64_t row = 0; row < rows; row++, out += apart, y += skip) {
        if (y < 0 || y >= height)
            fill_zeros(out, kind == BOTH_ROWS ? 2 * c.length : c.length);
        else if (kind == WHOLE_ROW)
            for (int64_t x = 0; x < c.length; x += FV_VEC)
                fv_vec_store(out + x, fv_vec_load(in + y * width + x));
        else if (kind == EVEN_ROW)
            for (int64_t x = 0; x < c.length; x += FV_LANES) {
                vf even, odd;
                v_load_pairs(in + y * width + 2 * x, FV_LANES, &even, &odd);
                v_store(out + x, FV_LANES, even);
            }
        else if (!is_read(p, 0, row * skip))
            continue;
        else if (kind == BOTH_ROWS)
            copy_both(&c, width, out, in + y * width);
        else
            copy_row(&c, out, in + y * width);
    }
}

/* Work items are planes (image, channel) of the source. */
static void copy_planes(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const fv_conv2d_copy *j = arg;
    const fv_conv2d_plan *p = j->plan;
    const int64_t area = p->from[0] * p->from[1], remainders = p->step[1] / p->skip[1];
    const bool both = remainders == 2 && is_read(p, 1, 0) && is_read(p, 1, 1);
    for (int64_t x = 0; x < (both ? 1 : remainders); x++) {
        if (!is_read(p, 1, x)) continue;
        const row_copy how = row_copy_of(p, x);
        const row_kind kind = both ? BOTH_ROWS : kind_of(p, &how);
        for (int64_t item = begin; item < end; item++) {
            const float *in = j->source + (j->first_image * p->from_c + item) * area;
            float *out =
                j->out + item / p->from_c * p->image + item % p->from_c * p->channel + x * p->cols;
            if (kind == BOTH_ROWS) copy_plane(j, &how, out, in, BOTH_ROWS);
            if (kind == WHOLE_ROW) copy_plane(j, &how, out, in, WHOLE_ROW);
            if (kind == EVEN_ROW) copy_plane(j, &how, out, in, EVEN_ROW);
            if (kind == ANY_ROW) copy_plane(j, &how, out, in, ANY_ROW);
        }
    }
}

void fv_conv2d_copy_source(const fv_exec *exec, const fv_conv2d_copy *copy, int64_t images)
{
    const fv_conv2d_plan *p = copy->plan;
    fv_exec_rows(exec, images * p->from_c, fv_conv2d_copied_rows(p, copy->rows) * p->channel,
                 copy_planes, copy);
}
