/*
 * The two networks of a self-attention GAN (Zhang 2019): a DCGAN whose grids attend to themselves.
 *
 * A level is a grid: level 0 has the picture's size, level s its sides divided by 2^s and 2^s times
 * the channels. The generator goes from the last level to the picture, the discriminator the other
 * way; both attend at the same level.
 *
 *     generator       (noise, class) -> linear -> [4 x 4 transposed convolution, stride 2] ...
 *                     -> 3 x 3 -> sigmoid
 *                     each grid: batch norm whose scale and shift depend on the class, ReLU
 *     discriminator   picture -> 3 x 3 -> [4 x 4 convolution, stride 2] ... -> h
 *                     each grid: leaky ReLU;   score = w . h + b + e_class . h
 *
 * h is the sum over the last grid, or leaky ReLU of a layer over all of it.
 *
 * Every weight is divided by its largest singular value. Attention layers are created after all
 * others, so that a model with them draws the same first weights as one without.
 */
#ifndef FV_MODELS_SAGAN_H
#define FV_MODELS_SAGAN_H

#include "fovea/model.h"
#include "models/batch_norms.h"
#include "models/spectral_norms.h"

enum { FV_SAGAN_LEVELS = 8 };

/* Sizes that both networks share. */
typedef struct fv_sagan_sizes {
    int64_t channels, height, width; /* of a picture */
    int64_t classes;                 /* 0: not conditional */
    int64_t noise, base;             /* base: channels of level 0 */
    int last;                        /* level of the smallest grid */
    int attend;                      /* level that attends */
    int64_t features;                /* of the discriminator's whole last grid; 0: its sum */
    double class_std;                /* of the generator's vectors of classes at first; 0: 1 */
} fv_sagan_sizes;

/* Self-attention over a grid, with spectral norm; absent unless `is_there`. */
typedef struct fv_sagan_attention {
    bool is_there;
    fv_nonlocal layer;
    int norm[4]; /* of query, key, values, out */
} fv_sagan_attention;

typedef struct fv_generator {
    fv_sagan_sizes size;
    fv_spectral_norms *spectral; /* the model's */
    fv_batch_norms norms;
    fv_tensor *classes; /* [classes, noise]: stands beside the noise; NULL: no classes */
    fv_tensor *first;   /* [channels height width of the last level, noise, or twice that] */
    fv_conv2d_layer up[FV_SAGAN_LEVELS], picture;
    fv_tensor *gain[FV_SAGAN_LEVELS], *shift[FV_SAGAN_LEVELS]; /* [classes, channels] */
    int first_norm, up_norm[FV_SAGAN_LEVELS], picture_norm, batch_norm[FV_SAGAN_LEVELS];
    fv_sagan_attention attention;
} fv_generator;

typedef struct fv_discriminator {
    fv_sagan_sizes size;
    fv_spectral_norms *spectral;
    fv_conv2d_layer down[FV_SAGAN_LEVELS]; /* down[0] reads the picture */
    fv_dense whole, score;                 /* whole: absent where size.features is 0 */
    fv_tensor *classes;                    /* [classes, width of h] */
    int down_norm[FV_SAGAN_LEVELS], whole_norm, score_norm, class_norm;
    fv_sagan_attention attention;
} fv_discriminator;

#define FV_GENERATOR_SITE     "generator.0.self"
#define FV_DISCRIMINATOR_SITE "discriminator.0.self"

/* "prefix.first.weight" and so on; size and spectral are set by the caller. fv_generator_free may
 * be called on failure, and on zeros. Fails: LIMIT, MEMORY. */
fv_status fv_generator_create(fv_params *params, const char *prefix, fv_generator *g);
void fv_generator_free(fv_generator *g);
/* noise f32 [n, noise], label i64 [n] (NULL: no classes) -> pictures [n, channels, height, width]
 * in 0 .. 1. training: batch norm uses the batch. */
fv_tensor *fv_generator_run(fv_ctx *ctx, fv_generator *g, fv_tensor *noise, fv_tensor *label,
                            bool training, const fv_pass *pass);

fv_status fv_discriminator_create(fv_params *params, const char *prefix, fv_discriminator *d);
/* Scores [n] of pictures in 0 .. 1; frozen: no gradient to the discriminator's own weights. */
fv_tensor *fv_discriminator_run(fv_ctx *ctx, const fv_discriminator *d, fv_tensor *pictures,
                                fv_tensor *label, bool frozen, const fv_pass *pass);

/* "prefix.attention.query.weight" and so on, for a grid of `channels`. */
fv_status fv_sagan_attention_create(fv_params *params, const char *prefix, int64_t channels,
                                    fv_spectral_norms *spectral, fv_sagan_attention *a);
/* y = x + gamma o, or x where there is no attention. */
fv_tensor *fv_sagan_attend(fv_ctx *ctx, const fv_sagan_attention *a,
                           const fv_spectral_norms *spectral, fv_tensor *x, bool frozen,
                           const fv_pass *pass, const char *site);

static inline int64_t fv_sagan_width(const fv_sagan_sizes *size, int level)
{
    return size->base << level;
}

#endif
