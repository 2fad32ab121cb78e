/*
 * fovea/look.h: draws attention: heat maps, grids of heads, links between words, light on pictures,
 * and plots.
 *
 *     const char *source[] = {"the", "black", "cat"}, *target[] = {"le", "chat", "noir"};
 *     fv_look_map map = {.rows = 3, .cols = 3, .values = weights,
 *                        .row_labels = target, .col_labels = source, .title = "alignment"};
 *     fv_picture *picture = NULL;
 *     fv_status s = fv_look_map_draw(ctx, &map, FV_LOOK_FORMAT_SVG, NULL, &picture);
 *     if (s == FV_OK) s = fv_picture_save(picture, "alignment.svg");
 *     fv_picture_free(&picture);
 *
 * Formats. SVG is the main one: text stays text, in any script. PNG uses a small built-in font with
 * Latin, Greek and Cyrillic letters; any other character appears as its code point in small
 * hexadecimal digits (4E/2D for U+4E2D). PDF is one page of vectors for papers and slides: Latin
 * text in Helvetica, other characters as in PNG. HTML is one self-contained file; hovering over a
 * cell shows its value. TEXT and TERMINAL are for maps and overlays only: shades of characters, and
 * 256 colours with escape sequences.
 *
 * Labels and titles are UTF-8 and may contain anything: markup is escaped, control characters
 * appear as their symbols (U+2400 ...), invalid bytes as U+FFFD. NULL means no label.
 *
 * Values are clamped to the colour range; NaN has its own colour. The same input gives the same
 * bytes on every machine. Pictures have a white background, so that they work on any page; HTML
 * follows the dark mode of the reader's system.
 *
 * Font files need a build with FreeType and HarfBuzz, otherwise they fail with UNSUPPORTED; the
 * bytes of such a PNG depend on the versions of both.
 *
 * All draw functions fail with ARGUMENT (sizes, ranges, pointers), LIMIT (too large to draw),
 * MEMORY or UNSUPPORTED, with a font file also with IO or FORMAT; *out is then unchanged.
 */
#ifndef FOVEA_LOOK_H
#define FOVEA_LOOK_H

#include "fovea/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pictures -------------------------------------------------------------------- */

typedef enum fv_look_format {
    FV_LOOK_FORMAT_SVG,
    FV_LOOK_FORMAT_PNG,
    FV_LOOK_FORMAT_HTML,
    FV_LOOK_FORMAT_TEXT,     /* plain characters */
    FV_LOOK_FORMAT_TERMINAL, /* 256 colours; half blocks for a large map */
    FV_LOOK_FORMAT_PDF,
    FV_LOOK_FORMAT_COUNT
} fv_look_format;

/* An encoded picture in memory. It belongs to its context: free it first. */
typedef struct fv_picture fv_picture;

/* The encoded bytes, NUL-terminated; their number goes to *bytes unless it is NULL. */
FV_API const char *fv_picture_data(const fv_picture *picture, size_t *bytes);
/* Writes the file atomically: `path` holds the old file or the complete new one. Fails: IO, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_picture_save(const fv_picture *picture, const char *path);
/* Accepts NULL; sets *picture to NULL. */
FV_API void fv_picture_free(fv_picture **picture);

/* The format for a file name ending in .svg, .png, .pdf, .html, .htm or .txt, in any case. Fails:
 * ARGUMENT for any other name. */
FV_API FV_MUST_USE fv_status fv_look_format_from_path(fv_ctx *ctx, const char *path,
                                                      fv_look_format *out);

/* ---- options --------------------------------------------------------------------- */

typedef enum fv_colour_map {
    FV_COLOUR_MAP_BLUES,     /* white to dark blue */
    FV_COLOUR_MAP_HEAT,      /* black, red, light yellow */
    FV_COLOUR_MAP_GREYS,     /* black to white */
    FV_COLOUR_MAP_DIVERGING, /* blue, white, red: signed values */
    FV_COLOUR_MAP_COUNT
} fv_colour_map;

/* Characters of the text formats, other than those of labels. */
typedef enum fv_look_shades {
    FV_LOOK_SHADES_DEFAULT, /* TEXT: ASCII, TERMINAL: blocks */
    FV_LOOK_SHADES_ASCII,   /* . - + ## */
    FV_LOOK_SHADES_BLOCKS,  /* U+2591 to U+2593 and U+2588, and half blocks for a downsampled map in
                               colours */
    FV_LOOK_SHADES_COUNT
} fv_look_shades;

