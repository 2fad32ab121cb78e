/* A walk on a map, and the words that the agent looked at in each step. */
#include <math.h>
#include <string.h>

#include "look/display_text.h"
#include "look/figure.h"

enum { MARGIN = 12, TITLE = 28, CELL = 52, TEXT = 12, SMALL = 10, LINE = 20, WORD = 26, GAP = 28 };
enum { MOST_SIDE = 64, MOST_STEPS = 4096, MOST_WORDS = 1024 };

/* "#" and objects; the colour of an object is its first word. */
static bool is_wall(const char *cell) { return cell && strcmp(cell, "#") == 0; }

static const struct {
    const char *name;
    fv_rgb colour;
} colours[] = {
    {"red", 0xd1495bu}, {"blue", 0x3d6fb4u}, {"green", 0x3a8f5cu}, {"yellow", 0xb8860bu}};

static fv_rgb colour_of(const char *object)
{
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (strncmp(object, colours[i].name, strlen(colours[i].name)) == 0)
            return colours[i].colour;
    return FV_RGB_INK;
}

static const char *thing_of(const char *object)
{
    const char *blank = strchr(object, ' ');
    return blank ? blank + 1 : object;
}

/* ---- drawing -------------------------------------------------------------------------------- */

typedef struct layout {
    const fv_look_walk *walk;
    double top, map_height, words_x, words_y, width, height;
} layout;

static layout lay_out(const fv_look_walk *w, const fv_typeface *face)
{
    layout l = {.walk = w, .top = MARGIN + (w->title ? TITLE : 0)};
    const double map_width = (double)w->cols * CELL;
    l.map_height = (double)w->rows * CELL;
    l.width = MARGIN + map_width + MARGIN;
    l.height = l.top + l.map_height + MARGIN;
    if (w->weights) {
        double actions = 0;
        for (int64_t i = 0; i < w->step_count; i++)
            actions = fmax(actions, fv_display_width(face, w->step[i].action, TEXT));
        const double labels = fv_figure_widest(face, w->word, w->word_count, 1, TEXT);
        l.words_x = MARGIN + map_width + GAP + actions + 34;
        l.words_y = l.top + labels + 8;
        l.width = l.words_x + (double)w->word_count * WORD + MARGIN;
        l.height = fmax(l.height, l.words_y + (double)w->step_count * LINE + MARGIN);
    }
    if (w->title)
        l.width = fmax(l.width, 1.1 * fv_display_width(face, w->title, FV_TITLE_SIZE) + 2 * MARGIN);
    return l;
}

static fv_point centre_of(const layout *l, int row, int col)
{
    return (fv_point){MARGIN + ((double)col + 0.5) * CELL, l->top + ((double)row + 0.5) * CELL};
}

static void draw_map(fv_canvas *c, const layout *l)
{
    const fv_look_walk *w = l->walk;
    for (int row = 0; row < w->rows; row++)
        for (int col = 0; col < w->cols; col++) {
            const fv_point p = centre_of(l, row, col);
            if (is_wall(w->cell[row * w->cols + col]))
                fv_canvas_rect(c, p.x - CELL / 2.0, p.y - CELL / 2.0, CELL, CELL, 0xc4c8d2u);
        }
    for (int i = 0; i <= w->rows; i++) {
        const double y = l->top + (double)i * CELL;
        fv_canvas_line(c, MARGIN, y, MARGIN + (double)w->cols * CELL, y, 1, FV_RGB_RULE);
    }
    for (int i = 0; i <= w->cols; i++) {
        const double x = MARGIN + (double)i * CELL;
        fv_canvas_line(c, x, l->top, x, l->top + l->map_height, 1, FV_RGB_RULE);
    }
}

/* Names in the colour of the object, over the path. */
static void draw_objects(fv_canvas *c, const layout *l)
{
    const fv_look_walk *w = l->walk;
    for (int row = 0; row < w->rows; row++)
        for (int col = 0; col < w->cols; col++) {
            const char *cell = w->cell[row * w->cols + col];
            if (!cell || is_wall(cell)) continue;
            const fv_point p = centre_of(l, row, col);
            char label[FV_LABEL_BYTES];
            fv_display_label(thing_of(cell), label);
            const double y = p.y + CELL / 2.0 - 9,
                         half = fv_display_width(&c->face, label, TEXT) / 2;
            fv_canvas_rect(c, p.x - half - 2, y - 7, 2 * half + 4, 14, FV_RGB_WHITE);
            fv_canvas_text(c,
                           &(fv_text_style){.x = p.x,
                                            .y = y,
                                            .size = TEXT,
                                            .anchor = FV_ANCHOR_MIDDLE,
                                            .bold = true,
                                            .colour = colour_of(cell)},
                           label);
        }
}

