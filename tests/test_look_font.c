/* PNG pictures with a font file: its glyphs where it has them, else the built-in ones. The font is
 * made here: one box, one font size wide and 0.7 high, for "A" and U+4E2D. */
#include <stdlib.h>

#include "fovea/look.h"
#include "support/files.h"
#include "support/png.h"
#include "support/program.h"
#include "support/reading.h"
#include "support/test.h"

/* ---- the font ---------------------------------------------------------------------- */

typedef struct bytes {
    unsigned char at[512];
    size_t count;
} bytes;

static void put(bytes *b, unsigned long value, int size)
{
    for (int i = size - 1; i >= 0; i--)
        b->at[b->count++] = (unsigned char)(value >> (8 * i));
}

static void put_shorts(bytes *b, const int *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(b, (unsigned long)values[i] & 0xFFFF, 2);
}

#define SHORTS(b, ...)                                                                             \
    put_shorts(b, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* A table's entry in the directory; its data goes to the end of `body`, padded to four bytes. */
static void put_table(bytes *directory, bytes *body, const char *tag, const bytes *table)
{
    enum { TABLES = 7 };
    memcpy(directory->at + directory->count, tag, 4);
    directory->count += 4;
    put(directory, 0, 4); /* checksum, which FreeType does not read */
    put(directory, 12 + 16 * TABLES + body->count, 4);
    put(directory, table->count, 4);
    memcpy(body->at + body->count, table->at, table->count);
    body->count += (table->count + 3) / 4 * 4;
}

static void write_font(const char *path)
{
    bytes cmap = {.count = 0}, glyf = {.count = 0}, head = {.count = 0}, hhea = {.count = 0},
          hmtx = {.count = 0}, loca = {.count = 0}, maxp = {.count = 0};
    SHORTS(&cmap, 0, 1, 3, 1, 0, 12); /* one table: Windows, Unicode */
    SHORTS(&cmap, 4, 40, 0, 6, 4, 1, 2, 0x41, 0x4E2D, 0xFFFF, 0, 0x41, 0x4E2D, 0xFFFF, 1 - 0x41,
           1 - 0x4E2D, 1, 0, 0, 0);
    SHORTS(&glyf, 1, 0, 0, 1000, 700, 3, 0); /* a contour of four points, no instructions */
    put(&glyf, 0x01010101, 4);
    SHORTS(&glyf, 0, 1000, 0, -1000, 0, 0, 700, 0);
    put(&head, 0x00010000, 4);
    put(&head, 0x00010000, 4);
    put(&head, 0, 4);
    put(&head, 0x5F0F3CF5, 4);
    SHORTS(&head, 0, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000, 700, 0, 8, 2, 0, 0);
    put(&hhea, 0x00010000, 4);
    SHORTS(&hhea, 800, -200, 0, 1000, 0, 0, 1000, 1, 0, 0, 0, 0, 0, 0, 0, 2);
    SHORTS(&hmtx, 500, 0, 1000, 0);
    SHORTS(&loca, 0, 0, (int)glyf.count / 2);
    put(&maxp, 0x00010000, 4);
    SHORTS(&maxp, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    bytes file = {.count = 0}, body = {.count = 0};
    put(&file, 0x00010000, 4);
    SHORTS(&file, 7, 64, 2, 48);
    put_table(&file, &body, "cmap", &cmap);
    put_table(&file, &body, "glyf", &glyf);
    put_table(&file, &body, "head", &head);
    put_table(&file, &body, "hhea", &hhea);
    put_table(&file, &body, "hmtx", &hmtx);
    put_table(&file, &body, "loca", &loca);
    put_table(&file, &body, "maxp", &maxp);
    memcpy(file.at + file.count, body.at, body.count);
    file_write(path, file.at, file.count + body.count);
}

/* ---- pictures ---------------------------------------------------------------------- */

static fv_ctx *ctx;

/* Pixels of the text colour in a map of one white cell with this row label. */
static int ink_of(const char *label, const char *font)
{
    const float zero = 0;
    const fv_look_map map = {.rows = 1, .cols = 1, .values = &zero, .row_labels = &label};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.font = font;
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_map_draw(ctx, &map, FV_LOOK_FORMAT_PNG, &options, &picture));
    if (!picture) return -1;
    size_t size = 0;
    png_image image = {0};
    const char *data = fv_picture_data(picture, &size), *wrong = png_decode(data, size, &image);
    CHECK_STR(wrong ? wrong : "", "");
    int ink = 0;
    for (int64_t y = 0; y < image.height; y++)
        for (int64_t x = 0; x < image.width; x++)
            ink += png_pixel(&image, x, y) == 0x1f2430;
    free(image.rgb);
    fv_picture_free(&picture);
    return ink;
}

#ifdef FV_HAVE_FONTS

/* Labels are 12 pixels high, in a picture of twice the size: boxes of 24 x 16.8 pixels. */
static void glyphs_come_from_the_file(void)
{
    const char *font = program_path("box.ttf");
    const int box = ink_of("\xE4\xB8\xAD", font);
    if (box < 23 * 16 || box > 24 * 17) test_failed(__FILE__, __LINE__, "%d pixels of ink", box);
    CHECK(ink_of("\xE4\xB8\xAD", NULL) < 23 * 16);
    CHECK_EQ(ink_of("AA", font), 2 * box);
    CHECK_EQ(ink_of("B", font), ink_of("B", NULL));
    CHECK_EQ(ink_of("AB", font), box + ink_of("B", NULL));
    CHECK_EQ(ink_of("BA", font), box + ink_of("B", NULL));
}

static void bad_fonts_are_reported(void)
{
    const float zero = 0;
    const fv_look_links links = {.heads = 1,
                                 .rows = 1,
                                 .cols = 1,
                                 .values = &zero,
                                 .only_row = -1,
                                 .font = program_path("text.ttf")};
    program_text("text.ttf", "no font\n");
    fv_picture *picture = NULL;
    CHECK_EQ(fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_PNG, &picture), FV_ERR_FORMAT);
    fv_ctx_take_error(ctx);
    fv_look_links other = links;
    other.font = program_path("absent.ttf");
    CHECK_EQ(fv_look_links_draw(ctx, &other, FV_LOOK_FORMAT_PNG, &picture), FV_ERR_IO);
    fv_ctx_take_error(ctx);
    CHECK_OK(ctx, fv_look_links_draw(ctx, &other, FV_LOOK_FORMAT_SVG, &picture));
    fv_picture_free(&picture);
    CHECK(picture == NULL);
}

