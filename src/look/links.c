/* Two columns of words with a line for each weight, for one layer or several side by side. */
#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "look/display_text.h"
#include "look/figure.h"
#include "look/links_page.h"

enum {
    MARGIN = 10,
    GAP = 6,
    TITLE = 26,
    LINE = 20,
    TEXT = 13,
    ACROSS = 220,      /* length of the lines of one layer */
    ACROSS_MANY = 110, /* of several */
    BETWEEN = 30,      /* two layers */
    PER_ROW = 3,       /* layers */
    BAR_WIDTH = 6,     /* of one head */
    BAR_HEIGHT = 14,
    MAX_WORDS = 1024,
    MAX_HEADS = 64,
    MAX_LAYERS = 256
};

typedef struct layout {
    const fv_look_links *links;
    int64_t layers, per_row;
    double min_weight;
    double top, left, right; /* first layer: top of the first word; ends of the lines */
    double bars;             /* width of the bars beside a word, with a gap; 0: none */
    double across, down;     /* from one layer to the next */
    double width, height;
    float *bar; /* mean weights, [layers][heads][cols] */
    size_t bar_bytes;
    float full_bar;           /* the largest */
    unsigned char *has_lines; /* of each row: whether it has any */
} layout;

static const char *head_name(const fv_look_links *links, int64_t head, char text[FV_FIXED_BYTES])
{
    if (links->head_names && links->head_names[head]) return links->head_names[head];
    return fv_fixed((double)head, 0, false, text);
}

/* The names of the heads form one line below the title: the distance to the next name, and the
 * width of the line. */
static double legend_step(const fv_look_links *links, const fv_typeface *face, int64_t head)
{
    char text[FV_FIXED_BYTES];
    return fv_display_width(face, head_name(links, head, text), TEXT) + 28;
}

static double legend_width(const fv_look_links *links, const fv_typeface *face)
{
    double width = 0;
    for (int64_t h = 0; links->heads > 1 && h < links->heads; h++)
        width += legend_step(links, face, h);
    return width;
}

static const float *weights_of(const fv_look_links *links, int64_t layer, int64_t head)
{
    return links->values + (layer * links->heads + head) * links->rows * links->cols;
}

/* The weight of a line; negative if it is not drawn, as for NaN. */
static double weight_at(const layout *l, int64_t layer, int64_t h, int64_t i, int64_t j)
{
    const double w = weights_of(l->links, layer, h)[i * l->links->cols + j];
    return w >= l->min_weight ? fmin(w, 1) : -1;
}

static bool is_shown(const layout *l, int64_t row)
{
    return l->links->only_row < 0 || l->links->only_row == row;
}

/* Adds a row of a head to its bars, if the row has lines there. */
static bool add_row(const layout *l, const float *row, float *bars)
{
    const int64_t cols = l->links->cols;
    bool any = false;
    for (int64_t j = 0; j < cols && !any; j++)
        any = (double)row[j] >= l->min_weight;
    for (int64_t j = 0; any && j < cols; j++)
        if (row[j] > 0) bars[j] += fminf(row[j], 1);
    return any;
}

/* Finds the rows that have lines in any layer, and the mean weights that the bars show. */
static fv_status measure(fv_ctx *ctx, layout *l)
{
    const fv_look_links *links = l->links;
    size_t count = 0;
    const bool fits =
        fv_checked_mul_size((size_t)(l->layers * links->heads), (size_t)links->cols, &count) &&
        fv_checked_mul_size(count, sizeof *l->bar, &l->bar_bytes);
    l->has_lines = fv_mem_alloc(&ctx->mem, (size_t)links->rows + 1);
    l->bar = fits ? fv_mem_alloc(&ctx->mem, l->bar_bytes + 1) : NULL;
    FV_RETURN_IF(!l->has_lines || !l->bar, ctx, FV_ERR_MEMORY, "look: out of memory");
    memset(l->has_lines, 0, (size_t)links->rows + 1);
    memset(l->bar, 0, l->bar_bytes);
    for (int64_t n = 0; n < l->layers * links->heads; n++) {
        float *bar = l->bar + n * links->cols;
        int64_t rows = 0;
        for (int64_t i = 0; i < links->rows; i++) {
            const float *row = links->values + (n * links->rows + i) * links->cols;
            if (!is_shown(l, i) || !add_row(l, row, bar)) continue;
            l->has_lines[i] = 1;
            rows++;
        }
        for (int64_t j = 0; rows > 0 && j < links->cols; j++) {
            bar[j] /= (float)rows;
            l->full_bar = fmaxf(l->full_bar, bar[j]);
        }
    }
    return FV_OK;
}

