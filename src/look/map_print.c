/* A map as characters: shades, or colours of a terminal. */
#include <math.h>
#include <string.h>

#include "io/utf8.h"
#include "look/figure.h"
#include "look/text.h"

typedef struct printer {
    const fv_look_map *map;
    fv_values values;
    fv_colour_range range;
    bool colour, numbers;
    int columns;
    fv_out out;
} printer;

/* ---- one value ------------------------------------------------------------------- */

/* The character of a value, and of one that is not a number. */
static char shade_of(const printer *p, double value)
{
    static const char shades[] = ".-+#";
    const double share = fv_colour_share(&p->range, value);
    if (isnan(share)) return '?';
    const int i = (int)(share * 4);
    return shades[i > 3 ? 3 : i];
}

static void put_cell(printer *p, double value, int width)
{
    if (p->colour) {
        fv_out_put(&p->out, "\x1b[48;5;%dm", fv_colour_256(fv_colour_of(&p->range, value)));
        fv_out_repeat(&p->out, " ", width);
        return;
    }
    const char shade = shade_of(p, value);
    const int wide = shade == '#' && width > 1 ? 2 : 1; /* the strongest stands out */
    fv_out_repeat(&p->out, " ", width - wide);
    for (int i = 0; i < wide; i++)
        fv_out_raw(&p->out, &shade, 1);
}

/* The value itself, in ink that shows on its colour. */
static void put_number(printer *p, double value, int width)
{
    char text[FV_FIXED_BYTES];
    fv_fixed(value, fabs(value) < 100 ? 2 : 0, false, text);
    if (p->colour) {
        const fv_rgb ground = fv_colour_of(&p->range, value);
        fv_out_put(&p->out, "\x1b[38;5;%d;48;5;%dm", fv_colour_dark(ground) ? 231 : 16,
                   fv_colour_256(ground));
    }
    fv_out_repeat(&p->out, " ", width - (int64_t)strlen(text));
    fv_out_text(&p->out, text);
}

static void end_line(printer *p) { fv_out_text(&p->out, p->colour ? "\x1b[0m\n" : "\n"); }

/* ---- a map whose every row has its line -------------------------------------------- */

enum { MOST_LINES = 100, MOST_MARGIN = 24, MOST_STACK = 24, NUMBER = 7 };

static int64_t widest(const char *const *labels, int64_t count)
{
    int64_t most = 0;
    char label[FV_LABEL_BYTES];
    for (int64_t i = 0; labels && i < count; i++) {
        const int64_t span = fv_text_span(fv_text_label(labels[i], label));
        if (span > most) most = span;
    }
    return most;
}

/* A label in exactly `width` columns, cut or padded on the left. */
static void put_margin(printer *p, const char *text, int64_t width)
{
    char label[FV_LABEL_BYTES];
    const char *at = fv_text_label(text, label);
    int64_t span = fv_text_span(at);
    fv_out_repeat(&p->out, " ", width - span);
    for (; span > width; span -= fv_text_columns(fv_text_next(&at)))
        ; /* the end of a long label says more than its beginning */
    fv_out_plain(&p->out, at);
}

/* Character number n of a label, from 0; 0 past its end. Marks belong to no line of their own. */
static uint32_t letter_at(const char *text, int64_t n)
{
    for (uint32_t code; (code = fv_text_next(&text)) != 0;)
        if (fv_text_columns(code) > 0 && n-- == 0) return code;
    return 0;
}

static int64_t letters_of(const char *text)
{
    int64_t n = 0;
    while (letter_at(text, n))
        n++;
    return n;
}

static void put_letter(printer *p, uint32_t code, int width)
{
    char bytes[4];
    const int columns = code ? fv_text_columns(code) : 0;
    fv_out_repeat(&p->out, " ", width - columns);
    if (code) fv_out_raw(&p->out, bytes, fv_utf8_put(code, bytes));
}

/* Column labels: side by side if they fit into a cell, else letter under letter, ending at the
 * cells. */
static void put_column_labels(printer *p, int64_t margin, int cell)
{
    const fv_look_map *map = p->map;
    char label[FV_LABEL_BYTES];
    int64_t lines = 1;
    const bool flat = widest(map->col_labels, map->cols) <= cell;
    for (int64_t j = 0; !flat && j < map->cols; j++) {
        const int64_t n = letters_of(fv_text_label(map->col_labels[j], label));
        lines = n > lines ? n : lines;
    }
    if (lines > MOST_STACK) lines = MOST_STACK;
    for (int64_t line = 0; line < lines; line++) {
        fv_out_repeat(&p->out, " ", margin + 1);
        for (int64_t j = 0; j < map->cols; j++) {
            fv_text_label(map->col_labels[j], label);
            if (flat) {
                put_margin(p, label, cell);
                continue;
            }
            const int64_t n = letters_of(label), skipped = n > lines ? n - lines : 0;
            const int64_t at = line - (lines - (n - skipped)) + skipped;
            put_letter(p, at >= skipped ? letter_at(label, at) : 0, cell);
        }
        fv_out_text(&p->out, "\n");
    }
}

