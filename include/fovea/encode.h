/*
 * fovea/encode.h: texts through an encoder (BERT, RoBERTa, sentence-transformers): vectors, classes
 * of texts or of their tokens, answers to questions, masked words.
 *
 *     fv_embedder *embedder = NULL;
 *     s = fv_embedder_open(ctx, "all-MiniLM-L6-v2", FV_WEIGHT_F32, &embedder);
 *     const fv_string pair[] = {{"A cat sleeps.", 13}, {"A kitten naps.", 14}};
 *     const fv_embeddings *vectors = NULL;
 *     s = fv_embed_texts(embedder, 2, pair, &vectors);
 *     if (s == FV_OK) printf("%.4f\n", fv_embeddings_cosine(vectors, 0, 1));
 *     fv_embedder_close(&embedder);
 *
 *     fv_classifier *classifier = NULL;
 *     s = fv_classifier_open(ctx, "sentiment", FV_WEIGHT_F32, &classifier);
 *     const fv_classifications *found = NULL;
 *     s = fv_classify_texts(classifier, 2, pair, &found);
 *     for (int64_t i = 0; s == FV_OK && i < found->count; i++) {
 *         const fv_classification *c = &found->row[i];
 *         printf("%s %.4f\n", c->label, (double)c->p[c->best]);
 *     }
 *     fv_classifier_close(&classifier);
 *
 *     fv_answerer *answerer = NULL;
 *     s = fv_answerer_open(ctx, "squad", FV_WEIGHT_F32, &answerer);
 *     const fv_question who = {{"Who sleeps?", 11}, {"A cat sleeps on the mat.", 24}};
 *     const fv_answers *answers = NULL;
 *     s = fv_answer_questions(answerer, 1, &who, 1, &answers);
 *     if (s == FV_OK) printf("%s %.4f\n", answers->row[0].text, answers->row[0].p);
 *     fv_answerer_close(&answerer);
 *
 *     fv_filler *filler = NULL;
 *     s = fv_filler_open(ctx, "bert-base-uncased", FV_WEIGHT_F32, &filler);
 *     const fv_fillings *words = NULL;
 *     s = fv_fill_masks(filler, 1, &(fv_string){"The [MASK] sleeps.", 18}, 5, &words);
 *     for (int64_t i = 0; s == FV_OK && i < words->count; i++)
 *         printf("%.4f %s\n", words->row[i].p, words->row[i].filled);
 *     fv_filler_close(&filler);
 *
 * What is computed for a text does not depend on the other texts in the call. A result is owned by
 * the object that computed it and is valid until that object's next call. Vectors of tokens that
 * are there already: kind->embed in fovea/model.h.
 */
#ifndef FOVEA_ENCODE_H
#define FOVEA_ENCODE_H

#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Each of the four opens a folder: weights, packed in `form`, and tokenizer. `take` does so with a
 * model that is open already; on success the new object owns it, and *model becomes NULL. Both
 * fail: as fv_model_open and fv_tokenizer_load; UNSUPPORTED (the model has no such head).
 * `close` comes before the end of the context and accepts NULL.
 *
 * Calls with texts fail: ARGUMENT (no texts; a text without tokens, where the tokenizer adds none),
 * FORMAT (not UTF-8), LIMIT (a text is longer than the model's positions and not cut), MEMORY,
 * CANCELLED.
 */

/* ---- vectors ------------------------------------------------------------------------------ */

typedef struct fv_embedder fv_embedder;

/* Fails also: as fv_embedding_rule_load. */
FV_API FV_MUST_USE fv_status fv_embedder_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                                              fv_embedder **out);
FV_API FV_MUST_USE fv_status fv_embedder_take(fv_model **model, const char *folder,
                                              fv_weight_form form, fv_embedder **out);
FV_API void fv_embedder_close(fv_embedder **embedder);

/* The folder's rule; its max_tokens is never above the model's positions. */
FV_API const fv_embedding_rule *fv_embedder_rule(const fv_embedder *embedder);
/* Another one, for the calls that follow. Fails: ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_embedder_set_rule(fv_embedder *embedder,
                                                  const fv_embedding_rule *rule);

typedef struct fv_embeddings {
    int64_t count, width;
    const float *values; /* [count][width] */
    int64_t truncated;   /* texts that were longer than the rule's max_tokens */
} fv_embeddings;

FV_API FV_MUST_USE fv_status fv_embed_texts(fv_embedder *embedder, int64_t count,
                                            const fv_string *texts, const fv_embeddings **out);
/* Of the vectors of texts i and j; 0 if one of them is zero. */
FV_API double fv_embeddings_cosine(const fv_embeddings *vectors, int64_t i, int64_t j);

/* ---- classes ------------------------------------------------------------------------------ */

typedef struct fv_classifier fv_classifier;

FV_API FV_MUST_USE fv_status fv_classifier_open(fv_ctx *ctx, const char *folder,
                                                fv_weight_form form, fv_classifier **out);
FV_API FV_MUST_USE fv_status fv_classifier_take(fv_model **model, const char *folder,
                                                fv_weight_form form, fv_classifier **out);
FV_API void fv_classifier_close(fv_classifier **classifier);

typedef struct fv_classification {
    int64_t text;      /* number of the text in the call */
    const char *token; /* of a model that classifies tokens; NULL: the class of the whole text */
    size_t begin, end; /* the token's bytes of the text */
    int64_t best;      /* the most likely class */
    const char *label; /* its name; NULL: the folder has no names */
    const float *p;    /* [classes]: probabilities */
} fv_classification;

typedef struct fv_classifications {
    int64_t count; /* one per text, or one per token that is not special */
    int64_t classes;
    const fv_classification *row;
} fv_classifications;

