/* Norms of images: group norm, batch norm with running statistics, spectral norm of weights. */
#include "fovea/autograd.h"
#include "fovea/image.h"
#include "nn/weights.h"
#include "tensor/launch.h"
#include "tensor/params.h"
#include "tensor/tensor.h"

/* ---- group norm ---------------------------------------------------------------------- */

/* A vector [c] as [c, 1, ..., 1], to be broadcast over x [n, c, ...]. */
static fv_tensor *per_channel(fv_ctx *ctx, fv_tensor *vector, const fv_tensor *x)
{
    int64_t shape[FV_MAX_RANK] = {-1};
    for (int i = 1; i < x->rank - 1; i++)
        shape[i] = 1;
    return fv_reshape(ctx, vector, x->rank - 1, shape);
}

static fv_tensor *refuse(fv_ctx *ctx, const char *who, const fv_tensor *x, const char *expected)
{
    char text[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "%s: x has shape %s, expected %s", who,
              fv_shape_text(text, x->rank, x->shape), expected);
    return ctx->invalid;
}

fv_tensor *fv_group_norm(fv_ctx *ctx, fv_tensor *x, int64_t groups, fv_tensor *gamma,
                         fv_tensor *beta, double eps)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups != 0)
        return refuse(ctx, "group_norm", x, "[n, channels, ...] with channels divided by groups");
    int64_t width = x->shape[1] / groups;
    for (int i = 2; i < x->rank; i++)
        width *= x->shape[i];
    fv_tensor *flat = fv_reshape(ctx, x, 3, (int64_t[]){x->shape[0], groups, width});
    fv_tensor *y = fv_layer_norm(ctx, flat, NULL, NULL, eps);
    y = fv_reshape(ctx, y, x->rank, x->shape);
    if (gamma) y = fv_mul(ctx, y, per_channel(ctx, gamma, x));
    if (beta) y = fv_add(ctx, y, per_channel(ctx, beta, x));
    return y;
}

/* ---- buffers ------------------------------------------------------------------------- */

/* The buffer "prefix.name" of a set, f32 [n]; made with `initial` if it does not exist. */
static fv_tensor *vector_buffer(fv_params *params, const char *prefix, const char *name, int64_t n,
                                fv_tensor *initial)
{
    fv_ctx *ctx = fv_params_ctx(params);
    char full[FV_NN_NAME];
    fv_nn_name(full, prefix, name);
    fv_tensor *t = ctx->error == FV_OK ? fv_params_find(params, full) : NULL;
    if (!t) return fv_params_add_buffer(params, full, initial);
    if (t->rank == 1 && t->shape[0] == n && t->dtype == FV_F32) return t;
    char text[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "params: '%.100s' has shape %s, expected f32 [%lld]", full,
              fv_shape_text(text, t->rank, t->shape), (long long)n);
    return ctx->invalid;
}

/* ---- batch norm ---------------------------------------------------------------------- */

fv_status fv_batch_norm_create(fv_params *params, const char *prefix, int64_t channels, double eps,
                               double momentum, fv_batch_norm_layer *layer)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(channels < 1 || !(eps >= 0) || !(momentum >= 0 && momentum <= 1), ctx,
                 FV_ERR_ARGUMENT, "batch_norm: %.80s: %lld channels, eps %g, momentum %g", prefix,
                 (long long)channels, eps, momentum);
    fv_batch_norm_layer made = {.eps = eps, .momentum = momentum};
    made.weight = fv_nn_weight(params, prefix, "weight", 1, &channels, fv_init_constant(1));
    made.bias = fv_nn_weight(params, prefix, "bias", 1, &channels, fv_init_constant(0));
    made.running_mean = vector_buffer(params, prefix, "running_mean", channels,
                                      fv_zeros(ctx, FV_F32, 1, &channels));
    made.running_variance = vector_buffer(params, prefix, "running_var", channels,
                                          fv_full(ctx, FV_F32, 1, &channels, 1));
    if (ctx->error == FV_OK) *layer = made;
    return ctx->error;
}

/* running = (1 - momentum) running + momentum factor batch */
static fv_tensor *blend(fv_ctx *ctx, double momentum, fv_tensor *running, fv_tensor *batch,
                        double factor)
{
    return fv_add(ctx, fv_scale(ctx, running, 1 - momentum),
                  fv_scale(ctx, fv_detach(ctx, batch), momentum * factor));
}

/* Both new values are computed before the first is stored: a failure changes nothing. */
static void update_running(fv_ctx *ctx, const fv_batch_norm_layer *layer, fv_tensor *mean,
                           fv_tensor *variance, int64_t count)
{
    fv_no_grad_begin(ctx);
    fv_tensor *new_mean = blend(ctx, layer->momentum, layer->running_mean, mean, 1);
    fv_tensor *new_variance = blend(ctx, layer->momentum, layer->running_variance, variance,
                                    (double)count / (double)(count - 1));
    if (ctx->error == FV_OK) fv_copy_into(ctx, layer->running_mean, new_mean);
    if (ctx->error == FV_OK) fv_copy_into(ctx, layer->running_variance, new_variance);
    fv_no_grad_end(ctx);
}

