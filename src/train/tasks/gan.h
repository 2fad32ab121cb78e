/* The task of adversarial training, split by concept: steps in gan.c, metrics in gan_metrics.c. */
#ifndef FV_TRAIN_TASKS_GAN_H
#define FV_TRAIN_TASKS_GAN_H

#include "train/frechet.h"
#include "train/tasks/media.h"

typedef struct fv_gan_task {
    fv_media_task media;  /* first */
    fv_model *classifier; /* or NULL */
    int64_t *label;       /* classes to generate, in the generator's phase */
    const void **label_row;
    size_t label_room, label_row_room;
    fv_moments real[2]; /* features of the halves of the held-out part, made when first needed */
} fv_gan_task;

/* Opens eval.classifier, if the recipe names one, and checks that it reads the set's pictures.
 * Fails: as fv_model_open; ARGUMENT. */
fv_status fv_gan_open_classifier(fv_gan_task *t);
void fv_gan_free_metrics(fv_gan_task *t);
/* For fv_task_kind. */
fv_status fv_gan_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count);

#endif
