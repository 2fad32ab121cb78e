/*
 * The questions task: questions about pictures of a media set (data/media.h) to one of its answers,
 * by a model that can answer.
 *
 *     questions.c          data, the tokenizer, steps, the task kind
 *     questions_rows.c     questions as rows of a batch
 *     questions_metrics.c  metrics on held-out data, samples
 *
 * Training draws pictures, and a batch has all questions about each of them: the model computes
 * what depends on the picture alone once for all of its questions.
 */
#ifndef FV_TRAIN_QUESTIONS_H
#define FV_TRAIN_QUESTIONS_H

#include "base/ctx.h"
#include "train/tasks/media.h"

/* Questions in memory, as rows of batches. Row i asks about picture row picture[i] of the media
 * task's rows. */
typedef struct fv_question_rows {
    fv_ctx *ctx;
    int64_t count, used; /* used: tokens */
    int64_t *picture, *label, *length, *group, *token;
    const void **picture_at, **label_at, **token_at;
    size_t room, token_room;
} fv_question_rows;

typedef struct fv_questions_task {
    fv_media_task media; /* first */
    const char *folder;
    double unknown_share; /* of words that training replaces by <unk> */
    int64_t unknown;      /* <unk> */
    fv_text texts;        /* training questions as words, each with a NUL; until they are tokens */
    /* Training questions: tokens first[i] to first[i + 1] - 1; those about picture p are
     * of_picture[p] to of_picture[p + 1] - 1. */
    int64_t *token, *first, *label, *of_picture;
    int64_t count, pictures;
    size_t token_room, first_room, label_room, picture_room;
    fv_question_rows rows; /* of the step, or of a held-out batch */
} fv_questions_task;

void fv_question_rows_clear(fv_question_rows *rows);
void fv_question_rows_free(fv_question_rows *rows);
/* Adds a question with a copy of its tokens, 1 or more. Fails: MEMORY. */
fv_status fv_question_rows_add(fv_question_rows *rows, int64_t picture, int64_t label, int group,
                               int64_t tokens, const int64_t *token);
/* Call once after the last one was added, and after fv_media_rows_point. */
void fv_question_rows_point(fv_question_rows *rows, const fv_media_rows *pictures);
/* "pixels", "question", "label". Rows with one picture have one address. */
fv_batch fv_question_rows_batch(const fv_question_rows *rows, const fv_media_rows *pictures,
                                int64_t first, int64_t count);

/* Of fv_task_kind. */
fv_status fv_questions_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count);
fv_status fv_questions_show(void *self, fv_model *model, int count, fv_text *out);

#endif
