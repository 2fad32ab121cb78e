/* A heat map as text: shades of characters, or terminal colours. */
#include <math.h>
#include <string.h>

#include "io/utf8.h"
#include "look/display_text.h"
#include "look/figure.h"

typedef struct printer {
    const fv_look_map *map;
    fv_values values;
    fv_colour_range range;
    bool colour, numbers, blocks;
    int columns;
    fv_writer out;
} printer;

/* ---- cells ----------------------------------------------------------------------- */

enum { SHADES = 4 };

static const char *const ascii_shades[SHADES] = {".", "-", "+", "#"};
static const char *const block_shades[SHADES] = {"\xE2\x96\x91", "\xE2\x96\x92", "\xE2\x96\x93",
                                                 "\xE2\x96\x88"};

/* The shade of a value; -1 for NaN. */
static int shade_of(const printer *p, double value)
{
    const double share = fv_colour_position(&p->range, value);
    if (isnan(share)) return -1;
    const int i = (int)(share * SHADES);
    return i < SHADES ? i : SHADES - 1;
}

static void put_cell(printer *p, double value, int width)
{
    if (p->colour) {
        fv_writer_format(&p->out, "\x1b[48;5;%dm", fv_colour_ansi(&p->range, value));
        fv_writer_repeat(&p->out, " ", width);
        return;
    }
    const int shade = shade_of(p, value);
    /* Blocks fill a cell up to a blank before it; of other characters only the strongest is
     * doubled. */
    int wide = width > 1 && shade == SHADES - 1 ? 2 : 1;
    if (p->blocks && shade >= 0) wide = width > 1 ? width - 1 : 1;
    fv_writer_repeat(&p->out, " ", width - wide);
    fv_writer_repeat(&p->out, shade < 0 ? "?" : (p->blocks ? block_shades : ascii_shades)[shade],
                     wide);
}

/* The value as a number, in a readable colour on the cell's colour. */
static void put_number(printer *p, double value, int width)
{
    char text[FV_FIXED_BYTES];
    fv_fixed(value, fabs(value) < 100 ? 2 : 0, false, text);
    if (p->colour) {
        const fv_rgb ground = fv_colour_of(&p->range, value);
        fv_writer_format(&p->out, "\x1b[38;5;%d;48;5;%dm", fv_colour_is_dark(ground) ? 231 : 16,
                         fv_colour_ansi(&p->range, value));
    }
    fv_writer_repeat(&p->out, " ", width - (int64_t)strlen(text));
    fv_writer_text(&p->out, text);
}

static void end_line(printer *p) { fv_writer_text(&p->out, p->colour ? "\x1b[0m\n" : "\n"); }

/* ---- labelled panels --------------------------------------------------------------- */

#define ELLIPSIS "\xE2\x80\xA6"

enum { MAX_LINES = 100, MAX_MARGIN = 24, MAX_STACK = 24, NUMBER = 7, WIDE = 3, NARROW = 2 };

static int64_t widest(const char *const *labels, int64_t count)
{
    int64_t max = 0;
    char label[FV_LABEL_BYTES];
    for (int64_t i = 0; labels && i < count; i++) {
        const int64_t span = fv_display_columns(fv_display_label(labels[i], label));
        if (span > max) max = span;
    }
    return max;
}

/* Right-to-left text would reverse the rest of its line, cells included, where bidirectional text
 * is supported. Zero-width left-to-right marks on both sides prevent that. */
static void write_ltr_mark(printer *p) { fv_writer_text(&p->out, "\xE2\x80\x8E"); }

/* A label in exactly `width` columns, padded or truncated on the left: the end of a long label is
 * more telling than its beginning. */
static void put_margin(printer *p, const char *text, int64_t width)
{
    char label[FV_LABEL_BYTES];
    const char *at = fv_display_label(text, label);
    int64_t span = fv_display_columns(at);
    const bool marked = fv_display_has_rtl(at), cut = span > width;
    while (span > width - (cut ? 1 : 0))
        span -= fv_display_char_columns(fv_display_next(&at));
    if (marked) write_ltr_mark(p);
    fv_writer_repeat(&p->out, " ", width - span - (cut ? 1 : 0));
    if (cut) fv_writer_text(&p->out, ELLIPSIS);
    fv_writer_plain(&p->out, at);
    if (marked) write_ltr_mark(p);
}

static int64_t count_clusters(const char *text)
{
    char letter[FV_CLUSTER_BYTES];
    int64_t n = 0;
    while (fv_display_next_cluster(&text, letter) > 0)
        n++;
    return n;
}

