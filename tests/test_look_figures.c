/* Grids of heads, links between words, plots and their axes. */
#include <math.h>
#include <stdlib.h>

#include "fovea/look.h"
#include "look/axis.h"
#include "look/colour.h"
#include "look/writer.h"
#include "support/markup.h"
#include "support/png.h"
#include "support/test.h"

static fv_ctx *ctx;

static const char *text_of(const fv_picture *picture)
{
    return picture ? fv_picture_data(picture, NULL) : "";
}

static void well_formed(const fv_picture *picture)
{
    const char *wrong = markup_wrong(text_of(picture));
    if (wrong) test_failed(__FILE__, __LINE__, "SVG: %s", wrong);
}

static void is_png(const fv_picture *picture)
{
    size_t bytes = 0;
    png_image image = {0};
    const char *data = fv_picture_data(picture, &bytes), *wrong = png_decode(data, bytes, &image);
    CHECK_STR(wrong ? wrong : "", "");
    free(image.rgb);
}

/* ---- colours of a terminal -------------------------------------------------------- */

static void blues_of_a_terminal_only_darken(void)
{
    const fv_colour_range range = {FV_COLOUR_MAP_BLUES, 0, 1};
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    double last = 256;
    int steps = 0;
    for (int i = 0; i <= 100; i++) {
        const int code = fv_colour_ansi(&range, i / 100.0);
        CHECK(code >= 16 && code < 232);
        const int r = levels[(code - 16) / 36], g = levels[(code - 16) / 6 % 6],
                  b = levels[(code - 16) % 6];
        const double now = 0.299 * r + 0.587 * g + 0.114 * b;
        CHECK(now <= last && r <= g && g <= b);
        steps += now < last;
        last = now;
    }
    CHECK(steps >= 9);
    CHECK_EQ(fv_colour_ansi(&range, 0), 231);
    CHECK_EQ(fv_colour_ansi(&range, NAN), fv_colour_nearest_ansi(FV_RGB_NAN));
    CHECK_EQ(fv_colour_ansi(&(fv_colour_range){FV_COLOUR_MAP_GREYS, 0, 1}, 1), 231);
}

/* ---- heads ----------------------------------------------------------------------- */

enum { LAYERS = 2, HEADS = 3, ROWS = 4, COLS = 5 };
static float head_values[LAYERS * HEADS * ROWS * COLS];
static const char *const words[] = {"it", "<was>", "too", "tired", "."};

static fv_look_heads some_heads(void)
{
    for (int i = 0; i < LAYERS * HEADS * ROWS * COLS; i++)
        head_values[i] = (float)(i % 7) / 7;
    return (fv_look_heads){.layers = LAYERS,
                           .heads = HEADS,
                           .rows = ROWS,
                           .cols = COLS,
                           .values = head_values,
                           .row_labels = words,
                           .col_labels = words,
                           .title = "heads"};
}

static void every_head_has_its_map(void)
{
    const fv_look_heads heads = some_heads();
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p));
    well_formed(p);
    CHECK_EQ(count_of(text_of(p), "<image "), LAYERS * HEADS);
    const char *at = text_of(p);
    for (int n = 0; n < LAYERS * HEADS && (at = strstr(at, "base64,")) != NULL; n++) {
        size_t bytes;
        png_image image;
        unsigned char *file = base64_decode(at += 7, &bytes);
        CHECK(png_decode(file, bytes, &image) == NULL);
        /* Each cell is a square of pixels, all of one colour. */
        const int64_t times = image.width / COLS;
        CHECK(times > 1 && image.width == times * COLS && image.height == times * ROWS);
        for (int64_t i = 0; image.rgb && i < image.width * image.height; i++) {
            const int64_t x = i % image.width, y = i / image.width;
            if (png_pixel(&image, x, y) == png_pixel(&image, x / times * times, y / times * times))
                continue;
            test_failed(__FILE__, __LINE__, "a cell of two colours");
            break;
        }
        free(image.rgb);
        free(file);
    }
    fv_picture_free(&p);
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_PNG, NULL, &p));
    is_png(p);
    fv_picture_free(&p);
}

