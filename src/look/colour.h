/* Colours of values and of series. */
#ifndef FV_LOOK_COLOUR_H
#define FV_LOOK_COLOUR_H

#include "fovea/look.h"

typedef uint32_t fv_rgb; /* 0xRRGGBB */

#define FV_RGB_WHITE 0xffffffu
#define FV_RGB_INK   0x1f2430u /* text */
#define FV_RGB_FAINT 0x8a90a0u /* axes, notes */
#define FV_RGB_RULE  0xdfe2eau /* grid lines, frames */
#define FV_RGB_NAN   0xd6409fu /* on none of the maps */

/* What the first and last colour stand for. */
typedef struct fv_colour_range {
    fv_colour_map map;
    double low, high;
} fv_colour_range;

/* The options' range, or that of rows x cols values, `stride` apart. */
fv_colour_range fv_colour_range_of(const fv_look_options *options, int64_t rows, int64_t cols,
                                   int64_t stride, const float *values);

fv_rgb fv_colour_of(const fv_colour_range *range, double value);
/* How far along the range: 0 to 1, NaN for NaN. */
double fv_colour_position(const fv_colour_range *range, double value);
fv_rgb fv_colour_at(fv_colour_map map, double position);

fv_rgb fv_colour_series(int64_t i);        /* ten, then again */
bool fv_colour_is_dark(fv_rgb colour);     /* white text is easier to read on it */
int fv_colour_nearest_ansi(fv_rgb colour); /* the nearest of a terminal's colour cube and greys */
/* A value's colour on a terminal. The cube's nearest to pale blues are green and lilac by turns:
 * blues take the one of equal brightness among true blues instead. */
int fv_colour_ansi(const fv_colour_range *range, double value);

#endif
