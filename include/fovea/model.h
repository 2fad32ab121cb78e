/*
 * fovea/model.h: models by their kind, in memory and in folders.
 *
 *     fv_model *model = NULL;
 *     if (fv_model_open(ctx, "gpt2", &model) != FV_OK) return fail(fv_ctx_message(ctx));
 *     bool writes = fv_model_can(model, FV_CAN_GENERATE);   // fovea/generate.h
 *     s = fv_model_save(model, "copy");                     // the folder must exist
 *     fv_model_close(&model);
 *
 * A model kind is a constant table of functions: how to make a model from a recipe, its loss, and
 * what it can do. The library's own kinds are in src/models/kinds.def; a program registers its own:
 *
 *     s = fv_register_model(ctx, &my_kind);                 // model.kind = "mine" in recipes
 *
 * examples/own_model.c is a whole one. A folder holds config.json, the weights
 * (model.safetensors, or shards with their index), tokenizers where the model reads text, and
 * generation_config.json if there is one. "model_type" in config.json says which kind opens it.
 * Nothing in a folder is trusted: an unknown model_type, a setting that is missing, impossible or
 * not supported, a tensor that is missing, too many or of another shape is FV_ERR_FORMAT, and the
 * message names it, and the nearest name if there is one.
 */
#ifndef FOVEA_MODEL_H
#define FOVEA_MODEL_H

#include "fovea/batch.h"
#include "fovea/layers.h"
#include "fovea/optim.h"
#include "fovea/recipe.h"
#include "fovea/search.h"
#include "fovea/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- abilities, and what the data says ----------------------------------------------------- */

/* What a model can do with inputs. */
typedef enum fv_ability {
    FV_CAN_TRANSLATE, /* text to text, by `make_stepper` over "source" */
    FV_CAN_GENERATE,  /* continue or answer a text */
    FV_CAN_FILL,      /* predict masked tokens */
    FV_CAN_CLASSIFY,
    FV_CAN_EMBED,    /* one vector per row */
    FV_CAN_POINT,    /* choose among the inputs, by a stepper whose choices are the inputs */
    FV_CAN_ACT,      /* values or logits of actions */
    FV_CAN_DRAW,     /* make samples */
    FV_CAN_ANSWER,   /* find the answer to a question in a text; choose one for a picture */
    FV_CAN_DESCRIBE, /* write the text of a picture or a recording, by `make_stepper` */
    FV_CAN_PREDICT,  /* outputs for the steps of a sequence of vectors */
    FV_CAN_RELATE,   /* find the nearest words, by fovea/words.h */
    FV_CAN_RATE,     /* how much a viewer likes something */
    FV_CAN_LEARN,    /* classify after the examples of an episode, by `classify` */
    FV_ABILITY_COUNT
} fv_ability;

/* "translate", "generate", ... */
FV_API const char *fv_ability_name(fv_ability ability);

enum { FV_SPEC_NUMBERS = 16, FV_MODEL_COUNTERS = 2 };

/*
 * What the data says about a model: what it is to learn, vocabularies, classes, sizes. A task fills
 * it; the kind's `create` reads it. Tokenizers belong to the model that is made of it.
 */
typedef struct fv_data_spec {
    fv_ability ability;            /* what the model is trained for */
    fv_tokenizer *source, *target; /* may be one; NULL: no text */
    const char *const *labels;     /* names of classes; copied */
    int64_t label_count;
    struct {
        char name[32]; /* "channels", "height", "classes", "actions" */
        int64_t value;
    } number[FV_SPEC_NUMBERS];
    int number_count;
} fv_data_spec;

/* Sets a number; false: there is no place left for a new name. */
FV_API bool fv_data_spec_set(fv_data_spec *spec, const char *name, int64_t value);
FV_API int64_t fv_data_spec_get(const fv_data_spec *spec, const char *name, int64_t fallback);

/* ---- kinds -------------------------------------------------------------------------------- */

typedef struct fv_generation_defaults fv_generation_defaults;
typedef struct fv_embedding_rule fv_embedding_rule;

/* Where a model is loaded from. */
typedef struct fv_model_folder {
    fv_ctx *ctx;
    const char *path;
    const char *config; /* the path of its config.json */
    bool map;           /* weights may stay in the mapped file, for running only */
} fv_model_folder;

