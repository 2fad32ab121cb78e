/* The names of classes, as config.json has them in "id2label": {"0": "sport", "1": "weather"}. */
#ifndef FV_MODELS_HF_LABELS_H
#define FV_MODELS_HF_LABELS_H

#include "base/ctx.h"
#include "io/arena.h"

/*
 * *out: `labels` names in `arena`, or NULL where the file names none. A class that it leaves out is
 * LABEL_n, as in transformers. Fails: IO, FORMAT (a number that no class has, a name that is not
 * a string), LIMIT, MEMORY.
 */
fv_status fv_hf_labels_load(fv_ctx *ctx, const char *config, int64_t labels, fv_arena *arena,
                            const char *const **out);

/* The name of a class that the file does not name. */
enum { FV_LABEL_BYTES = 32 };
const char *fv_hf_label_plain(int64_t label, char out[FV_LABEL_BYTES]);

#endif
