/*
 * The argmax of W a + b for each row a, without computing all of it. A candidate pre-filter
 * computes the products in 8-bit integers with error bounds; only the few outputs that may hold the
 * maximum are computed in float, exactly as the product of fovea/kernels.h does. The result is
 * therefore the argmax of the float product (the first one of equal maxima), for a quarter of the
 * work.
 *
 * With a = â + da and w = ŵ + dw, where â and ŵ are multiples of their scales (-127 to 127),
 *
 *     |a w - â ŵ|  <=  |da| |w| + |â| |dw|          (Cauchy-Schwarz)
 *
 * plus the rounding errors of the float product and of the bounds themselves.
 *
 * PREFILTER_PACK ptr: prefilter (fv_prefilter_bytes), w [n][k], bias [n] or NULL.
 *   args: fv_prefilter_args; m and a_row are not used. Every level has it.
 * PREFILTER_ARGMAX ptr: best (i64 [m]), a, prefilter, w, bias. args: fv_prefilter_args.
 *   Row i of a starts at a + i a_row. best[i] is -1 if the bounds leave too many candidates. A NaN
 *   among the products counts as the largest. Needs AVX512_VNNI.
 */
#ifndef FV_KERNELS_PREFILTER_H
#define FV_KERNELS_PREFILTER_H

#include "kernels/gemm.h"

typedef struct fv_prefilter_args {
    int64_t m, n, k, a_row;
} fv_prefilter_args;

enum {
    FV_PREFILTER_PANEL = FV_GEMM_PANEL,
    FV_PREFILTER_GROUP = 4,        /* consecutive k that one instruction multiplies and adds */
    FV_PREFILTER_ZERO_POINT = 128, /* the byte that stands for weight 0 */
    FV_PREFILTER_MAX_K = 1 << 15,  /* sums stay within 32 bits */
};

/*
 * A packed pre-filter, every array in whole panels of outputs:
 *   bytes  [panels][ceil(k / 4)][64 outputs][4]: ŵ / scale + 128
 *   scale, bias, norm (of w), error (|dw|): [panels][64] floats each
 * Outputs past the last have bias -FLT_MAX; an output with a w that is not finite has an infinite
 * norm.
 */
typedef struct fv_prefilter {
    const unsigned char *bytes;
    const float *scale, *bias, *norm, *error;
    int64_t panels, groups; /* of FV_PREFILTER_GROUP k */
} fv_prefilter;

/* SIZE_MAX if k exceeds FV_PREFILTER_MAX_K or the size overflows. */
size_t fv_prefilter_bytes(int64_t n, int64_t k);
/* Pointers into the bytes that PREFILTER_PACK wrote. */
fv_prefilter fv_prefilter_view_of_bytes(const void *prefilter, int64_t n, int64_t k);

#endif