/*
 * A model kind. Functions may be NULL unless their comment says otherwise. `self` is what create or
 * load made. A function that fails returns fv_ctx_fail(...), or an error of the library that it
 * met; one that returns a tensor follows the rules of ops: on failure the context's invalid tensor.
 * Calls come from one thread at a time.
 */
typedef struct fv_model_kind {
    size_t struct_size;
    const char *name;    /* of model.kind in recipes; one word */
    const char *types;   /* "a|b": model_types in config.json that it opens; NULL: its name */
    const char *summary; /* one line for help */
    unsigned abilities;  /* bits 1 << fv_ability: what models of this kind may be able to do */
    fv_key_table (*keys)(void); /* what a recipe may set */

    /* Makes a model with parameters in `params`, which outlives it. A kind without `save` sees only
     * its own keys in the recipe, because only those are stored in config.json. *self is destroyed
     * even if create fails. create and destroy must not be NULL. */
    fv_status (*create)(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self);
    /* Makes a model from a folder, weights included, and says in `spec` what it reads from there.
     * NULL: config.json holds the kind's keys and the spec, and the library does it. */
    fv_status (*load)(fv_params *params, const fv_model_folder *from, fv_data_spec *spec,
                      void **self);
    /* Writes config.json and what else there is beside weights and tokenizers. NULL with load. */
    fv_status (*save)(const void *self, fv_params *params, const char *folder);
    void (*destroy)(void *self);

    /* The loss of a batch, summed over what it predicts; which one follows from its fields. */
    fv_tensor *(*loss)(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass);

    /* Abilities. Whether this model has one of those that its kind may have; NULL: all. */
    bool (*can)(const void *self, fv_ability ability);
    /* Reads the inputs and makes a stepper over them, which lives until the next call. */
    fv_status (*make_stepper)(void *self, const fv_batch *inputs, fv_stepper *out);
    /* Logits [rows, classes]; of a batch of one row whose tokens are classified, [tokens, classes];
     * or, of a model that has no other
     * classes, [rows, 2]: whether the second text follows the first. */
    fv_tensor *(*classify)(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass);
    /* Logits [n, vocabulary] at the n positions of the i64 field "positions" of every row. */
    fv_tensor *(*fill_mask)(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass);
    /* One vector per row, [rows, width]; rule NULL: the kind's own. */
    fv_tensor *(*embed)(fv_ctx *ctx, void *self, const fv_batch *inputs,
                        const fv_embedding_rule *rule);
    /* Values or logits of actions, [rows, actions]; of rows that are sequences of observations
     * (a field with lengths), [rows, longest, actions], which means nothing past a row's end. The
     * action before an observation is the i64 field "last_action", -1: none. */
    fv_tensor *(*act)(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass);
    /* Samples [rows, ...]; conditions may be NULL. */
    fv_tensor *(*draw)(fv_ctx *ctx, void *self, int64_t rows, const fv_batch *conditions);
    /* Logits [1, tokens of all rows, 2]: whether an answer begins and ends at a token. */
    fv_tensor *(*find_spans)(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass);

    /* Attention. Sites in the order of a pass; returns how many there are and
     * writes at most `capacity`. */
    int (*attention_sites)(const void *self, fv_site *out, int capacity);
    /* Runs the model over inputs, and over "target" where it is there, for the pass's capture. */
    fv_status (*capture_attention)(fv_ctx *ctx, void *self, const fv_batch *batch,
                                   const fv_pass *pass);
    /* The attention for given targets, [rows, longest target + 1, longest source], 0 past an end:
     * one map that stands for the model's alignment. */
    fv_tensor *(*align)(fv_ctx *ctx, void *self, const fv_batch *batch);

    /* Training. After a phase's update: moves running statistics and spectral-norm vectors forward,
     * in buffers of the parameter set (fv_params_add_buffer). A pass must not, or a phase that was
     * cancelled would count twice when the run resumes. Never cancelled itself. */
    fv_status (*step_done)(void *self, uint64_t step, int phase);
    /* Other numbers that a saved training state holds; read between steps. Setting fails: FORMAT.
     */
    void (*get_counters)(void *self, int64_t counters[FV_MODEL_COUNTERS]);
    fv_status (*set_counters)(void *self, const int64_t counters[FV_MODEL_COUNTERS]);

    bool trains_bf16;                        /* linear layers may compute in bf16 in training */
    bool supports_checkpointing;             /* fv_pass.checkpoint does something */
    int64_t (*max_length)(const void *self); /* tokens of the longest sequence; 0: no bound */

    /* For inference: replaces each matrix by packed panels in f32, bf16 or int8 and frees the
     * original; the model can no longer be trained. */
    fv_status (*pack)(void *self, fv_weight_form form);
    const fv_generation_defaults *(*generation)(const void *self); /* generation_config.json */

    /* Logits of the answers to "inputs", sequences of vectors: [answers of all rows, outputs], row
     * after row. A row has as many answers as its entry of "targets", at its last steps; without
     * that field one for every step. */
    fv_tensor *(*predict)(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass);
    /* The same as `act` for a model with memory, so that an episode can be played step by step:
     * *state, unless NULL, becomes what it remembers after each row's last observation, f32 [rows,
     * width]; given back as the field "state" it is the memory before the first one. */
    fv_tensor *(*act_with_state)(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                 const fv_pass *pass, fv_tensor **state);
} fv_model_kind;

