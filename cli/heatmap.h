/* A weight map on the terminal: in colours where they are on, else as shades, which are blocks in a
 * UTF-8 locale and ASCII elsewhere. */
#ifndef FOVEA_CLI_HEATMAP_H
#define FOVEA_CLI_HEATMAP_H

#include <stdio.h>

#include "fovea/look.h"

/* options may be NULL; the width is that of the terminal unless they give one. */
fv_status cli_heatmap_print(fv_ctx *ctx, FILE *to, const fv_look_map *map,
                            const fv_look_options *options);
/* The same of a picture with attention over it. */
fv_status cli_overlay_print(fv_ctx *ctx, FILE *to, const fv_look_overlay *overlay,
                            const fv_look_options *options);

#endif
