/* The inside of fovea/translate_train.h. */
#ifndef FV_TRAIN_TRANSLATION_H
#define FV_TRAIN_TRANSLATION_H

#include "base/ctx.h"
#include "fovea/batches.h"
#include "fovea/dates.h"
#include "fovea/translate_train.h"
#include "train/step.h"

enum { FV_PART_TRAIN, FV_PART_VALID, FV_PARTS };

struct fv_translation_run {
    fv_ctx *ctx;
    fv_recipe *recipe;
    const char *folder;
    fv_translator *translator;
    fv_parallel *pairs[FV_PARTS];
    fv_parallel_report report[FV_PARTS];
    fv_batches *order[FV_PARTS]; /* training, and validation in its own order */
    fv_train_config train;
    fv_taken taken;
    /* the step at hand */
    int64_t *example;
    size_t example_room;
    fv_step_parts parts;
};

/* Tokenizers of the folder if it has them, else those of the model to begin from, else learnt from
 * the training texts. */
fv_status fv_translation_tokenizers(const fv_translation_run *run, fv_tokenizer **source,
                                    fv_tokenizer **target);
/* The trainer's view of the run. */
fv_task fv_translation_task(fv_translation_run *run);

/* Data that is made, not read: whether there is some, and pair i of a part. */
bool fv_translation_is_made(const fv_translation_run *run);
int64_t fv_translation_made_count(const fv_translation_run *run, int part);
void fv_translation_made_pair(const fv_translation_run *run, int part, int64_t i,
                              fv_date_pair *out);

/* "source" or "target" file of a part, "" if there is none. */
const char *fv_translation_file(const fv_translation_run *run, int part, bool source);

#endif
