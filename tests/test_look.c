/* Maps as SVG, HTML and text: structure, escaping, sizes, ranges; and saving. */
#include <locale.h>
#include <stdlib.h>

#include "fovea/look.h"
#include "support/files.h"
#include "support/markup.h"
#include "support/png.h"
#include "support/test.h"

static fv_ctx *ctx;

static const char *const rows3[] = {"le", "chat", "noir"}, *const cols3[] = {"the", "black", "cat"};
static const float weights3[] = {0.9f, 0.05f, 0.05f, 0.1f, 0.2f, 0.7f, 0, 1, 0};

static const fv_look_map map3 = {.rows = 3,
                                 .cols = 3,
                                 .values = weights3,
                                 .row_labels = rows3,
                                 .col_labels = cols3,
                                 .title = "alignment"};

static fv_picture *drawn(const fv_look_map *map, fv_look_format form,
                         const fv_look_options *options)
{
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_map_draw(ctx, map, form, options, &picture));
    return picture;
}

static const char *text_of(const fv_picture *picture)
{
    size_t bytes = 0;
    if (!picture) return "";
    const char *data = fv_picture_data(picture, &bytes);
    CHECK_EQ(data[bytes], 0);
    return data;
}

static void well_formed(const char *svg)
{
    const char *wrong = markup_wrong(svg);
    if (wrong) test_failed(__FILE__, __LINE__, "SVG: %s in %.300s", wrong, svg);
}

/* The SVG part of a page. */
static char *svg_of_page(const char *page)
{
    const char *begin = strstr(page, "<svg "), *end = strstr(page, "</svg>");
    CHECK(begin && end);
    return begin && end ? strndup(begin, (size_t)(end + 6 - begin)) : strdup("");
}

static fv_look_options plain_options(void)
{
    fv_look_options o;
    fv_look_options_init(&o, sizeof o);
    return o;
}

/* ---- structure ------------------------------------------------------------------- */

static void svg_has_every_cell_and_label(void)
{
    fv_picture *p = drawn(&map3, FV_LOOK_FORMAT_SVG, NULL);
    const char *svg = text_of(p);
    well_formed(svg);
    CHECK_EQ(count_of(svg, "<rect "), 1 + 9 + 32); /* ground, cells, colour bar */
    for (int i = 0; i < 3; i++) {
        char label[32];
        snprintf(label, sizeof label, ">%s</text>", rows3[i]);
        CHECK(strstr(svg, label));
        snprintf(label, sizeof label, ">%s</text>", cols3[i]);
        CHECK(strstr(svg, label));
    }
    CHECK(strstr(svg, ">alignment</text>"));
    CHECK_EQ(count_of(svg, "rotate(-90"), 3); /* "black" is wider than a cell */
    CHECK_EQ(count_of(svg, "#0b2f66"), 2);    /* the 1, and the bar's top */
    fv_picture_free(&p);
    CHECK(p == NULL);
    fv_picture_free(&p);
}

static void short_column_labels_stay_level(void)
{
    const char *const letters[] = {"a", "b", "c"};
    fv_look_map map = map3;
    map.col_labels = letters;
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_SVG, NULL);
    CHECK_EQ(count_of(text_of(p), "rotate(-90"), 0);
    fv_picture_free(&p);
}

static void numbers_are_written_without_the_locale(void)
{
    const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
    fv_look_options o = plain_options();
    o.numbers = true;
    for (int i = 0; i < 4; i++) {
        if (!setlocale(LC_NUMERIC, locales[i])) continue;
        fv_picture *p = drawn(&map3, FV_LOOK_FORMAT_SVG, &o);
        CHECK(strstr(text_of(p), ">0.90</text>"));
        CHECK(strstr(text_of(p), ">0.05</text>"));
        fv_picture_free(&p);
    }
    setlocale(LC_NUMERIC, "C");
}

