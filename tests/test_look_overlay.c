/* Attention over pictures in every form: colours, sizes, marks, film strips, and what is refused.
 */
#include <stdlib.h>

#include "fovea/look.h"
#include "support/markup.h"
#include "support/png.h"
#include "support/test.h"

static fv_ctx *ctx;

/* White on the left, black on the right. */
static const float halves[2][4] = {{1, 1, 0, 0}, {1, 1, 0, 0}};
/* All attention at the top. */
static const float top[2][1] = {{0.8f}, {0}};
static const fv_look_panel top_panel = {.caption = "top", .rows = 2, .cols = 1, .weights = top[0]};

static fv_look_overlay two_halves(void)
{
    return (fv_look_overlay){.channels = 1,
                             .height = 2,
                             .width = 4,
                             .pixels = halves[0],
                             .panels = &top_panel,
                             .panel_count = 1};
}

static fv_picture *drawn(const fv_look_overlay *overlay, fv_look_format form,
                         const fv_look_options *options)
{
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_overlay_draw(ctx, overlay, form, options, &picture));
    return picture;
}

/* The PNG that form PNG is. */
static png_image image_of(const fv_look_overlay *overlay)
{
    size_t bytes = 0;
    png_image image = {0};
    fv_picture *p = drawn(overlay, FV_LOOK_FORMAT_PNG, NULL);
    const char *data = fv_picture_data(p, &bytes), *wrong = png_decode(data, bytes, &image);
    if (wrong) test_failed(__FILE__, __LINE__, "PNG: %s", wrong);
    fv_picture_free(&p);
    return image;
}

/* The embedded PNG number n of an SVG. */
static png_image embedded(const char *svg, int n)
{
    static const char begin[] = "data:image/png;base64,";
    png_image image = {0};
    const char *at = strstr(svg, begin);
    while (at && n-- > 0)
        at = strstr(at + 1, begin);
    CHECK(at != NULL);
    if (!at) return image;
    size_t bytes = 0;
    unsigned char *data = base64_decode(at + sizeof begin - 1, &bytes);
    const char *wrong = png_decode(data, bytes, &image);
    if (wrong) test_failed(__FILE__, __LINE__, "PNG: %s", wrong);
    free(data);
    return image;
}

/* ---- colours -------------------------------------------------------------------------------- */

enum { BRIGHT_WHITE = 0xffffff, DARK_WHITE = 0x595959, BRIGHT_BLACK = 0x9e5c0d, DARK_BLACK = 0 };

static void light_falls_where_the_attention_is(void)
{
    const fv_look_overlay o = two_halves();
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    const char *svg = fv_picture_data(p, NULL), *wrong = markup_wrong(svg);
    if (wrong) test_failed(__FILE__, __LINE__, "SVG: %s", wrong);
    CHECK(strstr(svg, ">top</text>"));
    CHECK(strstr(svg, "width=\"320\" height=\"160\" preserve"));
    png_image image = embedded(svg, 0);
    const int64_t w = image.width, h = image.height;
    CHECK_EQ(w, 2 * h);
    CHECK_EQ(png_pixel(&image, 0, 0), BRIGHT_WHITE);
    CHECK_EQ(png_pixel(&image, 0, h / 2), DARK_WHITE);
    CHECK_EQ(png_pixel(&image, w - 1, h / 2 - 1), BRIGHT_BLACK);
    CHECK_EQ(png_pixel(&image, w / 2, h - 1), DARK_BLACK);
    CHECK_EQ(png_pixel(&image, w / 2 - 1, h / 2 - 1), BRIGHT_WHITE);
    free(image.rgb);
    fv_picture_free(&p);
}

