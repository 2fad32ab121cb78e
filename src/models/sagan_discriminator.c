/* The discriminator of a self-attention GAN, with a projection of the class (Miyato 2018). */
#include <stdio.h>

#include "fovea/autograd.h"
#include "models/sagan.h"
#include "tensor/tensor.h"

enum { NAME = 96 };

#define SLOPE 0.1 /* of the leaky ReLU */

static fv_status create_down(fv_params *params, const char *prefix, int level, fv_discriminator *d)
{
    const fv_conv2d_options same = {.padding = {1, 1}},
                            half = {.stride = {2, 2}, .padding = {1, 1}};
    const fv_sagan_sizes *s = &d->size;
    const int64_t side = level ? 4 : 3;
    char name[NAME];
    snprintf(name, sizeof name, "%.40s.down.%d", prefix, level);
    FV_TRY(fv_conv2d_create(params, name, level ? fv_sagan_width(s, level - 1) : s->channels,
                            fv_sagan_width(s, level), (int64_t[]){side, side}, true,
                            level ? &half : &same, &d->down[level]));
    return fv_spectral_norms_add(d->spectral, params, name, d->down[level].weight, 0,
                                 &d->down_norm[level]);
}

/* A layer that reads every cell of the last grid. */
static fv_status create_whole(fv_params *params, const char *prefix, int64_t channels,
                              fv_discriminator *d)
{
    const fv_sagan_sizes *s = &d->size;
    const int64_t cells = (s->height >> s->last) * (s->width >> s->last);
    char name[NAME];
    snprintf(name, sizeof name, "%.40s.whole", prefix);
    FV_TRY(fv_dense_create(params, name, cells * channels, s->features, true, 0, &d->whole));
    return fv_spectral_norms_add(d->spectral, params, name, d->whole.weight, 0, &d->whole_norm);
}

fv_status fv_discriminator_create(fv_params *params, const char *prefix, fv_discriminator *d)
{
    const fv_sagan_sizes *s = &d->size;
    const int64_t channels = fv_sagan_width(s, s->last),
                  width = s->features ? s->features : channels;
    char name[NAME];
    for (int level = 0; level <= s->last; level++)
        FV_TRY(create_down(params, prefix, level, d));
    if (s->features) FV_TRY(create_whole(params, prefix, channels, d));
    snprintf(name, sizeof name, "%.40s.score", prefix);
    FV_TRY(fv_dense_create(params, name, width, 1, true, 0, &d->score));
    FV_TRY(fv_spectral_norms_add(d->spectral, params, name, d->score.weight, 0, &d->score_norm));
    if (s->classes == 0) return FV_OK;
    snprintf(name, sizeof name, "%.40s.classes", prefix);
    FV_TRY(fv_embedding_create(params, name, s->classes, width, 0, &d->classes));
    return fv_spectral_norms_add(d->spectral, params, name, d->classes, 0, &d->class_norm);
}

static fv_tensor *bias_of(fv_ctx *ctx, fv_tensor *bias, bool frozen)
{
    return frozen ? fv_detach(ctx, bias) : bias;
}

/* The vector h of a picture, from its last grid. */
static fv_tensor *describe(fv_ctx *ctx, const fv_discriminator *d, fv_tensor *x, bool frozen)
{
    if (!d->size.features) return fv_sum(ctx, x, 2, (int[]){2, 3}, false);
    fv_tensor *w = fv_spectral_norms_run(ctx, d->spectral, d->whole_norm, frozen);
    x = fv_reshape(ctx, x, 2, (int64_t[]){-1, d->whole.weight->shape[1]});
    return fv_leaky_relu(ctx, fv_linear(ctx, x, w, bias_of(ctx, d->whole.bias, frozen)), SLOPE);
}

fv_tensor *fv_discriminator_run(fv_ctx *ctx, const fv_discriminator *d, fv_tensor *pictures,
                                fv_tensor *label, bool frozen, const fv_pass *pass)
{
    const fv_sagan_sizes *s = &d->size;
    fv_tensor *x = fv_affine(ctx, pictures, 2, -1), *w;
    for (int level = 0; level <= s->last; level++) {
        const fv_conv2d_layer *down = &d->down[level];
        w = fv_spectral_norms_run(ctx, d->spectral, d->down_norm[level], frozen);
        x = fv_conv2d(ctx, x, w, bias_of(ctx, down->bias, frozen), &down->options);
        x = fv_leaky_relu(ctx, x, SLOPE);
        if (level == s->attend)
            x = fv_sagan_attend(ctx, &d->attention, d->spectral, x, frozen, pass,
                                FV_DISCRIMINATOR_SITE);
    }
    fv_tensor *h = describe(ctx, d, x, frozen);
    w = fv_spectral_norms_run(ctx, d->spectral, d->score_norm, frozen);
    fv_tensor *score =
        fv_squeeze(ctx, fv_linear(ctx, h, w, bias_of(ctx, d->score.bias, frozen)), 1);
    if (!label) return score;
    w = fv_spectral_norms_run(ctx, d->spectral, d->class_norm, frozen);
    fv_tensor *fits = fv_mul(ctx, fv_embedding(ctx, w, label, -1), h);
    return fv_add(ctx, score, fv_sum(ctx, fits, 1, (int[]){1}, false));
}
