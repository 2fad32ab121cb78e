/*
 * Tiles of one to three rows for AVX2 and NEON. With two vectors per row, as in gemm_tile.c, the
 * multiply-adds would wait for one another, and only half of each pair of adjacent lines that the
 * caches fetch would be used; four vectors avoid both. A's elements stay in registers while B's
 * vectors pass.
 */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL != 3

enum { VECS = FV_WIDE_COLS / FV_VEC };

typedef enum wide_kind { WHOLE, STREAM, PACK } wide_kind;

/* rows and kind are compile-time constants of each instance. */
FV_INSTANCE void wide(const fv_tile *t, const int rows, const wide_kind kind)
{
    fv_vec sum[FV_WIDE_ROWS][VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    const float *a = t->a, *b = t->b;
    float *packed = t->packed;
    const int64_t panel = t->k * FV_TILE_COLS;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            sum[i][v] =
                t->from ? fv_vec_load(t->from + i * t->from_row + v * FV_VEC) : fv_vec_zero();
    }
    for (int64_t k = t->k; k > 0; k--) {
        fv_vec x[FV_WIDE_ROWS];
        FV_UNROLL
        for (int i = 0; i < rows; i++)
            x[i] = fv_vec_set(a[i * a_row]);
        if (kind == STREAM || kind == PACK) {
            const int64_t ahead = kind == PACK ? FV_AHEAD_PACK : FV_AHEAD;
            FV_UNROLL
            for (int j = 0; j < FV_WIDE_COLS; j += FV_LINE)
                fv_prefetch_l2(b + ahead * b_row + j);
        }
        FV_UNROLL
        for (int v = 0; v < VECS; v++) {
            const fv_vec y = fv_vec_load(b + v * FV_VEC);
            if (kind == PACK)
                fv_vec_store(packed + v / FV_TILE_VECS * panel + v % FV_TILE_VECS * FV_VEC, y);
            FV_UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = fv_vec_fma(x[i], y, sum[i][v]);
        }
        a += a_col;
        b += b_row;
        if (kind == PACK) packed += FV_TILE_COLS;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

#define BY_ROWS(kind)                                                                              \
    if (rows == 1)                                                                                 \
        wide(t, 1, kind);                                                                          \
    else if (rows == 2)                                                                            \
        wide(t, 2, kind);                                                                          \
    else                                                                                           \
        wide(t, 3, kind)

void fv_gemm_wide_tile(const fv_tile *t, int rows) { BY_ROWS(WHOLE); }
void fv_gemm_wide_tile_stream(const fv_tile *t, int rows) { BY_ROWS(STREAM); }
void fv_gemm_wide_tile_pack(const fv_tile *t, int rows) { BY_ROWS(PACK); }

#endif
