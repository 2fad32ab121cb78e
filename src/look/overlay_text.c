/* Attention over a picture as text: half blocks in terminal colours, or shades of brightness. */
#include <math.h>

#include "look/overlay.h"

enum { STRIP = 28, MAX_ROWS = 160, GAP = 2 };

typedef struct printer {
    const fv_look_overlay *overlay;
    const fv_look_options *options;
    bool colour, blocks;
    int64_t across, wide, rows; /* panels in a row; a panel's pixels */
    int64_t pitch;              /* columns of a panel: of its pixels or its caption */
    unsigned char *rgb;         /* [across][rows][wide][3] */
    fv_overlay_means means;
    fv_writer out;
} printer;

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Columns of a caption, at most `most` or those of a film strip's panel. */
static int64_t caption_columns(const char *caption, int64_t most)
{
    char label[FV_LABEL_BYTES];
    const int64_t columns = fv_display_columns(fv_display_label(caption, label)),
                  room = most < STRIP ? most : STRIP;
    return columns < room ? columns : room;
}

/* A panel is at most as wide as its picture has pixels: more would show nothing more. */
static void size_panels(printer *p)
{
    const fv_look_overlay *o = p->overlay;
    const int64_t room = p->options->columns - GAP, most = o->panel_count > 1 ? STRIP : room;
    p->wide = o->width < most ? o->width : most;
    if (o->panel_width > o->panel_height && o->panel_height > 0) p->wide = room; /* stretched */
    if (p->wide > room) p->wide = room;
    double rows = (double)p->wide * fv_overlay_ratio(o);
    if (rows > MAX_ROWS) {
        p->wide = (int64_t)fmax(1, floor((double)p->wide * MAX_ROWS / rows));
        rows = MAX_ROWS;
    }
    p->rows = (int64_t)fmax(2, 2 * round(rows / 2)); /* two for each line */
    p->pitch = p->wide;
    for (int64_t i = 0; i < o->panel_count; i++) {
        const int64_t caption = caption_columns(o->panels[i].caption, most);
        if (caption > p->pitch) p->pitch = caption;
    }
    p->across = (room + GAP) / (p->pitch + GAP);
    if (o->across && o->across < p->across) p->across = o->across;
    if (p->across > o->panel_count) p->across = o->panel_count;
    if (p->across < 1) p->across = 1;
}

