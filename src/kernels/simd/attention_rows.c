/*
 * Rows of q, k, v and o as stored: f32, bf16 or f16. All other files compute in float; see
 * attention_simd.h.
 */
#include "kernels/simd/attention_simd.h"
#include "kernels/simd/half_simd.h"
#include "kernels/simd/transpose.h"

/*
 * Elements i of rows r, `count` at a time: the whole vectors of all rows, then the rest of each.
 * The rest takes function calls, which would force every row to reload its constants.
 */
#define ROWS_LOOP(rows, width, ...)                                                                \
    do {                                                                                           \
        const int64_t whole_ = (width) / FV_LANES * FV_LANES;                                      \
        for (int64_t r = 0; r < (rows); r++)                                                       \
            for (int64_t i = 0; i < whole_; i += FV_LANES) {                                       \
                enum { count = FV_LANES };                                                         \
                __VA_ARGS__;                                                                       \
            }                                                                                      \
        for (int64_t r = 0, i = whole_; i < (width) && r < (rows); r++) {                          \
            const int count = (int)((width)-whole_);                                               \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

/* Loads or stores elements from i on; `type` is a compile-time constant of the caller. */
V_INLINE vf load_element(fv_dtype type, const void *row, int64_t i, int count)
{
    return fv_attn_is_half(type) ? v_load_half(type, (const uint16_t *)row + i, count)
                                 : v_load((const float *)row + i, count);
}
V_INLINE void store_element(fv_dtype type, void *row, int64_t i, int count, vf x)
{
    if (fv_attn_is_half(type))
        v_store_half(type, (uint16_t *)row + i, count, x);
    else
        v_store((float *)row + i, count, x);
}

V_INLINE void widen(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                    float factor, float *to, int64_t to_row)
{
    const vf by = v_set(factor);
    const int64_t bytes = row * (int64_t)fv_dtype_size(type);
    const char *at = from;
    ROWS_LOOP(rows, width, const vf x = load_element(type, at + r * bytes, i, count);
              v_store(to + r * to_row + i, count, v_mul(x, by)));
}

void fv_attn_widen(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                   float factor, float *to, int64_t to_row)
{
    if (type == FV_BF16)
        widen(FV_BF16, from, row, rows, width, factor, to, to_row);
    else if (type == FV_F16)
        widen(FV_F16, from, row, rows, width, factor, to, to_row);
    else
        widen(FV_F32, from, row, rows, width, factor, to, to_row);
}

/* Stores x and returns the NaNs seen so far; `quick` only records NaNs and does not preserve
 * them. */
V_INLINE v_nans narrow_element(fv_dtype type, bool quick, void *row, int64_t i, int count, vf x,
                               v_nans seen)
{
    if (!quick) {
        store_element(type, row, i, count, x);
        return seen;
    }
    v_store_words((uint16_t *)row + i, count, v_number_to_bf16(x));
    return v_nans_with(seen, x);
}

/* Returns whether the result is valid: not if `quick` found a NaN. */
V_INLINE bool narrow_rows(fv_dtype type, bool quick, const float *from, int64_t row, int64_t rows,
                          int64_t width, const float *by, void *to, int64_t to_row)
{
    const int64_t bytes = to_row * (int64_t)fv_dtype_size(type);
    v_nans seen = v_nans_none();
    char *at = to;
    if (!by)
        ROWS_LOOP(rows, width, const vf x = v_load(from + r * row + i, count);
                  seen = narrow_element(type, quick, at + r * bytes, i, count, x, seen));
    else
        ROWS_LOOP(
            rows, width, const vf x = v_mul(v_load(from + r * row + i, count), v_set(by[r]));
            seen = narrow_element(type, quick, at + r * bytes, i, count, v_add(x, v_zero()), seen));
    return !v_nans_any(seen);
}

V_INLINE void narrow(fv_dtype type, const float *from, int64_t row, int64_t rows, int64_t width,
                     const float *by, void *to, int64_t to_row)
{
    if (type == FV_BF16 && narrow_rows(type, true, from, row, rows, width, by, to, to_row)) return;
    narrow_rows(type, false, from, row, rows, width, by, to, to_row);
}

void fv_attn_narrow(fv_dtype type, const float *from, int64_t row, int64_t rows, int64_t width,
                    const float *by, void *to, int64_t to_row)
{
    if (type == FV_BF16)
        narrow(FV_BF16, from, row, rows, width, by, to, to_row);
    else if (type == FV_F16)
        narrow(FV_F16, from, row, rows, width, by, to, to_row);
    else
        narrow(FV_F32, from, row, rows, width, by, to, to_row);
}

/* Sets the top bit of a lane once it has seen a NaN or infinity: adding one to the exponent of such
 * a number carries into the sign. */
V_INLINE vi track_finite(vi seen, vf x)
{
    const vi size = vi_and(vi_of(x), vi_set(0x7fffffffu));
    return vi_or(seen, vi_add(size, vi_set(0x00800000u)));
}
V_INLINE bool is_all_finite(vi seen) { return !vi_any(seen, vi_set(0x80000000u)); }

/* For bf16 and f16: tracks the largest magnitude, which exceeds the finite ones if any element is
 * not finite. */
V_INLINE v_words track_finite_half(v_words largest, const uint16_t *p, int count)
{
    return v_words_max_size(largest, v_load_words(p, count));
}
V_INLINE bool is_half_finite(fv_dtype type, v_words largest)
{
    return !v_words_exceed(largest, type == FV_F16 ? 0x7bff : 0x7f7f);
}

V_INLINE bool widen_half_rows(fv_dtype type, const uint16_t *from, int64_t row, int64_t rows,
                              int64_t width, float *to, int64_t to_row)
{
    v_words largest = v_words_zero();
    ROWS_LOOP(rows, width, largest = track_finite_half(largest, from + r * row + i, count);
              v_store(to + r * to_row + i, count, v_load_half(type, from + r * row + i, count)));
    return is_half_finite(type, largest);
}

static bool copy_rows(const float *from, int64_t row, int64_t rows, int64_t width, float *to,
                      int64_t to_row)
{
    vi seen = vi_set(0);
    ROWS_LOOP(rows, width, const vf x = v_load(from + r * row + i, count);
              seen = track_finite(seen, x); v_store(to + r * to_row + i, count, x));
    return is_all_finite(seen);
}

bool fv_attn_widen_rows(fv_dtype type, const void *from, int64_t row, int64_t rows, int64_t width,
                        float *to, int64_t to_row)
{
    if (type == FV_BF16) return widen_half_rows(FV_BF16, from, row, rows, width, to, to_row);
    if (type == FV_F16) return widen_half_rows(FV_F16, from, row, rows, width, to, to_row);
    return copy_rows(from, row, rows, width, to, to_row);
}

/* ---- rows in place, or as floats -------------------------------------------------- */

fv_attn_rows fv_attn_rows_at(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                             int64_t h, int64_t i, int64_t count, int64_t width,
                             fv_attn_rows buffer)
{
    if (!base) return (fv_attn_rows){.at = NULL};
    if (!fv_attn_is_half(a->dtype)) return (fv_attn_rows){fv_attn_out(a, base, l, b, h, i), l->row};
    const void *from = fv_attn_at(a, base, l, b, h, i);
    fv_attn_widen_rows(a->dtype, from, l->row, count, width, buffer.at, buffer.row);
    return buffer;
}

fv_attn_rows fv_attn_rows_checked(const fv_attn *a, void *base, const fv_attn_layout *l, int64_t b,
                                  int64_t h, int64_t i, int64_t count, int64_t width,
                                  fv_attn_rows buffer, bool *finite)
{
    *finite = true;
    if (!base) return (fv_attn_rows){.at = NULL};
    void *from = fv_attn_out(a, base, l, b, h, i);
    if (!fv_attn_is_half(a->dtype)) {
        *finite = fv_attn_finite(a->dtype, from, l->row, count, width);
        return (fv_attn_rows){from, l->row};
    }
    *finite = fv_attn_widen_rows(a->dtype, from, l->row, count, width, buffer.at, buffer.row);
    return buffer;
}

fv_attn_rows fv_attn_accumulator_at(const fv_attn *a, void *base, const fv_attn_layout *l,
                                    int64_t b, int64_t h, int64_t i, fv_attn_rows buffer)
{
    if (!base) return (fv_attn_rows){.at = NULL};
    if (fv_attn_is_half(a->dtype)) return buffer;
    return (fv_attn_rows){fv_attn_out(a, base, l, b, h, i), l->row};
}

void fv_attn_clear_rows(const fv_attn *a, fv_attn_rows sums, int64_t count, int64_t width)
{
    if (!sums.at) return;
    if (sums.row == width || fv_attn_is_half(a->dtype)) {
        memset(sums.at, 0, (size_t)(count * sums.row) * sizeof *sums.at);
        return;
    }
    for (int64_t r = 0; r < count; r++)
        memset(sums.at + r * sums.row, 0, (size_t)width * sizeof *sums.at);
}

void fv_attn_store_rows(const fv_attn *a, fv_attn_rows sums, void *base, const fv_attn_layout *l,
                        int64_t b, int64_t h, int64_t i, int64_t count, int64_t width)
{
    if (!sums.at || !fv_attn_is_half(a->dtype)) return;
    fv_attn_narrow(a->dtype, sums.at, sums.row, count, width, NULL,
                   fv_attn_out(a, base, l, b, h, i), l->row);
}

/* ---- finite ----------------------------------------------------------------------- */

static bool floats_are_finite(const float *x, int64_t stride, int64_t rows, int64_t width)
{
    vi seen = vi_set(0);
    ROWS_LOOP(rows, width, seen = track_finite(seen, v_load(x + r * stride + i, count)));
    return is_all_finite(seen);
}

static bool halves_are_finite(fv_dtype type, const uint16_t *x, int64_t stride, int64_t rows,
                              int64_t width)
{
    v_words largest = v_words_zero();
    ROWS_LOOP(rows, width, largest = track_finite_half(largest, x + r * stride + i, count));
    return is_half_finite(type, largest);
}

bool fv_attn_finite(fv_dtype type, const void *x, int64_t stride, int64_t rows, int64_t width)
{
    return fv_attn_is_half(type) ? halves_are_finite(type, x, stride, rows, width)
                                 : floats_are_finite(x, stride, rows, width);
}

/* ---- panels ----------------------------------------------------------------------- */

/*
 * Transposes four words of PIECE_KEYS rows at a time: four floats, or four pairs of 16-bit
 * elements, which are converted when stored. AVX-512 takes sixteen keys, so that the tile reads a
 * vector from one store.
 */
enum {
    PIECE_BYTES = 16,
    PIECE_KEYS = FV_SIMD_LEVEL == 3 ? 16 : FV_TRANSPOSE_ROWS,
    AHEAD_BYTES = 2048
};

V_INLINE int64_t piece_of(fv_dtype type) { return fv_attn_is_half(type) ? 8 : 4; }

#if FV_SIMD_LEVEL == 3
typedef __m512 key_words;

V_INLINE void join_halves(const __m256 low[4], const __m256 high[4], key_words word[4])
{
    for (int i = 0; i < 4; i++)
        word[i] = _mm512_insertf32x8(_mm512_castps256_ps512(low[i]), high[i], 1);
}
V_INLINE void transpose_piece(const char *at, int64_t stride, key_words word[4])
{
    __m256 low[4], high[4];
    fv_transpose_words(at, stride, low);
    fv_transpose_words(at + 8 * stride, stride, high);
    join_halves(low, high, word);
}
/* `rows` of them are not zeros. */
V_INLINE void transpose_rows(const char *const *row, int64_t rows, key_words word[4])
{
    __m256 low[4], high[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                              _mm256_setzero_ps()};
    fv_transpose_rows(row, low);
    if (rows > 8) fv_transpose_rows(row + 8, high);
    join_halves(low, high, word);
}
V_INLINE fv_words bits_of(key_words words) { return _mm512_castps_si512(words); }
V_INLINE void split_f16(fv_words x, fv_vec *first, fv_vec *second)
{
    *first = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(x));
    *second = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
}
#else
typedef fv_column key_words;

V_INLINE void transpose_piece(const char *at, int64_t stride, key_words word[4])
{
    fv_transpose_words(at, stride, word);
}
V_INLINE void transpose_rows(const char *const *row, int64_t rows, key_words word[4])
{
    (void)rows;
    fv_transpose_rows(row, word);
}
#if FV_SIMD_LEVEL == 1
V_INLINE fv_words bits_of(key_words words) { return vreinterpretq_u32_f32(words); }
V_INLINE void split_f16(fv_words x, fv_vec *first, fv_vec *second)
{
    *first = v_from_f16(vmovn_u32(x));
    *second = v_from_f16(vshrn_n_u32(x, 16));
}
#else
V_INLINE fv_words bits_of(key_words words) { return _mm256_castps_si256(words); }
V_INLINE void split_f16(fv_words x, fv_vec *first, fv_vec *second)
{
    const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i sorted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(x, apart), 0xd8);
    *first = _mm256_cvtph_ps(_mm256_castsi256_si128(sorted));
    *second = _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1));
}
#endif
#endif

