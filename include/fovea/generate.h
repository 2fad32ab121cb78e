/*
 * fovea/generate.h: text from language models. A decoder (GPT-2, Llama) or another model that makes
 * a stepper (an LSTMN) continues prompts; an encoder with a decoder (Marian, T5) answers sources,
 * translations for example.
 *
 *     fv_generator *gen = NULL;
 *     s = fv_generator_open(ctx, "gpt2", FV_WEIGHT_BF16, &gen);   // a Hugging Face folder
 *     fv_generate_config cfg;
 *     fv_generate_config_init(&cfg, sizeof cfg, fv_generator_defaults(gen));
 *     cfg.max_tokens = 100;
 *     cfg.search.sample = true;
 *     cfg.search.top_k = 40;
 *     cfg.on_text = print;                                        // as it is generated; or NULL
 *     fv_generated *out = NULL;
 *     s = fv_generate(gen, 1, &(fv_string){"Once upon", 9}, &cfg, &out);
 *     if (s == FV_OK) puts(fv_generated_get(out, 0, 0)->text);
 *     fv_generated_free(&out);
 *     fv_generator_close(&gen);
 *
 * The parts of a Transformer's generator, for prompts that are tokens already:
 *
 *     fv_transformer *decoder = fv_generator_transformer(gen);
 *     cfg.max_tokens = fv_transformer_context(decoder) - prompts.length[0];
 *     s = fv_generate_tokens(fv_generator_cache(gen), fv_generator_tokenizer(gen), &prompts, NULL,
 *                            &cfg, &out);
 *
 * The searches are those of fovea/search.h. What is generated for a text does not depend on the
 * other texts in the call.
 */
#ifndef FOVEA_GENERATE_H
#define FOVEA_GENERATE_H

#include "fovea/tokenizer.h"
#include "fovea/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What happens when prompt and output together have as many tokens as the model's context.
 * FV_CONTEXT_SHIFT: the last half of the context is kept and encoded again, and generation
 * continues; of a prompt that is as long or longer, too, the last half of a context is kept. A BOS
 * token at the beginning stays there, in place of the first of the others (contexts of at least 4).
 * Settings that depend on earlier tokens (repetition_penalty, no_repeat_ngram) still see all of
 * them. With an encoder, as FV_CONTEXT_STOP.
 */
typedef enum fv_context_full {
    FV_CONTEXT_FAIL, /* LIMIT, before anything is generated */
    FV_CONTEXT_STOP, /* the output ends there; LIMIT only if the prompt fills the context */
    FV_CONTEXT_SHIFT
} fv_context_full;

typedef struct fv_generate_config {
    size_t struct_size;
    fv_search_config search;
    /* New tokens at most, an end token included, as max_new_tokens of transformers; 0: as many as
     * the context holds, and where that has no bound, twice the source's and ten more. [0] */
    int64_t max_tokens;
    const char *const *stop; /* texts that end an output and are not part of it [NULL] */
    int stop_count;
    bool specials; /* leave special tokens in the text [false] */
    /* Greedy and sampling: called with the text of each new token of the first output for text
     * number `text`: whole characters; what may be the beginning of a stop text is held back.
     * Returning false ends that output. */
    bool (*on_text)(void *user, int64_t text, const char *piece, size_t bytes);
    void *on_text_user;
    fv_context_full context_full; /* [FV_CONTEXT_FAIL] */
    /* Where max_tokens is 0: tokens at most with the prompt, which of an encoder-decoder is one
     * token; 0: no such bound. At least one token is generated. [0] */
    int64_t max_length;
} fv_generate_config;

/* With the settings of a folder's generation_config.json (beams, sampling, end tokens, length
 * penalty, ...), which are read as transformers reads them; NULL: greedy. */
FV_API void fv_generate_config_init(fv_generate_config *cfg, size_t struct_size,
                                    const fv_generation_defaults *defaults);

