/*
 * The batch norms of a model kind. A pass uses the statistics of its batch and remembers them;
 * the running statistics move only when the step is done, so that a pass which is cancelled and run
 * again counts once (fv_model_kind.step_done).
 *
 *     fv_batch_norms norms;
 *     FV_TRY(fv_batch_norms_init(&norms, ctx));
 *     FV_TRY(fv_batch_norms_add(&norms, params, "stage.0.norm", 32, &first));     // in create
 *     h = fv_batch_norms_run(ctx, &norms, first, h, pass && pass->training);      // in a pass
 *     return fv_batch_norms_step(&norms);                                          // in step_done
 *     fv_batch_norms_free(&norms);                                                 // in destroy
 *
 * Of a step with several parts the last one's statistics count.
 */
#ifndef FV_MODELS_BATCH_NORMS_H
#define FV_MODELS_BATCH_NORMS_H

#include "base/ctx.h"
#include "fovea/image.h"

enum { FV_BATCH_NORMS = 32 };

typedef struct fv_batch_norms {
    fv_ctx *ctx;
    int count;
    fv_batch_norm_layer layer[FV_BATCH_NORMS];
    fv_tensor *mean[FV_BATCH_NORMS], *variance[FV_BATCH_NORMS]; /* of the last training pass */
    double factor[FV_BATCH_NORMS]; /* makes that variance unbiased; 0: there was no pass */
    fv_params *last;               /* owns mean and variance; not saved */
} fv_batch_norms;

/* Fails: MEMORY. Zeroed norms may be freed. */
fv_status fv_batch_norms_init(fv_batch_norms *norms, fv_ctx *ctx);
void fv_batch_norms_free(fv_batch_norms *norms);
/* As fv_batch_norm_create with eps 1e-5 and momentum 0.1. Fails: LIMIT (FV_BATCH_NORMS), MEMORY. */
fv_status fv_batch_norms_add(fv_batch_norms *norms, fv_params *params, const char *prefix,
                             int64_t channels, int *index);
fv_tensor *fv_batch_norms_run(fv_ctx *ctx, fv_batch_norms *norms, int index, fv_tensor *x,
                              bool training);
/* running = 0.9 running + 0.1 (statistics of the last training pass), unless those are not finite.
 */
fv_status fv_batch_norms_step(fv_batch_norms *norms);

#endif
