/* PNG encoder: 8-bit RGB, not interlaced. */
#ifndef FV_LOOK_PNG_H
#define FV_LOOK_PNG_H

#include "look/writer.h"

/* The largest raster: 64 Mi pixels, 192 MiB. */
#define FV_PNG_PIXELS (INT64_C(1) << 26)

/* Appends a complete file. width and height are at least 1, width x height at most FV_PNG_PIXELS;
 * `rgb` has three bytes per pixel, rows from the top without gaps. */
void fv_png_write(fv_writer *o, int64_t width, int64_t height, const unsigned char *rgb);

#endif