typedef struct fv_look_options {
    size_t struct_size;
    fv_colour_map colours;
    double low, high; /* values of the first and last colour. If equal, the range comes from the
                         data: from 0 to the maximum, or symmetric about 0 with
                         FV_COLOUR_MAP_DIVERGING */
    int cell;         /* width and height of a cell in pixels, 1 to 128; 0: depends on the map */
    bool numbers;     /* write each value into its cell; in text formats, only where it fits */
    int columns;      /* width of the text formats, 20 to 1000; 0: 80 */
    const char *font; /* PNG: a font file (TrueType, OpenType) for any script; NULL: the built-in
                         font. Letters that it lacks are from the built-in font */
    fv_look_shades shades; /* text formats */
} fv_look_options;

/* Sets the defaults, which also apply when options is NULL: blues, range from the data, automatic
 * sizes. */
FV_API void fv_look_options_init(fv_look_options *options, size_t struct_size);

/* ---- heat map -------------------------------------------------------------------- */

enum { FV_LOOK_MAX_SIDE = 16384 };

/* A matrix, usually with tokens on both axes. */
typedef struct fv_look_map {
    int64_t rows, cols;                                /* 0 to FV_LOOK_MAX_SIDE each */
    const float *values;                               /* value (i, j) is values[i * stride + j] */
    int64_t stride;                                    /* 0: cols */
    const char *const *row_labels, *const *col_labels; /* or NULL */
    const char *title, *row_title, *col_title;         /* or NULL */
} fv_look_map;

/* All formats. Labels that do not fit are left out; if one side is much shorter than the other, its
 * cells are made longer to keep their labels. Column labels of wide letters (Chinese, Japanese,
 * Korean) are stacked vertically, others are rotated. In the text formats, a labelled map wider
 * than options->columns is split into panels; one too large for that is downsampled, each cell
 * showing the largest value it covers. */
FV_API FV_MUST_USE fv_status fv_look_map_draw(fv_ctx *ctx, const fv_look_map *map,
                                              fv_look_format form, const fv_look_options *options,
                                              fv_picture **out);

/* Draws the map and saves it, in the format that the path's extension names. Fails: as drawing and
 * fv_picture_save do. */
FV_API FV_MUST_USE fv_status fv_look_map_save(fv_ctx *ctx, const fv_look_map *map,
                                              const fv_look_options *options, const char *path);

/* ---- grid of heads --------------------------------------------------------------- */

/* One small map for each head, in one row for each layer. */
typedef struct fv_look_heads {
    int64_t layers, heads, rows, cols;
    const float *values;                                /* [layers][heads][rows][cols] */
    const char *const *row_labels, *const *col_labels;  /* or NULL; HTML shows them */
    const char *const *layer_names, *const *head_names; /* or NULL: numbers from 0 */
    const char *title;                                  /* or NULL; truncated if too long */
} fv_look_heads;

/* SVG, PNG, PDF, HTML. A map larger than its thumbnail is max-pooled. All heads share one colour
 * range. HTML also shows one head enlarged, as map and links: first the most peaked one, or layer
 * 2, head 5 if the address ends in #2.5; then the one that is clicked. */
FV_API FV_MUST_USE fv_status fv_look_heads_draw(fv_ctx *ctx, const fv_look_heads *heads,
                                                fv_look_format form, const fv_look_options *options,
                                                fv_picture **out);

/* ---- links between words ---------------------------------------------------------- */

/* Two columns of words with a line for each weight: a stronger weight gives a stronger line, and
 * each head has its own colour. With several heads, bars before each word on the right show the
 * mean weight that it gets in each head, of the rows with lines; the largest has the full colour.
 */
typedef struct fv_look_links {
    int64_t heads, rows, cols;
    const float *values;                               /* [layers][heads][rows][cols], in [0, 1] */
    const char *const *row_labels, *const *col_labels; /* queries (left), keys (right) */
    const char *const *head_names;                     /* or NULL: numbers from 0 */
    const char *title;
    int64_t only_row;               /* draw only the links of this row; -1: all */
    double min_weight;              /* do not draw weights below this; 0: 0.02 */
    int64_t layers;                 /* drawn side by side; 0: 1 */
    const char *const *layer_names; /* or NULL: none */
    const char *font;               /* as in fv_look_options */
} fv_look_links;

