/* What the stories task and fovea/read.h use of the reader besides its kind. */
#ifndef FV_MODELS_KIND_READER_H
#define FV_MODELS_KIND_READER_H

#include "fovea/model.h"

/* Logits of answers [rows, questions, answers]; *summary, unless NULL: logits of sentences [rows,
 * sentences], or NULL for a model that has learned no summaries. */
fv_tensor *fv_reader_run(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass,
                         fv_tensor **summary);
int fv_reader_hops(const void *self);

#endif