/* The low and high halves of each word as floats. */
V_INLINE void split_words(fv_dtype type, key_words words, fv_vec *first, fv_vec *second)
{
    const fv_words x = bits_of(words);
    if (type == FV_F16) {
        split_f16(x, first, second);
    } else {
        *first = fv_words_first(x);
        *second = fv_words_second(x);
    }
}

/* The columns of a piece: four, or eight for bf16 and f16. */
V_INLINE void columns_of(fv_dtype type, const key_words word[4], fv_vec column[8])
{
    FV_UNROLL
    for (int i = 0; i < 4; i++)
        if (fv_attn_is_half(type))
            split_words(type, word[i], &column[2 * i], &column[2 * i + 1]);
        else
            column[i] = word[i];
}

/* Stores column c of the piece at to + c x to_row. */
V_INLINE void store_piece(fv_dtype type, const key_words word[4], float *to, int64_t to_row)
{
    fv_vec column[8];
    columns_of(type, word, column);
    FV_UNROLL
    for (int64_t c = 0; c < piece_of(type); c++)
        fv_vec_store(to + c * to_row, column[c]);
}

/* PIECE_KEYS keys and `cols` columns, a multiple of the piece. */
V_INLINE void pack_keys(fv_dtype type, const char *k, int64_t stride, int64_t cols, float *to)
{
    for (int64_t c = 0; c < cols; c += piece_of(type), k += PIECE_BYTES) {
        key_words word[4];
        transpose_piece(k, stride, word);
        store_piece(type, word, to + c * FV_ATTN_PANEL, FV_ATTN_PANEL);
    }
}

