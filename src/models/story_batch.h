/*
 * Stories as a batch of a reader (kind_reader.c), and its answers.
 *
 *     fv_story_batch b;
 *     s = fv_story_batch_create(ctx, 32, &b);                   // room for 32
 *     fv_story_batch_add(&b, words, &story);                    // words: token of each word
 *     fv_batch batch = fv_story_batch_of(&b, 0, b.count);
 *     s = fv_story_batch_answer(&b, model, answer, &share);     // turn by turn
 *     fv_story_batch_free(&b);
 */
#ifndef FV_MODELS_STORY_BATCH_H
#define FV_MODELS_STORY_BATCH_H

#include "base/ctx.h"
#include "data/stories.h"
#include "fovea/model.h"

enum { FV_STORY_VOCABULARY = 64 };

typedef struct fv_story_row {
    int64_t sentences, questions;
    int64_t story[FV_STORY_SENTENCES][FV_STORY_WORDS];
    int64_t question[FV_STORY_QUESTIONS][FV_STORY_WORDS];
    int64_t previous[FV_STORY_QUESTIONS], answer[FV_STORY_QUESTIONS];
    int64_t support[FV_STORY_QUESTIONS][FV_STORY_FACTS];
    int64_t summary[FV_STORY_SENTENCES];
    bool follow_up[FV_STORY_QUESTIONS];
} fv_story_row;

enum { FV_STORY_FIELDS = 6 };

typedef struct fv_story_batch {
    fv_ctx *ctx;
    int64_t count, room;
    fv_story_row *row;
    const void **at[FV_STORY_FIELDS]; /* [room] each */
    int64_t *sentences, *questions;   /* [room] */
} fv_story_batch;

fv_status fv_story_batch_create(fv_ctx *ctx, int64_t room, fv_story_batch *out);
void fv_story_batch_free(fv_story_batch *b); /* accepts a zeroed one */

/* The token of each word of fv_story_word. Fails: ARGUMENT (the tokenizer lacks one). */
fv_status fv_story_tokens(fv_ctx *ctx, const fv_tokenizer *tokenizer,
                          int64_t out[FV_STORY_VOCABULARY]);
/* Adds a story; the batch must have room for it. */
void fv_story_batch_add(fv_story_batch *b, const int64_t words[FV_STORY_VOCABULARY],
                        const fv_story *story);
/* Rows first .. first + count - 1 as a batch, valid until the next call. */
fv_batch fv_story_batch_of(fv_story_batch *b, int64_t first, int64_t count);

/* What the model answers, p [room][FV_STORY_QUESTIONS] unless NULL: with which probability. A
 * question's "previous" is what the model answered before it; what it was is lost. */
fv_status fv_story_batch_answer(fv_story_batch *b, fv_model *model,
                                int64_t (*answer)[FV_STORY_QUESTIONS],
                                float (*p)[FV_STORY_QUESTIONS]);

#endif
