/* PNG: the packer, the files, their pixels, and the built-in font. */
#include <stdlib.h>

#include "look/deflate.h"
#include "look/display_text.h"
#include "look/font.h"
#include "look/png.h"
#include "support/png.h"
#include "support/test.h"

static fv_ctx *ctx;

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* ---- packing --------------------------------------------------------------------- */

static void packed_and_back(const unsigned char *data, size_t n, size_t near, size_t far)
{
    fv_writer o = {.ctx = ctx};
    fv_deflate(&o, data, n, (size_t[]){near, far});
    CHECK(!o.failed);
    unsigned char *back = malloc(n + 1);
    const char *wrong = zlib_unpack((unsigned char *)o.data, o.bytes, back, n);
    if (wrong || memcmp(back, data, n) != 0)
        test_failed(__FILE__, __LINE__, "%zu bytes: %s", n, wrong ? wrong : "other bytes");
    free(back);
    fv_writer_free(&o);
}

static void what_is_packed_comes_back(void)
{
    enum { MOST = 200000 };
    unsigned char *data = malloc(MOST);
    unsigned state = 1;
    const size_t sizes[] = {0, 1, 2, 3, 4, 257, 258, 259, 260, 517, 5552, 5553, 65536, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned kinds = 1; kinds <= 256; kinds *= 4) {
            /* Runs of random length of few or many different bytes. */
            for (size_t i = 0; i < sizes[s];) {
                const unsigned char byte = (unsigned char)(next_random(&state) % kinds);
                for (unsigned run = next_random(&state) % 300 + 1; run > 0 && i < sizes[s]; run--)
                    data[i++] = byte;
            }
            packed_and_back(data, sizes[s], 3, 1000);
        }
    for (size_t i = 0; i < MOST; i++)
        data[i] = (unsigned char)next_random(&state);
    packed_and_back(data, MOST, 3, 40000);
    /* A far repetition: every distance class up to the window's end. */
    for (size_t far = 1; far <= 32768; far = far * 3 / 2 + 1) {
        for (size_t i = far; i < MOST; i++)
            data[i] = data[i - far];
        packed_and_back(data, MOST, 3, far);
        for (size_t i = 0; i < MOST; i++)
            data[i] = (unsigned char)next_random(&state);
    }
    free(data);
}

static void runs_take_little_room(void)
{
    enum { MANY = 1000000 };
    unsigned char *data = calloc(MANY, 1);
    fv_writer o = {.ctx = ctx};
    fv_deflate(&o, data, MANY, (size_t[]){3, 3001});
    CHECK(o.bytes < MANY / 140);
    fv_writer_free(&o);
    free(data);
}

/* ---- files ----------------------------------------------------------------------- */

/* The reader notices any changed byte, so what it accepts is right. */
static void a_changed_byte_is_noticed(void)
{
    const unsigned char rgb[12] = {1, 2, 3, 200, 100, 0, 255, 255, 255, 0, 0, 7};
    fv_writer o = {.ctx = ctx};
    png_image image;
    fv_png_write(&o, 2, 2, rgb);
    const char *wrong = png_decode(o.data, o.bytes, &image);
    CHECK_STR(wrong ? wrong : "", "");
    CHECK(image.width == 2 && image.height == 2 && memcmp(image.rgb, rgb, sizeof rgb) == 0);
    free(image.rgb);
    for (size_t i = 0; i < o.bytes; i++) {
        o.data[i] ^= 0x10;
        CHECK(png_decode(o.data, o.bytes, &image) != NULL);
        o.data[i] ^= 0x10;
    }
    CHECK(png_decode(o.data, o.bytes - 1, &image) != NULL);
    fv_writer_free(&o);
}

static png_image drawn(const fv_look_map *map, const fv_look_options *options)
{
    png_image image = {0};
    fv_picture *p = NULL;
    CHECK_OK(ctx, fv_look_map_draw(ctx, map, FV_LOOK_FORMAT_PNG, options, &p));
    if (!p) return image;
    size_t bytes;
    const char *data = fv_picture_data(p, &bytes);
    const char *wrong = png_decode(data, bytes, &image);
    CHECK_STR(wrong ? wrong : "", "");
    fv_picture_free(&p);
    return image;
}

static int64_t count_colour(const png_image *image, uint32_t colour)
{
    int64_t count = 0;
    for (int64_t y = 0; y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++)
            count += png_pixel(image, x, y) == colour;
    return count;
}