enum { CODE = 0 };

#else

static void glyphs_come_from_the_file(void) { CHECK(ink_of("A", NULL) > 0); }

static void bad_fonts_are_reported(void)
{
    const float zero = 0;
    const fv_look_map map = {.rows = 1, .cols = 1, .values = &zero};
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.font = program_path("box.ttf");
    fv_picture *picture = NULL;
    CHECK_EQ(fv_look_map_draw(ctx, &map, FV_LOOK_FORMAT_PNG, &options, &picture),
             FV_ERR_UNSUPPORTED);
    fv_ctx_take_error(ctx);
}

enum { CODE = 4 };

#endif

static void the_program_takes_fonts(void)
{
    char model[512], picture[512];
    snprintf(model, sizeof model, "%s", reading_model());
    snprintf(picture, sizeof picture, "%s", program_path("map.png"));
    program_run("look %s animal --font %s -o %s", model, program_path("box.ttf"), picture);
    expect(CODE, "", CODE ? "built without the headers of" : "wrote ");
    program_run("look %s animal --font %s --links -o %s", model, program_path("box.ttf"), picture);
    expect(CODE, "", CODE ? "built without the headers of" : "wrote ");
    program_run("look %s animal --font %s -o map.svg", model, program_path("box.ttf"));
    expect(2, "", "--font is for -o FILE.png");
    program_run("look %s animal --font %s", model, program_path("box.ttf"));
    expect(2, "", "--font is for -o FILE.png");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    write_font(program_path("box.ttf"));
    RUN(glyphs_come_from_the_file);
    RUN(bad_fonts_are_reported);
    RUN(the_program_takes_fonts);
    program_end();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