static void same_input_same_bytes(void)
{
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        size_t a_bytes, b_bytes;
        fv_picture *a = drawn(&map3, (fv_look_format)form, NULL),
                   *b = drawn(&map3, (fv_look_format)form, NULL);
        const char *a_data = fv_picture_data(a, &a_bytes), *b_data = fv_picture_data(b, &b_bytes);
        CHECK(a_bytes == b_bytes && memcmp(a_data, b_data, a_bytes) == 0);
        fv_picture_free(&a);
        fv_picture_free(&b);
    }
}

static void rows_may_have_a_stride(void)
{
    const float apart[] = {0.9f, 0.05f, 0.05f, 77, 0.1f, 0.2f, 0.7f, 88, 0, 1, 0, 99};
    fv_look_map map = map3;
    map.values = apart;
    map.stride = 4;
    fv_picture *a = drawn(&map3, FV_LOOK_FORMAT_HTML, NULL),
               *b = drawn(&map, FV_LOOK_FORMAT_HTML, NULL);
    CHECK_STR(text_of(b), text_of(a));
    fv_picture_free(&a);
    fv_picture_free(&b);
}

/* ---- values ---------------------------------------------------------------------- */

static void special_values_have_their_colours(void)
{
    const float values[] = {NAN, INFINITY, -INFINITY, -1, 1, 0};
    const fv_look_map map = {.rows = 2, .cols = 3, .values = values};
    fv_look_options o = plain_options();
    o.colours = FV_COLOUR_MAP_DIVERGING;
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_SVG, &o);
    const char *svg = text_of(p);
    well_formed(svg);
    CHECK_EQ(count_of(svg, "fill=\"#d6409f\""), 1); /* NaN, with its cross */
    CHECK_EQ(count_of(svg, "stroke=\"#ffffff\""), 2);
    CHECK_EQ(count_of(svg, "fill=\"#96142a\""), 2 + 1); /* +infinity, 1, the bar's end */
    CHECK_EQ(count_of(svg, "fill=\"#14418b\""), 2 + 1);
    CHECK_EQ(count_of(svg, "fill=\"#f7f7f7\""), 1); /* 0 lies in the middle */
    fv_picture_free(&p);
}

static void range_is_the_callers_if_given(void)
{
    fv_look_options o = plain_options();
    o.colours = FV_COLOUR_MAP_GREYS;
    o.low = 0.2;
    o.high = 0.7;
    fv_picture *p = drawn(&map3, FV_LOOK_FORMAT_SVG, &o);
    CHECK_EQ(count_of(text_of(p), "fill=\"#000000\""), 6 + 1); /* at or below 0.2, and the bar */
    CHECK(strstr(text_of(p), ">0.7</text>"));
    fv_picture_free(&p);
}

static void all_nan_and_all_equal_maps_are_drawn(void)
{
    const float nothing[] = {NAN, NAN, NAN, NAN}, zeros[4] = {0};
    fv_look_map map = {.rows = 2, .cols = 2, .values = nothing};
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        fv_picture *p = drawn(&map, (fv_look_format)form, NULL);
        fv_picture_free(&p);
        map.values = zeros;
        p = drawn(&map, (fv_look_format)form, NULL);
        fv_picture_free(&p);
        map.values = nothing;
    }
}

/* ---- labels from outside --------------------------------------------------------- */

static const char *const hostile[] = {
    "<script>alert(1)</script>",
    "\"><rect/>",
    "a & b &amp; c",
    "]]>",
    "\x1b[31mred\x07",
    "broken \xff\xc3(",
    "\xe2\x80\xae"
    "reversed",
    "\xef\xbf\xbf",
    "line\nbreak\ttab",
    "",
    "\xc2\x9b"
    "31m",
    "\\u003c/script>",
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static fv_look_map hostile_map(void)
{
    static float values[HOSTILE * HOSTILE];
    return (fv_look_map){.rows = HOSTILE,
                         .cols = HOSTILE,
                         .values = values,
                         .row_labels = hostile,
                         .col_labels = hostile,
                         .title = hostile[0],
                         .row_title = hostile[4],
                         .col_title = hostile[5]};
}

static void markup_in_labels_is_escaped(void)
{
    const fv_look_map map = hostile_map();
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_SVG, NULL);
    const char *svg = text_of(p);
    well_formed(svg);
    CHECK(!strstr(svg, "<script"));
    CHECK(strstr(svg, "&lt;script&gt;alert(1)&lt;/script&gt;"));
    CHECK(strstr(svg, "a &amp; b &amp;amp; c"));
    CHECK(strstr(svg, "\xe2\x90\x9b[31mred\xe2\x90\x87")); /* symbols of escape and bell */
    CHECK(strstr(svg, "broken \xef\xbf\xbd\xef\xbf\xbd("));
    CHECK(!strstr(svg, "\xe2\x80\xae"));
    fv_picture_free(&p);

    p = drawn(&map, FV_LOOK_FORMAT_HTML, NULL);
    char *inner = svg_of_page(text_of(p));
    well_formed(inner);
    free(inner);
    CHECK_EQ(count_of(text_of(p), "<script"), 1); /* ours */
    CHECK_EQ(count_of(text_of(p), "</script"), 1);
    fv_picture_free(&p);
}

