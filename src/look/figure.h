/* What the figures share: options, reduced values, coloured cells, the page around HTML. */
#ifndef FV_LOOK_FIGURE_H
#define FV_LOOK_FIGURE_H

#include "look/canvas.h"
#include "look/display_text.h"

/* The caller's options over the defaults, checked. Fails: ARGUMENT. */
fv_status fv_look_options_check(fv_ctx *ctx, const fv_look_options *options, fv_look_options *full);

/* A matrix of values that is shown. */
typedef struct fv_values {
    const float *at;
    int64_t rows, cols, stride;
} fv_values;

/*
 * The value that cell (i, j) of an out_rows x out_cols picture stands for: of all values under it
 * the largest, or the one farthest from 0 (`signed_`). NaN only where nothing else is.
 */
float fv_values_pooled(const fv_values *v, int64_t out_rows, int64_t out_cols, int64_t i, int64_t j,
                       bool signed_);

/* Draws the values as `where` says, whose rows and cols are at most as many as there are values;
 * its rgb is not read. */
void fv_figure_cells(fv_canvas *c, const fv_values *v, const fv_colour_range *range,
                     const fv_cells *where);

/* Which colour stands for what: a bar of 12 x height at (x, y), its ends named to the right. */
void fv_figure_colour_bar(fv_canvas *c, const fv_colour_range *range, double x, double y,
                          double height);

enum { FV_TITLE_SIZE = 14 };

/* A bold title cut where it is wider than `most` and than the figure. Returns how wide a figure of
 * `width` with such margins becomes by it. */
double fv_figure_title(fv_look_format format, const char *title, double width, double margin,
                       double max, char label[FV_LABEL_BYTES]);

/* How wide the bar and its names are. */
double fv_figure_colour_bar_width(fv_look_format format, const fv_colour_range *range);

/* The widest of every step-th label; 0 without labels. */
double fv_figure_widest(fv_look_format format, const char *const *labels, int64_t count,
                        int64_t step, double size);

/* The end of the page around an HTML figure; figures add scripts between. */
void fv_html_begin(fv_writer *o);
void fv_html_end(fv_writer *o);

/* JavaScript arrays: of labels (NULL: []), and of rows as base64 of their floats. */
void fv_script_labels(fv_writer *o, const char *const *labels, int64_t count);
void fv_script_rows(fv_writer *o, const fv_values *v);

/* A map as characters. */
fv_status fv_heatmap_print(fv_ctx *ctx, const fv_look_map *map, bool colour,
                           const fv_look_options *options, fv_picture **out);

#endif
