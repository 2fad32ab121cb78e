/*
 * What a program adds to the library's own tables: copies of constant descriptors, by the context.
 * A descriptor leads with its size, so one that was compiled against an older, smaller struct is
 * filled up with zeros.
 */
#ifndef FV_BASE_REGISTRY_H
#define FV_BASE_REGISTRY_H

#include "fovea/context.h"

typedef struct fv_registry {
    size_t bytes; /* of an item */
    size_t count;
    void **items;
    size_t room;
} fv_registry;

/* Copies a caller's descriptor, which begins with its size, into one of `bytes`. Fails: ARGUMENT
 * (a size of 0, or of a newer version). */
fv_status fv_registry_fill(fv_ctx *ctx, const void *item, void *out, size_t bytes);
/* Whether a recipe's choice can have this name. */
bool fv_registry_is_name(const char *name);
/* Keeps a copy of an item of `bytes`. Fails: MEMORY. */
fv_status fv_registry_add(fv_ctx *ctx, fv_registry *registry, const void *item, size_t bytes);
void fv_registry_free(fv_ctx *ctx, fv_registry *registry);

#endif
