/*
 * Declarations shared by the files of decoding (see attention_decode.c): stored rows, their dot
 * products with a few queries, and P V, the weights times the values. The including file defines
 * how queries and keys are multiplied; `type` is a compile-time constant of each instance:
 *
 *     enum { DOT_NUMBERS };                         // elements per vector
 *     int64_t size_of(fv_dtype type)                // bytes per element
 *     dot_vec dot_key(fv_dtype type, const char *p, int count)
 *     dot_vec dot_query(const float *p)             // FV_LANES words
 *     vf dot_add(dot_vec query, dot_vec key, vf sum)
 *     // AVX-512: 32 columns of bf16 or f16 as two vectors
 *     void pv_load(fv_dtype type, const char *p, int64_t count, vf *x)
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_DECODE_H
#define FV_KERNELS_SIMD_ATTENTION_DECODE_H

#include "kernels/simd/attention_bf16_dot.h"

enum {
    GROUP = FV_SIMD_LEVEL == 3
                ? 16
                : 4, /* products reduced in one tree: as many as the registers hold */
    PIECE_KEYS = 32, /* rows of V per pass if the columns do not fit into registers */
};

/*
 * Rows are prefetched about a kilobyte ahead: with less, memory idles; with more, the hardware
 * prefetchers lose track. They go into L2, which has more outstanding requests than L1.
 */
enum { AHEAD_BYTES = 1024, LINE_BYTES = 64 };

/* Rows of K or V as stored: f32, bf16 or f16. */
typedef struct stored {
    const char *at;
    int64_t row; /* stride in bytes */
} stored;

/* For elements of `size` bytes. */
static inline int64_t bytes_ahead(const stored *x, int64_t size, int64_t width)
{
    return fv_attn_max(1, AHEAD_BYTES / (width * size)) * x->row;
}

V_INLINE void prefetch(const char *row, int64_t ahead, const int64_t bytes)
{
    FV_UNROLL
    for (int64_t b = 0; b < bytes; b += LINE_BYTES)
        fv_prefetch_l2((const char *)((uintptr_t)row + (uintptr_t)(ahead + b)));
}

/* ---- products ---------------------------------------------------------------------- */

/*
 * The sums of GROUP vectors. Within quarters of four lanes (0 + 2) + (1 + 3), then quarters (0 + 1)
 * + (2 + 3): the same for every vector and on every level.
 */
