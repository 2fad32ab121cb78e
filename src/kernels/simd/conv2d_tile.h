/*
 * The register tile of the convolutions: rows of weights times a few vectors of pixels (or images).
 * It visits the channels and, of each, a list of taps. The lanes of a vector come from one place of
 * the source, or from 2 or 4 shorter pieces, so that rows of 8 or 4 pixels fill a vector as well.
 *
 *     fv_conv2d_tile_run(&tile, rows, vecs, pieces);   // out(i, .) = bias[i] + sum of w x
 */
#ifndef FV_KERNELS_SIMD_CONV2D_TILE_H
#define FV_KERNELS_SIMD_CONV2D_TILE_H

#include "kernels/image.h"
#include "kernels/simd/gemm_simd.h"

enum {
    FV_CONV_VECS = FV_SIMD_LEVEL == 1 ? 4 : 2,
    FV_CONV_COLS = FV_CONV_VECS * FV_VEC,
    FV_CONV_ROWS = FV_SIMD_LEVEL == 3 ? 12 : 6, /* 24, 12 and 24 registers of sums */
    FV_CONV_MOST_PIECES = FV_VEC / 4            /* of a vector: pieces of at least 4 lanes */
};

FV_INLINE void fv_conv2d_fill(float *out, int64_t n, fv_vec value)
{
    for (; n >= FV_VEC; n -= FV_VEC, out += FV_VEC)
        fv_vec_store(out, value);
    if (n > 0) fv_vec_store_part(out, (int)n, value);
}

/* Offsets are in floats. Row i, channel c and tap k use weights[i weight_row + c weight_channel +
 * with[k]] and the lanes at source + c source_channel + from[k] + piece_from[..]. */
typedef struct fv_conv2d_tile {
    int64_t channels, taps;
    const int64_t *from, *with;           /* of each tap */
    const float *source, *weights, *bias; /* bias NULL: none */
    int64_t source_channel, weight_channel, weight_row;
    const int64_t *piece_from, *piece_to; /* of each piece, in source and in out */
    float *out;
    int64_t out_row;
} fv_conv2d_tile;

/* rows 1..FV_CONV_ROWS, vecs 1..FV_CONV_VECS, pieces of each vector 1, 2 or 4, at most
 * FV_CONV_MOST_PIECES. */
void fv_conv2d_tile_run(const fv_conv2d_tile *t, int rows, int vecs, int pieces);

/* Rows of a row tile: as even as possible over as few tiles as possible, since a tile of few rows
 * is slower for each of them. Room for packed weights is that of whole tiles. */
int fv_conv2d_tile_rows(int64_t rows);
int64_t fv_conv2d_packed_rows(int64_t rows);

/*
 * Weights in the order in which the tile reads them, [group][row tile][channel][tap][FV_CONV_ROWS]:
 * weight_row is 1 then, and `with` a multiple of FV_CONV_ROWS. Rows are channels of y, or with
 * `data` those of x.
 */
int64_t fv_conv2d_packed_floats(const fv_conv2d_args *a, bool data);
void fv_conv2d_pack_weights(const fv_exec *exec, const fv_conv2d_args *a, bool data, const float *w,
                            float *packed);

#endif
