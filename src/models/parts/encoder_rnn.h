/* The recurrent encoder's parameters and tables. */
#ifndef FV_MODELS_PARTS_ENCODER_RNN_H
#define FV_MODELS_PARTS_ENCODER_RNN_H

#include "models/parts/parts.h"
#include "models/parts/tables.h"

typedef struct fv_rnn_encoder {
    int64_t vocabulary;
    bool reversed;
    double dropout;
    fv_tensor *embedding;
    fv_rnn rnn;
    fv_weight_tables tables;
    /* fv_rnn_gates of every token, for each direction; NULL: not computed. */
    fv_tensor *gate_tables[2];
} fv_rnn_encoder;

#endif