FV_API FV_MUST_USE fv_status fv_classify_texts(fv_classifier *classifier, int64_t count,
                                               const fv_string *texts,
                                               const fv_classifications **out);

typedef struct fv_text_pair {
    fv_string first, second;
} fv_text_pair;

/*
 * The same for pairs of texts, read as the tokenizer joins them ([CLS] first [SEP] second [SEP]
 * with types 0 and 1); row->text is the number of the pair:
 *
 *     const fv_text_pair both = {{"A cat sleeps.", 13}, {"No cat is awake.", 16}};
 *     const fv_classifications *found = NULL;
 *     fv_classifier *classifier = NULL;
 *     fv_status s = fv_classifier_open(ctx, "runs/entailment", FV_WEIGHT_F32, &classifier);
 *     if (s == FV_OK) s = fv_classify_pairs(classifier, 1, &both, &found);
 *     if (s == FV_OK) puts(found->row[0].label);
 *     fv_classifier_close(&classifier);
 *
 * Fails also: UNSUPPORTED (a model that classifies tokens).
 */
FV_API FV_MUST_USE fv_status fv_classify_pairs(fv_classifier *classifier, int64_t count,
                                               const fv_text_pair *pairs,
                                               const fv_classifications **out);
/* True if the folder says that the model was trained on pairs. */
FV_API bool fv_classifier_reads_pairs(const fv_classifier *classifier);

/* ---- answers ------------------------------------------------------------------------------ */

typedef struct fv_answerer fv_answerer;

FV_API FV_MUST_USE fv_status fv_answerer_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                                              fv_answerer **out);
FV_API FV_MUST_USE fv_status fv_answerer_take(fv_model **model, const char *folder,
                                              fv_weight_form form, fv_answerer **out);
FV_API void fv_answerer_close(fv_answerer **answerer);

typedef struct fv_question {
    fv_string question, context; /* the answer is a part of the context */
} fv_question;

typedef struct fv_answer {
    int64_t question;  /* its number in the call */
    size_t begin, end; /* bytes of the context */
    const char *text;  /* a copy of them */
    double p;          /* probability of this first token times that of this last one */
} fv_answer;

typedef struct fv_answers {
    int64_t count;
    const fv_answer *row;
    const double *none; /* [questions]: the same product for "no answer", as in SQuAD 2.0 */
} fv_answers;

/*
 * The `best` most likely answers to each question, the most likely first; fewer where the context
 * has fewer parts. Probabilities are over the context's tokens and the first special token, which
 * stands for "no answer"; an answer has at most 15 tokens. A context that is too long is read in
 * overlapping windows of 384 tokens, or of the model's positions. Fails also: ARGUMENT (best < 1; a
 * context without tokens), LIMIT (a question leaves no room for the context).
 */
FV_API FV_MUST_USE fv_status fv_answer_questions(fv_answerer *answerer, int64_t count,
                                                 const fv_question *questions, int64_t best,
                                                 const fv_answers **out);

/* ---- questions about pictures ------------------------------------------------------------- */

enum { FV_QUESTION_WORDS = 64, FV_QUESTION_WORD_BYTES = 48 };

/* A question as a model that answers questions about pictures reads it. */
typedef struct fv_question_words {
    int64_t count;
    int64_t id[FV_QUESTION_WORDS];
    bool is_known[FV_QUESTION_WORDS];                     /* false: id is that of <unk> */
    char word[FV_QUESTION_WORDS][FV_QUESTION_WORD_BYTES]; /* longer ones are cut */
} fv_question_words;

/*
 * The words of a question, in lower case and without the marks between them:
 *
 *     fv_question_words words;
 *     s = fv_question_read(model, "What color is the circle?", &words);    // what color is ...
 *     const void *row = words.id;
 *     fv_batch_add(&batch, (fv_field){.name = "question", .dtype = FV_I64, .row = &row,
 *                                     .length = &words.count});
 *     fv_tensor *logits = fv_model_classify(model, &batch, NULL);
 *
 * Fails: STATE (the model has no tokenizer), FORMAT (not UTF-8), ARGUMENT (no word), LIMIT (more
 * than FV_QUESTION_WORDS), MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_question_read(fv_model *model, const char *text,
                                              fv_question_words *out);

/* ---- masked words ------------------------------------------------------------------------- */

typedef struct fv_filler fv_filler;

/* Fails also: UNSUPPORTED (the tokenizer has no [MASK] or <mask>). */
FV_API FV_MUST_USE fv_status fv_filler_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                                            fv_filler **out);
FV_API FV_MUST_USE fv_status fv_filler_take(fv_model **model, const char *folder,
                                            fv_weight_form form, fv_filler **out);
FV_API void fv_filler_close(fv_filler **filler);

typedef struct fv_filling {
    int64_t text;     /* number of the text in the call */
    int64_t position; /* of the mask among the text's tokens, special tokens included */
    int64_t id;
    const char *token;  /* as spelled in the vocabulary; NULL: the id has none */
    double p;           /* its probability */
    const char *filled; /* the text with the token in place of this mask */
} fv_filling;

typedef struct fv_fillings {
    int64_t count; /* 0: no text has a mask */
    const fv_filling *row;
} fv_fillings;

/* The `best` most likely tokens for each mask, the most likely first; all of a smaller vocabulary.
 * Fails also: ARGUMENT (best < 1). */
FV_API FV_MUST_USE fv_status fv_fill_masks(fv_filler *filler, int64_t count, const fv_string *texts,
                                           int64_t best, const fv_fillings **out);

#ifdef __cplusplus
}
#endif
#endif