static void print_rows(printer *p, int64_t margin, int cell)
{
    const fv_look_map *map = p->map;
    if (map->col_labels) put_column_labels(p, margin, cell);
    for (int64_t i = 0; i < map->rows; i++) {
        if (map->row_labels) put_margin(p, map->row_labels[i], margin);
        fv_out_text(&p->out, " ");
        for (int64_t j = 0; j < map->cols; j++)
            (p->numbers ? put_number : put_cell)(p, p->values.at[i * p->values.stride + j], cell);
        end_line(p);
    }
}

/* ---- a map too large for that ------------------------------------------------------ */

/* The escape sequence of a colour, unless it is in force already. */
static void put_colour(printer *p, const char *ground, int colour, int *in_force)
{
    if (colour == *in_force) return;
    *in_force = colour;
    fv_out_put(&p->out, "\x1b[%s;5;%dm", ground, colour);
}

/* Two rows of cells in a line: the upper one is the ink of a half block, the lower its ground. */
static void put_half_blocks(printer *p, int64_t rows, int64_t cols)
{
    const bool signed_ = p->range.map == FV_COLOURS_DIVERGING;
    for (int64_t i = 0; i < rows; i += 2) {
        int ink = -1, ground = -1;
        fv_out_text(&p->out, " ");
        for (int64_t j = 0; j < cols; j++) {
            const float upper = fv_values_pooled(&p->values, rows, cols, i, j, signed_);
            put_colour(p, "38", fv_colour_256(fv_colour_of(&p->range, upper)), &ink);
            if (i + 1 < rows) {
                const float lower = fv_values_pooled(&p->values, rows, cols, i + 1, j, signed_);
                put_colour(p, "48", fv_colour_256(fv_colour_of(&p->range, lower)), &ground);
            }
            fv_out_text(&p->out, "\xE2\x96\x80");
        }
        end_line(p);
    }
}

static void put_shades(printer *p, int64_t rows, int64_t cols)
{
    const bool signed_ = p->range.map == FV_COLOURS_DIVERGING;
    for (int64_t i = 0; i < rows; i++) {
        fv_out_text(&p->out, " ");
        for (int64_t j = 0; j < cols; j++)
            put_cell(p, fv_values_pooled(&p->values, rows, cols, i, j, signed_), 1);
        end_line(p);
    }
}

/* A character is about twice as high as wide: half blocks are square, shades stand for two rows. */
static void print_small(printer *p)
{
    const int64_t most = p->columns - 2;
    const int64_t cols = p->values.cols < most ? p->values.cols : most;
    int64_t rows = p->values.rows * cols / p->values.cols;
    if (rows > 2 * MOST_LINES) rows = 2 * MOST_LINES;
    if (rows < 1) rows = 1;
    if (p->colour)
        put_half_blocks(p, rows, cols);
    else
        put_shades(p, (rows + 1) / 2, cols);
}

/* ---- the whole --------------------------------------------------------------------- */

static void print_heading(printer *p)
{
    const fv_look_map *map = p->map;
    if (map->title) {
        fv_out_plain(&p->out, map->title);
        fv_out_text(&p->out, "\n");
    }
    if (!map->row_title && !map->col_title) return;
    fv_out_text(&p->out, " rows: ");
    fv_out_plain(&p->out, map->row_title ? map->row_title : "");
    fv_out_text(&p->out, "; columns: ");
    fv_out_plain(&p->out, map->col_title ? map->col_title : "");
    fv_out_text(&p->out, "\n");
}

static void print_legend(printer *p)
{
    char low[FV_FIXED_BYTES], high[FV_FIXED_BYTES];
    fv_out_put(&p->out, " from %s ", fv_short_number(p->range.low, low));
    if (p->colour) {
        for (int i = 0; i <= 8; i++)
            put_cell(p, p->range.low + (p->range.high - p->range.low) * i / 8, 2);
        fv_out_text(&p->out, "\x1b[0m");
    } else {
        fv_out_text(&p->out, ". - + ##");
    }
    fv_out_put(&p->out, " to %s\n", fv_short_number(p->range.high, high));
}

fv_status fv_map_print(fv_ctx *ctx, const fv_look_map *map, bool colour,
                       const fv_look_options *options, fv_picture **out)
{
    const int64_t stride = map->stride ? map->stride : map->cols;
    printer p = {.map = map,
                 .values = {map->values, map->rows, map->cols, stride},
                 .range = fv_colour_range_of(options, map->rows, map->cols, stride, map->values),
                 .colour = colour,
                 .numbers = options->numbers,
                 .columns = options->columns,
                 .out = {.ctx = ctx}};
    int64_t margin = widest(map->row_labels, map->rows);
    if (margin > MOST_MARGIN) margin = MOST_MARGIN;
    const int64_t room = p.columns - margin - 1;
    if (NUMBER * map->cols > room) p.numbers = false;
    const int cell = p.numbers ? NUMBER : 3 * map->cols <= room ? 3 : 2;
    print_heading(&p);
    if (map->rows == 0 || map->cols == 0)
        fv_out_text(&p.out, " (empty)\n");
    else if (map->rows <= MOST_LINES && cell * map->cols <= room)
        print_rows(&p, margin, cell);
    else
        print_small(&p);
    if (p.colour || !p.numbers) print_legend(&p);
    const fv_status status = fv_picture_make(&p.out, out);
    fv_out_free(&p.out);
    return status;
}
