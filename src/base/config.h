/*
 * Config structs, which a caller compiled against another version may have in another size:
 *
 *     void fv_x_config_init(fv_x_config *cfg, size_t struct_size)
 *     {
 *         const fv_x_config defaults = {.struct_size = struct_size, .rate = 0.5};
 *         fv_config_fill(cfg, struct_size, &defaults, sizeof defaults);
 *     }
 */
#ifndef FV_BASE_CONFIG_H
#define FV_BASE_CONFIG_H

#include <stddef.h>
#include <string.h>

/* Fills the caller's struct with as many of the defaults as fit, and zeros after them. */
static inline void fv_config_fill(void *cfg, size_t struct_size, const void *defaults, size_t bytes)
{
    memset(cfg, 0, struct_size);
    memcpy(cfg, defaults, struct_size < bytes ? struct_size : bytes);
}

#endif