static void cells_have_their_size_and_colour(void)
{
    const float values[] = {0, 1, 0.5f, NAN};
    const fv_look_map map = {.rows = 2, .cols = 2, .values = values};
    fv_look_options o;
    fv_look_options_init(&o, sizeof o);
    o.colours = FV_COLOUR_MAP_HEAT;
    o.cell = 40;
    png_image image = drawn(&map, &o);
    CHECK(image.width % 2 == 0); /* small pictures are drawn twice as large */
    /* Cells begin at 10, 10; each is 40 wide; the raster doubles that. */
    CHECK_EQ(png_pixel(&image, 2 * 30, 2 * 30), 0x0b0714);
    CHECK_EQ(png_pixel(&image, 2 * 70, 2 * 30), 0xfdf6c4);
    CHECK_EQ(png_pixel(&image, 2 * 51, 2 * 30), 0xfdf6c4);
    CHECK_EQ(png_pixel(&image, 2 * 49, 2 * 30), 0x0b0714);
    CHECK_EQ(png_pixel(&image, 2 * 70, 2 * 52), 0xd6409f); /* NaN, beside its cross */
    CHECK_EQ(png_pixel(&image, 2 * 70, 2 * 70), 0xffffff); /* the middle of the cross */
    CHECK_EQ(png_pixel(&image, 0, 0), 0xffffff);
    free(image.rgb);
}

static void large_pictures_are_not_doubled(void)
{
    enum { SIDE = 4096 };
    float *values = calloc(SIDE * SIDE, sizeof *values);
    const fv_look_map map = {.rows = SIDE, .cols = SIDE, .values = values};
    png_image image = drawn(&map, NULL);
    CHECK(image.width >= SIDE && image.width < SIDE + 200);
    free(image.rgb);
    free(values);
}

static void too_many_pixels_are_refused(void)
{
    float *values = calloc((size_t)16384 * 4, sizeof *values);
    fv_look_options o;
    fv_look_options_init(&o, sizeof o);
    o.cell = 128;
    const fv_look_map map = {.rows = 4, .cols = 16384, .values = values};
    fv_picture *p = NULL;
    CHECK_EQ(fv_look_map_draw(ctx, &map, FV_LOOK_FORMAT_PNG, &o, &p), FV_ERR_LIMIT);
    CHECK(p == NULL);
    free(values);
}

/* ---- the font -------------------------------------------------------------------- */

static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "äöüßÄÖÜẞàâæçéèêëîïôœùûüÿÀÂÆÇÉÈÊËÎÏÔŒÙÛÜŸáéíñóúüÁÉÍÑÓÚÜ"
                                   "ąćęłńóśźżĄĆĘŁŃÓŚŹŻčďěňřšťůžåøãõìòşğıİőűĠĊ";

static const char *const russian = "АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ"
                                   "абвгдеёжзийклмнопрстуфхцчшщъыьэюяЄІЇҐЎєіїґў";
static const char *const greek = "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρσςτυφχψω"
                                 "ΆΈΉΊΌΎΏάέήίόύώϊϋ";

/* The first character of a text that the font lacks; 0: it has them all. */
static uint32_t first_missing(const char *text)
{
    fv_glyph glyph;
    for (uint32_t code; (code = fv_display_next(&text)) != 0;)
        if (!fv_font_glyph(code, &glyph)) return code;
    return 0;
}

static void font_has_the_letters_of_many_languages(void)
{
    CHECK_EQ(first_missing(letters), 0);
    CHECK_EQ(first_missing(russian), 0);
    CHECK_EQ(first_missing(greek), 0);
    CHECK_EQ(first_missing("a\xe2\x80\xaf!\xe2\x80\x89\xc2\xa0"), 0); /* blanks of print */
    CHECK_EQ(first_missing("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»„“”‘’‚–—…€£§°·×÷±→←▁"), 0);
    CHECK_EQ(first_missing("e\xcc\x81"), 0); /* a combining acute */
    CHECK_EQ(first_missing("abc日"), 0x65e5);
}

