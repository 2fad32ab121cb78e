/*
 * The register tile. AVX-512 holds 6 x 64 of C in 24 of its 32 registers, four more hold a row of
 * B and one a broadcast element of A: 24 multiply-adds for 10 loads. AVX2 holds 6 x 16 in 12 of 16.
 * Each lane of C is one chain of FMAs, so the tile's shape never shows in the result.
 */
#include "kernels/simd/gemm_simd.h"

/* `part`: the last vector has only `tail` columns. Everything but t and tail is a constant of the
 * instance, so the loops over rows and vectors unroll into registers. */
FV_INLINE void tile(const fv_tile *t, const int rows, const int vecs, const bool part,
                    const int tail)
{
    fv_vec sum[FV_GEMM_STRIP][FV_TILE_VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    const int64_t from_row = t->from_row, c_row = t->c_row;
    const float *from = t->from;
    float *c = t->c;

    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            if (!from)
                sum[i][v] = fv_vec_zero();
            else if (part && v == vecs - 1)
                sum[i][v] = fv_vec_load_part(from + i * from_row + v * FV_VEC, tail);
            else
                sum[i][v] = fv_vec_load(from + i * from_row + v * FV_VEC);
        }
    }

    /* Two pointers reach six rows with scaled-index addressing. */
    const float *a = t->a, *a3 = t->a + 3 * a_row, *b = t->b;
    for (int64_t k = t->k; k > 0; k--) {
        fv_vec row[FV_TILE_VECS];
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            row[v] = part && v == vecs - 1 ? fv_vec_load_part(b + v * FV_VEC, tail)
                                           : fv_vec_load(b + v * FV_VEC);
        FV_UNROLL
        for (int i = 0; i < rows; i++) {
            const fv_vec x = fv_vec_set(i < 3 ? a[i * a_row] : a3[(i - 3) * a_row]);
            FV_UNROLL
            for (int v = 0; v < vecs; v++)
                sum[i][v] = fv_vec_fma(x, row[v], sum[i][v]);
        }
        a += a_col;
        a3 += a_col;
        b += b_row;
    }

    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < vecs; v++) {
            if (part && v == vecs - 1)
                fv_vec_store_part(c + i * c_row + v * FV_VEC, tail, sum[i][v]);
            else
                fv_vec_store(c + i * c_row + v * FV_VEC, sum[i][v]);
        }
    }
}

typedef void (*tile_fn)(const fv_tile *t, int tail);

#define TILE(rows, vecs)                                                                           \
    static void whole_##rows##x##vecs(const fv_tile *t, int tail)                                  \
    {                                                                                              \
        tile(t, rows, vecs, false, tail);                                                          \
    }                                                                                              \
    static void part_##rows##x##vecs(const fv_tile *t, int tail)                                   \
    {                                                                                              \
        tile(t, rows, vecs, true, tail);                                                           \
    }
#define TILES(vecs)                                                                                \
    TILE(1, vecs) TILE(2, vecs) TILE(3, vecs) TILE(4, vecs) TILE(5, vecs) TILE(6, vecs)
#define NAMES(kind, vecs)                                                                          \
    {                                                                                              \
        kind##_1x##vecs, kind##_2x##vecs, kind##_3x##vecs, kind##_4x##vecs, kind##_5x##vecs,       \
            kind##_6x##vecs                                                                        \
    }

TILES(1)
TILES(2)
#if FV_SIMD_LEVEL == 3
TILES(3)
TILES(4)
static const tile_fn whole_tiles[FV_TILE_VECS][FV_GEMM_STRIP] = {NAMES(whole, 1), NAMES(whole, 2),
                                                                 NAMES(whole, 3), NAMES(whole, 4)};
static const tile_fn part_tiles[FV_TILE_VECS][FV_GEMM_STRIP] = {NAMES(part, 1), NAMES(part, 2),
                                                                NAMES(part, 3), NAMES(part, 4)};
#else
static const tile_fn whole_tiles[FV_TILE_VECS][FV_GEMM_STRIP] = {NAMES(whole, 1), NAMES(whole, 2)};
static const tile_fn part_tiles[FV_TILE_VECS][FV_GEMM_STRIP] = {NAMES(part, 1), NAMES(part, 2)};
#endif

void FV_GEMM_NAME(tile)(const fv_tile *t, int rows, int cols)
{
    const int vecs = (cols + FV_VEC - 1) / FV_VEC, tail = cols - (vecs - 1) * FV_VEC;
    (tail == FV_VEC ? whole_tiles : part_tiles)[vecs - 1][rows - 1](t, tail);
}