static void layout_free(fv_ctx *ctx, layout *l)
{
    fv_mem_free(&ctx->mem, l->bar, l->bar_bytes + 1);
    fv_mem_free(&ctx->mem, l->has_lines, (size_t)l->links->rows + 1);
}

static layout lay_out(const fv_look_links *links, const fv_typeface *face)
{
    const double rows = fv_figure_widest(face, links->row_labels, links->rows, 1, TEXT),
                 cols = fv_figure_widest(face, links->col_labels, links->cols, 1, TEXT);
    const int64_t lines = links->rows > links->cols ? links->rows : links->cols;
    layout l = {.links = links,
                .layers = links->layers ? links->layers : 1,
                .min_weight = links->min_weight > 0 ? links->min_weight : 0.02};
    l.per_row = l.layers < PER_ROW ? l.layers : PER_ROW;
    l.bars = links->heads > 1 ? (double)links->heads * BAR_WIDTH + GAP : 0;
    const double name = links->layer_names ? TITLE : 0;
    l.top = MARGIN + (links->title ? TITLE : 0) + (links->heads > 1 ? TITLE : 0) + name;
    l.left = MARGIN + rows + GAP;
    l.right = l.left + (l.layers > 1 ? ACROSS_MANY : ACROSS);
    const double end = l.right + GAP + l.bars + cols;
    l.across = end - MARGIN + BETWEEN;
    l.down = LINE * (double)lines + MARGIN + name;
    l.width = end + MARGIN + (double)(l.per_row - 1) * l.across;
    if (links->title)
        l.width = fmax(l.width, 1.1 * fv_display_width(face, links->title, 14) + 2 * MARGIN);
    l.width = fmax(l.width, legend_width(links, face) + 2 * MARGIN);
    l.height = l.top - name + l.down * (double)((l.layers + l.per_row - 1) / l.per_row) + MARGIN;
    return l;
}

static double panel_x(const layout *l, int64_t layer)
{
    return (double)(layer % l->per_row) * l->across;
}

static double line_y(const layout *l, int64_t layer, int64_t i)
{
    return l->top + (double)(layer / l->per_row) * l->down + ((double)i + 0.5) * LINE;
}

static double legend_y(const layout *l)
{
    return l->top - TITLE + 8 - (l->links->layer_names ? TITLE : 0);
}

static void draw_legend(fv_canvas *c, const layout *l)
{
    double x = MARGIN;
    const double y = legend_y(l);
    char text[FV_FIXED_BYTES];
    for (int64_t h = 0; l->links->heads > 1 && h < l->links->heads; h++) {
        const char *name = head_name(l->links, h, text);
        fv_canvas_rect(c, x, y - 5, 10, 10, fv_colour_series(h));
        fv_canvas_text(c, &(fv_text_style){.x = x + 14, .y = y, .size = TEXT}, name);
        x += legend_step(l->links, &c->face, h);
    }
}

/* A row without lines is faint. */
static void draw_words(fv_canvas *c, const layout *l, int64_t layer)
{
    const fv_look_links *links = l->links;
    const double x = panel_x(l, layer);
    char label[FV_LABEL_BYTES];
    if (links->layer_names)
        fv_canvas_text(
            c,
            &(fv_text_style){
                .x = x + MARGIN, .y = line_y(l, layer, -1) + 2, .size = TEXT, .bold = true},
            fv_display_label(links->layer_names[layer], label));
    for (int64_t i = 0; links->row_labels && i < links->rows; i++)
        fv_canvas_text(c,
                       &(fv_text_style){.x = x + l->left - GAP,
                                        .y = line_y(l, layer, i),
                                        .size = TEXT,
                                        .anchor = FV_ANCHOR_END,
                                        .colour = l->has_lines[i] ? FV_RGB_INK : FV_RGB_FAINT},
                       fv_display_label(links->row_labels[i], label));
    for (int64_t j = 0; links->col_labels && j < links->cols; j++)
        fv_canvas_text(c,
                       &(fv_text_style){.x = x + l->right + GAP + l->bars,
                                        .y = line_y(l, layer, j),
                                        .size = TEXT},
                       fv_display_label(links->col_labels[j], label));
}

