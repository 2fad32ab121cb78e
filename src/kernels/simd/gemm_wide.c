/*
 * Tiles of one to three rows for AVX2. Two vectors of each row, as in gemm_tile.c, would leave the
 * multiply-adds waiting for one another, and would use half of each pair of lines that the caches
 * bring in together: four vectors do neither. A's elements stay in registers and B's vectors pass.
 */
#include "kernels/simd/gemm_simd.h"

#if FV_SIMD_LEVEL == 2

enum { VECS = FV_WIDE_COLS / FV_VEC, PANEL_TILES = FV_GEMM_PANEL / FV_WIDE_COLS };

typedef enum wide_kind { WHOLE, STREAM, PACK, COPY, ASK } wide_kind;

/* rows and kind are constants of the instance. */
FV_INSTANCE void wide(const fv_tile *t, const int rows, const wide_kind kind)
{
    fv_vec sum[FV_WIDE_ROWS][VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row;
    const float *a = t->a, *b = t->b;
    float *packed = t->packed;
    const int64_t panel = t->k * FV_TILE_COLS;
    const float *ask = t->ask;
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
                _mm_prefetch((const void *)(b + ahead * b_row + j), _MM_HINT_T1);
        }
        if (kind == ASK && k % PANEL_TILES == 0) ask = fv_ask(ask, t->ask_row);
        FV_UNROLL
        for (int v = 0; v < VECS; v++) {
            const fv_vec y = fv_vec_load(b + v * FV_VEC);
            if (kind == PACK)
                fv_vec_store(packed + v / FV_TILE_VECS * panel + v % FV_TILE_VECS * FV_VEC, y);
            if (kind == COPY) fv_vec_store(packed + v * FV_VEC, y);
            FV_UNROLL
            for (int i = 0; i < rows; i++)
                sum[i][v] = fv_vec_fma(x[i], y, sum[i][v]);
        }
        a += a_col;
        b += b_row;
        if (kind == PACK) packed += FV_TILE_COLS;
        if (kind == COPY) packed += FV_GEMM_PANEL;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < VECS; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

/* Tile by tile through a panel. */
FV_INSTANCE void panel(const fv_tile *first, const int rows, const wide_kind kind)
{
    fv_tile t = *first;
    for (int col = 0; col < FV_GEMM_PANEL; col += FV_WIDE_COLS) {
        t.b = first->b + col;
        t.c = first->c + col;
        t.from = first->from ? first->from + col : NULL;
        if (kind == COPY) t.packed = first->packed + col;
        wide(&t, rows, kind);
        t.ask += t.k / PANEL_TILES * t.ask_row;
    }
}

#define BY_ROWS(form, kind)                                                                        \
    if (rows == 1)                                                                                 \
        form(t, 1, kind);                                                                          \
    else if (rows == 2)                                                                            \
        form(t, 2, kind);                                                                          \
    else                                                                                           \
        form(t, 3, kind)

void FV_GEMM_NAME(wide)(const fv_tile *t, int rows) { BY_ROWS(wide, WHOLE); }
void FV_GEMM_NAME(wide_stream)(const fv_tile *t, int rows) { BY_ROWS(wide, STREAM); }
void FV_GEMM_NAME(wide_pack)(const fv_tile *t, int rows) { BY_ROWS(wide, PACK); }
void FV_GEMM_NAME(panel_copy)(const fv_tile *t, int rows) { BY_ROWS(panel, COPY); }
void FV_GEMM_NAME(panel_ask)(const fv_tile *t, int rows) { BY_ROWS(panel, ASK); }
void FV_GEMM_NAME(panel_whole)(const fv_tile *t, int rows) { BY_ROWS(panel, WHOLE); }

#endif
