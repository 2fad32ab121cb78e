/*
 * 'fovea run' and 'fovea look' with models that point at points: outputs, pictures and JSON, points
 * from standard input, scaled points, and files that are refused with file, line and what was
 * expected.
 */
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"

static char model[512], sorter[512];

static const char *write_points(const char *name, const char *text)
{
    const char *path = folder_path(name);
    file_write(path, text, strlen(text));
    return path;
}

static const char cities[] =
    "x\ty\n0.1\t0.1\n0.9 0.2\n# a comment\n\n0.8,0.9\n0.2\t0.7\n0.5\t0.4\n";

/* Untrained: what is tested does not depend on weights. */
static void train_models(void)
{
    snprintf(model, sizeof model, "%s", folder_path("hull"));
    snprintf(sorter, sizeof sorter, "%s", folder_path("sort"));
    program_run("train %s --small --train.steps 2 --train.eval_every 2 -o %s",
                test_path("../recipes/hull.toml"), model);
    expect(0, NULL, NULL);
    program_run("train %s --small --train.steps 2 --train.eval_every 2 -o %s",
                test_path("../recipes/sort.toml"), sorter);
    expect(0, NULL, NULL);
}

static void outputs_are_printed(void)
{
    char scaled[256] = "";
    write_points("cities.tsv", cities);
    program_run("run %s %s", model, folder_path("cities.tsv"));
    expect(0, "% of the area", NULL);
    /* the same points ten times as large, in another place */
    const double xy[][2] = {{0.1, 0.1}, {0.9, 0.2}, {0.8, 0.9}, {0.2, 0.7}, {0.5, 0.4}};
    for (int i = 0; i < 5; i++)
        snprintf(scaled + strlen(scaled), sizeof scaled - strlen(scaled), "%g\t%g\n",
                 100 + 10 * xy[i][0], 200 + 10 * xy[i][1]);
    write_points("far.tsv", scaled);
    program_run("run %s %s --json --beam 3 --nbest 2", model, folder_path("far.tsv"));
    expect(0, "\"problem\": \"hull\"", NULL);
    CHECK(strstr(program.out, "\"area\": ") && strstr(program.out, "\"log_prob\": "));
    write_points("numbers.tsv", "42\n7\n99\n0\n");
    program_run("run %s -f %s", sorter, folder_path("numbers.tsv"));
    expect(0, "sorted", NULL);
}

static void pictures_are_drawn(void)
{
    static const char *const endings[] = {"svg", "png", "pdf", "html", "txt"};
    char points[512];
    snprintf(points, sizeof points, "%s", folder_path("cities.tsv"));
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char picture[600];
        size_t bytes = 0;
        snprintf(picture, sizeof picture, "%s.%s", points, endings[i]);
        program_run("look %s %s -o %s", model, points, picture);
        expect(0, NULL, "wrote");
        void *data = file_read(picture, &bytes);
        CHECK(data && bytes > 300);
        free(data);
    }
    program_run("look %s %s", model, points);
    expect(0, "probability of each input at each step", NULL);
    program_run("look %s %s --json", model, points);
    expect(0, "\"probabilities\": [[", NULL);
    program_run("look %s %s", sorter, folder_path("numbers.tsv"));
    expect(0, "sorted", NULL);
    program_run("look %s %s -o %s.npz", model, points, points);
    expect(2, NULL, "does not apply to points");
    program_run("look %s %s --rollout", model, points);
    expect(2, NULL, "--rollout does not apply to points");
}

static void bad_files_are_refused(void)
{
    const struct {
        const char *model, *text, *message;
    } bad[] = {
        {model, "0.1 0.2\n0.3\n0.5 0.6\n", ":2: expected 2 numbers"},
        {model, "0.1 0.2\n0.3 0.4 0.5\n0.5 0.6\n", ":2: more than 2 numbers"},
        {model, "0.1 0.2\n0.3 nan\n0.5 0.6\n", ":2: "},
        {model, "nan 0.2\n0.3 0.4\n0.5 0.6\n", ":1: "},
        {model, "0.1 0.2\n0.3 inf\n0.5 0.6\n", "expected a number from -1e6 to 1e6"},
        {model, "0.1 0.2\n0.3 1e300\n0.5 0.6\n", ":2: "},
        {model, "0.1 0.2\n0.3 0.4x\n0.5 0.6\n", ":2: expected 2 numbers"},
        {model, "0.1 0.2\n0.3 0.4\n", "2 points, expected 3 or more"},
        {model, "", "0 points"},
        {model, "\xff\xfe\n", ""},
        {sorter, "1\n2.5\n", ":2: 2.5, expected an integer from 0 to 99"},
        {sorter, "1\n100\n", "expected an integer from 0 to 99"},
        {sorter, "-1\n", ":1: -1"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_points("bad.tsv", bad[i].text);
        program_run("run %s %s", bad[i].model, folder_path("bad.tsv"));
        CHECK(program.code != 0 && program.signal == 0);
        if (!strstr(program.err, bad[i].message))
            test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", program.err, bad[i].message);
    }
    /* one point more than there may be */
    char *many = malloc(16 * 1025 + 1);
    size_t used = 0;
    for (int i = 0; many && i < 1025; i++)
        used += (size_t)snprintf(many + used, 16, "%d %d\n", i, i * i % 97);
    if (many) write_points("many.tsv", many);
    free(many);
    program_run("run %s %s", model, folder_path("many.tsv"));
    expect(3, NULL, "more than 1024 points");
    program_run("run %s %s", model, folder_path("none.tsv"));
    CHECK(program.code != 0);
    program_run("run %s %s --sample", model, folder_path("cities.tsv"));
    expect(2, NULL, "--sample does not apply");
}

TEST_MAIN(argc, argv)
{
    program_needed();
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(train_models);
    RUN(outputs_are_printed);
    RUN(pictures_are_drawn);
    RUN(bad_files_are_refused);
    folder_remove();
    return TEST_END();
}
