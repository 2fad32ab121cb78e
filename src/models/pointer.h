/*
 * The pointer network (Vinyals, Fortunato, Jaitly 2015) as a model kind.
 *
 *     kind_pointer.c     keys, parameters, the encoder
 *     pointer_decode.c   the loss over given answers, and the stepper of a search
 */
#ifndef FV_MODELS_POINTER_H
#define FV_MODELS_POINTER_H

#include "fovea/recurrent.h"
#include "models/pointing.h"

enum { FV_POINTER_LAYERS = 16 };

/* What a search keeps between steps. */
typedef struct fv_pointer_search {
    fv_point_sets sets;
    fv_point_search rows;
    fv_tensor *table;    /* [1 + total, fed]: what is fed after each choice */
    fv_tensor *input;    /* the decoder's weight for such rows */
    fv_tensor *all_keys; /* [sets, 1 + longest, width] */
    fv_tensor *keys;     /* of each row */
    fv_tensor *first_h, *first_c, *h, *c;
    int64_t *fed; /* [room]: rows of the table to feed */
    size_t room;
} fv_pointer_search;

typedef struct fv_pointer {
    fv_ctx *ctx;
    fv_problem problem;
    bool reads_in_order; /* an LSTM reads the inputs; else self-attention over the set */
    int layers, frequencies;
    int64_t width;
    fv_dense embed, first, key, query;
    fv_block block[FV_POINTER_LAYERS];
    fv_norm_layer norm;
    fv_rnn reader, writer;
    fv_tensor *start, *end, *v;
    fv_pointer_search *search;
} fv_pointer;

/*
 * What the decoder reads of a batch. Its LSTM reads [e ; h] of an input, where e = W x + b. The
 * product of its weight A = [A_e, A_h] with that is the same as
 *
 *     [A_e [W, b, s_e], A_h] [x ; 1 ; 0 ; h],   at the start  ... [0 ; 0 ; 1 ; s_h]
 *
 * where s is what is fed first. x has few numbers, so this is about half the arithmetic.
 */
typedef struct fv_pointer_memory {
    fv_tensor *table; /* [1 + total, fed]: row 0 is fed first, row 1 + k after input k */
    fv_tensor *input; /* [4 width, fed]: the decoder's weight for such rows */
    fv_tensor *keys;  /* [rows, 1 + longest, width]: of the end, then of the inputs */
    fv_tensor *h, *c; /* [rows, width]: the decoder's first state */
} fv_pointer_memory;

fv_pointer_memory fv_pointer_encode(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                                    bool training);

/* For fv_model_kind. */
fv_tensor *fv_pointer_loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass);
fv_status fv_pointer_stepper(void *self, const fv_batch *inputs, fv_stepper *out);
void fv_pointer_search_free(fv_pointer *m);

#endif
