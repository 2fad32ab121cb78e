/* Self-attention between all pixels of a feature map. */
#include "fovea/layers.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

static fv_tensor *create_projection(fv_params *params, const char *prefix, const char *name,
                                    int64_t in, int64_t out, double init_std)
{
    fv_dense dense = {.weight = NULL};
    char full[FV_NN_NAME];
    fv_nn_name(full, prefix, name);
    const fv_status status = fv_dense_create(params, full, in, out, false, init_std, &dense);
    return status == FV_OK ? dense.weight : NULL;
}

fv_status fv_nonlocal_create(fv_params *params, const char *prefix, int64_t channels, int64_t inner,
                             int64_t value, double init_std, fv_nonlocal *grid)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(channels < 1 || inner < 0 || value < 0, ctx, FV_ERR_ARGUMENT,
                 "grid: %lld channels, inner widths %lld and %lld", (long long)channels,
                 (long long)inner, (long long)value);
    if (inner == 0) inner = channels >= 8 ? channels / 8 : 1;
    if (value == 0) value = inner;
    fv_nonlocal made = {.channels = channels, .inner = inner, .value = value};
    made.query = create_projection(params, prefix, "query", channels, inner, init_std);
    made.key = create_projection(params, prefix, "key", channels, inner, init_std);
    made.values = create_projection(params, prefix, "value", channels, value, init_std);
    made.out = create_projection(params, prefix, "out", value, channels, init_std);
    made.gamma = fv_nn_weight(params, prefix, "gamma", 1, (int64_t[]){1}, fv_init_constant(0));
    if (ctx->error == FV_OK) *grid = made;
    return ctx->error;
}

/* A 1 x 1 convolution of [batch, C, pixels], as [batch, 1, pixels, width]: for attention. */
static fv_tensor *project_pixels(fv_ctx *ctx, fv_tensor *x, fv_tensor *weight)
{
    fv_tensor *y = fv_transpose(ctx, fv_matmul(ctx, weight, x), 1, 2);
    return fv_unsqueeze(ctx, y, 1);
}

fv_tensor *fv_nonlocal_run(fv_ctx *ctx, const fv_nonlocal *grid, fv_tensor *x, bool want_weights,
                           fv_attention_result *result)
{
    if (result) *result = (fv_attention_result){.context = ctx->invalid};
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank != 4 || x->shape[1] != grid->channels) {
        char text[FV_SHAPE_TEXT];
        fv_poison(ctx, FV_ERR_SHAPE, "grid: x has shape %s, expected [batch, %lld, height, width]",
                  fv_shape_text(text, x->rank, x->shape), (long long)grid->channels);
        return ctx->invalid;
    }
    fv_tensor *flat =
        fv_reshape(ctx, x, 3, (int64_t[]){x->shape[0], x->shape[1], x->shape[2] * x->shape[3]});
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_DOT;
    how.want_weights = want_weights;
    const fv_attention_input in = {.q = project_pixels(ctx, flat, grid->query),
                                   .k = project_pixels(ctx, flat, grid->key),
                                   .v = project_pixels(ctx, flat, grid->values)};
    fv_tensor *o = fv_squeeze(ctx, fv_attention_run(ctx, &in, &how, result), 1);
    o = fv_matmul(ctx, grid->out, fv_transpose(ctx, o, 1, 2)); /* [batch, C, pixels] */
    return fv_add(ctx, x, fv_mul(ctx, fv_reshape(ctx, o, 4, x->shape), grid->gamma));
}