/* SVG, PNG, PDF, HTML. At most 1,024 rows and columns, 64 heads, 256 layers. In HTML, hovering over
 * a word shows only its lines and lists the strongest; heads can be switched off; arrow keys move
 * between words and heads. */
FV_API FV_MUST_USE fv_status fv_look_links_draw(fv_ctx *ctx, const fv_look_links *links,
                                                fv_look_format form, fv_picture **out);

/* ---- attention over a picture ------------------------------------------------------- */

enum { FV_LOOK_MAX_PANELS = 256 };

/* How attention shows. */
typedef enum fv_look_light {
    FV_LOOK_LIGHT_BRIGHT, /* what is attended to keeps its brightness and gets a warm light, the
                             rest is dark */
    FV_LOOK_LIGHT_HEAT,   /* the picture in grey under the colours of FV_COLOUR_MAP_HEAT */
    FV_LOOK_LIGHT_COUNT
} fv_look_light;

/* The picture once, with the attention of one word, one query pixel, one spoken letter. */
typedef struct fv_look_panel {
    const char *caption; /* below it; NULL: none */
    /* Of a grid of rows x cols cells that covers the picture: weight (i, j) is
     * weights[i * cols + j]. NULL: the picture as it is. */
    int64_t rows, cols;
    const float *weights;
    double mark[4]; /* frame around a query: left, top, right, bottom in pixels of the picture; all
                       0: none */
    const float *pixels; /* a picture of its own, of the overlay's size, as in a film; NULL: the
                            overlay's */
} fv_look_panel;

/*
 * A picture with attention over it: one panel, or several as a film strip with line breaks.
 *
 *     static float dog[3 * 48 * 48], seen[2][7 * 7];
 *     const fv_look_panel panels[] = {
 *         {.caption = "a", .rows = 7, .cols = 7, .weights = seen[0]},
 *         {.caption = "dog", .rows = 7, .cols = 7, .weights = seen[1]}};
 *     fv_look_overlay overlay = {.channels = 3, .height = 48, .width = 48, .pixels = dog,
 *                                .panels = panels, .panel_count = 2, .smooth = true};
 *     fv_picture *strip = NULL;
 *     s = fv_look_overlay_draw(ctx, &overlay, FV_LOOK_FORMAT_SVG, NULL, &strip);
 *
 * A spectrogram is a picture of one channel whose panels are wider than high (panel_width,
 * panel_height).
 */
typedef struct fv_look_overlay {
    int64_t channels, height, width; /* 1 or 3 channels; at most FV_LOOK_MAX_SIDE */
    const float *pixels;             /* [channels][height][width] in 0 .. 1; clamped */
    const fv_look_panel *panels;
    int64_t panel_count; /* 1 to FV_LOOK_MAX_PANELS */
    const char *title;   /* or NULL */
    /* Size of a panel in pixels of the drawing, at most 4096; 0: from the picture's. Either may be
     * given alone; the text formats use their ratio. */
    int panel_width, panel_height;
    int64_t across; /* panels in a row; 0: as many as fit */
    bool smooth;    /* weights are interpolated between the centres of cells */
    fv_look_light light;
} fv_look_overlay;

/* All formats. The strongest weight of each panel has the full light, unless options have a range.
 * Of options, low, high, columns, font and shades are used. Terminals show half blocks, TEXT shades
 * of brightness; the query is marked by a light blue cell or an X. */
FV_API FV_MUST_USE fv_status fv_look_overlay_draw(fv_ctx *ctx, const fv_look_overlay *overlay,
                                                  fv_look_format form,
                                                  const fv_look_options *options, fv_picture **out);

/* ---- points of the plane ------------------------------------------------------------ */

