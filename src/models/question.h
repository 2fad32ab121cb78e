/* Questions about pictures as words (fovea/encode.h). */
#ifndef FV_MODELS_QUESTION_H
#define FV_MODELS_QUESTION_H

#include "base/ctx.h"

enum { FV_QUESTION_BYTES = 4096 };

/* The words of a text, in lower case (ASCII), one blank between two. ASCII marks other than the
 * apostrophe separate words. Fails: LIMIT (FV_QUESTION_BYTES). */
fv_status fv_question_clean(fv_ctx *ctx, const char *text, char out[FV_QUESTION_BYTES]);

#endif
