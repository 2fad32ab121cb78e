#include "heatmap.h"

#include <string.h>

#include "output.h"

/* From dark to bright; readable on black and on white ground. */
static int colour_of(float weight)
{
    if (!(weight > 0)) weight = 0; /* NaN too */
    static const int ramp[] = {17, 18, 24, 30, 36, 71, 107, 143, 179, 215, 221, 228};
    const int last = (int)(sizeof ramp / sizeof *ramp) - 1;
    int i = (int)(weight * (float)last + 0.5f);
    return ramp[i < 0 ? 0 : i > last ? last : i];
}

static const char *shade_of(float weight)
{
    if (!(weight > 0)) weight = 0;
    static const char *const shades[] = {"  .", "  -", "  +", " ##"};
    int i = (int)(weight * 4.0f);
    return shades[i < 0 ? 0 : i > 3 ? 3 : i];
}

static int widest(const char *const *labels, int n)
{
    int width = 0;
    for (int i = 0; i < n; i++)
        if ((int)strlen(labels[i]) > width) width = (int)strlen(labels[i]);
    return width;
}

void cli_heatmap_print(FILE *to, const cli_heatmap *map)
{
    bool colour = cli_colour(to);
    int margin = widest(map->row_labels, map->rows);
    fprintf(to, "  %*s  %s\n  %*s  ", margin, "", map->col_title, margin, "");
    for (int j = 0; j < map->cols; j++)
        fprintf(to, "%3s", map->col_labels[j]);
    fprintf(to, "\n");
    for (int i = 0; i < map->rows; i++) {
        fprintf(to, "  %*s  ", margin, map->row_labels[i]);
        for (int j = 0; j < map->cols; j++) {
            float w = map->weights[i * map->cols + j];
            if (colour)
                fprintf(to, "\033[48;5;%dm   \033[0m", colour_of(w));
            else
                fprintf(to, "%s", shade_of(w));
        }
        fprintf(to, "%s%s\n", i == 0 ? "   " : "", i == 0 ? map->row_title : "");
    }
    if (!colour)
        fprintf(to, "  %*s  (. below 1/4, - below 1/2, + below 3/4, ## above)\n", margin, "");
}
