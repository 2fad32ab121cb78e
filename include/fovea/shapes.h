/*
 * fovea/shapes.h: recurrent networks by what goes in and what comes out.
 *
 *     one to one         x        -> y              a label for a vector
 *     one to many        x        -> y_1 ... y_T    a caption for a picture
 *     many to one        x_1 ...  -> y              a label for a sentence
 *     many to many       x_1 ...  -> y_1 ... y_T    a tag for each word
 *     many, then many    x_1 ...  -> y_1 ... y_U    a translation
 *
 *     fv_shape_config cfg;
 *     fv_shape_config_init(&cfg, sizeof cfg, FV_SHAPE_MANY_TO_ONE);
 *     cfg.input = 64;
 *     cfg.hidden = 128;
 *     cfg.output = 5;                                    // labels
 *     cfg.pool = FV_POOL_MEAN;
 *     fv_shape_net net;
 *     s = fv_shape_create(params, "classifier", &cfg, &net);
 *     fv_packing p;                                      // of the sentences, fovea/recurrent.h
 *     s = fv_packing_make(ctx, sentences, lengths, &p);
 *     fv_shape_input in = {.x = words, .from = &p, .training = true};   // words [p.total, 64]
 *     fv_tensor *logits = fv_shape_run(ctx, &net, &in);                 // [sentences, 5]
 *
 * A reader runs over what goes in; a single vector is a sequence of one step. With h its states,
 *
 *     one to one, many to one    y   = O pool(h)      the last state, or the mean or maximum of all
 *     many to many               y_t = O h_t
 *     one to many, then many     y_t = O s_t          s a writer that begins with the reader's last
 *                                                     states and is fed z_t: y_{t-1} as known in
 *                                                     training, or as it was drawn
 */
#ifndef FOVEA_SHAPES_H
#define FOVEA_SHAPES_H

#include "fovea/layers.h"
#include "fovea/recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_shape_kind {
    FV_SHAPE_ONE_TO_ONE,
    FV_SHAPE_ONE_TO_MANY,
    FV_SHAPE_MANY_TO_ONE,
    FV_SHAPE_MANY_TO_MANY,
    FV_SHAPE_MANY_THEN_MANY,
    FV_SHAPE_COUNT
} fv_shape_kind;

typedef struct fv_shape_config {
    size_t struct_size;
    fv_shape_kind kind;
    fv_cell cell;          /* [gru] */
    int layers;            /* of reader and writer [1] */
    int64_t input, hidden; /* [1, 1] */
    int64_t fed;           /* width of what a writer is fed [1] */
    int64_t output;        /* width of y [1] */
    bool bidirectional;    /* of a reader without a writer [false] */
    fv_pool_kind pool;     /* to one [last: where each direction ends] */
    double dropout;        /* between layers, when training [0] */
} fv_shape_config;

FV_API void fv_shape_config_init(fv_shape_config *cfg, size_t struct_size, fv_shape_kind kind);

typedef struct fv_shape_net {
    fv_shape_config cfg;
    fv_rnn reader, writer; /* the writer only where there is one */
    fv_dense out;
} fv_shape_net;

/* Parameters "prefix.reader...", "prefix.writer...", "prefix.out...". Fails: ARGUMENT, SHAPE,
 * MEMORY. */
FV_API FV_MUST_USE fv_status fv_shape_create(fv_params *params, const char *prefix,
                                             const fv_shape_config *cfg, fv_shape_net *out);

typedef struct fv_shape_input {
    fv_tensor *x;           /* one: [n, input]; many: packed by `from`, [from->total, input] */
    const fv_packing *from; /* many; else NULL */
    fv_tensor *fed;         /* a writer's: packed by `to`, [to->total, fed]; else NULL */
    const fv_packing *to;   /* as many sequences as x has; else NULL */
    bool training;
} fv_shape_input;

/* To one: [n, output], in the order given. Many: packed like x, [from->total, output]. With a
 * writer: packed like `fed`, [to->total, output]. */
FV_API fv_tensor *fv_shape_run(fv_ctx *ctx, const fv_shape_net *net, const fv_shape_input *in);

#ifdef __cplusplus
}
#endif
#endif