/* On a terminal only our own colour sequences may begin with an escape. */
static void labels_cannot_steer_a_terminal(void)
{
    const fv_look_map map = hostile_map();
    for (int form = FV_LOOK_FORMAT_TEXT; form <= FV_LOOK_FORMAT_TERMINAL; form++) {
        fv_picture *p = drawn(&map, (fv_look_format)form, NULL);
        for (const char *at = text_of(p); *at; at++) {
            if (*at == 0x1b)
                CHECK(form == FV_LOOK_FORMAT_TERMINAL &&
                      (strncmp(at, "\x1b[48;5;", 7) == 0 || strncmp(at, "\x1b[0m", 4) == 0));
            else
                CHECK((unsigned char)*at >= 0x20 || *at == '\n');
            CHECK(strncmp(at, "\xc2\x9b", 2) != 0);
        }
        fv_picture_free(&p);
    }
}

static void long_labels_are_cut(void)
{
    char word[1001];
    memset(word, 'm', 1000);
    word[1000] = '\0';
    const char *labels[] = {word, word};
    const float values[] = {0, 1, 1, 0};
    const fv_look_map map = {
        .rows = 2, .cols = 2, .values = values, .row_labels = labels, .col_labels = labels};
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        fv_picture *p = drawn(&map, (fv_look_format)form, NULL);
        if (form == FV_LOOK_FORMAT_SVG) {
            CHECK(strstr(text_of(p), "mmm\xe2\x80\xa6</text>"));
            CHECK(!strstr(text_of(p),
                          "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"));
        }
        fv_picture_free(&p);
    }
    /* A label of nothing but marks has no columns; its bytes are bounded all the same. */
    char marks[4001];
    for (int i = 0; i < 2000; i++)
        memcpy(marks + 2 * i, "\xcc\x81", 2);
    marks[4000] = '\0';
    labels[0] = marks;
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        fv_picture *p = drawn(&map, (fv_look_format)form, NULL);
        fv_picture_free(&p);
    }
}

/* ---- sizes ----------------------------------------------------------------------- */

static void unequal_and_empty_maps(void)
{
    static float values[64];
    const int64_t sizes[][2] = {{0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 64}, {64, 1}, {2, 31}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
            const fv_look_map map = {.rows = sizes[i][0],
                                     .cols = sizes[i][1],
                                     .values = sizes[i][0] > 0 && sizes[i][1] > 0 ? values : NULL,
                                     .title = "t"};
            fv_picture *p = drawn(&map, (fv_look_format)form, NULL);
            if (form == FV_LOOK_FORMAT_SVG) {
                well_formed(text_of(p));
                CHECK_EQ(count_of(text_of(p), "<rect "), 1 + 32 + sizes[i][0] * sizes[i][1]);
            }
            if (form == FV_LOOK_FORMAT_TEXT && sizes[i][0] * sizes[i][1] == 0)
                CHECK(strstr(text_of(p), "(empty)"));
            fv_picture_free(&p);
        }
}

