/*
 * Decoding over bf16 by pairs: K and V are read as they lie, 32 numbers a vector. A product of two
 * queries' or keys' pairs is one instruction (attention_pairs.h); values become floats by one
 * operation for each sixteen, the even columns by a shift and the odd ones by a mask. Weights are
 * not rounded.
 */
#include "kernels/simd/attention_pairs.h"

#if FV_SIMD_LEVEL == 3

enum { DOT_NUMBERS = 2 * FV_LANES };

typedef __m512bh dot_vec;

V_INLINE int64_t size_of(const fv_dtype type)
{
    (void)type;
    return (int64_t)sizeof(uint16_t);
}
/* 32 numbers, zeros behind the first `count`. */
V_INLINE fv_words load_words(const char *p, int64_t count)
{
    if (count >= DOT_NUMBERS) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi16(fv_attn_first_halves(count), p);
}
V_INLINE dot_vec dot_key(const fv_dtype type, const char *p, int count)
{
    (void)type;
    return (dot_vec)load_words(p, count);
}
V_INLINE dot_vec dot_query(const float *p) { return (dot_vec)_mm512_loadu_si512(p); }
V_INLINE vf dot_add(dot_vec query, dot_vec key, vf sum)
{
    return _mm512_dpbf16_ps(sum, query, key);
}

#include "kernels/simd/attention_decode.h"

DOT_TILES(FV_BF16)

static void products(const dots *all, int rows, int64_t keys)
{
    static const dot_fn tiles[3][3] = DOT_NAMES(FV_BF16);
    dot_products(tiles, all, rows, keys);
}

/* ---- blends ----------------------------------------------------------------------- */

enum { STRIP = 6, MOST_GROUPS = 4, NUMBERS = DOT_NUMBERS };

/* One strip of rows with a piece of V. */
typedef struct blend_strip {
    const float *weights; /* rows FV_ATTN_SCORE_ROW apart */
    int64_t keys;
    const char *values;
    int64_t value_row; /* bytes */
    int64_t ahead;     /* bytes from a row to the one to ask for */
    const float *from;
    float *o; /* may be `from`; rows as far apart */
    int64_t o_row;
} blend_strip;

/* `groups` times 32 columns from column c on, the last of which has `count`. */
FV_INSTANCE void blend_tile(const blend_strip *t, const int rows, const int groups, int64_t c,
                            int64_t count)
{
    vf sum[STRIP][2 * MOST_GROUPS];
    const float *from = t->from + c;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < 2 * groups; v++)
            sum[i][v] = v_load(from + i * t->o_row + v * FV_LANES, FV_LANES);
    }
    const float *p = t->weights;
    const char *b = t->values + c * size_of(FV_BF16);
    for (int64_t j = 0; j < t->keys; j++, p++, b += t->value_row) {
        prefetch(b, t->ahead, groups * LINE_BYTES);
        FV_UNROLL
        for (int g = 0; g < groups; g++) {
            const fv_words x = load_words(b + g * LINE_BYTES, g < groups - 1 ? NUMBERS : count);
            const vf even = fv_words_first(x), odd = fv_words_second(x);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                const vf weight = v_set(p[i * FV_ATTN_SCORE_ROW]);
                sum[i][2 * g] = v_fma(weight, even, sum[i][2 * g]);
                sum[i][2 * g + 1] = v_fma(weight, odd, sum[i][2 * g + 1]);
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

typedef void (*blend_fn)(const blend_strip *t, int64_t c, int64_t count);

#define BLEND(rows, groups)                                                                        \
    static void whole_##rows##x##groups(const blend_strip *t, int64_t c, int64_t count)            \
    {                                                                                              \
        (void)count;                                                                               \
        blend_tile(t, rows, groups, c, NUMBERS);                                                   \
    }
#define BLEND_END(rows)                                                                            \
    static void part_##rows(const blend_strip *t, int64_t c, int64_t count)                        \
    {                                                                                              \
        blend_tile(t, rows, 1, c, count);                                                          \
    }
#define BLENDS(rows) BLEND(rows, 1) BLEND(rows, 2) BLEND_END(rows)
#define BLEND_NAMES(rows)                                                                          \
    {                                                                                              \
        part_##rows, whole_##rows##x1, whole_##rows##x2                                            \
    }
BLENDS(1)
BLENDS(2)
BLENDS(3)
BLENDS(4)
BLENDS(5)
BLENDS(6)
BLEND(1, 4)

/* As many columns at a time as the registers hold. */
static void blend_columns(const blend_strip *t, int rows, int64_t cols)
{
    static const blend_fn tiles[STRIP][3] = {BLEND_NAMES(1), BLEND_NAMES(2), BLEND_NAMES(3),
                                             BLEND_NAMES(4), BLEND_NAMES(5), BLEND_NAMES(6)};
    for (int64_t c = 0, step; c < cols; c += step) {
        const int64_t left = cols - c;
        const int groups = left < NUMBERS ? 0 : left < 2 * NUMBERS ? 1 : 2;
        const bool wide = rows == 1 && left >= MOST_GROUPS * NUMBERS;
        step = wide ? MOST_GROUPS * NUMBERS : groups == 2 ? 2 * NUMBERS : NUMBERS;
        (wide ? whole_1x4 : tiles[rows - 1][groups])(t, c, left);
    }
}

/* Several rows, or columns that take more than one pass, go by pieces that stay in the near cache
 * meanwhile. */
static void blend(const fv_tile *all, const stored *values, int rows, int64_t cols)
{
    const bool once = rows == 1 && cols <= MOST_GROUPS * NUMBERS;
    const int64_t piece = once ? all->k : PIECE_KEYS;
    for (int64_t j = 0; j < all->k; j += piece)
        for (int r = 0, height; r < rows; r += height) {
            height = rows - r < STRIP ? rows - r : STRIP;
            const blend_strip t = {
                .weights = all->a + r * FV_ATTN_SCORE_ROW + j,
                .keys = fv_attn_min(piece, all->k - j),
                .values = values->at + j * values->row,
                .value_row = values->row,
                .ahead = bytes_ahead(values, size_of(FV_BF16), cols),
                .from = (j > 0 ? all->c : all->from) + r * all->c_row,
                .o = all->c + r * all->c_row,
                .o_row = all->c_row,
            };
            blend_columns(&t, height, cols);
        }
}

static void join(const float *split, int64_t cols, float *to)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (int64_t c = 0; c < cols; c += NUMBERS) {
        const vf even = v_load(split + c, FV_LANES), odd = v_load(split + c + FV_LANES, FV_LANES);
        v_store(to + c, FV_LANES, _mm512_permutex2var_ps(even, low, odd));
        if (c + FV_LANES < cols)
            v_store(to + c + FV_LANES, FV_LANES, _mm512_permutex2var_ps(even, high, odd));
    }
}

/* ---- the kernel ------------------------------------------------------------------- */

void FV_SIMD_NAME(fv_attn_decode_bf16)(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    static const fv_attn_decode_pairs pairs = {.load = FV_SIMD_NAME(fv_attn_load_pairs),
                                               .products = products,
                                               .blend = blend,
                                               .split = FV_SIMD_NAME(fv_attn_split_rows),
                                               .join = join};
    FV_SIMD_NAME(fv_attn_decode_by)(exec, ptr, a, &pairs);
}

#endif
