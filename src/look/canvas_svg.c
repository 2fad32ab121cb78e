/* The canvas as SVG: text stays text; large grids of cells become an embedded PNG. */
#include <math.h>
#include <string.h>

#include "look/canvas.h"
#include "look/display_text.h"
#include "look/png.h"

/* Larger grids are embedded as a PNG: a rectangle takes about seventy bytes. */
enum { MAX_RECTS = 4096 };

static void svg_rect(fv_canvas *c, double x, double y, double w, double h, fv_rgb colour)
{
    fv_writer_format(&c->out, "<rect x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\" fill=\"%c\"/>\n",
                     x, y, w, h, colour);
}

static void svg_path(fv_canvas *c, const fv_point *points, size_t count, const fv_stroke *stroke)
{
    fv_writer_format(&c->out, "<path d=\"M%n %n", points[0].x, points[0].y);
    for (size_t i = 1; i < count; i++)
        fv_writer_format(&c->out, "L%n %n", points[i].x, points[i].y);
    fv_writer_format(&c->out, "\" fill=\"none\" stroke=\"%c\" stroke-width=\"%n\"", stroke->colour,
                     stroke->width);
    if (stroke->opacity < 1) fv_writer_format(&c->out, " stroke-opacity=\"%n\"", stroke->opacity);
    if (stroke->dashed) fv_writer_text(&c->out, " stroke-dasharray=\"6 4\"");
    fv_writer_text(&c->out, "/>\n");
}

static void svg_dot(fv_canvas *c, double x, double y, double radius, fv_rgb colour)
{
    fv_writer_format(&c->out, "<circle cx=\"%n\" cy=\"%n\" r=\"%n\" fill=\"%c\"/>\n", x, y, radius,
                     colour);
}

/* One element, so that the word can be searched and copied. */
static void put_stacked(fv_writer *o, const fv_text_style *at, const char *text, double drop)
{
    char letter[FV_CLUSTER_BYTES];
    double middle =
        at->y - ((double)(fv_display_columns(text) / 2) - 0.5) * FV_STACK_PITCH * at->size;
    for (; fv_display_next_cluster(&text, letter) > 0; middle += FV_STACK_PITCH * at->size)
        fv_writer_format(o, "<tspan x=\"%n\" y=\"%n\">%t</tspan>", at->x, middle + drop, letter);
    fv_writer_text(o, "</text>\n");
}

/* The baseline is about a third of the font size below the middle of the capital letters. */
static void svg_text(fv_canvas *c, const fv_text_style *at, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    const double drop = 0.36 * at->size;
    fv_writer *o = &c->out;
    fv_writer_format(o, "<text x=\"%n\" y=\"%n\" font-size=\"%n\" fill=\"%c\"",
                     at->rotated ? at->x + drop : at->x, at->rotated ? at->y : at->y + drop,
                     at->size, at->colour ? at->colour : FV_RGB_INK);
    if (at->anchor != FV_ANCHOR_START)
        fv_writer_format(o, " text-anchor=\"%s\"", anchors[at->anchor]);
    if (at->bold) fv_writer_text(o, " font-weight=\"bold\"");
    if (at->rotated) fv_writer_format(o, " transform=\"rotate(-90 %n %n)\"", at->x + drop, at->y);
    fv_writer_text(o, ">");
    if (at->stacked)
        put_stacked(o, at, text, drop);
    else if (fv_display_has_rtl(text)) /* isolated: its full stop belongs at its left end */
        fv_writer_format(o, "\xE2\x81\xA8%t\xE2\x81\xA9</text>\n", text);
    else
        fv_writer_format(o, "%t</text>\n", text);
}

static void put_image(fv_canvas *c, const fv_cells *cells, int64_t width, int64_t height,
                      const unsigned char *rgb)
{
    fv_writer png = {.ctx = c->ctx};
    fv_png_write(&png, width, height, rgb);
    fv_writer_format(
        &c->out,
        "<image x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\" preserveAspectRatio=\"none\" "
        "image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\" "
        "href=\"data:image/png;base64,",
        cells->x, cells->y, cells->width, cells->height);
    fv_writer_base64(&c->out, png.data, png.bytes);
    fv_writer_text(&c->out, "\"/>\n");
    if (png.failed) c->out.failed = true;
    fv_writer_free(&png);
}

/* Some viewers blur enlarged images regardless of image-rendering, so cells that cover several
 * pixels get several pixels here. */
static void embed(fv_canvas *c, const fv_cells *cells)
{
    const int64_t times_x = (int64_t)ceil(2 * cells->width / (double)cells->cols),
                  times_y = (int64_t)ceil(2 * cells->height / (double)cells->rows);
    if (!cells->as_image || (times_x < 2 && times_y < 2)) {
        put_image(c, cells, cells->cols, cells->rows, cells->rgb);
        return;
    }
    const int64_t width = times_x * cells->cols, height = times_y * cells->rows;
    const size_t bytes = 3 * (size_t)(width * height);
    unsigned char *rgb = fv_mem_alloc(&c->ctx->mem, bytes);
    if (!rgb) {
        c->out.failed = true;
        return;
    }
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            memcpy(rgb + 3 * (y * width + x),
                   cells->rgb + 3 * (y / times_y * cells->cols + x / times_x), 3);
    put_image(c, cells, width, height, rgb);
    fv_mem_free(&c->ctx->mem, rgb, bytes);
}

static void svg_cells(fv_canvas *c, const fv_cells *cells)
{
    if (cells->as_image || cells->rows * cells->cols > MAX_RECTS) {
        embed(c, cells);
        return;
    }
    const double w = cells->width / (double)cells->cols, h = cells->height / (double)cells->rows;
    fv_writer_text(&c->out, "<g shape-rendering=\"crispEdges\">\n");
    for (int64_t i = 0; i < cells->rows; i++)
        for (int64_t j = 0; j < cells->cols; j++) {
            const unsigned char *p = cells->rgb + 3 * (i * cells->cols + j);
            svg_rect(c, cells->x + (double)j * w, cells->y + (double)i * h, w, h,
                     (fv_rgb)p[0] << 16 | (fv_rgb)p[1] << 8 | p[2]);
        }
    fv_writer_text(&c->out, "</g>\n");
}

static void svg_end(fv_canvas *c) { fv_writer_text(&c->out, "</svg>\n"); }

const fv_canvas_ops fv_canvas_svg = {
    .rect = svg_rect,
    .path = svg_path,
    .dot = svg_dot,
    .text = svg_text,
    .cells = svg_cells,
    .end = svg_end,
};
