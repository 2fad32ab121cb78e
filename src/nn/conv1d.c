/*
 * Convolution over sequences. A batch runs the causal op (ops/conv1d.c): a centred window is a
 * causal one over the input with zeros after its end, whose first results are dropped. Sequences
 * of different lengths are a product with windows that are gathered, so that nothing is computed
 * for padding.
 */
#include <math.h>

#include "base/checked_math.h"
#include "fovea/layers.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

enum { MAX_WINDOW = 65535 };

fv_status fv_conv1d_create(fv_params *params, const char *prefix, int64_t in, int64_t out,
                           int64_t window, bool bias, const fv_conv1d_options *options,
                           fv_conv1d_layer *layer)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_conv1d_layer made = {.weight = NULL};
    if (options) made.options = *options;
    if (made.options.dilation == 0) made.options.dilation = 1;
    const int64_t largest = INT32_MAX, dilation = made.options.dilation;
    FV_RETURN_IF(in < 1 || out < 1 || in > largest || out > largest || window < 1 ||
                     window > MAX_WINDOW || dilation < 1 || dilation > largest,
                 ctx, FV_ERR_ARGUMENT,
                 "conv1d: %.80s: %lld to %lld channels, window %lld, dilation %lld", prefix,
                 (long long)in, (long long)out, (long long)window, (long long)dilation);
    const fv_init init = fv_init_uniform(1 / sqrt((double)in * (double)window));
    made.weight = fv_nn_weight(params, prefix, "weight", 3, (int64_t[]){out, in, window}, init);
    if (bias) made.bias = fv_nn_weight(params, prefix, "bias", 1, &out, init);
    if (ctx->error == FV_OK) *layer = made;
    return ctx->error;
}

static int64_t dilation_of(const fv_conv1d_layer *layer)
{
    return layer->options.dilation ? layer->options.dilation : 1;
}

/* Taps of a window before its own position. */
static int64_t taps_before(const fv_conv1d_layer *layer)
{
    const int64_t window = fv_tensor_size(layer->weight, 2);
    return layer->options.causal ? window - 1 : (window - 1) / 2;
}

fv_tensor *fv_conv1d_run(fv_ctx *ctx, const fv_conv1d_layer *layer, fv_tensor *x)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t after = fv_tensor_size(layer->weight, 2) - 1 - taps_before(layer);
    const int64_t dilation = dilation_of(layer);
    if (after == 0 || x->rank != 3) /* another rank is an error of the op */
        return fv_conv1d_causal(ctx, x, layer->weight, layer->bias, dilation);
    const int64_t n = x->shape[2], shift = after * dilation;
    x = fv_pad(ctx, x, (int64_t[]){0, 0, 0}, (int64_t[]){0, 0, shift}, 0);
    x = fv_conv1d_causal(ctx, x, layer->weight, layer->bias, dilation);
    return fv_slice(ctx, x, 2, shift, shift + n, 1);
}

/* For each row and tap the row that it reads, counted from 1; 0: outside of the sequence. */
static void fill_windows(const fv_conv1d_layer *layer, int64_t sequences, const int64_t *begin,
                         int64_t *from)
{
    const int64_t window = fv_tensor_size(layer->weight, 2), before = taps_before(layer);
    const int64_t dilation = dilation_of(layer);
    for (int64_t s = 0; s < sequences; s++)
        for (int64_t row = begin[s]; row < begin[s + 1]; row++)
            for (int64_t j = 0; j < window; j++) {
                const int64_t at = row + (j - before) * dilation;
                *from++ = at >= begin[s] && at < begin[s + 1] ? 1 + at : 0;
            }
}

static bool are_sequences(int64_t total, int64_t sequences, const int64_t *begin)
{
    if (sequences < 0 || begin[0] != 0 || begin[sequences] != total) return false;
    for (int64_t s = 0; s < sequences; s++)
        if (begin[s] > begin[s + 1]) return false;
    return true;
}

/* i64 [total K], or invalid. */
static fv_tensor *windows(fv_ctx *ctx, const fv_conv1d_layer *layer, int64_t total,
                          int64_t sequences, const int64_t *begin)
{
    int64_t count = 0;
    size_t bytes = 0;
    int64_t *from = NULL;
    if (fv_checked_mul_i64(total, fv_tensor_size(layer->weight, 2), &count) &&
        fv_checked_mul_size((size_t)count, sizeof *from, &bytes))
        from = fv_mem_alloc(&ctx->mem, bytes);
    if (!from) {
        fv_poison(ctx, FV_ERR_MEMORY, "conv1d: no memory for the windows of %lld rows",
                  (long long)total);
        return ctx->invalid;
    }
    fill_windows(layer, sequences, begin, from);
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &count, from);
    fv_mem_free(&ctx->mem, from, bytes);
    return index;
}

fv_tensor *fv_conv1d_run_varlen(fv_ctx *ctx, const fv_conv1d_layer *layer, fv_tensor *x,
                                int64_t sequences, const int64_t *begin)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t *w = layer->weight->shape;
    if (x->rank != 2 || x->shape[1] != w[1] || !are_sequences(x->shape[0], sequences, begin)) {
        fv_poison(ctx, FV_ERR_SHAPE,
                  "conv1d: expected rows [total, %lld], all in one of the %lld sequences",
                  (long long)w[1], (long long)sequences);
        return ctx->invalid;
    }
    const int64_t total = x->shape[0], taps = w[1] * w[2];
    fv_tensor *none = fv_zeros(ctx, x->dtype, 2, (int64_t[]){1, w[1]});
    x = fv_concat(ctx, 2, (fv_tensor *[]){none, x}, 0);
    x = fv_index_select(ctx, x, windows(ctx, layer, total, sequences, begin), 0);
    x = fv_reshape(ctx, x, 2, (int64_t[]){total, taps});
    fv_tensor *weight = fv_permute(ctx, layer->weight, (int[]){0, 2, 1});
    weight = fv_reshape(ctx, weight, 2, (int64_t[]){w[0], taps});
    return fv_linear(ctx, x, weight, layer->bias);
}
