/* Points of the plane with lines between them, and a map of the model that chose them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "look/display_text.h"
#include "look/figure.h"

enum { MARGIN = 14, TITLE = 26, SIDE = 360, TEXT = 10, GAP = 46, MOST_POINTS = 4096 };
enum { MOST_LINES = 1 << 16, LABELLED = 120 };

/* Where points are on the canvas: x and y have one scale, and the picture is centred. */
typedef struct frame {
    double left, top, side;    /* of the square */
    double low_x, low_y, unit; /* unit: pixels of 1 */
    double off_x, off_y;
} frame;

static frame make_frame(const fv_look_plane *p, double left, double top, double side)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (int64_t i = 0; i < p->count; i++) {
        low[0] = fmin(low[0], p->x[i]), high[0] = fmax(high[0], p->x[i]);
        low[1] = fmin(low[1], p->y[i]), high[1] = fmax(high[1], p->y[i]);
    }
    const double wide = p->count > 0 ? high[0] - low[0] : 0,
                 tall = p->count > 0 ? high[1] - low[1] : 0;
    const double most = fmax(wide, tall) > 0 ? fmax(wide, tall) : 1;
    return (frame){.left = left,
                   .top = top,
                   .side = side,
                   .low_x = p->count > 0 ? low[0] : 0,
                   .low_y = p->count > 0 ? low[1] : 0,
                   .unit = side / most,
                   .off_x = (side - wide * side / most) / 2,
                   .off_y = (side - tall * side / most) / 2};
}

static fv_point place(const frame *f, const fv_look_plane *p, int64_t i)
{
    return (fv_point){f->left + f->off_x + (p->x[i] - f->low_x) * f->unit,
                      f->top + f->side - f->off_y - (p->y[i] - f->low_y) * f->unit};
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* Two short strokes at two thirds of a line. */
static void draw_arrow(fv_canvas *c, fv_point a, fv_point b, fv_rgb colour)
{
    const double dx = b.x - a.x, dy = b.y - a.y, length = hypot(dx, dy);
    if (length < 14) return;
    const double ux = dx / length, uy = dy / length;
    const fv_point tip = {a.x + 0.6 * dx + 4 * ux, a.y + 0.6 * dy + 4 * uy};
    for (int side = -1; side <= 1; side += 2)
        fv_canvas_line(c, tip.x, tip.y, tip.x - 7 * ux + 4 * side * uy,
                       tip.y - 7 * uy - 4 * side * ux, 1.6, colour);
}

static void draw_points(fv_canvas *c, const fv_look_plane *p, const frame *f)
{
    const fv_rgb line = fv_colour_series(0), dot = fv_colour_series(1);
    for (int64_t i = 0; i < p->line_count; i++) {
        const fv_point a = place(f, p, p->lines[2 * i]), b = place(f, p, p->lines[2 * i + 1]);
        fv_canvas_line(c, a.x, a.y, b.x, b.y, 1.6, line);
        if (p->arrows) draw_arrow(c, a, b, line);
    }
    for (int64_t i = 0; i < p->count; i++) {
        const fv_point at = place(f, p, i);
        char label[24];
        snprintf(label, sizeof label, "%lld", (long long)i);
        fv_canvas_dot(c, at.x, at.y, p->count > LABELLED ? 2 : 3.5, dot);
        if (p->count <= LABELLED)
            fv_canvas_text(c, &(fv_text_style){.x = at.x + 6, .y = at.y - 7, .size = TEXT}, label);
    }
}

typedef struct map_layout {
    double x, y, cell, width, height, labels;
} map_layout;

static map_layout lay_out_map(const fv_look_plane *p, const fv_typeface *face, double left)
{
    const fv_look_map *m = p->map;
    map_layout l = {.x = left};
    if (!m || m->rows < 1 || m->cols < 1) return l;
    const double most = (double)(m->rows > m->cols ? m->rows : m->cols);
    l.cell = fmax(2, fmin(18, floor(SIDE / most)));
    l.labels = l.cell >= TEXT ? fv_figure_widest(face, m->row_labels, m->rows, 1, TEXT) + 6 : 0;
    l.width = l.cell * (double)m->cols;
    l.height = l.cell * (double)m->rows;
    l.x = left + GAP + l.labels;
    l.y = MARGIN + (p->title ? TITLE : 0) + 18;
    return l;
}

static void draw_map(fv_canvas *c, const fv_look_plane *p, const map_layout *l,
                     const fv_look_options *options)
{
    const fv_look_map *m = p->map;
    char label[FV_LABEL_BYTES];
    if (l->cell == 0) return;
    const int64_t stride = m->stride ? m->stride : m->cols;
    const fv_colour_range range = fv_colour_range_of(options, m->rows, m->cols, stride, m->values);
    fv_figure_cells(c, &(fv_values){m->values, m->rows, m->cols, stride}, &range,
                    &(fv_cells){.x = l->x,
                                .y = l->y,
                                .width = l->width,
                                .height = l->height,
                                .rows = m->rows,
                                .cols = m->cols});
    for (int64_t i = 0; l->labels > 0 && m->row_labels && i < m->rows; i++)
        fv_canvas_text(c,
                       &(fv_text_style){.x = l->x - 5,
                                        .y = l->y + ((double)i + 0.5) * l->cell,
                                        .size = TEXT,
                                        .anchor = FV_ANCHOR_END},
                       fv_display_label(m->row_labels[i], label));
    for (int64_t j = 0; l->labels > 0 && m->col_labels && j < m->cols; j++)
        fv_canvas_text(c,
                       &(fv_text_style){.x = l->x + ((double)j + 0.5) * l->cell,
                                        .y = l->y - 8,
                                        .size = TEXT,
                                        .anchor = FV_ANCHOR_MIDDLE},
                       fv_display_label(m->col_labels[j], label));
}

/* ---- text ----------------------------------------------------------------------------------- */

/* A grid of characters, each about twice as high as wide: lines as dots, points as their numbers.
 */
static fv_status print(fv_ctx *ctx, const fv_look_plane *p, const fv_look_options *options,
                       fv_picture **out)
{
    const int64_t columns =
                      options->columns > 0 && options->columns < 64 ? options->columns - 4 : 60,
                  rows = columns / 2;
    const size_t bytes = (size_t)(rows * columns);
    char *grid = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!grid, ctx, FV_ERR_MEMORY, "look: out of memory");
    memset(grid, ' ', bytes);
    const frame f = make_frame(p, 0, 0, (double)(columns - 5));
    for (int64_t i = 0; i < p->line_count; i++) {
        const fv_point a = place(&f, p, p->lines[2 * i]), b = place(&f, p, p->lines[2 * i + 1]);
        for (int64_t k = 0; k <= columns; k++) {
            const double t = (double)k / (double)columns;
            const int64_t x = lround(a.x + t * (b.x - a.x)),
                          y = lround((a.y + t * (b.y - a.y)) / 2);
            grid[y * columns + x] = '.';
        }
    }
    for (int64_t i = 0; i < p->count; i++) {
        const fv_point at = place(&f, p, i);
        char label[24];
        const int length = snprintf(label, sizeof label, "%lld", (long long)i);
        const int64_t from = lround(at.y / 2) * columns + lround(at.x);
        memcpy(grid + from, label, (size_t)length);
    }
    fv_writer o = {.ctx = ctx};
    if (p->title) {
        fv_writer_plain(&o, p->title);
        fv_writer_text(&o, "\n");
    }
    for (int64_t y = 0; y < rows; y++) {
        int64_t end = columns;
        while (end > 0 && grid[y * columns + end - 1] == ' ')
            end--;
        fv_writer_bytes(&o, grid + y * columns, (size_t)end);
        fv_writer_text(&o, "\n");
    }
    fv_mem_free(&ctx->mem, grid, bytes);
    return fv_picture_from_writer(&o, out);
}

