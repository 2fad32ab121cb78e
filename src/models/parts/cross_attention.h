/*
 * The attention between a decoder and a memory: a description (fv_attention) and the parameters
 * that its score and its window have.
 *
 *     fv_cross_attention_create(params, cfg, query_width, memory_width, &attention);
 *     fv_tensor *context = fv_cross_attention_run(ctx, &attention, &call, state, &step);
 */
#ifndef FV_MODELS_PARTS_CROSS_ATTENTION_H
#define FV_MODELS_PARTS_CROSS_ATTENTION_H

#include "models/parts/parts.h"

struct fv_cross_attention {
    fv_attention how;
    int64_t query_width, memory_width;
    fv_tensor *w, *w_q, *w_k, *w_p, *v_p; /* as in fv_attention_input; NULL: not needed */
};

/* Parameters "attention.*" of cfg's score and normaliser. */
void fv_cross_attention_create(fv_params *params, const fv_seq2seq_config *cfg, int64_t query_width,
                               int64_t memory_width, fv_cross_attention *out);

/* Keys for the whole memory from values [rows, width], rows in any layout; NULL: the values are the
 * keys. Projected once for all steps. */
fv_tensor *fv_cross_attention_keys(fv_ctx *ctx, const fv_cross_attention *attention,
                                   fv_tensor *values);

/* The context [n, memory width] of queries [n, query width]; weights, and what hard attention has
 * drawn in training, go into *step. Hard attention draws in training only. */
fv_tensor *fv_cross_attention_run(fv_ctx *ctx, const fv_cross_attention *attention,
                                  const fv_decoder_call *call, fv_tensor *query,
                                  fv_decoder_step *step);

#endif
