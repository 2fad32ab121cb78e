/*
 * fovea/batches.h: in which order a training run meets its examples.
 *
 *     fv_batches_config cfg;
 *     fv_batches_config_init(&cfg, sizeof cfg);
 *     cfg.tokens = 4000;                      // a batch holds about as many
 *     cfg.seed = 1;
 *     fv_batches *batches = NULL;
 *     s = fv_batches_create(ctx, count, lengths, &cfg, &batches);
 *     for (;;) {
 *         fv_picked b;
 *         s = fv_batches_next(batches, &b);   // b.example[0 .. b.count - 1]
 *     }
 *     fv_batches_destroy(&batches);
 *
 * Each epoch shuffles all examples, puts those of similar length into a batch (sorting within
 * pools of some hundred batches, so that batches differ from epoch to epoch), and shuffles the
 * batches. The order depends on seed and epoch alone: a place in it is two numbers, and going back
 * to it needs nothing else.
 */
#ifndef FOVEA_BATCHES_H
#define FOVEA_BATCHES_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_batches_config {
    size_t struct_size;
    int64_t tokens;   /* lengths of a batch's examples add up to at most this; a longer example is
                         a batch of its own [4096] */
    int64_t examples; /* at most so many in a batch; 0: no bound [0] */
    int64_t pool;     /* batches that are sorted by length together; 1: none are [100] */
    uint64_t seed;    /* [0] */
    bool shuffle;     /* false: examples keep their order [true] */
} fv_batches_config;

FV_API void fv_batches_config_init(fv_batches_config *cfg, size_t struct_size);

typedef struct fv_picked {
    const int64_t *example; /* numbers of examples; lives until the next call */
    int64_t count;
    int64_t tokens;  /* their lengths together */
    int64_t epoch;   /* from 0 */
    int64_t index;   /* of the batch in its epoch, from 0 */
    int64_t batches; /* of this epoch */
} fv_picked;

typedef struct fv_batches fv_batches;

/* Copies the lengths (each >= 1). Fails: ARGUMENT (no examples, a length < 1), MEMORY. */
FV_API FV_MUST_USE fv_status fv_batches_create(fv_ctx *ctx, int64_t examples,
                                               const int64_t *lengths, const fv_batches_config *cfg,
                                               fv_batches **out);
FV_API void fv_batches_destroy(fv_batches **batches); /* NULL is fine; before the context */

FV_API FV_MUST_USE fv_status fv_batches_next(fv_batches *batches, fv_picked *out);

/* The batch that comes next. */
FV_API void fv_batches_place(const fv_batches *batches, int64_t *epoch, int64_t *index);
/* Goes there. Fails: ARGUMENT (no such place). */
FV_API FV_MUST_USE fv_status fv_batches_seek(fv_batches *batches, int64_t epoch, int64_t index);

#ifdef __cplusplus
}
#endif
#endif