static void names_stand_in_for_numbers(void)
{
    const char *const layers[] = {"narrow", "wide"}, *const heads_[] = {"a<b", "c", "d"};
    fv_look_heads heads = some_heads();
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p));
    CHECK(strstr(text_of(p), ">layer</text>") && strstr(text_of(p), ">2</text>"));
    fv_picture_free(&p);
    heads.layer_names = layers;
    heads.head_names = heads_;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p));
    well_formed(p);
    CHECK(strstr(text_of(p), ">wide</text>") && strstr(text_of(p), ">a&lt;b</text>"));
    CHECK(!strstr(text_of(p), ">layer</text>") && !strstr(text_of(p), ">2</text>"));
    fv_picture_free(&p);
}

/* A title far wider than the maps is cut, and does not widen the picture without end. */
static void a_long_title_of_heads_is_cut(void)
{
    fv_look_heads heads = some_heads();
    char title[400];
    memset(title, 'n', sizeof title - 1);
    title[sizeof title - 1] = '\0';
    heads.title = title;
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p));
    well_formed(p);
    CHECK(strstr(text_of(p), "nnnn\xe2\x80\xa6</text>") && !strstr(text_of(p), title));
    const char *width = strstr(text_of(p), "width=\"");
    CHECK(width && atof(width + 7) < 600);
    fv_picture_free(&p);
}

static void page_of_heads_holds_all_values(void)
{
    const fv_look_heads heads = some_heads();
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_HTML, NULL, &p));
    const char *page = text_of(p), *at = strstr(page, "\nv:[\"");
    CHECK_EQ(count_of(page, "</script"), 1);
    CHECK(strstr(page, "\"\\u003cwas>\""));
    CHECK(at != NULL);
    for (int i = 0; at && i < LAYERS * HEADS * ROWS; i++) {
        size_t bytes;
        unsigned char *row = base64_decode(at + (i == 0 ? 5 : 3), &bytes);
        CHECK(bytes == COLS * sizeof(float) && memcmp(row, head_values + COLS * i, bytes) == 0);
        free(row);
        at = strstr(at + 1, ",\n\"");
    }
    fv_picture_free(&p);
}

/* A head larger than its place keeps its peaks. */
static void large_heads_are_made_smaller(void)
{
    enum { SIDE = 300 };
    float *values = calloc(SIDE * SIDE, sizeof *values);
    values[7 * SIDE + 200] = 1;
    const fv_look_heads heads = {
        .layers = 1, .heads = 1, .rows = SIDE, .cols = SIDE, .values = values};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p));
    size_t bytes;
    png_image image;
    const char *data = strstr(text_of(p), "base64,");
    unsigned char *file = base64_decode(data ? data + 7 : "\"", &bytes);
    CHECK(png_decode(file, bytes, &image) == NULL);
    CHECK(image.width == 2 * 96 && image.height == 2 * 96);
    int dark = 0;
    for (int64_t i = 0; image.rgb && i < image.width * image.height; i++)
        dark += png_pixel(&image, i % image.width, i / image.width) == 0x0b2f66;
    CHECK_EQ(dark, 4);
    free(image.rgb);
    free(file);
    fv_picture_free(&p);
    free(values);
}

static void bad_heads_are_reported(void)
{
    fv_picture *p = NULL;
    fv_look_heads heads = some_heads();
    heads.layers = 0;
    CHECK_EQ(fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p), FV_ERR_ARGUMENT);
    heads = some_heads();
    heads.heads = INT64_MAX;
    CHECK_EQ(fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p), FV_ERR_LIMIT);
    heads = some_heads();
    heads.values = NULL;
    CHECK_EQ(fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_SVG, NULL, &p), FV_ERR_ARGUMENT);
    heads = some_heads();
    CHECK_EQ(fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_TERMINAL, NULL, &p),
             FV_ERR_UNSUPPORTED);
    CHECK_EQ(fv_look_heads_draw(ctx, NULL, FV_LOOK_FORMAT_SVG, NULL, &p), FV_ERR_ARGUMENT);
    CHECK(p == NULL);
}

/* A page has the figure's title, is not wider than the window, and shows the enlarged head beside
 * the grid instead of below it. */
static void pages_fit_the_window(void)
{
    const float one = 1;
    const fv_look_heads heads = {
        .layers = 1, .heads = 1, .rows = 1, .cols = 1, .values = &one, .title = "a < b"};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_HTML, NULL, &p));
    CHECK_EQ(count_of(text_of(p), "<title>a &lt; b</title>"), 1);
    CHECK_EQ(count_of(text_of(p), "svg{max-width:100%;height:auto}"), 1);
    CHECK_EQ(count_of(text_of(p), "#view{position:sticky;top:8px"), 1);
    fv_picture_free(&p);
}

