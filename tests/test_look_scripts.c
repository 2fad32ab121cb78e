/* Labels in every script, longer than their place, or more of them than a line has room for. */
#include <stdio.h>
#include <stdlib.h>

#include "fovea/look.h"
#include "io/utf8.h"
#include "look/display_text.h"
#include "support/markup.h"
#include "support/test.h"

#define DIRECTION_MARK "\xE2\x80\x8E"
#define ELLIPSIS       "\xE2\x80\xA6"

static fv_ctx *ctx;

static const char *const scripts[] = {"日本語", "Ελληνικά", "العربية", "हिन्दी", "Grüße"};
enum { SCRIPTS = 5 };

/* The picture as text of its own; to be freed. */
static char *drawn(const fv_look_map *map, fv_look_format form, int columns)
{
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.columns = columns;
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_map_draw(ctx, map, form, &options, &picture));
    char *text = strdup(picture ? fv_picture_data(picture, NULL) : "");
    fv_picture_free(&picture);
    return text;
}

/* Takes the tags out, in place. */
static char *content_of(char *markup)
{
    char *to = markup;
    bool inside = false;
    for (const char *at = markup; *at; at++) {
        if (*at == '<') inside = true;
        if (!inside) *to++ = *at;
        if (*at == '>') inside = false;
    }
    *to = '\0';
    return markup;
}

static const float values25[25] = {1};
static const fv_look_map map5 = {
    .rows = 5, .cols = 5, .values = values25, .row_labels = scripts, .col_labels = scripts};

static void every_script_is_kept_in_svg(void)
{
    char *svg = drawn(&map5, FV_LOOK_FORMAT_SVG, 0);
    const char *wrong = markup_wrong(svg);
    CHECK_STR(wrong ? wrong : "", "");
    const char *content = content_of(svg);
    for (int i = 0; i < SCRIPTS; i++)
        CHECK_EQ(count_of(content, scripts[i]), 2);
    free(svg);
}

/* Words of wide letters are stacked, the others rotated; the row labels are neither. */
static void wide_letters_stand_below_each_other(void)
{
    char *svg = drawn(&map5, FV_LOOK_FORMAT_SVG, 0);
    CHECK_EQ(count_of(svg, "<tspan"), 3);
    CHECK_EQ(count_of(svg, "rotate(-90"), SCRIPTS - 1);
    double x[3] = {0}, y[3] = {0};
    const char *at = svg;
    for (int i = 0; i < 3 && (at = strstr(at, "<tspan")) != NULL; i++, at++)
        CHECK_EQ(sscanf(at, "<tspan x=\"%lf\" y=\"%lf\"", &x[i], &y[i]), 2);
    CHECK(x[0] == x[1] && x[1] == x[2]);
    CHECK(y[1] > y[0] + 10 && y[2] > y[1] + 10);
    free(svg);
}

/* Between a right-to-left letter and the first cell of its line is a mark that keeps the
 * cells in their order; and the line begins with one, so that it is not reversed as a whole. */
static void right_to_left_words_do_not_reverse_the_cells(void)
{
    char *text = drawn(&map5, FV_LOOK_FORMAT_TEXT, 80);
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        bool open = false, any = false;
        for (const char *at = line; *at;) {
            const bool mark = strncmp(at, DIRECTION_MARK, 3) == 0;
            if (open && strchr(".-+#", *at)) test_failed(__FILE__, __LINE__, "reversed: %s", line);
            const bool leftward = fv_display_is_rtl(fv_display_next(&at));
            open = (open || leftward) && !mark;
            any = any || leftward;
        }
        if (any && strstr(line, scripts[2])) CHECK(strncmp(line, DIRECTION_MARK, 3) == 0);
        CHECK(!open);
        lines += any;
    }
    CHECK_EQ(lines, 8); /* the row, and the seven letters of the column */
    free(text);
}

