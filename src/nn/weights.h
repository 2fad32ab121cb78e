/*
 * How layers create their parameters: under a prefix, with a given initialisation. A layer is a
 * plain struct of tensors; the set owns them, so a layer needs no destructor.
 *
 *     layer->weight = fv_nn_weight(params, prefix, "weight", 2, (int64_t[]){out, in},
 *                                  fv_init_xavier(in, out));
 */
#ifndef FV_NN_WEIGHTS_H
#define FV_NN_WEIGHTS_H

#include <math.h>

#include "fovea/optim.h"

typedef struct fv_init {
    enum { FV_INIT_CONSTANT, FV_INIT_UNIFORM, FV_INIT_NORMAL } kind;
    double value; /* the constant, the bound, or the standard deviation */
} fv_init;

static inline fv_init fv_init_constant(double value) { return (fv_init){FV_INIT_CONSTANT, value}; }
static inline fv_init fv_init_uniform(double bound) { return (fv_init){FV_INIT_UNIFORM, bound}; }
static inline fv_init fv_init_normal(double std) { return (fv_init){FV_INIT_NORMAL, std}; }
/* Uniform, with the variance that preserves the scale of activations and gradients (Glorot and
 * Bengio). */
static inline fv_init fv_init_xavier(int64_t in, int64_t out)
{
    return fv_init_uniform(sqrt(6.0 / (double)(in + out)));
}

enum { FV_NN_NAME = 512 };
/* "prefix.name", or "name" with an empty prefix. */
void fv_nn_name(char out[FV_NN_NAME], const char *prefix, const char *name);

/* The parameter of that name in `params` if it exists with this shape (loaded or shared weights),
 * else a new one, f32. Poisons like fv_params_add, and with SHAPE. */
fv_tensor *fv_nn_weight(fv_params *params, const char *prefix, const char *name, int rank,
                        const int64_t *shape, fv_init init);

#endif