/* Up to PIECE_KEYS rows that are read piece by piece; missing rows are zeros. */
typedef struct row_pieces {
    int64_t rows;
    const char *row[PIECE_KEYS];
    int64_t step[PIECE_KEYS];
} row_pieces;

V_INLINE row_pieces pieces_of(const char *from, int64_t stride, int64_t rows)
{
    static const char zeros[PIECE_BYTES] = {0};
    row_pieces p = {.rows = rows};
    for (int64_t j = 0; j < PIECE_KEYS; j++) {
        p.row[j] = j < rows ? from + j * stride : zeros;
        p.step[j] = j < rows ? PIECE_BYTES : 0;
    }
    return p;
}
V_INLINE void take_piece(row_pieces *p, key_words word[4])
{
    transpose_rows(p->row, p->rows, word);
    for (int j = 0; j < PIECE_KEYS; j++)
        p->row[j] += p->step[j];
}

/* The same for fewer keys; missing ones become 0. */
V_INLINE void pack_few(fv_dtype type, const char *k, int64_t stride, int64_t keys, int64_t cols,
                       float *to)
{
    row_pieces rows = pieces_of(k, stride, keys);
    for (int64_t c = 0; c < cols; c += piece_of(type)) {
        key_words word[4];
        take_piece(&rows, word);
        store_piece(type, word, to + c * FV_ATTN_PANEL, FV_ATTN_PANEL);
    }
}