/* A disc with a pointer in the direction of the heading. */
static void draw_agent(fv_canvas *c, const layout *l, const fv_look_step *s, fv_rgb colour)
{
    static const double across[4] = {0, 1, 0, -1}, down[4] = {-1, 0, 1, 0};
    const fv_point p = centre_of(l, s->row, s->col);
    const double x = across[s->heading & 3], y = down[s->heading & 3];
    const fv_point pointer[] = {{p.x - 4 * x + 4 * y, p.y - 4 * y - 4 * x},
                                {p.x + 5 * x, p.y + 5 * y},
                                {p.x - 4 * x - 4 * y, p.y - 4 * y + 4 * x}};
    fv_canvas_dot(c, p.x, p.y, 10, colour);
    fv_canvas_path(c, pointer, 3, &(fv_stroke){.width = 2.5, .colour = FV_RGB_WHITE, .opacity = 1});
}

/* The path, from the start (blue) to the end. */
static void draw_path(fv_canvas *c, const layout *l)
{
    const fv_look_walk *w = l->walk;
    for (int64_t i = 1; i < w->step_count; i++) {
        const fv_look_step *from = &w->step[i - 1], *to = &w->step[i];
        const fv_point a = centre_of(l, from->row, from->col), b = centre_of(l, to->row, to->col);
        if (from->row == to->row && from->col == to->col) continue;
        fv_canvas_line(c, a.x, a.y, b.x, b.y, 3, fv_colour_series(1));
        fv_canvas_dot(c, b.x, b.y, 3, fv_colour_series(1));
    }
    if (w->step_count == 0) return;
    draw_agent(c, l, &w->step[w->step_count - 1], fv_colour_series(1));
    draw_agent(c, l, &w->step[0], fv_colour_series(0));
}

