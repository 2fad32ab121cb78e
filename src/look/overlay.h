/* Shared by the forms of an overlay: the colours of a picture under attention. */
#ifndef FV_LOOK_OVERLAY_H
#define FV_LOOK_OVERLAY_H

#include "look/figure.h"

/* Which part of the drawing shows a panel. */
typedef struct fv_overlay_view {
    const fv_look_overlay *overlay;
    const fv_look_panel *panel;
    double low, high; /* weights without light and with all of it */
    bool mark;        /* colours the marked rectangle, for forms that cannot frame it */
} fv_overlay_view;

#define FV_OVERLAY_MARK 0x35c4ffu

fv_overlay_view fv_overlay_view_of(const fv_look_overlay *overlay, int64_t panel,
                                   const fv_look_options *options);

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
