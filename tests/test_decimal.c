/* Decimal integers as files have them: what is one, and the ends of the range. */
#include "io/decimal.h"
#include "support/test.h"

static void integers(void)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"+7", 7},
                {"-12", -12},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"",    "-",
                                      "+",   "--1",
                                      "1-",  "1.0",
                                      " 1",  "1 ",
                                      "x",   "9223372036854775808",
                                      "/",   "1:2",
                                      "1e1", "-9223372036854775809"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 99;
        CHECK(fv_decimal_to_i64(good[i].text, strlen(good[i].text), &value));
        CHECK_EQ(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value = 99;
        if (fv_decimal_to_i64(bad[i], strlen(bad[i]), &value) || value != 99)
            test_failed(__FILE__, __LINE__, "\"%s\" is read as %lld", bad[i], (long long)value);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(integers);
    return TEST_END();
}
