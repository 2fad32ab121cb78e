#include "look/axis.h"

#include <math.h>

bool fv_axis_can_show(fv_axis_scale scale, double value)
{
    return isfinite(value) && (scale == FV_AXIS_LINEAR || value > 0);
}

/* The smallest step of 1, 2 or 5 times a power of ten that divides the range into at most `parts`.
 */
static double linear_step(double range, int parts)
{
    const double raw = range / parts, power = pow(10, floor(log10(raw)));
    const double ratio = raw / power;
    return power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
}

enum { PARTS = 8 };

fv_axis fv_axis_make(fv_axis_scale scale, double low, double high, bool exact)
{
    if (low > high) low = scale == FV_AXIS_LINEAR ? 0 : 1, high = scale == FV_AXIS_LINEAR ? 1 : 10;
    fv_axis axis = {.scale = scale, .low = low, .high = high, .to = 1};
    if (scale == FV_AXIS_LINEAR) {
        if (!(low < high)) axis.low = low - 0.5, axis.high = low + 0.5;
        if (exact) return axis;
        const double step = linear_step(axis.high - axis.low, PARTS);
        axis.low = floor(axis.low / step) * step;
        axis.high = ceil(axis.high / step) * step;
        return axis;
    }
    if (!(low < high)) axis.low = low / 2, axis.high = low * 2;
    return axis;
}

double fv_axis_pixel(const fv_axis *axis, double value)
{
    const double share =
        axis->scale == FV_AXIS_LINEAR
            ? (value - axis->low) / (axis->high - axis->low)
            : (log2(value) - log2(axis->low)) / (log2(axis->high) - log2(axis->low));
    return axis->from + share * (axis->to - axis->from);
}

/* Tolerates rounding, so that no tick is lost at either end. */
static void add_tick(const fv_axis *axis, double value, double ticks[FV_MAX_TICKS], int *count)
{
    const fv_axis unit = {axis->scale, axis->low, axis->high, 0, 1};
    const double share = fv_axis_pixel(&unit, value);
    if (share >= -1e-9 && share <= 1 + 1e-9 && *count < FV_MAX_TICKS) ticks[(*count)++] = value;
}

static int linear_ticks(const fv_axis *axis, double ticks[FV_MAX_TICKS])
{
    int count = 0;
    const double step = linear_step(axis->high - axis->low, PARTS);
    const double first = ceil(axis->low / step - 1e-9);
    for (int i = 0; i < FV_MAX_TICKS; i++)
        add_tick(axis, (first + i) * step, ticks, &count);
    return count;
}

/* Powers of the base, every `stride`-th if there are many; with few decades also 2 and 5 times
 * them. */
static int log_ticks(const fv_axis *axis, double ticks[FV_MAX_TICKS])
{
    const bool two = axis->scale == FV_AXIS_LOG2;
    const double unit = two ? 1 : log2(10);
    const int first = (int)floor(log2(axis->low) / unit - 1e-9),
              last = (int)ceil(log2(axis->high) / unit + 1e-9);
    const int stride = (last - first) / (two ? 12 : 10) + 1;
    const bool between = !two && last - first <= 4;
    int count = 0;
    for (int e = first; e <= last; e += stride) {
        const double power = two ? ldexp(1, e) : pow(10, e);
        add_tick(axis, power, ticks, &count);
        if (between) {
            add_tick(axis, 2 * power, ticks, &count);
            add_tick(axis, 5 * power, ticks, &count);
        }
    }
    return count;
}

/* A log axis too short for powers gets linear ticks. */
int fv_axis_ticks(const fv_axis *axis, double ticks[FV_MAX_TICKS])
{
    const double min = axis->scale == FV_AXIS_LOG2 ? 4 : 10;
    const bool linear = axis->scale == FV_AXIS_LINEAR || axis->high / axis->low < min;
    return linear ? linear_ticks(axis, ticks) : log_ticks(axis, ticks);
}
