/* fovea train, eval, run and look of LSTMN models, and what they refuse. */
#include <stdlib.h>

#include "support/files.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmade = \"sentences\"\ntrain_pairs = 200\nvalid_pairs = 20\nlength = 8\n"
    "[tokens]\nkind = \"word\"\nmin_count = 1\n"
    "[lstmn]\nhidden = 8\ncontext = 8\n[model]\nkind = \"lstmn\"\n"
    "[train]\ntask = \"language\"\nsteps = 4\nbatch_examples = 4\nwarmup = 0\n";

static char model[256], plain[256], classes[256];

static void train(const char *name, const char *more, char out[256])
{
    snprintf(out, 256, "%s", program_path(name));
    program_run("train %s -o %s -t 1 %s", program_path("r.toml"), out, more);
    expect(0, NULL, "the model is in");
}

static void models_are_trained(void)
{
    program_text("r.toml", recipe);
    train("tape", "--lstmn.layers 2", model);
    train("state", "--lstmn.memory state", plain);
    train("classes", "--train.task classify", classes);
    program_run("eval %s -t 1", model);
    expect(0, "loss  ", NULL);
}

static void texts_are_continued(void)
{
    program_run("run %s --prompt the -n 4 --no-repeat-ngram 1 -t 1", model);
    expect(0, " ", NULL);
    CHECK_EQ(strspn(program.out, " \n") < strlen(program.out), 1);
    program_run("run %s --prompt the -n 4 --json -t 1", model);
    expect(0, "{\"prompt\": \"the\", \"text\": \"", "");
    expect(0, "\"ended_by\": \"", "");
    program_run("run %s --prompt the -n 30 --no-repeat-ngram 1 --min-tokens 30 -t 1", model);
    expect(0, NULL, "the model's context of 8 tokens was full: earlier tokens were dropped");
    program_run("run %s --prompt the -n 30 --no-context-shift --min-tokens 30 --json -t 1", plain);
    expect(0, "\"tokens\": 7,", "context of 8 tokens was full: the output ends there");
    expect(0, "\"ended_by\": \"context\"", NULL);
    program_run("run %s --prompt the --beam 3 --nbest 2 -n 4 -t 1", plain);
    expect(0, "\n2\t-", NULL);
    /* Words outside the vocabulary are part of the text. */
    program_run("run %s --prompt the -n 400 --sample --temp 3 --seed 1 --min-tokens 400 -t 1",
                model);
    expect(0, "<unk>", NULL);
    program_run("run %s --prompt the -t 1", classes);
    expect(0, "\t", "");
}

static bool written(const char *name, const char *text)
{
    size_t bytes = 0;
    char *data = file_read(program_path(name), &bytes);
    const bool found = data && memmem(data, bytes, text, strlen(text));
    free(data);
    return found;
}

/* The trace of a reading: terminal, pictures, arrays, and words and weights as JSON. */
static void what_was_read_is_shown(void)
{
    program_text("text", "the cat sees\n");
    program_run("look %s -f %s -t 1", model, program_path("text"));
    expect(0, " rows: word being read; columns: words before it\n", "");
    program_run("look %s -f %s -t 1 -o %s", model, program_path("text"), program_path("r.svg"));
    expect(0, "", "r.svg (3 words)");
    CHECK(written("r.svg", ">cat<"));
    program_run("look %s -f %s -t 1 -o %s", model, program_path("text"), program_path("r.png"));
    expect(0, "", "r.png (3 words)");
    CHECK(written("r.png", "PNG"));
    program_run("look %s -f %s -t 1 -o %s", model, program_path("text"), program_path("r.npz"));
    expect(0, "", "r.npz (1 array)");
    program_run("look %s -f %s -t 1 --layer 0 --json", model, program_path("text"));
    expect(0,
           "{\"text\": \"the cat sees\", \"site\": \"layer.0.self\", \"words\": [\"the\", \"cat\", "
           "\"sees\"], \"weights\": [[0, 0, 0], [",
           "");
    CHECK(strstr(program.out, ", 0]]}\n") && !strstr(program.out, "rows:"));
    /* with -o both */
    static const char *const files[] = {"j.svg", "j.npz"};
    for (int i = 0; i < 2; i++) {
        program_run("look %s -f %s -t 1 --json -o %s", model, program_path("text"),
                    program_path(files[i]));
        expect(0, "\"weights\": [[0, 0, 0], [", files[i]);
        CHECK(written(files[i], i ? "layer.1.self" : "<svg"));
    }
}

static void what_is_for_transformers_is_refused(void)
{
    program_run("run %s --prompt the --dtype bf16 -t 1", model);
    expect(4, "", "the weights of a lstmn model stay in f32");
    program_run("run %s --prompt the --cache-dtype bf16 -t 1", model);
    expect(2, "", "--cache-dtype is for Transformers");
    program_run("run %s --prompt the --task generate -t 1", classes);
    expect(2, "", "a lstmn model does not generate");
    program_run("look %s --prompt the -t 1", plain);
    expect(4, "", "this model has no attention");
    program_run("look %s --prompt the --layer 2 -t 1", model);
    expect(2, "", "--layer 2: the model has 2, counted from 0");
    program_run("look %s --prompt the --head 0 -t 1", model);
    expect(2, "", "--head is for Transformers");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    RUN(models_are_trained);
    RUN(texts_are_continued);
    RUN(what_was_read_is_shown);
    RUN(what_is_for_transformers_is_refused);
    program_end();
    return TEST_END();
}
