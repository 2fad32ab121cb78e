#include "look/colour.h"

#include <math.h>
#include <stdlib.h>

/* Evenly spaced stops. Brightness is monotonic along each map (along each half of the diverging
 * one), so that they also work in greyscale. */
static const struct stops {
    int count;
    fv_rgb at[6];
} maps[FV_COLOUR_MAP_COUNT] = {
    [FV_COLOUR_MAP_BLUES] = {6, {0xffffff, 0xdbe9f6, 0x9fc5e6, 0x5496cc, 0x1f66a8, 0x0b2f66}},
    [FV_COLOUR_MAP_HEAT] = {6, {0x0b0714, 0x4a1259, 0x9c2b5b, 0xe0553a, 0xf9a53a, 0xfdf6c4}},
    [FV_COLOUR_MAP_GREYS] = {2, {0x000000, 0xffffff}},
    [FV_COLOUR_MAP_DIVERGING] = {5, {0x14418b, 0x7fb0d8, 0xf7f7f7, 0xe8937a, 0x96142a}},
};

static unsigned mix(unsigned a, unsigned b, double position)
{
    return (unsigned)lround((double)a + ((double)b - (double)a) * position);
}

fv_rgb fv_colour_at(fv_colour_map map, double position)
{
    const struct stops *stops = &maps[map];
    if (isnan(position)) return FV_RGB_NAN;
    const double place = fmin(fmax(position, 0), 1) * (stops->count - 1);
    const int i = place >= stops->count - 1 ? stops->count - 2 : (int)place;
    const fv_rgb a = stops->at[i], b = stops->at[i + 1];
    const double part = place - i;
    return mix(a >> 16, b >> 16, part) << 16 | mix(a >> 8 & 255, b >> 8 & 255, part) << 8 |
           mix(a & 255, b & 255, part);
}

double fv_colour_position(const fv_colour_range *range, double value)
{
    if (isnan(value)) return value;
    /* Infinities map to the ends; their difference would be NaN. */
    if (value <= range->low) return 0;
    if (value >= range->high) return 1;
    return (value - range->low) / (range->high - range->low);
}

fv_rgb fv_colour_of(const fv_colour_range *range, double value)
{
    return fv_colour_at(range->map, fv_colour_position(range, value));
}

fv_colour_range fv_colour_range_of(const fv_look_options *options, int64_t rows, int64_t cols,
                                   int64_t stride, const float *values)
{
    fv_colour_range range = {options->colours, options->low, options->high};
    if (range.low < range.high) return range;
    range.low = range.high = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double value = values[i * stride + j];
            if (!isfinite(value)) continue;
            range.low = fmin(range.low, value);
            range.high = fmax(range.high, value);
        }
    if (range.map == FV_COLOUR_MAP_DIVERGING) {
        range.high = fmax(range.high, -range.low);
        range.low = -range.high;
    }
    if (range.low == range.high) range.high = range.low + 1;
    return range;
}

fv_rgb fv_colour_series(int64_t i)
{
    static const fv_rgb colours[] = {0x1f66a8, 0xd9541e, 0x2f8f4e, 0x8b4fb3, 0xc9971c, 0x16a3a8,
                                     0xc2306b, 0x6b5b4b, 0x5b7fe0, 0x7a9a1e, 0x9c2a2a, 0x3b3f9e,
                                     0x0b6b4f, 0xe07fb0, 0x8a8f99, 0xb06a3b};
    return colours[(uint64_t)i % (sizeof colours / sizeof *colours)];
}

static double brightness(fv_rgb colour)
{
    return 0.299 * (colour >> 16) + 0.587 * (colour >> 8 & 255) + 0.114 * (colour & 255);
}

bool fv_colour_is_dark(fv_rgb colour) { return brightness(colour) < 140; }

static int distance(fv_rgb a, int r, int g, int b)
{
    const int dr = (int)(a >> 16) - r, dg = (int)(a >> 8 & 255) - g, db = (int)(a & 255) - b;
    return dr * dr + dg * dg + db * db;
}

static const int levels[] = {0, 95, 135, 175, 215, 255}; /* of the cube 16 to 231 */

static fv_rgb cube_colour(int code)
{
    const int n = code - 16;
    return (fv_rgb)(levels[n / 36] << 16 | levels[n / 6 % 6] << 8 | levels[n % 6]);
}

int fv_colour_ansi(const fv_colour_range *range, double value)
{
    static const int blues[] = {231, 189, 153, 111, 75, 68, 32, 26, 25, 18};
    const fv_rgb wanted = fv_colour_of(range, value);
    if (range->map != FV_COLOUR_MAP_BLUES || isnan(value)) return fv_colour_nearest_ansi(wanted);
    int best = 0;
    for (int i = 1; i < (int)(sizeof blues / sizeof *blues); i++)
        if (fabs(brightness(cube_colour(blues[i])) - brightness(wanted)) <
            fabs(brightness(cube_colour(blues[best])) - brightness(wanted)))
            best = i;
    return blues[best];
}

int fv_colour_nearest_ansi(fv_rgb colour)
{
    int part[3];
    for (int c = 0; c < 3; c++) {
        const int value = (int)(colour >> (16 - 8 * c) & 255);
        part[c] = 0;
        for (int i = 1; i < 6; i++)
            if (abs(levels[i] - value) < abs(levels[part[c]] - value)) part[c] = i;
    }
    const int grey = (int)lround((brightness(colour) - 8) / 10);
    const int step = grey < 0 ? 0 : grey > 23 ? 23 : grey, shade = 8 + 10 * step;
    const int cube = distance(colour, levels[part[0]], levels[part[1]], levels[part[2]]);
    if (distance(colour, shade, shade, shade) < cube) return 232 + step;
    return 16 + 36 * part[0] + 6 * part[1] + part[2];
}
