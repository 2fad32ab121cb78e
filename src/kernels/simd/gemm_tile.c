/*
 * The register tile. AVX-512 holds 6 x 64 of C in 24 of its 32 registers, a row of B in four more
 * and a broadcast element of A in one: 24 multiply-adds for 10 loads. AVX2 holds 6 x 16 in 12 of
 * 16, NEON in 24 of 32. Each element of C is one chain of FMAs, so the shape of the tile never
 * affects the result.
 */
#include "kernels/simd/gemm_simd.h"

/* Half of an AVX-512 register takes half the time, for up to 8 remaining columns. Halving a shorter
 * register does not pay. */
#if FV_SIMD_LEVEL == 3
typedef __m256 half;
FV_INLINE half half_of(fv_vec x) { return _mm512_castps512_ps256(x); }
FV_INLINE half half_zero(void) { return _mm256_setzero_ps(); }
FV_INLINE half half_fma(half a, half b, half c) { return _mm256_fmadd_ps(a, b, c); }
FV_INLINE half half_load(const float *p, int count)
{
    return _mm256_maskz_loadu_ps((__mmask8)(0xffu >> (8 - count)), p);
}
FV_INLINE void half_store(float *p, int count, half x)
{
    _mm256_mask_storeu_ps(p, (__mmask8)(0xffu >> (8 - count)), x);
}
#else
typedef fv_vec half;
FV_INLINE half half_of(fv_vec x) { return x; }
FV_INLINE half half_zero(void) { return fv_vec_zero(); }
FV_INLINE half half_fma(half a, half b, half c) { return fv_vec_fma(a, b, c); }
FV_INLINE half half_load(const float *p, int count) { return fv_vec_load_part(p, count); }
FV_INLINE void half_store(float *p, int count, half x) { fv_vec_store_part(p, count, x); }
#endif

/* How an instance reads B. */
typedef enum tile_kind {
    WHOLE,  /* whole vectors */
    PART,   /* the last vector has only `tail` columns */
    HALF,   /* likewise, and half a vector holds them */
    STREAM, /* whole, and B comes from a distant cache */
    NEAR,   /* likewise, and its rows fit into L1 */
    PACK    /* likewise, and packs B: the stores hide behind the FMAs */
} tile_kind;

/* All arguments but t and tail are compile-time constants, so the loops over rows and vectors
 * unroll into registers. `vecs` counts the vectors of a row, the last one included. */
FV_INSTANCE void tile(const fv_tile *t, const int rows, const int vecs, const tile_kind kind,
                      const int tail)
{
    fv_vec sum[FV_GEMM_TILE_ROWS][FV_TILE_VECS];
    half edge[FV_GEMM_TILE_ROWS];
    const int whole = kind == HALF ? vecs - 1 : vecs, last = whole * FV_VEC;
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    const int64_t from_row = t->from_row, c_row = t->c_row;
    const float *from = t->from;
    float *c = t->c;

    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < whole; v++) {
            if (!from)
                sum[i][v] = fv_vec_zero();
            else if (kind == PART && v == vecs - 1)
                sum[i][v] = fv_vec_load_part(from + i * from_row + v * FV_VEC, tail);
            else
                sum[i][v] = fv_vec_load(from + i * from_row + v * FV_VEC);
        }
        if (kind == HALF)
            edge[i] = from ? half_load(from + i * from_row + last, tail) : half_zero();
    }

    /* Two pointers reach six rows with scaled-index addressing. */
    const float *a = t->a, *a3 = t->a + 3 * a_row, *b = t->b;
    float *packed = t->packed;
    for (int64_t k = t->k; k > 0; k--) {
        fv_vec row[FV_TILE_VECS];
        half row_edge = half_zero();
        FV_UNROLL
        for (int v = 0; v < whole; v++)
            row[v] = kind == PART && v == vecs - 1 ? fv_vec_load_part(b + v * FV_VEC, tail)
                                                   : fv_vec_load(b + v * FV_VEC);
        if (kind == HALF) row_edge = half_load(b + last, tail);
        if (kind == STREAM || kind == PACK || kind == NEAR) {
            const int64_t ahead = kind == PACK   ? FV_AHEAD_PACK
                                  : kind == NEAR ? FV_AHEAD_NEAR
                                                 : FV_AHEAD;
            FV_UNROLL
            for (int j = 0; j < vecs * FV_VEC; j += FV_LINE) {
                const void *line = b + ahead * b_row + j;
                if (kind == NEAR)
                    fv_prefetch_l1(line);
                else
                    fv_prefetch_l2(line);
            }
        }
        if (kind == PACK) {
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                fv_vec_store(packed + v * FV_VEC, row[v]);
            packed += vecs * FV_VEC;
        }
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            const fv_vec x = fv_vec_set(i < 3 ? a[i * a_row] : a3[(i - 3) * a_row]);
            FV_UNROLL
            for (int v = 0; v < whole; v++)
                sum[i][v] = fv_vec_fma(x, row[v], sum[i][v]);
            if (kind == HALF) edge[i] = half_fma(half_of(x), row_edge, edge[i]);
        }
        a += a_col;
        a3 += a_col;
        b += b_row;
    }

    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < whole; v++) {
            if (kind == PART && v == vecs - 1)
                fv_vec_store_part(c + i * c_row + v * FV_VEC, tail, sum[i][v]);
            else
                fv_vec_store(c + i * c_row + v * FV_VEC, sum[i][v]);
        }
        if (kind == HALF) half_store(c + i * c_row + last, tail, edge[i]);
    }
}