/* In a picture they stand between U+2068 and U+2069, so that they have a direction of their own. */
static void leftward_words_are_isolated_in_svg(void)
{
    char *svg = drawn(&map5, FV_LOOK_FORMAT_SVG, 0), wanted[64];
    snprintf(wanted, sizeof wanted, ">\xE2\x81\xA8%s\xE2\x81\xA9</text>", scripts[2]);
    CHECK_EQ(count_of(svg, wanted), 2);
    CHECK_EQ(count_of(svg, "\xE2\x81\xA8"), 2);
    free(svg);
}

/* A word taken apart and put together again is the word. */
static void letters_keep_their_marks(void)
{
    static const struct {
        const char *word;
        int letters;
    } words[] = {{"मैं", 1},      {"हिन्दी", 3},   {"e\xcc\x81t\xc3\xa9", 3},
                 {"日本語", 3}, {"தமிழ்", 3},    {"العربية", 7},
                 {"", 0},       {"\xcc\x81", 1}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char letter[FV_CLUSTER_BYTES], whole[64] = "";
        const char *at = words[i].word;
        int count = 0;
        for (int columns; (columns = fv_display_next_cluster(&at, letter)) > 0; count++) {
            CHECK(columns <= 2);
            strcat(whole, letter);
        }
        CHECK_STR(whole, words[i].word);
        CHECK_EQ(count, words[i].letters);
    }
    char marks[4001], letter[FV_CLUSTER_BYTES];
    for (int i = 0; i < 2000; i++)
        memcpy(marks + 2 * i, "\xcc\x81", 2);
    marks[4000] = '\0';
    size_t bytes = 0;
    for (const char *at = marks; fv_display_next_cluster(&at, letter) > 0;)
        bytes += strlen(letter);
    CHECK_EQ(bytes, 4000);
}

static void cut_words_say_so(void)
{
    const char *const labels[] = {"Rindfleischetikettierungsgesetz", "und"};
    const float values[] = {1, 0, 0, 1};
    const fv_look_map map = {
        .rows = 2, .cols = 2, .values = values, .row_labels = labels, .col_labels = labels};
    char *text = drawn(&map, FV_LOOK_FORMAT_TEXT, 30);
    CHECK_EQ(count_of(text, ELLIPSIS), 2);
    CHECK(strstr(text, "\n" ELLIPSIS "chetikettierungsgesetz  ##  ."));
    CHECK(strstr(text, "\n                    und   . ##"));
    free(text);
    /* Row labels get what the cells leave of a line. */
    text = drawn(&map, FV_LOOK_FORMAT_TEXT, 80);
    CHECK_EQ(count_of(text, ELLIPSIS), 1);
    CHECK(strstr(text, "\nRindfleischetikettierungsgesetz  ##  ."));
    free(text);
    /* Many cells leave little: then it is half of the line, and at most 24. */
    const float row[] = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
    const fv_look_map wide = {.rows = 1, .cols = 24, .values = row, .row_labels = labels};
    text = drawn(&wide, FV_LOOK_FORMAT_TEXT, 80);
    CHECK(strstr(text, ELLIPSIS "schetikettierungsgesetz ##"));
    free(text);
}

static int columns_of_widest_line(const char *text)
{
    int64_t widest = 0;
    char line[4096];
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        const int64_t span = fv_display_columns(line);
        if (span > widest) widest = span;
    }
    return (int)widest;
}

