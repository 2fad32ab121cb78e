/* Base64 (RFC 4648), as used in JSON files. */
#ifndef FV_TEXT_BASE64_H
#define FV_TEXT_BASE64_H

#include "text/codepoints.h"

/* Overwrites *out. Fails: MEMORY. */
fv_status fv_base64_encode(fv_ctx *ctx, const char *data, size_t bytes, fv_text *out);
/* Overwrites *out; padding is required. Fails: FORMAT, MEMORY. */
fv_status fv_base64_decode(fv_ctx *ctx, const char *text, size_t bytes, fv_text *out);

#endif