/* Grapheme cluster number n of a label in `width` columns; blanks if n is negative. */
static void put_cluster(printer *p, const char *label, int64_t n, int width)
{
    char letter[FV_CLUSTER_BYTES] = "";
    int columns = 0;
    for (; n >= 0; n--)
        columns = fv_display_next_cluster(&label, letter);
    fv_writer_repeat(&p->out, " ", width - columns);
    fv_writer_text(&p->out, letter);
    if (fv_display_has_rtl(letter)) write_ltr_mark(p);
}

/* The width of the row labels: what cells of the usual width leave of a line, and at least
 * MAX_MARGIN or half of the line where labels need as much. */
static int64_t margin_of(const fv_look_map *map, bool numbers, int64_t columns)
{
    const int64_t need = widest(map->row_labels, map->rows),
                  left = columns - 1 - (numbers ? NUMBER : WIDE) * map->cols,
                  half = columns / 2 < MAX_MARGIN ? columns / 2 : MAX_MARGIN,
                  most = left > half ? left : half;
    return need < most ? need : most;
}

/* A range of columns that fits a line. */
typedef struct panel {
    int64_t first, end;
    int64_t margin; /* width of the row labels */
    int cell;
} panel;

/* Column labels: horizontal if each fits its cell with a blank to separate it from the next,
 * otherwise vertical, ending at the cells. */
static void put_column_labels(printer *p, const panel *part)
{
    const char *const *labels = p->map->col_labels;
    char label[FV_LABEL_BYTES];
    int64_t lines = 1;
    const bool flat = widest(labels, p->map->cols) < part->cell;
    for (int64_t j = part->first; !flat && j < part->end; j++) {
        const int64_t n = count_clusters(fv_display_label(labels[j], label));
        lines = n > lines ? n : lines;
    }
    if (lines > MAX_STACK) lines = MAX_STACK;
    for (int64_t line = 0; line < lines; line++) {
        fv_writer_repeat(&p->out, " ", part->margin + 1);
        for (int64_t j = part->first; j < part->end; j++) {
            fv_display_label(labels[j], label);
            if (flat) {
                put_margin(p, label, part->cell);
                continue;
            }
            const int64_t n = count_clusters(label), at = line - (lines - n);
            if (line == 0 && n > lines)
                put_cluster(p, ELLIPSIS, 0, part->cell);
            else
                put_cluster(p, label, at, part->cell);
        }
        fv_writer_text(&p->out, "\n");
    }
}

static void print_panel(printer *p, const panel *part)
{
    const fv_look_map *map = p->map;
    if (map->col_labels) put_column_labels(p, part);
    for (int64_t i = 0; i < map->rows; i++) {
        if (map->row_labels) put_margin(p, map->row_labels[i], part->margin);
        fv_writer_text(&p->out, " ");
        for (int64_t j = part->first; j < part->end; j++) {
            const double value = p->values.at[i * p->values.stride + j];
            (p->numbers ? put_number : put_cell)(p, value, part->cell);
        }
        end_line(p);
    }
}

/*
 * Prints the map in as few panels as possible. Returns false if that would be too long, or if there
 * are no labels. Cells are wide unless narrow ones save a panel.
 */
static bool print_panels(printer *p, int64_t margin)
{
    const fv_look_map *map = p->map;
    const int64_t room = p->columns - margin - 1;
    if (NUMBER * map->cols > room) p->numbers = false;
    const int64_t panels = (map->cols + room / NARROW - 1) / (room / NARROW);
    const bool wide = WIDE * map->cols <= panels * (room - room % WIDE);
    const int cell = p->numbers ? NUMBER : wide ? WIDE : NARROW;
    const int64_t lines = panels * map->rows;
    if (map->rows > MAX_LINES || (panels > 1 && (!map->col_labels || lines > 2 * MAX_LINES))) {
        p->numbers = false;
        return false;
    }
    const int64_t share = (map->cols + panels - 1) / panels;
    for (int64_t first = 0; first < map->cols; first += share) {
        const int64_t end = first + share < map->cols ? first + share : map->cols;
        if (first > 0) fv_writer_text(&p->out, "\n");
        print_panel(p, &(panel){first, end, margin, cell});
    }
    return true;
}

/* ---- downsampled map ------------------------------------------------------------- */

/* Writes the escape sequence of a colour unless it is current. */
static void put_colour(printer *p, const char *ground, int colour, int *current)
{
    if (colour == *current) return;
    *current = colour;
    fv_writer_format(&p->out, "\x1b[%s;5;%dm", ground, colour);
}

