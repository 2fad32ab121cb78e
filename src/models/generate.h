/* Internals of fovea/generate.h: turns tokens into text as they are generated. */
#ifndef FV_MODELS_GENERATE_H
#define FV_MODELS_GENERATE_H

#include "fovea/generate.h"
#include "io/arena.h"

struct fv_generated {
    fv_ctx *ctx;
    fv_arena arena; /* all below lives here */
    int64_t texts;
    int nbest;
    fv_generated_text *list; /* [texts][nbest], best first */
    int *filled;             /* [texts] */
};

/* One output during generation. */
typedef struct fv_stream_output {
    int32_t *ids;
    int64_t count, room;
    size_t reported; /* bytes passed to on_text */
    bool stopped;
} fv_stream_output;

typedef struct fv_text_stream {
    fv_ctx *ctx;
    const fv_tokenizer *tok;
    const fv_generate_config *cfg;
    const fv_search_config *search;
    int64_t end;           /* the stepper's end token */
    int64_t outputs;       /* of each text */
    fv_stream_output *all; /* [texts][outputs] */
    fv_status status;      /* the first failure inside a callback */
} fv_text_stream;

/* fv_search_config.on_token. */
bool fv_text_stream_on_token(void *user, int64_t text, int copy, int64_t token);

/* Passes the text that was held back to on_text, once no token follows. */
fv_status fv_text_stream_flush(fv_text_stream *l, int64_t texts);

/* The text of tokens; a stop text and what follows it are cut off, and *stopped says so. */
fv_status fv_decode_until_stop(fv_ctx *ctx, const fv_tokenizer *tok, const fv_generate_config *cfg,
                               const int32_t *ids, int64_t count, fv_text *text, bool *stopped);

#endif
