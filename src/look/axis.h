/* One axis of a plot: its range, the pixels of values, and the ticks. */
#ifndef FV_LOOK_AXIS_H
#define FV_LOOK_AXIS_H

#include "fovea/look.h"

typedef struct fv_axis {
    fv_axis_scale scale;
    double low, high; /* low < high; on log axes low > 0 */
    double from, to;  /* pixel positions of low and high */
} fv_axis;

/* Whether a value can be shown on such an axis. */
bool fv_axis_can_show(fv_axis_scale scale, double value);

/* An axis for all values from low to high, which must be showable (low > high: no values). Unless
 * `exact` is set, the range is widened to whole steps. */
fv_axis fv_axis_make(fv_axis_scale scale, double low, double high, bool exact);

double fv_axis_pixel(const fv_axis *axis, double value);

enum { FV_MAX_TICKS = 24 };

/* Writes the values of the ticks, ascending; returns how many. */
int fv_axis_ticks(const fv_axis *axis, double ticks[FV_MAX_TICKS]);

#endif