/* Adds a kind to a context. The table is copied; what it points to must outlive the context. Fails:
 * ARGUMENT (no name, create or destroy; a name or type that is taken), MEMORY. */
FV_API FV_MUST_USE fv_status fv_register_model(fv_ctx *ctx, const fv_model_kind *kind);
/*
 * The i-th kind, the library's own first; NULL past the last. Which of them make samples:
 *
 *     const fv_model_kind *kind;
 *     for (size_t i = 0; (kind = fv_model_kind_at(ctx, i)); i++)
 *         if (kind->abilities & 1u << FV_CAN_DRAW) printf("%s: %s\n", kind->name, kind->summary);
 */
FV_API const fv_model_kind *fv_model_kind_at(const fv_ctx *ctx, size_t i);
/* By name; NULL: there is none. */
FV_API const fv_model_kind *fv_model_kind_find(const fv_ctx *ctx, const char *name);

/* ---- models ------------------------------------------------------------------------------- */

typedef struct fv_model fv_model;

/*
 * An untrained model of a registered kind; recipe NULL: the defaults of its keys, which only
 * kinds without `save` accept. Takes the spec's tokenizers over, also on failure. Fails: ARGUMENT
 * (no such kind, settings that do not fit), MEMORY.
 *
 *     if (!fv_model_kind_find(ctx, "mine")) s = fv_register_model(ctx, &my_kind);
 *     fv_data_spec spec = {.ability = FV_CAN_CLASSIFY, .labels = names, .label_count = 10};
 *     fv_data_spec_set(&spec, "height", 28);
 *     fv_data_spec_set(&spec, "width", 28);
 *     s = fv_model_create(ctx, "mine", NULL, &spec, &model);
 */
FV_API FV_MUST_USE fv_status fv_model_create(fv_ctx *ctx, const char *kind, const fv_recipe *recipe,
                                             const fv_data_spec *spec, fv_model **out);

/* Weights are f32 in memory whatever the file has (bf16 and f16 are widened) and can be trained.
 * Checksums are verified and odd values reported as FV_SAFETENSORS_CHECK says. Fails: IO, FORMAT,
 * LIMIT, MEMORY. */
FV_API FV_MUST_USE fv_status fv_model_open(fv_ctx *ctx, const char *folder, fv_model **out);
/*
 * The same, but f32 matrices stay in the mapped file as far as their layout allows (GPT-2's are
 * transposed and so are copied). For running only: writing to such a parameter ends the process,
 * and so does another program that cuts the file short; see FV_SAFETENSORS_MAP.
 */
FV_API FV_MUST_USE fv_status fv_model_map(fv_ctx *ctx, const char *folder, fv_model **out);
/* Before the context. NULL is fine; *model becomes NULL. */
FV_API void fv_model_close(fv_model **model);

/* Settings, tokenizers and weights into a folder that exists; each file is replaced in one step.
 * Fails: IO, MEMORY, ARGUMENT (the family's config.json has no key for a setting). */
FV_API FV_MUST_USE fv_status fv_model_save(fv_model *model, const char *folder);
/* All but the weights, for a folder into which a trainer writes them. */
FV_API FV_MUST_USE fv_status fv_model_save_settings(fv_model *model, const char *folder);