/* The last columns, fewer than a piece has; column c is stored at to + c x to_row. */
V_INLINE void pack_end(fv_dtype type, const char *k, int64_t stride, int64_t keys, int64_t cols,
                       float *to, int64_t to_row)
{
    char from[PIECE_KEYS * PIECE_BYTES] = {0};
    float whole[8 * PIECE_KEYS];
    key_words word[4];
    for (int64_t j = 0; j < keys; j++)
        memcpy(from + j * PIECE_BYTES, k + j * stride, (size_t)cols * fv_dtype_size(type));
    transpose_piece(from, PIECE_BYTES, word);
    store_piece(type, word, whole, PIECE_KEYS);
    for (int64_t c = 0; c < cols; c++)
        memcpy(to + c * to_row, whole + c * PIECE_KEYS, PIECE_KEYS * sizeof *to);
}

/* Clears columns from number `done`, a multiple of PIECE_KEYS, to the end of a vector. */
V_INLINE void clear_end(float *to, int64_t done)
{
    fv_column_store(to, fv_column_zero());
    for (done += FV_TRANSPOSE_ROWS; FV_SIMD_LEVEL == 1 && done % FV_LANES != 0; done += PIECE_KEYS)
        fv_column_store(to += PIECE_KEYS, fv_column_zero());
}

