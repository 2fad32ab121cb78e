/*
 * Libraries that are loaded when a call needs them, so that neither the program nor the library
 * needs them to start. fv_library_get (fovea/context.h) lists them.
 *
 *     void *library = fv_library_open(FV_LIBRARY_PNG);            // NULL is fine
 *     bool complete = fv_library_find(library, "png_image_free", &api->png_image_free);
 *     if (!complete) return fv_library_missing(ctx, FV_LIBRARY_PNG, path);
 *
 * A library stays loaded once it is open: some keep data of their own.
 */
#ifndef FV_BASE_LIBRARY_H
#define FV_BASE_LIBRARY_H

#include "base/ctx.h"

typedef enum fv_library_id {
    FV_LIBRARY_PNG,
    FV_LIBRARY_JPEG,
    FV_LIBRARY_FLAC,
    FV_LIBRARY_FREETYPE,
    FV_LIBRARY_HARFBUZZ,
    FV_LIBRARY_COUNT
} fv_library_id;

/* NULL: it is not installed, or this build does not use it. */
void *fv_library_open(fv_library_id id);
/* Stores the address of a function of an open library; false: there is none of that name. */
bool fv_library_find(void *library, const char *name, void *function);
/* Sets UNSUPPORTED: "NAME: PNG files need the library libpng (libpng16.so.16)". */
fv_status fv_library_missing(fv_ctx *ctx, fv_library_id id, const char *name);

#endif