/* What ended an output. */
typedef enum fv_generated_end {
    FV_ENDED_BY_EOS,    /* an end token */
    FV_ENDED_BY_STOP,   /* a stop text, or on_text */
    FV_ENDED_BY_LENGTH, /* max_tokens */
    FV_ENDED_BY_CONTEXT /* the context was full before max_tokens, or max_tokens is 0 */
} fv_generated_end;

typedef struct fv_generated_text {
    const char *text; /* what was generated, without the prompt; NUL-terminated UTF-8 */
    size_t bytes;
    const int64_t *tokens; /* likewise, without the end token */
    int64_t count;
    bool ended;   /* ended_by is FV_ENDED_BY_EOS */
    bool stopped; /* ended_by is FV_ENDED_BY_STOP */
    double score, log_prob;
    bool context_full; /* earlier tokens were dropped, or fewer than max_tokens are generated, for
                          lack of context */
    fv_generated_end ended_by;
} fv_generated_text;

typedef struct fv_generated fv_generated;

/* The n-th best output for a text, or NULL if there are fewer. Owned by `generated`. */
FV_API const fv_generated_text *fv_generated_get(const fv_generated *generated, int64_t text,
                                                 int n);
FV_API void fv_generated_free(fv_generated **generated); /* before the context; NULL is fine */

/*
 * From tokens: a decoder continues the prompts; with an encoder the sources are what
 * it reads, and prompts may be NULL: the model's BOS token. An empty source has an empty answer.
 * `tok` turns tokens into text; NULL: texts are empty, and stop texts and on_text are ARGUMENT.
 * Fails: ARGUMENT, LIMIT (prompt and tokens asked for do not fit the context, see fv_context_full;
 * the message has the numbers), INDEX, MEMORY, CANCELLED.
 */
FV_API FV_MUST_USE fv_status fv_generate_tokens(fv_cache *cache, const fv_tokenizer *tok,
                                                const fv_sequences *prompts,
                                                const fv_sequences *sources,
                                                const fv_generate_config *cfg, fv_generated **out);

/* ---- a folder, ready to run ------------------------------------------------------------ */

typedef struct fv_generator fv_generator;

/* Weights, packed in `form`, tokenizer, cache. Fails: as fv_model_open and fv_tokenizer_load;
 * UNSUPPORTED (the model does not generate; `form` is not f32 and the model no Transformer). */
FV_API FV_MUST_USE fv_status fv_generator_open(fv_ctx *ctx, const char *folder, fv_weight_form form,
                                               fv_generator **out);
/* The same from a model that is open already; on success the generator owns it, and *model becomes
 * NULL. */
FV_API FV_MUST_USE fv_status fv_generator_take(fv_model **model, const char *folder,
                                               fv_weight_form form, fv_generator **out);
FV_API void fv_generator_close(fv_generator **gen); /* before the context; NULL is fine */
/* The folder's generation_config.json; NULL: the model is no Transformer. */
FV_API const fv_generation_defaults *fv_generator_defaults(const fv_generator *gen);
FV_API fv_transformer *fv_generator_transformer(const fv_generator *gen); /* NULL: it has none */
FV_API const fv_tokenizer *fv_generator_tokenizer(const fv_generator *gen);
FV_API fv_cache *fv_generator_cache(const fv_generator *gen); /* NULL without a Transformer */
/* Tokens that prompt and output may have together; 0: no bound. */
FV_API int64_t fv_generator_context(const fv_generator *gen);

/* Prompts or sources as texts. An empty prompt is the BOS token alone, of models that are no
 * Transformers "<|endoftext|>". Fails: FORMAT (not UTF-8), and as fv_generate_tokens. */
FV_API FV_MUST_USE fv_status fv_generate(fv_generator *gen, int64_t count, const fv_string *texts,
                                         const fv_generate_config *cfg, fv_generated **out);

#ifdef __cplusplus
}
#endif
#endif