static fv_status check(fv_ctx *ctx, const fv_look_plane *p, fv_look_format form, fv_picture **out)
{
    FV_RETURN_IF(!p || !out, ctx, FV_ERR_ARGUMENT, "look: plane or out is NULL");
    FV_RETURN_IF((unsigned)form >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)form);
    FV_RETURN_IF(p->count < 0 || p->line_count < 0 || (p->count > 0 && (!p->x || !p->y)) ||
                     (p->line_count > 0 && !p->lines),
                 ctx, FV_ERR_ARGUMENT, "look: a plane of %lld points and %lld lines",
                 (long long)p->count, (long long)p->line_count);
    FV_RETURN_IF(p->count > MOST_POINTS || p->line_count > MOST_LINES, ctx, FV_ERR_LIMIT,
                 "look: %lld points and %lld lines, the limits are %d and %d", (long long)p->count,
                 (long long)p->line_count, (int)MOST_POINTS, (int)MOST_LINES);
    for (int64_t i = 0; i < p->count; i++)
        FV_RETURN_IF(!isfinite(p->x[i]) || !isfinite(p->y[i]), ctx, FV_ERR_ARGUMENT,
                     "look: point %lld is not finite", (long long)i);
    for (int64_t i = 0; i < 2 * p->line_count; i++)
        FV_RETURN_IF(p->lines[i] < 0 || p->lines[i] >= p->count, ctx, FV_ERR_ARGUMENT,
                     "look: line %lld names point %lld of %lld", (long long)(i / 2),
                     (long long)p->lines[i], (long long)p->count);
    const fv_look_map *m = p->map;
    FV_RETURN_IF(m && (m->rows < 0 || m->cols < 0 || m->rows > FV_LOOK_MAX_SIDE ||
                       m->cols > FV_LOOK_MAX_SIDE || (m->rows > 0 && m->cols > 0 && !m->values)),
                 ctx, FV_ERR_ARGUMENT, "look: a map of %lld x %lld values", (long long)m->rows,
                 (long long)m->cols);
    return FV_OK;
}

fv_status fv_look_plane_draw(fv_ctx *ctx, const fv_look_plane *plane, fv_look_format form,
                             const fv_look_options *options, fv_picture **out)
{
    fv_look_options full;
    fv_canvas c;
    char title[FV_LABEL_BYTES];
    FV_TRY(check(ctx, plane, form, out));
    FV_TRY(fv_look_options_check(ctx, options, &full));
    if (form == FV_LOOK_FORMAT_TEXT || form == FV_LOOK_FORMAT_TERMINAL)
        return print(ctx, plane, &full, out);
    const fv_typeface face = {.format = form};
    const double top = MARGIN + (plane->title ? TITLE : 0),
                 plane_side = plane->count > 0 ? SIDE + 20 : 0;
    const map_layout map = lay_out_map(plane, &face, MARGIN + plane_side);
    const double right = map.cell > 0 ? map.x + map.width + 8 : MARGIN + plane_side;
    const double width = fv_figure_title(&face, plane->title, right + MARGIN, MARGIN, 1000, title);
    const double bottom = fmax(top + plane_side, map.y + map.height);
    FV_TRY(fv_canvas_begin(ctx, &face, width, bottom + MARGIN, plane->title, &c));
    if (plane->title)
        fv_canvas_text(
            &c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = FV_TITLE_SIZE, .bold = true},
            title);
    const frame f = make_frame(plane, MARGIN, top + 16, SIDE);
    draw_points(&c, plane, &f);
    draw_map(&c, plane, &map, &full);
    return fv_canvas_end(&c, out);
}
