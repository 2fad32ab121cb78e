/* Internals of fovea/translate.h. */
#ifndef FV_MODELS_TRANSLATE_H
#define FV_MODELS_TRANSLATE_H

#include "data/parallel.h"
#include "fovea/translate.h"
#include "models/model.h"

struct fv_translations {
    fv_ctx *ctx;
    fv_arena arena; /* all below lives here */
    int64_t count;
    int nbest;
    fv_translation *list; /* [count][nbest] */
    int *filled;          /* [count] */
};

/* Whether a model can translate, with its tokenizers loaded. Fails: FORMAT (it cannot), IO. */
fv_status fv_translate_ready(fv_model *m);

/* Creates an empty list, and sets one entry. */
fv_status fv_translations_make(fv_ctx *ctx, int64_t count, int nbest, fv_translations **out);
/* Fills a translation from tokens and weights ([steps][positions], or NULL). `source` are the
 * source's tokens; NULL: it has none, and `source_count` is that of its positions. */
typedef struct fv_translation_parts {
    const int64_t *source, *target;
    int64_t source_count, target_count;
    const float *weights;
    int64_t positions;
    bool ended, replace_unknown;
    double score, log_prob;
} fv_translation_parts;
fv_status fv_translations_put(fv_model *m, fv_translations *all, int64_t source,
                              const fv_translation_parts *parts);

#endif
