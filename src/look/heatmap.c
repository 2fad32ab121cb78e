/* A labelled heat map. */
#include <math.h>

#include "look/display_text.h"
#include "look/figure.h"

enum { MARGIN = 10, GAP = 6, TITLE = 24, AXIS_TITLE = 18, MIN_BAR = 64, MAX_TITLE = 640 };

typedef struct layout {
    const fv_look_map *map;
    const fv_typeface *face;
    fv_values values;
    fv_colour_range range;
    double wide, high;          /* of a cell */
    double row_text, col_text;  /* font sizes of labels */
    int64_t row_step, col_step; /* show every step-th label */
    bool rotated;               /* column labels */
    char title[FV_LABEL_BYTES];
    double left, top;    /* of the first cell */
    double right, below; /* ends of the cells */
    double width, height;
    bool numbers;
} layout;

/*
 * Square cells, as large as fits. If the longer side makes them too small for labels, the cells
 * grow along the shorter side until each of its labels fits.
 */
static void size_cells(const fv_look_map *map, const fv_look_options *options, double *wide,
                       double *high)
{
    enum { ACROSS = 720, LABELLED = 16 };
    const double max = options->numbers ? 40 : 28;
    const double over = fmax(1, floor(ACROSS / fmax((double)map->cols, 1))),
                 down = fmax(1, floor(ACROSS / fmax((double)map->rows, 1)));
    const double side = options->cell ? options->cell : fmin(max, fmin(over, down));
    const double min = options->cell ? 0 : LABELLED;
    *wide = fmax(side, fmin(min, over));
    *high = fmax(side, fmin(min, down));
}

/* Font size of the labels for cells of this size, and how many cells there are per label. */
static void size_labels(double cell, double *text, int64_t *step)
{
    *text = cell >= 14 ? 12 : 10;
    *step = (int64_t)ceil((*text + 2) / cell);
}

static layout lay_out(const fv_look_map *map, const fv_typeface *face,
                      const fv_look_options *options)
{
    const int64_t stride = map->stride ? map->stride : map->cols;
    layout l = {.map = map, .face = face, .numbers = options->numbers};
    l.values = (fv_values){map->values, map->rows, map->cols, stride};
    l.range = fv_colour_range_of(options, map->rows, map->cols, stride, map->values);
    size_cells(map, options, &l.wide, &l.high);
    size_labels(l.high, &l.row_text, &l.row_step);
    size_labels(l.wide, &l.col_text, &l.col_step);
    const double rows = fv_figure_widest(face, map->row_labels, map->rows, l.row_step, l.row_text),
                 cols = fv_figure_widest(face, map->col_labels, map->cols, l.col_step, l.col_text);
    l.rotated = cols > l.wide * (double)l.col_step - 3;
    l.left = MARGIN + (map->row_title ? AXIS_TITLE : 0) + (rows > 0 ? rows + GAP : 0);
    l.top = MARGIN + (map->title ? TITLE : 0) + (map->col_title ? AXIS_TITLE : 0) +
            (cols > 0 ? (l.rotated ? cols : l.col_text) + GAP : 0);
    l.right = l.left + l.wide * (double)map->cols;
    l.below = l.top + l.high * (double)map->rows;
    l.width = l.right + MARGIN + fv_figure_colour_bar_width(face, &l.range) + MARGIN;
    if (map->title)
        l.width = fv_figure_title(face, map->title, l.width, MARGIN, MAX_TITLE, l.title);
    if (map->col_title)
        l.width = fmax(l.width, l.left + fv_display_width(face, map->col_title, 12) + MARGIN);
    l.height = fmax(l.below, l.top + MIN_BAR) + MARGIN;
    if (map->row_title)
        l.height = fmax(l.height, l.top + fv_display_width(face, map->row_title, 12) + MARGIN);
    return l;
}

static void draw_titles(fv_canvas *c, const layout *l)
{
    const fv_look_map *map = l->map;
    double y = MARGIN;
    fv_canvas_text(c,
                   &(fv_text_style){.x = MARGIN, .y = y + 8, .size = FV_TITLE_SIZE, .bold = true},
                   l->title);
    if (map->title) y += TITLE;
    fv_canvas_text(c,
                   &(fv_text_style){.x = l->left, .y = y + 6, .size = 12, .colour = FV_RGB_FAINT},
                   map->col_title);
    fv_canvas_text(
        c,
        &(fv_text_style){.x = MARGIN + 6,
                         .y = l->top +
                              fv_display_width(l->face, map->row_title ? map->row_title : "", 12),
                         .size = 12,
                         .rotated = true,
                         .colour = FV_RGB_FAINT},
        map->row_title);
}

