/* One axis of a plot: which values it shows, where they lie, and which of them are named. */
#ifndef FV_LOOK_AXIS_H
#define FV_LOOK_AXIS_H

#include "fovea/look.h"

typedef struct fv_axis {
    fv_axis_scale scale;
    double low, high; /* low < high; on log axes low > 0 */
    double from, to;  /* pixels of low and high */
} fv_axis;

/* Whether the axis can show a value at all. */
bool fv_axis_can_show(fv_axis_scale scale, double value);

/* An axis that holds all values from low to high (which it takes; low > high: none), widened to
 * whole steps where `exact` is not set. */
fv_axis fv_axis_make(fv_axis_scale scale, double low, double high, bool exact);

double fv_axis_pixel(const fv_axis *axis, double value);

enum { FV_MAX_TICKS = 24 };

/* Values to be named, ascending; returns how many. */
int fv_axis_ticks(const fv_axis *axis, double ticks[FV_MAX_TICKS]);

#endif
