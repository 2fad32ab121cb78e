/*
 * fovea/nearest.h: the closest spelling, for "did you mean ...?" in messages about unknown names.
 *
 *     fv_nearest n;
 *     fv_nearest_init(&n, "trian");
 *     for (int i = 0; i < count; i++)
 *         fv_nearest_add(&n, names[i], strlen(names[i]));
 *     if (fv_nearest_best(&n)) printf("did you mean '%s'?\n", fv_nearest_best(&n));
 *
 * Needs no context and allocates nothing.
 */
#ifndef FOVEA_NEAREST_H
#define FOVEA_NEAREST_H

#include <stddef.h>

#include "fovea/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_nearest {
    const char *word; /* not owned */
    char best[64];
    int distance;
} fv_nearest;

FV_API void fv_nearest_init(fv_nearest *nearest, const char *word);
/* Considers a candidate. Candidates longer than 63 bytes are ignored. */
FV_API void fv_nearest_add(fv_nearest *nearest, const char *candidate, size_t length);
/* The closest candidate, or NULL if none is close enough. */
FV_API const char *fv_nearest_best(const fv_nearest *nearest);

#ifdef __cplusplus
}
#endif
#endif
