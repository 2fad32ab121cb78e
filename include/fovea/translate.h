/*
 * fovea/translate.h: text to text, by any model that can translate.
 *
 *     fv_model *model = NULL;
 *     s = fv_model_open(ctx, "run", &model);
 *     fv_string in[] = {{"3 May 1979", 10}};
 *     fv_translations *out = NULL;
 *     s = fv_translate(model, 1, in, NULL, &out);
 *     if (s == FV_OK) puts(fv_translations_get(out, 0, 0)->text);
 *     fv_translations_free(&out);
 *     fv_model_close(&model);
 *
 * A folder holds config.json, model.safetensors, and source_tokenizer.json and
 * target_tokenizer.json, or tokenizer.json where both sides share one. The model is recurrent
 * (fovea/seq2seq.h) or a Transformer (fovea/transformer.h), which transformers opens too.
 */
#ifndef FOVEA_TRANSLATE_H
#define FOVEA_TRANSLATE_H

#include "fovea/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pairs of texts ----------------------------------------------------------------- */

/*
 * Encoded pairs in memory, with their texts. Belongs to its model. The loss of a given translation:
 *
 *     fv_parallel *pairs = NULL;
 *     s = fv_parallel_create(model, &pairs);
 *     s = fv_parallel_add(pairs, (fv_string){"3 May 1979", 10}, (fv_string){"1979-05-03", 10});
 *     fv_batch batch;
 *     s = fv_parallel_pick(pairs, 1, (int64_t[]){0}, &batch);
 *     fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &batch, NULL);
 *     printf("%" PRId64 " tokens on both sides\n", fv_parallel_tokens(pairs, 0));
 *     fv_parallel_destroy(&pairs);
 */
typedef struct fv_parallel fv_parallel;

typedef struct fv_parallel_config {
    size_t struct_size;
    int64_t max_tokens; /* pairs with a longer side are left out; 0: none [0] */
    bool keep_empty;    /* keep pairs with an empty target [false]; empty sources never stay */
    bool skip_invalid;  /* leave out lines that are not UTF-8, instead of failing [false] */
} fv_parallel_config;

typedef struct fv_parallel_report {
    int64_t pairs, empty, too_long, invalid; /* kept, and left out by reason */
} fv_parallel_report;

FV_API void fv_parallel_config_init(fv_parallel_config *cfg, size_t struct_size);

FV_API FV_MUST_USE fv_status fv_parallel_create(fv_model *model, fv_parallel **out);
FV_API void fv_parallel_destroy(fv_parallel **pairs);
/* Two files with as many lines. cfg and report may be NULL. Fails: IO, FORMAT (not text; one file
 * ends before the other: with both line counts), LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_parallel_read(fv_parallel *pairs, const char *source,
                                              const char *target, const fv_parallel_config *cfg,
                                              fv_parallel_report *report);
/* One pair by hand. */
FV_API FV_MUST_USE fv_status fv_parallel_add(fv_parallel *pairs, fv_string source,
                                             fv_string target);

FV_API int64_t fv_parallel_count(const fv_parallel *pairs);
FV_API fv_string fv_parallel_source(const fv_parallel *pairs, int64_t i);
FV_API fv_string fv_parallel_target(const fv_parallel *pairs, int64_t i);
/* Tokens of source, target and end together. */
FV_API int64_t fv_parallel_tokens(const fv_parallel *pairs, int64_t i);
/* The chosen pairs, for the model's loss; lives until the next call. Fails: MEMORY, INDEX. */
FV_API FV_MUST_USE fv_status fv_parallel_pick(fv_parallel *pairs, int64_t count,
                                              const int64_t *which, fv_batch *out);

/* ---- translating -------------------------------------------------------------------- */

typedef struct fv_translate_config {
    size_t struct_size;
    fv_search_config search;
    double length_ratio;  /* most target tokens: ratio x source tokens + extra [2] */
    int64_t length_extra; /* [10] */
    int64_t batch;        /* sources decoded together [64] */
    bool replace_unknown; /* put the source word that got most attention for "<unk>" [false] */
} fv_translate_config;

FV_API void fv_translate_config_init(fv_translate_config *cfg, size_t struct_size);

typedef struct fv_translation {
    const char *text; /* UTF-8 */
    double score, log_prob;
    bool ended; /* false: cut off at the most tokens */
    /* With search.want_weights: tokens as written, and weights [target_count][source_count]; the
     * end token's row comes last if `ended`. */
    int64_t source_count, target_count;
    const char *const *source_tokens, *const *target_tokens;
    const float *weights;
} fv_translation;

typedef struct fv_translations fv_translations;

/* Loads the tokenizers of the model's folder if they are not there yet. cfg may be NULL. An empty
 * source has an empty translation. Fails: FORMAT (not UTF-8), MEMORY, CANCELLED, ARGUMENT,
 * FORMAT (the model cannot translate). */
FV_API FV_MUST_USE fv_status fv_translate(fv_model *model, int64_t count, const fv_string *sources,
                                          const fv_translate_config *cfg, fv_translations **out);
/* The n-th best of a source, or NULL. Owned by the translations. */
FV_API const fv_translation *fv_translations_get(const fv_translations *all, int64_t source, int n);
FV_API void fv_translations_free(fv_translations **all); /* NULL is fine */

/* The attention over a given translation: like the first result of fv_translate, for this target.
 */
FV_API FV_MUST_USE fv_status fv_translate_given(fv_model *model, fv_string source, fv_string target,
                                                fv_translations **out);

/* ---- describing --------------------------------------------------------------------- */

/*
 * The texts of pictures or recordings, by a model that can describe (FV_CAN_DESCRIBE): a caption,
 * a line of digits, or spoken words. Row i of the batch gives result i, decoded together with the
 * others; the batch has the field that the model's encoder reads.
 *
 *     fv_batch pictures;
 *     fv_batch_init(&pictures, 1);
 *     static float scene[3 * 48 * 48];
 *     const void *row[1] = {scene};
 *     fv_batch_add(&pictures, (fv_field){.name = "pixels", .dtype = FV_F32, .row = row, .rank = 3,
 *                                        .shape = {3, 48, 48}});
 *     fv_translations *texts = NULL;
 *     s = fv_describe(model, &pictures, 100, NULL, &texts);
 *     if (s == FV_OK) puts(fv_translations_get(texts, 0, 0)->text);
 *     fv_translations_free(&texts);
 *
 * At most max_tokens tokens each; how NULL: greedy. With how->want_weights a result's weights are
 * [target_count][source_count], a column for each of the encoder's positions (the cells of a grid
 * row by row, or frames), and source_tokens is NULL. Fails: FORMAT (the model cannot describe),
 * ARGUMENT (no such field, or of another shape; a setting), MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_describe(fv_model *model, const fv_batch *inputs,
                                         int64_t max_tokens, const fv_search_config *how,
                                         fv_translations **out);

#ifdef __cplusplus
}
#endif
#endif
