/* Pictures as PDF: the file's structure, and what the page draws. */
#include <stdlib.h>

#include "fovea/look.h"
#include "support/png.h"
#include "support/test.h"

static fv_ctx *ctx;

/* A PDF and its page's drawing, unpacked. */
typedef struct pdf {
    fv_picture *picture;
    const char *data;
    size_t bytes;
    char *content;
} pdf;

/* Finds a text in the bytes of the file; NULL: it is not there. */
static const char *find(const pdf *p, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= p->bytes; i++)
        if (memcmp(p->data + i, text, n) == 0) return p->data + i;
    return NULL;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        count++;
    return count;
}

/* Every entry of the table is where its object begins. */
static void check_table(const pdf *p)
{
    const char *start = find(p, "startxref\n"), *table = NULL;
    const long at = start ? atol(start + 10) : -1;
    if (at > 0 && (size_t)at < p->bytes) table = p->data + at;
    if (!table || strncmp(table, "xref\n0 ", 7) != 0) {
        test_failed(__FILE__, __LINE__, "no table of objects at %ld", at);
        return;
    }
    const int count = atoi(table + 7);
    const char *line = strchr(table + 5, '\n') + 1;
    CHECK(count >= 8);
    for (int i = 1; i < count; i++) {
        char begin[24];
        snprintf(begin, sizeof begin, "%d 0 obj\n", i);
        const size_t offset = (size_t)atol(line + 20 * (size_t)i);
        if (offset + 16 > p->bytes || strncmp(p->data + offset, begin, strlen(begin)) != 0)
            test_failed(__FILE__, __LINE__, "object %d is not at byte %zu", i, offset);
    }
}

/* Unpacks object 4, the content. */
static void unpack(pdf *p)
{
    const char *object = find(p, "\n4 0 obj\n");
    const char *length = object ? strstr(object, "/Length ") : NULL;
    if (!length) {
        test_failed(__FILE__, __LINE__, "no content");
        return;
    }
    const size_t packed = (size_t)atol(length + 8),
                 bytes = (size_t)atol(strstr(length, "/DL ") + 4);
    const char *stream = strstr(length, "stream\n") + 7;
    p->content = calloc(bytes + 1, 1);
    const char *wrong =
        zlib_unpack((const unsigned char *)stream, packed, (unsigned char *)p->content, bytes);
    CHECK_STR(wrong ? wrong : "", "");
    CHECK(strncmp(stream + packed, "\nendstream\n", 11) == 0);
}

static pdf opened(fv_picture *picture)
{
    pdf p = {.picture = picture, .content = NULL};
    if (!picture) return p;
    p.data = fv_picture_data(picture, &p.bytes);
    CHECK(strncmp(p.data, "%PDF-1.", 7) == 0);
    CHECK(p.bytes > 6 && strcmp(p.data + p.bytes - 6, "%%EOF\n") == 0);
    check_table(&p);
    unpack(&p);
    return p;
}

static void closed(pdf *p)
{
    free(p->content);
    fv_picture_free(&p->picture);
}

static void a_map_is_vectors(void)
{
    static const float values[] = {0, 0.5f, 1, 0.25f, 0, 1};
    static const char *const rows[] = {"a(b)\\c", "caf\xC3\xA9"}, *const cols[] = {"long enough",
                                                                                   "to be rotated",
                                                                                   "\xE4\xB8\xAD"};
    const fv_look_map map = {.rows = 2,
                             .cols = 3,
                             .values = values,
                             .row_labels = rows,
                             .col_labels = cols,
                             .title = "Title"};
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_map_draw(ctx, &map, FV_LOOK_FORMAT_PDF, NULL, &picture));
    pdf p = opened(picture);
    if (p.content) {
        CHECK(strstr(p.content, "(a\\(b\\)\\\\c) Tj"));
        CHECK(strstr(p.content, "(caf\xE9) Tj"));
        CHECK(strstr(p.content, "0 -1 -1 0 ")); /* a column's label reads upward */
        CHECK_EQ(count_of(p.content, "(long enough) Tj"), 1);
        CHECK(strstr(p.content, "0.0431 0.1843 0.4 rg\n")); /* the darkest blue */
        CHECK(count_of(p.content, " re f\n") >= 6 + 32);    /* the cells and the colour bar */
        CHECK(count_of(p.content, " re\n") >= 10);          /* the code point of the last label */
        CHECK(strstr(p.content, "/F6 14 Tf"));              /* the title is bold */
    }
    CHECK(find(&p, "/Title<FEFF005400690074006C0065>"));
    CHECK(find(&p, "/BaseFont/Helvetica/Encoding/WinAnsiEncoding"));
    closed(&p);
}

static void heads_are_images(void)
{
    static const float values[2 * 3 * 4] = {0, 1, 0.5f};
    const fv_look_heads heads = {.layers = 2, .heads = 3, .rows = 2, .cols = 2, .values = values};
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_heads_draw(ctx, &heads, FV_LOOK_FORMAT_PDF, NULL, &picture));
    pdf p = opened(picture);
    if (p.content) {
        CHECK_EQ(count_of(p.content, " Do Q\n"), 6);
        CHECK(strstr(p.content, "/I13 Do"));
    }
    const char *image = find(&p, "/Width 2/Height 2/ColorSpace/DeviceRGB");
    if (image) {
        unsigned char rgb[12] = {0};
        const char *length = strstr(image, "/Length ");
        const char *wrong = zlib_unpack((const unsigned char *)strstr(length, "stream\n") + 7,
                                        (size_t)atol(length + 8), rgb, sizeof rgb);
        CHECK_STR(wrong ? wrong : "", "");
        CHECK(rgb[0] == 255 && rgb[3] == 0x0b && rgb[5] == 0x66); /* 0 is white, 1 dark blue */
    } else {
        test_failed(__FILE__, __LINE__, "no image");
    }
    closed(&p);
}

static void lines_have_opacity_and_dashes(void)
{
    static const float weights[] = {0.5f, 0.25f};
    const fv_look_links links = {
        .heads = 2, .rows = 1, .cols = 1, .values = weights, .only_row = -1};
    fv_picture *picture = NULL;
    CHECK_OK(ctx, fv_look_links_draw(ctx, &links, FV_LOOK_FORMAT_PDF, &picture));
    pdf p = opened(picture);
    CHECK(p.content && strstr(p.content, "/G32 gs") && strstr(p.content, "/G16 gs"));
    CHECK(find(&p, "/G32<</CA 0.5>>"));
    closed(&p);
    static const double x[] = {0, 1, 2}, y[] = {0, 1, 0};
    const fv_look_series series[] = {{.name = "dashed", .x = x, .y = y, .count = 3, .dashed = true},
                                     {.x = x, .y = y, .count = 3, .points_only = true}};
    const fv_look_plot plot = {.series = series, .series_count = 2};
    picture = NULL;
    CHECK_OK(ctx, fv_look_plot_draw(ctx, &plot, FV_LOOK_FORMAT_PDF, &picture));
    p = opened(picture);
    CHECK(p.content && strstr(p.content, "[6 4] 0 d "));
    CHECK(p.content && count_of(p.content, " c\n") >= 12); /* three dots */
    closed(&p);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(a_map_is_vectors);
    RUN(heads_are_images);
    RUN(lines_have_opacity_and_dashes);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
