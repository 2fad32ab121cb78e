/*
 * fovea/sequence_net.h: recurrent networks by sequence layout: one or many inputs, one or many
 * outputs.
 *
 *     one to one         x        -> y              a label for a vector
 *     one to many        x        -> y_1 ... y_T    a caption for a picture
 *     many to one        x_1 ...  -> y              a label for a sentence
 *     many to many       x_1 ...  -> y_1 ... y_T    a tag for each word
 *     many, then many    x_1 ...  -> y_1 ... y_U    a translation
 *
 *     fv_sequence_net_config cfg;
 *     fv_sequence_net_config_init(&cfg, sizeof cfg, FV_LAYOUT_MANY_TO_ONE);
 *     cfg.input = 64;
 *     cfg.hidden = 128;
 *     cfg.output = 5;                                    // labels
 *     cfg.pool = FV_POOL_MEAN;
 *     fv_sequence_net net;
 *     s = fv_sequence_net_create(params, "classifier", &cfg, &net);
 *     fv_varlen p;                                      // of the sentences, fovea/recurrent.h
 *     s = fv_varlen_make(ctx, sentences, lengths, &p);
 *     // words [p.total, 64]
 *     fv_sequence_net_input in = {.x = words, .from = &p, .training = true};
 *     fv_tensor *logits = fv_sequence_net_run(ctx, &net, &in);   // [sentences, 5]
 *
 * An encoder (`reader`) runs over the inputs; a single vector is a sequence of one step. With h its
 * states,
 *
 *     one to one, many to one    y   = O pool(h)      the last state, or the mean or maximum of all
 *     many to many               y_t = O h_t
 *     one to many, then many     y_t = O s_t          s a decoder (`writer`) that starts from the
 *                                                     encoder's last states and is fed z_t: y_{t-1}
 *                                                     from the data in training, else as generated
 */
#ifndef FOVEA_SEQUENCE_NET_H
#define FOVEA_SEQUENCE_NET_H

#include "fovea/layers.h"
#include "fovea/recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_sequence_layout {
    FV_LAYOUT_ONE_TO_ONE,
    FV_LAYOUT_ONE_TO_MANY,
    FV_LAYOUT_MANY_TO_ONE,
    FV_LAYOUT_MANY_TO_MANY,
    FV_LAYOUT_MANY_THEN_MANY,
    FV_LAYOUT_COUNT
} fv_sequence_layout;

typedef struct fv_sequence_net_config {
    size_t struct_size;
    fv_sequence_layout layout;
    fv_cell cell;          /* [gru] */
    int layers;            /* of reader and writer [1] */
    int64_t input, hidden; /* [1, 1] */
    int64_t fed;           /* width of the writer's inputs [1] */
    int64_t output;        /* width of y [1] */
    bool bidirectional;    /* of a reader without a writer [false] */
    fv_pool_kind pool;     /* to one [last: where each direction ends] */
    double dropout;        /* between layers, when training [0] */
} fv_sequence_net_config;

FV_API void fv_sequence_net_config_init(fv_sequence_net_config *cfg, size_t struct_size,
                                        fv_sequence_layout kind);

typedef struct fv_sequence_net {
    fv_sequence_net_config cfg;
    fv_rnn reader, writer; /* the writer: one to many, then many */
    fv_dense out;
} fv_sequence_net;

/* Parameters "prefix.reader...", "prefix.writer...", "prefix.out...". Fails: ARGUMENT, SHAPE,
 * MEMORY. */
FV_API FV_MUST_USE fv_status fv_sequence_net_create(fv_params *params, const char *prefix,
                                                    const fv_sequence_net_config *cfg,
                                                    fv_sequence_net *out);

typedef struct fv_sequence_net_input {
    fv_tensor *x;          /* one: [n, input]; many: varlen by `from`, [from->total, input] */
    const fv_varlen *from; /* many; else NULL */
    fv_tensor *fed;        /* a writer's: varlen by `to`, [to->total, fed]; else NULL */
    const fv_varlen *to;   /* as many sequences as x has; else NULL */
    bool training;
} fv_sequence_net_input;

/* To one: [n, output], in the given order. Many: varlen like x, [from->total, output]. With a
 * writer: varlen like `fed`, [to->total, output]. */
FV_API fv_tensor *fv_sequence_net_run(fv_ctx *ctx, const fv_sequence_net *net,
                                      const fv_sequence_net_input *in);

#ifdef __cplusplus
}
#endif
#endif