/* Large maps are embedded as a picture whose pixels are the cells. */
static void large_maps_are_embedded(void)
{
    enum { WIDE = 4096, HIGH = 3 };
    float *values = malloc(sizeof *values * WIDE * HIGH);
    for (int i = 0; i < WIDE * HIGH; i++)
        values[i] = i % 2 ? 1.0f : 0.0f;
    fv_look_options o = plain_options();
    o.colours = FV_COLOUR_MAP_GREYS;
    const fv_look_map map = {.rows = HIGH, .cols = WIDE, .values = values};
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_SVG, &o);
    well_formed(text_of(p));
    const char *data = strstr(text_of(p), "base64,");
    CHECK(data != NULL);
    if (data) {
        size_t bytes;
        png_image image;
        unsigned char *file = base64_decode(data + 7, &bytes);
        const char *wrong = png_decode(file, bytes, &image);
        CHECK_STR(wrong ? wrong : "", "");
        CHECK(image.width == WIDE && image.height == HIGH);
        for (int i = 0; !wrong && i < WIDE * HIGH; i++)
            if (png_pixel(&image, i % WIDE, i / WIDE) != (i % 2 ? 0xffffffu : 0u)) {
                test_failed(__FILE__, __LINE__, "pixel %d is wrong", i);
                break;
            }
        free(image.rgb);
        free(file);
    }
    CHECK(strlen(text_of(p)) < 20000); /* no rectangle for each cell */
    fv_picture_free(&p);
    p = drawn(&map, FV_LOOK_FORMAT_TERMINAL, &o);
    CHECK(strstr(text_of(p), "\xe2\x96\x80"));
    fv_picture_free(&p);
    free(values);
}

/* ---- text ------------------------------------------------------------------------ */

static void text_form_is_exact(void)
{
    fv_picture *p = drawn(&map3, FV_LOOK_FORMAT_TEXT, NULL);
    CHECK_STR(text_of(p), "alignment\n"
                          "          b   \n"
                          "          l   \n"
                          "       t  a  c\n"
                          "       h  c  a\n"
                          "       e  k  t\n"
                          "  le  ##  .  .\n"
                          "chat   .  .  +\n"
                          "noir   . ##  .\n"
                          " from 0 . - + ## to 1\n");
    fv_picture_free(&p);
    fv_look_options o = plain_options();
    o.numbers = true;
    p = drawn(&map3, FV_LOOK_FORMAT_TEXT, &o);
    CHECK_STR(text_of(p), "alignment\n"
                          "         the  black    cat\n"
                          "  le    0.90   0.05   0.05\n"
                          "chat    0.10   0.20   0.70\n"
                          "noir    0.00   1.00   0.00\n");
    fv_picture_free(&p);
}

#define LIGHT  "\xE2\x96\x91"
#define MEDIUM "\xE2\x96\x92"
#define DARK   "\xE2\x96\x93"
#define FULL   "\xE2\x96\x88"

static void block_shades_are_exact(void)
{
    const float values[] = {0, 0.3F, 0.6F, 1, NAN};
    const fv_look_map map = {.rows = 1, .cols = 5, .values = values};
    fv_look_options o = plain_options();
    o.shades = FV_LOOK_SHADES_BLOCKS;
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_TEXT, &o);
    CHECK_STR(text_of(p), "  " LIGHT LIGHT " " MEDIUM MEDIUM " " DARK DARK " " FULL FULL
                          "  ?\n from 0 " LIGHT " " MEDIUM " " DARK " " FULL " to 1\n");
    fv_picture_free(&p);
}

/* Labels as wide as a cell stand upright: side by side they would read as one word. */
static void neighbouring_labels_do_not_touch(void)
{
    const float values[] = {1, 0};
    static const char *const words[] = {"i", "the"};
    const fv_look_map map = {.rows = 1, .cols = 2, .values = values, .col_labels = words};
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_TEXT, NULL);
    CHECK_STR(text_of(p), "      t\n"
                          "      h\n"
                          "   i  e\n"
                          "  ##  .\n"
                          " from 0 . - + ## to 1\n");
    fv_picture_free(&p);
}

