/*
 * The spectrally normalised weights of a model kind. A pass divides a weight by its largest
 * singular value as the stored vectors estimate it; the vectors move only when the step is done, so
 * that a pass which is cancelled and run again counts once (fv_model_kind.step_done).
 *
 *     fv_spectral_norms norms = {.ctx = ctx};
 *     FV_TRY(fv_spectral_norms_add(&norms, params, "critic.first", conv.weight, 0, &first));
 *     w = fv_spectral_norms_run(ctx, &norms, first, false);                    // in a pass
 *     return fv_spectral_norms_step(&norms);                                   // in step_done
 */
#ifndef FV_MODELS_SPECTRAL_NORMS_H
#define FV_MODELS_SPECTRAL_NORMS_H

#include "base/ctx.h"
#include "fovea/image.h"

enum { FV_SPECTRAL_NORMS = 64 };

typedef struct fv_spectral_norms {
    fv_ctx *ctx;
    int count;
    fv_spectral_norm norm[FV_SPECTRAL_NORMS];
    fv_tensor *weight[FV_SPECTRAL_NORMS];
} fv_spectral_norms;

/* As fv_spectral_norm_create with one iteration a step and eps 1e-12; the vectors are "prefix.u"
 * and "prefix.v". Fails: LIMIT (FV_SPECTRAL_NORMS), ARGUMENT, MEMORY. */
fv_status fv_spectral_norms_add(fv_spectral_norms *norms, fv_params *params, const char *prefix,
                                fv_tensor *weight, int axis, int *index);
/* The weight divided by its largest singular value; frozen: a constant, without a gradient. */
fv_tensor *fv_spectral_norms_run(fv_ctx *ctx, const fv_spectral_norms *norms, int index,
                                 bool frozen);
/* One power iteration of every weight. */
fv_status fv_spectral_norms_step(const fv_spectral_norms *norms);

#endif