fv_tensor *fv_batch_norm_run(fv_ctx *ctx, const fv_batch_norm_layer *layer, fv_tensor *x,
                             bool training)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (x->rank < 2 || x->shape[1] != layer->running_mean->shape[0])
        return refuse(ctx, "batch_norm", x, "[n, channels, ...] with the layer's channels");
    if (!training) {
        fv_tensor *rstd = fv_rsqrt(ctx, fv_affine(ctx, layer->running_variance, 1, layer->eps));
        fv_tensor *centred = fv_sub(ctx, x, per_channel(ctx, layer->running_mean, x));
        fv_tensor *scale = fv_mul(ctx, rstd, layer->weight);
        return fv_add(ctx, fv_mul(ctx, centred, per_channel(ctx, scale, x)),
                      per_channel(ctx, layer->bias, x));
    }
    const int64_t count = x->shape[1] > 0 ? x->count / x->shape[1] : 0;
    if (count < 2)
        return refuse(ctx, "batch_norm", x, "more than one element a channel for training");
    fv_tensor *mean = NULL, *variance = NULL;
    fv_tensor *y = fv_batch_norm(ctx, x, layer->weight, layer->bias, layer->eps, &mean, &variance);
    update_running(ctx, layer, mean, variance, count);
    return ctx->error == FV_OK ? y : ctx->invalid;
}

/* ---- spectral norm ------------------------------------------------------------------- */

/* The weight as a matrix with one row for each entry of `axis`. */
static fv_tensor *matrix_of(fv_ctx *ctx, fv_tensor *weight, int axis)
{
    if (axis == 1) weight = fv_transpose(ctx, weight, 0, 1);
    const int64_t rows = ctx->error == FV_OK ? weight->shape[0] : 1;
    return fv_reshape(ctx, weight, 2, (int64_t[]){rows, -1});
}

/* A column of length one: x / max(|x|, eps). */
static fv_tensor *unit_length(fv_ctx *ctx, fv_tensor *x, double eps)
{
    return fv_div(ctx, x, fv_clamp(ctx, fv_norm(ctx, x, 0, NULL, false), eps, INFINITY));
}

static void iterate(fv_ctx *ctx, const fv_spectral_norm *norm, fv_tensor *matrix, int times)
{
    fv_no_grad_begin(ctx);
    fv_tensor *u = fv_unsqueeze(ctx, norm->u, 1), *v = fv_unsqueeze(ctx, norm->v, 1);
    fv_tensor *transposed = fv_transpose(ctx, matrix, 0, 1);
    for (int i = 0; i < times; i++) {
        u = unit_length(ctx, fv_matmul(ctx, matrix, v), norm->eps);
        v = unit_length(ctx, fv_matmul(ctx, transposed, u), norm->eps);
    }
    u = fv_squeeze(ctx, u, 1);
    v = fv_squeeze(ctx, v, 1);
    if (ctx->error == FV_OK && times > 0) fv_copy_into(ctx, norm->u, u);
    if (ctx->error == FV_OK && times > 0) fv_copy_into(ctx, norm->v, v);
    fv_no_grad_end(ctx);
}

fv_status fv_spectral_norm_create(fv_params *params, const char *prefix, fv_tensor *weight,
                                  int axis, int iterations, double eps, fv_spectral_norm *norm)
{
    enum { FIRST_ITERATIONS = 15 };
    fv_ctx *ctx = fv_params_ctx(params);
    if (ctx->error != FV_OK) return ctx->error;
    FV_RETURN_IF(weight->rank < 2 || weight->count == 0 || weight->dtype != FV_F32 ||
                     (axis != 0 && axis != 1) || iterations < 0 || !(eps >= 0),
                 ctx, FV_ERR_ARGUMENT,
                 "spectral_norm: %.80s: rank %d, axis %d, %d iterations, "
                 "eps %g",
                 prefix, weight->rank, axis, iterations, eps);
    char name[FV_NN_NAME];
    fv_nn_name(name, prefix, "u");
    const bool exists = fv_params_find(params, name) != NULL;
    const int64_t rows = weight->shape[axis], rest = weight->count / rows;
    fv_spectral_norm made = {.axis = axis, .iterations = iterations, .eps = eps};
    made.u = vector_buffer(params, prefix, "u", rows, fv_rand_normal(ctx, FV_F32, 1, &rows, 0, 1));
    made.v = vector_buffer(params, prefix, "v", rest, fv_rand_normal(ctx, FV_F32, 1, &rest, 0, 1));
    fv_scope_begin(ctx);
    if (!exists && !fv_params_is_plan(params))
        iterate(ctx, &made, matrix_of(ctx, fv_detach(ctx, weight), axis), FIRST_ITERATIONS);
    fv_scope_end(ctx);
    if (ctx->error == FV_OK) *norm = made;
    return ctx->error;
}

fv_tensor *fv_spectral_norm_run(fv_ctx *ctx, const fv_spectral_norm *norm, fv_tensor *weight,
                                bool training)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t rows = norm->u->shape[0];
    if (weight->rank < 2 || weight->shape[norm->axis] != rows ||
        weight->count != rows * norm->v->shape[0])
        return refuse(ctx, "spectral_norm", weight, "that of the weight it was made for");
    fv_tensor *matrix = matrix_of(ctx, weight, norm->axis);
    if (training) iterate(ctx, norm, matrix, norm->iterations);
    /* Copies: the next call changes u and v, perhaps before this one's backward. */
    fv_tensor *u = fv_scale(ctx, norm->u, 1), *v = fv_scale(ctx, norm->v, 1);
    fv_tensor *row = fv_unsqueeze(ctx, u, 0), *column = fv_unsqueeze(ctx, v, 1);
    fv_tensor *sigma = fv_matmul(ctx, row, fv_matmul(ctx, matrix, column));
    return fv_div(ctx, weight, fv_reshape(ctx, sigma, 0, NULL));
}