FV_API fv_ctx *fv_model_ctx(const fv_model *model);
FV_API fv_params *fv_model_params(const fv_model *model);
FV_API const fv_model_kind *fv_model_kind_of(const fv_model *model);
/* The kind's own, for its functions: loss(ctx, fv_model_self(model), ...). */
FV_API void *fv_model_self(const fv_model *model);
FV_API const fv_data_spec *fv_model_spec(const fv_model *model);
/* The model_type of its config.json. */
FV_API const char *fv_model_type(const fv_model *model);
FV_API bool fv_model_can(const fv_model *model, fv_ability ability);
/* Logits of classes, as the kind's `classify` makes them. Errors: UNSUPPORTED (it has none). */
FV_API fv_tensor *fv_model_classify(fv_model *model, const fv_batch *inputs, const fv_pass *pass);
/* Runs the model for the pass's capture: its attention weights go to capture->on_weights. Kinds
 * without `trace` run their classify, or else their act. Fails: UNSUPPORTED, and what the pass
 * fails with. */
FV_API FV_MUST_USE fv_status fv_model_capture_attention(fv_model *model, const fv_batch *batch,
                                                        const fv_pass *pass);

/* ---- generation_config.json --------------------------------------------------------------- */

enum { FV_MAX_EOS = 8, FV_MAX_BANNED = 64, FV_MAX_BANNED_TOKENS = 256 };

/* The settings of generation_config.json, with transformers' defaults for missing keys. Older
 * folders have the keys in config.json instead. */
struct fv_generation_defaults {
    int64_t bos;             /* fed first: decoder_start_token_id, else bos_token_id; -1: none */
    int64_t eos[FV_MAX_EOS]; /* any of them ends an output */
    int eos_count;
    int64_t pad;                        /* -1: none */
    int64_t max_length;                 /* prompt included; 0: not set */
    int64_t max_new_tokens;             /* 0: not set */
    int64_t min_length, min_new_tokens; /* 0: not set */
    int64_t no_repeat_ngram;            /* "no_repeat_ngram_size"; 0: off */
    bool sample;
    int64_t beams, top_k;
    double length_penalty, temperature, top_p, min_p, repetition_penalty;
    bool early_stopping;
    int64_t forced_first, forced_last; /* "forced_bos_token_id", "forced_eos_token_id"; -1: none */
    int64_t banned[FV_MAX_BANNED_TOKENS]; /* "bad_words_ids", one after another */
    int banned_lengths[FV_MAX_BANNED];    /* tokens of each */
    int banned_count;                     /* words */
    bool renormalize;                     /* "renormalize_logits" */
};

/* ---- sentence embeddings ------------------------------------------------------------------ */

/* One state per document from an encoder's last states: [documents, width]. */
typedef enum fv_pooling {
    FV_POOLING_FIRST, /* the first token's, [CLS] */
    FV_POOLING_MEAN   /* the mean over the tokens that the mask shows */
} fv_pooling;

/*
 * How an encoder's folder makes one vector of a text:
 *
 *     fv_embedding_rule rule;
 *     s = fv_embedding_rule_load(ctx, "all-MiniLM-L6-v2", &rule);
 *     const fv_model_kind *kind = fv_model_kind_of(model);
 *     const fv_batch texts = fv_batch_of_tokens(&prompts);
 *     fv_tensor *vectors = kind->embed(ctx, fv_model_self(model), &texts, &rule);
 *
 * From texts to vectors in one call: fv_embed_texts in fovea/encode.h.
 */
struct fv_embedding_rule {
    fv_pooling pooling;
    bool normalize;     /* to length 1 */
    int64_t max_tokens; /* longer texts are cut, special tokens stay; 0: not set */
};

/*
 * From the files of sentence-transformers: modules.json (an encoder, pooling, and perhaps a
 * normalizer), 1_Pooling/config.json, and the length from sentence_bert_config.json or
 * tokenizer_config.json. A folder without modules.json: the mean, not normalized. Fails: IO,
 * FORMAT, LIMIT, MEMORY, UNSUPPORTED (another module, several poolings or another than mean and
 * cls, a prompt before every text, lower-casing beside the tokenizer's; the message names it).
 */
FV_API FV_MUST_USE fv_status fv_embedding_rule_load(fv_ctx *ctx, const char *folder,
                                                    fv_embedding_rule *out);

#ifdef __cplusplus
}
#endif
#endif
