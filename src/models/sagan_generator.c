/* The generator of a self-attention GAN, and the attention that both networks have. */
#include <stdio.h>

#include "fovea/autograd.h"
#include "models/sagan.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

enum { NAME = 96 };

/* ---- attention ------------------------------------------------------------------------------ */

fv_status fv_sagan_attention_create(fv_params *params, const char *prefix, int64_t channels,
                                    fv_spectral_norms *spectral, fv_sagan_attention *a)
{
    static const char *const names[] = {"query", "key", "value", "out"};
    char name[NAME];
    snprintf(name, sizeof name, "%.40s.attention", prefix);
    FV_TRY(fv_nonlocal_create(params, name, channels, 0, channels > 1 ? channels / 2 : 1, 0,
                              &a->layer));
    fv_tensor *const weight[] = {a->layer.query, a->layer.key, a->layer.values, a->layer.out};
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%.40s.attention.%s", prefix, names[i]);
        FV_TRY(fv_spectral_norms_add(spectral, params, name, weight[i], 0, &a->norm[i]));
    }
    a->is_there = true;
    return FV_OK;
}

fv_tensor *fv_sagan_attend(fv_ctx *ctx, const fv_sagan_attention *a,
                           const fv_spectral_norms *spectral, fv_tensor *x, bool frozen,
                           const fv_pass *pass, const char *site)
{
    if (!a->is_there) return x;
    const bool wanted = pass && fv_capture_wants(pass->capture, site);
    fv_nonlocal scaled = a->layer;
    scaled.query = fv_spectral_norms_run(ctx, spectral, a->norm[0], frozen);
    scaled.key = fv_spectral_norms_run(ctx, spectral, a->norm[1], frozen);
    scaled.values = fv_spectral_norms_run(ctx, spectral, a->norm[2], frozen);
    scaled.out = fv_spectral_norms_run(ctx, spectral, a->norm[3], frozen);
    if (frozen) scaled.gamma = fv_detach(ctx, a->layer.gamma);
    fv_attention_result result;
    fv_tensor *y = fv_nonlocal_run(ctx, &scaled, x, wanted, &result);
    if (wanted) fv_capture_give(ctx, pass, site, result.weights);
    return y;
}

/* ---- creation ------------------------------------------------------------------------------- */

void fv_generator_free(fv_generator *g) { fv_batch_norms_free(&g->norms); }

/* The norm after a grid is made: one batch norm, and what each class adds to its scale and shift.
 */
static fv_status create_norm(fv_params *params, const char *prefix, int level, fv_generator *g)
{
    char name[NAME];
    const int64_t shape[] = {g->size.classes, fv_sagan_width(&g->size, level)};
    snprintf(name, sizeof name, "%.40s.norm.%d", prefix, level);
    FV_TRY(fv_batch_norms_add(&g->norms, params, name, shape[1], &g->batch_norm[level]));
    if (g->size.classes == 0) return FV_OK;
    g->gain[level] = fv_nn_weight(params, name, "gain", 2, shape, fv_init_constant(0));
    g->shift[level] = fv_nn_weight(params, name, "shift", 2, shape, fv_init_constant(0));
    return fv_params_ctx(params)->error;
}

static fv_status create_up(fv_params *params, const char *prefix, int level, fv_generator *g)
{
    const fv_conv2d_options twice = {.stride = {2, 2}, .padding = {1, 1}};
    char name[NAME];
    snprintf(name, sizeof name, "%.40s.up.%d", prefix, level);
    FV_TRY(fv_conv_transpose2d_create(params, name, fv_sagan_width(&g->size, level + 1),
                                      fv_sagan_width(&g->size, level), (int64_t[]){4, 4}, false,
                                      &twice, &g->up[level]));
    FV_TRY(fv_spectral_norms_add(g->spectral, params, name, g->up[level].weight, 1,
                                 &g->up_norm[level]));
    return create_norm(params, prefix, level, g);
}

