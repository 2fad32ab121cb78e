/* fovea_tests FILE [CASE...]: runs the tests of one file, or those whose name contains a CASE. */
#include "support/test.h"

static test_file *files;

void test_register(test_file *file)
{
    file->next = files;
    files = file;
}

/* Whether a path like "tests/test_base.c" is that of `name`, "test_base". */
static bool is_named(const test_file *file, const char *name)
{
    const char *slash = strrchr(file->path, '/');
    const char *base = slash ? slash + 1 : file->path;
    const size_t length = strlen(name);
    return strncmp(base, name, length) == 0 && strcmp(base + length, ".c") == 0;
}

int main(int argc, char **argv)
{
    enum { USAGE = 2 };
    if (argc < 2) {
        fprintf(stderr, "usage: fovea_tests FILE [CASE...], e.g. fovea_tests test_base\n");
        return USAGE;
    }
    for (const test_file *file = files; file; file = file->next)
        if (is_named(file, argv[1])) return file->main(argc - 1, argv + 1);
    fprintf(stderr, "fovea_tests: no tests/%s.c is linked in\n", argv[1]);
    return USAGE;
}
