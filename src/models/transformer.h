/*
 * Internals of fovea/transformer.h.
 *
 *     transformer_settings.c  a typical model of each family
 *     transformer.c           checks, parameters
 *     transformer_names.c     parameter names of each family
 *     transformer_rows.c      tokens and positions, varlen or padded
 *     transformer_tables.c    tables of positions, made once per model
 *     transformer_angles.c    rotary tables of the rows
 *     transformer_run.c       forward passes and capture
 *     transformer_heads.c     heads on top of the last states
 *     transformer_loss.c      losses
 */
#ifndef FV_MODELS_TRANSFORMER_H
#define FV_MODELS_TRANSFORMER_H

#include "fovea/transformer.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

/* Parameter names of the encoder or the decoder. NULL: the family has no such parameter. */
typedef struct fv_side_names {
    const char *embedding, *positions, *types, *embedding_norm;
    const char *layer;           /* before its number: "transformer.h." */
    fv_block_names block, gated; /* with plain and with gated feed-forward layers */
    const char *relative;        /* the whole name without ".weight" */
    const char *final_norm;
} fv_side_names;

typedef struct fv_family_names {
    const char *model_type;
    const char *class_name; /* in "architectures": "Bert" of "BertForMaskedLM" */
    const char *prefix;     /* of the model without heads; files of the bare model leave it out */
    const char *shared;     /* the shared embedding; NULL: a family with encoder or decoder only */
    fv_side_names encoder, decoder;
    const char *logits;      /* the output matrix where it is not tied */
    const char *logits_bias; /* the whole name */
    const char *untied_bias; /* the same where the output matrix is not tied; NULL: logits_bias */
    bool logits_bias_row;    /* its shape is [1, vocabulary] */
    bool transposed;         /* files hold the blocks' matrices as [in, out] */
    bool pad_learns;         /* the embedding of the padding token gets a gradient */
    const char *words_dense, *words_norm;
    const char *pooler, *next_sentence, *spans;
    const char *labels;                    /* from states or the pooled state */
    const char *labels_dense, *labels_out; /* with label_dense: that layer, and the classes */
} fv_family_names;

const fv_family_names *fv_family_names_of(fv_family family);

/* What recomputing a block in backward needs besides tensors. It must outlive the pass, so the
 * model holds one for training and one for evaluation. */
typedef struct fv_side_call {
    const fv_block *block;
    bool training;
} fv_side_call;

/* The encoder or the decoder. */
typedef struct fv_side {
    bool encoder;
    fv_tensor *embedding; /* may be shared */
    fv_tensor *positions, *types;
    fv_norm_layer embedding_norm, final_norm; /* weight NULL: none */
    fv_relative relative;                     /* max_distance 0: none */
    fv_tensor *relative_table;
    int64_t layers;
    fv_block *blocks;
    fv_side_call *calls; /* two per layer */
} fv_side;

/* Tables of positions that a model makes when it first needs them. */
typedef enum fv_position_table {
    FV_TABLE_SINUSOID,    /* [positions, width] */
    FV_TABLE_ROTARY,      /* [positions, 2, pairs]; of sequences that fit the original context */
    FV_TABLE_ROTARY_LONG, /* longrope, of longer sequences */
    FV_TABLE_COUNT
} fv_position_table;

typedef struct fv_position_tables {
    fv_tensor *table[FV_TABLE_COUNT]; /* NULL: not needed so far */
} fv_position_tables;

struct fv_transformer {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer_config cfg;
    fv_side encoder, decoder; /* layers 0: none */
    fv_tensor *logits;        /* [vocabulary, width], or NULL */
    fv_tensor *logits_bias;   /* of the vocabulary's size, or NULL */
    fv_dense words_dense, pooler, next_sentence, labels_dense, labels, spans;
    fv_norm_layer words_norm;
    double *factors; /* of longrope: short, then long, factor_count each; or NULL */
    size_t factor_count;
    fv_position_tables *tables;
};

/* ---- what follows from settings (transformer.c) ------------------------------------- */

#define FV_CONTEXT_UNBOUNDED (INT64_MAX / 2)

/* Positions are Shaw's vectors, one set in each layer. */
bool fv_has_distance_vectors(const fv_transformer_config *c);
/* Whether a decoder layer sees all tokens in spite of the window. */
bool fv_is_full_layer(const fv_transformer_config *c, int64_t layer);
/* Tokens that a sequence may have. */
int64_t fv_context_of(const fv_transformer_config *c);

/* ---- tables of positions (transformer_tables.c) ------------------------------------- */

/*
 * Rows first .. first + n of a table, contiguous, without a copy:
 *
 *     fv_tensor *rows = fv_position_rows(ctx, m, FV_TABLE_SINUSOID, FV_F32, 7, 1);  // [1, width]
 *
 * The table is made on the first call and grows by doubling, up to the model's context. The result
 * is of the innermost scope. Poisons: MEMORY, LIMIT.
 */
fv_tensor *fv_position_rows(fv_ctx *ctx, const fv_transformer *m, fv_position_table which,
                            fv_dtype dtype, int64_t first, int64_t n);
/* The rotary settings of every layer. */
const fv_rotary_config *fv_transformer_rotary(const fv_transformer *m);
fv_status fv_position_tables_create(fv_transformer *m);
void fv_position_tables_destroy(fv_transformer *m);

/* ---- rows (transformer_rows.c) ------------------------------------------------------ */

/* Shapes and the number of positions; poisons. */
bool fv_token_rows_check(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows);
/* Number of documents: those of `begin`, or one per row. */
int64_t fv_token_rows_documents(const fv_token_rows *rows);
/* The embedded tokens: input of the first block. `first` is the position of column 0 where
 * rows->positions is NULL. */
fv_tensor *fv_side_embed(fv_ctx *ctx, const fv_transformer *m, const fv_side *side,
                         const fv_token_rows *rows, int64_t first, bool training);
/* The rotary table of the rows, or NULL where the model has none. Scalings that depend on the
 * length of a sequence take each document's own, and `following` tokens more: those that prefill
 * leaves to the first step. */
fv_tensor *fv_side_angles(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows,
                          int64_t first, int64_t following);
/* u8 [batch, 1, 1, n] from a mask, or NULL. */
fv_tensor *fv_token_rows_visible(fv_ctx *ctx, const fv_token_rows *rows);

/* ---- passes (transformer_run.c) ----------------------------------------------------- */

/* The norm after the last block, where there is one. */
fv_tensor *fv_side_finish(fv_ctx *ctx, const fv_side *side, fv_tensor *x);

/* The settings as keys of a recipe, "transformer.width" and so on, and back. Keys left
 * at their default take the value of the family's typical model. */
fv_key_table fv_transformer_keys(void);
void fv_transformer_config_from(const fv_recipe *recipe, fv_transformer_config *cfg);

/* The settings of a caller, whose struct may be older and smaller. Fails: ARGUMENT. */
fv_status fv_transformer_config_read(fv_ctx *ctx, const fv_transformer_config *given,
                                     fv_transformer_config *full);

#endif
