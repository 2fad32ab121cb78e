/*
 * The combinations of parts and settings that encoder-decoders are tested with.
 *
 *     for (int i = 0; i < seq2seq_setting_count; i++)
 *         printf("%s\n", seq2seq_settings[i].name);
 */
#ifndef FV_TESTS_SEQ2SEQ_H
#define FV_TESTS_SEQ2SEQ_H

#include "fovea/seq2seq.h"

typedef struct seq2seq_setting {
    const char *name;
    fv_decoder_kind decoder;
    fv_cell cell;
    int layers;
    bool one_way, reverse, no_feeding, tied;
    fv_attention_score score;
    fv_attention_normaliser normaliser;
    fv_readout readout;
    const char *encoder; /* NULL: rnn */
    bool rows, neighbours, no_places;
    fv_seq2seq_positions positions; /* none */
    fv_positions_how how;
    bool odd; /* dilated, causal convolutions with tanh; wide heads with narrower values */
} seq2seq_setting;

extern const seq2seq_setting seq2seq_settings[];
extern const int seq2seq_setting_count;

#endif
