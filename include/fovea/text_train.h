/*
 * fovea/text_train.h: training a Transformer on plain text, from a recipe.
 *
 *     const fv_key_table tables[] = {fv_translation_keys(), fv_seq2seq_keys(),
 *                                    fv_transformer_keys(), fv_text_keys(), fv_train_keys()};
 *     s = fv_recipe_create(ctx, tables, 5, &recipe);
 *     s = fv_recipe_load(recipe, "gpt2-shakespeare.toml");       // train.task = "language"
 *     fv_text_run *run = NULL;
 *     s = fv_text_run_create(ctx, recipe, "run", observe, NULL, &run);    // reads the text
 *     s = fv_text_run_train(run);                                         // resumes
 *     fv_text_run_destroy(&run);
 *
 * A language model learns the next token. The text is one stream, and an example a window of
 * data.length tokens at a random place; or it is documents, lines or paragraphs, which are packed
 * without seeing each other. Which windows a step reads depends on the seed and the step alone.
 *
 * A masked model (BERT's) learns words that are hidden: 15 of 100, and of those eight in ten become
 * [MASK], one another word, and one stays. With train.next_sentence a text is cut in two, half of
 * the time its second part is another text's, and the model learns which. It is judged by the loss
 * and the accuracy at places that are the same every time.
 *
 * A classifier learns the class of a text from a table, comma-separated with a line of names. The
 * classes are those of the training table, and config.json names them ("id2label"). It is judged by
 * its accuracy. Both kinds of encoder read [CLS] text [SEP], and the tokenizer says so.
 *
 * The folder becomes what fv_model_open and transformers open: config.json, model.safetensors,
 * tokenizer.json. On the first start the tokenizer is learnt from the training text.
 *
 * "train.init_from" names a folder to begin from: its tokenizer is taken, and its weights wherever
 * a name and a shape are this model's. A run that goes on has weights of its own.
 */
#ifndef FOVEA_TEXT_TRAIN_H
#define FOVEA_TEXT_TRAIN_H

#include "fovea/tokenizer.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "fovea/translate_train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a recipe trains: "train.task". */
typedef enum fv_train_task {
    FV_TASK_TRANSLATION,
    FV_TASK_LANGUAGE,
    FV_TASK_MASKED,
    FV_TASK_CLASSIFY,
    FV_TASK_COUNT
} fv_train_task;

/* "train.task", "data.train_text", ... */
FV_API fv_key_table fv_text_keys(void);

typedef struct fv_text_run fv_text_run;

/*
 * Reads the text, and makes or loads the tokenizer and the model; `folder` must exist, and nothing
 * is written to it yet. The recipe must outlive the run. Fails: IO, FORMAT, ARGUMENT (a key that is
 * missing or does not fit), MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_text_run_create(fv_ctx *ctx, fv_recipe *recipe, const char *folder,
                                                fv_train_observer observe, void *user,
                                                fv_text_run **out);
/* Goes on from the folder's newest state, writes the settings and recipe.toml, and trains to the
 * end; see fv_trainer_run. */
FV_API FV_MUST_USE fv_status fv_text_run_train(fv_text_run *run);
FV_API void fv_text_run_destroy(fv_text_run **run); /* NULL is fine */

FV_API fv_transformer *fv_text_run_model(const fv_text_run *run);
/* config.json, generation_config.json and tokenizer.json into a folder that exists. */
FV_API FV_MUST_USE fv_status fv_text_run_save_settings(const fv_text_run *run, const char *folder);
/* Tokens to train on (0) and to judge by (1). */
FV_API int64_t fv_text_run_tokens(const fv_text_run *run, int part);

/* What "train.init_from" gave; all zero where nothing was to be taken: no such key, or a run that
 * goes on. */
FV_API fv_taken fv_text_run_taken(const fv_text_run *run);

#ifdef __cplusplus
}
#endif
#endif
