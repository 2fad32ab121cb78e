/*
 * fovea/dates.h: written dates and their ISO form, made without any data: the smallest real
 * translation task there is. English, German, French and Spanish, long and short.
 *
 *     fv_date_pair p;
 *     fv_date_pair_make(seed, 17, FV_DATES_TRAIN, &p);
 *     printf("%s -> %s\n", p.written, p.iso);       // "le 14 juillet 1989 -> 1989-07-14"
 *
 * A pair is a function of (seed, number). Each format fixes the order of its fields; two-digit
 * years mean 1930 to 2029, others run from 1900 to 2099. Training and test are split by calendar
 * date, whatever the format: no date of the one occurs in the other.
 */
#ifndef FOVEA_DATES_H
#define FOVEA_DATES_H

#include <stdbool.h>
#include <stdint.h>

#include "fovea/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fv_dates_part { FV_DATES_TRAIN, FV_DATES_TEST } fv_dates_part;

/* A field in the written form: code points begin .. end - 1. */
typedef struct fv_date_field {
    int begin, end;
} fv_date_field;

enum { FV_DATE_WRITTEN = 80, FV_DATE_ISO = 11, FV_DATE_FORMATS = 18 };

typedef struct fv_date_pair {
    char written[FV_DATE_WRITTEN]; /* UTF-8 */
    char iso[FV_DATE_ISO];         /* "yyyy-mm-dd" */
    int year, month, day;
    int format; /* 0 .. FV_DATE_FORMATS - 1 */
    fv_date_field year_at, month_at, day_at;
    int year_digits; /* 2 or 4, as written */
} fv_date_pair;

FV_API void fv_date_pair_make(uint64_t seed, uint64_t number, fv_dates_part part,
                              fv_date_pair *out);

/* Which part a calendar date belongs to. */
FV_API fv_dates_part fv_date_part(int year, int month, int day);

/* Writes a given date in one of the formats. false: no such date or format, or a format with a
 * two-digit year that cannot mean it. */
FV_API bool fv_date_write(int format, int year, int month, int day, fv_date_pair *out);

#ifdef __cplusplus
}
#endif
#endif