static void draw_words(fv_canvas *c, const layout *l, const fv_colour_range *range)
{
    const fv_look_walk *w = l->walk;
    char label[FV_LABEL_BYTES], number[FV_FIXED_BYTES];
    for (int64_t j = 0; j < w->word_count; j++)
        fv_canvas_text(c,
                       &(fv_text_style){.x = l->words_x + ((double)j + 0.5) * WORD,
                                        .y = l->words_y - 6,
                                        .size = TEXT,
                                        .rotated = true},
                       fv_display_label(w->word[j], label));
    for (int64_t i = 0; i < w->step_count; i++) {
        const double y = l->words_y + ((double)i + 0.5) * LINE;
        fv_canvas_text(
            c, &(fv_text_style){.x = l->words_x - 8, .y = y, .size = TEXT, .anchor = FV_ANCHOR_END},
            fv_display_label(w->step[i].action, label));
        fv_canvas_text(c,
                       &(fv_text_style){.x = (double)w->cols * CELL + MARGIN + GAP,
                                        .y = y,
                                        .size = SMALL,
                                        .anchor = FV_ANCHOR_END,
                                        .colour = FV_RGB_FAINT},
                       fv_fixed((double)(i + 1), 0, false, number));
    }
    if (w->step_count > 0 && w->word_count > 0)
        fv_figure_cells(c, &(fv_values){w->weights, w->step_count, w->word_count, w->word_count},
                        range,
                        &(fv_cells){.x = l->words_x,
                                    .y = l->words_y,
                                    .width = (double)w->word_count * WORD,
                                    .height = (double)w->step_count * LINE,
                                    .rows = w->step_count,
                                    .cols = w->word_count});
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Where the walk was on a cell: '@' its start, 'x' its end, '*' on the way; else 0. */
static char mark_of(const fv_look_walk *w, int row, int col)
{
    char mark = 0;
    for (int64_t i = 0; i < w->step_count; i++)
        if (w->step[i].row == row && w->step[i].col == col)
            mark = (char)(i + 1 == w->step_count ? 'x' : mark ? mark : i == 0 ? '@' : '*');
    return mark;
}

static void print_map(fv_writer *o, const fv_look_walk *w)
{
    for (int row = 0; row < w->rows; row++) {
        for (int col = 0; col < w->cols; col++) {
            const char *cell = w->cell[row * w->cols + col];
            const char mark = mark_of(w, row, col);
            /* an object is its initials, as "rc" of "red chair" */
            const char body[] = {is_wall(cell) ? '#'
                                 : mark        ? mark
                                 : cell        ? cell[0]
                                               : '.',
                                 is_wall(cell) ? '#'
                                 : !cell       ? (mark ? mark : ' ')
                                               : (mark ? cell[0] : thing_of(cell)[0]),
                                 cell && mark && !is_wall(cell) ? thing_of(cell)[0] : ' ', ' ',
                                 '\0'};
            fv_writer_text(o, body);
        }
        fv_writer_text(o, "\n");
    }
}

/* The strongest words of a step, up to three. */
static void print_words(fv_writer *o, const fv_look_walk *w, int64_t step)
{
    enum { SHOWN = 3 };
    const float *row = w->weights + step * w->word_count;
    int64_t last = -1;
    char number[FV_FIXED_BYTES];
    for (int n = 0; n < SHOWN; n++) {
        int64_t best = -1;
        for (int64_t j = 0; j < w->word_count; j++) {
            const bool after = last < 0 || row[j] < row[last] || (row[j] == row[last] && j > last);
            if (after && (best < 0 || row[j] > row[best])) best = j;
        }
        if (best < 0 || row[best] < 0.05F) break;
        fv_writer_text(o, n ? ", " : "  ");
        fv_writer_plain(o, w->word[best]);
        fv_writer_text(o, " ");
        fv_writer_text(o, fv_fixed((double)row[best], 2, false, number));
        last = best;
    }
}

static fv_status print_walk(fv_ctx *ctx, const fv_look_walk *w, fv_picture **out)
{
    fv_writer o = {.ctx = ctx};
    char number[FV_FIXED_BYTES];
    if (w->title) {
        fv_writer_plain(&o, w->title);
        fv_writer_text(&o, "\n");
    }
    print_map(&o, w);
    for (int64_t i = 0; i < w->step_count && !o.failed; i++) {
        fv_fixed((double)(i + 1), 0, false, number);
        fv_writer_repeat(&o, " ", strlen(number) < 3 ? 3 - (int64_t)strlen(number) : 0);
        fv_writer_text(&o, number);
        fv_writer_text(&o, " ");
        fv_writer_plain(&o, w->step[i].action);
        const int64_t columns = fv_display_columns(w->step[i].action);
        fv_writer_repeat(&o, " ", columns < 8 ? 8 - columns : 0);
        if (w->weights) print_words(&o, w, i);
        fv_writer_text(&o, "\n");
    }
    return fv_picture_from_writer(&o, out);
}

/* ---- the figure ----------------------------------------------------------------------------- */

static fv_status check(fv_ctx *ctx, const fv_look_walk *w, fv_look_format format, fv_picture **out)
{
    FV_RETURN_IF(!w || !out || !w->cell || (w->step_count > 0 && !w->step) ||
                     (w->weights && w->word_count > 0 && !w->word),
                 ctx, FV_ERR_ARGUMENT, "look: a part of the walk is NULL");
    FV_RETURN_IF((unsigned)format >= FV_LOOK_FORMAT_COUNT, ctx, FV_ERR_ARGUMENT,
                 "look: unknown format %d", (int)format);
    FV_RETURN_IF(w->rows < 1 || w->cols < 1 || w->step_count < 0 || w->word_count < 0, ctx,
                 FV_ERR_ARGUMENT, "look: invalid size: a map of %lld x %lld cells, %lld steps",
                 (long long)w->rows, (long long)w->cols, (long long)w->step_count);
    FV_RETURN_IF(w->rows > MOST_SIDE || w->cols > MOST_SIDE || w->step_count > MOST_STEPS ||
                     w->word_count > MOST_WORDS,
                 ctx, FV_ERR_LIMIT, "look: too large to draw: %lld x %lld cells, %lld steps",
                 (long long)w->rows, (long long)w->cols, (long long)w->step_count);
    for (int64_t i = 0; i < w->step_count; i++)
        FV_RETURN_IF(w->step[i].row < 0 || w->step[i].row >= w->rows || w->step[i].col < 0 ||
                         w->step[i].col >= w->cols || !w->step[i].action,
                     ctx, FV_ERR_ARGUMENT, "look: step %lld is not on the map", (long long)i);
    return FV_OK;
}

fv_status fv_look_walk_draw(fv_ctx *ctx, const fv_look_walk *walk, fv_look_format format,
                            const fv_look_options *options, fv_picture **out)
{
    fv_look_options full;
    fv_typeface face;
    fv_canvas c;
    FV_TRY(check(ctx, walk, format, out));
    FV_TRY(fv_look_options_check(ctx, options, &full));
    if (format == FV_LOOK_FORMAT_TEXT || format == FV_LOOK_FORMAT_TERMINAL)
        return print_walk(ctx, walk, out);
    FV_TRY(fv_typeface_open(ctx, format, full.font, &face));
    const layout l = lay_out(walk, &face);
    fv_status status = fv_canvas_begin(ctx, &face, l.width, l.height, walk->title, &c);
    if (status == FV_OK) {
        fv_canvas_text(
            &c, &(fv_text_style){.x = MARGIN, .y = MARGIN + 8, .size = FV_TITLE_SIZE, .bold = true},
            walk->title);
        draw_map(&c, &l);
        draw_path(&c, &l);
        draw_objects(&c, &l);
        if (walk->weights) {
            const fv_colour_range range = fv_colour_range_of(
                &full, walk->step_count, walk->word_count, walk->word_count, walk->weights);
            draw_words(&c, &l, &range);
        }
        status = fv_canvas_end(&c, out);
    }
    fv_font_file_close(&face.file);
    return status;
}
