/* The canvas as pixels, encoded as PNG. */
#include <math.h>
#include <string.h>

#include "look/canvas.h"
#include "look/display_text.h"
#include "look/font.h"
#include "look/png.h"

static int64_t raster_width(const fv_canvas *c) { return c->width * c->scale; }
static int64_t raster_height(const fv_canvas *c) { return c->height * c->scale; }

/* Blends a colour over a pixel with opacity `cover`; ignores pixels outside the canvas. */
static void blend(fv_canvas *c, int64_t x, int64_t y, fv_rgb colour, double cover)
{
    if (x < 0 || y < 0 || x >= raster_width(c) || y >= raster_height(c) || cover <= 0) return;
    unsigned char *p = c->pixels + 3 * (y * raster_width(c) + x);
    for (int i = 0; i < 3; i++) {
        const double over = (double)(colour >> (16 - 8 * i) & 255);
        p[i] = (unsigned char)lround(p[i] + (over - p[i]) * fmin(cover, 1));
    }
}

static int64_t edge(double at, int64_t max)
{
    const double rounded = floor(at + 0.5);
    return rounded <= 0 ? 0 : rounded >= (double)max ? max : (int64_t)rounded;
}

/* Edges are rounded to whole pixels, so that adjacent rectangles leave no gap. */
static void raster_rect(fv_canvas *c, double x, double y, double w, double h, fv_rgb colour)
{
    const int64_t left = edge(x * c->scale, raster_width(c)),
                  right = edge((x + w) * c->scale, raster_width(c)),
                  top = edge(y * c->scale, raster_height(c)),
                  bottom = edge((y + h) * c->scale, raster_height(c));
    const unsigned char rgb[3] = {(unsigned char)(colour >> 16), (unsigned char)(colour >> 8),
                                  (unsigned char)colour};
    for (int64_t j = top; j < bottom; j++)
        for (int64_t i = left; i < right; i++)
            memcpy(c->pixels + 3 * (j * raster_width(c) + i), rgb, 3);
}

/* ---- lines ----------------------------------------------------------------------- */

static double distance_to_segment(double x, double y, fv_point a, fv_point b)
{
    const double dx = b.x - a.x, dy = b.y - a.y, square = dx * dx + dy * dy;
    double t = square > 0 ? ((x - a.x) * dx + (y - a.y) * dy) / square : 0;
    t = fmin(fmax(t, 0), 1);
    return hypot(x - a.x - t * dx, y - a.y - t * dy);
}

/* Steps along the longer direction and blends the few pixels across the line, each by its coverage.
 */
static void segment(fv_canvas *c, fv_point a, fv_point b, const fv_stroke *stroke)
{
    const bool steep = fabs(b.y - a.y) > fabs(b.x - a.x);
    const double half = 0.5 * stroke->width * c->scale;
    const double a_along = steep ? a.y : a.x, b_along = steep ? b.y : b.x;
    const double a_across = steep ? a.x : a.y, b_across = steep ? b.x : b.y;
    const double slope = b_along == a_along ? 0 : (b_across - a_across) / (b_along - a_along);
    const double reach = half * hypot(1, slope) + 1.5;
    const int64_t max = steep ? raster_height(c) : raster_width(c);
    const int64_t from = edge(fmin(a_along, b_along) - half - 1, max),
                  to = edge(fmax(a_along, b_along) + half + 1, max);
    for (int64_t i = from; i < to; i++) {
        const double middle = a_across + slope * ((double)i + 0.5 - a_along);
        for (int64_t j = (int64_t)floor(middle - reach); (double)j <= middle + reach; j++) {
            const int64_t x = steep ? j : i, y = steep ? i : j;
            const double d = distance_to_segment((double)x + 0.5, (double)y + 0.5, a, b);
            blend(c, x, y, stroke->colour, fmin(half + 0.5 - d, 1) * stroke->opacity);
        }
    }
}

/* Draws a segment as dashes of 6 with gaps of 4; *at is its position in the pattern. */
static void dashes(fv_canvas *c, fv_point a, fv_point b, const fv_stroke *stroke, double *at)
{
    const double on = 6.0 * c->scale, all = 10.0 * c->scale;
    const double length = hypot(b.x - a.x, b.y - a.y);
    for (double done = 0; done < length;) {
        const double phase = fmod(*at, all);
        const double step = fmin((phase < on ? on : all) - phase, length - done);
        if (step <= 0) break;
        const double s = done / length, t = (done + step) / length;
        if (phase < on)
            segment(c, (fv_point){a.x + s * (b.x - a.x), a.y + s * (b.y - a.y)},
                    (fv_point){a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}, stroke);
        done += step;
        *at += step;
    }
}

static void raster_path(fv_canvas *c, const fv_point *points, size_t count, const fv_stroke *stroke)
{
    double at = 0;
    for (size_t i = 1; i < count; i++) {
        const fv_point a = {points[i - 1].x * c->scale, points[i - 1].y * c->scale},
                       b = {points[i].x * c->scale, points[i].y * c->scale};
        if (stroke->dashed)
            dashes(c, a, b, stroke, &at);
        else
            segment(c, a, b, stroke);
    }
}

static void raster_dot(fv_canvas *c, double x, double y, double radius, fv_rgb colour)
{
    segment(c, (fv_point){x * c->scale, y * c->scale}, (fv_point){x * c->scale, y * c->scale},
            &(fv_stroke){.width = 2 * radius, .colour = colour, .opacity = 1});
}

/* ---- text ------------------------------------------------------------------------ */

/* Maps pixels of a text to the raster: (along, down) from its left end and its top row. */
typedef struct pen {
    fv_canvas *c;
    double x, y;  /* raster pixel of the text's left end, middle of the capital letters */
    int64_t drop; /* from there to the baseline of a font file's letters */
    bool rotated;
    fv_rgb colour;
} pen;

