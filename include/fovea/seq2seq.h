/*
 * fovea/seq2seq.h: X, attend, and Y: an encoder, an attention and a decoder, chosen by their
 * settings.
 *
 *     fv_seq2seq_config cfg;
 *     fv_seq2seq_config_init(&cfg, sizeof cfg);           // RNNsearch (Bahdanau et al. 2015)
 *     cfg.source_tokens = 60;
 *     cfg.target_tokens = 15;
 *     fv_seq2seq *model = NULL;
 *     s = fv_seq2seq_create(params, &cfg, &model);
 *
 *     fv_sequences x = {.count = 2, .tokens = xs, .length = x_lengths},
 *                  y = {.count = 2, .tokens = ys, .length = y_lengths};
 *     fv_batch batch = fv_batch_of_pairs(&x, &y);
 *     fv_tensor *loss = fv_seq2seq_loss(ctx, model, &batch, NULL);    // summed over tokens
 *     if (fv_seq2seq_settings(model)->decoder != FV_DECODER_FIXED) {
 *         fv_tensor *map = fv_seq2seq_align(ctx, model, &batch);      // [2, targets + 1, sources]
 *     }
 *
 *     fv_stepper stepper;                                 // for fv_search
 *     s = fv_seq2seq_stepper(model, &batch, &stepper);
 *     s = fv_search(ctx, &stepper, batch.rows, max_tokens, &how, &outputs);
 *     fv_seq2seq_destroy(&model);
 *
 * The encoder reads x into states h_1 .. h_S (both directions concatenated). The decoder is one of
 *
 *     FIXED   s_t = f(y_{t-1}, s_{t-1}, c), c the encoder's last state: no attention
 *     SEARCH  c_t = attend(s_{t-1}, h);  s_t = f(y_{t-1}, s_{t-1}, c_t)
 *     LUONG   s_t = f([y_{t-1}; o_{t-1}], s_{t-1});  c_t = attend(s_t, h)
 *
 * with the readout o_t = act(W_s s_t + W_c c_t (+ W_y y_{t-1}, except LUONG) + b), act tanh or
 * maxout (the larger of each pair), and p(y_t) = softmax(W o_t). Feeding o_{t-1} back is LUONG's
 * input feeding and is optional. s_0 is computed from the encoder's last states by a layer with
 * tanh. Sequences of a batch may have any lengths; nothing is computed for padding.
 *
 * Attention may be hard: c_t is one state h_s. In training s is sampled from the softmax, and
 * samples after which the next token was more likely than the baseline become more likely
 * (fovea/attention.h, fv_reinforce); otherwise s is the most likely position. The baseline is a
 * moving average of log-likelihoods over training steps, which is saved with training states.
 *
 * The encoder may read pictures instead (GRID): convolutions turn the field "pixels" of a batch
 * into cells h_1 .. h_S, and attention is one softmax over all of them (Xu et al. 2015). Or it
 * reads recordings (PYRAMID): recurrent layers over the field "frames", each of which halves the
 * number of states (Chan et al. 2016).
 *
 * Two encoders have no recurrence. CONV is a stack of convolutions with residuals over the tokens
 * (Gehring et al. 2017). ATTENTION is self-attention alone: no norms, no residuals, no feed-forward
 * layers, x = heads(x) for each layer; as a decoder, each token attends to those before it, and
 * then to the memory:
 *
 *     s_t = heads(y_{t-1}; y_0 .. y_{t-1});  c_t = attend(s_t, h)
 *
 * Wherever attention is soft, the training loss may have the penalty
 *
 *     coverage x sum over rows and positions i of (1 - sum_t a_ti)^2
 *
 * which asks for every position to be looked at about once.
 */
#ifndef FOVEA_SEQ2SEQ_H
#define FOVEA_SEQ2SEQ_H

#include "fovea/attention.h"
#include "fovea/model.h"
#include "fovea/recurrent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts by their number in src/models/parts/parts.def, in the order of the choices of model.encoder
 * and model.decoder; these are the library's first. */
