/*
 * fovea/unicode.h against what Python's unicodedata says of the texts in data/text/unicode.tsv, and
 * its edges: broken text, hostile runs of marks, memory kept between calls.
 */
#include "fovea/unicode.h"

#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- the recorded texts ---------------------------------------------------------- */

/* "41 301" as UTF-8; moves *at behind the tab or line end. */
static size_t read_codes(const char **at, char out[1024])
{
    size_t used = 0;
    while (**at != '\t' && **at != '\n' && **at) {
        char *end;
        unsigned long code = strtoul(*at, &end, 16);
        unsigned char *o = (unsigned char *)out + used;
        if (code < 0x80) {
            o[0] = (unsigned char)code;
            used += 1;
        } else if (code < 0x800) {
            o[0] = (unsigned char)(0xC0 | code >> 6);
            o[1] = (unsigned char)(0x80 | (code & 63));
            used += 2;
        } else if (code < 0x10000) {
            o[0] = (unsigned char)(0xE0 | code >> 12);
            o[1] = (unsigned char)(0x80 | (code >> 6 & 63));
            o[2] = (unsigned char)(0x80 | (code & 63));
            used += 3;
        } else {
            o[0] = (unsigned char)(0xF0 | code >> 18);
            o[1] = (unsigned char)(0x80 | (code >> 12 & 63));
            o[2] = (unsigned char)(0x80 | (code >> 6 & 63));
            o[3] = (unsigned char)(0x80 | (code & 63));
            used += 4;
        }
        *at = end;
        while (**at == ' ')
            (*at)++;
    }
    if (**at) (*at)++;
    out[used] = '\0';
    return used;
}

static void recorded_texts(void)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD", "lower"};
    size_t bytes = 0;
    char *all = file_read(test_path("data/text/unicode.tsv"), &bytes);
    CHECK(all != NULL);
    if (!all) return;
    char *file = malloc(bytes + 1);
    memcpy(file, all, bytes);
    file[bytes] = '\0';
    fv_text out = {0};
    int lines = 0;
    for (const char *at = file; *at; lines++) {
        char text[1024], want[1024];
        size_t n = read_codes(&at, text);
        for (int form = 0; form < 5; form++) {
            size_t m = read_codes(&at, want);
            if (form < 4)
                CHECK_OK(ctx, fv_text_normalize(ctx, text, n, (fv_normal_form)form, &out));
            else
                CHECK_OK(ctx, fv_text_lower(ctx, text, n, &out));
            if (out.bytes != m || memcmp(out.data, want, m) != 0 || out.data[m] != '\0')
                test_failed(__FILE__, __LINE__, "line %d: %s of \"%s\" is \"%s\", not \"%s\"",
                            lines + 1, names[form], text, out.data, want);
        }
    }
    CHECK(lines > 500);
    fv_text_free(ctx, &out);
    free(file);
    free(all);
}

/* ---- single code points ---------------------------------------------------------- */

static void code_points(void)
{
    CHECK_STR(fv_category_name(fv_unicode_category('A')), "Lu");
    CHECK_STR(fv_category_name(fv_unicode_category(0x3B1)), "Ll");
    CHECK_STR(fv_category_name(fv_unicode_category(0x4E2D)), "Lo");
    CHECK_STR(fv_category_name(fv_unicode_category(0x301)), "Mn");
    CHECK_STR(fv_category_name(fv_unicode_category(0x10FFFF)), "Cn");
    CHECK_STR(fv_category_name(fv_unicode_category(0xFFFFFFFF)), "Cn");
    CHECK_STR(fv_category_name((fv_category)1000), "Cn");
    CHECK(fv_unicode_is_letter(0x1F600) == false && fv_unicode_is_letter('z'));
    CHECK(fv_unicode_is_mark(0x20DD) && !fv_unicode_is_mark('a'));
    CHECK(fv_unicode_is_number(0x2167) && fv_unicode_is_number(0xBD) && !fv_unicode_is_number('a'));
    CHECK(fv_unicode_is_punctuation(0x3002) && !fv_unicode_is_punctuation('+'));
    CHECK(fv_unicode_is_space(0xA0) && fv_unicode_is_space(0x85) && fv_unicode_is_space('\t'));
    CHECK(!fv_unicode_is_space(0x200B) && !fv_unicode_is_space(0x1C) && !fv_unicode_is_space('a'));
    CHECK_EQ(fv_unicode_combining(0x301), 230);
    CHECK_EQ(fv_unicode_combining(0xFFFFFFFF), 0);
    uint32_t lower[2];
    CHECK_EQ(fv_unicode_lower(0x130, lower), 2);
    CHECK(lower[0] == 'i' && lower[1] == 0x307);
    CHECK_EQ(fv_unicode_lower(0x10400, lower), 1);
    CHECK_EQ(lower[0], 0x10428);
    CHECK_EQ(fv_unicode_lower(0xFFFFFFFF, lower), 1);
    CHECK_EQ(lower[0], 0xFFFFFFFF);
}

/* ---- edges ----------------------------------------------------------------------- */

static void broken_text_is_refused(void)
{
    static const char *const broken[] = {"a\xC3", "\xED\xA0\x80", "\xC0\x80", "\xF5\x80\x80\x80"};
    fv_text out = {0};
    CHECK_OK(ctx, fv_text_lower(ctx, "KEPT", 4, &out));
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        for (int form = FV_NORMAL_FORM_NFC; form <= FV_NORMAL_FORM_NFKD; form++)
            CHECK_EQ(
                fv_text_normalize(ctx, broken[i], strlen(broken[i]), (fv_normal_form)form, &out),
                FV_ERR_FORMAT);
        CHECK_EQ(fv_text_lower(ctx, broken[i], strlen(broken[i]), &out), FV_ERR_FORMAT);
    }
    CHECK_EQ(fv_text_normalize(ctx, "a", 1, (fv_normal_form)7, &out), FV_ERR_ARGUMENT);
    CHECK_STR(out.data, "kept");
    fv_text_free(ctx, &out);
    CHECK(out.data == NULL && out.capacity == 0);
}

/* A long run of marks in the wrong order: sorted in time that grows with its length only. */
static void one_long_run_of_marks(void)
{
    enum { PAIRS = 100000 };
    char *text = malloc(1 + PAIRS * 4);
    fv_text out = {0};
    text[0] = 'a';
    for (size_t i = 0; i < PAIRS; i++)
        memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA3", 4); /* above (230), then below (220) */
    CHECK_OK(ctx, fv_text_normalize(ctx, text, 1 + PAIRS * 4, FV_NORMAL_FORM_NFD, &out));
    CHECK_EQ(out.bytes, 1 + PAIRS * 4);
    CHECK(memcmp(out.data + 1, "\xCC\xA3\xCC\xA3", 4) == 0);
    CHECK(memcmp(out.data + out.bytes - 4, "\xCC\x81\xCC\x81", 4) == 0);
    CHECK_OK(ctx, fv_text_normalize(ctx, text, 1 + PAIRS * 4, FV_NORMAL_FORM_NFC, &out));
    CHECK(memcmp(out.data, "\xE1\xBA\xA1", 3) == 0); /* a with the dot below */
    fv_text_free(ctx, &out);
    free(text);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(recorded_texts);
    RUN(code_points);
    RUN(broken_text_is_refused);
    RUN(one_long_run_of_marks);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
