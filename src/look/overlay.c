/* Attention over a picture: one panel, or a film strip of them. */
#include "look/overlay.h"

#include <math.h>

enum {
    MARGIN = 10,
    GAP = 10,
    TITLE = 24,
    CAPTION = 18,
    CAPTION_TEXT = 12,
    MAX_PANEL = 4096,
    MAX_STRIP = 960 /* width of a row of panels, unless the caller sets their number */
};

typedef struct layout {
    const fv_look_overlay *overlay;
    const fv_look_options *options;
    int64_t across;
    double wide, high; /* of a panel */
    double pitch_x, pitch_y;
    double left, top;
    double width, height;
    bool captions;
    char title[FV_LABEL_BYTES];
} layout;

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Small pictures are enlarged by whole numbers, so that their pixels stay equal squares. */
static double usual_width(const fv_look_overlay *o)
{
    const double wanted = o->panel_count > 1 ? 140 : 320,
                 side = (double)(o->width > o->height ? o->width : o->height),
                 times = wanted / side;
    return fmax(1, (double)o->width * (times >= 1 ? floor(times) : times));
}

static void size_panels(layout *l)
{
    const fv_look_overlay *o = l->overlay;
    const double ratio = fv_overlay_ratio(o);
    l->wide = o->panel_width    ? o->panel_width
              : o->panel_height ? fmin(fmax(1, o->panel_height / ratio), MAX_PANEL)
                                : usual_width(o);
    l->high = o->panel_height ? o->panel_height : fmin(fmax(1, l->wide * ratio), MAX_PANEL);
}

static layout lay_out(const fv_look_overlay *o, const fv_typeface *face,
                      const fv_look_options *options)
{
    layout l = {.overlay = o, .options = options, .left = MARGIN};
    size_panels(&l);
    for (int64_t i = 0; i < o->panel_count; i++)
        l.captions = l.captions || (o->panels[i].caption && *o->panels[i].caption);
    l.pitch_x = l.wide + GAP;
    l.pitch_y = l.high + (l.captions ? CAPTION : 0) + GAP;
    const int64_t fit = (int64_t)fmax(1, floor((MAX_STRIP + GAP) / l.pitch_x));
    l.across = o->across ? o->across : fit;
    if (l.across > o->panel_count) l.across = o->panel_count;
    const int64_t down = (o->panel_count + l.across - 1) / l.across;
    l.top = MARGIN + (o->title ? TITLE : 0);
    l.width = 2 * MARGIN + (double)l.across * l.pitch_x - GAP;
    l.height = l.top + (double)down * l.pitch_y - GAP + MARGIN;
    if (o->title) l.width = fv_figure_title(face, o->title, l.width, MARGIN, 640, l.title);
    return l;
}

static double panel_x(const layout *l, int64_t i)
{
    return l->left + (double)(i % l->across) * l->pitch_x;
}

static double panel_y(const layout *l, int64_t i)
{
    return l->top + (double)(i / l->across) * l->pitch_y;
}

/* ---- drawing -------------------------------------------------------------------------------- */

/* Pixels to compose along an axis: those of the picture or of the grid, whichever are more, but not
 * more than the drawing has. A smooth grid is composed as finely as the drawing. */
static int64_t composed(int64_t picture, int64_t grid, double drawn, bool smooth)
{
    const int64_t most = (int64_t)ceil(drawn), n = picture > grid ? picture : grid;
    if (smooth && grid > 1 && n < most / 2) return n * (most / 2 / n);
    return n < most ? n : most;
}

static void draw_picture(fv_canvas *c, const layout *l, int64_t i, fv_overlay_means *means)
{
    fv_overlay_view view = fv_overlay_view_of(l->overlay, i, l->options);
    const fv_look_panel *p = view.panel;
    const bool lit = p->weights != NULL, smooth = lit && l->overlay->smooth;
    const int64_t rows = composed(l->overlay->height, lit ? p->rows : 1, l->high, smooth),
                  cols = composed(l->overlay->width, lit ? p->cols : 1, l->wide, smooth);
    const size_t bytes = 3 * (size_t)rows * (size_t)cols;
    unsigned char *rgb = c->status == FV_OK ? fv_mem_alloc(&c->ctx->mem, bytes) : NULL;
    if (!rgb) {
        if (c->status == FV_OK) c->status = fv_fail(c->ctx, FV_ERR_MEMORY, "look: out of memory");
        return;
    }
    fv_overlay_means_use(c->ctx, means, rows, cols, &view);
    fv_overlay_compose(&view, rows, cols, rgb);
    fv_canvas_cells(c, &(fv_cells){.x = panel_x(l, i),
                                   .y = panel_y(l, i),
                                   .width = l->wide,
                                   .height = l->high,
                                   .rows = rows,
                                   .cols = cols,
                                   .rgb = rgb,
                                   .as_image = true});
    fv_mem_free(&c->ctx->mem, rgb, bytes);
}

