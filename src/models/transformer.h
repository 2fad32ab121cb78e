/*
 * The inside of fovea/transformer.h.
 *
 *     transformer.c        settings, checks, parameters
 *     transformer_names.c  what the parameters of each family are called
 *     transformer_rows.c   tokens and positions, packed or in a rectangle
 *     transformer_run.c    passes through the stacks, and what is seen on the way
 *     transformer_heads.c  what stands on top of the last states
 *     transformer_loss.c   losses
 */
#ifndef FV_MODELS_TRANSFORMER_H
#define FV_MODELS_TRANSFORMER_H

#include "fovea/transformer.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

/* Names of one side's parameters. NULL: the family has none of it. */
typedef struct fv_side_names {
    const char *embedding, *positions, *types, *embedding_norm;
    const char *layer;           /* before its number: "transformer.h." */
    fv_block_names block, gated; /* with plain and with gated feed-forward layers */
    const char *relative;        /* the whole name without ".weight" */
    const char *final_norm;
} fv_side_names;

typedef struct fv_family_names {
    const char *model_type;
    const char *prefix; /* of the model below its heads: files of that model alone leave it out */
    const char *shared; /* the embedding of both sides; NULL: a family with one side */
    fv_side_names encoder, decoder;
    const char *logits;      /* the output matrix where it is not tied */
    const char *logits_bias; /* the whole name */
    bool logits_bias_row;    /* its shape is [1, vocabulary] */
    bool transposed;         /* files hold the blocks' matrices as [in, out] */
    bool pad_learns;         /* the embedding of the padding token gets a gradient */
    const char *words_dense, *words_norm;
    const char *pooler, *next_sentence, *labels;
} fv_family_names;

const fv_family_names *fv_family_names_of(fv_family family);

/* What a block that is run again on the way back needs beside tensors. It must outlive the pass, so
 * the model holds both, for training and not. */
typedef struct fv_side_call {
    const fv_block *block;
    bool training;
} fv_side_call;

/* One side. */
typedef struct fv_side {
    bool encoder;
    fv_tensor *embedding; /* may be the other side's */
    fv_tensor *positions, *types;
    fv_norm_layer embedding_norm, final_norm; /* weight NULL: none */
    fv_relative relative;                     /* reach 0: none */
    fv_tensor *relative_table;
    int64_t layers;
    fv_block *blocks;
    fv_side_call *calls; /* two a layer */
} fv_side;

struct fv_transformer {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer_config cfg;
    fv_side encoder, decoder; /* layers 0: none */
    fv_tensor *logits;        /* [vocabulary, width], or NULL */
    fv_tensor *logits_bias;   /* of the vocabulary's size, or NULL */
    fv_dense words_dense, pooler, next_sentence, labels;
    fv_norm_layer words_norm;
};

/* ---- rows (transformer_rows.c) ------------------------------------------------------ */

/* Shapes and the number of positions; poisons. */
bool fv_rows_check(fv_ctx *ctx, const fv_transformer *m, const fv_rows *rows);
/* Documents: those of `begin`, or one a row. */
int64_t fv_rows_documents(const fv_rows *rows);
/* What the embedding of tokens is: the input of the first block. `first` is the position of column
 * 0 where rows->positions is NULL. */
fv_tensor *fv_side_embed(fv_ctx *ctx, const fv_transformer *m, const fv_side *side,
                         const fv_rows *rows, int64_t first, bool training);
/* The rotary table of the rows, or NULL where the model has none. */
fv_tensor *fv_side_angles(fv_ctx *ctx, const fv_transformer *m, const fv_rows *rows, int64_t first);
/* u8 [batch, 1, 1, n] from a mask, or NULL. */
fv_tensor *fv_rows_visible(fv_ctx *ctx, const fv_rows *rows);

/* ---- passes (transformer_run.c) ----------------------------------------------------- */

/* The norm behind the last block, where there is one. */
fv_tensor *fv_side_finish(fv_ctx *ctx, const fv_side *side, fv_tensor *x);

#endif