static void forms_agree(void)
{
    const fv_look_overlay o = two_halves();
    png_image image = image_of(&o);
    /* margin 10, panel 320 x 160, caption 18; twice as large */
    CHECK(image.width == 2 * 340 && image.height == 2 * (160 + 18 + 20));
    CHECK_EQ(png_pixel(&image, 2 * 11, 2 * 11), BRIGHT_WHITE);
    CHECK_EQ(png_pixel(&image, 2 * 329, 2 * 11), BRIGHT_BLACK);
    CHECK_EQ(png_pixel(&image, 2 * 11, 2 * 169), DARK_WHITE);
    CHECK_EQ(png_pixel(&image, 2 * 5, 2 * 5), 0xffffff);
    free(image.rgb);
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_PDF, NULL);
    CHECK(strncmp(fv_picture_data(p, NULL), "%PDF-1.4", 8) == 0);
    fv_picture_free(&p);
    p = drawn(&o, FV_LOOK_FORMAT_HTML, NULL);
    CHECK(strstr(fv_picture_data(p, NULL), "v:[\"zcxMPw==\",\n\"AAAAAA==\"],t:\"top\""));
    fv_picture_free(&p);
}

/* A panel without weights is the picture; a range of the caller's dims; heat has its colours. */
static void lights_have_their_colours(void)
{
    static const float red[3] = {1, 0, 0};
    fv_look_panel panel = {.rows = 1, .cols = 1};
    fv_look_overlay o = {
        .channels = 3, .height = 1, .width = 1, .pixels = red, .panels = &panel, .panel_count = 1};
    const float one = 1, nan = NAN, none = 0;
    const struct {
        const float *weight;
        fv_look_light light;
        uint32_t colour;
    } cases[] = {{NULL, FV_LOOK_LIGHT_BRIGHT, 0xff0000},
                 {&one, FV_LOOK_LIGHT_BRIGHT, 0xff5c0d},
                 {&none, FV_LOOK_LIGHT_BRIGHT, 0x590000},
                 {&nan, FV_LOOK_LIGHT_BRIGHT, 0xd6409f},
                 {&none, FV_LOOK_LIGHT_HEAT, 0x28262d}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        panel.weights = cases[i].weight;
        o.light = cases[i].light;
        png_image image = image_of(&o);
        CHECK_EQ(png_pixel(&image, image.width / 2, image.height / 2), cases[i].colour);
        free(image.rgb);
    }
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.high = 2;
    panel.weights = &one;
    o.light = FV_LOOK_LIGHT_BRIGHT;
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, &options);
    png_image image = embedded(fv_picture_data(p, NULL), 0);
    CHECK_EQ(png_pixel(&image, 0, 0), 0xac2e06);
    free(image.rgb);
    fv_picture_free(&p);
}

