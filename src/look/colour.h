/* Colours of values and of plotted series. */
#ifndef FV_LOOK_COLOUR_H
#define FV_LOOK_COLOUR_H

#include "fovea/look.h"

typedef uint32_t fv_rgb; /* 0xRRGGBB */

#define FV_RGB_WHITE 0xffffffu
#define FV_RGB_INK   0x1f2430u /* text */
#define FV_RGB_FAINT 0x8a90a0u /* axes, remarks */
#define FV_RGB_RULE  0xdfe2eau /* grid lines, frames */
#define FV_RGB_NAN   0xd6409fu /* does not occur in any colour map */

/* The values of the first and last colour. */
typedef struct fv_colour_range {
    fv_colour_map map;
    double low, high;
} fv_colour_range;

/* The range from the options, or else of rows x cols values with row stride `stride`. */
fv_colour_range fv_colour_range_of(const fv_look_options *options, int64_t rows, int64_t cols,
                                   int64_t stride, const float *values);

fv_rgb fv_colour_of(const fv_colour_range *range, double value);
/* Position of the value in the range, 0 to 1; NaN for NaN. */
double fv_colour_position(const fv_colour_range *range, double value);
fv_rgb fv_colour_at(fv_colour_map map, double position);

fv_rgb fv_colour_series(int64_t i);        /* ten colours, repeated */
bool fv_colour_is_dark(fv_rgb colour);     /* white text is more readable on it than black */
int fv_colour_nearest_ansi(fv_rgb colour); /* the closest colour of the 256-colour cube and greys */
/* A value's colour on a terminal. The closest cube colours to pale blues alternate between green
 * and lilac, so blues use a true blue of equal brightness instead. */
int fv_colour_ansi(const fv_colour_range *range, double value);

#endif
