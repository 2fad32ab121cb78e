/*
 * 'fovea run' and 'fovea look' with models that point at points: outputs, pictures and JSON, points
 * from standard input, scaled points, and files that are refused with file, line and what was
 * expected.
 */
#include "support/files.h"
#include "support/program.h"
#include "support/test.h"

static char model[512], sorter[512], tourist[512], meshes[512];

static const char *write_points(const char *name, const char *text)
{
    const char *path = folder_path(name);
    file_write(path, text, strlen(text));
    return path;
}

static const char cities[] =
    "x\ty\n0.1\t0.1\n0.9 0.2\n# a comment\n\n0.8,0.9\n0.2\t0.7\n0.5\t0.4\n";

static void train(const char *problem, char out[512])
{
    char recipe[64];
    snprintf(out, 512, "%s", folder_path(problem));
    snprintf(recipe, sizeof recipe, "../recipes/%s.toml", problem);
    program_run("train %s --small --train.steps 2 --train.eval_every 2 -o %s", test_path(recipe),
                out);
    expect(0, NULL, NULL);
}

/* Untrained: what is tested does not depend on weights. */
static void train_models(void)
{
    train("hull", model);
    train("sort", sorter);
    train("tsp", tourist);
    train("delaunay", meshes);
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

/* Tours of up to 20 cities are compared with a shortest one, others with a bound. */
static void tours_are_compared(void)
{
    char text[512] = "";
    for (int i = 0; i < 21; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d %d\n", i * i % 23, i);
        write_points("some.tsv", text);
        if (i < 19) continue;
        program_run("run %s %s", tourist, folder_path("some.tsv"));
        expect(0, " % above the shortest\n", "");
        CHECK((strstr(program.out, ", at most ") != NULL) == (i == 20));
        program_run("look %s %s", tourist, folder_path("some.tsv"));
        expect(0, "tsp: length ", "");
    }
    write_points("one.tsv", "3 4\n");
    program_run("run %s %s", tourist, folder_path("one.tsv"));
    expect(0, "0\tlength 0\n", "");
    program_run("look %s %s -o %s", tourist, folder_path("one.tsv"), folder_path("one.svg"));
    expect(0, "", "one.svg (tsp: length 0)");
}

/* Three points are one triangle whatever the weights are; points on a line are none. */
static void sets_without_an_answer(void)
{
    write_points("three.tsv", "0.1 0.1\n0.9 0.2\n0.5 0.8\n");
    program_run("run %s %s", meshes, folder_path("three.tsv"));
    expect(0, "\t1 triangle, 100.0 % of the triangulation\n", "");
    write_points("line.tsv", "1 1\n2 2\n3 3\n4 4\n");
    write_points("twice.tsv", "1 1\n2 3\n1 1\n4 4\n");
    const char *const both[] = {model, meshes};
    for (int i = 0; i < 2; i++) {
        program_run("run %s %s", both[i], folder_path("line.tsv"));
        expect(0, "\tnothing to compare with: all inputs are on one line\n", "");
        program_run("run %s %s", both[i], folder_path("twice.tsv"));
        expect(0, "\tnothing to compare with: inputs 0 and 2 are the same point\n", "");
        program_run("look %s %s", both[i], folder_path("line.tsv"));
        expect(0, ": nothing to compare with: all inputs are on one line\n", "");
    }
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
    program_run("look %s %s --json -o %s.svg", model, points, points);
    expect(0, "\"probabilities\": [[", "wrote ");
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
        {model, "0.1 0.2\n", "1 point, expected 3 or more"},
        {model, "", "0 points"},
        {model, "\xff\xfe\n", ""},
        {sorter, "1\n2.5\n", ":2: 2.5, expected an integer from 0 to 99"},
        {sorter, "1\n100\n", "expected an integer from 0 to 99"},
        {sorter, "-1\n", ":1: -1"},
        {sorter, "0.1\n", ":1: 0.1, expected an integer"},
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
    RUN(tours_are_compared);
    RUN(sets_without_an_answer);
    RUN(pictures_are_drawn);
    RUN(bad_files_are_refused);
    folder_remove();
    return TEST_END();
}
