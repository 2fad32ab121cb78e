/*
 * The test runner: a test file is a list of functions and one RUN line each.
 *
 *     static void adds(void) { CHECK(1 + 1 == 2); CHECK_EQ(fv_checked_add_i64(...), true); }
 *     TEST_MAIN(argc, argv) { TEST_BEGIN(argc, argv); RUN(adds); return TEST_END(); }
 *
 * All files are linked into one program, fovea_tests: `fovea_tests test_base` runs the TEST_MAIN of
 * tests/test_base.c, and `fovea_tests test_base adds` only its tests whose name contains "adds".
 * A failed CHECK prints file:line and the values, and the test continues, or exits if FV_FAIL_FAST
 * is in the environment. TEST_END prints "N passed, N failed".
 */
#ifndef FV_TEST_H
#define FV_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/context.h"

/* A test file in the list of those linked in. */
typedef struct test_file {
    const char *path; /* __FILE__ */
    int (*main)(int argc, char **argv);
    struct test_file *next;
} test_file;

void test_register(test_file *file); /* in tests/main.c */
void test_begin(int argc, char **argv);
void test_run(const char *name, void (*fn)(void));
int test_end(void);
void test_failed(const char *file, int line, const char *fmt, ...) FV_PRINTF(3, 4);
/* Failures so far in the running test. */
int test_failures(void);
/* $FV_TEST_DIR/rest; the text lives until the fourth call after this one. */
const char *test_path(const char *rest);

/* The larger of the worst error so far and another. NaN counts as infinite, since fmax would drop
 * it. */
static inline double test_worse(double worst, double error)
{
    if (isnan(error)) return INFINITY;
    return error > worst ? error : worst;
}

/* The entry point of a test file. argv[0] is the file's name and the rest are the cases to run. It
 * registers itself before main(), so that no list of files is needed. */
#define TEST_MAIN(argc, argv)                                                                      \
    static int test_main(int argc, char **argv);                                                   \
    __attribute__((constructor)) static void test_enter(void)                                      \
    {                                                                                              \
        static test_file self = {__FILE__, test_main, NULL};                                       \
        test_register(&self);                                                                      \
    }                                                                                              \
    static int test_main(int argc, char **argv)

#define TEST_BEGIN(argc, argv) test_begin(argc, argv)
#define RUN(fn)                test_run(#fn, fn)
#define TEST_END()             test_end()

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) test_failed(__FILE__, __LINE__, "%s", #cond);                                 \
    } while (0)
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        long long a_ = (long long)(a), b_ = (long long)(b);                                        \
        if (a_ != b_) test_failed(__FILE__, __LINE__, "%s is %lld, not %lld", #a, a_, b_);         \
    } while (0)
#define CHECK_NEAR(a, b, tol)                                                                      \
    do {                                                                                           \
        double a_ = (double)(a), b_ = (double)(b);                                                 \
        if (!(fabs(a_ - b_) <= (tol)))                                                             \
            test_failed(__FILE__, __LINE__, "%s is %.9g, not %.9g", #a, a_, b_);                   \
    } while (0)
#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        const char *a_ = (a), *b_ = (b);                                                           \
        if (strcmp(a_, b_) != 0) test_failed(__FILE__, __LINE__, "\"%s\", not \"%s\"", a_, b_);    \
    } while (0)
#define CHECK_OK(ctx, expr)                                                                        \
    do {                                                                                           \
        fv_status s_ = (expr);                                                                     \
        if (s_ != FV_OK)                                                                           \
            test_failed(__FILE__, __LINE__, "%s: %s: %s", #expr, fv_status_name(s_),               \
                        fv_ctx_message(ctx));                                                      \
    } while (0)

#endif
