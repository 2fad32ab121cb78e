/*
 * The canvas that figures draw on, with three implementations: SVG, PDF and pixels. Lengths are in
 * pixels of the picture, x to the right, y down. The canvas keeps the first error; fv_canvas_end
 * returns it.
 *
 *     fv_canvas c;
 *     FV_TRY(fv_canvas_begin(ctx, &face, width, height, title, &c));
 *     fv_canvas_rect(&c, 10, 10, 80, 20, colour);
 *     fv_canvas_text(&c, &(fv_text_style){.x = 50, .y = 20, .size = 12}, "word");
 *     return fv_canvas_end(&c, out);   // always call it: frees the canvas
 */
#ifndef FV_LOOK_CANVAS_H
#define FV_LOOK_CANVAS_H

#include "look/colour.h"
#include "look/display_text.h"
#include "look/writer.h"

typedef enum fv_anchor { FV_ANCHOR_START, FV_ANCHOR_MIDDLE, FV_ANCHOR_END } fv_anchor;

typedef struct fv_text_style {
    double x, y; /* y is the middle of the capital letters */
    double size;
    fv_anchor anchor;
    bool rotated; /* reads upward; x is then the middle of the capital letters */
    bool stacked; /* letters stacked vertically, centred on x, the last one ending at y */
    bool bold;
    fv_rgb colour; /* 0: FV_RGB_INK */
} fv_text_style;

typedef struct fv_point {
    double x, y;
} fv_point;

typedef struct fv_stroke {
    double width;
    fv_rgb colour;
    double opacity; /* 0 to 1 */
    bool dashed;
} fv_stroke;

/* A grid of rows x cols coloured cells. */
typedef struct fv_cells {
    double x, y, width, height;
    int64_t rows, cols;
    const unsigned char *rgb; /* three bytes per cell */
    bool as_image;            /* in SVG, always an embedded image instead of rectangles */
} fv_cells;

struct fv_canvas;

typedef struct fv_canvas_ops {
    void (*rect)(struct fv_canvas *c, double x, double y, double w, double h, fv_rgb colour);
    void (*path)(struct fv_canvas *c, const fv_point *points, size_t count, const fv_stroke *s);
    void (*dot)(struct fv_canvas *c, double x, double y, double radius, fv_rgb colour);
    void (*text)(struct fv_canvas *c, const fv_text_style *at, const char *text);
    void (*cells)(struct fv_canvas *c, const fv_cells *cells);
    void (*end)(struct fv_canvas *c); /* completes c->out */
} fv_canvas_ops;

typedef struct fv_canvas {
    fv_ctx *ctx;
    fv_look_format format;
    fv_typeface face; /* the caller closes its file */
    const fv_canvas_ops *ops;
    int64_t width, height;
    fv_status status; /* of everything except c->out */
    fv_writer out;
    unsigned char *pixels; /* of a raster, c->scale times as wide and high; otherwise NULL */
    size_t pixel_bytes;
    int scale;
    fv_writer content, offsets; /* PDF: the page's drawing, and a size_t for each object */
    int images;                 /* PDF: how many there are */
    const char *title;
    void (*script)(fv_writer *o,
                   const void *user); /* HTML: writes the script after the drawing; or NULL */
    const void *script_user;
} fv_canvas;

extern const fv_canvas_ops fv_canvas_svg, fv_canvas_pdf, fv_canvas_raster;

/* The header of a PDF. */
void fv_canvas_pdf_begin(fv_canvas *c);

/* Creates a white canvas; sizes are rounded up. An HTML page or a PDF has the title as its own;
 * NULL: none. Fails: LIMIT, MEMORY, UNSUPPORTED (a text format). */
fv_status fv_canvas_begin(fv_ctx *ctx, const fv_typeface *face, double width, double height,
                          const char *title, fv_canvas *out);
fv_status fv_canvas_end(fv_canvas *c, fv_picture **out);

/* Makes a picture of the written bytes and takes ownership of them. Fails if o->failed. */
fv_status fv_picture_from_writer(fv_writer *o, fv_picture **out);

static inline void fv_canvas_rect(fv_canvas *c, double x, double y, double w, double h,
                                  fv_rgb colour)
{
    if (c->status == FV_OK) c->ops->rect(c, x, y, w, h, colour);
}

static inline void fv_canvas_path(fv_canvas *c, const fv_point *points, size_t count,
                                  const fv_stroke *stroke)
{
    if (c->status == FV_OK && count > 1) c->ops->path(c, points, count, stroke);
}

static inline void fv_canvas_line(fv_canvas *c, double x1, double y1, double x2, double y2,
                                  double width, fv_rgb colour)
{
    fv_canvas_path(c, (fv_point[]){{x1, y1}, {x2, y2}}, 2,
                   &(fv_stroke){.width = width, .colour = colour, .opacity = 1});
}

static inline void fv_canvas_dot(fv_canvas *c, double x, double y, double radius, fv_rgb colour)
{
    if (c->status == FV_OK) c->ops->dot(c, x, y, radius, colour);
}

/* NULL and "" draw nothing. */
static inline void fv_canvas_text(fv_canvas *c, const fv_text_style *at, const char *text)
{
    if (c->status == FV_OK && text && *text) c->ops->text(c, at, text);
}

/* rows and cols are at least 1. */
static inline void fv_canvas_cells(fv_canvas *c, const fv_cells *cells)
{
    if (c->status == FV_OK) c->ops->cells(c, cells);
}

#endif
