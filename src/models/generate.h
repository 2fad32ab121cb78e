/*
 * Internals of fovea/generate.h. The functions here turn tokens into text as they are generated;
 * they live in generate_text.c.
 */
#ifndef FV_MODELS_GENERATE_H
#define FV_MODELS_GENERATE_H

#include "fovea/generate.h"
#include "fovea/model.h"
#include "io/arena.h"

struct fv_generated {
    fv_ctx *ctx;
    fv_arena arena; /* all below lives here */
    int64_t texts;
    int nbest;
    fv_generated_text *outputs; /* [texts][nbest], best first */
    int *found;                 /* [texts]: outputs of each text so far */
};

/* The tokens of one output so far, and how much of their text was passed to on_text. */
typedef struct fv_stream_output {
    int64_t *ids;
    int64_t count, capacity;
    size_t reported; /* bytes passed to on_text */
    bool stopped;
} fv_stream_output;

typedef struct fv_text_stream {
    fv_ctx *ctx;
    const fv_tokenizer *tok;
    const fv_generate_config *cfg;
    const fv_search_config *search;
    int64_t eos; /* of the stepper; search->extra_eos has further ones */
    int64_t outputs_per_text;
    fv_stream_output *outputs; /* [texts][outputs_per_text] */
    fv_status status;          /* the first failure inside a callback */
} fv_text_stream;

/* As fv_generate_tokens, by the stepper of a model that is no Transformer. */
fv_status fv_generate_by_steps(fv_model *model, const fv_tokenizer *tok,
                               const fv_sequences *prompts, const fv_generate_config *cfg,
                               fv_generated **out);
/* The context of such a model; 0: no bound. */
int64_t fv_generate_context(fv_model *model);

/* fv_search_config.on_token. */
bool fv_text_stream_on_token(void *user, int64_t text, int sample, int64_t token);

/* Passes the text that was held back to on_text, once no token follows. */
fv_status fv_text_stream_flush(fv_text_stream *stream, int64_t texts);

/* The text of tokens; a stop text and what follows it are cut off, and *stopped says so. */
fv_status fv_decode_until_stop(fv_ctx *ctx, const fv_tokenizer *tok, const fv_generate_config *cfg,
                               const int64_t *ids, int64_t count, fv_text *text, bool *stopped);

#endif
