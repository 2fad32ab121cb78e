/* What the kinds that classify pictures share: the shape of their input, and their loss. */
#ifndef FV_MODELS_PICTURE_INPUT_H
#define FV_MODELS_PICTURE_INPUT_H

#include "base/ctx.h"
#include "fovea/model.h"

typedef struct fv_picture_input {
    int64_t channels, height, width, classes;
    double level; /* mean of the training pictures */
} fv_picture_input;

/* From the numbers "channels", "height", "width" and "level" (thousandths; default: the middle) and
 * the classes of a spec. Fails: ARGUMENT
 * (another ability, a size that is missing or too large, fewer than two classes). */
fv_status fv_picture_input_read(fv_ctx *ctx, const char *kind, const fv_data_spec *spec,
                                fv_picture_input *out);
/* The same for any ability. */
fv_status fv_picture_input_sizes(fv_ctx *ctx, const char *kind, const fv_data_spec *spec,
                                 fv_picture_input *out);
/* The field "pixels" [rows, channels, height, width], as 2 (x - level). Errors: ARGUMENT (no such
 * field), SHAPE. */
fv_tensor *fv_picture_input_tensor(fv_ctx *ctx, const fv_picture_input *input,
                                   const fv_batch *batch);
/* The cross-entropy of the field "label", summed. Errors: ARGUMENT. */
fv_tensor *fv_picture_input_loss(fv_ctx *ctx, const fv_batch *batch, fv_tensor *logits);

#endif