static bool has_mark(const fv_look_panel *p) { return p->mark[0] < p->mark[2]; }

static void draw_mark(fv_canvas *c, const layout *l, int64_t i)
{
    const double *m = l->overlay->panels[i].mark, kx = l->wide / (double)l->overlay->width,
                 ky = l->high / (double)l->overlay->height, x = panel_x(l, i), y = panel_y(l, i);
    const fv_point corners[] = {{x + m[0] * kx, y + m[1] * ky},
                                {x + m[2] * kx, y + m[1] * ky},
                                {x + m[2] * kx, y + m[3] * ky},
                                {x + m[0] * kx, y + m[3] * ky},
                                {x + m[0] * kx, y + m[1] * ky}};
    fv_canvas_path(c, corners, 5,
                   &(fv_stroke){.width = 2, .colour = FV_OVERLAY_MARK, .opacity = 1});
}

static void draw_panels(fv_canvas *c, const layout *l)
{
    char label[FV_LABEL_BYTES];
    fv_overlay_means means = {0};
    fv_canvas_text(
        c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = FV_TITLE_SIZE, .bold = true},
        l->title);
    for (int64_t i = 0; i < l->overlay->panel_count; i++) {
        const fv_look_panel *p = &l->overlay->panels[i];
        draw_picture(c, l, i, &means);
        if (has_mark(p)) draw_mark(c, l, i);
        if (!p->caption) continue;
        fv_display_fit(&c->face, p->caption, CAPTION_TEXT, l->wide, label);
        fv_canvas_text(c,
                       &(fv_text_style){.x = panel_x(l, i) + l->wide / 2,
                                        .y = panel_y(l, i) + l->high + CAPTION / 2.0 + 2,
                                        .size = CAPTION_TEXT,
                                        .anchor = FV_ANCHOR_MIDDLE},
                       label);
    }
    fv_overlay_means_free(c->ctx, &means);
}

/* Hovering: the weight of the cell under the pointer. */
static void write_script(fv_writer *o, const void *user)
{
    const layout *l = user;
    fv_writer_format(o, "<div id=\"tip\"></div>\n<script>\nconst w=%n,h=%n,panels=[\n", l->wide,
                     l->high);
    for (int64_t i = 0; i < l->overlay->panel_count; i++) {
        const fv_look_panel *p = &l->overlay->panels[i];
        fv_writer_format(o, "%s{x:%n,y:%n,v:", i ? ",\n" : "", panel_x(l, i), panel_y(l, i));
        fv_script_rows(o, &(fv_values){p->weights, p->weights ? p->rows : 0,
                                       p->weights ? p->cols : 0, p->cols});
        fv_writer_text(o, ",t:");
        fv_writer_script(o, p->caption ? p->caption : "");
        fv_writer_text(o, "}");
    }
    fv_writer_text(
        o, "];\n"
           "const svg=document.querySelector('svg'),tip=document.getElementById('tip');\n"
           "for(const p of panels)p.v=p.v.map(s=>new Float32Array("
           "Uint8Array.from(atob(s),b=>b.charCodeAt(0)).buffer));\n"
           "function leave(){tip.style.display='none';}\n"
           "svg.addEventListener('mouseleave',leave);\n"
           "svg.addEventListener('mousemove',e=>{\n"
           "  const b=svg.getBoundingClientRect(),k=svg.viewBox.baseVal.width/b.width;\n"
           "  const x=(e.clientX-b.left)*k,y=(e.clientY-b.top)*k;\n"
           "  const p=panels.find(p=>x>=p.x&&x<p.x+w&&y>=p.y&&y<p.y+h);\n"
           "  if(!p||!p.v.length)return leave();\n"
           "  const i=Math.floor((y-p.y)/h*p.v.length),j=Math.floor((x-p.x)/w*p.v[i].length);\n"
           "  tip.textContent=(p.t?p.t+'\\n':'')+'row '+i+', column '+j+': '+"
           "(+p.v[i][j].toPrecision(4));\n"
           "  tip.style.display='block';\n"
           "  tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';\n"
           "  tip.style.top=(e.clientY+14)+'px';\n"
           "});\n</script>\n");
}