typedef enum fv_encoder_kind {
    FV_ENCODER_RNN,
    FV_ENCODER_SET,
    FV_ENCODER_GRID,
    FV_ENCODER_PYRAMID,
    FV_ENCODER_CONV,
    FV_ENCODER_ATTENTION
} fv_encoder_kind;
typedef enum fv_decoder_kind {
    FV_DECODER_FIXED,
    FV_DECODER_SEARCH,
    FV_DECODER_LUONG,
    FV_DECODER_ATTENTION
} fv_decoder_kind;

/* How CONV and ATTENTION know where a token is. */
typedef enum fv_seq2seq_positions {
    FV_SEQ2SEQ_POSITIONS_NONE,
    FV_SEQ2SEQ_POSITIONS_SINUSOID,
    FV_SEQ2SEQ_POSITIONS_LEARNED,
    FV_SEQ2SEQ_POSITIONS_ROTARY,  /* ATTENTION only: queries and keys are rotated */
    FV_SEQ2SEQ_POSITIONS_RELATIVE /* ATTENTION only: Shaw's vectors, distances up to 16 */
} fv_seq2seq_positions;

typedef enum fv_readout { FV_READOUT_TANH, FV_READOUT_MAXOUT, FV_READOUT_COUNT } fv_readout;

typedef struct fv_seq2seq_config {
    size_t struct_size;
    int64_t source_tokens, target_tokens; /* vocabulary sizes */
    int64_t bos, eos;                     /* of target sequences [0, 1] */
    int64_t embedding;                    /* width of a token [128] */
    fv_cell cell;                         /* of encoder and decoder [gru] */
    int layers;                           /* of encoder and decoder [1] */
    int64_t encoder_hidden;               /* of one direction [128] */
    bool bidirectional;                   /* [true] */
    bool reverse_source;                  /* feed x from its end (Sutskever et al.) [false] */
    fv_decoder_kind decoder;              /* [search] */
    int64_t hidden;                       /* of the decoder [256] */
    fv_attention_score score;             /* [additive]; not the caller's own */
    fv_attention_normaliser normaliser;   /* softmax, local-m, local-p or hard-sample [softmax] */
    double half_width;                    /* of local windows [10] */
    int64_t attention_width;              /* of additive scores and local-p [128] */
    int64_t most_source;                  /* positions of the location score [128] */
    double hard_reward;                   /* hard: lambda, weight of the reward [1] */
    double hard_entropy;                  /* hard: lambda_e, weight of the entropy [0.01] */
    double hard_decay;                    /* hard: of the moving baseline; 0: batch mean [0.9] */
    bool input_feeding;                   /* LUONG [true] */
    fv_readout readout;                   /* [tanh] */
    int64_t readout_width;                /* of o_t [128] */
    bool tied;        /* W is the target embedding; needs readout_width = embedding [false] */
    double dropout;   /* of embeddings, between layers and of the readout, in training [0] */
    double smoothing; /* of the training loss [0] */
    fv_encoder_kind encoder; /* [rnn] */
    double coverage;         /* lambda of the coverage penalty below [0] */
    /* One entry of the field that an encoder other than tokens' reads, from the data: channels,
     * height and width of a picture, or 0, 0 and the width of a frame [0: tokens] */
    int64_t input_channels, input_height, input_width;
    /* GRID */
    int grid_stages;       /* convolutions [4] */
    int grid_halvings;     /* the first so many of them halve the picture [2] */
    int64_t grid_channels; /* of the first; they double with each halving after it [32] */
    bool grid_coordinates; /* the last one also reads each cell's place [true] */
    bool grid_rows;        /* then `cell`, both ways along each row of cells [false] */
    bool grid_neighbours;  /* keys of additive attention see the cells around theirs [false] */
    int pyramid_layers;    /* PYRAMID: layers, each of which halves the number of states [3] */
    /* CONV */
    int conv_layers;     /* [4] */
    int64_t conv_window; /* positions that a result depends on [3] */
    bool conv_dilated;   /* dilation 2^i in layer i, else 1 [false] */
    bool conv_causal;    /* windows end at their position, else they are centred [false] */
    bool conv_gated;     /* a * sigma(b) of twice the width, else tanh [true] */
    /* ATTENTION, as encoder, decoder or both */
    int self_layers;          /* [2] */
    int64_t self_heads;       /* [4] */
    int64_t self_head_width;  /* of a query and a key; 0: hidden / heads [0] */
    int64_t self_value_width; /* 0: as self_head_width [0] */
    /* CONV and ATTENTION */
    fv_seq2seq_positions positions; /* [sinusoid] */
    fv_positions_how positions_how; /* sinusoids and learned vectors are added or concatenated; of
                                       width `embedding` [add] */
    int64_t most_positions;         /* rows of the learned table [256] */
} fv_seq2seq_config;