/* ---- links ----------------------------------------------------------------------- */

static const float link_values[] = {0.5f, 0.01f, NAN,  0.3f, 1.5f, 0, /* head 0: 2 x 3 */
                                    0.9f, 0.9f,  0.9f, 0.9f, 0.9f, 0.9f};

static fv_look_links some_links(void)
{
    return (fv_look_links){.heads = 2,
                           .rows = 2,
                           .cols = 3,
                           .values = link_values,
                           .row_labels = words,
                           .col_labels = words,
                           .only_row = -1};
}

static void each_weight_has_a_line(void)
{
    fv_look_links links = some_links();
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p));
    well_formed(p);
    CHECK_EQ(count_of(text_of(p), "<path "), 3 + 6); /* neither the weak one nor NaN */
    CHECK_EQ(count_of(text_of(p), "stroke=\"#1f66a8\""), 3);
    CHECK_EQ(count_of(text_of(p), "stroke=\"#d9541e\""), 6);
    CHECK_EQ(count_of(text_of(p), "&lt;was&gt;"), 2);
    fv_picture_free(&p);
    /* the page knows every line that is drawn, by head, row, column and weight */
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_HTML, &p));
    CHECK_EQ(count_of(text_of(p), "<path "), 3 + 6);
    CHECK_EQ(count_of(text_of(p), "[0,"), 3);
    CHECK_EQ(count_of(text_of(p), "[1,"), 6);
    CHECK_EQ(count_of(text_of(p), "n:[\"0\",\"1\"]"), 1);
    fv_picture_free(&p);
    links.only_row = 1;
    links.min_weight = 0.4;
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p));
    CHECK_EQ(count_of(text_of(p), "<path "), 1 + 3);
    fv_picture_free(&p);
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_PNG, &p));
    is_png(p);
    fv_picture_free(&p);
}

/* Bars of both heads beside each word: the largest in the head's own colour. */
static void links_have_bars_for_heads(void)
{
    static const float weights[] = {1,    0, 0, 1, /* layer 0: head 0, head 1 */
                                    0.5f, 0, 0, 0};
    static const char *const names[] = {"first", "second"};
    const fv_look_links links = {.heads = 2,
                                 .rows = 1,
                                 .cols = 2,
                                 .values = weights,
                                 .only_row = -1,
                                 .layers = 2,
                                 .layer_names = names};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p));
    well_formed(p);
    CHECK_EQ(count_of(text_of(p), "width=\"6\" height=\"14\""), 3);
    CHECK_EQ(count_of(text_of(p), "height=\"14\" fill=\"#1f66a8\""), 1);
    CHECK_EQ(count_of(text_of(p), "height=\"14\" fill=\"#8fb3d4\""), 1); /* half of it */
    CHECK_EQ(count_of(text_of(p), "height=\"14\" fill=\"#d9541e\""), 1);
    CHECK_EQ(count_of(text_of(p), ">first<") + count_of(text_of(p), ">second<"), 2);
    fv_picture_free(&p);
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_HTML, &p));
    CHECK_EQ(count_of(text_of(p), "width=\"6\" height=\"14\""), 8);
    fv_picture_free(&p);
}

static void bad_links_are_reported(void)
{
    fv_picture *p = NULL;
    fv_look_links links = some_links();
    links.only_row = 2;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_ARGUMENT);
    links = some_links();
    links.heads = 0;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_ARGUMENT);
    links.heads = 65;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_LIMIT);
    links = some_links();
    links.layers = 257;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_LIMIT);
    links.layers = -1;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_ARGUMENT);
    links = some_links();
    links.values = NULL;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_SVG, &p), FV_ERR_ARGUMENT);
    links = some_links();
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_TEXT, &p), FV_ERR_UNSUPPORTED);
    CHECK(p == NULL);
}

/* ---- plots ----------------------------------------------------------------------- */