typedef void (*tile_fn)(const fv_tile *t, int tail);

#define TILE(kind, rows, vecs)                                                                     \
    static void kind##_##rows##x##vecs(const fv_tile *t, int tail)                                 \
    {                                                                                              \
        tile(t, rows, vecs, kind, tail);                                                           \
    }
#define TILES(kind, vecs)                                                                          \
    TILE(kind, 1, vecs)                                                                            \
    TILE(kind, 2, vecs)                                                                            \
    TILE(kind, 3, vecs) TILE(kind, 4, vecs) TILE(kind, 5, vecs) TILE(kind, 6, vecs)
#define NAMES(kind, vecs)                                                                          \
    {                                                                                              \
        kind##_1x##vecs, kind##_2x##vecs, kind##_3x##vecs, kind##_4x##vecs, kind##_5x##vecs,       \
            kind##_6x##vecs                                                                        \
    }

TILES(WHOLE, 1)
TILES(WHOLE, 2)
TILES(PART, 1)
TILES(PART, 2)
#if FV_SIMD_LEVEL != 2
TILES(WHOLE, 3)
TILES(WHOLE, 4)
TILES(PART, 3)
TILES(PART, 4)
TILE(PACK, 6, 4)
static const tile_fn whole_tiles[FV_TILE_VECS][FV_GEMM_TILE_ROWS] = {
    NAMES(WHOLE, 1), NAMES(WHOLE, 2), NAMES(WHOLE, 3), NAMES(WHOLE, 4)};
static const tile_fn part_tiles[FV_TILE_VECS][FV_GEMM_TILE_ROWS] = {NAMES(PART, 1), NAMES(PART, 2),
                                                                    NAMES(PART, 3), NAMES(PART, 4)};
static const tile_fn pack_tile = PACK_6x4;
#endif
#if FV_SIMD_LEVEL == 3
TILES(HALF, 1)
TILES(HALF, 2)
TILES(HALF, 3)
TILES(HALF, 4)
TILES(STREAM, 4)
static const tile_fn half_tiles[FV_TILE_VECS][FV_GEMM_TILE_ROWS] = {NAMES(HALF, 1), NAMES(HALF, 2),
                                                                    NAMES(HALF, 3), NAMES(HALF, 4)};
static const tile_fn stream_tiles[FV_GEMM_TILE_ROWS] = NAMES(STREAM, 4);
#elif FV_SIMD_LEVEL == 1
TILES(NEAR, 4)
static const tile_fn stream_tiles[FV_GEMM_TILE_ROWS] = NAMES(NEAR, 4);
#else
TILES(NEAR, 2)
TILE(PACK, 6, 2)
static const tile_fn whole_tiles[FV_TILE_VECS][FV_GEMM_TILE_ROWS] = {NAMES(WHOLE, 1),
                                                                     NAMES(WHOLE, 2)};
static const tile_fn part_tiles[FV_TILE_VECS][FV_GEMM_TILE_ROWS] = {NAMES(PART, 1), NAMES(PART, 2)};
static const tile_fn stream_tiles[FV_GEMM_TILE_ROWS] = NAMES(NEAR, 2);
static const tile_fn pack_tile = PACK_6x2;
#endif

void fv_gemm_tile(const fv_tile *t, int rows, int cols)
{
    const int vecs = (cols + FV_VEC - 1) / FV_VEC, tail = cols - (vecs - 1) * FV_VEC;
#if FV_SIMD_LEVEL == 3
    if (tail <= FV_VEC / 2) {
        half_tiles[vecs - 1][rows - 1](t, tail);
        return;
    }
#endif
    (tail == FV_VEC ? whole_tiles : part_tiles)[vecs - 1][rows - 1](t, tail);
}

void fv_gemm_tile_stream(const fv_tile *t, int rows) { stream_tiles[rows - 1](t, FV_VEC); }

void fv_gemm_tile_pack(const fv_tile *t) { pack_tile(t, FV_VEC); }