/* Labels of wide letters are stacked as in print; others are rotated, and so are the code points
 * that PNG and PDF show for wide letters. */
static void draw_column_label(fv_canvas *c, const layout *l, double x, const char *label)
{
    const fv_look_format format = l->face->format;
    const bool letters = format == FV_LOOK_FORMAT_SVG || format == FV_LOOK_FORMAT_HTML,
               stacked = l->rotated && letters && fv_display_is_wide(label),
               rotated = l->rotated && !stacked;
    fv_canvas_text(c,
                   &(fv_text_style){.x = x,
                                    .y = l->top - GAP - (l->rotated ? 0 : l->col_text / 2),
                                    .size = l->col_text,
                                    .rotated = rotated,
                                    .stacked = stacked,
                                    .anchor = rotated ? FV_ANCHOR_START : FV_ANCHOR_MIDDLE},
                   label);
}

static void draw_labels(fv_canvas *c, const layout *l)
{
    const fv_look_map *map = l->map;
    char label[FV_LABEL_BYTES];
    for (int64_t i = 0; map->row_labels && i < map->rows; i += l->row_step)
        fv_canvas_text(c,
                       &(fv_text_style){.x = l->left - GAP,
                                        .y = l->top + ((double)i + 0.5) * l->high,
                                        .size = l->row_text,
                                        .anchor = FV_ANCHOR_END},
                       fv_display_label(map->row_labels[i], label));
    for (int64_t j = 0; map->col_labels && j < map->cols; j += l->col_step)
        draw_column_label(c, l, l->left + ((double)j + 0.5) * l->wide,
                          fv_display_label(map->col_labels[j], label));
}

/* Crosses out NaN cells that are large enough. */
static void draw_crosses(fv_canvas *c, const layout *l)
{
    enum { ROOM = 6 };
    if (fmin(l->wide, l->high) < ROOM) return;
    for (int64_t i = 0; i < l->values.rows; i++)
        for (int64_t j = 0; j < l->values.cols; j++) {
            if (!isnan(l->values.at[i * l->values.stride + j])) continue;
            const double x = l->left + (double)j * l->wide, y = l->top + (double)i * l->high;
            const double left = x + 0.2 * l->wide, right = x + 0.8 * l->wide;
            const double top = y + 0.2 * l->high, low = y + 0.8 * l->high;
            fv_canvas_line(c, left, top, right, low, 1, FV_RGB_WHITE);
            fv_canvas_line(c, left, low, right, top, 1, FV_RGB_WHITE);
        }
}

static void draw_numbers(fv_canvas *c, const layout *l)
{
    char text[FV_FIXED_BYTES];
    for (int64_t i = 0; i < l->values.rows; i++)
        for (int64_t j = 0; j < l->values.cols; j++) {
            const double value = l->values.at[i * l->values.stride + j];
            if (isnan(value)) continue;
            const bool dark = fv_colour_is_dark(fv_colour_of(&l->range, value));
            fv_canvas_text(c,
                           &(fv_text_style){.x = l->left + ((double)j + 0.5) * l->wide,
                                            .y = l->top + ((double)i + 0.5) * l->high,
                                            .size = fmin(12, l->wide * 0.34),
                                            .anchor = FV_ANCHOR_MIDDLE,
                                            .colour = dark ? FV_RGB_WHITE : FV_RGB_INK},
                           fv_fixed(value, fabs(value) < 100 ? 2 : 0, false, text));
        }
}

static void draw_frame(fv_canvas *c, const layout *l)
{
    const fv_point corners[] = {{l->left, l->top},
                                {l->right, l->top},
                                {l->right, l->below},
                                {l->left, l->below},
                                {l->left, l->top}};
    fv_canvas_path(c, corners, 5, &(fv_stroke){.width = 1, .colour = FV_RGB_RULE, .opacity = 1});
}

