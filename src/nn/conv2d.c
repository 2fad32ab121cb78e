/* Convolution layers of images. */
#include "fovea/image.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

typedef struct layer_sizes {
    int64_t in, out;
    const int64_t *window;
    bool bias, transposed;
} layer_sizes;

static fv_status create(fv_params *params, const char *prefix, const layer_sizes *n,
                        const fv_conv2d_options *options, fv_conv2d_layer *layer)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_conv2d_layer made = {.transposed = n->transposed};
    if (options) made.options = *options;
    const int64_t groups = made.options.groups ? made.options.groups : 1, largest = INT32_MAX;
    FV_RETURN_IF(n->in < 1 || n->out < 1 || n->in > largest || n->out > largest || groups < 1 ||
                     n->in % groups != 0 || n->out % groups != 0,
                 ctx, FV_ERR_ARGUMENT, "conv2d: %.80s: %lld to %lld channels in %lld groups",
                 prefix, (long long)n->in, (long long)n->out, (long long)groups);
    FV_RETURN_IF(!n->window || n->window[0] < 1 || n->window[1] < 1 || n->window[0] > 65535 ||
                     n->window[1] > 65535,
                 ctx, FV_ERR_ARGUMENT, "conv2d: %.80s: window of %lld x %lld", prefix,
                 n->window ? (long long)n->window[0] : 0, n->window ? (long long)n->window[1] : 0);
    const int64_t rows = n->transposed ? n->in : n->out;
    const int64_t cols = (n->transposed ? n->out : n->in) / groups;
    const double fan_in = (double)cols * (double)n->window[0] * (double)n->window[1];
    const fv_init init = fv_init_uniform(1 / sqrt(fan_in));
    made.weight = fv_nn_weight(params, prefix, "weight", 4,
                               (int64_t[]){rows, cols, n->window[0], n->window[1]}, init);
    if (n->bias) made.bias = fv_nn_weight(params, prefix, "bias", 1, &n->out, init);
    if (ctx->error == FV_OK) *layer = made;
    return ctx->error;
}

fv_status fv_conv2d_create(fv_params *params, const char *prefix, int64_t in, int64_t out,
                           const int64_t window[2], bool bias, const fv_conv2d_options *options,
                           fv_conv2d_layer *layer)
{
    const layer_sizes sizes = {.in = in, .out = out, .window = window, .bias = bias};
    return create(params, prefix, &sizes, options, layer);
}

fv_status fv_conv_transpose2d_create(fv_params *params, const char *prefix, int64_t in, int64_t out,
                                     const int64_t window[2], bool bias,
                                     const fv_conv2d_options *options, fv_conv2d_layer *layer)
{
    const layer_sizes sizes = {
        .in = in, .out = out, .window = window, .bias = bias, .transposed = true};
    return create(params, prefix, &sizes, options, layer);
}

fv_tensor *fv_conv2d_run(fv_ctx *ctx, const fv_conv2d_layer *layer, fv_tensor *x)
{
    return (layer->transposed ? fv_conv_transpose2d : fv_conv2d)(ctx, x, layer->weight, layer->bias,
                                                                 &layer->options);
}
