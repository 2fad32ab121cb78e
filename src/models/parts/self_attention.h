/*
 * Layers of multi-head attention and nothing else: no norms, residuals or feed-forward layers. What
 * the encoder and the decoder named "attention" share.
 */
#ifndef FV_MODELS_PARTS_SELF_ATTENTION_H
#define FV_MODELS_PARTS_SELF_ATTENTION_H

#include "models/parts/places.h"

typedef struct fv_self_attention {
    int layers;
    fv_places places;
    fv_mha layer[FV_RNN_LAYERS];
} fv_self_attention;

/* The first layer reads tokens with their positions; each gives `width` elements. Parameters
 * "prefix.positions" and "prefix.self.0", .. */
fv_status fv_self_attention_create(fv_params *params, const char *prefix,
                                   const fv_seq2seq_config *cfg, int64_t width, bool causal,
                                   fv_self_attention *out);
/* x [batch, n, embedding] with the positions from `first` on. */
fv_tensor *fv_self_attention_place(fv_ctx *ctx, const fv_self_attention *a, fv_tensor *x,
                                   int64_t first);

#endif
