/*
 * fovea/generate.h: text from Transformers. A decoder (GPT-2, Llama) goes on from prompts; an
 * encoder with a decoder (Marian, T5) answers sources, translations for example.
 *
 *     fv_generator *gen = NULL;
 *     s = fv_generator_open(ctx, "gpt2", FV_WEIGHT_BF16, &gen);   // a Hugging Face folder
 *     fv_generate_config cfg;
 *     fv_generate_config_init(&cfg, sizeof cfg, fv_generator_wishes(gen));
 *     cfg.most_tokens = 100;
 *     cfg.decode.sample = true;
 *     cfg.decode.top_k = 40;
 *     cfg.piece = print;                                          // text as it comes, or NULL
 *     fv_generated *out = NULL;
 *     s = fv_generate(gen, 1, &(fv_string){"Once upon", 9}, &cfg, &out);
 *     if (s == FV_OK) puts(fv_generated_get(out, 0, 0)->text);
 *     fv_generated_free(&out);
 *     fv_generator_close(&gen);
 *
 * Searches are those of fovea/decode.h. What is generated for a text does not depend on which
 * others stand beside it.
 */
#ifndef FOVEA_GENERATE_H
#define FOVEA_GENERATE_H

#include "fovea/cache.h"
#include "fovea/tokenizer.h"
#include "fovea/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_generate_config {
    size_t struct_size;
    fv_decode_config decode;
    /* New tokens at most; 0: as many as the context holds, and where that has no bound, twice the
     * source's and ten more. [0] */
    int64_t most_tokens;
    const char *const *stop; /* texts that end an output and are not part of it [NULL] */
    int stop_count;
    bool specials; /* leave special tokens in the text [false] */
    /* Greedy and sampling: each further piece of text number `text`'s first output, whole
     * characters; what may be the beginning of a stop text waits. False ends that output. */
    bool (*piece)(void *user, int64_t text, const char *piece, size_t bytes);
    void *piece_user;
} fv_generate_config;

/* What a folder's author wants (beams, sampling, ends, length penalty, ...), by the rules of
 * transformers; NULL: greedy. */
FV_API void fv_generate_config_init(fv_generate_config *cfg, size_t struct_size,
                                    const fv_generation *wishes);

typedef struct fv_generated_text {
    const char *text; /* what was generated, without the prompt; UTF-8, NUL at its end */
    size_t bytes;
    const int64_t *tokens; /* likewise, without the end token */
    int64_t count;
    bool ended;   /* by an end token */
    bool stopped; /* by a stop text, or by `piece` */
    double score, log_prob;
} fv_generated_text;

typedef struct fv_generated fv_generated;

/* The n-th best output for a text, or NULL if there are not so many. Owned by `generated`. */
FV_API const fv_generated_text *fv_generated_get(const fv_generated *generated, int64_t text,
                                                 int n);
FV_API void fv_generated_free(fv_generated **generated); /* before the context; NULL is fine */

/*
 * From tokens: prompts are what a decoder goes on from; with an encoder, sources are what it
 * answers, and prompts may be NULL: the model's start token. An empty source has an empty answer.
 * `tok` makes text of what comes; NULL: texts are empty, and stop texts and `piece` are ARGUMENT.
 * Fails: ARGUMENT, LIMIT (prompt and tokens asked for do not fit the context; the message has the
 * numbers), INDEX, MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_generate_tokens(fv_cache *cache, const fv_tokenizer *tok,
                                                const fv_sequences *prompts,
                                                const fv_sequences *sources,
                                                const fv_generate_config *cfg, fv_generated **out);

/* ---- a folder, ready to run ------------------------------------------------------------ */

typedef struct fv_generator fv_generator;

/* Weights, frozen in `form`, tokenizer, cache. Fails: as fv_model_open and fv_tokenizer_load;
 * UNSUPPORTED (the model does not generate). */
FV_API FV_MUST_USE fv_status fv_generator_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                                               fv_generator **out);
/* The same from a model that is open already; it becomes the generator's, and *model NULL, where
 * this succeeds. */
FV_API FV_MUST_USE fv_status fv_generator_take(fv_model **model, const char *folder,
                                               fv_weight_form form, fv_generator **out);
FV_API void fv_generator_close(fv_generator **gen); /* before the context; NULL is fine */
/* The folder's generation_config.json. */
FV_API const fv_generation *fv_generator_wishes(const fv_generator *gen);
FV_API fv_transformer *fv_generator_transformer(const fv_generator *gen);
FV_API const fv_tokenizer *fv_generator_tokenizer(const fv_generator *gen);
FV_API fv_cache *fv_generator_cache(const fv_generator *gen);

/* Prompts or sources as texts. An empty prompt is the start token alone. Fails: FORMAT (not UTF-8),
 * and as fv_generate_tokens. */
FV_API FV_MUST_USE fv_status fv_generate(fv_generator *gen, int64_t count, const fv_string *texts,
                                         const fv_generate_config *cfg, fv_generated **out);

#ifdef __cplusplus
}
#endif
#endif
