/* The register tile of the convolutions, in one instance per number of rows, vectors and pieces. */
#include "kernels/simd/conv2d_tile.h"

/* ---- vectors made of pieces ------------------------------------------------------------ */

#if FV_SIMD_LEVEL == 3

FV_INLINE __m256 load_two(const float *low, const float *high)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
FV_INLINE fv_vec join_halves(__m256 low, __m256 high)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}
FV_INLINE fv_vec load_pieces(const float *const *b, int64_t at, const int pieces)
{
    if (pieces == 1) return fv_vec_load(b[0] + at);
    if (pieces == 2) return join_halves(_mm256_loadu_ps(b[0] + at), _mm256_loadu_ps(b[1] + at));
    return join_halves(load_two(b[0] + at, b[1] + at), load_two(b[2] + at, b[3] + at));
}
FV_INLINE void store_pieces(float *out, const int64_t *at, const int pieces, fv_vec x)
{
    if (pieces == 1) fv_vec_store(out + at[0], x);
    if (pieces == 2) {
        _mm256_storeu_ps(out + at[0], _mm512_castps512_ps256(x));
        _mm256_storeu_ps(out + at[1], _mm512_extractf32x8_ps(x, 1));
    }
    if (pieces == 4) {
        _mm_storeu_ps(out + at[0], _mm512_castps512_ps128(x));
        _mm_storeu_ps(out + at[1], _mm512_extractf32x4_ps(x, 1));
        _mm_storeu_ps(out + at[2], _mm512_extractf32x4_ps(x, 2));
        _mm_storeu_ps(out + at[3], _mm512_extractf32x4_ps(x, 3));
    }
}

#elif FV_SIMD_LEVEL == 2

FV_INLINE fv_vec load_pieces(const float *const *b, int64_t at, const int pieces)
{
    if (pieces == 1) return fv_vec_load(b[0] + at);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(b[0] + at)),
                                _mm_loadu_ps(b[1] + at), 1);
}
FV_INLINE void store_pieces(float *out, const int64_t *at, const int pieces, fv_vec x)
{
    if (pieces == 1) fv_vec_store(out + at[0], x);
    if (pieces == 2) {
        _mm_storeu_ps(out + at[0], _mm256_castps256_ps128(x));
        _mm_storeu_ps(out + at[1], _mm256_extractf128_ps(x, 1));
    }
}

#else

FV_INLINE fv_vec load_pieces(const float *const *b, int64_t at, const int pieces)
{
    (void)pieces;
    return fv_vec_load(b[0] + at);
}
FV_INLINE void store_pieces(float *out, const int64_t *at, const int pieces, fv_vec x)
{
    (void)pieces;
    fv_vec_store(out + at[0], x);
}

#endif

/* ---- the tile -------------------------------------------------------------------------- */

FV_INSTANCE void run_tile(const fv_conv2d_tile *t, const int rows, const int vecs, const int pieces)
{
    fv_vec sum[FV_CONV_ROWS][FV_CONV_VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            /* Stores that miss the caches would wait for each other. */
            fv_prefetch_l1(t->out + i * t->out_row + t->piece_to[v * pieces]);
            sum[i][v] = fv_vec_zero();
        }
    }
    const float *b[FV_CONV_VECS * FV_CONV_MOST_PIECES], *weights = t->weights;
    FV_UNROLL
    for (int i = 0; i < vecs * pieces; i++)
        b[i] = t->source + t->piece_from[i];
    const int64_t *from = t->from, *with = t->with, *end = from + t->taps;
    const int64_t row = t->weight_row, row3 = 3 * row;
    for (int64_t c = t->channels; c > 0; c--) {
        for (const int64_t *tap = from; tap < end; tap++) {
            const float *a = weights + with[tap - from];
            fv_vec x[FV_CONV_VECS];
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                x[v] = load_pieces(b + v * pieces, *tap, pieces);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                if (i > 0 && i % 3 == 0) a += row3;
                const fv_vec one = fv_vec_set(a[i % 3 * row]);
                FV_UNROLL
                for (int v = 0; v < vecs; v++)
                    sum[i][v] = fv_vec_fma(one, x[v], sum[i][v]);
            }
        }
        FV_UNROLL
        for (int i = 0; i < vecs * pieces; i++)
            b[i] += t->source_channel;
        weights += t->weight_channel;
    }
    const float *bias = t->bias;
    FV_UNROLL
    for (int i = 0; i < rows && bias; i++) {
        const fv_vec add = fv_vec_set(bias[i]), one = fv_vec_set(1);
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = fv_vec_fma(one, add, sum[i][v]);
    }
    int64_t to[FV_CONV_VECS * FV_CONV_MOST_PIECES];
    FV_UNROLL
    for (int i = 0; i < vecs * pieces; i++)
        to[i] = t->piece_to[i];
    float *out = t->out;
    const int64_t out_row = t->out_row;
    FV_UNROLL
    for (int i = 0; i < rows; i++, out += out_row) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            store_pieces(out, to + v * pieces, pieces, sum[i][v]);
    }
}

typedef void (*tile_fn)(const fv_conv2d_tile *t);

