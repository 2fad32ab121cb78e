#include "support/test.h"

#include <stdarg.h>
#include <unistd.h>

static struct {
    int argc;
    char **argv;
    int passed, failed, current;
    const char *name;
} run;

void test_begin(int argc, char **argv)
{
    run.argc = argc;
    run.argv = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
}

static bool selected(const char *name)
{
    for (int i = 1; i < run.argc; i++)
        if (strstr(name, run.argv[i])) return true;
    return run.argc <= 1;
}

void test_run(const char *name, void (*fn)(void))
{
    if (!selected(name)) return;
    run.name = name;
    run.current = 0;
    fn();
    if (run.current)
        run.failed++;
    else
        run.passed++;
    run.name = NULL;
}

void test_failed(const char *file, int line, const char *fmt, ...)
{
    enum { MOST = 20 };
    if (!run.name)
        run.failed++; /* what is prepared before the first RUN, or cleared after the last */
    run.current++;
    if (run.current > MOST) return;
    printf("%s:%d: %s: ", file, line, run.name ? run.name : "outside of RUN");
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("%s\n", run.current == MOST ? " (further failures of this test not shown)" : "");
    if (getenv("FV_FAIL_FAST")) {
        fflush(stdout);
        _exit(1);
    }
}

int test_failures(void) { return run.current; }

const char *test_path(const char *rest)
{
    static char paths[4][1024];
    static int next;
    const char *dir = getenv("FV_TEST_DIR");
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir ? dir : "tests", rest);
    return path;
}

int test_end(void)
{
    printf("%d passed, %d failed\n", run.passed, run.failed);
    return run.failed || run.passed == 0 ? 1 : 0;
}
