/*
 * Damages a valid file: truncates it at every byte, flips every bit, sets every byte to 00, 7F and
 * FF, and passes each result to a reader, which may return any status but must not crash.
 *
 *     corrupt_report report = {0};
 *     corrupt_run(data, bytes, read_it, user, &report);
 */
#ifndef FV_TEST_CORRUPT_H
#define FV_TEST_CORRUPT_H

#include "fovea/context.h"

/* Reads a damaged file, kept in memory of exactly that size so that a sanitizer notices any access
 * outside. Returns the reader's status. */
typedef fv_status (*corrupt_reader)(void *user, const void *data, size_t bytes);

typedef struct corrupt_report {
    uint64_t reads;                    /* damaged files passed to the reader */
    uint64_t answers[FV_STATUS_COUNT]; /* how often the reader returned each status */
    double slowest;                    /* seconds for one of them */
} corrupt_report;

void corrupt_run(const void *data, size_t bytes, corrupt_reader read, void *user,
                 corrupt_report *report);

/* Prints the report; fails the test if a reader was slow, ran out of memory, returned an internal
 * error, or rejected nothing. */
void corrupt_conclude(const char *what, const corrupt_report *report);

#endif
