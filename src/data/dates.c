/*
 * Dates. A format is a pattern: %D day, %O ordinal day, %F day with French "1er", %Z day of two
 * digits, %M month number, %Q month of two digits, %N month's name, %S its short form, %W weekday,
 * %Y year, %y year of two digits.
 */
#include "fovea/data.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "data/datasets.h"

typedef enum language { ENGLISH, GERMAN, FRENCH, SPANISH, LANGUAGES } language;

static const char *const months[LANGUAGES][12] = {
    {"January", "February", "March", "April", "May", "June", "July", "August", "September",
     "October", "November", "December"},
    {"Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober",
     "November", "Dezember"},
    {"janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
     "octobre", "novembre", "décembre"},
    {"enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
     "octubre", "noviembre", "diciembre"},
};

static const char *const short_months[12] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                             "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

static const char *const weekdays[LANGUAGES][7] = {
    {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"},
    {"Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"},
    {"dimanche", "lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi"},
    {"domingo", "lunes", "martes", "miércoles", "jueves", "viernes", "sábado"},
};

typedef struct format {
    language in;
    const char *pattern;
} format;

static const format formats[FV_DATE_FORMATS] = {
    {ENGLISH, "%W, %D %N %Y"},
    {ENGLISH, "%N %D, %Y"},
    {ENGLISH, "%N the %O, %Y"},
    {ENGLISH, "%O of %N %Y"},
    {ENGLISH, "%D %S %Y"},
    {ENGLISH, "%S %D, '%y"},
    {ENGLISH, "%M/%D/%Y"},
    {ENGLISH, "%Y/%Q/%Z"},
    {GERMAN, "%D. %N %Y"},
    {GERMAN, "%W, den %D. %N %Y"},
    {GERMAN, "%D.%M.%Y"},
    {GERMAN, "%D.%M.%y"},
    {FRENCH, "%F %N %Y"},
    {FRENCH, "le %W %F %N %Y"},
    {FRENCH, "%Z-%Q-%Y"},
    {SPANISH, "%D de %N de %Y"},
    {SPANISH, "%W, %D de %N de %Y"},
    {SPANISH, "%D de %N del %y"},
};

/* ---- the calendar ----------------------------------------------------------------- */

static bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

static int days_in(int year, int month)
{
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Sunday is 0 (Sakamoto's rule). */
static int weekday_of(int year, int month, int day)
{
    static const int shift[12] = {0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4};
    const int y = month < 3 ? year - 1 : year;
    return (y + y / 4 - y / 100 + y / 400 + shift[month - 1] + day) % 7;
}

static bool is_date(int year, int month, int day)
{
    return year >= 1900 && year <= 2099 && month >= 1 && month <= 12 && day >= 1 &&
           day <= days_in(year, month);
}

/* One date in ten is held out for testing, by a draw that depends on the date only. */
fv_dates_part fv_date_part(int year, int month, int day)
{
    uint32_t words[4];
    fv_rng_draw(fv_rng_key(0x64617465, 0, 0),
                (uint64_t)(((int64_t)year * 400) + (month * 32) + day), 0, words);
    return words[0] % 10 == 0 ? FV_DATES_TEST : FV_DATES_TRAIN;
}

/* ---- writing ---------------------------------------------------------------------- */

/* Text that grows, with its length in code points. */
typedef struct written {
    char *text;
    int bytes, points;
} written;

static void append(written *w, const char *text)
{
    for (; *text && w->bytes + 1 < FV_DATE_WRITTEN; text++) {
        w->points += ((unsigned char)*text & 0xC0) != 0x80;
        w->text[w->bytes++] = *text;
    }
    w->text[w->bytes] = '\0';
}

static void append_number(written *w, const char *printf_format, int value)
{
    char text[16];
    snprintf(text, sizeof text, printf_format, value);
    append(w, text);
}

static const char *ordinal_of(int day)
{
    if (day % 10 == 1 && day != 11) return "st";
    if (day % 10 == 2 && day != 12) return "nd";
    if (day % 10 == 3 && day != 13) return "rd";
    return "th";
}

/* One %x of a pattern; the field it stands for, or NULL. */
static fv_date_field *append_field(written *w, char field, language in, fv_date_pair *p)
{
    switch (field) {
    case 'D':
    case 'O':
    case 'F':
        append_number(w, "%d", p->day);
        if (field == 'O') append(w, ordinal_of(p->day));
        if (field == 'F' && p->day == 1) append(w, "er");
        return &p->day_at;
    case 'Z':
        append_number(w, "%02d", p->day);
        return &p->day_at;
    case 'M':
        append_number(w, "%d", p->month);
        return &p->month_at;
    case 'Q':
        append_number(w, "%02d", p->month);
        return &p->month_at;
    case 'N':
        append(w, months[in][p->month - 1]);
        return &p->month_at;
    case 'S':
        append(w, short_months[p->month - 1]);
        return &p->month_at;
    case 'Y':
        append_number(w, "%d", p->year);
        p->year_digits = 4;
        return &p->year_at;
    case 'y':
        append_number(w, "%02d", p->year % 100);
        p->year_digits = 2;
        return &p->year_at;
    default:
        append(w, weekdays[in][weekday_of(p->year, p->month, p->day)]);
        return NULL;
    }
}

bool fv_date_write(int number, int year, int month, int day, fv_date_pair *out)
{
    if (number < 0 || number >= FV_DATE_FORMATS || !is_date(year, month, day)) return false;
    const format *f = &formats[number];
    if (strstr(f->pattern, "%y") && (year < 1930 || year > 2029)) return false;
    *out = (fv_date_pair){.year = year, .month = month, .day = day, .format = number};
    snprintf(out->iso, sizeof out->iso, "%04u-%02u-%02u", (unsigned)year % 10000u,
             (unsigned)month % 100u, (unsigned)day % 100u);
    written w = {.text = out->written};
    for (const char *c = f->pattern; *c; c++) {
        if (*c != '%') {
            append(&w, (char[]){*c, '\0'});
            continue;
        }
        const int begin = w.points;
        fv_date_field *field = append_field(&w, *++c, f->in, out);
        if (field) *field = (fv_date_field){begin, w.points};
    }
    return true;
}

/* ---- drawing ---------------------------------------------------------------------- */

void fv_date_pair_make(uint64_t seed, uint64_t number, fv_dates_part part, fv_date_pair *out)
{
    const uint64_t key = fv_rng_key(seed, 0x64617465, (uint64_t)part);
    /* Skips draws that are not a date, belong to the other part, or cannot have a two-digit year.
     */
    for (uint64_t round = 0;; round++) {
        uint32_t r[4];
        fv_rng_draw(key, number, round, r);
        const int year = 1900 + (int)(r[0] % 200), month = 1 + (int)(r[1] % 12);
        const int day = 1 + (int)(r[2] % 31), which = (int)(r[3] % FV_DATE_FORMATS);
        if (!is_date(year, month, day) || fv_date_part(year, month, day) != part) continue;
        if (fv_date_write(which, year, month, day, out)) return;
    }
}