/* No letter looks like another of its script. */
static void every_letter_has_its_own_drawing(const char *at, int min)
{
    enum { MOST = 256 };
    static fv_glyph glyphs[MOST];
    static uint32_t codes[MOST];
    int count = 0;
    for (uint32_t code; (code = fv_display_next(&at)) != 0 && count < MOST;) {
        CHECK(fv_font_glyph(code, &glyphs[count]));
        CHECK(glyphs[count].width > 0 && glyphs[count].width <= 8);
        codes[count++] = code;
    }
    CHECK(count >= min);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            if (codes[i] != codes[k] &&
                memcmp(glyphs[i].rows, glyphs[k].rows, sizeof glyphs[i].rows) == 0)
                test_failed(__FILE__, __LINE__, "U+%04X looks like U+%04X", (unsigned)codes[i],
                            (unsigned)codes[k]);
}

static void letters_differ(void)
{
    every_letter_has_its_own_drawing(letters, 150);
    every_letter_has_its_own_drawing(russian, 76);
    every_letter_has_its_own_drawing(greek, 65);
}

/* What the font lacks is shown by its number: no two alike, none without ink but what has none. */
static void lacking_glyphs_are_numbers(void)
{
    const char *at = "日本中文عربيहिन्दी한국어ไทย\xF0\x9F\x98\x80\xF0\x9F\x98\x81";
    fv_glyph glyphs[64];
    int count = 0;
    for (uint32_t code; (code = fv_display_next(&at)) != 0; count++) {
        fv_font_glyph_or_code(code, &glyphs[count]);
        CHECK(!fv_font_glyph(code, &(fv_glyph){0}));
        CHECK_EQ(glyphs[count].width, code > 0xFFFF ? 11 : 7);
        CHECK(glyphs[count].rows[0] == 0 && !glyphs[count].combining);
    }
    CHECK(count > 20);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            CHECK(memcmp(glyphs[i].rows, glyphs[k].rows, sizeof glyphs[i].rows) != 0 ||
                  glyphs[i].width != glyphs[k].width);
    /* 4E over 2D: the left column is the 4's over the 2's, the last the E's over the D's. */
    fv_glyph g;
    fv_font_glyph_or_code(0x4E2D, &g);
    const uint16_t rows[FV_GLYPH_ROWS] = {0,          5 | 7 << 4, 5 | 1 << 4, 7 | 3 << 4,
                                          4 | 1 << 4, 4 | 7 << 4, 0,          7 | 3 << 4,
                                          4 | 5 << 4, 7 | 5 << 4, 1 | 5 << 4, 7 | 3 << 4};
    CHECK(memcmp(g.rows, rows, sizeof rows) == 0);
    fv_font_glyph_or_code(0x200D, &g); /* a joiner */
    CHECK(g.combining && g.width == 0);
}

static void every_script_is_drawn(void)
{
    const float value = 0;
    const char *const label[] = {"日本"};
    const fv_look_map map = {
        .rows = 1, .cols = 1, .values = &value, .row_labels = label, .col_labels = label};
    png_image image = drawn(&map, NULL);
    CHECK(count_colour(&image, 0x1f2430) > 100);
    free(image.rgb);
}

/* Text is drawn: a label adds ink in its own margin, upright as much as level. */
static void labels_are_inked(void)
{
    const float values[] = {0, 0};
    const char *const word[] = {"Hmm", "Hmm"};
    fv_look_map map = {.rows = 1, .cols = 2, .values = values};
    png_image bare = drawn(&map, NULL);
    map.row_labels = word;
    png_image level = drawn(&map, NULL);
    map.row_labels = NULL;
    map.col_labels = word;
    png_image upright = drawn(&map, NULL);
    const int64_t none = count_colour(&bare, 0x1f2430), once = count_colour(&level, 0x1f2430),
                  twice = count_colour(&upright, 0x1f2430);
    CHECK_EQ(none, 0);
    CHECK(once > 100);
    CHECK_EQ(twice, 2 * once);
    free(bare.rgb);
    free(level.rgb);
    free(upright.rgb);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(what_is_packed_comes_back);
    RUN(runs_take_little_room);
    RUN(a_changed_byte_is_noticed);
    RUN(cells_have_their_size_and_colour);
    RUN(large_pictures_are_not_doubled);
    RUN(too_many_pixels_are_refused);
    RUN(font_has_the_letters_of_many_languages);
    RUN(letters_differ);
    RUN(lacking_glyphs_are_numbers);
    RUN(every_script_is_drawn);
    RUN(labels_are_inked);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