static void plots_show_lines_points_and_legend(void)
{
    const double x[] = {1, 2, 4, 8, 16}, gap[] = {1, 2, NAN, 8, 16}, bad[] = {0, -1, 2, 4, 8};
    const fv_look_series series[] = {
        {.name = "whole", .x = x, .y = x, .count = 5},
        {.name = "two parts", .x = x, .y = gap, .count = 5, .dashed = true},
        {.name = "points & only", .x = x, .y = x, .count = 5, .points_only = true},
        {.name = NULL, .x = bad, .y = x, .count = 5},
    };
    const fv_look_plot plot = {.title = "growth",
                               .x = {.title = "n", .scale = FV_AXIS_LOG2},
                               .y = {.title = "ms", .scale = FV_AXIS_LOG10},
                               .series = series,
                               .series_count = 4};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_SVG, &p));
    well_formed(p);
    const char *svg = text_of(p);
    CHECK_EQ(count_of(svg, "stroke=\"#1f66a8\""), 1 + 1); /* line and legend */
    CHECK_EQ(count_of(svg, "stroke=\"#d9541e\""), 2 + 1); /* broken by NaN */
    CHECK_EQ(count_of(svg, "stroke=\"#2f8f4e\""), 0);
    CHECK_EQ(count_of(svg, "fill=\"#2f8f4e\""), 5 + 1);
    CHECK_EQ(count_of(svg, "fill=\"#8b4fb3\""), 3); /* not positive: left out; no legend */
    CHECK(strstr(svg, ">points &amp; only</text>"));
    for (int tick = 1; tick <= 16; tick *= 2) {
        char name[32];
        snprintf(name, sizeof name, ">%d</text>", tick);
        CHECK(strstr(svg, name));
    }
    fv_picture_free(&p);
    CHECK_OK(ctx, fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_PNG, &p));
    is_png(p);
    fv_picture_free(&p);
}

/* The pixel row of a label in an SVG; -1: it is not there. */
static double label_row(const fv_picture *p, const char *label)
{
    char text[32];
    snprintf(text, sizeof text, ">%s<", label);
    const char *data = fv_picture_data(p, NULL), *at = strstr(data, text), *row = NULL;
    for (const char *y = data; at && (y = strstr(y, " y=\"")) && y < at; y++)
        row = y;
    return row ? strtod(row + 4, NULL) : -1;
}

/* Three labelled points, the third to the right of the others. */
static fv_picture *label_points(double second_x, double second_y)
{
    static const char *const labels[] = {"alpha", "beta", "gamma"};
    const double x[] = {0.2, second_x, 0.8}, y[] = {0.5, second_y, 0.5};
    const fv_look_series series = {
        .x = x, .y = y, .count = 3, .points_only = true, .labels = labels};
    const fv_look_plot plot = {.x = {.low = 0, .high = 1},
                               .y = {.low = 0, .high = 1},
                               .series = &series,
                               .series_count = 1};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_SVG, &p));
    return p;
}

static void labels_do_not_cover_each_other(void)
{
    fv_picture *p = label_points(0.2, 0.7);
    const double unit = (label_row(p, "alpha") - label_row(p, "beta")) / 0.2;
    CHECK(unit > 100);
    fv_picture_free(&p);
    const struct {
        double x, pixels;
        bool shown;
    } known[] = {{0.2, 0, false},    {0.2, 11.5, false}, {0.2, -11.5, false}, {0.2, 12.5, true},
                 {0.2, -12.5, true}, {0.22, 5, false},   {0.18, 5, false},    {0.5, 0, true}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        p = label_points(known[i].x, 0.5 + known[i].pixels / unit);
        CHECK(label_row(p, "alpha") > 0 && label_row(p, "gamma") > 0);
        if ((label_row(p, "beta") > 0) != known[i].shown)
            test_failed(__FILE__, __LINE__, "row %zu", i);
        fv_picture_free(&p);
    }
}

static void plots_without_points_are_drawn(void)
{
    const fv_look_series none = {.name = "none"};
    for (int scale = FV_AXIS_LINEAR; scale <= FV_AXIS_LOG2; scale++) {
        const fv_look_plot plot = {.x = {.scale = (fv_axis_scale)scale},
                                   .y = {.scale = (fv_axis_scale)scale},
                                   .series = &none,
                                   .series_count = 1};
        fv_picture *p = NULL;
        CHECK_OK(ctx, fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_SVG, &p));
        well_formed(p);
        CHECK(!strstr(text_of(p), "nan") && !strstr(text_of(p), "inf"));
        fv_picture_free(&p);
    }
}

