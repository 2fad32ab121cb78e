/*
 * Six rows by a few vectors of C in registers, over pairs of bf16 (kernels/pairs.h). Whoever
 * includes this file has defined how pairs are met:
 *
 *     enum { PAIR_PASSES };                            // passes over a pair, 1 or 2
 *     pair_vec pair_part(fv_words words, int pass)     // what a pass wants of each pair
 *     fv_vec pair_add(fv_vec sum, pair_vec x, pair_vec y)
 */
#ifndef FV_KERNELS_SIMD_PAIR_TILE_H
#define FV_KERNELS_SIMD_PAIR_TILE_H

/* c(i,j) = from(i,j) + sum over pairs of a(i,p) . b(p,j), all FV_TILE_COLS columns. */
typedef struct pair_tile {
    int64_t pairs;
    const uint32_t *a;
    int64_t a_row, a_col;
    const uint32_t *b; /* [pairs][FV_TILE_COLS] */
    const float *from; /* NULL: the sums start at 0; may be c */
    int64_t from_row;
    float *c;
    int64_t c_row;
} pair_tile;

/* `rows` is a constant of the instance. */
FV_INSTANCE void pair_tile_of(const pair_tile *t, const int rows)
{
    fv_vec sum[FV_GEMM_STRIP][FV_TILE_VECS];
    const int64_t a_row = t->a_row, a_col = t->a_col;
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            sum[i][v] =
                t->from ? fv_vec_load(t->from + i * t->from_row + v * FV_VEC) : fv_vec_zero();
    }
    /* Two pointers reach six rows with scaled-index addressing. */
    const uint32_t *a = t->a, *a3 = t->a + 3 * a_row, *b = t->b;
    for (int64_t pair = t->pairs; pair > 0; pair--) {
        FV_UNROLL
        for (int pass = 0; pass < PAIR_PASSES; pass++) {
            pair_vec row[FV_TILE_VECS];
            FV_UNROLL
            for (int v = 0; v < FV_TILE_VECS; v++)
                row[v] = pair_part(fv_words_load(b + v * FV_VEC), pass);
            FV_UNROLL
            for (int i = 0; i < rows; i++) {
                const uint32_t *at = i < 3 ? a + i * a_row : a3 + (i - 3) * a_row;
                const pair_vec x = pair_part(fv_words_set(*at), pass);
                FV_UNROLL
                for (int v = 0; v < FV_TILE_VECS; v++)
                    sum[i][v] = pair_add(sum[i][v], x, row[v]);
            }
        }
        a += a_col;
        a3 += a_col;
        b += FV_TILE_COLS;
    }
    FV_UNROLL
    for (int i = 0; i < rows; i++) {
        FV_UNROLL
        for (int v = 0; v < FV_TILE_VECS; v++)
            fv_vec_store(t->c + i * t->c_row + v * FV_VEC, sum[i][v]);
    }
}

#define PAIR_TILE(rows)                                                                            \
    static void pair_tile_##rows(const pair_tile *t) { pair_tile_of(t, rows); }
PAIR_TILE(1)
PAIR_TILE(2)
PAIR_TILE(3)
PAIR_TILE(4)
PAIR_TILE(5)
PAIR_TILE(6)

/* rows 1..FV_GEMM_STRIP. */
static void pair_tile_run(const pair_tile *t, int rows)
{
    static void (*const by_rows[FV_GEMM_STRIP])(const pair_tile *) = {
        pair_tile_1, pair_tile_2, pair_tile_3, pair_tile_4, pair_tile_5, pair_tile_6};
    by_rows[rows - 1](t);
}

#endif