static void terminal_form_is_exact(void)
{
    const float values[] = {0, 1, NAN, 0};
    const fv_look_map map = {.rows = 2, .cols = 2, .values = values};
    fv_look_options o = plain_options();
    o.colours = FV_COLOUR_MAP_GREYS;
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_TERMINAL, &o);
    const char *const wanted = " \x1b[48;5;16m   \x1b[48;5;231m   \x1b[0m\n"
                               " \x1b[48;5;169m   \x1b[48;5;16m   \x1b[0m\n"
                               " from 0 \x1b[48;5;16m  ";
    CHECK(strncmp(text_of(p), wanted, strlen(wanted)) == 0);
    fv_picture_free(&p);
}

/* What is too wide is made smaller, and the strongest value under a character decides. */
static void small_text_keeps_the_peaks(void)
{
    enum { SIDE = 200 };
    float *values = calloc(SIDE * SIDE, sizeof *values);
    values[123 * SIDE + 57] = 1;
    const fv_look_map map = {.rows = SIDE, .cols = SIDE, .values = values};
    fv_look_options o = plain_options();
    o.columns = 42;
    fv_picture *p = drawn(&map, FV_LOOK_FORMAT_TEXT, &o);
    CHECK_EQ(count_of(text_of(p), "#") - 2, 1); /* the legend has two */
    for (const char *line = text_of(p); *line; line = strchr(line, '\n') + 1)
        CHECK(strcspn(line, "\n") <= 42);
    fv_picture_free(&p);
    free(values);
}

/* ---- pages ----------------------------------------------------------------------- */

static void page_stands_alone_and_holds_the_values(void)
{
    fv_picture *p = drawn(&map3, FV_LOOK_FORMAT_HTML, NULL);
    const char *page = text_of(p);
    CHECK_EQ(count_of(page, "http"), 2); /* the SVG namespace, in markup and in the script */
    CHECK(!strstr(page, "src=") && !strstr(page, "@import") && !strstr(page, "<link"));
    const char *at = strstr(page, "\nv:[\"");
    CHECK(at != NULL);
    for (int i = 0; at && i < 3; i++) {
        size_t bytes;
        unsigned char *row = base64_decode(at + (i == 0 ? 5 : 3), &bytes);
        CHECK(bytes == 3 * sizeof(float) && memcmp(row, weights3 + 3 * i, bytes) == 0);
        free(row);
        at = strstr(at + 1, ",\n\"");
    }
    fv_picture_free(&p);
}

/* ---- failures -------------------------------------------------------------------- */

static void expect(fv_status wanted, const fv_look_map *map, int form, const fv_look_options *o)
{
    fv_picture *p = NULL;
    CHECK_EQ(fv_look_map_draw(ctx, map, (fv_look_format)form, o, &p), wanted);
    CHECK(p == NULL);
    CHECK(fv_ctx_message(ctx)[0] != '\0');
    CHECK_EQ(fv_ctx_error(ctx), FV_OK); /* nothing sticks */
}

