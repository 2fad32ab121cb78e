/*
 * The public structs that lead with their size: how each is filled, and a call that reads it or
 * fills it. tests/test_struct_sizes.c calls with every smaller size.
 */
#ifndef SUPPORT_STRUCT_SIZES_H
#define SUPPORT_STRUCT_SIZES_H

#include <stddef.h>

#include "fovea/context.h"

#define UPTO(type, member) (offsetof(type, member) + sizeof((type *)0)->member)

typedef struct sized {
    const char *name;
    size_t bytes;
    size_t min_bytes; /* up to here a caller must have set something for the call to succeed */
    void (*init)(void *cfg, size_t bytes);
    void (*set)(void *cfg);
    fv_status (*call)(const void *cfg);
} sized;

extern fv_ctx *sizes_ctx; /* of all calls */

extern const sized other_configs[], unrefused[];
extern const size_t other_config_count, unrefused_count;

#endif
