/* Line and scatter plots with a legend on the right. */
#include <math.h>

#include "base/checked_math.h"
#include "look/axis.h"
#include "look/display_text.h"
#include "look/figure.h"

enum { MARGIN = 12, TITLE = 28, TEXT = 12, KEY = 26, KEY_LINE = 20, APART = 20 };

typedef struct layout {
    const fv_look_plot *plot;
    fv_axis x, y; /* their pixel ranges are the edges of the plot area */
    double width, height;
} layout;

/* ---- sizes ----------------------------------------------------------------------- */

static fv_axis axis_of(const fv_look_plot *plot, bool vertical)
{
    const fv_look_axis *want = vertical ? &plot->y : &plot->x;
    if (want->low < want->high) return fv_axis_make(want->scale, want->low, want->high, true);
    double low = INFINITY, high = -INFINITY;
    for (int64_t s = 0; s < plot->series_count; s++) {
        const fv_look_series *series = &plot->series[s];
        for (int64_t i = 0; i < series->count; i++) {
            const double value = vertical ? series->y[i] : series->x[i];
            if (!fv_axis_can_show(plot->x.scale, series->x[i]) ||
                !fv_axis_can_show(plot->y.scale, series->y[i]))
                continue;
            low = fmin(low, value);
            high = fmax(high, value);
        }
    }
    return fv_axis_make(want->scale, low, high, false);
}

static double widest_tick(const fv_axis *axis, const fv_typeface *face)
{
    double ticks[FV_MAX_TICKS], widest = 0;
    char text[FV_FIXED_BYTES];
    const int count = fv_axis_ticks(axis, ticks);
    for (int i = 0; i < count; i++)
        widest = fmax(widest, fv_display_width(face, fv_short_number(ticks[i], text), TEXT));
    return widest;
}

static double legend_width(const fv_look_plot *plot, const fv_typeface *face)
{
    double widest = 0;
    char label[FV_LABEL_BYTES];
    for (int64_t s = 0; s < plot->series_count; s++)
        if (plot->series[s].name)
            widest =
                fmax(widest,
                     fv_display_width(face, fv_display_label(plot->series[s].name, label), TEXT));
    return widest > 0 ? widest + KEY + APART : 0;
}

/* The picture grows if titles and labels leave too little space for the plot area. */
static layout lay_out(const fv_look_plot *plot, const fv_typeface *face)
{
    enum { LEAST_AREA = 80 };
    layout l = {.plot = plot, .x = axis_of(plot, false), .y = axis_of(plot, true)};
    l.x.from = MARGIN + (plot->y.title ? 20 : 0) + widest_tick(&l.y, face) + 8;
    const double right = MARGIN + fmax(legend_width(plot, face), widest_tick(&l.x, face) / 2);
    l.width = fmax(plot->width ? plot->width : 720, l.x.from + LEAST_AREA + right);
    if (plot->title)
        l.width = fmax(l.width, 1.1 * fv_display_width(face, plot->title, 14) + 2 * MARGIN);
    l.height = plot->height ? plot->height : 480;
    l.x.to = l.width - right;
    l.y.to = MARGIN + (plot->title ? TITLE : 4);
    l.y.from = l.height - MARGIN - 20 - (plot->x.title ? 20 : 0);
    return l;
}

/* ---- drawing ----------------------------------------------------------------------- */

static void draw_axes(fv_canvas *c, const layout *l)
{
    double ticks[FV_MAX_TICKS];
    char text[FV_FIXED_BYTES];
    double free_from = -INFINITY; /* labels on the x axis must not touch */
    int count = fv_axis_ticks(&l->x, ticks);
    for (int i = 0; i < count; i++) {
        const double x = fv_axis_pixel(&l->x, ticks[i]);
        fv_canvas_line(c, x, l->y.from, x, l->y.to, 1, FV_RGB_RULE);
        const char *name = fv_short_number(ticks[i], text);
        const double half = fv_display_width(&c->face, name, TEXT) / 2;
        if (x - half < free_from) continue;
        free_from = x + half + 6;
        fv_canvas_text(
            c,
            &(fv_text_style){.x = x, .y = l->y.from + 14, .size = TEXT, .anchor = FV_ANCHOR_MIDDLE},
            name);
    }
    count = fv_axis_ticks(&l->y, ticks);
    for (int i = 0; i < count; i++) {
        const double y = fv_axis_pixel(&l->y, ticks[i]);
        fv_canvas_line(c, l->x.from, y, l->x.to, y, 1, FV_RGB_RULE);
        fv_canvas_text(
            c, &(fv_text_style){.x = l->x.from - 6, .y = y, .size = TEXT, .anchor = FV_ANCHOR_END},
            fv_short_number(ticks[i], text));
    }
    fv_canvas_line(c, l->x.from, l->y.from, l->x.to, l->y.from, 1, FV_RGB_FAINT);
    fv_canvas_line(c, l->x.from, l->y.from, l->x.from, l->y.to, 1, FV_RGB_FAINT);
}

