/*
 * The translation task: sentence pairs from two files, or generated ones.
 *
 *     translation.c        keys, data, the task kind
 *     translation_tokenizers.c  tokenizers
 *     translation_steps.c  batches and metrics
 */
#ifndef FV_TRAIN_TRANSLATION_H
#define FV_TRAIN_TRANSLATION_H

#include "base/ctx.h"
#include "data/generated.h"
#include "fovea/batch.h"
#include "fovea/task.h"
#include "fovea/translate.h"
#include "train/step.h"

enum { FV_PART_TRAIN, FV_PART_VALID, FV_PARTS };

typedef struct fv_translation_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    const char *folder;
    const fv_generated_set *made; /* data.made; NULL: files */
    fv_parallel *pairs[FV_PARTS];
    fv_parallel_report report[FV_PARTS];
    fv_batches *order[FV_PARTS]; /* training, and validation in its own order */
    char text[200];              /* of the report */
    /* the current step */
    int64_t *example;
    size_t example_room;
    fv_step_parts parts;
} fv_translation_task;

/* The choices of eval.metric. */
typedef enum fv_translation_metric {
    FV_METRIC_LOSS,
    FV_METRIC_BLEU,
    FV_METRIC_EXACT
} fv_translation_metric;

/* Tokenizers of the folder if it has them, else those of the model to start from, else learned from
 * the training texts. */
fv_status fv_translation_tokenizers(const fv_translation_task *run, fv_tokenizer **source,
                                    fv_tokenizer **target);
/* Of fv_task_kind. */
fv_status fv_translation_begin(void *self, fv_model *model, uint64_t step, int phase,
                               fv_step_plan *plan);
fv_status fv_translation_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                               fv_batch *out);
fv_status fv_translation_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count);
fv_status fv_translation_show(void *self, fv_model *model, int count, fv_text *out);
void fv_translation_get_position(void *self, int64_t position[FV_TASK_POSITION]);
fv_status fv_translation_set_position(void *self, const int64_t position[FV_TASK_POSITION]);

/* Generated data, where run->made is set: the number of pairs of a part, and pair i. */
int64_t fv_translation_made_count(const fv_translation_task *run, int part);
void fv_translation_made_pair(const fv_translation_task *run, int part, int64_t i, fv_drawn *out);

/* "source" or "target" file of a part, "" if there is none. */
const char *fv_translation_file(const fv_translation_task *run, int part, bool source);

#endif