/*
 * Points with lines between them, and beside them a map, such as the probabilities with which a
 * model pointed at each of them.
 *
 *     static const double x[] = {0, 1, 0.5}, y[] = {0, 0.2, 0.9};
 *     const int64_t lines[] = {0, 1, 1, 2, 2, 0};
 *     fv_look_plane plane = {.count = 3, .x = x, .y = y, .lines = lines, .line_count = 3,
 *                            .arrows = true, .title = "a tour"};
 *     fv_picture *tour = NULL;
 *     s = fv_look_plane_draw(ctx, &plane, FV_LOOK_FORMAT_SVG, NULL, &tour);
 */
typedef struct fv_look_plane {
    int64_t count;          /* points, at most 4096 */
    const double *x, *y;    /* finite; drawn with equal scales, y upward */
    const int64_t *lines;   /* [line_count][2]: points that a line connects */
    int64_t line_count;     /* at most 65536 */
    bool arrows;            /* a line has a direction, marked near its end */
    const char *title;      /* or NULL */
    const fv_look_map *map; /* drawn on the right; NULL: none. Not in the text formats */
} fv_look_plane;

/* All formats. Points are labelled with their numbers from 0, as far as there is room. Of options,
 * colours, low and high are used for the map, columns and shades in the text formats. */
FV_API FV_MUST_USE fv_status fv_look_plane_draw(fv_ctx *ctx, const fv_look_plane *plane,
                                                fv_look_format form, const fv_look_options *options,
                                                fv_picture **out);

/* ---- walks on a map --------------------------------------------------------------- */

typedef struct fv_look_step {
    int row, col, heading; /* before the action; heading: 0 up, 1 right, 2 down, 3 left */
    const char *action;
} fv_look_step;

/* A path on a grid, and the words that the agent looked at in each step. */
typedef struct fv_look_walk {
    int64_t rows, cols; /* 1 to 64 each */
    const char *const
        *cell; /* [rows][cols]: NULL free, "#" a wall, else what is there, colour first
                  ("red chair") */
    int64_t step_count, word_count;
    const fv_look_step *step;
    const char *const *word;
    const float *weights; /* [steps][words]; NULL: none are shown */
    const char *title;    /* or NULL */
} fv_look_walk;

/*
 * All formats. The text formats show the map, then a line for each step with its strongest words.
 *
 *     const char *const cells[4] = {NULL, "red chair", "#", NULL};
 *     const fv_look_step steps[] = {{1, 1, 0, "forward"}, {0, 1, 0, "stop"}};
 *     const fv_look_walk walk = {
 *         .rows = 2, .cols = 2, .cell = cells, .step_count = 2, .step = steps};
 *     fv_picture *p = NULL;
 *     s = fv_look_walk_draw(ctx, &walk, FV_LOOK_FORMAT_SVG, NULL, &p);
 *     if (s == FV_OK) s = fv_picture_save(p, "walk.svg");
 */
FV_API FV_MUST_USE fv_status fv_look_walk_draw(fv_ctx *ctx, const fv_look_walk *walk,
                                               fv_look_format form, const fv_look_options *options,
                                               fv_picture **out);

/* ---- plots ------------------------------------------------------------------------ */

typedef enum fv_axis_scale { FV_AXIS_LINEAR, FV_AXIS_LOG10, FV_AXIS_LOG2 } fv_axis_scale;

typedef struct fv_look_axis {
    const char *title;
    fv_axis_scale scale;
    double low, high; /* equal: from the data */
} fv_look_axis;

typedef struct fv_look_series {
    const char *name;    /* in the legend; NULL: not listed */
    const double *x, *y; /* points that are not finite, or not positive on a log axis, are
                            skipped and interrupt the line */
    int64_t count;
    bool points_only; /* scatter plot: no line */
    bool dashed;
    const char *const *labels; /* [count]: text beside each point; NULL: none. One that would cover
                                  an earlier one of the series is left out */
} fv_look_series;

typedef struct fv_look_plot {
    const char *title;
    fv_look_axis x, y;
    const fv_look_series *series;
    int64_t series_count; /* 1 to 64; colours repeat after sixteen */
    int width, height;    /* pixels, 200 to 4096; 0: 720 x 480 */
} fv_look_plot;

/* SVG, PNG, PDF, HTML. */
FV_API FV_MUST_USE fv_status fv_look_plot_draw(fv_ctx *ctx, const fv_look_plot *plot,
                                               fv_look_format form, fv_picture **out);

#ifdef __cplusplus
}
#endif
#endif