static void smooth_weights_change_slowly(void)
{
    fv_look_overlay o = two_halves();
    o.smooth = true;
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    png_image image = embedded(fv_picture_data(p, NULL), 0);
    int64_t levels = 1, last = BRIGHT_WHITE;
    CHECK_EQ(png_pixel(&image, 0, 0), BRIGHT_WHITE);
    for (int64_t y = 0; y < image.height; y++) {
        const int64_t now = png_pixel(&image, 0, y);
        CHECK(now <= last);
        levels += now < last;
        last = now;
    }
    CHECK(levels > 10);
    CHECK_EQ(last, DARK_WHITE);
    free(image.rgb);
    fv_picture_free(&p);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void large_pictures_shrink_by_means(void)
{
    enum { SIDE = 1280 };
    float *stripes = malloc(sizeof *stripes * SIDE * SIDE);
    const fv_look_panel panel = {.caption = NULL};
    for (int i = 0; i < SIDE * SIDE; i++)
        stripes[i] = (float)(i % 2);
    const fv_look_overlay o = {.channels = 1,
                               .height = SIDE,
                               .width = SIDE,
                               .pixels = stripes,
                               .panels = &panel,
                               .panel_count = 1};
    png_image image = image_of(&o);
    CHECK_EQ(image.width, 2 * (320 + 20));
    CHECK_EQ(png_pixel(&image, 200, 200), 0x808080);
    free(image.rgb);
    free(stripes);
}

/* A film whose panels share a large picture has the bytes of one whose panels have it each. */
static void panels_share_a_large_picture(void)
{
    enum { WIDE = 700, HIGH = 500, PANELS = 3 };
    static float photo[3 * WIDE * HIGH];
    static const float seen[3][4] = {{0.1f, 0.2f, 0.3f, 0.4f}, {1, 0, 0, 0}, {0, 0, NAN, 1}};
    static const fv_look_format forms[] = {FV_LOOK_FORMAT_SVG, FV_LOOK_FORMAT_PNG,
                                           FV_LOOK_FORMAT_TERMINAL};
    fv_look_panel panels[PANELS] = {{.caption = "photo"}};
    for (int i = 0; i < 3 * WIDE * HIGH; i++)
        photo[i] = (float)(i * 7919LL % 1009) / 1000;
    for (int i = 1; i < PANELS; i++)
        panels[i] = (fv_look_panel){
            .caption = "word", .rows = 2, .cols = 2, .weights = seen[i], .mark = {9, 9, 90, 90}};
    const fv_look_overlay o = {.channels = 3,
                               .height = HIGH,
                               .width = WIDE,
                               .pixels = photo,
                               .panels = panels,
                               .panel_count = PANELS,
                               .smooth = true};
    for (int form = 0; form < 3; form++) {
        fv_picture *made[2] = {NULL, NULL};
        for (int own = 0; own < 2; own++) {
            for (int i = 0; i < PANELS; i++)
                panels[i].pixels = own ? photo : NULL;
            made[own] = drawn(&o, forms[form], NULL);
        }
        size_t bytes[2] = {0, 0};
        const char *a = fv_picture_data(made[0], &bytes[0]),
                   *b = fv_picture_data(made[1], &bytes[1]);
        CHECK(bytes[0] > 100 && bytes[0] == bytes[1] && memcmp(a, b, bytes[0]) == 0);
        fv_picture_free(&made[0]);
        fv_picture_free(&made[1]);
    }
}

static void a_spectrogram_is_stretched(void)
{
    fv_look_overlay o = two_halves();
    o.panel_width = 600;
    o.panel_height = 90;
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    const char *svg = fv_picture_data(p, NULL);
    CHECK(strstr(svg, "width=\"600\" height=\"90\" preserve"));
    png_image image = embedded(svg, 0);
    CHECK(image.width == 1200 && image.height == 180);
    free(image.rgb);
    fv_picture_free(&p);
    o.panel_width = 0;
    p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    CHECK(strstr(fv_picture_data(p, NULL), "width=\"180\" height=\"90\" preserve"));
    fv_picture_free(&p);
}

static void film_strips_break_their_lines(void)
{
    enum { COUNT = 9 };
    fv_look_panel panels[COUNT];
    char names[COUNT][8];
    fv_look_overlay o = two_halves();
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "w%d", i);
        panels[i] = top_panel;
        panels[i].caption = names[i];
    }
    o.panels = panels;
    o.panel_count = COUNT;
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    const char *svg = fv_picture_data(p, NULL);
    CHECK_EQ(count_of(svg, "<image "), COUNT);
    CHECK_EQ(count_of(svg, "y=\"10\" width=\"140\""), 6); /* six in 960 pixels */
    CHECK(strstr(svg, ">w8</text>"));
    fv_picture_free(&p);
    o.across = 2;
    p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    CHECK_EQ(count_of(fv_picture_data(p, NULL), "y=\"10\" width=\"140\""), 2);
    fv_picture_free(&p);
}

static void a_mark_frames_the_query(void)
{
    fv_look_panel panel = top_panel;
    fv_look_overlay o = two_halves();
    o.panels = &panel;
    const double mark[4] = {1, 0, 2, 1};
    memcpy(panel.mark, mark, sizeof mark);
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_SVG, NULL);
    CHECK(strstr(fv_picture_data(p, NULL), "d=\"M90 10L170 10L170 90L90 90L90 10\""));
    fv_picture_free(&p);
    p = drawn(&o, FV_LOOK_FORMAT_TEXT, NULL);
    CHECK_STR(fv_picture_data(p, NULL), " +X..\n top\n");
    fv_picture_free(&p);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void terminal_form_is_exact(void)
{
    const fv_look_overlay o = two_halves();
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_TERMINAL, NULL);
    CHECK_STR(fv_picture_data(p, NULL), " \x1b[38;5;231m\x1b[48;5;240m\xE2\x96\x80\xE2\x96\x80"
                                        "\x1b[38;5;130m\x1b[48;5;16m\xE2\x96\x80\xE2\x96\x80"
                                        "\x1b[0m\n top\n");
    fv_picture_free(&p);
}

