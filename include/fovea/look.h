/*
 * fovea/look.h: pictures of attention: weight maps, grids of heads, links between words, and plots.
 *
 *     const char *source[] = {"the", "black", "cat"}, *target[] = {"le", "chat", "noir"};
 *     fv_look_map map = {.rows = 3, .cols = 3, .values = weights,
 *                        .row_labels = target, .col_labels = source, .title = "alignment"};
 *     fv_picture *picture = NULL;
 *     fv_status s = fv_look_map_draw(ctx, &map, FV_LOOK_SVG, NULL, &picture);
 *     if (s == FV_OK) s = fv_picture_save(picture, "alignment.svg");
 *     fv_picture_free(&picture);
 *
 * Forms. SVG is the primary one: text stays text, in any script. PNG is drawn with a small built-in
 * font for Latin, Greek and Cyrillic letters (English, French, Polish, Russian and their
 * neighbours); any other character is shown by its number, a block of small hexadecimal digits
 * (4E/2D for U+4E2D), never left out. HTML is one file without outside resources; pointing at a
 * cell shows its value. TEXT and TERMINAL are for maps: shades of plain characters, and 256 colours
 * with escape sequences.
 *
 * Labels and titles are UTF-8 and may hold anything: markup is escaped, control characters appear
 * as their symbols (U+2400 ...), broken bytes as U+FFFD. NULL stands for no label.
 *
 * Values are clamped to the colour range; NaN has a colour of its own. The same input gives the
 * same bytes on every machine. All pictures have a white ground, so that they can lie on any page;
 * HTML turns dark where the reader's system is.
 *
 * Common failures: ARGUMENT (sizes, ranges, pointers), LIMIT (too large to draw), MEMORY,
 * UNSUPPORTED. On failure *out is untouched.
 */
#ifndef FOVEA_LOOK_H
#define FOVEA_LOOK_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pictures -------------------------------------------------------------------- */

typedef enum fv_look_form {
    FV_LOOK_SVG,
    FV_LOOK_PNG,
    FV_LOOK_HTML,
    FV_LOOK_TEXT,     /* plain characters */
    FV_LOOK_TERMINAL, /* 256 colours; half blocks where a map is large */
    FV_LOOK_FORM_COUNT
} fv_look_form;

/* A finished file in memory. Belongs to its context: free it before that. */
typedef struct fv_picture fv_picture;

/* The bytes, and how many through `bytes` (may be NULL). A NUL follows the last one. */
FV_API const char *fv_picture_data(const fv_picture *picture, size_t *bytes);
/* Writes the file in one step: the old one stays whole until the new one is. Fails: IO, MEMORY. */
FV_API FV_MUST_USE fv_status fv_picture_save(const fv_picture *picture, const char *path);
/* NULL is fine; *picture becomes NULL. */
FV_API void fv_picture_free(fv_picture **picture);

/* The form that a file name asks for: .svg, .png, .html, .htm, .txt in any case. Another ending is
 * FV_ERR_ARGUMENT. */
FV_API FV_MUST_USE fv_status fv_look_form_of(fv_ctx *ctx, const char *path, fv_look_form *out);

/* ---- options --------------------------------------------------------------------- */

typedef enum fv_colour_map {
    FV_COLOURS_BLUES,     /* white to dark blue: weights on a page */
    FV_COLOURS_HEAT,      /* black over red to light yellow */
    FV_COLOURS_GREYS,     /* black to white */
    FV_COLOURS_DIVERGING, /* blue, white, red: scores with a sign */
    FV_COLOUR_MAP_COUNT
} fv_colour_map;

typedef struct fv_look_options {
    size_t struct_size;
    fv_colour_map colours;
    double low, high; /* values of the first and last colour; equal: taken from the data, from 0 up,
                         or as far below 0 as above it with FV_COLOURS_DIVERGING */
    int cell;         /* sides of a map's cells in pixels, 1 to 128; 0: by the size of the map */
    bool numbers;     /* write each value into its cell; text forms: where there is room */
    int columns;      /* width of the text forms, 20 to 1000; 0: 80 */
} fv_look_options;

/* Blues, range from the data, sizes chosen. Passing NULL for options means these. */
FV_API void fv_look_options_init(fv_look_options *options, size_t struct_size);

/* ---- a map ----------------------------------------------------------------------- */

