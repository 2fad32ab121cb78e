/* Rows of bf16 pairs: packed, copied and multiplied; see attention_bf16_dot.h. */
#include "kernels/simd/attention_bf16_dot.h"

#if FV_SIMD_LEVEL == 3

#include "kernels/simd/half_simd.h"

enum { TILE_ROWS = FV_ATTN_TILE_ROWS, VECS = FV_TILE_VECS };

/* ---- the tile --------------------------------------------------------------------- */

V_INLINE __m512bh load_words(const uint32_t *p) { return (__m512bh)_mm512_loadu_si512(p); }
/* The row may be the caller's own, of 16-bit elements. */
V_INLINE __m512bh broadcast_pair(const uint32_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32((int)pair);
}

FV_INSTANCE void tile(const fv_attn_bf16_tile *t, const int rows, const int vecs)
{
    vf sum[TILE_ROWS][VECS];
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[i][v] = t->add ? v_load(t->c + i * t->c_row + v * FV_LANES, FV_LANES) : v_zero();
    }
    /* Two pointers reach six rows with scaled-index addressing. */
    const int64_t a_row = t->a_row, b_row = t->b_row;
    const uint32_t *low = t->a, *high = t->a + 3 * a_row, *b = t->b;
    for (int64_t k = 0; k < t->k; k++, b += b_row) {
        __m512bh column[VECS];
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            column[v] = load_words(b + v * FV_LANES);
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            const __m512bh x = broadcast_pair(i < 3 ? low + i * a_row : high + (i - 3) * a_row);
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                sum[i][v] = _mm512_dpbf16_ps(sum[i][v], x, column[v]);
        }
        low++;
        high++;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            v_store(t->c + i * t->c_row + v * FV_LANES, FV_LANES, sum[i][v]);
    }
}

#define TILE(rows, vecs)                                                                           \
    static void tile_##rows##x##vecs(const fv_attn_bf16_tile *t) { tile(t, rows, vecs); }
#define TILES(vecs)                                                                                \
    TILE(1, vecs)                                                                                  \
    TILE(2, vecs) TILE(3, vecs) TILE(4, vecs) TILE(5, vecs) TILE(6, vecs)
#define NAMES(vecs)                                                                                \
    {                                                                                              \
        tile_1x##vecs, tile_2x##vecs, tile_3x##vecs, tile_4x##vecs, tile_5x##vecs, tile_6x##vecs   \
    }
TILES(1)
TILES(2)
TILES(3)
TILES(4)

void fv_attn_bf16_multiply(const fv_attn_bf16_tile *t, int rows, int64_t cols)
{
    static void (*const tiles[VECS][TILE_ROWS])(const fv_attn_bf16_tile *) = {NAMES(1), NAMES(2),
                                                                              NAMES(3), NAMES(4)};
    tiles[cols / FV_LANES - 1][rows - 1](t);
}

/* ---- rows -------------------------------------------------------------------------- */

/* Up to sixteen words of each row, zeros past `width` elements, stored contiguously. */
V_INLINE void copy_words(const uint16_t *x, int64_t row, int64_t rows, int64_t width, uint32_t *to)
{
    const __mmask32 some = fv_attn_first_halves(width);
    for (int64_t j = 0; j < rows; j++)
        _mm512_storeu_si512(to + j * FV_LANES, _mm512_maskz_loadu_epi16(some, x + j * row));
}

/* Whether each row is a whole number of words at a word address. */
static bool are_words(const void *x, int64_t row, int64_t width)
{
    return width % 2 == 0 && row % 2 == 0 && (uintptr_t)x % sizeof(uint32_t) == 0;
}

/* Any row stride and width: sixteen pairs at a time are copied to an aligned block without an odd
 * end. */
static void pack_panel(const uint16_t *k, int64_t row, int64_t keys, int64_t d, uint32_t *panel)
{
    uint32_t staging[FV_ATTN_PANEL * FV_LANES];
    for (int64_t c = 0; c < d; c += 2 * FV_LANES) {
        copy_words(k + c, row, keys, d - c, staging);
        const int64_t depth = fv_attn_min(FV_LANES, (d - c + 1) / 2);
        fv_gemm_pack_b(depth, keys, (const float *)(const void *)staging, 1, FV_LANES,
                       FV_ATTN_PANEL, (float *)(void *)(panel + c / 2 * FV_ATTN_PANEL));
    }
}

