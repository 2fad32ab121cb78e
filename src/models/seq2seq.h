/*
 * Internals of fovea/seq2seq.h: an encoder part, a decoder part and what trains and searches with
 * them.
 *
 *     parts/               the parts, their interfaces and tables (parts.h)
 *     seq2seq.c            checks of settings, creation
 *     seq2seq_settings.c   settings as recipe keys and config.json
 *     seq2seq_loss.c       loss and alignment of given targets
 *     seq2seq_search.c     the model as a stepper
 *     seq2seq_baseline.c   the moving average that hard attention's rewards are compared with
 */
#ifndef FV_MODELS_SEQ2SEQ_H
#define FV_MODELS_SEQ2SEQ_H

#include "models/parts/parts.h"
#include "models/token_pairs.h"

/* What the rewards of hard attention are compared with; the current step counts when it ends. */
typedef struct fv_hard_baseline {
    int64_t steps; /* that count */
    double value;  /* moving average of ln p(y|s) over them */
    uint64_t step; /* the current one: its number, sum and tokens so far */
    double sum, tokens;
} fv_hard_baseline;

struct fv_seq2seq {
    fv_ctx *ctx;
    fv_seq2seq_config cfg;
    const fv_encoder_part *x;
    const fv_decoder_part *y;
    void *encoder, *decoder;          /* what x and y created */
    struct fv_seq2seq_search *search; /* of fv_seq2seq_stepper */
    fv_hard_baseline *baseline;       /* changes during training */
};

static inline bool fv_seq2seq_attends(const fv_seq2seq *m)
{
    return m->y->attention(m->decoder) != NULL;
}

void fv_seq2seq_search_free(fv_seq2seq *m);

/* The baseline for a part of step `step` with this mean of ln p(y|s), which then counts. */
double fv_seq2seq_baseline(const fv_seq2seq *m, uint64_t step, double mean, int64_t tokens);
/* Of fv_model_kind. */
void fv_seq2seq_get_counters(void *self, int64_t counters[FV_MODEL_COUNTERS]);
fv_status fv_seq2seq_set_counters(void *self, const int64_t counters[FV_MODEL_COUNTERS]);

/* The settings as keys of a recipe, "model.cell" and so on; vocabulary sizes, BOS and EOS, which
 * follow from the data, are not included. */
fv_key_table fv_seq2seq_keys(void);
void fv_seq2seq_config_from(const fv_recipe *recipe, fv_seq2seq_config *cfg);

#endif
