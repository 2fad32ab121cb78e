/*
 * The canvas as a PDF of one page: lines, rectangles and text stay vectors; large grids of cells
 * become images without interpolation. Latin letters are text in Helvetica, which every viewer has;
 * other characters are drawn as in a PNG, from the built-in font.
 *
 * Objects: 1 catalog, 2 page tree, 3 page, 4 content, 5 and 6 fonts, 7 title, then the images.
 * Images are written as they come, the others at the end. Pixels are 3/4 of a point (96 dpi), and
 * the content begins by turning the y axis down.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "look/canvas.h"
#include "look/deflate.h"
#include "look/display_text.h"
#include "look/font.h"
#include "look/helvetica.h"

enum {
    CATALOG = 1,
    PAGES,
    PAGE,
    CONTENT,
    REGULAR,
    BOLD,
    INFO,
    FIRST_IMAGE,
    MAX_RECTS = 4096, /* larger grids become images */
    OPACITIES = 64    /* graphics states: opacity in steps of 1/64 */
};

static const double points = 0.75; /* per pixel */

/* ---- drawing --------------------------------------------------------------------------------- */

/* "r g b rg" or "RG": the colour of what is filled, or of lines. */
static void put_colour(fv_writer *o, fv_rgb colour, const char *op)
{
    char part[FV_FIXED_BYTES];
    for (int shift = 16; shift >= 0; shift -= 8)
        fv_writer_format(o, "%s ", fv_fixed((double)(colour >> shift & 255) / 255, 4, true, part));
    fv_writer_format(o, "%s\n", op);
}

static void pdf_rect(fv_canvas *c, double x, double y, double w, double h, fv_rgb colour)
{
    put_colour(&c->content, colour, "rg");
    fv_writer_format(&c->content, "%n %n %n %n re f\n", x, y, w, h);
}

static void pdf_path(fv_canvas *c, const fv_point *points_, size_t count, const fv_stroke *stroke)
{
    fv_writer *o = &c->content;
    const double opacity = fmin(fmax(stroke->opacity, 0), 1);
    fv_writer_format(o, "q /G%d gs\n", (int)lround(opacity * OPACITIES));
    put_colour(o, stroke->colour, "RG");
    fv_writer_format(o, "%n w %s%n %n m\n", stroke->width, stroke->dashed ? "[6 4] 0 d " : "",
                     points_[0].x, points_[0].y);
    for (size_t i = 1; i < count; i++)
        fv_writer_format(o, "%n %n l\n", points_[i].x, points_[i].y);
    fv_writer_text(o, "S Q\n");
}

