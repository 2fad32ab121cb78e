/*
 * fovea/translate_train.h: training a translator on pairs of texts, from a recipe.
 *
 *     const fv_key_table tables[] = {fv_seq2seq_keys(), fv_train_keys(), fv_translation_keys()};
 *     s = fv_recipe_create(ctx, tables, 3, &recipe);
 *     s = fv_recipe_load(recipe, "multi30k.toml");
 *     fv_translation_run *run = NULL;
 *     s = fv_translation_run_create(ctx, recipe, "run", observe, NULL, &run);  // reads the data
 *     s = fv_translation_run_train(run);                                       // resumes
 *     fv_translation_run_destroy(&run);
 *
 * The folder becomes what fv_translator_load opens. On the first start the tokenizers are learnt
 * from the training texts; later starts use those of the folder. "train.init_from" names a
 * translator's folder to begin from, as in fovea/text_train.h.
 */
#ifndef FOVEA_TRANSLATE_TRAIN_H
#define FOVEA_TRANSLATE_TRAIN_H

#include "fovea/train.h"
#include "fovea/translate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys of data, tokens and what else belongs to translation: "data.train_source", ... */
FV_API fv_key_table fv_translation_keys(void);

typedef struct fv_translation_run fv_translation_run;

/*
 * Reads the data and makes or loads tokenizers and model. `folder` must exist; nothing is written
 * yet. The recipe must outlive the run. Fails: IO, FORMAT, ARGUMENT (a key that is missing or does
 * not fit), MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_translation_run_create(fv_ctx *ctx, fv_recipe *recipe,
                                                       const char *folder,
                                                       fv_train_observer observe, void *user,
                                                       fv_translation_run **out);
/* Goes on from the folder's newest state, to the end; see fv_trainer_run. Once the state was found
 * to fit, the settings and recipe.toml are written into the folder. */
FV_API FV_MUST_USE fv_status fv_translation_run_train(fv_translation_run *run);
FV_API void fv_translation_run_destroy(fv_translation_run **run); /* NULL is fine */

FV_API fv_translator *fv_translation_run_translator(const fv_translation_run *run);
/* How many pairs were kept and left out: training (0), validation (1). */
FV_API fv_parallel_report fv_translation_run_report(const fv_translation_run *run, int part);

/* What "train.init_from" gave; all zero where nothing was to be taken. */
FV_API fv_taken fv_translation_run_taken(const fv_translation_run *run);

#ifdef __cplusplus
}
#endif
#endif