/* Prefetches later rows: the hardware prefetcher does not follow accesses piece by piece. */
V_INLINE void prefetch_rows(const char *k, int64_t stride, int64_t width_bytes)
{
    const int64_t ahead = fv_attn_max(PIECE_KEYS, AHEAD_BYTES / width_bytes) * stride;
    fv_attn_prefetch((uintptr_t)k + (uintptr_t)ahead, stride, PIECE_KEYS, width_bytes, true);
}

/* The keys of one panel; `left` more follow in memory. */
V_INLINE void pack_panel(fv_dtype type, const char *k, int64_t stride, int64_t keys, int64_t left,
                         int64_t width, float *panel)
{
    const int64_t size = (int64_t)fv_dtype_size(type);
    const int64_t whole = width / piece_of(type) * piece_of(type);
    for (int64_t j = 0; j < keys; j += PIECE_KEYS, k += PIECE_KEYS * stride) {
        const int64_t some = fv_attn_min(PIECE_KEYS, keys - j);
        if (left > 0) prefetch_rows(k, stride, width * size);
        if (some == PIECE_KEYS)
            pack_keys(type, k, stride, whole, panel + j);
        else
            pack_few(type, k, stride, some, whole, panel + j);
        if (whole < width)
            pack_end(type, k + whole * size, stride, some, width - whole,
                     panel + whole * FV_ATTN_PANEL + j, FV_ATTN_PANEL);
    }
    const int64_t done = fv_attn_round(keys, PIECE_KEYS);
    for (int64_t c = 0; done % FV_LANES != 0 && c < width; c++)
        clear_end(panel + c * FV_ATTN_PANEL + done, done);
}

void fv_attn_pack(fv_dtype type, const void *k, int64_t row, int64_t keys, int64_t width,
                  float *panels)
{
    const int64_t stride = row * (int64_t)fv_dtype_size(type);
    int64_t done = 0;
    if (!fv_attn_is_half(type)) {
        /* Whole panels of floats: GEMM's packing is faster over a long cache. */
        for (; done + FV_ATTN_PANEL <= keys; done += FV_ATTN_PANEL) {
            const float *from = (const float *)k + done * row;
            fv_attn_prefetch((uintptr_t)from, stride, FV_ATTN_PANEL, width * (int64_t)sizeof *from,
                             true);
            fv_gemm_pack_b(width, FV_ATTN_PANEL, from, 1, row, FV_ATTN_PANEL,
                           panels + done * width);
        }
    }
    for (int64_t j = done; j < keys; j += FV_ATTN_PANEL) {
        const char *from = (const char *)k + j * stride;
        const int64_t some = fv_attn_min(FV_ATTN_PANEL, keys - j);
        const int64_t left = keys - j - some;
        float *panel = panels + j * width;
        if (type == FV_BF16)
            pack_panel(FV_BF16, from, stride, some, left, width, panel);
        else if (type == FV_F16)
            pack_panel(FV_F16, from, stride, some, left, width, panel);
        else
            pack_panel(FV_F32, from, stride, some, left, width, panel);
    }
}

void fv_attn_pack_zeros(int64_t keys, int64_t width, float *panels)
{
    float *panel = panels + keys / FV_ATTN_PANEL * FV_ATTN_PANEL * width;
    if (keys % FV_ATTN_PANEL == 0) return;
    for (int64_t j = fv_attn_round(keys % FV_ATTN_PANEL, FV_LANES); j < FV_ATTN_PANEL;
         j += FV_LANES)
        for (int64_t c = 0; c < width; c++)
            v_store(panel + c * FV_ATTN_PANEL + j, FV_LANES, v_zero());
}

/* ---- dot products of rows -------------------------------------------------------------- */

/* sum += x(c) y(c) for the columns of a piece, ascending. */
V_INLINE fv_vec add_products(fv_dtype type, const key_words x[4], const key_words y[4], fv_vec sum)
{
    fv_vec column_x[8], column_y[8];
    columns_of(type, x, column_x);
    columns_of(type, y, column_y);
    FV_UNROLL
    for (int64_t c = 0; c < piece_of(type); c++)
        sum = fv_vec_fma(column_x[c], column_y[c], sum);
    return sum;
}

