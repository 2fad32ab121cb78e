/* Bytes as letters (RFC 4648), as JSON files carry them. */
#ifndef FV_TEXT_BASE64_H
#define FV_TEXT_BASE64_H

#include "text/codepoints.h"

/* Replaces *out. Fails: MEMORY. */
fv_status fv_base64_encode(fv_ctx *ctx, const char *data, size_t bytes, fv_text *out);
/* Replaces *out; padding is required. Fails: FORMAT, MEMORY. */
fv_status fv_base64_decode(fv_ctx *ctx, const char *text, size_t bytes, fv_text *out);

#endif
