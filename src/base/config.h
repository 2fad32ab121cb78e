/*
 * Config structs that can grow. A caller may be compiled against an older library, whose struct is
 * smaller:
 *
 *     void fv_x_config_init(fv_x_config *cfg, size_t struct_size)
 *     {
 *         const fv_x_config defaults = {.struct_size = struct_size, .rate = 0.5};
 *         fv_config_set_defaults(cfg, struct_size, &defaults, sizeof defaults);
 *     }
 *
 *     fv_x_config full;                                   // what the library works with
 *     fv_x_config_init(&full, sizeof full);
 *     FV_RETURN_IF(!fv_config_copy(&full, sizeof full, cfg), ctx, FV_ERR_ARGUMENT, "...");
 *
 * The first member is the struct's size. Fields that an older, smaller struct lacks keep their
 * defaults. A struct larger than the library's (a newer caller) is refused: its further fields
 * would be ignored. A config that is a member of another struct must keep its size: it ends in a
 * reserved array of zeros, and new fields are cut from that array, so that what follows it does not
 * move.
 */
#ifndef FV_BASE_CONFIG_H
#define FV_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Fills the caller's struct with as many of the defaults as fit, and zeros after them. */
static inline void fv_config_set_defaults(void *cfg, size_t struct_size, const void *defaults,
                                          size_t bytes)
{
    memset(cfg, 0, struct_size);
    memcpy(cfg, defaults, struct_size < bytes ? struct_size : bytes);
}

/* Copies the caller's struct over the defaults in `full`. False: its size is not that of an
 * initialised config of this version or an older one. */
static inline bool fv_config_copy(void *full, size_t bytes, const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > bytes) return false;
    memcpy(full, given, size);
    memcpy(full, &bytes, sizeof bytes);
    return true;
}

/* For results: copies the fields that the caller's version of the struct has. Its struct_size,
 * which the caller has set, stays. */
static inline void fv_config_give(void *out, const void *full, size_t bytes)
{
    size_t size;
    memcpy(&size, out, sizeof size);
    if (size < bytes) bytes = size;
    if (bytes > sizeof size)
        memcpy((char *)out + sizeof size, (const char *)full + sizeof size, bytes - sizeof size);
}

#endif