enum { FV_GRID_STAGES = 8, FV_GRID_CHANNELS = 4096, FV_GRID_SIDE = 4096, FV_PYRAMID_LAYERS = 8 };
enum { FV_CONV_LAYERS = 16, FV_CONV_WINDOW = 255 };

FV_API void fv_seq2seq_config_init(fv_seq2seq_config *cfg, size_t struct_size);

/*
 * All settings as a config.json with model_type "fovea-seq2seq", and back. Loading fails: IO,
 * FORMAT (another model_type, a missing, unknown or impossible value: named), MEMORY. struct_size
 * of `out` is set by the caller.
 *
 *     fv_seq2seq_config cfg = {.struct_size = sizeof cfg};
 *     s = fv_seq2seq_config_load(ctx, "run/config.json", &cfg);
 *     cfg.dropout = 0.3;                                  // to train it further
 *     s = fv_seq2seq_config_save(ctx, &cfg, "run2/config.json");
 */
FV_API FV_MUST_USE fv_status fv_seq2seq_config_save(fv_ctx *ctx, const fv_seq2seq_config *cfg,
                                                    const char *path);
FV_API FV_MUST_USE fv_status fv_seq2seq_config_load(fv_ctx *ctx, const char *path,
                                                    fv_seq2seq_config *out);

typedef struct fv_seq2seq fv_seq2seq;

/* Parameters in `params`, which must outlive the model. Fails: ARGUMENT (a setting out of range,
 * parts that do not fit; the message says which), MEMORY. */
FV_API FV_MUST_USE fv_status fv_seq2seq_create(fv_params *params, const fv_seq2seq_config *cfg,
                                               fv_seq2seq **out);
FV_API void fv_seq2seq_destroy(fv_seq2seq **model); /* NULL is fine */
FV_API const fv_seq2seq_config *fv_seq2seq_settings(const fv_seq2seq *model);

/* Cross-entropy of every target token and EOS, summed. With hard attention in training its
 * gradient has REINFORCE's terms too. */
FV_API fv_tensor *fv_seq2seq_loss(fv_ctx *ctx, const fv_seq2seq *model, const fv_batch *batch,
                                  const fv_pass *pass);

/*
 * The attention of given targets: weights [count, most target tokens + 1, most source tokens], rows
 * of target step t, columns of source tokens in their own order; rows and columns past an end are
 * 0. Hard attention has a 1 at its position. FIXED has no attention: UNSUPPORTED.
 */
FV_API fv_tensor *fv_seq2seq_align(fv_ctx *ctx, const fv_seq2seq *model, const fv_batch *batch);

/* Encodes the sources and makes a stepper over them. One at a time: it lives in the model until
 * the next call of this function or fv_seq2seq_destroy. */
FV_API FV_MUST_USE fv_status fv_seq2seq_stepper(fv_seq2seq *model, const fv_batch *sources,
                                                fv_stepper *out);

#ifdef __cplusplus
}
#endif
#endif