static void bad_plots_are_reported(void)
{
    const double x[] = {1};
    const fv_look_series one = {.x = x, .y = x, .count = 1}, broken = {.x = x, .count = 1};
    const fv_look_plot good = {.series = &one, .series_count = 1};
    fv_look_plot bad[] = {good, good, good, good, good, good, good};
    bad[0].series = NULL;
    bad[1].series_count = 65;
    bad[2].width = 100;
    bad[3].x.scale = (fv_axis_scale)7;
    bad[4].x = (fv_look_axis){.scale = FV_AXIS_LOG10, .low = 0, .high = 1};
    bad[5].y.low = NAN;
    bad[6].series = &broken;
    fv_picture *p = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(fv_look_plot_draw(ctx, &bad[i], FV_LOOK_FORMAT_SVG, &p), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_look_plot_draw(ctx, &good, FV_LOOK_FORMAT_TEXT, &p), FV_ERR_UNSUPPORTED);
    CHECK(p == NULL);
}

/* Between two and the most ticks, ascending, inside the axis, whatever the range. */
static void axes_have_sensible_ticks(void)
{
    const double ends[] = {1e-9, 3e-4, 0.07, 1, 1.0001, 64, 4096, 1e6, 7e12};
    const int count = sizeof ends / sizeof *ends;
    for (int scale = FV_AXIS_LINEAR; scale <= FV_AXIS_LOG2; scale++)
        for (int i = 0; i < count; i++)
            for (int k = i; k < count; k++) {
                const fv_axis axis = fv_axis_make((fv_axis_scale)scale, ends[i], ends[k], false);
                double ticks[FV_MAX_TICKS];
                const int n = fv_axis_ticks(&axis, ticks);
                CHECK(axis.low <= ends[i] && axis.high >= ends[k] && axis.low < axis.high);
                CHECK(n <= FV_MAX_TICKS);
                CHECK(n >= 2);
                for (int t = 0; t < n; t++) {
                    const double place = fv_axis_pixel(&axis, ticks[t]);
                    CHECK(t == 0 || ticks[t] > ticks[t - 1]);
                    CHECK(place > -1e-6 && place < 1 + 1e-6);
                }
            }
    CHECK_NEAR(fv_axis_pixel(&(fv_axis){FV_AXIS_LOG2, 1, 16, 0, 100}, 4), 50, 1e-9);
    CHECK_NEAR(fv_axis_pixel(&(fv_axis){FV_AXIS_LINEAR, 10, 20, 100, 0}, 12.5), 75, 1e-9);
}

static void numbers_read_as_people_write_them(void)
{
    const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},
                 {1, "1"},
                 {-1, "-1"},
                 {0.5, "0.5"},
                 {0.03125, "0.0312"},
                 {12.5, "12.5"},
                 {4096, "4096"},
                 {123.456, "123.5"},
                 {1e7, "1e7"},
                 {2.5e-7, "2.5e-7"},
                 {9.999e-8, "1e-7"},
                 {-3e20, "-3e20"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"},
                 {-0.00001, "-1e-5"}};
    char text[FV_FIXED_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_STR(fv_short_number(cases[i].value, text), cases[i].text);
    CHECK_STR(fv_fixed(0.994, 2, false, text), "0.99");
    CHECK_STR(fv_fixed(0.996, 2, false, text), "1.00");
    CHECK_STR(fv_fixed(-0.001, 2, true, text), "0");
    CHECK_STR(fv_fixed(NAN, 2, true, text), "nan");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(labels_do_not_cover_each_other);
    RUN(blues_of_a_terminal_only_darken);
    RUN(every_head_has_its_map);
    RUN(names_stand_in_for_numbers);
    RUN(a_long_title_of_heads_is_cut);
    RUN(page_of_heads_holds_all_values);
    RUN(large_heads_are_made_smaller);
    RUN(bad_heads_are_reported);
    RUN(each_weight_has_a_line);
    RUN(pages_fit_the_window);
    RUN(links_have_bars_for_heads);
    RUN(bad_links_are_reported);
    RUN(plots_show_lines_points_and_legend);
    RUN(plots_without_points_are_drawn);
    RUN(bad_plots_are_reported);
    RUN(axes_have_sensible_ticks);
    RUN(numbers_read_as_people_write_them);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