void fv_attn_bf16_pack(const void *k, int64_t row, int64_t keys, int64_t width, void *panels)
{
    const int64_t bf16 = fv_attn_pair_count(width);
    if (are_words(k, row, width)) { /* copied like floats */
        fv_attn_pack(FV_F32, k, row / 2, keys, bf16, panels);
        return;
    }
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL)
        pack_panel((const uint16_t *)k + j * row, row, fv_attn_min(FV_ATTN_PANEL, keys - j), width,
                   (uint32_t *)panels + j * bf16);
}

void fv_attn_bf16_load(const void *x, int64_t row, int64_t rows, int64_t width, void *to,
                       int64_t to_row)
{
    const uint16_t *from = x;
    for (uint32_t *at = to, *end = at + rows * to_row; at < end; at += to_row, from += row)
        for (int64_t c = 0; c < width; c += 2 * FV_LANES)
            copy_words(from + c, row, 1, width - c, at + c / 2);
}

fv_attn_bf16_rows fv_attn_bf16_rows_at(const void *x, int64_t row, int64_t rows, int64_t width,
                                       uint32_t *buffer, int64_t buffer_row)
{
    if (are_words(x, row, width)) return (fv_attn_bf16_rows){x, row / 2};
    fv_attn_bf16_load(x, row, rows, width, buffer, buffer_row);
    return (fv_attn_bf16_rows){buffer, buffer_row};
}

/* ---- deinterleaved rows --------------------------------------------------------------- */

bool fv_attn_bf16_deinterleave(const void *x, int64_t row, int64_t rows, int64_t width, float *to,
                               int64_t to_row)
{
    const __m512i sizes = _mm512_set1_epi16(0x7fff), infinity = _mm512_set1_epi16(0x7f80);
    __m512i largest = _mm512_setzero_si512();
    const uint16_t *from = x;
    for (int64_t r = 0; r < rows; r++, from += row, to += to_row)
        for (int64_t c = 0; c < width; c += 2 * FV_LANES) {
            const fv_words words =
                _mm512_maskz_loadu_epi16(fv_attn_first_halves(width - c), from + c);
            largest = _mm512_max_epu16(largest, _mm512_and_si512(words, sizes));
            v_store(to + c, FV_LANES, fv_words_first(words));
            v_store(to + c + FV_LANES, FV_LANES, fv_words_second(words));
        }
    return _mm512_cmpge_epu16_mask(largest, infinity) == 0;
}

/* Rounds and interleaves both vectors. The instruction treats subnormal numbers as 0, so those are
 * converted separately. */
V_INLINE __m512i interleave(vf even, vf odd)
{
    enum { SUBNORMAL = 0x20 };
    const __m512i in_order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i words = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
    if (_mm512_fpclass_ps_mask(even, SUBNORMAL) | _mm512_fpclass_ps_mask(odd, SUBNORMAL))
        words = _mm512_inserti64x4(_mm512_castsi256_si512(v_to_bf16(even)), v_to_bf16(odd), 1);
    return _mm512_permutexvar_epi16(in_order, words);
}

void fv_attn_bf16_interleave(const float *deinterleaved, int64_t row, int64_t rows, int64_t width,
                             void *to, int64_t to_row)
{
    uint16_t *at = to;
    for (int64_t r = 0; r < rows; r++, deinterleaved += row, at += to_row)
        for (int64_t c = 0; c < width; c += 2 * FV_LANES) {
            const vf even = v_load(deinterleaved + c, FV_LANES);
            const vf odd = v_load(deinterleaved + c + FV_LANES, FV_LANES);
            _mm512_mask_storeu_epi16(at + c, fv_attn_first_halves(width - c),
                                     interleave(even, odd));
        }
}

/* ---- products ---------------------------------------------------------------------- */

