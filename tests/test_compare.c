/*
 * `fovea bench compare`: what it counts is what the shapes say, how far information goes is what
 * the theory says, and the streamed kernel's memory grows with n while the plain form's grows with
 * n^2.
 */
#include <stdlib.h>

#include "support/files.h"
#include "support/markup.h"
#include "support/program.h"

typedef struct row {
    double products, chain, path, bytes, ms;
} row;

static double number_after(const char *line, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *end = strchr(line, '\n'), *at = strstr(line, quoted);
    CHECK(at && (!end || at < end));
    return at ? strtod(at + strlen(quoted), NULL) : NAN;
}

/* The line of a layer at a length. */
static row row_of(const char *name, int n)
{
    char start[96], length[24];
    snprintf(start, sizeof start, "{\"bench\": \"compare\", \"name\": \"%s\"", name);
    snprintf(length, sizeof length, "\"n\": %d,", n);
    for (const char *at = program.out; (at = strstr(at, start)) != NULL; at++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, length);
        if (!end || !found || found > end) continue;
        return (row){number_after(at, "products"), number_after(at, "chain"),
                     number_after(at, "path"), number_after(at, "bytes"), number_after(at, "ms")};
    }
    test_failed(__FILE__, __LINE__, "no line for %s at %d", name, n);
    return (row){NAN, NAN, NAN, NAN, NAN};
}

static void counts_are_those_of_the_formulas(void)
{
    const double d = 64, k = 3;
    for (int n = 64; n <= 256; n *= 2) {
        const row conv = row_of("convolution", n), wide = row_of("dilated", n),
                  gru = row_of("recurrent", n), self = row_of("attention", n),
                  plain = row_of("plain attention", n), local = row_of("local attention", n);
        const int depth = (int)ceil(log(n) / log(k));
        CHECK_EQ(conv.products, k * n * d * d);
        CHECK_EQ(wide.products, depth * k * n * d * d);
        CHECK_EQ(gru.products, 2 * 3 * n * d * d); /* three gates, from input and from state */
        CHECK_EQ(self.products, 4 * n * d * d + 2.0 * n * n * d);
        CHECK_EQ(plain.products, self.products);
        CHECK(n < 128 ? local.products == self.products : local.products < self.products);
        CHECK_EQ(conv.chain, 1);
        CHECK_EQ(wide.chain, depth);
        CHECK_EQ(gru.chain, n + 1);
        CHECK_EQ(self.chain, 4);
        CHECK_EQ(plain.chain, 4);
    }
}

/* Seen in the outputs, not computed from the formula. */
static void paths_are_as_long_as_theory_says(void)
{
    for (int n = 64; n <= 256; n *= 2) {
        CHECK_EQ(row_of("convolution", n).path, n / 2);
        CHECK_EQ(row_of("dilated", n).path, ceil(log(n) / log(3)));
        CHECK_EQ(row_of("recurrent", n).path, n - 1);
        CHECK_EQ(row_of("attention", n).path, 1);
        CHECK_EQ(row_of("plain attention", n).path, 1);
        CHECK_EQ(row_of("local attention", n).path, (n - 1 + 63) / 64);
    }
}

static void only_the_plain_form_needs_memory_in_n_squared(void)
{
    const double plain =
                     row_of("plain attention", 256).bytes / row_of("plain attention", 128).bytes,
                 streamed = row_of("attention", 256).bytes / row_of("attention", 128).bytes;
    CHECK(plain > 2.7);
    CHECK(streamed < 2.3);
    CHECK(row_of("plain attention", 256).bytes > 256 * 256 * 4 * 2); /* scores and weights */
}

static void plot_is_drawn(void)
{
    size_t bytes = 0;
    char *svg = file_read(program_path("plot.svg"), &bytes);
    CHECK(svg != NULL);
    if (!svg) return;
    svg = realloc(svg, bytes + 1);
    svg[bytes] = '\0';
    CHECK(markup_wrong(svg) == NULL);
    CHECK_EQ(count_of(svg, "<circle "), 6 * 3 + 6); /* points and legend */
    CHECK(strstr(svg, ">plain attention</text>"));
    free(svg);
}

static void a_wrong_name_is_reported(void)
{
    program_run("bench compare -q -t 1 -o %s", program_path("plot.jpg"));
    CHECK_EQ(program.code, 2);
    CHECK(strstr(program.err, ".svg"));
    CHECK_STR(program.out, ""); /* before anything is measured */
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_run("bench compare --json -q -t 1 --plot memory -o %s", program_path("plot.svg"));
    CHECK_EQ(program.code, 0);
    RUN(counts_are_those_of_the_formulas);
    RUN(paths_are_as_long_as_theory_says);
    RUN(only_the_plain_form_needs_memory_in_n_squared);
    RUN(plot_is_drawn);
    RUN(a_wrong_name_is_reported);
    program_end();
    return TEST_END();
}
