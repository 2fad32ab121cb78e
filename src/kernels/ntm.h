/*
 * The memory of a Neural Turing Machine. A memory of N slots with W numbers each is stored as W
 * rows of N numbers, one for each slot: slots are what a vector register holds, and the sums over
 * a slot's numbers need no reduction across lanes.
 *
 * A head's weights w over slots come from a key k, a strength b, a gate g, shift weights s, an
 * exponent y and the weights w' of the step before:
 *
 *     cos_i = k . M_i / (|k| |M_i|)          0 if a squared length is not a normal number
 *     c     = softmax(b cos)
 *     h     = g c + (1 - g) w'
 *     q_i   = sum over t of s_t h_(i - first - t)        indices modulo N
 *     w_i   = q_i^y / sum_j q_j^y            computed relative to the largest q
 *
 * With `uniform_shift`, s is one number x, the lower bound of a uniform distribution of width one:
 * first = floor(x), s_0 = 1 - (x - floor(x)), s_1 = x - floor(x). Otherwise s has `taps` weights
 * (an odd number), first = -(taps - 1) / 2.
 *
 * If no q is positive, there is nothing to sharpen: w is 1 / N everywhere and passes no gradient
 * on. Where q_i is 0, w_i is 0 and so is its derivative, unless y is 1.
 */
#ifndef FV_KERNELS_NTM_H
#define FV_KERNELS_NTM_H

#include "kernels/kernel.h"

typedef struct fv_ntm_args {
    int64_t batch, slots, width;
    int64_t heads, writers; /* the last `writers` heads write, the others read (NTM_STEP only) */
    int64_t taps;           /* numbers of a shift: its weights, or 1 with uniform_shift */
    bool uniform_shift;
    size_t element; /* bytes */
} fv_ntm_args;

/* Numbers of a head's address in NTM_STEP's parameters: key, strength, gate, shift, exponent. */
static inline int64_t fv_ntm_head_width(const fv_ntm_args *a) { return a->width + 3 + a->taps; }
/* Numbers of all parameters: the addresses of all heads, then erase and add of each writer. */
static inline int64_t fv_ntm_width(const fv_ntm_args *a)
{
    return a->heads * fv_ntm_head_width(a) + a->writers * 2 * a->width;
}
/* Numbers kept of a batch row for backward: cos, c and q of each head, and 1 / |M_i|. */
static inline int64_t fv_ntm_kept(const fv_ntm_args *a) { return (3 * a->heads + 1) * a->slots; }

/*
 * NTM_ADDRESS ptr: w [batch, heads, slots], kept [batch, fv_ntm_kept] or NULL, then the inputs: key
 *   [batch, heads, width], strength, gate [batch, heads], shift [batch, heads, taps], exponent
 *   [batch, heads], before [batch, heads, slots], memory [batch, width, slots]
 * NTM_ADDRESS_GRAD ptr: the gradients of the seven inputs, that of w, w, kept, and the inputs
 *   terms: 0 and 1 of the sharpening, 2 and 3 of the softmax, 4 and 5 of the key, 6 and 7 of memory
 *
 * NTM_STEP ptr: read [batch, readers, width], w [batch, heads, slots], next memory [batch, width,
 *   slots], acts [batch, fv_ntm_width] or NULL, kept or NULL, raw [batch, fv_ntm_width], before,
 *   memory. From raw parameters come strength = softplus, gate = sigmoid, shift = softmax (or
 *   itself, if uniform), exponent = 1 + softplus, erase = sigmoid, add = tanh. Then
 *     read_r  = sum_i w_r,i M_i
 *     M_i'    = M_i * prod over writers (1 - w_i e) + sum over writers of w_i a
 * NTM_STEP_GRAD ptr: draw, dbefore, dmemory, then the gradients of read, w, next memory (each may
 *   be NULL), w, acts, kept, raw, before, memory
 *   terms: as above; 8 and 9 of memory through the writing and the reading; 10 to 13 of w through
 *   reading, erasing, adding, and its own gradient
 */

size_t fv_ntm_scratch_query(const void *args, int threads);

#endif
