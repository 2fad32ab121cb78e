/*
 * The captions task: pictures or recordings of a media set (data/media.h) to their texts, by a
 * model that can describe.
 *
 *     captions.c          data, the tokenizer, steps, the task kind
 *     captions_metrics.c  metrics on held-out data, samples
 *
 * What a text is depends on the set: a caption, the digits in a picture, the words that are spoken.
 * It belongs to the example's number: a draw may change the picture, never the text.
 */
#ifndef FV_TRAIN_CAPTIONS_H
#define FV_TRAIN_CAPTIONS_H

#include "base/ctx.h"
#include "train/tasks/media.h"

/* Texts as tokens, one after the other: those of text i are first[i] to first[i + 1] - 1. */
typedef struct fv_caption_tokens {
    int64_t *token, *first;
    int64_t count, longest;
    size_t token_room, first_room;
} fv_caption_tokens;

typedef struct fv_captions_task {
    fv_media_task media; /* first */
    const char *folder;
    fv_text texts; /* of the training examples, each with a NUL; until they are tokens */
    fv_tokenizer_encoder *encoder;
    fv_caption_tokens train, held_out; /* held_out: of the batch that is evaluated */
    /* the targets of the step's or the evaluated rows */
    const void **target_row;
    int64_t *target_count;
    size_t row_room, count_room;
} fv_captions_task;

/* Adds a text. Fails: FORMAT, LIMIT, MEMORY. */
fv_status fv_captions_encode(fv_captions_task *run, const char *text, fv_caption_tokens *to);
/* The rows of `media` as a batch whose "target" is text which[i] of `tokens` for row first + i. */
fv_status fv_captions_batch_of(fv_captions_task *run, const fv_caption_tokens *tokens,
                               const int64_t *which, int64_t first, int64_t count, fv_batch *out);

/* The token of word `word` of a text. In a text of characters with blanks, words are what blanks
 * separate, and their first character counts; in one without, each character is a word. */
int64_t fv_captions_token_of(const char *text, int word, bool characters);
/* Whether the strongest position of no token, in weights [tokens][positions], comes before that of
 * the token before. */
bool fv_captions_is_monotone(const float *weights, int64_t tokens, int64_t positions);

/* Of fv_task_kind. */
fv_status fv_captions_evaluate(void *self, fv_model *model, fv_metric *metrics, int *count);
fv_status fv_captions_show(void *self, fv_model *model, int count, fv_text *out);

#endif