static void bad_arguments_are_reported(void)
{
    fv_look_map map = map3;
    expect(FV_ERR_ARGUMENT, NULL, FV_LOOK_FORMAT_SVG, NULL);
    expect(FV_ERR_ARGUMENT, &map3, 99, NULL);
    map.rows = -1;
    expect(FV_ERR_ARGUMENT, &map, FV_LOOK_FORMAT_SVG, NULL);
    map = map3;
    map.stride = 2;
    expect(FV_ERR_ARGUMENT, &map, FV_LOOK_FORMAT_SVG, NULL);
    map = map3;
    map.values = NULL;
    expect(FV_ERR_ARGUMENT, &map, FV_LOOK_FORMAT_SVG, NULL);
    map = map3;
    map.cols = FV_LOOK_MAX_SIDE + 1;
    expect(FV_ERR_LIMIT, &map, FV_LOOK_FORMAT_SVG, NULL);
    const struct {
        int colours, cell, columns;
        double low, high;
    } bad[] = {{.colours = 9},    {.cell = 129},         {.cell = -1}, {.columns = 19},
               {.columns = 1001}, {.low = 1, .high = 0}, {.low = NAN}, {.high = INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_look_options o = plain_options();
        o.colours = (fv_colour_map)bad[i].colours;
        o.cell = bad[i].cell;
        o.columns = bad[i].columns;
        o.low = bad[i].low;
        o.high = bad[i].high;
        expect(FV_ERR_ARGUMENT, &map3, FV_LOOK_FORMAT_SVG, &o);
    }
    fv_look_options o = {0};
    expect(FV_ERR_ARGUMENT, &map3, FV_LOOK_FORMAT_SVG, &o);
}

static void names_of_files_choose_the_form(void)
{
    const struct {
        const char *path;
        int form;
    } names[] = {{"a.svg", FV_LOOK_FORMAT_SVG},
                 {"dir.png/x.PNG", FV_LOOK_FORMAT_PNG},
                 {"y.HtMl", FV_LOOK_FORMAT_HTML},
                 {"z.htm", FV_LOOK_FORMAT_HTML},
                 {"b.txt", FV_LOOK_FORMAT_TEXT}};
    const char *const others[] = {"a.jpg", "svg", "dir.svg/file", "", "a.svg.gz"};
    fv_look_format form = FV_LOOK_FORMAT_COUNT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_OK(ctx, fv_look_format_from_path(ctx, names[i].path, &form));
        CHECK_EQ(form, names[i].form);
    }
    form = FV_LOOK_FORMAT_COUNT;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_EQ(fv_look_format_from_path(ctx, others[i], &form), FV_ERR_ARGUMENT);
    CHECK_EQ(form, FV_LOOK_FORMAT_COUNT);
}

/* Every call to the system fails once: the save returns an error, and the old file stays intact. */
static void failed_saves_keep_the_old_file(void)
{
    fault_io faults;
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    fault_io_init(&faults, &cfg.io);
    fv_ctx *own = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &own), FV_OK);
    folder_make();
    const char *path = folder_path("map.svg");
    fv_picture *p = NULL;
    CHECK_OK(own, fv_look_map_draw(own, &map3, FV_LOOK_FORMAT_SVG, NULL, &p));
    bool through = false;
    for (int at = 1; at < 50 && !through; at++) {
        file_write(path, "old", 3);
        faults.calls = 0;
        faults.failed = false;
        faults.fail_at = at;
        faults.error = 28; /* no space left */
        const fv_status status = fv_picture_save(p, path);
        size_t bytes = 0;
        char *now = file_read(path, &bytes);
        through = !faults.failed;
        const bool whole_old = bytes == 3 && memcmp(now, "old", 3) == 0,
                   whole_new = bytes == strlen(text_of(p)) && memcmp(now, text_of(p), bytes) == 0;
        CHECK(whole_old || whole_new);
        if (through) CHECK(status == FV_OK && whole_new);
        free(now);
    }
    CHECK(through);
    CHECK_EQ(fv_picture_save(p, NULL), FV_ERR_ARGUMENT);
    fv_picture_free(&p);
    folder_remove();
    fv_ctx_destroy(&own);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(svg_has_every_cell_and_label);
    RUN(short_column_labels_stay_level);
    RUN(numbers_are_written_without_the_locale);
    RUN(same_input_same_bytes);
    RUN(rows_may_have_a_stride);
    RUN(special_values_have_their_colours);
    RUN(range_is_the_callers_if_given);
    RUN(all_nan_and_all_equal_maps_are_drawn);
    RUN(markup_in_labels_is_escaped);
    RUN(labels_cannot_steer_a_terminal);
    RUN(long_labels_are_cut);
    RUN(unequal_and_empty_maps);
    RUN(large_maps_are_embedded);
    RUN(text_form_is_exact);
    RUN(block_shades_are_exact);
    RUN(neighbouring_labels_do_not_touch);
    RUN(terminal_form_is_exact);
    RUN(small_text_keeps_the_peaks);
    RUN(page_stands_alone_and_holds_the_values);
    RUN(bad_arguments_are_reported);
    RUN(names_of_files_choose_the_form);
    RUN(failed_saves_keep_the_old_file);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