enum { FV_LOOK_MAX_SIDE = 16384 };

/* A matrix with words on both axes. */
typedef struct fv_look_map {
    int64_t rows, cols;                                /* 0 to FV_LOOK_MAX_SIDE each */
    const float *values;                               /* value (i, j) is values[i * stride + j] */
    int64_t stride;                                    /* 0: cols */
    const char *const *row_labels, *const *col_labels; /* or NULL */
    const char *title, *row_title, *col_title;         /* or NULL */
} fv_look_map;

/* Every form. A large map is drawn without the labels that would not fit; a side much shorter than
 * the other gets longer cells, so that it keeps its labels. Words of wide letters (Chinese,
 * Japanese, Korean) stand upright over their columns, other words are turned. In the text forms a
 * labelled map wider than options->columns is folded into panels; one too large for that is made
 * smaller, and each cell shows the largest value it stands for. */
FV_API FV_MUST_USE fv_status fv_look_map_draw(fv_ctx *ctx, const fv_look_map *map,
                                              fv_look_form form, const fv_look_options *options,
                                              fv_picture **out);

/* ---- all heads at a glance -------------------------------------------------------- */

/* Small maps, one row of them for each layer. */
typedef struct fv_look_heads {
    int64_t layers, heads, rows, cols;
    const float *values;                                /* [layers][heads][rows][cols] */
    const char *const *row_labels, *const *col_labels;  /* or NULL; HTML shows them */
    const char *const *layer_names, *const *head_names; /* or NULL: numbers from 0 */
    const char *title;                                  /* or NULL; cut where it is too long */
} fv_look_heads;

/* SVG, PNG, HTML. A map larger than its place shows the largest value of each part. In HTML, one
 * head is shown large too, its map and its links: the most decided one at first, layer 2's head 5
 * with #2.5 behind the address, then whichever is clicked. All heads share one colour range. */
FV_API FV_MUST_USE fv_status fv_look_heads_draw(fv_ctx *ctx, const fv_look_heads *heads,
                                                fv_look_form form, const fv_look_options *options,
                                                fv_picture **out);

/* ---- links between words ---------------------------------------------------------- */

/* Two columns of words and a line for each weight, as strong as the weight; a colour for each head.
 */
typedef struct fv_look_links {
    int64_t heads, rows, cols;
    const float *values;                               /* [heads][rows][cols], weights in [0, 1] */
    const char *const *row_labels, *const *col_labels; /* who looks (left), what at (right) */
    const char *const *head_names;                     /* or NULL: numbers from 0 */
    const char *title;
    int64_t only_row; /* draw the links of this row alone; -1: of all */
    double least;     /* weights below this have no line; 0: 0.02 */
} fv_look_links;

/* SVG, PNG, HTML. At most 1,024 rows and columns, 64 heads. In HTML, pointing at a word shows its
 * lines alone and names the strongest; heads can be turned off; arrow keys go from word to word and
 * from head to head. */
FV_API FV_MUST_USE fv_status fv_look_links_draw(fv_ctx *ctx, const fv_look_links *links,
                                                fv_look_form form, fv_picture **out);

/* ---- plots ------------------------------------------------------------------------ */

typedef enum fv_axis_scale { FV_AXIS_LINEAR, FV_AXIS_LOG10, FV_AXIS_LOG2 } fv_axis_scale;

typedef struct fv_look_axis {
    const char *title;
    fv_axis_scale scale;
    double low, high; /* equal: from the data */
} fv_look_axis;

typedef struct fv_look_series {
    const char *name;    /* in the legend; NULL: not there */
    const double *x, *y; /* a point that is not finite, or not positive on a log axis, is left out
                            and breaks the line */
    int64_t count;
    bool points_only; /* a scatter: no line */
    bool dashed;
} fv_look_series;

typedef struct fv_look_plot {
    const char *title;
    fv_look_axis x, y;
    const fv_look_series *series;
    int64_t series_count; /* 1 to 64; colours repeat after sixteen */
    int width, height;    /* pixels, 200 to 4096; 0: 720 x 480 */
} fv_look_plot;

/* SVG, PNG, HTML. */
FV_API FV_MUST_USE fv_status fv_look_plot_draw(fv_ctx *ctx, const fv_look_plot *plot,
                                               fv_look_form form, fv_picture **out);

#ifdef __cplusplus
}
#endif
#endif
