/* Pictures of any format: what fuzz_png.c and fuzz_jpeg.c do with an input. */
#include <stdlib.h>

#include "fovea/image.h"
#include "fuzz.h"

void fuzz_picture(const uint8_t *data, size_t bytes, const char *name)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    ctx->limits.picture_pixels = 1 << 20; /* a small file may be a large picture of one colour */
    for (int channels = 0; channels <= 3; channels++) {
        fv_scope_begin(ctx);
        fv_tensor *t = fv_picture_load(ctx, name, channels);
        const fv_status s = fv_ctx_take_error(ctx);
        if ((s == FV_OK) != fv_tensor_valid(t) || s == FV_ERR_IO) abort();
        if (s == FV_OK && (fv_tensor_rank(t) != 3 || fv_tensor_count(t) < 1)) abort();
        if (channels == 2 && s == FV_OK) abort();
        fv_scope_end(ctx);
    }
    fuzz_check(ctx);
}
