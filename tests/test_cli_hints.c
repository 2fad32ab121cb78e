/* What the program says to people who come from other tools: commands by other names, and models
 * that are not a folder. */
#include <string.h>
#include <sys/stat.h>

#include "support/program.h"
#include "support/test.h"

static void commands_of_other_tools(void)
{
    static const struct {
        const char *typed, *hint;
    } cases[] = {
        {"generate gpt2", "unknown command 'generate'; use fovea run MODEL"},
        {"chat", "use fovea run MODEL"},
        {"plot x", "use fovea look MODEL"},
        {"download gpt2", "use hf download NAME"},
        {"-m gpt2", "use the model as the first word"},
        {"-v", "use fovea version"},
        {"RUN x", "did you mean 'run'?"},
        {"Tokenize", "did you mean 'tokenize'?"},
        {"trian", "did you mean 'train'?"},
        {"help generate", "use fovea run MODEL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        program_run("%s", cases[i].typed);
        expect(2, NULL, cases[i].hint);
        CHECK(strstr(program.err, "see 'fovea help'"));
    }
    program_run("zzzzzz");
    expect(2, NULL, "unknown command 'zzzzzz'\n");
}

static void models_that_are_no_folder(void)
{
    static const char *const verbs[] = {"run %s hello", "look %s hello", "eval %s x y"};
    program_text("m.gguf", "GGUF");
    program_text("m.safetensors", "");
    program_text("pytorch_model.bin", "");
    program_text("notes.txt", "");
    for (int i = 0; i < 3; i++) {
        char line[600];
        const struct {
            const char *model, *says;
        } cases[] = {
            {"openai-community/gpt2", "hf download openai-community/gpt2 --local-dir gpt2"},
            {"m.gguf", "GGUF is not supported"},
            {"m.safetensors", "is a file of weights; a model is a folder"},
            {"pytorch_model.bin", "is a file of weights; a model is a folder"},
            {"notes.txt", "is a file; a model is a folder with config.json"},
            {".", "has no config.json"},
        };
        for (int c = 0; c < 6; c++) {
            const char *model = c == 0 ? cases[c].model : program_path(cases[c].model);
            snprintf(line, sizeof line, verbs[i], model);
            program_run("%s", line);
            expect(3, NULL, cases[c].says);
        }
        snprintf(line, sizeof line, verbs[i], "''");
        program_run("%s", line);
        expect(2, NULL, "is empty; expected a path");
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(commands_of_other_tools);
    RUN(models_that_are_no_folder);
    program_end();
    return TEST_END();
}