static void ink(const pen *p, int64_t along, int64_t down)
{
    const int64_t x = (int64_t)floor(p->x), y = (int64_t)floor(p->y);
    if (p->rotated)
        blend(p->c, x + down, y - 1 - along, p->colour, 1);
    else
        blend(p->c, x + along, y + down, p->colour, 1);
}

static bool pixel(const fv_glyph *g, int x, int y)
{
    return x >= 0 && y >= 0 && x < 16 && y < FV_GLYPH_ROWS && (g->rows[y] >> x & 1);
}

/* Whether one quarter of an enlarged pixel is inked. A quarter between two pixels that touch only
 * at a corner is, which smooths slanted strokes. */
static bool quarter(const fv_glyph *g, int x, int y, int right, int down)
{
    const int dx = right ? 1 : -1, dy = down ? 1 : -1;
    return pixel(g, x, y) ||
           (pixel(g, x + dx, y) && pixel(g, x, y + dy) && !pixel(g, x + dx, y + dy));
}

static void draw_glyph(const pen *p, const fv_glyph *g, int64_t left, int scale)
{
    const int middle = (FV_GLYPH_CAPITAL + FV_GLYPH_BASE) * scale / 2;
    const int half = (scale + 1) / 2;
    for (int y = 0; y < FV_GLYPH_ROWS; y++)
        for (int x = 0; x < g->width; x++)
            for (int j = 0; j < scale; j++)
                for (int i = 0; i < scale; i++)
                    if (scale == 1 ? pixel(g, x, y) : quarter(g, x, y, i >= half, j >= half))
                        ink(p, left + x * scale + i, y * scale + j - middle);
}

/* Glyphs of the built-in font for `bytes` of a text, from `left` on; returns where they end. */
static int64_t put_glyphs(const pen *p, const fv_text_style *at, const char *text, size_t bytes,
                          int64_t left)
{
    const char *end = text + bytes;
    const int scale = fv_font_scale(at->size) * p->c->scale;
    int64_t former = left;
    int former_width = 0;
    fv_glyph g;
    while (text < end) {
        fv_font_glyph_or_code(fv_display_next(&text), &g);
        if (g.combining) {
            draw_glyph(p, &g, former + (former_width - g.width + 1) / 2 * scale, scale);
            continue;
        }
        draw_glyph(p, &g, left, scale);
        if (at->bold) draw_glyph(p, &g, left + 1, scale);
        former = left;
        former_width = g.width;
        left += (g.width + 1) * scale;
    }
    return left;
}

/* A pixel of a font file's glyph, counted from the baseline. */
static void cover_pixel(void *user, int64_t along, int64_t down, double cover)
{
    const pen *p = user;
    const int64_t x = (int64_t)floor(p->x), y = (int64_t)floor(p->y), drop = p->drop;
    if (p->rotated)
        blend(p->c, x + down + drop, y - 1 - along, p->colour, cover);
    else
        blend(p->c, x + along, y + down + drop, p->colour, cover);
}

/* Runs of a font file, with the built-in font where it has no glyphs. */
static void put_runs(pen *p, const fv_text_style *at, const char *text)
{
    fv_font_file *file = p->c->face.file;
    const double size = at->size * p->c->scale;
    double left = 0;
    bool lacking = false;
    for (size_t n; (n = fv_font_file_run(file, text, &lacking)) > 0; text += n) {
        if (lacking) {
            left = (double)put_glyphs(p, at, text, n, (int64_t)left);
            continue;
        }
        const double width = fv_font_file_draw(file, text, n, size, left, cover_pixel, p);
        if (at->bold) fv_font_file_draw(file, text, n, size, left + 0.04 * size, cover_pixel, p);
        left += width;
    }
}

static void raster_text(fv_canvas *c, const fv_text_style *at, const char *text)
{
    const int gap = c->face.file ? 0 : fv_font_scale(at->size) * c->scale;
    const double width = fv_display_width(&c->face, text, at->size) * c->scale - gap;
    const double back = at->anchor == FV_ANCHOR_START    ? 0
                        : at->anchor == FV_ANCHOR_MIDDLE ? width / 2
                                                         : width;
    pen p = {.c = c,
             .x = at->x * c->scale - (at->rotated ? 0 : back),
             .y = at->y * c->scale + (at->rotated ? back : 0),
             .drop = (int64_t)lround(0.36 * at->size * c->scale),
             .rotated = at->rotated,
             .colour = at->colour ? at->colour : FV_RGB_INK};
    if (c->face.file)
        put_runs(&p, at, text);
    else
        put_glyphs(&p, at, text, strlen(text), 0);
}

/* ---- cells ----------------------------------------------------------------------- */

static void raster_cells(fv_canvas *c, const fv_cells *cells)
{
    const double w = cells->width / (double)cells->cols, h = cells->height / (double)cells->rows;
    for (int64_t i = 0; i < cells->rows; i++)
        for (int64_t j = 0; j < cells->cols; j++) {
            const unsigned char *p = cells->rgb + 3 * (i * cells->cols + j);
            raster_rect(c, cells->x + (double)j * w, cells->y + (double)i * h, w, h,
                        (fv_rgb)p[0] << 16 | (fv_rgb)p[1] << 8 | p[2]);
        }
}

static void raster_end(fv_canvas *c)
{
    fv_png_write(&c->out, raster_width(c), raster_height(c), c->pixels);
}

const fv_canvas_ops fv_canvas_raster = {
    .rect = raster_rect,
    .path = raster_path,
    .dot = raster_dot,
    .text = raster_text,
    .cells = raster_cells,
    .end = raster_end,
};
