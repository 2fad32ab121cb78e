/*
 * fovea/nearest.h: "did you mean ...?", for every message about a name that does not exist.
 *
 *     fv_nearest n;
 *     fv_nearest_begin(&n, "trian");
 *     for (int i = 0; i < count; i++)
 *         fv_nearest_offer(&n, names[i], strlen(names[i]));
 *     if (fv_nearest_found(&n)) printf("did you mean '%s'?\n", fv_nearest_found(&n));
 *
 * Needs no context and no memory.
 */
#ifndef FOVEA_NEAREST_H
#define FOVEA_NEAREST_H

#include <stddef.h>

#include "fovea/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fv_nearest {
    const char *word; /* must stay */
    char best[64];
    int distance;
} fv_nearest;

FV_API void fv_nearest_begin(fv_nearest *nearest, const char *word);
/* Words of more than 63 bytes are never near. */
FV_API void fv_nearest_offer(fv_nearest *nearest, const char *candidate, size_t length);
FV_API const char *fv_nearest_found(const fv_nearest *nearest); /* NULL: nothing is near */

#ifdef __cplusplus
}
#endif
#endif