static void panels_stand_side_by_side(void)
{
    fv_look_panel panels[3] = {top_panel, top_panel, top_panel};
    fv_look_overlay o = two_halves();
    panels[1].caption = "a long caption";
    panels[2].caption = "\x1b[31m";
    o.panels = panels;
    o.panel_count = 3;
    o.across = 2;
    o.title = "film";
    fv_picture *p = drawn(&o, FV_LOOK_FORMAT_TEXT, NULL);
    CHECK_STR(fv_picture_data(p, NULL),
              "film\n ++..            ++..\n top             a long caption\n\n"
              " ++..\n \xE2\x90\x9B[31m\n");
    fv_picture_free(&p);
    panels[1].caption = "a caption that is longer than any panel";
    p = drawn(&o, FV_LOOK_FORMAT_TEXT, NULL);
    CHECK(strstr(fv_picture_data(p, NULL), " a caption that is longer tha\n"));
    fv_picture_free(&p);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refused(fv_look_overlay o, fv_look_panel panel, int form, const char *message)
{
    fv_picture *p = NULL;
    if (o.panels) o.panels = &panel;
    CHECK_EQ(fv_look_overlay_draw(ctx, &o, (fv_look_format)form, NULL, &p), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    CHECK(!p);
}

static void bad_overlays_are_reported(void)
{
    fv_look_overlay o = two_halves();
    fv_look_panel panel = top_panel;
    refused(o, panel, FV_LOOK_FORMAT_COUNT, "unknown format");
#define WITH(field, value, message)                                                                \
    do {                                                                                           \
        o = two_halves();                                                                          \
        panel = top_panel;                                                                         \
        (field) = (value);                                                                         \
        refused(o, panel, FV_LOOK_FORMAT_SVG, message);                                            \
    } while (0)
    WITH(o.channels, 2, "1 or 3 channels");
    WITH(o.height, 0, "a picture of");
    WITH(o.width, FV_LOOK_MAX_SIDE + 1, "a picture of");
    WITH(o.pixels, NULL, "a picture of");
    WITH(o.panels, NULL, "panels, expected");
    WITH(o.panel_count, 0, "0 panels");
    WITH(o.panel_count, FV_LOOK_MAX_PANELS + 1, "257 panels");
    WITH(o.panel_width, -1, "panels of -1 x 0");
    WITH(o.panel_height, 5000, "expected at most 4096");
    WITH(o.across, -1, "panels of");
    WITH(o.light, FV_LOOK_LIGHT_COUNT, "unknown light");
    WITH(panel.rows, 0, "panel 0 has a grid of 0 x 1");
    WITH(panel.cols, FV_LOOK_MAX_SIDE + 1, "has a grid");
    WITH(panel.mark[2], 5, "its mark is not inside");
    WITH(panel.mark[3], NAN, "its mark is not inside");
#undef WITH
    fv_picture *p = NULL;
    CHECK_EQ(fv_look_overlay_draw(ctx, NULL, FV_LOOK_FORMAT_SVG, NULL, &p), FV_ERR_ARGUMENT);
}

static void same_input_same_bytes(void)
{
    fv_look_overlay o = two_halves();
    o.smooth = true;
    for (int form = 0; form < FV_LOOK_FORMAT_COUNT; form++) {
        size_t bytes[2];
        fv_picture *a = drawn(&o, (fv_look_format)form, NULL),
                   *b = drawn(&o, (fv_look_format)form, NULL);
        const char *first = fv_picture_data(a, &bytes[0]), *second = fv_picture_data(b, &bytes[1]);
        CHECK(bytes[0] == bytes[1] && memcmp(first, second, bytes[0]) == 0);
        fv_picture_free(&a);
        fv_picture_free(&b);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(light_falls_where_the_attention_is);
    RUN(forms_agree);
    RUN(lights_have_their_colours);
    RUN(smooth_weights_change_slowly);
    RUN(large_pictures_shrink_by_means);
    RUN(panels_share_a_large_picture);
    RUN(a_spectrogram_is_stretched);
    RUN(film_strips_break_their_lines);
    RUN(a_mark_frames_the_query);
    RUN(terminal_form_is_exact);
    RUN(panels_stand_side_by_side);
    RUN(bad_overlays_are_reported);
    RUN(same_input_same_bytes);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