#if FV_SIMD_LEVEL == 3
V_INLINE vf unpack_add(vf a, vf b)
{
    return v_add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
V_INLINE vf unpack_add_pairs(vf a, vf b)
{
    const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
    return v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                 _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
V_INLINE vf quarter_add(vf a, vf b)
{
    return v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
V_INLINE void reduce(const vf *x, float *sums)
{
    vf four[4];
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        four[i] = unpack_add_pairs(unpack_add(x[4 * i], x[4 * i + 1]),
                                   unpack_add(x[4 * i + 2], x[4 * i + 3]));
    v_store(sums, FV_LANES,
            quarter_add(quarter_add(four[0], four[1]), quarter_add(four[2], four[3])));
}
#elif FV_SIMD_LEVEL == 1
V_INLINE float32x4_t reduce_quarter(float32x4_t a, float32x4_t b, float32x4_t c, float32x4_t d)
{
    const float64x2_t x = vreinterpretq_f64_f32(vaddq_f32(vzip1q_f32(a, b), vzip2q_f32(a, b)));
    const float64x2_t y = vreinterpretq_f64_f32(vaddq_f32(vzip1q_f32(c, d), vzip2q_f32(c, d)));
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(x, y)),
                     vreinterpretq_f32_f64(vzip2q_f64(x, y)));
}
V_INLINE void reduce(const vf *x, float *sums)
{
    const float32x4_t first = vaddq_f32(reduce_quarter(x[0].a, x[1].a, x[2].a, x[3].a),
                                        reduce_quarter(x[0].b, x[1].b, x[2].b, x[3].b));
    const float32x4_t last = vaddq_f32(reduce_quarter(x[0].c, x[1].c, x[2].c, x[3].c),
                                       reduce_quarter(x[0].d, x[1].d, x[2].d, x[3].d));
    vst1q_f32(sums, vaddq_f32(first, last));
}
#else
V_INLINE __m256 unpack_add(__m256 a, __m256 b)
{
    return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}
V_INLINE __m128 reduce_half(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256d x = _mm256_castps_pd(unpack_add(a, b)), y = _mm256_castps_pd(unpack_add(c, d));
    const __m256 sum = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                                     _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
}
V_INLINE void reduce(const vf *x, float *sums)
{
    const __m128 low = reduce_half(x[0].a, x[1].a, x[2].a, x[3].a);
    const __m128 high = reduce_half(x[0].b, x[1].b, x[2].b, x[3].b);
    _mm_storeu_ps(sums, _mm_add_ps(low, high));
}
#endif

/* Operands of the dot products. */
typedef struct dots {
    const float *q; /* words: floats, or bf16 pairs */
    stored k;
    int64_t q_row, width;
    int64_t ahead; /* prefetch distance in bytes */
    float *s;      /* row stride FV_ATTN_SCORE_ROW */
} dots;

/* The queries, keys and scores of one tile. They are separate arguments, since a copy of all
 * operands would be read back before it is written. */
typedef struct dot_place {
    const float *q;
    const char *k;
    float *s;
} dot_place;

/* Adds the products of `vecs` vectors, from column c on, to sum[row][key]. Each key is read to the
 * end before the next, in the order of memory. */
V_INLINE void add_columns(const dots *t, dot_place at, const fv_dtype type, const int rows,
                          const int keys, int last, int64_t c, const int vecs, int count, vf *sum)
{
    const int64_t step = DOT_NUMBERS * size_of(type);
    const char *k = at.k + c * size_of(type);
    const float *q = at.q + c / DOT_NUMBERS * FV_LANES;
    FV_UNROLL
    for (int j = 0; j < keys; j++) {
        prefetch(k, t->ahead, vecs * step);
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            const dot_vec x = dot_key(type, k + v * step, count);
            FV_UNROLL
            for (int r = 0; r < rows; r++) {
                const dot_vec y = dot_query(q + r * t->q_row + v * FV_LANES);
                sum[r * keys + j] = dot_add(y, x, sum[r * keys + j]);
            }
        }
        if (j < last) k += t->k.row;
    }
}

/* rows x keys = GROUP products of `vecs` vectors; 0: of any width. Keys after `last` are skipped:
 * their sums are those of `last`. */
FV_INSTANCE void dot_tile(const dots *t, dot_place at, const fv_dtype type, const int rows,
                          const int keys, const int vecs, int last)
{
    enum { ONE = DOT_NUMBERS, FOUR = 4 * DOT_NUMBERS };
    vf sum[GROUP];
    FV_UNROLL
    for (int i = 0; i < GROUP; i++)
        sum[i] = v_zero();
    if (vecs > 0) {
        add_columns(t, at, type, rows, keys, last, 0, vecs, ONE, sum);
    } else {
        int64_t c = 0;
        for (; c + FOUR <= t->width; c += FOUR)
            add_columns(t, at, type, rows, keys, last, c, 4, ONE, sum);
        for (; c + ONE <= t->width; c += ONE)
            add_columns(t, at, type, rows, keys, last, c, 1, ONE, sum);
        if (c < t->width)
            add_columns(t, at, type, rows, keys, last, c, 1, (int)(t->width - c), sum);
    }
    float all[GROUP];
    reduce(sum, all);
    for (int r = 0; r < rows; r++)
        memcpy(at.s + r * FV_ATTN_SCORE_ROW, all + r * keys, (size_t)keys * sizeof(float));
}

typedef void (*dot_fn)(const dots *t, const float *q, const char *k, float *s, int last);

/* The usual widths have instances without a loop, which would cost a third of their time. */
#define DOT_TILE(type, rows)                                                                       \
    static void type##_64_##rows(const dots *t, const float *q, const char *k, float *s, int last) \
    {                                                                                              \
        (void)last;                                                                                \
        dot_tile(t, (dot_place){q, k, s}, type, rows, GROUP / rows, 64 / DOT_NUMBERS, GROUP);      \
    }                                                                                              \
    static void type##_128_##rows(const dots *t, const float *q, const char *k, float *s,          \
                                  int last)                                                        \
    {                                                                                              \
        (void)last;                                                                                \
        dot_tile(t, (dot_place){q, k, s}, type, rows, GROUP / rows, 128 / DOT_NUMBERS, GROUP);     \
    }                                                                                              \
    static void type##_any_##rows(const dots *t, const float *q, const char *k, float *s,          \
                                  int last)                                                        \
    {                                                                                              \
        dot_tile(t, (dot_place){q, k, s}, type, rows, GROUP / rows, 0, last);                      \
    }
