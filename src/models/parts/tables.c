/* Tables computed from weights (tables.h): when they are valid, how large they may be. */
#include "models/parts/tables.h"

#include "base/checked_math.h"
#include "tensor/launch.h"

enum { MAX_BYTES = 128 << 20 };

bool fv_tables_refresh(const fv_ctx *ctx, fv_weight_tables *tables, uint64_t version, int64_t rows,
                       void (*drop)(void *self), void *self)
{
    const bool exact = ctx->compute != FV_BF16;
    if (tables->version != version || !exact) {
        drop(self);
        tables->used = 0;
    }
    tables->version = version;
    if (exact) tables->used += rows;
    return exact;
}

bool fv_tables_are_valid(const fv_ctx *ctx, const fv_weight_tables *tables, uint64_t version)
{
    return tables->version == version && ctx->compute != FV_BF16;
}

fv_tensor *fv_table_keep(fv_ctx *ctx, fv_tensor *t)
{
    if (!t || ctx->error != FV_OK) return NULL;
    fv_tensor_ref(t);
    return t;
}

void fv_table_drop(fv_tensor **t)
{
    if (*t) fv_tensor_unref(*t);
    *t = NULL;
}

bool fv_table_fits(const fv_tensor *input_weight, int64_t tokens, int tables)
{
    size_t count;
    return input_weight->dtype == FV_F32 &&
           fv_checked_mul_size((size_t)tokens * (size_t)tables, (size_t)input_weight->shape[0],
                               &count) &&
           count <= MAX_BYTES / sizeof(float);
}
