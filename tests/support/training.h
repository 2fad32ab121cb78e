/*
 * A small task for tests of the training loop: a two-layer network with dropout on data in shuffled
 * order, with several micro-batches per step.
 */
#ifndef FV_TEST_TRAINING_H
#define FV_TEST_TRAINING_H

#include "fovea/train.h"

typedef struct tiny_task {
    fv_ctx *ctx;
    fv_params *params;
    fv_tensor *w1, *b1, *w2;
    int64_t epoch, next;  /* the place in the data */
    int64_t first;        /* of this step */
    uint64_t poison_from; /* losses are NaN from this step on, for poison_steps steps */
    uint64_t poison_steps, step;
    double worse_from; /* the metric grows again after this many steps */
    volatile int *cancel;
    uint64_t cancel_at; /* set the cancel flag within this step */
} tiny_task;

/* A context, its parameters and the task. false: it could not be created. */
bool tiny_make(tiny_task *t, int threads, volatile int *cancel, const fv_io *io);
/* The same on the guarded device. */
bool tiny_make_guarded(tiny_task *t, int threads, volatile int *cancel);
void tiny_free(tiny_task *t);
fv_task tiny_table(tiny_task *t);
/* Settings with dropout-friendly defaults: accumulation, cosine schedule, clipping. */
void tiny_config(fv_train_config *cfg, const char *folder, uint64_t steps);
/* Trains to the end, resuming from the folder's last state. */
fv_status tiny_run(tiny_task *t, const fv_train_config *cfg);
/* All weights, one after another; returns how many. */
size_t tiny_weights(tiny_task *t, float *out, size_t room);

#endif