static const unsigned char *pixel_at(const printer *p, int64_t panel, int64_t row, int64_t col)
{
    return p->rgb + 3 * ((panel * p->rows + row) * p->wide + col);
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void put_colour(printer *p, const char *ground, const unsigned char *rgb, int *current)
{
    const int colour =
        fv_colour_nearest_ansi((fv_rgb)rgb[0] << 16 | (fv_rgb)rgb[1] << 8 | (fv_rgb)rgb[2]);
    if (colour == *current) return;
    *current = colour;
    fv_writer_format(&p->out, "\x1b[%s;5;%dm", ground, colour);
}

static void put_half_blocks(printer *p, int64_t panel, int64_t row)
{
    int ink = -1, ground = -1;
    for (int64_t j = 0; j < p->wide; j++) {
        put_colour(p, "38", pixel_at(p, panel, row, j), &ink);
        put_colour(p, "48", pixel_at(p, panel, row + 1, j), &ground);
        fv_writer_text(&p->out, "\xE2\x96\x80");
    }
    fv_writer_text(&p->out, "\x1b[0m");
}

static bool is_mark(const unsigned char *rgb)
{
    return rgb[0] == (unsigned char)(FV_OVERLAY_MARK >> 16) &&
           rgb[1] == (unsigned char)(FV_OVERLAY_MARK >> 8) &&
           rgb[2] == (unsigned char)FV_OVERLAY_MARK;
}

static void put_shades(printer *p, int64_t panel, int64_t row)
{
    enum { SHADES = 5 };
    static const char *const ascii[SHADES] = {" ", ".", "-", "+", "#"};
    static const char *const blocks[SHADES] = {" ", "\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                               "\xE2\x96\x88"};
    for (int64_t j = 0; j < p->wide; j++) {
        const unsigned char *a = pixel_at(p, panel, row, j), *b = pixel_at(p, panel, row + 1, j);
        if (is_mark(a) || is_mark(b)) {
            fv_writer_text(&p->out, "X");
            continue;
        }
        const int grey = 299 * (a[0] + b[0]) + 587 * (a[1] + b[1]) + 114 * (a[2] + b[2]),
                  shade = grey * SHADES / (2 * 255 * 1000 + 1);
        fv_writer_text(&p->out, (p->blocks ? blocks : ascii)[shade]);
    }
}

/* A caption in the columns of its panel, cut or padded. */
static void put_caption(printer *p, const char *text, bool last)
{
    char label[FV_LABEL_BYTES], letter[FV_CLUSTER_BYTES];
    const char *at = fv_display_label(text, label);
    int64_t used = 0;
    for (;;) {
        const int columns = fv_display_next_cluster(&at, letter);
        if (columns == 0 || used + columns > p->pitch) break;
        fv_writer_plain(&p->out, letter);
        used += columns;
    }
    if (!last) fv_writer_repeat(&p->out, " ", p->pitch - used + GAP);
}

static void print_row(printer *p, int64_t first, int64_t count)
{
    bool captions = false;
    for (int64_t i = 0; i < count; i++) {
        fv_overlay_view view = fv_overlay_view_of(p->overlay, first + i, p->options);
        view.mark = true;
        fv_overlay_means_use(p->out.ctx, &p->means, p->rows, p->wide, &view);
        captions = captions || view.panel->caption;
        fv_overlay_compose(&view, p->rows, p->wide, p->rgb + 3 * i * p->rows * p->wide);
    }
    for (int64_t row = 0; row < p->rows; row += 2) {
        fv_writer_text(&p->out, " ");
        for (int64_t i = 0; i < count; i++) {
            if (i > 0) fv_writer_repeat(&p->out, " ", p->pitch - p->wide + GAP);
            (p->colour && p->blocks ? put_half_blocks : put_shades)(p, i, row);
        }
        fv_writer_text(&p->out, "\n");
    }
    if (!captions) return;
    fv_writer_text(&p->out, " ");
    for (int64_t i = 0; i < count; i++)
        put_caption(p, p->overlay->panels[first + i].caption, i + 1 == count);
    fv_writer_text(&p->out, "\n");
}

fv_status fv_overlay_print(fv_ctx *ctx, const fv_look_overlay *overlay, bool colour,
                           const fv_look_options *options, fv_picture **out)
{
    printer p = {.overlay = overlay,
                 .options = options,
                 .colour = colour,
                 .blocks = options->shades == FV_LOOK_SHADES_DEFAULT
                               ? colour
                               : options->shades == FV_LOOK_SHADES_BLOCKS,
                 .out = {.ctx = ctx}};
    size_panels(&p);
    const size_t bytes = 3 * (size_t)(p.across * p.rows * p.wide);
    p.rgb = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!p.rgb, ctx, FV_ERR_MEMORY, "look: out of memory");
    if (overlay->title) {
        fv_writer_plain(&p.out, overlay->title);
        fv_writer_text(&p.out, "\n");
    }
    for (int64_t first = 0; first < overlay->panel_count; first += p.across) {
        const int64_t left = overlay->panel_count - first;
        if (first > 0) fv_writer_text(&p.out, "\n");
        print_row(&p, first, left < p.across ? left : p.across);
    }
    fv_mem_free(&ctx->mem, p.rgb, bytes);
    fv_overlay_means_free(ctx, &p.means);
    const fv_status status = fv_picture_from_writer(&p.out, out);
    fv_writer_free(&p.out);
    return status;
}
