/* Absolute positions: sinusoids and learned rows, added or concatenated; and ALiBi's slopes. */
#include "fovea/layers.h"

#include <math.h>

#include "tensor/host_table.h"
#include "tensor/tensor.h"

/* Column c of the pair's number and whether it is the sine. */
static int64_t pair_of(int64_t c, int64_t width, fv_sinusoid_layout layout, bool *sine)
{
    const int64_t sines = (width + 1) / 2;
    *sine = layout == FV_SINUSOID_INTERLEAVED ? c % 2 == 0 : c < sines;
    return layout == FV_SINUSOID_INTERLEAVED ? c / 2 : c % sines;
}

fv_tensor *fv_sinusoid(fv_ctx *ctx, fv_dtype dtype, int64_t first, int64_t n, int64_t width,
                       double base, fv_sinusoid_layout layout)
{
    const int64_t shape[2] = {n, width};
    if (ctx->error == FV_OK && !(base > 0 && isfinite(base) && width > 0))
        fv_poison(ctx, FV_ERR_ARGUMENT, "sinusoid: base %g, width %lld", base, (long long)width);
    double *x = fv_host_alloc(ctx, FV_F64, 2, shape);
    for (int64_t p = 0; x && p < n; p++)
        for (int64_t c = 0; c < width; c++) {
            bool sine;
            const int64_t m = pair_of(c, width, layout, &sine);
            const double angle =
                ((double)first + (double)p) / pow(base, 2.0 * (double)m / (double)width);
            x[p * width + c] = sine ? sin(angle) : cos(angle);
        }
    return fv_host_tensor(ctx, FV_F64, x, 2, shape, dtype);
}

fv_tensor *fv_positions_learned(fv_ctx *ctx, fv_tensor *table, int64_t first, int64_t n)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (table->rank != 2 || first < 0 || n < 0 || first > table->shape[0] - n) {
        char text[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE, "positions: %lld rows from %lld on, of a table %s",
                  (long long)n, (long long)first, fv_shape_text(text, table->rank, table->shape));
        return ctx->invalid;
    }
    return fv_slice(ctx, table, 0, first, first + n, 1);
}

fv_tensor *fv_positions_apply(fv_ctx *ctx, fv_tensor *x, fv_tensor *table, fv_positions_how how)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (table->rank != 2 || x->rank < 2 || table->shape[0] != x->shape[x->rank - 2]) {
        char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE, "positions: a table of shape %s does not fit x of shape %s",
                  fv_shape_text(a, table->rank, table->shape), fv_shape_text(b, x->rank, x->shape));
        return ctx->invalid;
    }
    if (how == FV_POSITIONS_ADD) return fv_add(ctx, x, table);
    int64_t shape[FV_MAX_RANK];
    for (int i = 0; i < x->rank; i++)
        shape[i] = x->shape[i];
    shape[x->rank - 1] = table->shape[1];
    fv_tensor *both[2] = {x, fv_broadcast(ctx, table, x->rank, shape)};
    return fv_concat(ctx, 2, both, -1);
}

fv_tensor *fv_alibi_slopes(fv_ctx *ctx, fv_dtype dtype, int64_t heads)
{
    double *x = fv_host_alloc(ctx, FV_F64, 1, &heads);
    int64_t whole = 1; /* the largest power of two in `heads` */
    while (whole <= heads / 2)
        whole *= 2;
    for (int64_t h = 0; x && h < heads; h++)
        x[h] = h < whole ? exp2(-8.0 * (double)(h + 1) / (double)whole)
                         : exp2(-8.0 * (double)(2 * (h - whole) + 1) / (double)(2 * whole));
    return fv_host_tensor(ctx, FV_F64, x, 1, &heads, dtype);
}
