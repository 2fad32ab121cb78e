/*
 * fovea/read.h: a reader's answers to questions about a story, and where it looked for them.
 *
 *     fv_reading *r = NULL;
 *     s = fv_read_story(model, "mary took the milk. mary went to the kitchen. where is the milk?",
 *                       &r);
 *     printf("%s\n", r->question[0].answer);                       // kitchen
 *     const float *hop = r->question[0].weights;                    // [hops][sentences]
 *     fv_reading_free(&r);
 *     s = fv_read_example(model, 7, &r);                            // story 7 of the test part
 *
 * Models come from 'train.task = "stories"'.
 */
#ifndef FOVEA_READ_H
#define FOVEA_READ_H

#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FV_READING_SENTENCES = 60, FV_READING_QUESTIONS = 8, FV_READING_FACTS = 3 };

typedef struct fv_reading_question {
    const char *text, *answer;
    double probability;            /* of the answer */
    const char *expected;          /* of a generated story; else NULL */
    bool follow_up;                /* of a generated story: leaves out what the one before it has */
    const float *weights;          /* [hops][sentences] */
    int support[FV_READING_FACTS]; /* of a generated story: sentences by hop; -1: none */
} fv_reading_question;

typedef struct fv_reading {
    int64_t sentence_count, question_count, hops;
    const char *const *sentence;
    const float *summary; /* probability that each sentence belongs to it; NULL: not learned */
    const fv_reading_question *question;
} fv_reading;

/* Whether the model is a reader of stories. */
FV_API bool fv_model_is_reader(const fv_model *model);

/*
 * Reads a text: sentences that end with a full stop and questions that end with a question mark,
 * each of which may refer to the one before ("and john?"). Letters may be upper-case. Fails:
 * UNSUPPORTED (another kind of model), ARGUMENT (no question, a word that the model has not
 * learned, a sentence that is too long), LIMIT (too many sentences or questions), MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_read_story(fv_model *model, const char *text, fv_reading **out);
/* Story `number` (0 .. 2^40 - 1) of the test part, with the model's number of facts. */
FV_API FV_MUST_USE fv_status fv_read_example(fv_model *model, uint64_t number, fv_reading **out);
/* Accepts NULL; sets *reading to NULL. Before the model. */
FV_API void fv_reading_free(fv_reading **reading);

#ifdef __cplusplus
}
#endif
#endif
