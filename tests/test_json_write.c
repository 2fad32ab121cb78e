/* The JSON writer, and numbers as text. */
#include <float.h>
#include <locale.h>

#include "base/ctx.h"
#include "io/decimal.h"
#include "io/json_write.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- numbers --------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static void check_round_trip(double value)
{
    char text[FV_DECIMAL_BYTES];
    double back = NAN;
    size_t n = fv_double_to_decimal(value, text);
    CHECK(n > 0 && n < sizeof text && strlen(text) == n);
    CHECK(fv_decimal_to_double(text, n, &back));
    if (memcmp(&back, &value, sizeof back) != 0)
        test_failed(__FILE__, __LINE__, "%.17g was written %s and read %.17g", value, text, back);
}

static void numbers_round_trip(void)
{
    uint64_t state = 1;
    const double special[] = {
        0.0,  -0.0, DBL_MAX, DBL_MIN, 5e-324, -DBL_MAX, DBL_EPSILON, 1.0 / 3, 9007199254740991,
        1e15, 1e16, 1e17,    1e21,    1e22,   1e23,     123456.789};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        check_round_trip(special[i]);
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = next_random(&state);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_round_trip(value);
    }
}

/* Texts with points against the C library, which reads them in the "C" locale of this test. */
static void numbers_are_nearest(void)
{
    uint64_t state = 2;
    char text[1200];
    for (int i = 0; i < 20000; i++) {
        size_t used = 0;
        int whole = 1 + (int)(next_random(&state) % 25), part = 1 + (int)(next_random(&state) % 25);
        if (i % 1000 == 0) part = 1000; /* more digits than are kept */
        text[used++] = (char)('1' + next_random(&state) % 9);
        for (int k = 1; k < whole; k++)
            text[used++] = (char)('0' + next_random(&state) % 10);
        text[used++] = '.';
        for (int k = 0; k < part; k++)
            text[used++] = (char)('0' + next_random(&state) % 10);
        int exponent = (int)(next_random(&state) % 600) - 320;
        used += (size_t)snprintf(text + used, sizeof text - used, "e%d", exponent);
        double got = NAN, wanted = strtod(text, NULL);
        bool fits = fv_decimal_to_double(text, used, &got);
        CHECK_EQ(fits, isfinite(wanted));
        if (fits && got != wanted)
            test_failed(__FILE__, __LINE__, "%s is %.17g, not %.17g", text, got, wanted);
    }
}

/* Exactly between two doubles, and one digit a thousand places later. */
static void halves(void)
{
    char text[1200] = "9007199254740993.";
    double got = NAN;
    size_t n = strlen(text);
    memset(text + n, '0', 1000);
    n += 1000;
    CHECK(fv_decimal_to_double(text, n, &got));
    CHECK(got == 9007199254740992.0);
    text[n - 1] = '1';
    CHECK(fv_decimal_to_double(text, n, &got));
    CHECK(got == 9007199254740994.0);
}

static void locale_does_not_matter(void)
{
    const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set) {
        printf("skipped: no locale with a decimal comma is installed\n");
        return;
    }
    double got = NAN;
    char text[FV_DECIMAL_BYTES];
    CHECK(fv_decimal_to_double("1234.5e1", 8, &got));
    CHECK(got == 12345.0);
    fv_double_to_decimal(0.25, text);
    CHECK_STR(text, "0.25");
    fv_double_to_decimal(-1.5e300, text);
    CHECK_STR(text, "-1.5e300");
    setlocale(LC_NUMERIC, "C");
}

/* ---- writer ---------------------------------------------------------------------- */

static void writer_escapes(void)
{
    fv_json_writer w;
    static const char wanted[] =
        "{\"a\\\"b\":[1,-2.5,true,null,\"\\u0001\\n\xC3\xA9\"],\"e\":{},\"f\":[]}";
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    fv_json_key(&w, "a\"b");
    fv_json_open(&w, '[');
    fv_json_int(&w, 1);
    fv_json_real(&w, -2.5);
    fv_json_bool(&w, true);
    fv_json_null(&w);
    fv_json_string(&w, "\x01\n\xC3\xA9");
    fv_json_close(&w, ']');
    fv_json_key(&w, "e");
    fv_json_open(&w, '{');
    fv_json_close(&w, '}');
    fv_json_key(&w, "f");
    fv_json_open(&w, '[');
    fv_json_close(&w, ']');
    fv_json_close(&w, '}');
    CHECK_OK(ctx, fv_json_end(&w));
    CHECK(w.bytes == strlen(wanted) && memcmp(w.text, wanted, w.bytes) == 0);
    fv_json_free(&w);

    fv_json_string(&w, "\xFF");
    CHECK_EQ(fv_json_end(&w), FV_ERR_ARGUMENT);
    fv_json_free(&w);
    fv_json_real(&w, INFINITY);
    CHECK_EQ(fv_json_end(&w), FV_ERR_ARGUMENT);
    fv_json_free(&w);
    fv_json_real(&w, NAN);
    CHECK_EQ(fv_json_end(&w), FV_ERR_ARGUMENT);
    fv_json_free(&w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(numbers_round_trip);
    RUN(numbers_are_nearest);
    RUN(halves);
    RUN(locale_does_not_matter);
    RUN(writer_escapes);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
