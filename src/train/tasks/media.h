/*
 * What the tasks over media sets share (data/media.h): the keys of a set, examples as rows of a
 * batch, the order of training, and walks over a held-out part.
 *
 *     typedef struct my_task { fv_media_task media; ... } my_task;    // first
 *     s = fv_media_task_open(&t->media, cfg, spec);                   // in open
 *     s = fv_media_task_begin(self, model, step, phase, plan);        // rows of the step
 *     *out = fv_media_rows_batch(&t->media.rows, first, count);       // "pixels", "label"
 *     fv_media_task_free(&t->media);                                  // in close
 *
 * The keys data.media, data.folder and so on belong to the task media-classes; other tasks read
 * them too.
 */
#ifndef FV_TRAIN_TASKS_MEDIA_H
#define FV_TRAIN_TASKS_MEDIA_H

#include "data/media.h"
#include "fovea/task.h"
#include "train/step.h"

/* Examples in memory, as rows of batches. */
typedef struct fv_media_rows {
    fv_ctx *ctx;
    const fv_media_facts *facts;
    int64_t count;
    float *values; /* one after another */
    const void **row, **label_row;
    int64_t *length, *label, *number; /* [count]; number: of the example in its part */
    size_t used, value_room, row_room, label_row_room, length_room, label_room, number_room;
} fv_media_rows;

typedef struct fv_media_task {
    fv_ctx *ctx;
    const fv_recipe *recipe;
    fv_media *set;
    const fv_media_facts *facts;
    uint64_t seed;
    int64_t batch; /* examples */
    fv_batches *order;
    fv_step_parts parts;
    fv_media_rows rows; /* of the current step, or of a held-out batch */
    char report[160];
} fv_media_task;

/* The keys of a set. */
fv_key_table fv_media_keys(void);

/* Opens the recipe's set and says its shape and classes in `spec`: "channels", "height", "width" of
 * pictures, "frame" (width) and "frames" (most of them) of recordings, and for both "level", the
 * mean of some training values in thousandths. The ability is left as it is. Fails: as
 * fv_media_open. The task can be freed even on failure. */
fv_status fv_media_task_open(fv_media_task *task, const fv_task_config *cfg, fv_data_spec *spec);
void fv_media_task_free(fv_media_task *task);

/* For fv_task_kind; `self` begins with an fv_media_task. */
fv_status fv_media_task_begin(void *self, fv_model *model, uint64_t step, int phase,
                              fv_step_plan *plan);
fv_status fv_media_task_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                              fv_batch *out);
const char *fv_media_task_report(void *self);
void fv_media_task_get_position(void *self, int64_t position[FV_TASK_POSITION]);
fv_status fv_media_task_set_position(void *self, const int64_t position[FV_TASK_POSITION]);

/* The part that evaluation reads (eval.part), and how many examples of it (eval.max_texts). */
fv_media_part fv_media_task_held_out(const fv_media_task *task, int64_t *count);
/* Reads `count` examples of a part from number `first` on into the rows, unchanged. */
fv_status fv_media_task_read(fv_media_task *task, fv_media_part part, int64_t first, int64_t count);

void fv_media_rows_clear(fv_media_rows *rows);
/* Adds a copy of an example. Fails: MEMORY, LIMIT. */
fv_status fv_media_rows_add(fv_media_rows *rows, const fv_media_example *e, int64_t number);
/* Call once after the last one was added: rows move as they grow. */
void fv_media_rows_point(fv_media_rows *rows);
/* The set's field, and "label" where the set has classes. */
fv_batch fv_media_rows_batch(const fv_media_rows *rows, int64_t first, int64_t count);

#endif