/* Four Bezier curves; 0.5523 makes them a circle to within 0.03 % of its radius. */
static void pdf_dot(fv_canvas *c, double x, double y, double radius, fv_rgb colour)
{
    static const double turn[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    const double k = 0.5523 * radius;
    put_colour(&c->content, colour, "rg");
    fv_writer_format(&c->content, "%n %n m\n", x + radius, y);
    for (int i = 0; i < 4; i++) {
        const double *a = turn[i], *b = turn[(i + 1) % 4];
        fv_writer_format(&c->content, "%n %n %n %n %n %n c\n", x + a[0] * radius + b[0] * k,
                         y + a[1] * radius + b[1] * k, x + b[0] * radius + a[0] * k,
                         y + b[1] * radius + a[1] * k, x + b[0] * radius, y + b[1] * radius);
    }
    fv_writer_text(&c->content, "f\n");
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A text's coordinates: `along` from its left end, `up` from its baseline. */
typedef struct pen {
    fv_writer *o;
    double x, y;
    bool rotated;
} pen;

static double page_x(const pen *p, double along, double up)
{
    return p->rotated ? p->x - up : p->x + along;
}

static double page_y(const pen *p, double along, double up)
{
    return p->rotated ? p->y - along : p->y - up;
}

/* A glyph of the built-in font: each row's pixels as rectangles. Returns its width. */
static double put_glyph(const pen *p, uint32_t code, double along, double size)
{
    fv_glyph g;
    const double pixel = size * FV_HELVETICA_CAPITAL / (FV_GLYPH_BASE - FV_GLYPH_CAPITAL);
    fv_font_glyph_or_code(code, &g);
    const double left = g.combining ? along - (g.width + 1) * pixel : along;
    for (int row = 0; row < FV_GLYPH_ROWS; row++)
        for (int x = 0; x < g.width; x++) {
            int end = x;
            while (end < g.width && (g.rows[row] >> end & 1))
                end++;
            if (end == x) continue;
            const double a = left + x * pixel, b = left + end * pixel;
            const double up = (FV_GLYPH_BASE - row) * pixel, low = up - pixel;
            const double x0 = page_x(p, a, low), y0 = page_y(p, a, low);
            fv_writer_format(p->o, "%n %n %n %n re\n", x0, y0, page_x(p, b, up) - x0,
                             page_y(p, b, up) - y0);
            x = end;
        }
    fv_writer_text(p->o, "f\n");
    return g.combining ? 0 : (g.width + 1) * pixel;
}

/* Characters of the text font from *text on; advances it. Returns their width. */
static double put_run(const pen *p, const char **text, double along, const fv_text_style *at)
{
    double width = 0;
    fv_writer_format(p->o, "BT /F%d %n Tf %s %n %n Tm (", at->bold ? BOLD : REGULAR, at->size,
                     p->rotated ? "0 -1 -1 0" : "1 0 0 -1", page_x(p, along, 0),
                     page_y(p, along, 0));
    for (const char *next = *text;; *text = next) {
        const uint32_t code = fv_display_next(&next);
        const unsigned char byte = fv_helvetica_byte(code);
        if (code == 0 || byte == 0) break;
        if (byte == '(' || byte == ')' || byte == '\\') fv_writer_text(p->o, "\\");
        fv_writer_bytes(p->o, &byte, 1);
        width += fv_helvetica_width(byte) * at->size * (at->bold ? FV_HELVETICA_BOLD : 1);
    }
    fv_writer_text(p->o, ") Tj ET\n");
    return width;
}

static void pdf_text(fv_canvas *c, const fv_text_style *at, const char *text)
{
    const double width = fv_display_width(&c->face, text, at->size), drop = 0.36 * at->size;
    const double back = at->anchor == FV_ANCHOR_START    ? 0
                        : at->anchor == FV_ANCHOR_MIDDLE ? width / 2
                                                         : width;
    const pen p = {.o = &c->content,
                   .x = at->x + (at->rotated ? drop : -back),
                   .y = at->y + (at->rotated ? back : drop),
                   .rotated = at->rotated};
    put_colour(p.o, at->colour ? at->colour : FV_RGB_INK, "rg");
    for (double along = 0; *text;) {
        const char *next = text;
        const uint32_t code = fv_display_next(&next);
        if (fv_helvetica_byte(code)) {
            along += put_run(&p, &text, along, at);
            continue;
        }
        along += put_glyph(&p, code, along, at->size);
        text = next;
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Notes where object `number` begins. */
static void begin_object(fv_canvas *c, int number)
{
    const size_t at = c->out.bytes, index = (size_t)number * sizeof at;
    while (c->offsets.bytes < index + sizeof at && !c->offsets.failed)
        fv_writer_bytes(&c->offsets, &(size_t){0}, sizeof at);
    if (c->offsets.failed) return;
    memcpy(c->offsets.data + index, &at, sizeof at);
    fv_writer_format(&c->out, "%d 0 obj\n", number);
}

/* A stream, whose dictionary begins with `entries`. */
static void put_stream(fv_canvas *c, const char *entries, const unsigned char *data, size_t bytes,
                       const size_t likely[2])
{
    fv_writer packed = {.ctx = c->ctx};
    fv_deflate(&packed, data, bytes, likely);
    fv_writer_format(&c->out, "<<%s/Filter/FlateDecode/Length %d/DL %d>>\nstream\n", entries,
                     (int)packed.bytes, (int)bytes);
    fv_writer_bytes(&c->out, packed.data, packed.bytes);
    fv_writer_text(&c->out, "\nendstream\nendobj\n");
    if (packed.failed) c->out.failed = true;
    fv_writer_free(&packed);
}

static void pdf_cells(fv_canvas *c, const fv_cells *cells)
{
    const double w = cells->width / (double)cells->cols, h = cells->height / (double)cells->rows;
    if (!cells->as_image && cells->rows * cells->cols <= MAX_RECTS) {
        for (int64_t i = 0; i < cells->rows; i++)
            for (int64_t j = 0; j < cells->cols; j++) {
                const unsigned char *p = cells->rgb + 3 * (i * cells->cols + j);
                pdf_rect(c, cells->x + (double)j * w, cells->y + (double)i * h, w, h,
                         (fv_rgb)p[0] << 16 | (fv_rgb)p[1] << 8 | p[2]);
            }
        return;
    }
    char entries[160];
    const int number = FIRST_IMAGE + c->images++;
    snprintf(entries, sizeof entries,
             "/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceRGB"
             "/BitsPerComponent 8",
             (int)cells->cols, (int)cells->rows);
    begin_object(c, number);
    put_stream(c, entries, cells->rgb, 3 * (size_t)(cells->rows * cells->cols),
               (size_t[]){3, 3 * (size_t)cells->cols});
    fv_writer_format(&c->content, "q %n 0 0 %n %n %n cm /I%d Do Q\n", cells->width, -cells->height,
                     cells->x, cells->y + cells->height, number);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void put_font(fv_canvas *c, int number, const char *name)
{
    begin_object(c, number);
    fv_writer_format(&c->out,
                     "<</Type/Font/Subtype/Type1/BaseFont/%s/Encoding/WinAnsiEncoding>>\nendobj\n",
                     name);
}

static void put_page(fv_canvas *c)
{
    fv_writer *o = &c->out;
    char opacity[FV_FIXED_BYTES];
    begin_object(c, PAGE);
    fv_writer_format(o,
                     "<</Type/Page/Parent %d 0 R/MediaBox[0 0 %n %n]/Contents %d 0 R/Resources<<"
                     "/Font<</F%d %d 0 R/F%d %d 0 R>>/ExtGState<<",
                     (int)PAGES, points * (double)c->width, points * (double)c->height,
                     (int)CONTENT, (int)REGULAR, (int)REGULAR, (int)BOLD, (int)BOLD);
    for (int i = 0; i <= OPACITIES; i++)
        fv_writer_format(o, "/G%d<</CA %s>>", i, fv_fixed((double)i / OPACITIES, 4, true, opacity));
    fv_writer_text(o, ">>/XObject<<");
    for (int i = FIRST_IMAGE; i < FIRST_IMAGE + c->images; i++)
        fv_writer_format(o, "/I%d %d 0 R", i, i);
    fv_writer_text(o, ">>>>>>\nendobj\n");
}

/* The title as UTF-16 in hexadecimal. */
static void put_title(fv_canvas *c)
{
    char unit[8];
    begin_object(c, INFO);
    fv_writer_text(&c->out, "<</Producer(Fovea)/Title<FEFF");
    for (const char *at = c->title ? c->title : ""; *at;) {
        const uint32_t code = fv_display_next(&at);
        if (code >= 0x10000) {
            snprintf(unit, sizeof unit, "%04X", 0xD800 + (unsigned)((code - 0x10000) >> 10));
            fv_writer_text(&c->out, unit);
        }
        const unsigned low = code >= 0x10000 ? 0xDC00 + (code & 0x3FF) : code;
        snprintf(unit, sizeof unit, "%04X", low & 0xFFFF);
        fv_writer_text(&c->out, unit);
    }
    fv_writer_text(&c->out, ">>>\nendobj\n");
}

static void put_table(fv_canvas *c)
{
    const int count = FIRST_IMAGE + c->images;
    const size_t start = c->out.bytes;
    char line[32];
    fv_writer_format(&c->out, "xref\n0 %d\n0000000000 65535 f \n", count);
    for (int i = 1; i < count && !c->offsets.failed; i++) {
        size_t at = 0;
        memcpy(&at, c->offsets.data + (size_t)i * sizeof at, sizeof at);
        snprintf(line, sizeof line, "%010zu 00000 n \n", at);
        fv_writer_text(&c->out, line);
    }
    snprintf(line, sizeof line, "%zu", start);
    fv_writer_format(&c->out,
                     "trailer\n<</Size %d/Root %d 0 R/Info %d 0 R>>\nstartxref\n%s\n%%%%EOF\n",
                     count, (int)CATALOG, (int)INFO, line);
}

void fv_canvas_pdf_begin(fv_canvas *c)
{
    fv_writer_text(&c->out, "%PDF-1.4\n%\xE2\xE3\xCF\xD3\n");
    fv_writer_format(&c->content, "%n 0 0 %n 0 %n cm\n", points, -points,
                     points * (double)c->height);
}

static void pdf_end(fv_canvas *c)
{
    begin_object(c, CATALOG);
    fv_writer_format(&c->out, "<</Type/Catalog/Pages %d 0 R>>\nendobj\n", (int)PAGES);
    begin_object(c, PAGES);
    fv_writer_format(&c->out, "<</Type/Pages/Kids[%d 0 R]/Count 1>>\nendobj\n", (int)PAGE);
    put_page(c);
    begin_object(c, CONTENT);
    put_stream(c, "", (const unsigned char *)c->content.data, c->content.bytes, (size_t[]){1, 1});
    put_font(c, REGULAR, "Helvetica");
    put_font(c, BOLD, "Helvetica-Bold");
    put_title(c);
    put_table(c);
    if (c->content.failed || c->offsets.failed) c->out.failed = true;
}

const fv_canvas_ops fv_canvas_pdf = {
    .rect = pdf_rect,
    .path = pdf_path,
    .dot = pdf_dot,
    .text = pdf_text,
    .cells = pdf_cells,
    .end = pdf_end,
};
