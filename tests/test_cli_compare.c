/* fovea compare as its users see it. */
#include <sys/stat.h>

#include "fovea/file.h"
#include "support/program.h"
#include "support/tensors.h"

static fv_ctx *ctx;

/* A file of a weight [2, 3] whose element `at` is moved by `by`, and a bias of that type. */
static void write_model(const char *name, int at, float by, fv_dtype bias)
{
    float weight[6] = {1, -2, 4, 0.5F, 8, -1};
    weight[at] += by;
    fv_scope_begin(ctx);
    fv_tensor *tensors[] = {tensor_of(ctx, weight, 2, 2, 3),
                            fv_cast(ctx, tensor_of(ctx, (float[]){1, 3, 0.1F}, 1, 3), bias)};
    const char *names[] = {"layer.weight", "layer.bias"};
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, 2, NULL, 0, program_path(name)));
    fv_scope_end(ctx);
}

static void compare(const char *a, const char *b, const char *more)
{
    program_run("compare %s %s %s", program_path(a), program_path(b), more);
}

static void equal_files_are_equal_to_the_bit(void)
{
    write_model("a.safetensors", 0, 0, FV_F32);
    write_model("b.safetensors", 0, 0, FV_F32);
    compare("a.safetensors", "b.safetensors", "");
    expect(0, "2 tensors, equal to the bit\n", "");
    compare("a.safetensors", "b.safetensors", "--json");
    expect(0, "{\"tensors\": 2, \"different\": 0, \"equal\": true, \"equal_bits\": true}\n", "");
    mkdir(program_path("model"), 0700);
    write_model("model/model.safetensors", 0, 0, FV_F32);
    compare("model", "b.safetensors", "");
    expect(0, "2 tensors, equal to the bit\n", "");
}

static void values_are_compared(void)
{
    write_model("moved.safetensors", 2, 0.25F, FV_F32);
    compare("a.safetensors", "moved.safetensors", "");
    expect(1, "layer.weight                             0.25      0.0588    1 of 6\n", "");
    expect(1, "1 of 2 tensors differ\n", "");
    compare("a.safetensors", "moved.safetensors", "--json");
    expect(1, "{\"name\": \"layer.weight\", \"difference\": \"values\"", "");
    expect(1, "\"absolute\": 0.25, \"relative\": 0.058823529411764705, \"differing\": 1", "");
    expect(1, "\"different\": 1, \"equal\": false, \"equal_bits\": false}", "");
    compare("a.safetensors", "moved.safetensors", "--tolerance 0.25");
    expect(0, "2 tensors, equal within 0.25 (largest difference 0.25)\n", "");
    compare("a.safetensors", "moved.safetensors", "--tolerance 0.25 --json");
    expect(0, "\"different\": 0, \"equal\": true, \"equal_bits\": false}", "");
    compare("a.safetensors", "moved.safetensors", "--tolerance 0.24");
    expect(1, "1 of 2 tensors differ", "");
    write_model("nan.safetensors", 1, NAN, FV_F32);
    compare("a.safetensors", "nan.safetensors", "--tolerance 1e9");
    expect(1, "inf       inf       1 of 6", "");
    compare("nan.safetensors", "nan.safetensors", "");
    expect(0, "equal to the bit", "");
}

static void types_are_compared(void)
{
    write_model("bf16.safetensors", 0, 0, FV_BF16);
    write_model("f16.safetensors", 0, 0, FV_F16);
    compare("a.safetensors", "bf16.safetensors", "--tolerance 1");
    expect(1, "layer.bias                               9.77e-05  0.000976  F32, BF16\n", "");
    compare("a.safetensors", "f16.safetensors", "");
    expect(1, "layer.bias                               2.44e-05  0.000244  F32, F16\n", "");
    compare("a.safetensors", "bf16.safetensors", "--json");
    expect(1, "\"difference\": \"dtype\", \"a\": {\"dtype\": \"F32\", \"shape\": [3]}", "");
}

/* More tensors than are shown, under long names; the worst come first. */
static void the_worst_are_shown(void)
{
    enum { TENSORS = 30 };
    char name[TENSORS][80];
    const char *names[TENSORS];
    fv_tensor *tensors[2][TENSORS];
    fv_scope_begin(ctx);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name[i], sizeof name[i],
                 "a.very.long.name.of.a.model.with.many.layers.number.%02d", i);
        names[i] = name[i];
        tensors[0][i] = tensor_of(ctx, (float[]){1, 2}, 1, 2);
        tensors[1][i] = tensor_of(ctx, (float[]){1, 2 + (float)i}, 1, 2);
    }
    tensors[1][3] = tensor_of(ctx, (float[]){1, 2}, 2, 1, 2);
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors[0], TENSORS, NULL, 0,
                                      program_path("many.safetensors")));
    CHECK_OK(ctx, fv_safetensors_save(ctx, names + 1, tensors[1] + 1, TENSORS - 1, NULL, 0,
                                      program_path("others.safetensors")));
    fv_scope_end(ctx);
    compare("many.safetensors", "others.safetensors", "");
    expect(1, "... and 10 more\n", "");
    expect(1, "30 of 30 tensors differ\n", "");
    const char *missing = strstr(program.out, "layers.number.00 only in A\n"),
               *shape = strstr(program.out, "layers.number.03 [2], [1,2]\n"),
               *worst = strstr(program.out, "layers.number.29 29 ");
    CHECK(missing && shape && worst && missing < shape && shape < worst);
    CHECK(!strstr(program.out, "number.05")); /* a small difference */
    for (const char *line = program.out, *end; (end = strchr(line, '\n')); line = end + 1)
        CHECK(end - line <= 80);
    compare("others.safetensors", "many.safetensors", "");
    expect(1, "layers.number.00 only in B\n", "");
    compare("many.safetensors", "others.safetensors", "--json");
    expect(1, "number.05", "");
    expect(
        1,
        "\"difference\": \"only in A\", \"a\": {\"dtype\": \"F32\", \"shape\": [2]}, \"b\": null}",
        "");
}

static void mistakes_are_named(void)
{
    program_run("compare %s", program_path("a.safetensors"));
    expect(2, "", "compare: ");
    compare("a.safetensors", "absent.safetensors", "");
    expect(3, "", "compare: ");
    mkdir(program_path("empty"), 0700);
    compare("empty", "a.safetensors", "");
    expect(3, "", "expected a folder with model.safetensors.index.json, model.safetensors or ");
    program_text("broken.safetensors", "not a model");
    compare("a.safetensors", "broken.safetensors", "");
    expect(3, "", "broken.safetensors");
    compare("a.safetensors", "b.safetensors", "--tolerance -1");
    expect(2, "", "tolerance");
}

/* One line in the table of verbs is enough for all of these. */
static void help_knows_the_verb(void)
{
    program_run("help");
    expect(0, "  compare    compare two models tensor by tensor\n", "");
    program_run("compare --help");
    expect(0, "Usage: fovea compare [OPTION]... A B\n", "");
    expect(0, "--tolerance X", "");
    program_run("help --man");
    expect(0, ".SS compare [OPTION]... A B\n", "");
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (int i = 0; i < 3; i++) {
        program_run("help --completion %s", shells[i]);
        expect(0, "compare", "");
        expect(0, "tolerance", "");
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(equal_files_are_equal_to_the_bit);
    RUN(values_are_compared);
    RUN(types_are_compared);
    RUN(the_worst_are_shown);
    RUN(mistakes_are_named);
    RUN(help_knows_the_verb);
    fv_ctx_destroy(&ctx);
    program_end();
    return TEST_END();
}
