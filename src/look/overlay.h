/* Shared by the forms of an overlay: the colours of a picture under attention. */
#ifndef FV_LOOK_OVERLAY_H
#define FV_LOOK_OVERLAY_H

#include "look/figure.h"

/* Which part of the drawing shows a panel. */
typedef struct fv_overlay_view {
    const fv_look_overlay *overlay;
    const fv_look_panel *panel;
    double low, high;    /* weights without light and with all of it */
    bool mark;           /* colours the marked rectangle, for forms that cannot frame it */
    const double *means; /* from fv_overlay_means_use, for the same rows and cols; NULL: computed */
} fv_overlay_view;

/* The means of a large picture's pixels, [rows][cols][3], which are those of every panel that shows
 * it: a film of a photo reads its millions of pixels once. Starts as zeros. */
typedef struct fv_overlay_means {
    double *values;
    int64_t rows, cols;
    size_t bytes;
} fv_overlay_means;

#define FV_OVERLAY_MARK 0x35c4ffu

fv_overlay_view fv_overlay_view_of(const fv_look_overlay *overlay, int64_t panel,
                                   const fv_look_options *options);

/* Gives the view the means for rows x cols cells, and computes them first where they are others.
 * Does nothing for a panel with a picture of its own, for pictures that are not much larger than a
 * panel, and where memory runs out. */
void fv_overlay_means_use(fv_ctx *ctx, fv_overlay_means *means, int64_t rows, int64_t cols,
                          fv_overlay_view *view);
void fv_overlay_means_free(fv_ctx *ctx, fv_overlay_means *means);

/* Height of a panel divided by its width. */
double fv_overlay_ratio(const fv_look_overlay *overlay);

/* Writes rows x cols pixels of three bytes: each the mean of the picture's pixels that it covers
 * (the nearest where it covers less than one), lit by the attention at its centre. */
void fv_overlay_compose(const fv_overlay_view *view, int64_t rows, int64_t cols,
                        unsigned char *rgb);

/* The overlay as text. */
fv_status fv_overlay_print(fv_ctx *ctx, const fv_look_overlay *overlay, bool colour,
                           const fv_look_options *options, fv_picture **out);

#endif