fv_status fv_generator_create(fv_params *params, const char *prefix, fv_generator *g)
{
    const fv_conv2d_options same = {.padding = {1, 1}};
    const fv_sagan_sizes *s = &g->size;
    const int64_t cells = (s->height >> s->last) * (s->width >> s->last);
    fv_dense first = {.weight = NULL};
    char name[NAME];
    FV_TRY(fv_batch_norms_init(&g->norms, fv_params_ctx(params)));
    snprintf(name, sizeof name, "%.40s.classes", prefix);
    if (s->classes > 0)
        FV_TRY(fv_embedding_create(params, name, s->classes, s->noise, s->class_std, &g->classes));
    snprintf(name, sizeof name, "%.40s.first", prefix);
    FV_TRY(fv_dense_create(params, name, s->noise * (s->classes > 0 ? 2 : 1),
                           cells * fv_sagan_width(s, s->last), false, 0, &first));
    g->first = first.weight;
    FV_TRY(fv_spectral_norms_add(g->spectral, params, name, g->first, 0, &g->first_norm));
    FV_TRY(create_norm(params, prefix, s->last, g));
    for (int level = s->last - 1; level >= 0; level--)
        FV_TRY(create_up(params, prefix, level, g));
    snprintf(name, sizeof name, "%.40s.picture", prefix);
    FV_TRY(fv_conv2d_create(params, name, s->base, s->channels, (int64_t[]){3, 3}, true, &same,
                            &g->picture));
    return fv_spectral_norms_add(g->spectral, params, name, g->picture.weight, 0, &g->picture_norm);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Rows of a table [classes, channels] as [n, channels, 1, 1]. */
static fv_tensor *per_class(fv_ctx *ctx, fv_tensor *table, fv_tensor *label)
{
    fv_tensor *rows = fv_embedding(ctx, table, label, -1);
    return fv_unsqueeze(ctx, fv_unsqueeze(ctx, rows, 2), 3);
}

static fv_tensor *finish_grid(fv_ctx *ctx, fv_generator *g, int level, fv_tensor *x,
                              fv_tensor *label, bool training, const fv_pass *pass)
{
    x = fv_batch_norms_run(ctx, &g->norms, g->batch_norm[level], x, training);
    if (label) {
        fv_tensor *gain = fv_affine(ctx, per_class(ctx, g->gain[level], label), 1, 1);
        x = fv_add(ctx, fv_mul(ctx, x, gain), per_class(ctx, g->shift[level], label));
    }
    x = fv_relu(ctx, x);
    if (level != g->size.attend) return x;
    return fv_sagan_attend(ctx, &g->attention, g->spectral, x, false, pass, FV_GENERATOR_SITE);
}

fv_tensor *fv_generator_run(fv_ctx *ctx, fv_generator *g, fv_tensor *noise, fv_tensor *label,
                            bool training, const fv_pass *pass)
{
    const fv_sagan_sizes *s = &g->size;
    const int64_t shape[] = {-1, fv_sagan_width(s, s->last), s->height >> s->last,
                             s->width >> s->last};
    fv_tensor *w = fv_spectral_norms_run(ctx, g->spectral, g->first_norm, false);
    fv_tensor *x = noise;
    if (label) {
        fv_tensor *const both[] = {noise, fv_embedding(ctx, g->classes, label, -1)};
        x = fv_concat(ctx, 2, both, 1);
    }
    x = fv_reshape(ctx, fv_linear(ctx, x, w, NULL), 4, shape);
    x = finish_grid(ctx, g, s->last, x, label, training, pass);
    for (int level = s->last - 1; level >= 0; level--) {
        w = fv_spectral_norms_run(ctx, g->spectral, g->up_norm[level], false);
        x = fv_conv_transpose2d(ctx, x, w, NULL, &g->up[level].options);
        x = finish_grid(ctx, g, level, x, label, training, pass);
    }
    w = fv_spectral_norms_run(ctx, g->spectral, g->picture_norm, false);
    return fv_sigmoid(ctx, fv_conv2d(ctx, x, w, g->picture.bias, &g->picture.options));
}
