/* Written dates: formats, fields, the calendar, and the split by date. */
#include "fovea/data.h"

#include <time.h>

#include "data/datasets.h"
#include "support/test.h"

static void known_dates_read_right(void)
{
    static const struct {
        int format, year, month, day;
        const char *written;
    } known[] = {
        {0, 1979, 5, 3, "Thursday, 3 May 1979"},
        {2, 1979, 5, 3, "May the 3rd, 1979"},
        {11, 1979, 5, 3, "3.5.79"},
        {3, 2011, 11, 11, "11th of November 2011"},
        {5, 2000, 2, 29, "Feb 29, '00"},
        {7, 1901, 1, 2, "1901/01/02"},
        {9, 1990, 10, 3, "Mittwoch, den 3. Oktober 1990"},
        {13, 2024, 8, 1, "le jeudi 1er août 2024"},
        {16, 1992, 4, 8, "miércoles, 8 de abril de 1992"},
        {17, 1936, 7, 18, "18 de julio del 36"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        fv_date_pair p;
        CHECK(fv_date_write(known[i].format, known[i].year, known[i].month, known[i].day, &p));
        CHECK_STR(p.written, known[i].written);
    }
}

static void dates_that_are_none_are_refused(void)
{
    fv_date_pair p;
    CHECK(!fv_date_write(0, 1900, 2, 29, &p));
    CHECK(fv_date_write(0, 2000, 2, 29, &p));
    CHECK(!fv_date_write(0, 1999, 13, 1, &p));
    CHECK(!fv_date_write(0, 2100, 1, 1, &p));
    CHECK(!fv_date_write(11, 1929, 12, 31, &p));
    CHECK(fv_date_write(11, 2029, 12, 31, &p));
    CHECK(!fv_date_write(FV_DATE_FORMATS, 2000, 1, 1, &p));
}

/* The number that the digits of a field spell, or -1. */
static int digits_at(const char *text, fv_date_field field)
{
    int point = -1, value = -1;
    for (const char *c = text; *c; c++) {
        point += ((unsigned char)*c & 0xC0) != 0x80;
        if (point < field.begin || point >= field.end || *c < '0' || *c > '9') continue;
        value = (value < 0 ? 0 : value) * 10 + (*c - '0');
    }
    return value;
}

static void pairs_agree_with_themselves(void)
{
    int seen[FV_DATE_FORMATS] = {0};
    for (uint64_t i = 0; i < 5000; i++) {
        fv_date_pair p, again;
        const fv_dates_part part = i % 2 ? FV_DATES_TEST : FV_DATES_TRAIN;
        fv_date_pair_make(3, i, part, &p);
        fv_date_pair_make(3, i, part, &again);
        CHECK_STR(p.written, again.written);
        CHECK_EQ(fv_date_part(p.year, p.month, p.day), part);
        int y, m, d;
        CHECK(sscanf(p.iso, "%d-%d-%d", &y, &m, &d) == 3);
        CHECK(y == p.year && m == p.month && d == p.day && strlen(p.iso) == 10);
        CHECK_EQ(digits_at(p.written, p.day_at), p.day);
        CHECK_EQ(digits_at(p.written, p.year_at), p.year_digits == 4 ? p.year : p.year % 100);
        const int month = digits_at(p.written, p.month_at);
        CHECK(month == p.month || month == -1);
        CHECK(p.month_at.end > p.month_at.begin);
        seen[p.format]++;
    }
    for (int f = 0; f < FV_DATE_FORMATS; f++)
        CHECK(seen[f] > 50);
}

static void weekdays_are_those_of_the_c_library(void)
{
    static const char *const names[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
    for (int year = 1902; year < 2037; year += 3)
        for (int month = 1; month <= 12; month++) {
            struct tm t = {
                .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = 13, .tm_hour = 12};
            fv_date_pair p;
            CHECK(timegm(&t) != (time_t)-1);
            CHECK(fv_date_write(0, year, month, 13, &p));
            CHECK(strncmp(p.written, names[t.tm_wday], strlen(names[t.tm_wday])) == 0);
        }
}

/* About one date in ten is a test date. */
static void the_split_is_by_date(void)
{
    int test = 0, all = 0;
    for (int year = 1900; year < 2100; year++)
        for (int month = 1; month <= 12; month++)
            for (int day = 1; day <= 28; day++, all++)
                test += fv_date_part(year, month, day) == FV_DATES_TEST;
    CHECK_NEAR((double)test / all, 0.1, 0.01);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(known_dates_read_right);
    RUN(dates_that_are_none_are_refused);
    RUN(pairs_agree_with_themselves);
    RUN(weekdays_are_those_of_the_c_library);
    RUN(the_split_is_by_date);
    return TEST_END();
}
