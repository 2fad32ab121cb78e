#include "support/corrupt.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/test.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void give(const void *data, size_t bytes, corrupt_reader read, void *user,
                 corrupt_report *report)
{
    double start = seconds();
    fv_status status = read(user, data, bytes);
    double taken = seconds() - start;
    if (taken > report->slowest) report->slowest = taken;
    report->reads++;
    if (status >= 0 && status < FV_STATUS_COUNT) report->answers[status]++;
}

void corrupt_run(const void *data, size_t bytes, corrupt_reader read, void *user,
                 corrupt_report *report)
{
    static const unsigned char values[] = {0x00, 0x7F, 0xFF};
    for (size_t n = 0; n < bytes; n++) {
        unsigned char *cut = malloc(n ? n : 1);
        if (!cut) abort();
        memcpy(cut, data, n);
        give(cut, n, read, user, report);
        free(cut);
    }
    unsigned char *copy = malloc(bytes);
    if (!copy) abort();
    memcpy(copy, data, bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char kept = copy[i];
        for (int bit = 0; bit < 8; bit++) {
            copy[i] = (unsigned char)(kept ^ 1 << bit);
            give(copy, bytes, read, user, report);
        }
        for (size_t v = 0; v < sizeof values; v++) {
            copy[i] = values[v];
            give(copy, bytes, read, user, report);
        }
        copy[i] = kept;
    }
    free(copy);
}

void corrupt_conclude(const char *what, const corrupt_report *r)
{
    printf("%s: %llu damaged files, %llu still good, slowest %.2f ms\n", what,
           (unsigned long long)r->reads, (unsigned long long)r->answers[FV_OK], 1e3 * r->slowest);
    CHECK(r->slowest < 0.1);
    CHECK_EQ(r->answers[FV_ERR_INTERNAL], 0);
    CHECK_EQ(r->answers[FV_ERR_MEMORY], 0);
    CHECK(r->answers[FV_ERR_FORMAT] > 0);
}