#define DOT_TILES(type)                                                                            \
    DOT_TILE(type, 1)                                                                              \
    DOT_TILE(type, 2)                                                                              \
    DOT_TILE(type, 4)
#define DOT_NAMES(type)                                                                            \
    {                                                                                              \
        {type##_any_1, type##_any_2, type##_any_4}, {type##_64_1, type##_64_2, type##_64_4},       \
        {                                                                                          \
            type##_128_1, type##_128_2, type##_128_4                                               \
        }                                                                                          \
    }

/* Products of `rows` queries with keys [0, keys) into the first ceil16(keys) columns of s, by the
 * instances DOT_NAMES of a type; columns past the last key are undefined numbers. */
static inline void dot_products(const dot_fn (*of)[3], const dots *all, int rows, int64_t keys)
{
    const dot_fn *any = of[0], *whole = all->width == 64 ? of[1] : all->width == 128 ? of[2] : any;
    const int64_t cols = fv_attn_round(keys, FV_LANES);
    for (int r = 0, height; r < rows; r += height) {
        const int shape = rows - r >= 4 ? 2 : rows - r >= 2 ? 1 : 0;
        height = 1 << shape;
        const int64_t step = GROUP >> shape;
        const float *q = all->q + r * all->q_row;
        for (int64_t j = 0; j < cols; j += step) {
            const int64_t last = fv_attn_min(step, fv_attn_max(0, keys - j - 1));
            const char *k = all->k.at + fv_attn_min(j, keys - 1) * all->k.row;
            float *s = all->s + r * FV_ATTN_SCORE_ROW + j;
            (last >= step - 1 ? whole : any)[shape](all, q, k, s, (int)last);
        }
    }
}

/* ---- P V with bf16 or f16 values ------------------------------------------------------ */

#if FV_SIMD_LEVEL == 3

enum { PV_ROWS = 6, PV_GROUPS = 4, PV_COLS = 2 * FV_LANES };

/* Some rows of weights times some rows of V, which are converted in registers. */
typedef struct pv_args {
    const float *weights; /* row stride FV_ATTN_SCORE_ROW */
    int64_t keys;
    const char *values;
    int64_t value_row; /* bytes */
    int64_t ahead;     /* prefetch distance in bytes */
    const float *from;
    float *o; /* may be `from`; same row stride */
    int64_t o_row;
} pv_args;

/* `groups` times 32 columns from column c on; the last group has `count`. */
FV_INSTANCE void pv_tile(const pv_args *t, const fv_dtype type, const int rows, const int groups,
                         int64_t c, int64_t count)
{
    vf sum[PV_ROWS][2 * PV_GROUPS];
    const float *from = t->from + c;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < 2 * groups; v++)
            sum[i][v] = v_load(from + i * t->o_row + v * FV_LANES, FV_LANES);
    }
    const float *p = t->weights;
    const char *b = t->values + c * (int64_t)sizeof(uint16_t);
    for (int64_t j = 0; j < t->keys; j++, p++, b += t->value_row) {
        prefetch(b, t->ahead, groups * LINE_BYTES);
        FV_UNROLL
        for (int g = 0; g < groups; g++) {
            vf x[2];
            pv_load(type, b + g * LINE_BYTES, g < groups - 1 ? PV_COLS : count, x);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                const vf weight = v_set(p[i * FV_ATTN_SCORE_ROW]);
                sum[i][2 * g] = v_fma(weight, x[0], sum[i][2 * g]);
                sum[i][2 * g + 1] = v_fma(weight, x[1], sum[i][2 * g + 1]);
            }
        }
    }
    float *o = t->o + c;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < 2 * groups; v++)
            v_store(o + i * t->o_row + v * FV_LANES, FV_LANES, sum[i][v]);
    }
}

typedef void (*pv_fn)(const pv_args *t, int64_t c, int64_t count);

#define PV_TILE(type, rows, groups)                                                                \
    static void type##_blend_##rows##x##groups(const pv_args *t, int64_t c, int64_t count)         \
    {                                                                                              \
        (void)count;                                                                               \
        pv_tile(t, type, rows, groups, c, PV_COLS);                                                \
    }