/* Two rows of cells per line: the upper is the foreground of a half block, the lower its
 * background. */
static void put_half_blocks(printer *p, int64_t rows, int64_t cols)
{
    const bool signed_ = p->range.map == FV_COLOUR_MAP_DIVERGING;
    for (int64_t i = 0; i < rows; i += 2) {
        int ink = -1, ground = -1;
        fv_writer_text(&p->out, " ");
        for (int64_t j = 0; j < cols; j++) {
            const float upper = fv_values_pooled(&p->values, rows, cols, i, j, signed_);
            put_colour(p, "38", fv_colour_ansi(&p->range, upper), &ink);
            if (i + 1 < rows) {
                const float lower = fv_values_pooled(&p->values, rows, cols, i + 1, j, signed_);
                put_colour(p, "48", fv_colour_ansi(&p->range, lower), &ground);
            }
            fv_writer_text(&p->out, "\xE2\x96\x80");
        }
        end_line(p);
    }
}

static void put_shades(printer *p, int64_t rows, int64_t cols)
{
    const bool signed_ = p->range.map == FV_COLOUR_MAP_DIVERGING;
    for (int64_t i = 0; i < rows; i++) {
        fv_writer_text(&p->out, " ");
        for (int64_t j = 0; j < cols; j++)
            put_cell(p, fv_values_pooled(&p->values, rows, cols, i, j, signed_), 1);
        end_line(p);
    }
}

/* A character is about twice as high as wide: half blocks are square, shades cover two rows. */
static void print_small(printer *p)
{
    const int64_t max = p->columns - 2;
    const int64_t cols = p->values.cols < max ? p->values.cols : max;
    int64_t rows = p->values.rows * cols / p->values.cols;
    if (rows > 2 * MAX_LINES) rows = 2 * MAX_LINES;
    if (rows < 1) rows = 1;
    if (p->colour && p->blocks)
        put_half_blocks(p, rows, cols);
    else
        put_shades(p, (rows + 1) / 2, cols);
}

/* ---- entry point ------------------------------------------------------------------- */

static void print_heading(printer *p)
{
    const fv_look_map *map = p->map;
    if (map->title) {
        fv_writer_plain(&p->out, map->title);
        fv_writer_text(&p->out, "\n");
    }
    if (!map->row_title && !map->col_title) return;
    if (map->row_title) {
        fv_writer_text(&p->out, " rows: ");
        fv_writer_plain(&p->out, map->row_title);
    }
    if (map->col_title) {
        fv_writer_text(&p->out, map->row_title ? "; columns: " : " columns: ");
        fv_writer_plain(&p->out, map->col_title);
    }
    fv_writer_text(&p->out, "\n");
}

static void print_legend(printer *p)
{
    char low[FV_FIXED_BYTES], high[FV_FIXED_BYTES];
    fv_writer_format(&p->out, " from %s ", fv_short_number(p->range.low, low));
    if (p->colour) {
        for (int i = 0; i <= 8; i++)
            put_cell(p, p->range.low + (p->range.high - p->range.low) * i / 8, 2);
        fv_writer_text(&p->out, "\x1b[0m");
    } else {
        fv_writer_text(&p->out, p->blocks ? "\xE2\x96\x91 \xE2\x96\x92 \xE2\x96\x93 \xE2\x96\x88"
                                          : ". - + ##");
    }
    fv_writer_format(&p->out, " to %s\n", fv_short_number(p->range.high, high));
}

fv_status fv_heatmap_print(fv_ctx *ctx, const fv_look_map *map, bool colour,
                           const fv_look_options *options, fv_picture **out)
{
    const int64_t stride = map->stride ? map->stride : map->cols;
    printer p = {.map = map,
                 .values = {map->values, map->rows, map->cols, stride},
                 .range = fv_colour_range_of(options, map->rows, map->cols, stride, map->values),
                 .colour = colour,
                 .numbers = options->numbers,
                 .blocks = options->shades == FV_LOOK_SHADES_DEFAULT
                               ? colour
                               : options->shades == FV_LOOK_SHADES_BLOCKS,
                 .columns = options->columns,
                 .out = {.ctx = ctx}};
    const int64_t margin = margin_of(map, p.numbers, p.columns);
    print_heading(&p);
    if (map->rows == 0 || map->cols == 0)
        fv_writer_text(&p.out, " (empty)\n");
    else if (!print_panels(&p, margin))
        print_small(&p);
    if (p.colour || !p.numbers) print_legend(&p);
    const fv_status status = fv_picture_from_writer(&p.out, out);
    fv_writer_free(&p.out);
    return status;
}