/* The last columns, fewer than a piece has. */
V_INLINE fv_vec add_end(fv_dtype type, const char *x, int64_t x_step, const char *y, int64_t y_step,
                        int64_t rows, int64_t cols, fv_vec sum)
{
    float part_x[8 * PIECE_KEYS], part_y[8 * PIECE_KEYS];
    pack_end(type, x, x_step, rows, cols, part_x, PIECE_KEYS);
    pack_end(type, y, y_step, rows, cols, part_y, PIECE_KEYS);
    for (int64_t c = 0; c < cols; c++)
        sum = fv_vec_fma(fv_vec_load(part_x + c * PIECE_KEYS), fv_vec_load(part_y + c * PIECE_KEYS),
                         sum);
    return sum;
}

/* DOT_GROUPS times PIECE_KEYS rows: one chain waits while another proceeds. */
enum { DOT_GROUPS = 2, DOT_ROWS = DOT_GROUPS * PIECE_KEYS };
V_INLINE void dots_of_groups(fv_dtype type, const char *x, int64_t x_step, const char *y,
                             int64_t y_step, int64_t width, float *out)
{
    const int64_t size = (int64_t)fv_dtype_size(type), piece = piece_of(type);
    const int64_t whole = width / piece * piece;
    fv_vec sum[DOT_GROUPS] = {fv_vec_zero(), fv_vec_zero()};
    for (int64_t c = 0; c < whole; c += piece) {
        FV_UNROLL
        for (int g = 0; g < DOT_GROUPS; g++) {
            key_words word_x[4], word_y[4];
            transpose_piece(x + c * size + g * PIECE_KEYS * x_step, x_step, word_x);
            transpose_piece(y + c * size + g * PIECE_KEYS * y_step, y_step, word_y);
            sum[g] = add_products(type, word_x, word_y, sum[g]);
        }
    }
    for (int g = 0; g < DOT_GROUPS; g++) {
        if (whole < width)
            sum[g] = add_end(type, x + whole * size + g * PIECE_KEYS * x_step, x_step,
                             y + whole * size + g * PIECE_KEYS * y_step, y_step, PIECE_KEYS,
                             width - whole, sum[g]);
        fv_vec_store(out + g * PIECE_KEYS, sum[g]);
    }
}

/* Up to PIECE_KEYS rows. */
V_INLINE void dots_of_few(fv_dtype type, const char *x, int64_t x_step, const char *y,
                          int64_t y_step, int64_t rows, int64_t width, float *out)
{
    const int64_t size = (int64_t)fv_dtype_size(type), piece = piece_of(type);
    const int64_t whole = width / piece * piece;
    row_pieces rows_x = pieces_of(x, x_step, rows), rows_y = pieces_of(y, y_step, rows);
    fv_vec sum = fv_vec_zero();
    for (int64_t c = 0; c < whole; c += piece) {
        key_words word_x[4], word_y[4];
        take_piece(&rows_x, word_x);
        take_piece(&rows_y, word_y);
        sum = add_products(type, word_x, word_y, sum);
    }
    if (whole < width)
        sum = add_end(type, x + whole * size, x_step, y + whole * size, y_step, rows, width - whole,
                      sum);
    fv_vec_store_part(out, (int)rows, sum);
}

V_INLINE void dots(fv_dtype type, const char *x, int64_t x_step, const char *y, int64_t y_step,
                   int64_t rows, int64_t width, float *out)
{
    int64_t r = 0;
    for (; r + DOT_ROWS <= rows; r += DOT_ROWS)
        dots_of_groups(type, x + r * x_step, x_step, y + r * y_step, y_step, width, out + r);
    for (; r < rows; r += PIECE_KEYS)
        dots_of_few(type, x + r * x_step, x_step, y + r * y_step, y_step,
                    fv_attn_min(PIECE_KEYS, rows - r), width, out + r);
}

void fv_attn_dots(fv_dtype type, const void *x, int64_t x_row, const void *y, int64_t y_row,
                  int64_t rows, int64_t width, float *out)
{
    const int64_t size = (int64_t)fv_dtype_size(type), x_step = x_row * size, y_step = y_row * size;
    if (type == FV_BF16)
        dots(FV_BF16, x, x_step, y, y_step, rows, width, out);
    else if (type == FV_F16)
        dots(FV_F16, x, x_step, y, y_step, rows, width, out);
    else
        dots(FV_F32, x, x_step, y, y_step, rows, width, out);
}
