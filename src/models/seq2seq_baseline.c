/*
 * The baseline of hard attention's rewards: a moving average of ln p(y|s) over training steps. All
 * micro-batches of a step use the average of the steps before it, so the result does not depend on
 * how a step is split; the first step uses its own mean. With a decay of 0 each micro-batch uses
 * its own mean.
 */
#include <math.h>
#include <string.h>

#include "models/seq2seq.h"

/* Adds the finished step to the average. A step that was not finite is skipped by the optimizer,
 * and here. */
static void close_step(fv_hard_baseline *b, double decay)
{
    if (b->tokens > 0 && isfinite(b->sum)) {
        const double mean = b->sum / b->tokens;
        b->value = b->steps ? decay * b->value + (1 - decay) * mean : mean;
        b->steps++;
    }
    b->sum = b->tokens = 0;
}

double fv_seq2seq_baseline(const fv_seq2seq *m, uint64_t step, double mean, int64_t tokens)
{
    fv_hard_baseline *b = m->baseline;
    const double decay = m->cfg.hard_decay;
    if (decay == 0) return mean;
    if (b->step != step) close_step(b, decay);
    b->step = step;
    b->sum += mean * (double)tokens;
    b->tokens += (double)tokens;
    return b->steps ? b->value : mean;
}

void fv_seq2seq_get_counters(void *self, int64_t counters[FV_MODEL_COUNTERS])
{
    const fv_seq2seq *m = self;
    fv_hard_baseline *b = m->baseline;
    close_step(b, m->cfg.hard_decay);
    counters[0] = b->steps;
    memcpy(&counters[1], &b->value, sizeof b->value);
}

fv_status fv_seq2seq_set_counters(void *self, const int64_t counters[FV_MODEL_COUNTERS])
{
    const fv_seq2seq *m = self;
    fv_hard_baseline b = {.steps = counters[0]};
    memcpy(&b.value, &counters[1], sizeof b.value);
    FV_RETURN_IF(b.steps < 0 || !isfinite(b.value), m->ctx, FV_ERR_FORMAT,
                 "seq2seq: the training state has a baseline that is not finite");
    *m->baseline = b;
    return FV_OK;
}