/* The colour of a head on white, `share` of it. */
static fv_rgb faded(fv_rgb colour, double share)
{
    fv_rgb out = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        const double part = (double)(colour >> shift & 255);
        out |= (fv_rgb)lround(255 + (part - 255) * share) << shift;
    }
    return out;
}

/* One bar for each head beside each word on the right. HTML has the empty ones too: its script
 * shows other weights with them. */
static void draw_bars(fv_canvas *c, const layout *l, int64_t layer)
{
    const fv_look_links *links = l->links;
    for (int64_t j = 0; l->bars > 0 && j < links->cols; j++)
        for (int64_t h = 0; h < links->heads && c->status == FV_OK; h++) {
            const float bar = l->bar[(layer * links->heads + h) * links->cols + j];
            const double share = l->full_bar > 0 ? (double)(bar / l->full_bar) : 0;
            const fv_rgb colour = faded(fv_colour_series(h), share);
            if (colour == FV_RGB_WHITE && c->format != FV_LOOK_FORMAT_HTML) continue;
            fv_canvas_rect(c, panel_x(l, layer) + l->right + GAP + (double)h * BAR_WIDTH,
                           line_y(l, layer, j) - BAR_HEIGHT / 2.0, BAR_WIDTH, BAR_HEIGHT, colour);
        }
}

/* A strong weight is a dark, thick line. With several heads, opacity falls with the weight: many
 * weak lines would hide the strong ones. */
static void draw_lines(fv_canvas *c, const layout *l, int64_t layer)
{
    const fv_look_links *links = l->links;
    const double faintest = links->heads > 1 ? 0 : 0.08, x = panel_x(l, layer);
    for (int64_t h = 0; h < links->heads; h++)
        for (int64_t i = 0; i < links->rows; i++) {
            if (!is_shown(l, i)) continue;
            for (int64_t j = 0; j < links->cols && c->status == FV_OK; j++) {
                const double w = weight_at(l, layer, h, i, j);
                if (w < 0) continue;
                const fv_point ends[] = {{x + l->left, line_y(l, layer, i)},
                                         {x + l->right, line_y(l, layer, j)}};
                fv_canvas_path(c, ends, 2,
                               &(fv_stroke){.width = 1 + 2 * w,
                                            .colour = fv_colour_series(h),
                                            .opacity = faintest + (1 - faintest) * w});
            }
        }
}

/* The lines in drawing order, for the script. */
static void write_lines(fv_writer *o, const layout *l)
{
    const fv_look_links *links = l->links;
    char text[FV_FIXED_BYTES];
    fv_writer_text(o, ",\nl:[");
    for (int64_t n = 0; n < l->layers; n++)
        for (int64_t h = 0; h < links->heads; h++)
            for (int64_t i = 0; i < links->rows; i++) {
                if (!is_shown(l, i)) continue;
                for (int64_t j = 0; j < links->cols && !o->failed; j++) {
                    const double w = weight_at(l, n, h, i, j);
                    if (w >= 0)
                        fv_writer_format(o, "[%d,%d,%d,%s,%d],", (int)h, (int)i, (int)j,
                                         fv_fixed(w, 4, true, text), (int)n);
                }
            }
    fv_writer_text(o, "]");
}

