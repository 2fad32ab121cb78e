/* Two columns of words with a line for each weight. */
#include <math.h>

#include "base/checked_math.h"
#include "look/display_text.h"
#include "look/figure.h"
#include "look/links_page.h"

enum { MARGIN = 10, GAP = 6, TITLE = 26, LINE = 20, ACROSS = 220, TEXT = 13, MAX_WORDS = 1024 };

typedef struct layout {
    const fv_look_links *links;
    double min_weight;
    double top, left, right; /* top of the first word; left and right end of the lines */
    double width, height;
} layout;

static const char *head_name(const fv_look_links *links, int64_t head, char text[FV_FIXED_BYTES])
{
    if (links->head_names && links->head_names[head]) return links->head_names[head];
    return fv_fixed((double)head, 0, false, text);
}

/* The names of the heads form one line below the title: the distance to the next name, and the
 * width of the line. */
static double legend_step(const fv_look_links *links, fv_look_format format, int64_t head)
{
    char text[FV_FIXED_BYTES];
    return fv_display_width(format, head_name(links, head, text), TEXT) + 28;
}

static double legend_width(const fv_look_links *links, fv_look_format format)
{
    double width = 0;
    for (int64_t h = 0; links->heads > 1 && h < links->heads; h++)
        width += legend_step(links, format, h);
    return width;
}

static layout lay_out(const fv_look_links *links, fv_look_format format)
{
    const double rows = fv_figure_widest(format, links->row_labels, links->rows, 1, TEXT),
                 cols = fv_figure_widest(format, links->col_labels, links->cols, 1, TEXT);
    const int64_t lines = links->rows > links->cols ? links->rows : links->cols;
    layout l = {.links = links, .min_weight = links->min_weight > 0 ? links->min_weight : 0.02};
    l.top = MARGIN + (links->title ? TITLE : 0) + (links->heads > 1 ? TITLE : 0);
    l.left = MARGIN + rows + GAP;
    l.right = l.left + ACROSS;
    l.width = l.right + GAP + cols + MARGIN;
    if (links->title)
        l.width = fmax(l.width, 1.1 * fv_display_width(format, links->title, 14) + 2 * MARGIN);
    l.width = fmax(l.width, legend_width(links, format) + 2 * MARGIN);
    l.height = l.top + LINE * (double)lines + MARGIN;
    return l;
}

static double line_y(const layout *l, int64_t i) { return l->top + ((double)i + 0.5) * LINE; }

static double legend_y(const layout *l) { return l->top - TITLE + 8; }

static void draw_legend(fv_canvas *c, const layout *l)
{
    double x = MARGIN;
    const double y = legend_y(l);
    char text[FV_FIXED_BYTES];
    for (int64_t h = 0; l->links->heads > 1 && h < l->links->heads; h++) {
        const char *name = head_name(l->links, h, text);
        fv_canvas_rect(c, x, y - 5, 10, 10, fv_colour_series(h));
        fv_canvas_text(c, &(fv_text_style){.x = x + 14, .y = y, .size = TEXT}, name);
        x += legend_step(l->links, c->format, h);
    }
}

static void draw_words(fv_canvas *c, const layout *l)
{
    const fv_look_links *links = l->links;
    char label[FV_LABEL_BYTES];
    for (int64_t i = 0; links->row_labels && i < links->rows; i++) {
        const bool aside = links->only_row >= 0 && links->only_row != i;
        fv_canvas_text(c,
                       &(fv_text_style){.x = l->left - GAP,
                                        .y = line_y(l, i),
                                        .size = TEXT,
                                        .anchor = FV_ANCHOR_END,
                                        .colour = aside ? FV_RGB_FAINT : FV_RGB_INK},
                       fv_display_label(links->row_labels[i], label));
    }
    for (int64_t j = 0; links->col_labels && j < links->cols; j++)
        fv_canvas_text(c, &(fv_text_style){.x = l->right + GAP, .y = line_y(l, j), .size = TEXT},
                       fv_display_label(links->col_labels[j], label));
}

/* The weight of a line; negative if it is not drawn, as for NaN. */
static double weight_at(const layout *l, int64_t h, int64_t i, int64_t j)
{
    const fv_look_links *links = l->links;
    const double w = links->values[(h * links->rows + i) * links->cols + j];
    return w >= l->min_weight ? fmin(w, 1) : -1;
}

static bool is_shown(const layout *l, int64_t row)
{
    return l->links->only_row < 0 || l->links->only_row == row;
}

/* A strong weight is a dark, thick line. With several heads, opacity falls with the weight: many
 * weak lines would hide the strong ones. */
static void draw_lines(fv_canvas *c, const layout *l)
{
    const fv_look_links *links = l->links;
    const double faintest = links->heads > 1 ? 0 : 0.08;
    for (int64_t h = 0; h < links->heads; h++)
        for (int64_t i = 0; i < links->rows; i++) {
            if (!is_shown(l, i)) continue;
            for (int64_t j = 0; j < links->cols && c->status == FV_OK; j++) {
                const double w = weight_at(l, h, i, j);
                if (w < 0) continue;
                const fv_point ends[] = {{l->left, line_y(l, i)}, {l->right, line_y(l, j)}};
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
    for (int64_t h = 0; h < links->heads; h++)
        for (int64_t i = 0; i < links->rows; i++) {
            if (!is_shown(l, i)) continue;
            for (int64_t j = 0; j < links->cols && !o->failed; j++) {
                const double w = weight_at(l, h, i, j);
                if (w >= 0)
                    fv_writer_format(o, "[%d,%d,%d,%s],", (int)h, (int)i, (int)j,
                                     fv_fixed(w, 4, true, text));
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
        o, "%s<script>\nconst m={x:%n,right:%n,y:%n,line:%d,rows:%d,cols:%d,r:", fv_links_page_body,
        l->left, l->right, l->top, (int)LINE, (int)links->rows, (int)links->cols);
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
        x += legend_step(links, FV_LOOK_FORMAT_HTML, h);
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
    FV_RETURN_IF(links->rows < 0 || links->cols < 0 || links->heads < 1, ctx, FV_ERR_ARGUMENT,
                 "look: invalid size: %lld heads, %lld x %lld words", (long long)links->heads,
                 (long long)links->rows, (long long)links->cols);
    FV_RETURN_IF(links->rows > MAX_WORDS || links->cols > MAX_WORDS || links->heads > 64, ctx,
                 FV_ERR_LIMIT,
                 "look: too large to draw: %lld heads, %lld x %lld words, the limit is 64, %d x %d",
                 (long long)links->heads, (long long)links->rows, (long long)links->cols,
                 (int)MAX_WORDS, (int)MAX_WORDS);
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
    const layout l = lay_out(links, format);
    FV_TRY(fv_canvas_begin(ctx, format, l.width, l.height, &c));
    fv_canvas_text(&c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = 14, .bold = true},
                   links->title);
    draw_legend(&c, &l);
    draw_lines(&c, &l);
    draw_words(&c, &l);
    c.script = write_script;
    c.script_user = &l;
    return fv_canvas_end(&c, out);
}