static void draw_titles(fv_canvas *c, const layout *l)
{
    const fv_look_plot *plot = l->plot;
    fv_canvas_text(c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = 14, .bold = true},
                   plot->title);
    fv_canvas_text(c,
                   &(fv_text_style){.x = (l->x.from + l->x.to) / 2,
                                    .y = l->height - MARGIN - 4,
                                    .size = TEXT,
                                    .anchor = FV_ANCHOR_MIDDLE,
                                    .colour = FV_RGB_FAINT},
                   plot->x.title);
    fv_canvas_text(c,
                   &(fv_text_style){.x = MARGIN + 4,
                                    .y = (l->y.from + l->y.to) / 2,
                                    .size = TEXT,
                                    .anchor = FV_ANCHOR_MIDDLE,
                                    .rotated = true,
                                    .colour = FV_RGB_FAINT},
                   plot->y.title);
}

static bool point_of(const layout *l, const fv_look_series *series, int64_t i, fv_point *out)
{
    const double x = series->x[i], y = series->y[i];
    if (!fv_axis_can_show(l->x.scale, x) || !fv_axis_can_show(l->y.scale, y)) return false;
    if (x < l->x.low || x > l->x.high || y < l->y.low || y > l->y.high) return false;
    *out = (fv_point){fv_axis_pixel(&l->x, x), fv_axis_pixel(&l->y, y)};
    return true;
}

/* Runs of points that the axes show become paths; `room` holds series->count points. */
static void draw_series(fv_canvas *c, const layout *l, int64_t s, fv_point *room)
{
    const fv_look_series *series = &l->plot->series[s];
    const fv_rgb colour = fv_colour_series(s);
    const fv_stroke stroke = {.width = 2, .colour = colour, .opacity = 1, .dashed = series->dashed};
    size_t run = 0;
    for (int64_t i = 0; i <= series->count; i++) {
        if (i < series->count && point_of(l, series, i, &room[run])) {
            run++;
            continue;
        }
        if (!series->points_only) fv_canvas_path(c, room, run, &stroke);
        for (size_t k = 0; k < run; k++)
            fv_canvas_dot(c, room[k].x, room[k].y, 3, colour);
        run = 0;
    }
}

/* Where a label was written: from x to `right`, around y. */
typedef struct place {
    double x, right, y;
} place;

static bool is_free(const place *taken, size_t count, const place *p)
{
    for (size_t i = 0; i < count; i++)
        if (p->x < taken[i].right && taken[i].x < p->right && fabs(p->y - taken[i].y) < TEXT)
            return false;
    return true;
}

/* Labels that would cover one before them are left out; `taken` has room for series->count. */
static void draw_labels(fv_canvas *c, const layout *l, int64_t s, const fv_typeface *face,
                        place *taken)
{
    char label[FV_LABEL_BYTES];
    const fv_look_series *series = &l->plot->series[s];
    fv_point at;
    size_t count = 0;
    for (int64_t i = 0; series->labels && i < series->count; i++) {
        if (!point_of(l, series, i, &at)) continue;
        const char *text = fv_display_label(series->labels[i], label);
        const place p = {at.x + 5, at.x + 5 + fv_display_width(face, text, TEXT), at.y};
        if (!is_free(taken, count, &p)) continue;
        taken[count++] = p;
        fv_canvas_text(c, &(fv_text_style){.x = p.x, .y = p.y, .size = TEXT}, text);
    }
}