static void write_script(fv_writer *o, const void *user)
{
    const layout *l = user;
    const fv_look_links *links = l->links;
    char text[FV_FIXED_BYTES];
    fv_writer_format(
        o,
        "%s<script>\nconst m={x:%n,right:%n,y:%n,line:%d,rows:%d,cols:%d,layers:%d,per:%d,"
        "across:%n,down:%n,end:%n,r:",
        fv_links_page_body, l->left, l->right, l->top, (int)LINE, (int)links->rows,
        (int)links->cols, (int)l->layers, (int)l->per_row, l->across, l->down,
        l->across - BETWEEN + MARGIN);
    fv_script_labels(o, links->row_labels, links->rows);
    fv_writer_text(o, ",\nc:");
    fv_script_labels(o, links->col_labels, links->cols);
    fv_writer_text(o, ",\nn:[");
    for (int64_t h = 0; h < links->heads; h++) {
        fv_writer_text(o, h > 0 ? "," : "");
        fv_writer_script(o, head_name(links, h, text));
    }
    fv_writer_format(o, "],ly:%n,lx:[", legend_y(l));
    double x = MARGIN;
    for (int64_t h = 0; links->heads > 1 && h < links->heads; h++) {
        fv_writer_format(o, "%s%n", h > 0 ? "," : "", x);
        x += legend_step(links, &(fv_typeface){.format = FV_LOOK_FORMAT_HTML}, h);
    }
    fv_writer_text(o, "]");
    write_lines(o, l);
    fv_writer_format(o, "};\n%s</script>\n", fv_links_page_script);
}

static fv_status check(fv_ctx *ctx, const fv_look_links *links, fv_look_format format,
                       fv_picture **out)
{
    FV_RETURN_IF(!links || !out, ctx, FV_ERR_ARGUMENT, "look: links or out is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF(links->rows < 0 || links->cols < 0 || links->heads < 1 || links->layers < 0, ctx,
                 FV_ERR_ARGUMENT, "look: invalid size: %lld heads, %lld x %lld words",
                 (long long)links->heads, (long long)links->rows, (long long)links->cols);
    FV_RETURN_IF(
        links->rows > MAX_WORDS || links->cols > MAX_WORDS || links->heads > MAX_HEADS ||
            links->layers > MAX_LAYERS,
        ctx, FV_ERR_LIMIT,
        "look: too large to draw: %lld layers, %lld heads, %lld x %lld words, the limit is "
        "%d, %d, %d x %d",
        (long long)links->layers, (long long)links->heads, (long long)links->rows,
        (long long)links->cols, (int)MAX_LAYERS, (int)MAX_HEADS, (int)MAX_WORDS, (int)MAX_WORDS);
    FV_RETURN_IF(!links->values && links->rows > 0 && links->cols > 0, ctx, FV_ERR_ARGUMENT,
                 "look: links->values is NULL");
    FV_RETURN_IF(links->only_row < -1 || links->only_row >= links->rows, ctx, FV_ERR_ARGUMENT,
                 "look: only_row is %lld, but there are %lld rows", (long long)links->only_row,
                 (long long)links->rows);
    return FV_OK;
}

fv_status fv_look_links_draw(fv_ctx *ctx, const fv_look_links *links, fv_look_format format,
                             fv_picture **out)
{
    fv_canvas c;
    FV_TRY(check(ctx, links, format, out));
    fv_typeface face;
    FV_TRY(fv_typeface_open(ctx, format, links->font, &face));
    layout l = lay_out(links, &face);
    fv_status status = measure(ctx, &l);
    if (status == FV_OK) status = fv_canvas_begin(ctx, &face, l.width, l.height, links->title, &c);
    if (status != FV_OK) {
        fv_font_file_close(&face.file);
        layout_free(ctx, &l);
        return status;
    }
    fv_canvas_text(&c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = 14, .bold = true},
                   links->title);
    draw_legend(&c, &l);
    for (int64_t layer = 0; layer < l.layers; layer++)
        draw_bars(&c, &l, layer);
    for (int64_t layer = 0; layer < l.layers; layer++) {
        draw_lines(&c, &l, layer);
        draw_words(&c, &l, layer);
    }
    c.script = write_script;
    c.script_user = &l;
    status = fv_canvas_end(&c, out);
    fv_font_file_close(&face.file);
    layout_free(ctx, &l);
    return status;
}
