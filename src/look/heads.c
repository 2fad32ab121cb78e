/* A grid of thumbnails, one for each head of each layer; HTML enlarges the one that is clicked. */
#include <math.h>

#include "base/checked_math.h"
#include "look/display_text.h"
#include "look/figure.h"
#include "look/heads_page.h"

enum {
    MARGIN = 10,
    TITLE = 24,
    NAME = 18,
    NAME_SIZE = 12,
    GAP = 6,
    MOST_HEADS = 4096,
    MAX_TITLE = 480
};

typedef struct layout {
    const fv_look_heads *heads;
    fv_colour_range range;
    double thumb_w, thumb_h; /* of one map */
    double left, top;        /* of the first */
    double width, height;
    char title[FV_LABEL_BYTES];
} layout;

static layout lay_out(const fv_look_heads *heads, const fv_typeface *face,
                      const fv_look_options *options)
{
    const double side = options->cell ? options->cell : 96;
    layout l = {.heads = heads};
    l.range = fv_colour_range_of(options, heads->layers * heads->heads * heads->rows, heads->cols,
                                 heads->cols, heads->values);
    const double longest = fmax(fmax((double)heads->rows, (double)heads->cols), 1);
    l.thumb_w = fmax(side * (double)heads->cols / longest, 4);
    l.thumb_h = fmax(side * (double)heads->rows / longest, 4);
    l.left = MARGIN +
             (heads->layer_names
                  ? fv_figure_widest(face, heads->layer_names, heads->layers, 1, NAME_SIZE) + GAP
                  : 2 * NAME);
    l.top = MARGIN + (heads->title ? TITLE : 0) + (heads->head_names ? 1 : 2) * NAME;
    l.width = l.left + (double)heads->heads * (l.thumb_w + GAP) + MARGIN +
              fv_figure_colour_bar_width(face, &l.range) + MARGIN;
    if (heads->title)
        l.width = fv_figure_title(face, heads->title, l.width, MARGIN, MAX_TITLE, l.title);
    l.height = l.top + fmax((double)heads->layers * (l.thumb_h + GAP), 64) + MARGIN;
    return l;
}

/* The name if there is one, otherwise the number. */
static const char *name_of(const char *const *names, int64_t i, char text[FV_LABEL_BYTES])
{
    if (names) return fv_display_label(names[i], text);
    return fv_fixed((double)i, 0, false, text);
}

static void draw_names(fv_canvas *c, const layout *l)
{
    const fv_look_heads *heads = l->heads;
    char text[FV_LABEL_BYTES];
    fv_text_style at = {.y = l->top - 10, .size = NAME_SIZE, .anchor = FV_ANCHOR_MIDDLE};
    for (int64_t h = 0; h < heads->heads; h++) {
        at.x = l->left + (double)h * (l->thumb_w + GAP) + l->thumb_w / 2;
        fv_canvas_text(c, &at, name_of(heads->head_names, h, text));
    }
    at.anchor = FV_ANCHOR_END;
    at.x = l->left - GAP;
    for (int64_t n = 0; n < heads->layers; n++) {
        at.y = l->top + (double)n * (l->thumb_h + GAP) + l->thumb_h / 2;
        fv_canvas_text(c, &at, name_of(heads->layer_names, n, text));
    }
    at = (fv_text_style){.x = l->left, .y = l->top - NAME - 8, .size = NAME_SIZE};
    at.colour = FV_RGB_FAINT;
    if (!heads->head_names) fv_canvas_text(c, &at, "head");
    at.x = MARGIN + 4;
    at.y = l->top + fv_display_width(&c->face, "layer", NAME_SIZE);
    at.rotated = true;
    if (!heads->layer_names) fv_canvas_text(c, &at, "layer");
}

static void draw_maps(fv_canvas *c, const layout *l)
{
    const fv_look_heads *heads = l->heads;
    const int64_t rows = heads->rows < (int64_t)l->thumb_h ? heads->rows : (int64_t)l->thumb_h,
                  cols = heads->cols < (int64_t)l->thumb_w ? heads->cols : (int64_t)l->thumb_w;
    for (int64_t n = 0; n < heads->layers; n++)
        for (int64_t h = 0; h < heads->heads && c->status == FV_OK; h++) {
            const float *values =
                heads->values + (n * heads->heads + h) * heads->rows * heads->cols;
            const double x = l->left + (double)h * (l->thumb_w + GAP),
                         y = l->top + (double)n * (l->thumb_h + GAP);
            fv_figure_cells(c, &(fv_values){values, heads->rows, heads->cols, heads->cols},
                            &l->range,
                            &(fv_cells){.x = x,
                                        .y = y,
                                        .width = l->thumb_w,
                                        .height = l->thumb_h,
                                        .rows = rows,
                                        .cols = cols,
                                        .as_image = true});
            const fv_point frame[] = {{x, y},
                                      {x + l->thumb_w, y},
                                      {x + l->thumb_w, y + l->thumb_h},
                                      {x, y + l->thumb_h},
                                      {x, y}};
            fv_canvas_path(c, frame, 5,
                           &(fv_stroke){.width = 1, .colour = FV_RGB_RULE, .opacity = 1});
        }
}

