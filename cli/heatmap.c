#include "heatmap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "output.h"

/* Width of the terminal that a stream writes to; 0 if it is not a terminal, or unknown. */
static int terminal_columns(FILE *to)
{
    struct winsize size = {0};
    if (ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 0;
    return size.ws_col < 1000 ? size.ws_col : 1000;
}

/* The caller's options for a stream; returns its format. */
static fv_look_format options_for(FILE *to, const fv_look_options *options, fv_look_options *full)
{
    fv_look_options_init(full, sizeof *full);
    if (options) *full = *options;
    full->shades = cli_utf8() ? FV_LOOK_SHADES_BLOCKS : FV_LOOK_SHADES_ASCII;
    if (full->columns == 0) full->columns = terminal_columns(to);
    return cli_colour(to) ? FV_LOOK_FORMAT_TERMINAL : FV_LOOK_FORMAT_TEXT;
}

static fv_status print(FILE *to, fv_status status, fv_picture *picture)
{
    if (status != FV_OK) return status;
    fputs(fv_picture_data(picture, NULL), to);
    fv_picture_free(&picture);
    return FV_OK;
}

fv_status cli_heatmap_print(fv_ctx *ctx, FILE *to, const fv_look_map *map,
                            const fv_look_options *options)
{
    fv_look_options full;
    fv_picture *picture = NULL;
    const fv_look_format form = options_for(to, options, &full);
    const fv_status status = fv_look_map_draw(ctx, map, form, &full, &picture);
    return print(to, status, picture);
}

fv_status cli_overlay_print(fv_ctx *ctx, FILE *to, const fv_look_overlay *overlay,
                            const fv_look_options *options)
{
    fv_look_options full;
    fv_picture *picture = NULL;
    const fv_look_format form = options_for(to, options, &full);
    const fv_status status = fv_look_overlay_draw(ctx, overlay, form, &full, &picture);
    return print(to, status, picture);
}
