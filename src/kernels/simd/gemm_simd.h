/*
 * Declarations shared by the files of the SIMD GEMM. They compile once for each
 * level; the vector type, the tile width and the symbols (simd/names.h) depend on the level.
 *
 *   gemm.c                 work items, blocks and row tiles
 *   gemm_tile.c            6 rows x a few vectors of C in registers: the inner kernel
 *   gemm_wide.c            up to 3 rows x more vectors, for AVX2 and NEON
 *   gemm_few_rows.c        up to 24 rows, B in short blocks, for AVX2 and NEON
 *   gemm_row.c             one row times a matrix
 *   gemm_low_precision.c   low-precision weights: a few rows times a panel, and panels as floats
 *   gemm_bf16.h            operands rounded to bf16: packed in pairs, with a tile of its own
 *   gemm_bf16_tiles.h      the same on the tiles of AMX (tile.h)
 *   gemm_bf16_weights.h    packed weights as such pairs
 *   gemm_bf16_few.h        a few rows times packed weights, read in place
 *   gemm_epilogue.c        act(sum + bias) + residual
 *   gemm_row_sums.c        sums of A's rows beside the product
 *   gemm_pack.c            A and B into the order in which the tile reads them
 */
#ifndef FV_KERNELS_SIMD_GEMM_SIMD_H
#define FV_KERNELS_SIMD_GEMM_SIMD_H

#if FV_SIMD_LEVEL == 1
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include <string.h>

#include "kernels/simd/names.h"
#include "kernels/simd/prefetch.h"

#include "kernels/gemm.h"
#include "kernels/register.h"

#if FV_SIMD_LEVEL == 3

typedef __m512 fv_vec;
enum { FV_VEC = 16, FV_TILE_VECS = 4 };

