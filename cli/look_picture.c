/* Options of the pictures of 'fovea look', and maps on the terminal or in files. */
#include <stdio.h>
#include <string.h>

#include "heatmap.h"
#include "look_model.h"
#include "output.h"

bool look_picture_options(const cli_call *call, fv_look_options *out)
{
    static const char *const palettes[FV_COLOUR_MAP_COUNT] = {[FV_COLOUR_MAP_BLUES] = "blues",
                                                              [FV_COLOUR_MAP_HEAT] = "heat",
                                                              [FV_COLOUR_MAP_GREYS] = "greys",
                                                              [FV_COLOUR_MAP_DIVERGING] =
                                                                  "diverging"};
    fv_look_options_init(out, sizeof *out);
    out->numbers = cli_flag(call, "numbers");
    out->cell = (int)cli_int(call, "cell");
    out->font = cli_text(call, "font");
    for (int i = 0; i < FV_COLOUR_MAP_COUNT; i++)
        if (strcmp(cli_text(call, "palette"), palettes[i]) == 0) out->colours = (fv_colour_map)i;
    const char *range = cli_text(call, "range");
    char more = 0;
    if (!range) return true;
    if (sscanf(range, "%lf:%lf%c", &out->low, &out->high, &more) == 2 && out->low < out->high)
        return true;
    cli_error("look: --range %s: expected LOW:HIGH, the values of the first and the last colour",
              range);
    return false;
}

const char *look_title(const cli_call *call, const char *title)
{
    return cli_given(call, "title") ? cli_text(call, "title") : title;
}

fv_status look_save_picture(fv_status status, fv_picture *picture, const char *path)
{
    if (status == FV_OK) status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}

fv_status look_draw_map(fv_ctx *ctx, const fv_look_map *map, const fv_look_options *how,
                        const char *path)
{
    if (!path) return cli_heatmap_print(ctx, stdout, map, how);
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(ctx, path, &form);
    if (status == FV_OK) status = fv_look_map_draw(ctx, map, form, how, &picture);
    return look_save_picture(status, picture, path);
}

fv_status look_show_overlay(fv_ctx *ctx, const char *path, const fv_look_overlay *overlay,
                            const fv_look_options *how)
{
    if (!path) return cli_overlay_print(ctx, stdout, overlay, how);
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(ctx, path, &form);
    if (status == FV_OK) status = fv_look_overlay_draw(ctx, overlay, form, how, &picture);
    return look_save_picture(status, picture, path);
}

void look_json_panel(cli_json *j, const fv_look_panel *p)
{
    cli_json_open(j, NULL, '{');
    cli_json_text(j, "name", p->caption);
    cli_json_open(j, "weights", '[');
    for (int64_t i = 0; i < p->rows; i++) {
        cli_json_open(j, NULL, '[');
        for (int64_t k = 0; k < p->cols; k++)
            cli_json_exact(j, NULL, (double)p->weights[i * p->cols + k]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, ']');
    cli_json_close(j, '}');
}