#define TILE(rows, vecs, pieces)                                                                   \
    static void tile_##rows##x##vecs##_##pieces(const fv_conv2d_tile *t)                           \
    {                                                                                              \
        run_tile(t, rows, vecs, pieces);                                                           \
    }
#define NAME(rows, vecs, pieces) tile_##rows##x##vecs##_##pieces,
#define SIX(what, vecs, pieces)                                                                    \
    what(1, vecs, pieces) what(2, vecs, pieces) what(3, vecs, pieces) what(4, vecs, pieces)        \
        what(5, vecs, pieces) what(6, vecs, pieces)
#if FV_SIMD_LEVEL == 3
#define ALL(what, vecs, pieces)                                                                    \
    SIX(what, vecs, pieces)                                                                        \
    what(7, vecs, pieces) what(8, vecs, pieces) what(9, vecs, pieces) what(10, vecs, pieces)       \
        what(11, vecs, pieces) what(12, vecs, pieces)
#else
#define ALL(what, vecs, pieces) SIX(what, vecs, pieces)
#endif

ALL(TILE, 1, 1)
ALL(TILE, 2, 1)
#if FV_SIMD_LEVEL == 1
ALL(TILE, 3, 1)
ALL(TILE, 4, 1)
#endif
#if FV_SIMD_LEVEL > 1
ALL(TILE, 1, 2)
ALL(TILE, 2, 2)
#endif
#if FV_SIMD_LEVEL == 3
ALL(TILE, 1, 4)
ALL(TILE, 2, 4)
#endif

/* [log2 of pieces][vecs - 1][rows - 1] */
static const tile_fn tiles[][FV_CONV_VECS][FV_CONV_ROWS] = {
#if FV_SIMD_LEVEL == 1
    {{ALL(NAME, 1, 1)}, {ALL(NAME, 2, 1)}, {ALL(NAME, 3, 1)}, {ALL(NAME, 4, 1)}},
#else
    {{ALL(NAME, 1, 1)}, {ALL(NAME, 2, 1)}},
    {{ALL(NAME, 1, 2)}, {ALL(NAME, 2, 2)}},
#endif
#if FV_SIMD_LEVEL == 3
    {{ALL(NAME, 1, 4)}, {ALL(NAME, 2, 4)}},
#endif
};

void fv_conv2d_tile_run(const fv_conv2d_tile *t, int rows, int vecs, int pieces)
{
    tiles[pieces / 2][vecs - 1][rows - 1](t);
}

/* ---- weights --------------------------------------------------------------------------- */

int fv_conv2d_tile_rows(int64_t rows)
{
    const int64_t count = (rows + FV_CONV_ROWS - 1) / FV_CONV_ROWS;
    return count > 0 ? (int)((rows + count - 1) / count) : FV_CONV_ROWS;
}

int64_t fv_conv2d_packed_rows(int64_t rows)
{
    return (rows + FV_CONV_ROWS - 1) / FV_CONV_ROWS * FV_CONV_ROWS;
}

typedef struct pack_job {
    int64_t rows, channels, taps; /* of one group */
    bool data;
    const float *w;
    float *packed;
} pack_job;

/* Work items are row tiles. */
static void pack_tiles(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    const int64_t tiles_of_group = fv_conv2d_packed_rows(j->rows) / FV_CONV_ROWS;
    const int64_t tile_rows = fv_conv2d_tile_rows(j->rows), k = j->channels * j->taps;
    for (int64_t item = begin; item < end; item++) {
        const int64_t group = item / tiles_of_group, first = item % tiles_of_group * tile_rows;
        const int64_t left = j->rows - first, rows = left < tile_rows ? left : tile_rows;
        const int64_t row_apart = j->data ? j->taps : k;
        const int64_t channel_apart = j->data ? j->rows * j->taps : j->taps;
        const float *w = j->w + group * j->rows * k + first * row_apart;
        float *out = j->packed + item * k * FV_CONV_ROWS;
        for (int64_t c = 0; c < j->channels; c++, w += channel_apart)
            for (int64_t tap = 0; tap < j->taps; tap++, out += FV_CONV_ROWS)
                for (int64_t r = 0; r < rows; r++)
                    out[r] = w[r * row_apart + tap];
    }
}

static pack_job pack_job_of(const fv_conv2d_args *a, bool data)
{
    return (pack_job){.rows = (data ? a->in_c : a->out_c) / a->groups,
                      .channels = (data ? a->out_c : a->in_c) / a->groups,
                      .taps = a->window[0] * a->window[1],
                      .data = data};
}

int64_t fv_conv2d_packed_floats(const fv_conv2d_args *a, bool data)
{
    const pack_job j = pack_job_of(a, data);
    return a->groups * fv_conv2d_packed_rows(j.rows) * j.channels * j.taps;
}

void fv_conv2d_pack_weights(const fv_exec *exec, const fv_conv2d_args *a, bool data, const float *w,
                            float *packed)
{
    pack_job j = pack_job_of(a, data);
    j.w = w;
    j.packed = packed;
    const int64_t tiles_of_group = fv_conv2d_packed_rows(j.rows) / FV_CONV_ROWS;
    fv_exec_rows(exec, a->groups * tiles_of_group, j.channels * j.taps * FV_CONV_ROWS, pack_tiles,
                 &j);
}