static inline fv_vec fv_vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void fv_vec_store(float *p, fv_vec v) { _mm512_storeu_ps(p, v); }
static inline fv_vec fv_vec_set(float x) { return _mm512_set1_ps(x); }
static inline fv_vec fv_vec_fma(fv_vec a, fv_vec b, fv_vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline fv_vec fv_vec_add(fv_vec a, fv_vec b) { return _mm512_add_ps(a, b); }
static inline fv_vec fv_vec_zero(void) { return _mm512_setzero_ps(); }

/* The first `count` lanes, 1..FV_VEC; nothing past them is touched. */
static inline __mmask16 fv_vec_mask(int count) { return (__mmask16)(0xffffu >> (16 - count)); }
static inline fv_vec fv_vec_load_part(const float *p, int count)
{
    return _mm512_maskz_loadu_ps(fv_vec_mask(count), p);
}
static inline void fv_vec_store_part(float *p, int count, fv_vec v)
{
    _mm512_mask_storeu_ps(p, fv_vec_mask(count), v);
}

/* A word holds two bf16. The low and the high halves as floats. */
typedef __m512i fv_words;
static inline fv_words fv_words_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
static inline void fv_words_store(uint32_t *p, fv_words x) { _mm512_storeu_si512(p, x); }
static inline fv_words fv_words_set(uint32_t x) { return _mm512_set1_epi32((int)x); }
static inline fv_vec fv_words_first(fv_words x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}
static inline fv_vec fv_words_second(fv_words x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, fv_words_set(0xffff0000u)));
}
/* Floats that are bf16 numbers, as the low and the high halves. */
static inline fv_words fv_words_of_bf16(fv_vec first, fv_vec second)
{
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(first), 16),
                           _mm512_castps_si512(second));
}
/* Signed bytes as floats. */
static inline fv_vec fv_vec_load_i8(const signed char *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

#elif FV_SIMD_LEVEL == 2

typedef __m256 fv_vec;
enum { FV_VEC = 8, FV_TILE_VECS = 2 };

static inline fv_vec fv_vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void fv_vec_store(float *p, fv_vec v) { _mm256_storeu_ps(p, v); }
static inline fv_vec fv_vec_set(float x) { return _mm256_set1_ps(x); }
static inline fv_vec fv_vec_fma(fv_vec a, fv_vec b, fv_vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline fv_vec fv_vec_add(fv_vec a, fv_vec b) { return _mm256_add_ps(a, b); }
static inline fv_vec fv_vec_zero(void) { return _mm256_setzero_ps(); }

/* The first `count` lanes, 1..FV_VEC; nothing past them is touched. */
static inline __m256i fv_vec_mask(int count)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline fv_vec fv_vec_load_part(const float *p, int count)
{
    return _mm256_maskload_ps(p, fv_vec_mask(count));
}
static inline void fv_vec_store_part(float *p, int count, fv_vec v)
{
    _mm256_maskstore_ps(p, fv_vec_mask(count), v);
}

/* A word holds two bf16. The low and the high halves as floats. */
typedef __m256i fv_words;
static inline fv_words fv_words_load(const uint32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline void fv_words_store(uint32_t *p, fv_words x) { _mm256_storeu_si256((__m256i *)p, x); }
static inline fv_words fv_words_set(uint32_t x) { return _mm256_set1_epi32((int)x); }
static inline fv_vec fv_words_first(fv_words x)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
}
static inline fv_vec fv_words_second(fv_words x)
{
    return _mm256_castsi256_ps(_mm256_and_si256(x, fv_words_set(0xffff0000u)));
}
/* Floats that are bf16 numbers, as the low and the high halves. */
static inline fv_words fv_words_of_bf16(fv_vec first, fv_vec second)
{
    return _mm256_or_si256(_mm256_srli_epi32(_mm256_castps_si256(first), 16),
                           _mm256_castps_si256(second));
}
/* Signed bytes as floats. */
static inline fv_vec fv_vec_load_i8(const signed char *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

#else

typedef float32x4_t fv_vec;
enum { FV_VEC = 4, FV_TILE_VECS = 4 };

static inline fv_vec fv_vec_load(const float *p) { return vld1q_f32(p); }
static inline void fv_vec_store(float *p, fv_vec v) { vst1q_f32(p, v); }
static inline fv_vec fv_vec_set(float x) { return vdupq_n_f32(x); }
static inline fv_vec fv_vec_fma(fv_vec a, fv_vec b, fv_vec c) { return vfmaq_f32(c, a, b); }
static inline fv_vec fv_vec_zero(void) { return vdupq_n_f32(0.0f); }

/* The first `count` lanes, 1..FV_VEC; nothing past them is touched. */
static inline fv_vec fv_vec_load_part(const float *p, int count)
{
    if (count == FV_VEC) return vld1q_f32(p);
    fv_vec v = vld1q_lane_f32(p, fv_vec_zero(), 0);
    if (count >= 2) v = vld1q_lane_f32(p + 1, v, 1);
    if (count >= 3) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}
static inline void fv_vec_store_part(float *p, int count, fv_vec v)
{
    if (count == FV_VEC) {
        vst1q_f32(p, v);
        return;
    }
    vst1q_lane_f32(p, v, 0);
    if (count >= 2) vst1q_lane_f32(p + 1, v, 1);
    if (count >= 3) vst1q_lane_f32(p + 2, v, 2);
}

/* A word holds two bf16. The low and the high halves as floats. */
typedef uint32x4_t fv_words;
static inline fv_words fv_words_load(const uint32_t *p) { return vld1q_u32(p); }
static inline void fv_words_store(uint32_t *p, fv_words x) { vst1q_u32(p, x); }
static inline fv_words fv_words_set(uint32_t x) { return vdupq_n_u32(x); }
static inline fv_vec fv_words_first(fv_words x)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(x, 16));
}
static inline fv_vec fv_words_second(fv_words x)
{
    return vreinterpretq_f32_u32(vandq_u32(x, fv_words_set(0xffff0000u)));
}
/* Floats that are bf16 numbers, as the low and the high halves. */
static inline fv_words fv_words_of_bf16(fv_vec first, fv_vec second)
{
    return vorrq_u32(vshrq_n_u32(vreinterpretq_u32_f32(first), 16), vreinterpretq_u32_f32(second));
}
/* Signed bytes as floats. */
static inline fv_vec fv_vec_load_i8(const signed char *p)
{
    uint32_t four;
    memcpy(&four, p, sizeof four);
    const int8x8_t bytes = vreinterpret_s8_u32(vdup_n_u32(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
}

#endif

/* Columns of a tile, and of the panels that this level packs for itself. Divides FV_GEMM_PANEL. */
enum { FV_TILE_COLS = FV_VEC * FV_TILE_VECS };
/* Up to this many rows, row-major B is read in place: packing would cost more than it saves. */
enum { FV_DIRECT_ROWS = 24 };
/* Row tiles of up to this many rows use wide tiles where B is not packed for this level. */
enum { FV_WIDE_ROWS = FV_SIMD_LEVEL == 3 ? 0 : 3, FV_WIDE_COLS = 32 };

/* Prefetch distances in rows of B; rows are far apart, and the hardware prefetcher does not follow
 * them. The distance covers the latency of L3, into L2. Rows of narrow tiles, which every row tile
 * reads again, are prefetched at a shorter distance into L1. */
enum {
    FV_AHEAD = 24,
    FV_AHEAD_PACK = FV_SIMD_LEVEL == 3 ? 24 : 64,
    FV_AHEAD_NEAR = 8,
    FV_LINE = 16
};

/* Whether the row stride of B makes the rows of a narrow tile evict each other from the cache
 * between two row tiles. */
static inline bool fv_rows_collide(int64_t b_row)
{
    enum { COLLIDING_FLOATS = 512 };
    return FV_SIMD_LEVEL != 3 && b_row % COLLIDING_FLOATS == 0;
}

/* Loops of constant length over registers, which would spill if not unrolled. Under a sanitizer the
 * many unrolled instances would take minutes to compile; there they share one plain function. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define FV_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FV_SANITIZED 1
#endif

#define FV_INLINE static inline __attribute__((always_inline))
#if defined(FV_SANITIZED)
#define FV_UNROLL
#define FV_INSTANCE static __attribute__((noinline))
#elif defined(__clang__)
#define FV_UNROLL   _Pragma("clang loop unroll(full)")
#define FV_INSTANCE FV_INLINE
#else
#define FV_UNROLL   _Pragma("GCC unroll 16")
#define FV_INSTANCE FV_INLINE
#endif

/* One tile: c(i,j) = from(i,j) + sum over k of a(i,k) b(k,j), i < rows, j < cols. */
typedef struct fv_tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const float *b; /* row stride b_row, columns contiguous */
    int64_t b_row;
    const float *from; /* NULL: the sums start at 0; may be c */
    int64_t from_row;
    float *c;
    int64_t c_row;
    float *packed; /* where tile_pack stores B, [k][FV_TILE_COLS]; wide_tile_pack: several such
                      panels */
} fv_tile;

/* rows 1..FV_GEMM_TILE_ROWS, cols 1..FV_TILE_COLS. */
void fv_gemm_tile(const fv_tile *t, int rows, int cols);
/* FV_TILE_COLS columns of a B that is not in L1 or L2: prefetches it. */
void fv_gemm_tile_stream(const fv_tile *t, int rows);
/* FV_GEMM_TILE_ROWS x FV_TILE_COLS: the same, and also packs B. */
void fv_gemm_tile_pack(const fv_tile *t);
/* rows 1..FV_WIDE_ROWS, FV_WIDE_COLS columns: the same three variants; the last one packs panels of
 * FV_TILE_COLS columns. */
void fv_gemm_wide_tile(const fv_tile *t, int rows);
void fv_gemm_wide_tile_stream(const fv_tile *t, int rows);
void fv_gemm_wide_tile_pack(const fv_tile *t, int rows);
/* The epilogue of a product: y = act(sum scale + bias) + residual. */
typedef struct fv_epilogue {
    fv_act act;
    const float *scale, *bias, *residual; /* NULL: none; each points to the first column */
    int64_t residual_row;
    float *aux; /* NULL: none */
    int64_t aux_row;
    bool aux_after_act; /* aux gets act(..), else its argument */
} fv_epilogue;

/* Points f to aux at row `row` and column `col` of C (one batch member's), where g asks for it. */
static inline void fv_epilogue_set_aux(fv_epilogue *f, const fv_gemm *g, float *aux, int64_t row,
                                       int64_t col)
{
    if (g->aux != FV_GEMM_AUX_SUM && g->aux != FV_GEMM_AUX_ACT) return;
    f->aux = aux + row * g->c_row + col;
    f->aux_row = g->c_row;
    f->aux_after_act = g->aux == FV_GEMM_AUX_ACT;
}

/* c may be sum, and residual may be c. */
void fv_gemm_apply_epilogue(const fv_epilogue *f, const float *sum, int64_t sum_row, float *c,
                            int64_t c_row, int64_t rows, int64_t cols);

/* The sums of some rows of A; k comes in ascending blocks of any size. */
typedef struct fv_row_sums {
    int64_t rows;
    const void *a; /* the first of the rows, at k = 0: floats, or bf16 */
    bool bf16;
    int64_t a_row, a_col;
    float *lanes; /* [FV_LANES][rows], kept from block to block */
    float *out;   /* rows entries, written by the join */
} fv_row_sums;

/* Adds A(., k) for k0 <= k < k0 + k; the block with k0 = 0 starts at zero. */
void fv_gemm_add_row_sums(const fv_row_sums *s, int64_t k0, int64_t k);
void fv_gemm_join_row_sums(const fv_row_sums *s);

/* Up to FV_DIRECT_ROWS rows times a panel of a B that is packed or has contiguous rows. */
typedef struct fv_few_rows {
    int64_t rows, cols,
        k; /* all FV_GEMM_PANEL columns of B may be read, the first `cols` are computed */
    const float *a, *b;
    int64_t a_row, a_col, b_row;
    const float *next; /* the caller's next panel, for prefetching */
    float *copy; /* buffer for a panel of B; NULL (always with a single row tile): B is read in
                    place */
    float *c;
    int64_t c_row;
    bool accumulate;
    fv_epilogue finish;
} fv_few_rows;

void fv_gemm_few_rows(const fv_few_rows *f);

/* One row over all k: sum(j) += sum over k of a(k) b(k,j). B is one packed panel (FV_GEMM_PANEL
 * sums), or a row-major matrix (`cols` sums). */
void fv_gemm_row_by_panel(int64_t k, const float *a, int64_t a_col, const float *panel, float *sum);
void fv_gemm_row_by_matrix(int64_t k, int64_t cols, const float *a, int64_t a_col, const float *b,
                           int64_t b_row, float *sum);

/* A few rows of A times one panel of low-precision weights. */
typedef struct fv_low_precision_rows {
    int64_t k;
    const float *a;
    int64_t a_row, a_col;
    const char *panel;
    float *sum; /* [rows][FV_GEMM_PANEL], written; scales are applied by the epilogue */
} fv_low_precision_rows;

/* rows 1..FV_GEMM_TILE_ROWS. */
void fv_gemm_low_precision_rows(const fv_low_precision_rows *t, fv_weight_form form, int rows);
/* Rows [k0, k0 + depth) of such a panel as floats, without scales, in panels of FV_TILE_COLS
 * columns. */
void fv_gemm_widen_panel(fv_weight_form form, const char *panel, int64_t k0, int64_t depth,
                         float *out);

/* B (k x cols) into panels of `width` columns, [cols/width][k][width], zeros past the last. */
void fv_gemm_pack_b(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                    int width, float *out);
/* One panel of `slices` times `width` columns: slice s holds columns [s apart, s apart + cols) of
 * B, zeros past the last. */
void fv_gemm_pack_slices(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                         int slices, int64_t apart, int width, float *out);
/* A (rows x k) into row tiles, [rows/6][k][6]; rows past the last are not written. */
void fv_gemm_pack_a(int64_t rows, int64_t k, const float *a, int64_t a_row, int64_t a_col,
                    float *out);

#endif
