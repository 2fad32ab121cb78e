/* IDX: loads the array; what loads has the elements that its file has room for. */
#include <stdlib.h>

#include "fovea/image.h"
#include "fuzz.h"

FUZZ_TARGET(data, bytes)
{
    fv_ctx *ctx = fuzz_context(data, bytes);
    fv_scope_begin(ctx);
    const double began = fuzz_clock();
    fv_tensor *t = fv_idx_load(ctx, "input");
    const fv_status s = fv_ctx_take_error(ctx);
    if ((s == FV_OK) != fv_tensor_valid(t) || s == FV_ERR_IO) abort();
    if (s == FV_OK) fuzz_bound("idx", s, (size_t)fv_tensor_count(t), FUZZ_MEMORY, began);
    fv_scope_end(ctx);
    fuzz_check(ctx);
    return 0;
}