#define PV_TILE_END(type, rows)                                                                    \
    static void type##_blend_end_##rows(const pv_args *t, int64_t c, int64_t count)                \
    {                                                                                              \
        pv_tile(t, type, rows, 1, c, count);                                                       \
    }
#define PV_TILE_SET(type, rows)                                                                    \
    PV_TILE(type, rows, 1) PV_TILE(type, rows, 2) PV_TILE_END(type, rows)
#define PV_TILES(type)                                                                             \
    PV_TILE_SET(type, 1)                                                                           \
    PV_TILE_SET(type, 2)                                                                           \
    PV_TILE_SET(type, 3) PV_TILE_SET(type, 4) PV_TILE_SET(type, 5) PV_TILE_SET(type, 6)
#define PV_NAMES_OF(type, rows)                                                                    \
    {                                                                                              \
        type##_blend_end_##rows, type##_blend_##rows##x1, type##_blend_##rows##x2                  \
    }
#define PV_NAMES(type)                                                                             \
    {                                                                                              \
        PV_NAMES_OF(type, 1), PV_NAMES_OF(type, 2), PV_NAMES_OF(type, 3), PV_NAMES_OF(type, 4),    \
            PV_NAMES_OF(type, 5), PV_NAMES_OF(type, 6)                                             \
    }

/* As many columns at a time as the registers hold. widest: for one row, or NULL. */
static inline void pv_groups(const pv_fn *tiles, pv_fn widest, const pv_args *t, int64_t cols)
{
    for (int64_t c = 0, step; c < cols; c += step) {
        const int64_t left = cols - c;
        const int groups = left < PV_COLS ? 0 : left < 2 * PV_COLS ? 1 : 2;
        const bool wide = widest && left >= PV_GROUPS * PV_COLS;
        step = wide ? PV_GROUPS * PV_COLS : groups == 2 ? 2 * PV_COLS : PV_COLS;
        (wide ? widest : tiles[groups])(t, c, left);
    }
}

/* all->c = all->from + weights values, by the instances PV_NAMES of a type. Several rows, or
 * columns that need more than one pass, are processed in groups of keys that stay in L1 between
 * passes. */
static inline void pv_row_tiles(const pv_fn (*tiles)[3], pv_fn widest, const fv_tile *all,
                                const stored *values, int rows, int64_t cols)
{
    const bool once = rows == 1 && cols <= PV_GROUPS * PV_COLS;
    const int64_t piece = once ? all->k : PIECE_KEYS;
    for (int64_t j = 0; j < all->k; j += piece)
        for (int r = 0, height; r < rows; r += height) {
            height = rows - r < PV_ROWS ? rows - r : PV_ROWS;
            const pv_args t = {
                .weights = all->a + r * FV_ATTN_SCORE_ROW + j,
                .keys = fv_attn_min(piece, all->k - j),
                .values = values->at + j * values->row,
                .value_row = values->row,
                .ahead = bytes_ahead(values, (int64_t)sizeof(uint16_t), cols),
                .from = (j > 0 ? all->c : all->from) + r * all->c_row,
                .o = all->c + r * all->c_row,
                .o_row = all->c_row,
            };
            pv_groups(tiles[height - 1], height == 1 ? widest : NULL, &t, cols);
        }
}

#endif

/* ---- bf16 dot products ---------------------------------------------------------------- */

/*
 * The functions of decoding with bf16 dot products (attention_decode_bf16.c). Scores are not
 * scaled, unlike those of float queries. P V adds converted values in float; rows of o stay
 * deinterleaved until the end.
 */
typedef struct fv_attn_decode_products {
    /* As fv_attn_bf16_load. */
    void (*load)(const void *x, int64_t row, int64_t rows, int64_t width, void *to, int64_t to_row);
    /* As dot_products. */
    void (*products)(const dots *all, int rows, int64_t keys);
    /* c = from + a values, deinterleaved; t->b is not used. */
    void (*pv)(const fv_tile *t, const stored *values, int rows, int64_t cols);
    /* As fv_attn_bf16_deinterleave. */
    bool (*deinterleave)(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                         int64_t to_row);
    /* A deinterleaved row in column order, ceil16(cols) floats. */
    void (*interleave)(const float *deinterleaved, int64_t cols, float *to);
} fv_attn_decode_products;

/* bf16 NULL: in float. */
void fv_attn_decode_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                         const fv_attn_decode_products *bf16);

#endif
