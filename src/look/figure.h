/* Shared by all figures: options, pooled values, coloured cells, the HTML page. */
#ifndef FV_LOOK_FIGURE_H
#define FV_LOOK_FIGURE_H

#include "look/canvas.h"
#include "look/display_text.h"

/* Merges the caller's options with the defaults and checks them. Fails: ARGUMENT. */
fv_status fv_look_options_check(fv_ctx *ctx, const fv_look_options *options, fv_look_options *full);

/* The matrix to show. */
typedef struct fv_values {
    const float *at;
    int64_t rows, cols, stride;
} fv_values;

/*
 * The value of cell (i, j) after max-pooling to out_rows x out_cols cells; with `signed_`, the
 * value farthest from 0. NaN only if the cell covers nothing else.
 */
float fv_values_pooled(const fv_values *v, int64_t out_rows, int64_t out_cols, int64_t i, int64_t j,
                       bool signed_);

/* Draws the values, pooled to where->rows x where->cols cells, at the position of `where`; its rgb
 * is ignored. */
void fv_figure_cells(fv_canvas *c, const fv_values *v, const fv_colour_range *range,
                     const fv_cells *where);

/* The colour bar: 12 x height at (x, y), with the values of its ends to the right. */
void fv_figure_colour_bar(fv_canvas *c, const fv_colour_range *range, double x, double y,
                          double height);

enum { FV_TITLE_SIZE = 14 };

/* Truncates a bold title that is wider than both `max` and the figure. Returns the width of the
 * figure with margins and title. */
double fv_figure_title(const fv_typeface *face, const char *title, double width, double margin,
                       double max, char label[FV_LABEL_BYTES]);

/* Width of the colour bar with its labels. */
double fv_figure_colour_bar_width(const fv_typeface *face, const fv_colour_range *range);

/* Width of the widest of every step-th label; 0 without labels. */
double fv_figure_widest(const fv_typeface *face, const char *const *labels, int64_t count,
                        int64_t step, double size);

/* Begin and end of the page of an HTML figure; figures write their scripts in between. */
void fv_html_begin(fv_writer *o, const char *title);
void fv_html_end(fv_writer *o);

/* JavaScript arrays: of labels (NULL: []), and of rows as base64 of their floats. */
void fv_script_labels(fv_writer *o, const char *const *labels, int64_t count);
void fv_script_rows(fv_writer *o, const fv_values *v);

/* A heat map as text. */
fv_status fv_heatmap_print(fv_ctx *ctx, const fv_look_map *map, bool colour,
                           const fv_look_options *options, fv_picture **out);

#endif