/* A sentence of forty words at eighty columns: two panels, with all words and all values. */
static void wide_maps_are_folded(void)
{
    enum { ROWS = 3, COLS = 40 };
    const char *const rows[ROWS] = {"first", "second", "third"};
    static char names[COLS][16];
    const char *cols[COLS];
    float values[ROWS * COLS] = {0};
    for (int j = 0; j < COLS; j++) {
        snprintf(names[j], sizeof names[j], "w%02d", j);
        cols[j] = names[j];
    }
    values[0 * COLS + 0] = values[1 * COLS + 19] = values[2 * COLS + 39] = 1;
    const fv_look_map map = {
        .rows = ROWS, .cols = COLS, .values = values, .row_labels = rows, .col_labels = cols};
    char *text = drawn(&map, FV_LOOK_FORMAT_TEXT, 80);
    CHECK(columns_of_widest_line(text) <= 80);
    CHECK_EQ(count_of(text, "w"), COLS);
    CHECK_EQ(count_of(text, "second"), 2);
    CHECK_EQ(count_of(text, "##"), 3 + 1); /* and the legend */
    CHECK_EQ(count_of(text, " ."), ROWS * COLS - 3 + 1);
    CHECK(strstr(text, "\n first  ##  ."));
    CHECK(strstr(text, " . ##\n") && strstr(text, "\n\n"));
    free(text);
    text = drawn(&map, FV_LOOK_FORMAT_TEXT, 1000);
    CHECK_EQ(count_of(text, "second"), 1);
    free(text);
}

static int read_number(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    CHECK(at != NULL);
    return at ? atoi(at + strlen(before)) : 0;
}

/* Long source, short output: the few rows are high enough for all of their labels. */
static void short_sides_keep_their_labels(void)
{
    enum { LONG = 120 };
    static float values[4 * LONG];
    const char *const words[] = {"alpha", "beta", "gamma", "delta"};
    fv_look_map map = {.rows = 4, .cols = LONG, .values = values, .row_labels = words};
    char *svg = drawn(&map, FV_LOOK_FORMAT_SVG, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(count_of(svg, words[i]), 1);
    free(svg);
    char *page = drawn(&map, FV_LOOK_FORMAT_HTML, 0);
    CHECK_EQ(read_number(page, ",w:"), 720 / LONG);
    CHECK(read_number(page, ",h:") >= 14);
    free(page);
    map = (fv_look_map){.rows = LONG, .cols = 4, .values = values, .col_labels = words};
    svg = drawn(&map, FV_LOOK_FORMAT_SVG, 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(count_of(svg, words[i]), 1);
    free(svg);
}

/* Less room than a label wants: still no line is too long. */
static void narrow_terminals_are_respected(void)
{
    const char *const labels[] = {"Rindfleischetikettierungsgesetz", "und", "日本語日本語日本語",
                                  "x"};
    const float values[16] = {1};
    const fv_look_map map = {
        .rows = 4, .cols = 4, .values = values, .row_labels = labels, .col_labels = labels};
    for (int columns = 20; columns < 60; columns++) {
        char *text = drawn(&map, FV_LOOK_FORMAT_TEXT, columns);
        CHECK(columns_of_widest_line(text) <= (columns > 22 ? columns : 22)); /* the legend is 22 */
        free(text);
    }
}

static void long_titles_are_cut_in_pictures(void)
{
    char title[2001];
    for (int i = 0; i < 400; i++)
        memcpy(title + 5 * i, "word ", 5);
    title[2000] = '\0';
    fv_look_map map = map5;
    map.title = title;
    char *svg = drawn(&map, FV_LOOK_FORMAT_SVG, 0);
    int width = 0;
    CHECK_EQ(sscanf(strstr(svg, "width=\""), "width=\"%d", &width), 1);
    CHECK(width > 400 && width < 700);
    CHECK_EQ(count_of(svg, ELLIPSIS), 1);
    free(svg);
    char label[FV_LABEL_BYTES];
    const fv_typeface face = {.format = FV_LOOK_FORMAT_SVG};
    CHECK_STR(fv_display_fit(&face, "short", 12, 100, label), "short");
    CHECK_STR(fv_display_fit(&face, "日本語", 10, 23, label), "日" ELLIPSIS);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(every_script_is_kept_in_svg);
    RUN(wide_letters_stand_below_each_other);
    RUN(right_to_left_words_do_not_reverse_the_cells);
    RUN(leftward_words_are_isolated_in_svg);
    RUN(letters_keep_their_marks);
    RUN(cut_words_say_so);
    RUN(wide_maps_are_folded);
    RUN(short_sides_keep_their_labels);
    RUN(narrow_terminals_are_respected);
    RUN(long_titles_are_cut_in_pictures);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
