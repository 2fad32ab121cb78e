/*
 * fovea/model.h: models in folders, as Hugging Face transformers keeps them.
 *
 *     fv_model *model = NULL;
 *     if (fv_model_open(ctx, "gpt2", &model) != FV_OK) return fail(fv_ctx_message(ctx));
 *     fv_transformer *t = fv_model_transformer(model);      // fovea/transformer.h runs it
 *     s = fv_model_save(model, "copy");                     // the folder must exist
 *     fv_model_close(&model);
 *
 * A folder holds config.json, the weights (model.safetensors, or shards with their index) and
 * generation_config.json if there is one. Read and written are the model types gpt2, bert, marian,
 * t5 and llama, fovea-transformer for settings that none of these can say, and fovea-seq2seq, the
 * recurrent translators of fovea/translate.h. What is saved here opens there with the same numbers.
 *
 * Nothing in a folder is trusted. An unknown model_type, a setting that is missing, impossible or
 * not supported, a tensor that is missing, too many or of another shape is FV_ERR_FORMAT, and the
 * message names it, and the nearest name if there is one.
 */
#ifndef FOVEA_MODEL_H
#define FOVEA_MODEL_H

#include "fovea/transformer.h"
#include "fovea/translate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_model fv_model;

/*
 * Weights are f32 in memory whatever the file has (bf16 and f16 are widened) and can be trained.
 * Heads are those whose tensors the file has. Fails: IO, FORMAT, LIMIT, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_model_open(fv_ctx *ctx, const char *folder, fv_model **out);
/*
 * The same, but f32 matrices stay where they lie in the mapped file as far as their layout allows
 * (GPT-2's are transposed and so are copied). For running only: writing to such a parameter ends
 * the process, and so does another program that cuts the file short; see FV_SAFETENSORS_MAP.
 */
FV_API FV_MUST_USE fv_status fv_model_map(fv_ctx *ctx, const char *folder, fv_model **out);
/* Before the context. NULL is fine; *model becomes NULL. */
FV_API void fv_model_close(fv_model **model);

/* config.json, generation_config.json and model.safetensors in a folder that exists; each file is
 * replaced in one step. Fails: IO, MEMORY, ARGUMENT (the family's config.json cannot say a setting
 * of this model). */
FV_API FV_MUST_USE fv_status fv_model_save(fv_model *model, const char *folder);
/* The two small files alone, for a folder into which a trainer writes the weights. */
FV_API FV_MUST_USE fv_status fv_transformer_save_settings(const fv_transformer *model,
                                                          const char *folder);

/* What is inside; NULL if it is something else. A translator whose model is a Transformer (a folder
 * with source_tokenizer.json) is both. Owned by the model. */
FV_API fv_transformer *fv_model_transformer(const fv_model *model);
FV_API fv_translator *fv_model_translator(const fv_model *model);
FV_API fv_params *fv_model_params(const fv_model *model);
/* The model_type of its config.json. */
FV_API const char *fv_model_type(const fv_model *model);

/* The settings of a config.json alone. Heads are those that "architectures" names. Fails: IO,
 * FORMAT, LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_transformer_config_load(fv_ctx *ctx, const char *path,
                                                        fv_transformer_config *out);
/* Atomic. Fails: ARGUMENT (the family's config.json cannot say a setting), IO, MEMORY. */
FV_API FV_MUST_USE fv_status fv_transformer_config_save(fv_ctx *ctx,
                                                        const fv_transformer_config *cfg,
                                                        const char *path);

/* ---- generation_config.json --------------------------------------------------------- */

enum { FV_MAX_ENDS = 8, FV_MAX_BANNED = 64, FV_MAX_BANNED_TOKENS = 256 };

/* How a folder's author wants it to generate; transformers' defaults where the file is silent.
 * Older folders without the file say it in config.json. */
typedef struct fv_generation {
    int64_t start;             /* fed first: decoder_start_token_id, else bos; -1: none */
    int64_t ends[FV_MAX_ENDS]; /* any of them ends */
    int end_count;
    int64_t pad;                        /* -1: none */
    int64_t max_length;                 /* prompt included; 0: not said */
    int64_t max_new_tokens;             /* 0: not said */
    int64_t min_length, min_new_tokens; /* 0: not said */
    int64_t no_repeat;                  /* "no_repeat_ngram_size"; 0: off */
    bool sample;
    int64_t beams, top_k;
    double length_penalty, temperature, top_p, min_p, repetition_penalty;
    bool early_stopping;
    int64_t forced_start, forced_end;     /* first token after the start, last token; -1: none */
    int64_t banned[FV_MAX_BANNED_TOKENS]; /* "bad_words_ids", one behind another */
    int banned_lengths[FV_MAX_BANNED];    /* tokens of each */
    int banned_count;                     /* words */
    bool renormalize;                     /* "renormalize_logits" */
} fv_generation;

FV_API const fv_generation *fv_model_generation(const fv_model *model);

/* ---- sentence embeddings -------------------------------------------------------------- */

/*
 * How an encoder's folder makes one vector of a text:
 *
 *     fv_embedding_rule rule;
 *     s = fv_embedding_rule_load(ctx, "all-MiniLM-L6-v2", &rule);
 *     ... tokens of the text, rule.most_tokens at most, through fv_transformer_encode ...
 *     fv_tensor *vectors = fv_embed(ctx, &rows, states, &rule);
 */
typedef struct fv_embedding_rule {
    fv_pooling pooling;
    bool normalize;      /* to length 1 */
    int64_t most_tokens; /* what lies beyond is cut off, special tokens stay; 0: not said */
} fv_embedding_rule;

/*
 * From the files of sentence-transformers: modules.json (an encoder, pooling, and perhaps a
 * normalizer), 1_Pooling/config.json, and the length from sentence_bert_config.json or
 * tokenizer_config.json. A folder without modules.json: the mean, as it is. Fails: IO, FORMAT,
 * LIMIT, MEMORY, UNSUPPORTED (another module, several poolings or another than mean and cls, a
 * prompt before every text, lower-casing beside the tokenizer's; the message names it).
 */
FV_API FV_MUST_USE fv_status fv_embedding_rule_load(fv_ctx *ctx, const char *folder,
                                                    fv_embedding_rule *out);
/* [documents, width] from an encoder's last states; `rows` as given to the pass. */
FV_API fv_tensor *fv_embed(fv_ctx *ctx, const fv_rows *rows, fv_tensor *states,
                           const fv_embedding_rule *rule);

#ifdef __cplusplus
}
#endif
#endif
