/* What a section of the tour writes, on the terminal or into a page. */
#include <stdarg.h>
#include <string.h>

#include "heatmap.h"
#include "output.h"
#include "tour.h"

enum { WIDTH = 78, LINE = 512 };

static void put_html(FILE *to, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c == '<' || c == '>' || c == '&')
            fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;", to);
        else
            fputc((unsigned char)c < ' ' ? '?' : c, to);
    }
}

static int columns_of(const char *text, size_t bytes)
{
    int columns = 0;
    for (size_t i = 0; i < bytes; i++)
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

/* One paragraph, broken between words. */
static void put_wrapped(FILE *to, const char *text, size_t bytes)
{
    int column = 0;
    for (size_t i = 0; i < bytes;) {
        const size_t end = i + strcspn(text + i, " \n");
        const size_t stop = end < bytes ? end : bytes;
        const int wide = columns_of(text + i, stop - i);
        if (column > 0 && column + 1 + wide > WIDTH) {
            fputc('\n', to);
            column = 0;
        }
        if (column > 0) fputc(' ', to);
        fwrite(text + i, 1, stop - i, to);
        column += wide + (column > 0);
        i = stop + 1;
    }
    fputs("\n\n", to);
}

void tour_end_lines(tour *t)
{
    if (!t->in_lines) return;
    fputs(t->html ? "</pre>\n" : "\n", t->to);
    t->in_lines = false;
}

void tour_text(tour *t, const char *text)
{
    tour_end_lines(t);
    while (*text) {
        const char *end = strstr(text, "\n\n");
        const size_t bytes = end ? (size_t)(end - text) : strlen(text);
        if (t->html) {
            fputs("<p>", t->to);
            put_html(t->to, text, bytes);
            fputs("</p>\n", t->to);
        } else {
            put_wrapped(t->to, text, bytes);
        }
        text += bytes + (end ? 2 : 0);
    }
}

void tour_line(tour *t, const char *fmt, ...)
{
    char line[LINE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (!t->in_lines && t->html) fputs("<pre>", t->to);
    t->in_lines = true;
    if (t->html)
        put_html(t->to, line, strlen(line));
    else if (line[0]) {
        fputs("  ", t->to);
        cli_safe_text(t->to, line); /* a model's words may be anything */
    }
    fputc('\n', t->to);
}

/* Writes an SVG into the page; frees it. */
static fv_status embed(tour *t, fv_status status, fv_picture *picture)
{
    if (status != FV_OK) return status;
    fprintf(t->to, "<figure>%s</figure>\n", fv_picture_data(picture, NULL));
    fv_picture_free(&picture);
    return FV_OK;
}

/* The first picture of a section goes to --picture. */
static fv_status save(tour *t, fv_status status, fv_picture *picture)
{
    if (status != FV_OK) return status;
    status = fv_picture_save(picture, t->picture);
    fv_picture_free(&picture);
    if (status == FV_OK) cli_note("wrote %s", t->picture);
    t->picture = NULL;
    return status;
}

/* Where a section's pictures go: a file, the page, or both. */
typedef fv_status draw_fn(tour *t, const void *what, const fv_look_options *options,
                          fv_look_format form, fv_picture **out);

static fv_status draw(tour *t, draw_fn *how, const void *what, const fv_look_options *options)
{
    fv_picture *picture = NULL;
    fv_look_format form = FV_LOOK_FORMAT_SVG;
    fv_status status = FV_OK;
    tour_end_lines(t);
    if (t->picture) {
        status = fv_look_format_from_path(t->ctx, t->picture, &form);
        if (status == FV_OK) status = how(t, what, options, form, &picture);
        status = save(t, status, picture);
        picture = NULL;
    }
    if (status != FV_OK || !t->html) return status;
    status = how(t, what, options, FV_LOOK_FORMAT_SVG, &picture);
    return embed(t, status, picture);
}

static fv_status one_map(tour *t, const void *map, const fv_look_options *options,
                         fv_look_format form, fv_picture **out)
{
    return fv_look_map_draw(t->ctx, map, form, options, out);
}

static fv_status several_maps(tour *t, const void *maps, const fv_look_options *options,
                              fv_look_format form, fv_picture **out)
{
    return fv_look_heads_draw(t->ctx, maps, form, options, out);
}

static fv_status one_plot(tour *t, const void *plot, const fv_look_options *options,
                          fv_look_format form, fv_picture **out)
{
    (void)options;
    return fv_look_plot_draw(t->ctx, plot, form, out);
}

fv_status tour_map(tour *t, const fv_look_map *map, const fv_look_options *options)
{
    fv_status status = draw(t, one_map, map, options);
    if (status != FV_OK || t->html) return status;
    status = cli_heatmap_print(t->ctx, t->to, map, options);
    fputc('\n', t->to);
    return status;
}

fv_status tour_page_map(tour *t, const fv_look_map *map, const fv_look_options *options)
{
    return draw(t, one_map, map, options);
}

fv_status tour_maps(tour *t, const char *title, const char *rows, int count,
                    const fv_look_map *maps)
{
    enum { MOST = 4, CELLS = 256 };
    float values[MOST * CELLS];
    const char *names[MOST];
    const int64_t cells = maps[0].rows * maps[0].cols;
    fv_status status = FV_OK;
    for (int i = 0; i < count && i < MOST && cells <= CELLS; i++) {
        memcpy(values + i * cells, maps[i].values, (size_t)cells * sizeof *values);
        names[i] = maps[i].title;
    }
    status = draw(t, several_maps,
                  &(fv_look_heads){.layers = 1,
                                   .heads = count,
                                   .rows = maps[0].rows,
                                   .cols = maps[0].cols,
                                   .values = values,
                                   .layer_names = (const char *[]){rows},
                                   .head_names = names,
                                   .title = title},
                  NULL);
    for (int i = 0; i < count && status == FV_OK && !t->html; i++) {
        status = cli_heatmap_print(t->ctx, t->to, &maps[i], NULL);
        fputc('\n', t->to);
    }
    return status;
}

fv_status tour_plot(tour *t, const fv_look_plot *plot) { return draw(t, one_plot, plot, NULL); }

/* The bytes of a command's next part that no line break should divide: a word, quoted or not, and
 * with an option its value. */
static size_t part_of(const char *command)
{
    size_t n = 0;
    const bool option = command[0] == '-';
    for (int words = 0; command[n]; n++) {
        bool quoted = false;
        for (; command[n] && (quoted || command[n] != ' '); n++)
            quoted ^= command[n] == '"';
        const char next = command[n] ? command[n + 1] : '\0';
        if (!option || ++words == 2 || next == '-' || next == '&' || !next) break;
    }
    return n;
}

/* A command, broken at blanks as a shell reads it; another one after && begins a line. */
static void put_command(tour *t, const char *command)
{
    tour_end_lines(t);
    if (t->html) fputs("<pre class=\"command\">", t->to);
    fputs(t->html ? "$" : "  $", t->to);
    int column = 3;
    bool joined = false; /* the part before this one is && */
    while (*command) {
        const size_t n = part_of(command);
        if (joined || (column > 4 && column + 1 + columns_of(command, n) > WIDTH - 2)) {
            fputs(joined ? "\n     " : " \\\n     ", t->to);
            column = 5;
        }
        joined = n == 2 && strncmp(command, "&&", 2) == 0;
        fputc(' ', t->to);
        if (t->html)
            put_html(t->to, command, n);
        else
            fwrite(command, 1, n, t->to);
        column += 1 + columns_of(command, n);
        command += n + (command[n] == ' ');
    }
    fputs(t->html ? "</pre>\n" : "\n\n", t->to);
}

fv_status tour_show(tour *t, const tour_section *s)
{
    if (t->html) {
        fprintf(t->to, "<section id=\"%s\">\n<h2>", s->name);
        put_html(t->to, s->title, strlen(s->title));
        fputs("</h2>\n", t->to);
    } else {
        char heading[LINE];
        cli_format(heading, sizeof heading, "%s  %s", s->source, s->title);
        cli_styled(t->to, CLI_BOLD, heading, 0);
        fprintf(t->to, "  (%s)\n\n", s->name);
    }
    tour_text(t, s->text);
    fv_ctx_set_step(t->ctx, 0, 0); /* random weights do not depend on the sections before */
    fv_scope_begin(t->ctx);
    const fv_status status = s->show ? s->show(t) : FV_OK;
    fv_scope_end(t->ctx);
    if (s->command) put_command(t, s->command);
    tour_end_lines(t);
    if (t->html) fputs("</section>\n", t->to);
    return status;
}