/* Hovering: finds the cell under the pointer, labels and frames it. */
static void write_script(fv_writer *o, const void *user)
{
    const layout *l = user;
    fv_writer_format(o,
                     "<div id=\"tip\"></div>\n<script>\nconst m={x:%n,y:%n,w:%n,h:%n,r:", l->left,
                     l->top, l->wide, l->high);
    fv_script_labels(o, l->map->row_labels, l->map->rows);
    fv_writer_text(o, ",\nc:");
    fv_script_labels(o, l->map->col_labels, l->map->cols);
    fv_writer_text(o, ",\nv:");
    fv_script_rows(o, &l->values);
    fv_writer_text(
        o,
        "};\n"
        "const svg=document.querySelector('svg'),tip=document.getElementById('tip');\n"
        "const rows=m.v.map(s=>new Float32Array(Uint8Array.from(atob(s),b=>b.charCodeAt(0)).buffer"
        "));\n"
        "const mark=document.createElementNS('http://www.w3.org/2000/svg','rect');\n"
        "for(const[k,v]of Object.entries({width:m.w,height:m.h,fill:'none',stroke:'#d9541e',"
        "'stroke-width':2,visibility:'hidden'}))mark.setAttribute(k,v);\n"
        "svg.appendChild(mark);\n"
        "function leave(){tip.style.display='none';mark.setAttribute('visibility','hidden');}\n"
        "svg.addEventListener('mouseleave',leave);\n"
        "svg.addEventListener('mousemove',e=>{\n"
        "  const b=svg.getBoundingClientRect(),k=svg.viewBox.baseVal.width/b.width;\n"
        "  const j=Math.floor(((e.clientX-b.left)*k-m.x)/m.w);\n"
        "  const i=Math.floor(((e.clientY-b.top)*k-m.y)/m.h);\n"
        "  if(!rows[i]||j<0||j>=rows[i].length)return leave();\n"
        "  const name=(list,n)=>list[n]||'#'+n;\n"
        "  tip.textContent=name(m.r,i)+' \\u2192 '+name(m.c,j)+'\\n'+"
        "(+rows[i][j].toPrecision(4));\n"
        "  tip.style.display='block';\n"
        "  tip.style.left=Math.min(e.clientX+14,innerWidth-tip.offsetWidth-8)+'px';\n"
        "  tip.style.top=(e.clientY+14)+'px';\n"
        "  mark.setAttribute('x',m.x+j*m.w);mark.setAttribute('y',m.y+i*m.h);\n"
        "  mark.setAttribute('visibility','visible');\n"
        "});\n</script>\n");
}

static fv_status check(fv_ctx *ctx, const fv_look_map *map, fv_look_format format, fv_picture **out)
{
    FV_RETURN_IF(!map || !out, ctx, FV_ERR_ARGUMENT, "look: map or out is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF(map->rows < 0 || map->cols < 0 || (map->stride != 0 && map->stride < map->cols),
                 ctx, FV_ERR_ARGUMENT, "look: invalid size: a map of %lld x %lld with stride %lld",
                 (long long)map->rows, (long long)map->cols, (long long)map->stride);
    FV_RETURN_IF(map->rows > FV_LOOK_MAX_SIDE || map->cols > FV_LOOK_MAX_SIDE, ctx, FV_ERR_LIMIT,
                 "look: a map of %lld x %lld is too large, the limit is %d x %d",
                 (long long)map->rows, (long long)map->cols, (int)FV_LOOK_MAX_SIDE,
                 (int)FV_LOOK_MAX_SIDE);
    FV_RETURN_IF(!map->values && map->rows > 0 && map->cols > 0, ctx, FV_ERR_ARGUMENT,
                 "look: map->values is NULL");
    return FV_OK;
}

static void draw(fv_canvas *c, const layout *l)
{
    draw_titles(c, l);
    draw_labels(c, l);
    fv_figure_cells(c, &l->values, &l->range,
                    &(fv_cells){.x = l->left,
                                .y = l->top,
                                .width = l->right - l->left,
                                .height = l->below - l->top,
                                .rows = l->map->rows,
                                .cols = l->map->cols});
    draw_crosses(c, l);
    if (l->numbers) draw_numbers(c, l);
    draw_frame(c, l);
    fv_figure_colour_bar(c, &l->range, l->right + MARGIN, l->top,
                         fmin(160, fmax(MIN_BAR, l->below - l->top)));
    c->script = write_script;
    c->script_user = l;
}

fv_status fv_look_map_draw(fv_ctx *ctx, const fv_look_map *map, fv_look_format format,
                           const fv_look_options *options, fv_picture **out)
{
    fv_look_options full;
    fv_typeface face;
    fv_canvas c;
    FV_TRY(check(ctx, map, format, out));
    FV_TRY(fv_look_options_check(ctx, options, &full));
    if (format == FV_LOOK_FORMAT_TEXT || format == FV_LOOK_FORMAT_TERMINAL)
        return fv_heatmap_print(ctx, map, format == FV_LOOK_FORMAT_TERMINAL, &full, out);
    FV_TRY(fv_typeface_open(ctx, format, full.font, &face));
    const layout l = lay_out(map, &face, &full);
    const fv_status status = fv_canvas_begin(ctx, &face, l.width, l.height, map->title, &c);
    if (status == FV_OK) draw(&c, &l);
    const fv_status end = status == FV_OK ? fv_canvas_end(&c, out) : status;
    fv_font_file_close(&face.file);
    return end;
}
