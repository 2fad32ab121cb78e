/* Passes captured attention to the callback of an fv_capture (fovea/batch.h). */
#ifndef FV_MODELS_CAPTURE_H
#define FV_MODELS_CAPTURE_H

#include "fovea/batch.h"

/* Calls on_weights with what was captured at a site, if the capture (or NULL) asks for that site.
 * The fields of fv_site_weights follow from the name. Sets the error that on_weights returns. */
void fv_capture_report(fv_ctx *ctx, const fv_capture *capture, const char *site,
                       const fv_attention_captured *captured);

#endif