/* ---- checks --------------------------------------------------------------------------------- */

static fv_status check_panel(fv_ctx *ctx, const fv_look_overlay *o, int64_t i)
{
    const fv_look_panel *p = &o->panels[i];
    const double *m = p->mark;
    FV_RETURN_IF(p->weights && (p->rows < 1 || p->cols < 1 || p->rows > FV_LOOK_MAX_SIDE ||
                                p->cols > FV_LOOK_MAX_SIDE),
                 ctx, FV_ERR_ARGUMENT, "look: panel %lld has a grid of %lld x %lld", (long long)i,
                 (long long)p->rows, (long long)p->cols);
    const bool none = m[0] == 0 && m[1] == 0 && m[2] == 0 && m[3] == 0;
    FV_RETURN_IF(!none && !(m[0] >= 0 && m[1] >= 0 && m[0] < m[2] && m[1] < m[3] &&
                            m[2] <= (double)o->width && m[3] <= (double)o->height),
                 ctx, FV_ERR_ARGUMENT, "look: panel %lld: its mark is not inside the picture",
                 (long long)i);
    return FV_OK;
}

static fv_status check(fv_ctx *ctx, const fv_look_overlay *o, fv_look_format format,
                       fv_picture **out)
{
    FV_RETURN_IF(!o || !out, ctx, FV_ERR_ARGUMENT, "look: overlay or out is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF((o->channels != 1 && o->channels != 3) || o->height < 1 || o->width < 1 ||
                     o->height > FV_LOOK_MAX_SIDE || o->width > FV_LOOK_MAX_SIDE || !o->pixels,
                 ctx, FV_ERR_ARGUMENT,
                 "look: a picture of %lld x %lld x %lld, expected 1 or 3 channels",
                 (long long)o->channels, (long long)o->height, (long long)o->width);
    FV_RETURN_IF(o->panel_count < 1 || o->panel_count > FV_LOOK_MAX_PANELS || !o->panels, ctx,
                 FV_ERR_ARGUMENT, "look: %lld panels, expected 1 to %d", (long long)o->panel_count,
                 (int)FV_LOOK_MAX_PANELS);
    FV_RETURN_IF(o->panel_width < 0 || o->panel_height < 0 || o->panel_width > MAX_PANEL ||
                     o->panel_height > MAX_PANEL || o->across < 0,
                 ctx, FV_ERR_ARGUMENT, "look: panels of %d x %d pixels, expected at most %d",
                 o->panel_width, o->panel_height, MAX_PANEL);
    FV_RETURN_IF((unsigned)o->light >= FV_LOOK_LIGHT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown light %d", (int)o->light);
    for (int64_t i = 0; i < o->panel_count; i++)
        FV_TRY(check_panel(ctx, o, i));
    return FV_OK;
}

fv_status fv_look_overlay_draw(fv_ctx *ctx, const fv_look_overlay *overlay, fv_look_format format,
                               const fv_look_options *options, fv_picture **out)
{
    fv_look_options full;
    fv_typeface face;
    fv_canvas c;
    FV_TRY(check(ctx, overlay, format, out));
    FV_TRY(fv_look_options_check(ctx, options, &full));
    if (format == FV_LOOK_FORMAT_TEXT || format == FV_LOOK_FORMAT_TERMINAL)
        return fv_overlay_print(ctx, overlay, format == FV_LOOK_FORMAT_TERMINAL, &full, out);
    FV_TRY(fv_typeface_open(ctx, format, full.font, &face));
    const layout l = lay_out(overlay, &face, &full);
    const fv_status status = fv_canvas_begin(ctx, &face, l.width, l.height, overlay->title, &c);
    if (status == FV_OK) {
        draw_panels(&c, &l);
        c.script = write_script;
        c.script_user = &l;
    }
    const fv_status end = status == FV_OK ? fv_canvas_end(&c, out) : status;
    fv_font_file_close(&face.file);
    return end;
}
