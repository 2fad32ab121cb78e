/* The tables of a word2vec model, for its task and for fovea/words.h. */
#ifndef FV_MODELS_WORD2VEC_H
#define FV_MODELS_WORD2VEC_H

#include "models/model.h"
#include "tensor/tensor.h"

typedef struct fv_word2vec {
    fv_ctx *ctx;
    fv_tensor *inputs, *outputs; /* [tokens, width] */
} fv_word2vec;

#endif