static void draw_legend(fv_canvas *c, const layout *l)
{
    char label[FV_LABEL_BYTES];
    const double x = l->x.to + APART;
    double y = l->y.to + 8;
    for (int64_t s = 0; s < l->plot->series_count; s++) {
        const fv_look_series *series = &l->plot->series[s];
        if (!series->name) continue;
        const fv_point ends[] = {{x, y}, {x + KEY - 6, y}};
        const fv_stroke stroke = {
            .width = 2, .colour = fv_colour_series(s), .opacity = 1, .dashed = series->dashed};
        if (!series->points_only) fv_canvas_path(c, ends, 2, &stroke);
        fv_canvas_dot(c, x + (KEY - 6) / 2.0, y, 3, fv_colour_series(s));
        fv_canvas_text(c, &(fv_text_style){.x = x + KEY, .y = y, .size = TEXT},
                       fv_display_label(series->name, label));
        y += KEY_LINE;
    }
}

/* ---- checks ------------------------------------------------------------------------ */

static fv_status check_axis(fv_ctx *ctx, const fv_look_axis *axis)
{
    FV_RETURN_IF((unsigned)axis->scale > FV_AXIS_LOG2, ctx, FV_ERR_ARGUMENT,
                 "look: unknown axis scale %d", (int)axis->scale);
    FV_RETURN_IF(!isfinite(axis->low) || !isfinite(axis->high) || axis->low > axis->high ||
                     (axis->low < axis->high && axis->scale != FV_AXIS_LINEAR && axis->low <= 0),
                 ctx, FV_ERR_ARGUMENT, "look: invalid axis range from %g to %g", axis->low,
                 axis->high);
    return FV_OK;
}

static bool size_is_sound(int pixels) { return pixels == 0 || (pixels >= 200 && pixels <= 4096); }

static fv_status check(fv_ctx *ctx, const fv_look_plot *plot, fv_look_format format,
                       fv_picture **out, int64_t *max)
{
    enum { MOST_POINTS = 1 << 22 };
    FV_RETURN_IF(!plot || !out || !plot->series, ctx, FV_ERR_ARGUMENT,
                 "look: plot, its series or out is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF(plot->series_count < 1 || plot->series_count > 64, ctx, FV_ERR_ARGUMENT,
                 "look: a plot of %lld series, expected 1 to 64", (long long)plot->series_count);
    FV_RETURN_IF(!size_is_sound(plot->width) || !size_is_sound(plot->height), ctx, FV_ERR_ARGUMENT,
                 "look: a plot of %d x %d pixels, expected 200 to 4096", plot->width, plot->height);
    FV_TRY(check_axis(ctx, &plot->x));
    FV_TRY(check_axis(ctx, &plot->y));
    *max = 1;
    for (int64_t s = 0; s < plot->series_count; s++) {
        const fv_look_series *series = &plot->series[s];
        FV_RETURN_IF(series->count < 0 || (series->count > 0 && (!series->x || !series->y)), ctx,
                     FV_ERR_ARGUMENT, "look: series %lld has no points", (long long)s);
        FV_RETURN_IF(series->count > MOST_POINTS, ctx, FV_ERR_LIMIT,
                     "look: series %lld has %lld points, the limit is %d", (long long)s,
                     (long long)series->count, (int)MOST_POINTS);
        if (series->count > *max) *max = series->count;
    }
    return FV_OK;
}

fv_status fv_look_plot_draw(fv_ctx *ctx, const fv_look_plot *plot, fv_look_format format,
                            fv_picture **out)
{
    fv_canvas c;
    int64_t max = 0;
    FV_TRY(check(ctx, plot, format, out, &max));
    const fv_typeface face = {.format = format};
    const layout l = lay_out(plot, &face);
    const size_t room_bytes = (size_t)max * sizeof(place);
    FV_TRY(fv_canvas_begin(ctx, &face, l.width, l.height, plot->title, &c));
    void *room = fv_mem_alloc(&ctx->mem, room_bytes); /* for points, then for labels */
    if (!room) c.status = fv_fail(ctx, FV_ERR_MEMORY, "look: out of memory");
    draw_titles(&c, &l);
    draw_axes(&c, &l);
    for (int64_t s = 0; room && s < plot->series_count; s++)
        draw_series(&c, &l, s, room);
    for (int64_t s = 0; room && s < plot->series_count; s++)
        draw_labels(&c, &l, s, &face, room);
    draw_legend(&c, &l);
    fv_mem_free(&ctx->mem, room, room_bytes);
    return fv_canvas_end(&c, out);
}