void fv_attn_bf16_scores(const void *x, int64_t x_row, int rows, const void *panels, int64_t width,
                         int64_t first, int64_t cols, float *s, int64_t s_row)
{
    const int64_t bf16 = fv_attn_pair_count(width);
    for (int64_t done = 0, step; done < cols; done += step) {
        const int64_t key = first + done, inside = key % FV_ATTN_PANEL;
        step = fv_attn_min(FV_ATTN_PANEL - inside, cols - done);
        fv_attn_bf16_tile t = {.k = bf16,
                               .a = x,
                               .a_row = x_row,
                               .b = (const uint32_t *)panels + (key - inside) * bf16 + inside,
                               .b_row = FV_ATTN_PANEL,
                               .c = s + done,
                               .c_row = s_row};
        for (int r = 0; r < rows;
             r += TILE_ROWS, t.a += TILE_ROWS * x_row, t.c += TILE_ROWS * s_row)
            fv_attn_bf16_multiply(&t, (int)fv_attn_min(TILE_ROWS, rows - r), step);
    }
}

/* Transposes sixteen pairs of up to sixteen rows: [pair][row]. */
V_INLINE void transpose_words(const uint16_t *x, int64_t row, int64_t rows, int64_t width,
                              uint32_t *to)
{
    uint32_t staging[FV_LANES * FV_LANES];
    copy_words(x, row, rows, width, staging);
    memset(staging + rows * FV_LANES, 0, (size_t)((FV_LANES - rows) * FV_LANES) * sizeof *staging);
    fv_gemm_pack_b(FV_LANES, FV_LANES, (const float *)(const void *)staging, 1, FV_LANES, FV_LANES,
                   (float *)(void *)to);
}

/* Sixteen pairs of sixteen rows, transposed: adds their products to the sums. by_steps: the even
 * and the odd terms are summed first, as tiles do. */
V_INLINE vf add_products(const uint32_t *x, const uint32_t *y, int64_t pairs, const bool by_steps,
                         vf sum)
{
    vf even = v_zero(), odd = v_zero();
    for (int64_t i = 0; i < pairs * FV_LANES; i += FV_LANES) {
        if (!by_steps) {
            sum = _mm512_dpbf16_ps(sum, load_words(x + i), load_words(y + i));
            continue;
        }
        const fv_words a = _mm512_loadu_si512(x + i), b = _mm512_loadu_si512(y + i);
        even = v_fma(fv_words_first(a), fv_words_first(b), even);
        odd = v_fma(fv_words_second(a), fv_words_second(b), odd);
    }
    return by_steps ? v_add(sum, v_add(even, odd)) : sum;
}

/* Rows are processed in parallel, since a single chain would wait for itself. */
V_INLINE void dots(const void *x, int64_t x_row, const void *y, int64_t y_row, int64_t rows,
                   int64_t width, const bool by_steps, float *out)
{
    uint32_t transposed_x[FV_LANES * FV_LANES], transposed_y[FV_LANES * FV_LANES];
    for (int64_t r = 0; r < rows; r += FV_LANES) {
        const uint16_t *at_x = (const uint16_t *)x + r * x_row;
        const uint16_t *at_y = (const uint16_t *)y + r * y_row;
        const int64_t some = fv_attn_min(FV_LANES, rows - r);
        vf sum = v_zero();
        for (int64_t c = 0; c < width; c += 2 * FV_LANES) {
            transpose_words(at_x + c, x_row, some, width - c, transposed_x);
            transpose_words(at_y + c, y_row, some, width - c, transposed_y);
            const int64_t pairs = fv_attn_min(FV_LANES, fv_attn_pair_count(width - c));
            sum = add_products(transposed_x, transposed_y, pairs, by_steps, sum);
        }
        v_store(out + r, (int)some, sum);
    }
}

void fv_attn_bf16_dots(const void *x, int64_t x_row, const void *y, int64_t y_row, int64_t rows,
                       int64_t width, float *out)
{
    dots(x, x_row, y, y_row, rows, width, false, out);
}

void fv_attn_bf16_step_dots(const void *x, int64_t x_row, const void *y, int64_t y_row,
                            int64_t rows, int64_t width, float *out)
{
    dots(x, x_row, y, y_row, rows, width, true, out);
}

#endif
