/*
 * fovea/words.h: vectors of words: the nearest words, analogies, and a plane to draw them in.
 *
 *     fv_model *model = NULL;
 *     s = fv_model_open(ctx, "runs/word2vec", &model);        // kind word2vec
 *     int64_t king = 0;
 *     s = fv_words_find(model, "king", &king);
 *     fv_word_match near[10];
 *     int found = 0;
 *     s = fv_words_nearest(model, &(fv_words_query){.plus = &king, .plus_count = 1}, 10, near,
 *                          &found);
 *     for (int i = 0; i < found; i++) printf("%s %.3f\n", near[i].word, near[i].cosine);
 *
 * A word2vec model has two vectors for each word: "inputs", which are what people use, and
 * "outputs", which predict a word from its neighbours. Its tokenizer numbers words by falling
 * frequency, after special tokens.
 */
#ifndef FOVEA_WORDS_H
#define FOVEA_WORDS_H

#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_word_match {
    int64_t id;
    const char *word; /* lives as long as the model's tokenizer */
    double cosine;
} fv_word_match;

/* The sum of some words' unit vectors minus those of others: king - man + woman. */
typedef struct fv_words_query {
    const int64_t *plus, *minus;
    int plus_count, minus_count; /* at least one in all */
} fv_words_query;

/* The number of a word, as its tokenizer spells it. Fails: ARGUMENT (there is none; the message has
 * the nearest spelling), UNSUPPORTED (not a model of words). */
FV_API FV_MUST_USE fv_status fv_words_find(fv_model *model, const char *word, int64_t *id);
/* Words, without special tokens; word number i by frequency is fv_words_first(model) + i. */
FV_API int64_t fv_words_count(const fv_model *model);
FV_API int64_t fv_words_first(const fv_model *model);
/* The text of a word; NULL: there is none. */
FV_API const char *fv_words_text(const fv_model *model, int64_t id);

/* Up to `count` words by falling cosine with the query, without its own words; of equal ones the
 * more frequent first. Fails: ARGUMENT, UNSUPPORTED, MEMORY. */
FV_API FV_MUST_USE fv_status fv_words_nearest(fv_model *model, const fv_words_query *query,
                                              int count, fv_word_match *out, int *found);

/* Places of words in the plane that keeps most of the spread of their unit vectors: the first two
 * principal components, xy[2 i] and xy[2 i + 1]. The component of the largest absolute value is
 * positive, so the picture is the same everywhere. Fails: ARGUMENT (fewer than three words),
 * UNSUPPORTED, MEMORY. */
FV_API FV_MUST_USE fv_status fv_words_plane(fv_model *model, const int64_t *ids, int64_t count,
                                            double *xy);

#ifdef __cplusplus
}
#endif
#endif