/* Passes all values, the positions of the thumbnails and the colour range to the page. */
static void write_script(fv_writer *o, const void *user)
{
    const layout *l = user;
    const fv_look_heads *heads = l->heads;
    const int64_t lines = heads->layers * heads->heads * heads->rows;
    fv_writer_format(o,
                     "%s<script>\nconst m={x:%n,y:%n,w:%n,h:%n,gap:%d,layers:%d,heads:%d,rows:%d,",
                     fv_heads_page_body, l->left, l->top, l->thumb_w, l->thumb_h, (int)GAP,
                     (int)heads->layers, (int)heads->heads, (int)heads->rows);
    char low[FV_FIXED_BYTES], high[FV_FIXED_BYTES];
    fv_writer_format(o, "cols:%d,low:%s,high:%s,colours:[", (int)heads->cols,
                     fv_fixed(l->range.low, 9, true, low), fv_fixed(l->range.high, 9, true, high));
    for (int i = 0; i < 64; i++)
        fv_writer_format(o, "%s\"%c\"", i > 0 ? "," : "", fv_colour_at(l->range.map, i / 63.0));
    fv_writer_text(o, "],\nr:");
    fv_script_labels(o, heads->row_labels, heads->rows);
    fv_writer_text(o, ",\nc:");
    fv_script_labels(o, heads->col_labels, heads->cols);
    fv_writer_text(o, ",\nnames:");
    fv_script_labels(o, heads->layer_names, heads->layers);
    fv_writer_text(o, ",\nv:");
    fv_script_rows(o, &(fv_values){heads->values, lines, heads->cols, heads->cols});
    fv_writer_format(o, "};\n%s</script>\n", fv_heads_page_script);
}

static fv_status check(fv_ctx *ctx, const fv_look_heads *heads, fv_look_format format,
                       fv_picture **out)
{
    int64_t count = 0;
    FV_RETURN_IF(!heads || !out, ctx, FV_ERR_ARGUMENT, "look: heads or out is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF(heads->layers < 1 || heads->heads < 1 || heads->rows < 0 || heads->cols < 0, ctx,
                 FV_ERR_ARGUMENT, "look: invalid size: %lld layers of %lld heads of %lld x %lld",
                 (long long)heads->layers, (long long)heads->heads, (long long)heads->rows,
                 (long long)heads->cols);
    FV_RETURN_IF(!fv_checked_mul_i64(heads->layers, heads->heads, &count) || count > MOST_HEADS ||
                     heads->rows > FV_LOOK_MAX_SIDE || heads->cols > FV_LOOK_MAX_SIDE,
                 ctx, FV_ERR_LIMIT,
                 "look: too large to draw: %lld layers of %lld heads of %lld x %lld",
                 (long long)heads->layers, (long long)heads->heads, (long long)heads->rows,
                 (long long)heads->cols);
    FV_RETURN_IF(!heads->values && heads->rows > 0 && heads->cols > 0, ctx, FV_ERR_ARGUMENT,
                 "look: heads->values is NULL");
    return FV_OK;
}

static void draw(fv_canvas *c, const layout *l)
{
    fv_canvas_text(
        c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = FV_TITLE_SIZE, .bold = true},
        l->title);
    draw_names(c, l);
    draw_maps(c, l);
    fv_figure_colour_bar(
        c, &l->range, l->left + (double)l->heads->heads * (l->thumb_w + GAP) + MARGIN, l->top, 64);
    c->script = write_script;
    c->script_user = l;
}

fv_status fv_look_heads_draw(fv_ctx *ctx, const fv_look_heads *heads, fv_look_format format,
                             const fv_look_options *options, fv_picture **out)
{
    fv_look_options full;
    fv_typeface face;
    fv_canvas c;
    FV_TRY(check(ctx, heads, format, out));
    FV_TRY(fv_look_options_check(ctx, options, &full));
    FV_TRY(fv_typeface_open(ctx, format, full.font, &face));
    const layout l = lay_out(heads, &face, &full);
    const fv_status status = fv_canvas_begin(ctx, &face, l.width, l.height, heads->title, &c);
    if (status == FV_OK) draw(&c, &l);
    const fv_status end = status == FV_OK ? fv_canvas_end(&c, out) : status;
    fv_font_file_close(&face.file);
    return end;
}
