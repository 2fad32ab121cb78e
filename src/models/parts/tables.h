/*
 * Tables that a part computes from its weights at inference, once it has processed enough tokens
 * for them to pay off: for example the gates of every token, which are then looked up. Results have
 * the bits of the direct computation. Tables are dropped when a weight changes.
 *
 *     if (!fv_tables_refresh(ctx, &part->tables, version, rows, drop_all, part)) return;
 *     if (part->tables.used >= tokens && fv_table_fits(w, tokens, 1)) ...
 */
#ifndef FV_MODELS_PARTS_TABLES_H
#define FV_MODELS_PARTS_TABLES_H

#include "base/ctx.h"
#include "fovea/recurrent.h"
#include "tensor/tensor.h"

typedef struct fv_weight_tables {
    uint64_t version; /* of the weights that the tables come from */
    int64_t used;     /* rows computed since the last change */
} fv_weight_tables;

/* Before `rows` more rows are computed with weights of this version: drops tables of another
 * version. False: products are rounded to bf16, and there are no tables. */
bool fv_tables_refresh(const fv_ctx *ctx, fv_weight_tables *tables, uint64_t version, int64_t rows,
                       void (*drop)(void *self), void *self);
bool fv_tables_are_valid(const fv_ctx *ctx, const fv_weight_tables *tables, uint64_t version);

/* Keeps a tensor beyond its scope; NULL where there is an error. */
fv_tensor *fv_table_keep(fv_ctx *ctx, fv_tensor *t);
void fv_table_drop(fv_tensor **t);
/* Whether `tables` tables with a row of gates for each token have an acceptable size. */
bool fv_table_fits(const fv_tensor *input_weight, int64_t tokens, int tables);

/* Grows with every change of the weights that a cell's input gates are computed from. */
static inline uint64_t fv_rnn_input_version(const fv_rnn_weights *w)
{
    return w->input->buffer->version + w->input_bias->buffer->version +
           w->hidden_bias->buffer->version;
}

#endif
